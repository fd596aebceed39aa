package system

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cms-personal/personal/internal/testkit"
)

// serviceManager is what systemd is for a service with a socket unit.
type serviceManager struct {
	socket  *os.File
	address string
	states  chan string // that the service has told
	path    string      // where it tells them
}

func newServiceManager(t *testing.T) *serviceManager {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	socket, err := listener.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close() // the socket itself stays open
	m := &serviceManager{socket: socket, address: listener.Addr().String(), states: make(chan string, 100), path: filepath.Join(t.TempDir(), "notify")}
	told, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = told.Close()
		_ = socket.Close()
	})
	go func() {
		text := make([]byte, 4096)
		for {
			n, err := told.Read(text)
			if err != nil {
				return
			}
			select {
			case m.states <- string(text[:n]):
			default: // no one waits
			}
		}
	}()
	return m
}

// awaitState waits until the service has told a state.
func (m *serviceManager) awaitState(t *testing.T, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		select {
		case state := <-m.states:
			if state == want {
				return
			}
		case <-ctx.Done():
			t.Fatalf("the service has not told %s", want)
		}
	}
}

// Clients notice no restart of a host whose socket a service manager keeps: those that keep their connections, and
// those that open a new one for each request.
func TestRestart_LosesNoRequest(t *testing.T) {
	t.Parallel()
	const callers, restarts = 32, 20
	m := newServiceManager(t)
	o := options{
		database: testkit.SQLite(t), settings: cheap + unthrottled, data: filepath.Join(t.TempDir(), "data"), socket: m.socket,
		env: []string{"NOTIFY_SOCKET=" + m.path, "WATCHDOG_USEC=200000"},
	}
	s := start(t, o)
	m.awaitState(t, "READY=1")
	m.awaitState(t, "WATCHDOG=1")
	if s.url != "http://"+m.address {
		t.Fatalf("the host listens on %s, want %s", s.url, m.address)
	}
	users := make([]user, callers)
	for i := range users {
		users[i] = s.newUser(t)
	}
	var hosts []*system // that have stopped
	var calls atomic.Int64
	var wait sync.WaitGroup
	ctx, end := context.WithCancel(t.Context())
	t.Cleanup(func() {
		end()
		wait.Wait()
	})
	for i, u := range users {
		wait.Go(func() {
			own := &system{url: s.url, api: s.api, client: newClient()}
			own.client.Transport.(*http.Transport).DisableKeepAlives = i%2 == 1
			defer own.client.CloseIdleConnections()
			for pair := u.pair; ctx.Err() == nil; calls.Add(1) {
				r, err := own.exchange(call{path: "auth_refresh/", as: pair}) // a POST, which Go's client does not repeat
				if err != nil || r.Status != http.StatusOK {
					t.Errorf("caller %d: got %+v, %v", i, r, err)
					return
				}
				pair = r.pair(t)
			}
		})
	}
	for range restarts {
		before := calls.Load()
		u := s.newUser(t)
		s.post(t, "recover/", params{"login": u.login}).want(t, "") // its mail is under way when the host stops
		s.stop(t)
		hosts = append(hosts, s)
		m.awaitState(t, "STOPPING=1")
		s = start(t, o)
		m.awaitState(t, "READY=1")
		eventually(t, "the callers go on", func() bool { return t.Failed() || calls.Load() >= before+10*callers })
	}
	end()
	wait.Wait()
	t.Logf("%d requests in %d restarts", calls.Load(), restarts)
	want := callers + 2*restarts
	eventually(t, "the mails are delivered", func() bool { return len(s.mails(t)) >= want })
	s.stop(t)
	hosts = append(hosts, s)
	delivered := 0
	for _, host := range hosts {
		delivered += len(host.log.linesWith(`msg="mail delivered"`))
		if strings.Contains(host.log.String(), "level=ERROR") {
			t.Errorf("the log has errors:\n%s", host.log)
		}
	}
	if delivered != want || len(s.mails(t)) != want {
		t.Errorf("%d mails were delivered, of them %d different, want %d, none twice", delivered, len(s.mails(t)), want)
	}
}
