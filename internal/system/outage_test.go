package system

import (
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"

	"github.com/cms-personal/personal/internal/testkit"
)

// wire is a TCP connection to a database that can be cut.
type wire struct {
	target   string
	listener net.Listener
	running  sync.WaitGroup

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool
}

// newWire puts a wire in front of the server of a database URL and returns the URL
// that leads through it.
func newWire(t *testing.T, database string) (*wire, string) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal("the database URL cannot be read")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{target: u.Host, listener: listener, conns: map[net.Conn]bool{}}
	w.running.Go(w.accept)
	t.Cleanup(func() {
		_ = listener.Close() // ends accept
		w.set(true)
		w.running.Wait()
	})
	u.Host = listener.Addr().String()
	return w, u.String()
}

// set cuts the wire or restores it.
func (w *wire) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	for conn := range w.conns {
		if cut {
			_ = conn.Close() // its error would change nothing
		}
	}
}

func (w *wire) accept() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", w.target)
		if err != nil || !w.keep(client, server) {
			_ = client.Close()
			if err == nil {
				_ = server.Close()
			}
			continue
		}
		w.running.Go(func() { w.pump(client, server) })
		w.running.Go(func() { w.pump(server, client) })
	}
}

// keep records a pair of connections, unless the wire is cut. It reports whether they
// may be used.
func (w *wire) keep(conns ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, conn := range conns {
		if !w.cut {
			w.conns[conn] = true
		}
	}
	return !w.cut
}

func (w *wire) pump(to, from net.Conn) {
	_, _ = io.Copy(to, from) // either end may close at any time
	_, _ = to.Close(), from.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, to)
	delete(w.conns, from)
}

// TestDatabaseOutage_IsNotAWrongPassword checks that calls during an outage get 503,
// and not the response to a wrong password or an ended session.
func TestDatabaseOutage_IsNotAWrongPassword(t *testing.T) {
	t.Parallel()
	w, database := newWire(t, testkit.Postgres(t))
	s := start(t, options{database: database, settings: cheap})
	u := s.newUser(t)
	w.set(true)
	calls := map[string]call{
		"a valid session":    {method: http.MethodGet, path: "profile/", as: u.pair},
		"a refresh":          {method: http.MethodGet, path: "auth_refresh/", as: u.pair},
		"an unknown session": {method: http.MethodGet, path: "profile/", as: pair{u.ID, flip(u.Hash, 0)}},
		"a correct password": {path: "auth/", params: params{"login": u.login, "password": u.password}},
		"a wrong password":   {path: "auth/", params: params{"login": u.login, "password": "wrong wrong"}},
		"an unknown login":   {path: "auth/", params: params{"login": unique(), "password": "wrong wrong"}},
		"a registration":     {path: "register/", params: applicant(nil)},
		"a recovery":         {path: "recover/", params: params{"login": u.login}},
		"a mailed token":     {path: "email_confirm/", params: params{"token": u.Hash}},
		"a page of the host": {method: http.MethodGet, path: "/demo/greeting", as: u.pair},
	}
	for name, c := range calls {
		if r := s.do(t, c); r.Result.Code != "unavailable" {
			t.Errorf("%s: got %d %s, want CODE unavailable", name, r.Status, r.Raw)
		}
	}
	if got := s.status("/healthz"); got != http.StatusOK {
		t.Errorf("/healthz: got %d, want 200", got)
	}
	s.do(t, call{path: "nope/"}).want(t, "not_found")

	w.set(false)
	eventually(t, "calls are served again", func() bool { return s.do(t, calls["a valid session"]).Success == 1 })
	s.signIn(t, u)
}

// TestDatabaseOutage_AtStart checks that the host starts during an outage, reports it,
// and serves after it.
func TestDatabaseOutage_AtStart(t *testing.T) {
	t.Parallel()
	w, database := newWire(t, testkit.Postgres(t))
	w.set(true)
	s := launch(t, options{database: database, settings: cheap})
	s.awaitURL(t, options{})
	s.do(t, call{path: "auth/", params: params{"login": "anna", "password": "whatever it is"}}).want(t, "unavailable")
	if got := s.status("/readyz"); got != http.StatusServiceUnavailable {
		t.Errorf("/readyz: got %d, want 503", got)
	}
	w.set(false)
	eventually(t, "/readyz responds with 200", func() bool { return s.status("/readyz") == http.StatusOK })
	s.newUser(t)
}
