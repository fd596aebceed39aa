//go:build extended

package system

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/uptrace/bun/driver/pgdriver"

	"github.com/cms-personal/personal/internal/testkit"
)

// TestFailover_LosesNothingAcknowledged lets a PostgreSQL with a synchronous standby fail over
// while users use three hosts: the primary is killed, freezes, or becomes read-only, in an order
// by seed. No honest user is signed out, and everything acknowledged is there at the end: accounts,
// passwords, sessions, mails and events.
func TestFailover_LosesNothingAcknowledged(t *testing.T) {
	cluster := startCluster(t)
	outlive(t, cluster, cluster.URL("cms"), func(testkit.Failure) {})
}

// TestFailover_BehindPgBouncer does the same behind PgBouncer in transaction mode, which an
// operator directs to the new primary.
func TestFailover_BehindPgBouncer(t *testing.T) {
	cluster := startCluster(t)
	bouncer := startBouncer(t, cluster.Port())
	outlive(t, cluster, bouncer.url, func(testkit.Failure) { bouncer.direct(t, cluster.Port()) })
}

// outlive runs the users, and fails over twice in each way.
func outlive(t *testing.T, cluster *testkit.PostgresCluster, database string, afterwards func(testkit.Failure)) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var hosts []*system
	data := ""
	for range 3 {
		s := start(t, options{database: database, settings: cheap + unthrottled + unverified + mailedLinks, data: data})
		hosts = append(hosts, s)
		data = filepath.Join(t.TempDir(), "data")
		if err := os.Mkdir(data, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(data, "secret.key"), []byte(readFile(t, filepath.Join(hosts[0].data, "secret.key"))),
			0o600); err != nil {
			t.Fatal(err)
		}
	}
	load := &survivors{hosts: hosts, stop: make(chan struct{})}
	for i := range 9 {
		load.running.Go(func() { load.live(t, i) })
	}
	load.wantMore(t, 200)
	failures := append(testkit.Failures(), testkit.Failures()...)
	random.Shuffle(len(failures), func(i, j int) { failures[i], failures[j] = failures[j], failures[i] })
	for _, how := range failures {
		if err := cluster.FailOver(t.Context(), how); err != nil {
			t.Fatal(err)
		}
		afterwards(how)
		promoted := time.Now()
		load.wantMore(t, 60) // twice as many as callers and hosts
		t.Logf("%s: %v until all hosts served again", how, time.Since(promoted).Round(10*time.Millisecond))
		if err := cluster.Rebuild(t.Context()); err != nil {
			t.Fatal(err)
		}
		load.wantMore(t, 60)
	}
	close(load.stop)
	load.running.Wait()
	load.check(t)
}

// survivors are users who try each request again until it is answered.
type survivors struct {
	hosts    []*system
	stop     chan struct{}
	running  sync.WaitGroup
	answered atomic.Int64

	mu    sync.Mutex
	users []*survivor
}

// survivor is what a user knows: only what was acknowledged.
type survivor struct {
	user
	trying string // a password that was sent, and may have been set
	mailed bool   // a recovery was acknowledged
}

// live is the life of one user after another.
func (l *survivors) live(t *testing.T, at int) {
	ask := func(c call, data any) int {
		at++
		r, err := l.hosts[at%len(l.hosts)].exchange(c)
		if err != nil {
			return 0
		}
		if r.Status < http.StatusInternalServerError {
			l.answered.Add(1)
		}
		if r.Status == http.StatusOK && data != nil {
			if err := json.Unmarshal(r.Raw, &struct{ Data any }{data}); err != nil {
				t.Error(err)
			}
		}
		return r.Status
	}
	over := func() bool {
		select {
		case <-l.stop:
			return true
		default:
			return false
		}
	}
	var session struct {
		ID   int64  `json:"user_id"`
		Hash string `json:"user_hash"`
	}
	for !over() {
		p := applicant(nil)
		u := &survivor{user: user{login: p["login"].(string), email: p["email"].(string), password: p["password"].(string)}}
		if ask(call{path: "register/", params: p}, &session) != http.StatusOK {
			continue // the next one has another login
		}
		u.pair = pair{session.ID, session.Hash}
		l.mu.Lock()
		l.users = append(l.users, u)
		l.mu.Unlock()
		for step := 0; step < 20 && u.trying == "" && !over(); step++ { // else the password, and so the session, may have changed
			status := 0
			switch {
			case step == 12: // after the password, whose change voids recoveries under way
				status = ask(call{path: "recover/", params: params{"login": u.login}}, nil)
				u.mailed = u.mailed || status == http.StatusOK
			case step == 6:
				u.trying = "another password " + u.login
				status = ask(call{path: "password/", as: u.pair, params: params{
					"old_password": u.password, "password": u.trying, "confirm_password": u.trying,
				}}, &session)
				if status == http.StatusOK {
					u.pair, u.password, u.trying = pair{session.ID, session.Hash}, u.trying, ""
				}
			default:
				if status = ask(call{path: "auth_refresh/", as: u.pair}, &session); status == http.StatusOK {
					u.pair = pair{session.ID, session.Hash}
				}
			}
			if status == http.StatusUnauthorized {
				t.Errorf("user %d was signed out at step %d", u.ID, step)
				return
			}
		}
	}
}

