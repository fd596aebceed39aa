//go:build extended

package system

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/testkit"
)

// TestNodes_RollingSwapLosesNothing runs the commands of docs/several-nodes.md that swap
// three hosts on one database to another version, one after the other, and back, while
// users send each request to another node than the previous one: no request may fail, and
// every mail and event is delivered, even if a node dies at the end.
func TestNodes_RollingSwapLosesNothing(t *testing.T) {
	const page, next = "docs/several-nodes.md", "1.3.0"
	blocks := blocksRunBy(t, page, "TestNodes_RollingSwapLosesNothing")
	if len(blocks) != 4 {
		t.Fatalf("%s has %d blocks of commands for this test, want 4: install, migrate, swap, roll back", page, len(blocks))
	}
	binary, old := testkit.AnotherBuild(t, 2)
	database := testkit.Postgres(t)
	control := &sandbox{dir: t.TempDir(), stopped: true}
	var nodes []*system
	for i := range 3 {
		home := filepath.Join(control.dir, fmt.Sprintf("node%d", i+1))
		node := start(t, options{
			database: database, settings: cheap + unthrottled + links, data: filepath.Join(home, "data"),
			flags: []string{"--plugin", binary, "--bake", "2s"},
		})
		if err := os.Symlink(filepath.Dir(testkit.Binaries(t).Host), filepath.Join(home, "bin")); err != nil {
			t.Fatal(err)
		}
		control.write(t, filepath.Base(home)+"/url", node.url)
		nodes = append(nodes, node)
	}
	control.connect(t, database)
	pack := exec.CommandContext(t.Context(), "go", "run", "./internal/tools/bundle", "build", "--version", next, "--out",
		filepath.Join(control.dir, "dist"), "./plugin")
	pack.Dir = repository
	if out, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	load := travel(nodes)
	load.wantMore(t, 100)
	for _, b := range blocks[:2] {
		control.play(t, b)
	}
	wantVersions(t, nodes, old)
	control.play(t, blocks[2])
	wantVersions(t, nodes, next)
	wantOneAfterTheOther(t, nodes)
	load.wantMore(t, 100)

	control.set = append(control.set, strings.Replace(blocks[2].text, "\nroll "+next+"\n", "\n", 1))
	control.play(t, commandBlock{page: page, kind: "console", text: "$ roll 9.9.9; echo exit $?\nfind refused\n…9.9.9…\nexit 1\n"})
	wantVersions(t, nodes, next)

	back := blocks[3]
	back.text = strings.ReplaceAll(back.text, "1.2.3", old)
	control.play(t, back)
	wantVersions(t, nodes, old)
	load.wantMore(t, 100)
	load.end(t)
	endWithJobs(t, nodes)
}

