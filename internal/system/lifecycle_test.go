package system

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/internal/testkit/testdb"
)

// wantRefusal starts a host that must refuse to start, and checks for exit code 1 and
// a message that names the cause.
func wantRefusal(t *testing.T, o options, cause string) *system {
	t.Helper()
	s := launch(t, o)
	select {
	case <-s.ended:
	case <-time.After(patience):
		t.Fatalf("the host still runs after %v, want a refusal that names %q", patience, cause)
	}
	if s.exit != 1 || !strings.Contains(s.log.String(), cause) {
		t.Errorf("got exit code %d, want 1 and a message that names %q; the log:\n%s", s.exit, cause, s.log)
	}
	return s
}

// TestStart_InvalidSettingIsNamed has one case for each place where settings are
// checked: the host's flags, the settings file, the plugin, and its database driver.
// All settings are tested in host-sample and plugin.
func TestStart_InvalidSettingIsNamed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		settings string
		flags    []string
		cause    string
	}{
		"value out of range":          {"[password]\nmin_length = 4\n", nil, "password.min_length"},
		"token in the query of a URL": {"[recovery]\nurl = \"https://site.example/?t={token}\"\n", nil, "recovery.url"},
		"flag":                        {"", []string{"--trusted-proxy", "everybody"}, "trusted-proxy"},
		"option of the handler":       {"", []string{"--cors-origin", "*"}, "cors-origin"},
		"missing settings file":       {"", []string{"--settings", "/nonexistent.toml"}, "--settings"},
		"mail folder off loopback":    {"", []string{"--addr", "0.0.0.0:0"}, "smtp"},
		"unknown database":            {"", []string{"--database", "mysql://127.0.0.1/x"}, "database"},
	} {
		t.Run(name, func(t *testing.T) {
			wantRefusal(t, options{database: testkit.SQLite(t), settings: test.settings, flags: test.flags}, test.cause)
		})
	}
}

func TestStart_PasswordOnCommandLineIsRefused(t *testing.T) {
	t.Parallel()
	const secret = "Sesam8oeffneDich"
	for _, flags := range [][]string{
		{"--database", "postgres://personal:" + secret + "@127.0.0.1:5432/x"},
		{"--database", "postgres://personal@127.0.0.1:5432/x?password=" + secret},
		{"--smtp", "smtp://personal:" + secret + "@127.0.0.1:25"},
	} {
		s := wantRefusal(t, options{database: testkit.SQLite(t), flags: flags}, strings.TrimPrefix(flags[0], "--"))
		if strings.Contains(s.log.String(), secret) {
			t.Errorf("the refusal of %s repeats the password", flags[0])
		}
	}
}

func TestStart_SecondHostOnSameDataIsRefused(t *testing.T) {
	t.Parallel()
	testdb.Database(t, func(t *testing.T, database string) {
		s := start(t, options{database: database, settings: cheap})
		wantRefusal(t, options{database: database, settings: cheap, data: s.data}, "--data")
		u := s.newUser(t)
		pid := s.plugin(t).Active.PID
		for _, path := range []string{"/account/sign-in", "/admin/enter", "/"} { // the stop does not wait for their bodies
			slow, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer slow.Close()
			fmt.Fprintf(slow, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"+
				"Content-Length: 100\r\nExpect: 100-continue\r\n\r\n", path)
			_, _ = bufio.NewReader(slow).ReadString('\n') // its handler reads the body, or has refused it
		}
		s.stop(t)
		if strings.Contains(s.log.String(), "cutting off requests") {
			t.Error("the stop has waited for slow bodies until the end of its drain")
		}
		if !isGone(pid) {
			t.Error("the host has stopped and its plugin has not")
		}
		if connection, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://")); err == nil {
			_ = connection.Close()
			t.Error("the host has stopped, and its port accepts connections")
		}
		again := start(t, options{database: database, settings: cheap, data: s.data})
		again.wantAlive(t, "a session from before the restart", u.pair)
	})
}