// wantMore waits until n more requests of each user have been answered.
func (l *survivors) wantMore(t *testing.T, n int64) {
	t.Helper()
	before := l.answered.Load()
	eventually(t, "requests are answered", func() bool { return l.answered.Load() >= before+n })
}

// check compares what was acknowledged with what is there.
func (l *survivors) check(t *testing.T) {
	t.Helper()
	mailed := 0
	for _, u := range l.users {
		r := l.hosts[0].post(t, "auth/", params{"login": u.login, "password": u.password})
		if r.Status != http.StatusOK && u.trying != "" {
			r = l.hosts[0].post(t, "auth/", params{"login": u.login, "password": u.trying})
		}
		if r.Status != http.StatusOK {
			t.Errorf("signing user %d in: got %d %s", u.ID, r.Status, r.Raw)
		}
		if u.trying == "" {
			l.hosts[1].refresh(t, u.pair)
		}
		if u.mailed {
			mailed++
		}
	}
	t.Logf("%d users, %d of them with an acknowledged recovery, %d requests", len(l.users), mailed, l.answered.Load())
	missing := func() (missing []string) {
		mails, events := delivered(t, l.hosts)
		for _, u := range l.users {
			if events[fmt.Sprintf("registered %d", u.pair.ID)] == 0 {
				missing = append(missing, fmt.Sprintf("event of user %d", u.pair.ID))
			}
			if u.mailed && mails[u.email] == 0 {
				missing = append(missing, fmt.Sprintf("mail to user %d", u.pair.ID))
			}
		}
		return missing
	}
	for began := time.Now(); len(missing()) > 0; time.Sleep(100 * time.Millisecond) {
		if time.Since(began) > 2*time.Minute {
			t.Fatalf("not delivered: %q", missing())
		}
	}
}

func startCluster(t *testing.T) *testkit.PostgresCluster {
	t.Helper()
	cluster, err := testkit.StartPostgresCluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	db := sql.OpenDB(pgdriver.NewConnector(pgdriver.WithDSN(cluster.Primary("postgres"))))
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "CREATE DATABASE cms"); err != nil {
		t.Fatal(err)
	}
	return cluster
}

// bouncer is a PgBouncer in transaction mode.
type bouncer struct {
	url     string
	config  string
	port    int
	process *os.Process
}

func startBouncer(t *testing.T, primary int) *bouncer {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		t.Fatalf("%v: install the package pgbouncer", err)
	}
	folder, err := os.MkdirTemp("/tmp", "personal-bouncer-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	b := &bouncer{config: filepath.Join(folder, "pgbouncer.ini"), port: freePort(t)}
	b.url = fmt.Sprintf("postgres://postgres@127.0.0.1:%d/cms?sslmode=disable", b.port)
	b.write(t, primary)
	// It refuses to run as root.
	cmd := exec.Command("setpriv", "--reuid=nobody", "--clear-groups", program, b.config)
	if os.Geteuid() != 0 {
		cmd = exec.Command(program, b.config)
	}
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b.process = cmd.Process
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	db := sql.OpenDB(pgdriver.NewConnector(pgdriver.WithDSN(b.url)))
	defer db.Close()
	eventually(t, "PgBouncer responds", func() bool { return db.PingContext(context.Background()) == nil })
	return b
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func (b *bouncer) write(t *testing.T, primary int) {
	t.Helper()
	page := readFile(t, filepath.Join(repository, "docs/postgresql.md"))
	_, text, _ := strings.Cut(page, "```ini\n[databases]")
	text, _, found := strings.Cut(text, "```")
	text = strings.NewReplacer("port=5432", fmt.Sprintf("port=%d", primary), "listen_port = 6432",
		fmt.Sprintf("listen_port = %d", b.port)).Replace("[databases]" + text)
	if !found || strings.Contains(text, "5432") || strings.Contains(text, "6432") {
		t.Fatalf("docs/postgresql.md has no configuration of PgBouncer that the test can use: %s", text)
	}
	if err := os.WriteFile(b.config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// direct sends new transactions to another server, as an operator or Patroni would.
func (b *bouncer) direct(t *testing.T, primary int) {
	t.Helper()
	b.write(t, primary)
	if err := b.process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}
