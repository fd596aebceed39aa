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
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/testkit"
)

// TestHostStopsBesideAFrozenPlugin: requests under way in it do not hold the host
// up for as long as requests may take. Nothing is said here about the 10 seconds
// that it is meant to take on a machine that is not busy but the figure.
func TestHostStopsBesideAFrozenPlugin(t *testing.T) {
	t.Parallel()
	for name, calls := range map[string]int{"without calls": 0, "with calls under way": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, options{database: testkit.SQLite(t), settings: cheap + unthrottled})
			pid := s.plugin(t).Active.PID
			freeze(t, pid)
			var answers []<-chan error
			for range calls {
				answers = append(answers, s.beginCall(t))
			}
			began := time.Now()
			s.stop(t) // within less than the 30 s of a drain
			t.Logf("stopped after %v", time.Since(began))
			for _, answer := range answers {
				if err := <-answer; err != nil {
					t.Error(err)
				}
			}
			if !isGone(pid) {
				t.Error("the frozen plugin is still there")
			}
		})
	}
}

func TestHostStopsBesideATrialWhoseProcessesAreBothFrozen(t *testing.T) {
	t.Parallel()
	s := startWithTwo(t)
	old := s.plugin(t).Active.PID
	s.use(t, newer)
	tried := s.plugin(t).Active.PID
	freeze(t, old)
	freeze(t, tried)
	answer := s.beginCall(t)
	began := time.Now()
	s.stop(t)
	t.Logf("stopped after %v", time.Since(began))
	if err := <-answer; err != nil {
		t.Error(err)
	}
	for _, pid := range []int{old, tried} {
		if !isGone(pid) {
			t.Error("a frozen plugin is still there")
		}
	}
}

func TestHostStopsBesideASwapThatHangs(t *testing.T) {
	t.Parallel()
	s := startWithTwo(t)
	live := s.plugin(t).Active.PID
	answered := make(chan int, 1)
	go func() {
		response, _ := s.admin(t, http.MethodPost, "plugin/use", `{"version":"`+newer+`"}`, "Content-Type", jsonType)
		answered <- response.StatusCode
	}()
	var hanging int
	eventually(t, "the new process", func() bool {
		hanging = s.childBesides(t, live)
		return hanging != 0
	})
	freeze(t, hanging)
	began := time.Now()
	s.stop(t)
	t.Logf("stopped after %v", time.Since(began))
	if code := <-answered; code != http.StatusAccepted && code != http.StatusServiceUnavailable {
		t.Errorf("the command was answered %d", code)
	}
	if !isGone(live) || !isGone(hanging) {
		t.Error("a plugin is still there")
	}
}

// newer is a version that [startWithTwo] installs beside the active one.
const newer = "1.1.0"

func startWithTwo(t *testing.T) *system {
	t.Helper()
	s := start(t, options{database: testkit.SQLite(t), settings: cheap + unthrottled})
	s.install(t, testkit.PluginVersion(t, newer), newer)
	return s
}

// childBesides returns a plugin process that the host has started, besides one; 0
// if there is none. A fork that is not yet another program is none: the host would
// be frozen with it.
func (s *system) childBesides(t *testing.T, one int) int {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", s.process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		children, _ := os.ReadFile(list) // a thread may have ended
		for _, child := range strings.Fields(string(children)) {
			program, _ := os.Readlink("/proc/" + child + "/exe")
			if pid, err := strconv.Atoi(child); err == nil && pid != one && strings.Contains(program, "/staged/") {
				return pid
			}
		}
	}
	return 0
}

// freeze stops a process and waits until all of its threads have stopped.
func freeze(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a stopped process", func() bool {
		stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, stat := range stats {
			data, _ := os.ReadFile(stat) // a thread may have ended
			if !bytes.Contains(data, []byte(") T ")) {
				return false
			}
		}
		return true
	})
}

// beginCall signs in, and returns when the host is at it: it asks for the body
// then. An answer that is not 503 is an error.
func (s *system) beginCall(t *testing.T) <-chan error {
	t.Helper()
	address := strings.TrimPrefix(s.url, "http://")
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // what it had to say was read
	const body = `{"login":"anna","password":"whatever it is"}`
	fmt.Fprintf(conn, "POST /api/v1/personal/auth/ HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", address, jsonType, len(body))
	r := bufio.NewReader(conn)
	if line, err := r.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("the host answered %q (%v)", line, err)
	}
	if _, err := io.WriteString(conn, body); err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	go func() {
		_, err := r.ReadString('\n') // the empty line
		if err == nil {
			err = want503(r)
		}
		answer <- err
	}()
	return answer
}

func want503(r *bufio.Reader) error {
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" {
		return fmt.Errorf("the call was answered %s, %v", response.Status, response.Header)
	}
	return nil
}
