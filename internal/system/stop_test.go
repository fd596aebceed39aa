package system

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/internal/testkit/testdb"
)

// stopping is a host that is about to stop.
type stopping struct {
	*system
	proxy *testkit.FaultProxy // to the database, if it is PostgreSQL
	mails <-chan struct{}     // gets a value when a mail is under way; the relay never answers
	after []func()            // checks after the stop
}

// stop is a way to keep a host from stopping.
type stop struct {
	drain time.Duration // shortDrain or longDrain
	begin func(*testing.T, *stopping)
	on    func(testing.TB) string // the database; nil: SQLite
}

// A stop with the short drain may cut requests off. The tests do not wait for the long one.
const shortDrain, longDrain = 2 * time.Second, 10 * time.Minute

func stops() map[string]stop {
	return map[string]stop{
		"nothing":             {longDrain, func(_ *testing.T, s *stopping) { s.client.CloseIdleConnections() }, nil},
		"idle connection":     {longDrain, func(_ *testing.T, s *stopping) { s.status("/healthz") }, nil},
		"slow headers":        {longDrain, slowHeaders, nil},
		"slow bodies":         {longDrain, slowBodies, nil},
		"responses not taken": {shortDrain, cutOff, nil},
		"relay hangs":         {longDrain, mailUnderWay, nil},
		"database hangs": {shortDrain, func(t *testing.T, s *stopping) {
			s.proxy.Freeze()
			s.beginCalls(t, false)
		}, testdb.Postgres},
		"plugin frozen":                 {longDrain, func(t *testing.T, s *stopping) { freeze(t, s.plugin(t).Active.PID) }, nil},
		"plugin frozen, calls wait":     {shortDrain, func(t *testing.T, s *stopping) { s.freezeInCalls(t, false) }, nil},
		"plugin frozen, calls get 503":  {longDrain, func(t *testing.T, s *stopping) { s.freezeInCalls(t, true) }, nil},
		"both plugins of a bake frozen": {longDrain, func(t *testing.T, s *stopping) { s.bake(t); s.freezeInCalls(t, true) }, nil},
		"candidate frozen at its start": {longDrain, candidateStarts, nil},
		"candidate frozen in its steps": {shortDrain, func(t *testing.T, s *stopping) { untaken(t, s); candidateHangs(t, s) }, testdb.Postgres},
		"all": {shortDrain, func(t *testing.T, s *stopping) {
			s.bake(t)
			mailUnderWay(t, s)
			slowHeaders(t, s)
			slowBodies(t, s)
			cutOff(t, s)
			s.freezeInCalls(t, false)
		}, nil},
	}
}

// TestStop_LeavesNothing stops hosts that others keep from stopping. Another host then starts on the same data folder.
func TestStop_LeavesNothing(t *testing.T) {
	t.Parallel()
	for name, test := range stops() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.run(t)
		})
	}
}

// run starts a host, stops it, and returns how long that took.
func (test stop) run(t *testing.T) (took time.Duration) {
	t.Helper()
	relay, mails := hangingRelay(t)
	o := options{
		settings: cheap + unthrottled, data: filepath.Join(t.TempDir(), "data"),
		flags: []string{"--drain", test.drain.String(), "--smtp", "smtp://" + relay},
	}
	s := &stopping{mails: mails}
	if test.on == nil {
		o.database = testdb.SQLite(t)
	} else {
		s.proxy, o.database = testkit.NewFaultProxy(t, test.on(t))
	}
	s.system = start(t, o)
	test.begin(t, s)
	processes := s.children(t)
	sockets, err := os.Readlink(filepath.Join(s.data, "run", "sockets"))
	if err != nil || len(processes) == 0 {
		t.Fatalf("got the processes %v, and %v for the sockets, want some", processes, err)
	}

	began := time.Now()
	s.stop(t)
	took = time.Since(began)
	s.wantNothingLeft(t, sockets, processes)
	start(t, o)
	if test.drain == longDrain && s.hasCutOff() {
		t.Error("the host cut off requests long before its drain was over")
	}
	for _, check := range s.after {
		check()
	}
	return took
}

// hasCutOff reports whether requests were still running when the drain was over.
func (s *stopping) hasCutOff() bool { return strings.Contains(s.log.String(), "cutting off requests") }