func TestKill_PluginIsRestarted(t *testing.T) {
	t.Parallel()
	testdb.Database(t, func(t *testing.T, database string) {
		s := start(t, options{database: database, settings: cheap + unthrottled})
		u := s.newUser(t)
		l := s.mixedLoad(t, u)
		for range 2 {
			before, served := s.plugin(t).Active, l.seen("")
			eventually(t, "calls are served", func() bool { return l.seen("") > served+20 })
			if err := syscall.Kill(before.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			eventually(t, "a new plugin process serves", func() bool {
				now := s.plugin(t).Active
				return now.PID != 0 && now.PID != before.PID && now.Generation > before.Generation && s.status("/readyz") == http.StatusOK
			})
			served = l.seen("")
			eventually(t, "calls are served again", func() bool { return l.seen("") > served+20 })
		}
		l.end(t)
		s.wantAlive(t, "a session from before", u.pair)
		if got := s.status("/healthz"); got != http.StatusOK {
			t.Errorf("/healthz: got %d, want 200", got)
		}
	})
}

func TestKill_HostTakesItsPluginWithIt(t *testing.T) {
	t.Parallel()
	testdb.Database(t, func(t *testing.T, database string) {
		s := start(t, options{database: database, settings: cheap + unthrottled})
		u := s.newUser(t)
		pid := s.plugin(t).Active.PID
		if isGone(pid) {
			t.Fatal("the plugin has no process")
		}
		s.kill()
		eventually(t, "the plugin process ends with its host", func() bool { return isGone(pid) })
		again := start(t, options{database: database, settings: cheap + unthrottled, data: s.data})
		again.wantAlive(t, "a session from before the kill", u.pair)
		again.signIn(t, u)
	})
}

func TestKill_AcknowledgedRotationsSurvive(t *testing.T) {
	t.Parallel()
	const clients = 8
	testdb.Databases(t, func(t *testing.T, database string) {
		s := start(t, options{database: database, settings: cheap + unthrottled})
		acknowledged := make([]pair, clients)
		for i := range acknowledged {
			acknowledged[i] = s.newUser(t).pair
		}
		var refreshes atomic.Int64
		var running sync.WaitGroup
		for i := range acknowledged {
			running.Go(func() {
				for {
					r, err := s.exchange(call{method: http.MethodGet, path: "auth_refresh/", as: acknowledged[i]})
					if err != nil || json.Unmarshal(r.Data["user_hash"], &acknowledged[i].Hash) != nil {
						return // killed
					}
					refreshes.Add(1)
				}
			})
		}
		eventually(t, "hashes are refreshed", func() bool { return refreshes.Load() > 20*clients })
		pid := s.plugin(t).Active.PID
		_ = s.process.Kill() // both still run
		_ = syscall.Kill(pid, syscall.SIGKILL)
		running.Wait()
		eventually(t, "the plugin process ends", func() bool { return isGone(pid) })
		again := start(t, options{database: database, settings: cheap + unthrottled, data: s.data})
		for _, p := range acknowledged {
			again.wantAlive(t, "the last acknowledged hash", p)
			again.refresh(t, p)
		}
	})
}

// stopFrozen stops a host whose plugin processes are all frozen, with these calls under
// way. They must get 503, and the stop must not take the 30 s of a drain: [system.stop]
// waits for 20 s.
func (s *system) stopFrozen(t *testing.T, calls int, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		freeze(t, pid)
	}
	var responses []<-chan error
	for range calls {
		responses = append(responses, s.beginCall(t))
	}
	began := time.Now()
	s.stop(t)
	t.Logf("stopped after %v", time.Since(began))
	for _, response := range responses {
		if err := <-response; err != nil {
			t.Error(err)
		}
	}
	for _, pid := range pids {
		if !isGone(pid) {
			t.Errorf("the frozen plugin process %d has not ended", pid)
		}
	}
}

func TestStop_FrozenPlugin(t *testing.T) {
	t.Parallel()
	for name, calls := range map[string]int{"without calls": 0, "with calls under way": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, options{database: testdb.SQLite(t), settings: cheap + unthrottled})
			s.stopFrozen(t, calls, s.plugin(t).Active.PID)
		})
	}
}

func TestStop_FrozenProcessesDuringBake(t *testing.T) {
	t.Parallel()
	s, newer := startWithTwo(t)
	old := s.plugin(t).Active.PID
	s.use(t, newer)
	s.stopFrozen(t, 1, old, s.plugin(t).Active.PID)
}

func TestStop_FrozenCandidateOfASwap(t *testing.T) {
	t.Parallel()
	s, newer := startWithTwo(t)
	active := s.plugin(t).Active.PID
	statuses := make(chan int, 1)
	go func() {
		got, _ := s.admin(t, http.MethodPost, "plugin/use", `{"version":"`+newer+`"}`, "Content-Type", jsonType)
		statuses <- got.StatusCode
	}()
	var candidate int
	eventually(t, "the candidate's process starts", func() bool {
		candidate = s.childBesides(t, active)
		return candidate != 0
	})
	s.stopFrozen(t, 0, candidate)
	if status := <-statuses; status != http.StatusAccepted && status != http.StatusServiceUnavailable {
		t.Errorf("got %d for the command to swap, want 202 or 503", status)
	}
	if !isGone(active) {
		t.Error("the active plugin process has not ended")
	}
}

// startWithTwo starts a host and installs another version beside the active one.
func startWithTwo(t *testing.T) (s *system, newer string) {
	t.Helper()
	s = start(t, options{database: testdb.SQLite(t), settings: cheap + unthrottled})
	return s, s.installAnother(t)
}

// childBesides returns a plugin process that the host has started besides
// this one; 0 if there is none. It skips a fork that has not yet executed the plugin: the
// host would be frozen with it. It finds no plugin that a [testkit.Script] became.
func (s *system) childBesides(t *testing.T, one int) int {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", s.process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		children, _ := os.ReadFile(list) // the thread may have ended
		for child := range strings.FieldsSeq(string(children)) {
			program, _ := os.Readlink("/proc/" + child + "/exe")
			if pid, err := strconv.Atoi(child); err == nil && pid != one && strings.Contains(program, "/staged/") {
				return pid
			}
		}
	}
	return 0
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
	address := strings.TrimPrefix(s.url, "http://")
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // the response has been read
	const body = `{"login":"anna","password":"whatever it is"}`
	fmt.Fprintf(conn, "POST /api/v1/personal/auth/ HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", address, jsonType, len(body))
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