// connect puts programs into the sandbox that stand for ssh and scp: they run commands in
// the folders of the nodes, where the page's address is that of the node's host.
func (s *sandbox) connect(t *testing.T, database string) {
	t.Helper()
	if err := os.Mkdir(filepath.Join(s.dir, "path"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{
		"ssh": `cd "$(dirname "$0")/../$1" && shift && exec bash -c "${*//http:\/\/127.0.0.1:8080/$(cat url)}"`,
		"scp": `cp "$1" "$(dirname "$0")/../${2%:}/"`,
	} {
		path := filepath.Join(s.dir, "path", name)
		if err := os.WriteFile(path, []byte("#!/bin/bash\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s.set = []string{"export PATH=$PWD/path:$PATH", "export PERSONAL_DATABASE='" + database + "'"}
}

// wantVersions checks which version each node serves.
func wantVersions(t *testing.T, nodes []*system, want string) {
	t.Helper()
	for i, node := range nodes {
		if active := node.plugin(t).Active; active.Version != want || active.State != "serving" {
			t.Errorf("node %d: got version %s, %s, want %s, serving", i+1, active.Version, active.State, want)
		}
	}
}

// wantOneAfterTheOther checks that each node switched after the bake of the previous one.
func wantOneAfterTheOther(t *testing.T, nodes []*system) {
	t.Helper()
	var settled time.Time
	for i, node := range nodes {
		times := map[string]time.Time{}
		for line := range strings.Lines(readFile(t, filepath.Join(node.data, "plugin-events.ndjson"))) {
			var e struct {
				Time time.Time `json:"time"`
				Kind string    `json:"kind"`
			}
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			times[e.Kind] = e.Time
		}
		if !times["switched"].After(settled) || !times["settled"].After(times["switched"]) {
			t.Errorf("node %d: got events %v, want a switch after %v and a completed bake", i+1, times, settled)
		}
		settled = times["settled"]
	}
}

// travellers are users each of whom sends every request to another node than the previous
// one.
type travellers struct {
	nodes   []*system
	stop    chan struct{}
	running sync.WaitGroup

	mu       sync.Mutex
	requests map[*system]int
	users    []user // each has requested a recovery
	failures []error
}

func travel(nodes []*system) *travellers {
	l := &travellers{nodes: nodes, stop: make(chan struct{}), requests: map[*system]int{}}
	for i := range 6 {
		l.running.Go(func() {
			for at := i; ; {
				select {
				case <-l.stop:
					return
				default:
				}
				if err := l.visit(&at); err != nil {
					l.mu.Lock()
					l.failures = append(l.failures, err)
					l.mu.Unlock()
				}
			}
		})
	}
	return l
}

// visit is the life of a new user: they register, use the session, sign in again, request
// a recovery, and sign out. The node of each request follows at.
func (l *travellers) visit(at *int) error {
	ask := func(c call, data any) error {
		*at++
		node := l.nodes[*at%len(l.nodes)]
		r, err := node.exchange(c)
		if err == nil && r.Status != http.StatusOK {
			err = fmt.Errorf("%s at node %d: got %d %s", c.path, *at%len(l.nodes)+1, r.Status, r.Raw)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.requests[node]++
		if err == nil && data != nil {
			err = json.Unmarshal(r.Raw, &struct{ Data any }{data})
		}
		return err
	}
	p := applicant(nil)
	u := user{login: p["login"].(string), email: p["email"].(string), password: p["password"].(string)}
	var session struct {
		ID   int64  `json:"user_id"`
		Hash string `json:"user_hash"`
	}
	if err := ask(call{path: "register/", params: p}, &session); err != nil {
		return err
	}
	for i := range 12 {
		u.pair = pair{session.ID, session.Hash}
		var err error
		switch i {
		case 4:
			err = ask(call{path: "auth/", params: params{"login": u.login, "password": u.password}}, &session)
		case 6:
			err = ask(call{path: "profile/", as: u.pair, params: params{"name": "Anna"}}, nil)
		case 8:
			err = ask(call{path: "recover/", params: params{"login": u.login}}, nil)
		case 11:
			err = ask(call{path: "logout/", as: u.pair, params: params{}}, nil)
		default:
			err = ask(call{path: "auth_refresh/", as: u.pair}, &session)
			if err == nil {
				err = ask(call{method: http.MethodGet, path: "profile/", as: pair{session.ID, session.Hash}}, nil)
			}
		}
		if err != nil {
			return fmt.Errorf("user %d, step %d: %w", u.ID, i, err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users = append(l.users, u)
	return nil
}

// wantMore waits until each node has received n more requests.
func (l *travellers) wantMore(t *testing.T, n int) {
	t.Helper()
	seen := func() (least int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		least = l.requests[l.nodes[0]]
		for _, node := range l.nodes {
			least = min(least, l.requests[node])
		}
		return least
	}
	before := seen()
	eventually(t, "each node receives requests", func() bool { return seen() >= before+n })
}

// end stops the users and checks that no request failed, and that each user got their
// mail, and the site each event, through some node.
func (l *travellers) end(t *testing.T) {
	t.Helper()
	close(l.stop)
	l.running.Wait()
	for i, err := range l.failures[:min(len(l.failures), 5)] {
		t.Errorf("failure %d of %d: %v", i+1, len(l.failures), err)
	}
	for i, node := range l.nodes {
		for _, line := range append(node.log.linesWith("level=WARN"), node.log.linesWith("level=ERROR")...) {
			t.Logf("node %d: %s", i+1, line)
		}
	}
	t.Logf("%d users; requests of the nodes: %d, %d, %d", len(l.users), l.requests[l.nodes[0]], l.requests[l.nodes[1]], l.requests[l.nodes[2]])
	if len(l.users) == 0 {
		t.Fatal("no user has come to the end of their visit")
	}
	wantDelivered(t, l.nodes, l.users, patience)
	// A token from a mail of one node works at another.
	u := l.users[len(l.users)-1]
	for i, node := range l.nodes {
		if found := node.mailsTo(t, mailtext.Recovery, u.email); len(found) > 0 {
			l.nodes[(i+1)%len(l.nodes)].post(t, "recover_confirm/", confirm(found[0].token(t), recovered)).want(t, "")
			return
		}
	}
}

// endWithJobs stops the host of the first node, so that its plugin holds mails and events
// that it cannot deliver, and then kills both: the other nodes deliver these when their
// leases have expired.
func endWithJobs(t *testing.T, nodes []*system) {
	t.Helper()
	plugin, err := os.FindProcess(nodes[0].plugin(t).Active.PID) // by a handle: it may end by itself below
	if err != nil {
		t.Fatal(err)
	}
	if err := nodes[0].process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var users []user
	held, unchanged := 0, 0 // what is not delivered, and at how many looks it was the same
	eventually(t, "the first node holds mails and events, and the others have delivered theirs", func() bool {
		for len(users) == 0 || unchanged > 20 && held == 0 {
			u := nodes[1].newUser(t)
			nodes[1].post(t, "recover/", params{"login": u.login}).want(t, "")
			users, unchanged = append(users, u), 0
		}
		missing := undelivered(t, nodes, users)
		if missing != held {
			held, unchanged = missing, 0
		}
		unchanged++
		return held > 0 && unchanged > 20
	})
	t.Logf("the first node dies with %d mails and events of %d users", held, len(users))
	nodes[0].kill()
	_ = plugin.Kill() // or it would give the jobs back; it may have ended
	wantDelivered(t, nodes, users, 2*time.Minute)
}

// wantDelivered waits until each user has got their mail, and the site each event, through
// some node.
func wantDelivered(t *testing.T, nodes []*system, users []user, within time.Duration) {
	t.Helper()
	for began := time.Now(); undelivered(t, nodes, users) > 0; time.Sleep(100 * time.Millisecond) {
		if time.Since(began) > within {
			t.Fatalf("%d mails and events of %d users are not delivered after %v", undelivered(t, nodes, users), len(users), within)
		}
	}
	mails, events := delivered(t, nodes)
	t.Logf("all is delivered: %d mails to %d users, %d events of %d types and users", inAll(mails), len(mails), inAll(events), len(events))
}

// undelivered returns how many mails and events of the users no node has delivered.
func undelivered(t *testing.T, nodes []*system, users []user) (missing int) {
	t.Helper()
	mails, events := delivered(t, nodes)
	for _, u := range users {
		for _, kind := range []string{"registered", "recovery_requested"} {
			if events[fmt.Sprintf("%s %d", kind, u.ID)] == 0 {
				missing++
			}
		}
		if mails[u.email] == 0 {
			missing++
		}
	}
	return missing
}

func inAll(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// delivered counts the recovery mails by recipient and the events by type and user.
func delivered(t *testing.T, nodes []*system) (mails, events map[string]int) {
	t.Helper()
	mails, events = map[string]int{}, map[string]int{}
	for _, node := range nodes {
		for _, m := range node.mails(t) {
			if m.kind == mailtext.Recovery {
				mails[m.to]++
			}
		}
		for _, line := range node.log.linesWith(`msg="account event"`) {
			_, rest, _ := strings.Cut(line, " type=")
			var kind string
			var id int64
			if _, err := fmt.Sscanf(rest, "%s user_id=%d", &kind, &id); err == nil {
				events[fmt.Sprintf("%s %d", kind, id)]++
			}
		}
	}
	return mails, events
}

// behindProxy serves the nodes as a proxy does that asks the next one when one refuses the connection.
func behindProxy(t *testing.T, nodes []*system) string {
	t.Helper()
	var next atomic.Int64
	transport := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first := int(next.Add(1))
		for i := range nodes {
			out := r.Clone(r.Context())
			out.RequestURI, out.URL.Scheme, out.URL.Host = "", "http", strings.TrimPrefix(nodes[(first+i)%len(nodes)].url, "http://")
			response, err := transport.RoundTrip(out)
			if refused, ok := errors.AsType[*net.OpError](err); ok && refused.Op == "dial" {
				continue
			}
			if err != nil {
				t.Errorf("a node that has accepted the connection: %v", err)
				break
			}
			maps.Copy(w.Header(), response.Header)
			w.WriteHeader(response.StatusCode)
			_, _ = io.Copy(w, response.Body)
			_ = response.Body.Close()
			return
		}
		w.WriteHeader(http.StatusBadGateway)
	}))
	t.Cleanup(proxy.Close)
	return proxy.URL
}

// Three hosts restart one after the other, twice, behind a proxy: no request fails, and no session is lost.
func TestNodes_RollingRestartLosesNothing(t *testing.T) {
	o := options{database: testkit.Postgres(t), settings: cheap + unthrottled + unverified}
	var nodes []*system
	var all []options
	for range 3 {
		own := o
		own.data = filepath.Join(t.TempDir(), "data")
		node := start(t, own)
		own.flags = []string{"--addr", strings.TrimPrefix(node.url, "http://")}
		nodes, all = append(nodes, node), append(all, own)
	}
	at := behindProxy(t, append([]*system(nil), nodes...)) // whose addresses stay
	var calls atomic.Int64
	var wait sync.WaitGroup
	ctx, end := context.WithCancel(t.Context())
	for range 16 {
		u := nodes[0].newUser(t)
		wait.Go(func() {
			own := &system{url: at, api: at + "/api/v1/personal/", client: newClient()}
			defer own.client.CloseIdleConnections()
			for pair := u.pair; ctx.Err() == nil; calls.Add(1) {
				r, err := own.exchange(call{path: "auth_refresh/", as: pair}) // a POST, which Go's client does not repeat
				if err != nil || r.Status != http.StatusOK {
					t.Errorf("got %+v, %v", r, err)
					return
				}
				pair = r.pair(t)
			}
		})
	}
	for i := range 2 * len(nodes) {
		n := i % len(nodes)
		before := calls.Load()
		nodes[n].stop(t)
		eventually(t, "the others go on", func() bool { return calls.Load() > before+100 })
		nodes[n] = start(t, all[n])
		before = calls.Load()
		eventually(t, "the requests go on", func() bool { return calls.Load() > before+100 })
	}
	end()
	wait.Wait()
	t.Logf("%d requests in 6 restarts", calls.Load())
}