// cutOff begins requests that only the end of the drain ends: other limits are many times as long.
func cutOff(t *testing.T, s *stopping) {
	t.Helper()
	untaken(t, s)
	s.after = append(s.after, func() {
		if !s.hasCutOff() {
			t.Error("the host did not cut off requests whose responses are not taken")
		}
	})
}

// TestStop_SecondSignalEndsAtOnce stops a host twice that waits for a client.
func TestStop_SecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	for _, second := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(second.String(), func(t *testing.T) {
			t.Parallel()
			o := options{
				database: testdb.SQLite(t), settings: cheap, data: filepath.Join(t.TempDir(), "data"), flags: []string{"--drain", "10m"},
			}
			s := &stopping{system: start(t, o)}
			untaken(t, s)
			processes := s.children(t)
			_ = s.process.Signal(syscall.SIGTERM)
			eventually(t, "the host stops", func() bool { return len(s.log.linesWith("msg=stopping")) > 0 })
			_ = s.process.Signal(second)
			select {
			case <-s.ended:
			case <-time.After(patience):
				t.Fatalf("the host did not end within %v of the second signal", patience)
			}
			if s.exit != -1 {
				t.Errorf("got exit code %d, want that the signal ended the host", s.exit)
			}
			eventually(t, "the plugin ends", func() bool { return !slices.ContainsFunc(processes, func(pid int) bool { return !isGone(pid) }) })
			start(t, o)
		})
	}
}

// wantNothingLeft checks what a host that has stopped leaves: in run/, of its sockets and of its processes.
func (s *system) wantNothingLeft(t *testing.T, sockets string, processes []int) {
	t.Helper()
	for _, pid := range processes {
		if !isGone(pid) {
			t.Errorf("the host has left the plugin process %d", pid)
		}
	}
	entries, err := os.ReadDir(filepath.Join(s.data, "run"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "lock" && e.Name() != "staged" {
			t.Errorf("the host has left run/%s", e.Name())
		}
	}
	for _, path := range []string{sockets, filepath.Join(s.data, "host.json")} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("the host has left %s", path)
		}
	}
}

// hangingRelay is a mail relay that accepts connections and sends nothing.
func hangingRelay(t *testing.T) (address string, talks <-chan struct{}) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	accepted := make(chan struct{}, 100)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			accepted <- struct{}{}
		}
	}()
	return listener.Addr().String(), accepted
}

// mailUnderWay registers a user, whose mail the relay keeps.
func mailUnderWay(t *testing.T, s *stopping) {
	t.Helper()
	s.newUser(t)
	select {
	case <-s.mails:
	case <-time.After(patience):
		t.Fatalf("no mail came to the relay within %v", patience)
	}
}

// connect opens a connection to the host and sends a text.
func (s *system) connect(t *testing.T, format string, args ...any) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := fmt.Fprintf(conn, format, args...); err != nil {
		t.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

// trickle sends a byte again and again until the connection ends.
func trickle(w io.Writer, b byte) {
	for {
		if _, err := w.Write([]byte{b}); err != nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// slowHeaders opens connections whose first request has not come: without a byte, and byte by byte.
func slowHeaders(t *testing.T, s *stopping) {
	t.Helper()
	s.connect(t, "")
	go trickle(s.connect(t, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: "), 'a')
	s.status("/healthz") // the host has accepted those before
}

// slowBodies sends bodies byte by byte.
func slowBodies(t *testing.T, s *stopping) {
	t.Helper()
	for _, path := range []string{"/account/sign-in", "/api/v1/personal/auth/", "/admin/enter", "/"} {
		conn := s.connect(t, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"+
			"Content-Length: 10000\r\nExpect: 100-continue\r\n\r\n", path)
		_, _ = bufio.NewReader(conn).ReadString('\n') // its handler reads the body, or has refused it
		go trickle(conn, 'a')
	}
}

// untaken sends many requests at once and takes nothing of the responses, until the host waits for that: it
// serves others, and none of these.
func untaken(t *testing.T, s *stopping) {
	t.Helper()
	s.connect(t, "%s", strings.Repeat("GET /api/v1/personal/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n", 200)) // 24 MB
	var before string
	same := 0
	eventually(t, "the host waits for the client", func() bool {
		_, metrics := s.web(t, http.MethodGet, "/metrics", "")
		_, rest, _ := strings.Cut(metrics, `operation="openapi.json"} `)
		served, _, _ := strings.Cut(rest, "\n")
		if same++; served == "" || served != before {
			same = 0
		}
		before = served
		return same == 10
	})
}

// bake swaps to another version, whose process then serves beside the old one.
func (s *system) bake(t *testing.T) {
	t.Helper()
	s.use(t, s.installAnother(t))
}

// freezeInCalls freezes all processes of the plugin, and begins calls. They get 503 if the host notices that in time.
func (s *stopping) freezeInCalls(t *testing.T, get503 bool) {
	t.Helper()
	for _, pid := range s.children(t) {
		freeze(t, pid)
	}
	s.beginCalls(t, get503)
}

func (s *stopping) beginCalls(t *testing.T, get503 bool) {
	t.Helper()
	for range 3 {
		response := s.beginCall(t)
		s.after = append(s.after, func() {
			if err := <-response; err != nil && get503 {
				t.Error(err)
			}
		})
	}
}

// beginSwap begins a swap to another version and returns the process of the candidate. The caller waits until the
// host stops.
func (s *stopping) beginSwap(t *testing.T) (candidate int) {
	t.Helper()
	newer, before := s.installAnother(t), s.children(t)
	statuses := make(chan int, 1)
	go func() {
		got, _ := s.admin(t, http.MethodPost, "plugin/use", `{"version":"`+newer+`"}`, "Content-Type", jsonType)
		statuses <- got.StatusCode
	}()
	s.after = append(s.after, func() {
		if status := <-statuses; status != http.StatusAccepted && status != http.StatusServiceUnavailable {
			t.Errorf("got %d for the command to swap, want 202 or 503", status)
		}
	})
	eventually(t, "the candidate's process starts", func() bool {
		now := slices.DeleteFunc(s.children(t), func(pid int) bool { return slices.Contains(before, pid) })
		if len(now) == 0 {
			return false
		}
		candidate = now[0]
		return true
	})
	return candidate
}

func candidateStarts(t *testing.T, s *stopping) {
	t.Helper()
	freeze(t, s.beginSwap(t))
}

// candidateHangs freezes a candidate that waits for the database.
func candidateHangs(t *testing.T, s *stopping) {
	t.Helper()
	s.proxy.Freeze()
	candidate := s.beginSwap(t)
	eventually(t, "the candidate is configured", func() bool {
		_, body := s.admin(t, http.MethodGet, "plugin", "")
		return strings.Contains(body, `"configure"`)
	})
	freeze(t, candidate)
}

// children returns the processes of the plugin. It skips a fork that has not yet executed the plugin: the host would be
// frozen with it.
func (s *system) children(t *testing.T) (pids []int) {
	t.Helper()
	own, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", s.process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", s.process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		children, _ := os.ReadFile(list) // the thread may have ended
		for child := range strings.FieldsSeq(string(children)) {
			program, _ := os.Readlink("/proc/" + child + "/exe")
			if pid, err := strconv.Atoi(child); err == nil && program != "" && program != own {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// freeze sends SIGSTOP to a process and waits until all of its threads have stopped.
func freeze(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all threads have stopped", func() bool {
		stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, stat := range stats {
			data, _ := os.ReadFile(stat) // the thread may have ended
			if !bytes.Contains(data, []byte(") T ")) {
				return false
			}
		}
		return true
	})
}

// beginCall begins a sign-in and returns when the handler has started to read its body.
// The error that comes later is nil if the response is 503.
func (s *system) beginCall(t *testing.T) <-chan error {
	t.Helper()
	const body = `{"login":"anna","password":"whatever it is"}`
	conn := s.connect(t, "POST /api/v1/personal/auth/ HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n",
		jsonType, len(body))
	r := bufio.NewReader(conn)
	if line, err := r.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("got %q (%v), want 100 Continue", line, err)
	}
	if _, err := io.WriteString(conn, body); err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() {
		_, err := r.ReadString('\n') // the empty line
		if err == nil {
			err = want503(r)
		}
		result <- err
	}()
	return result
}

func want503(r *bufio.Reader) error {
	got, err := http.ReadResponse(r, nil)
	if err != nil {
		return err
	}
	defer got.Body.Close()
	if got.StatusCode != http.StatusServiceUnavailable || got.Header.Get("Retry-After") == "" {
		return fmt.Errorf("got %s with %v, want 503 with Retry-After", got.Status, got.Header)
	}
	return nil
}
