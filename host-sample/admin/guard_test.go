package admin

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personaladmin"
	"github.com/cms-personal/personal/shared/personalhttp"
)

// newSessions returns sessions with a clock that the test sets.
func newSessions() (*Sessions, *time.Time) {
	now := time.Unix(1_000_000, 0)
	s := NewSessions()
	s.now = func() time.Time { return now }
	return s, &now
}

func TestSessions_CodeIsSingleUse(t *testing.T) {
	s, _ := newSessions()
	code := s.NewCode()
	token, ok := s.redeem(code)
	if !ok || !s.valid(token, true) {
		t.Fatal("a new code: got no valid session, want one")
	}
	if _, ok := s.redeem(code); ok {
		t.Error("a spent code: got a session, want none")
	}
	for _, wrong := range []string{"", code, "x"} {
		if s.valid(wrong, true) {
			t.Errorf("token %q: got a valid session, want none", wrong)
		}
	}
	s.revoke(token)
	if s.valid(token, true) {
		t.Error("a revoked session: got valid, want invalid")
	}
}

func TestSessions_CodesAndSessionsExpire(t *testing.T) {
	s, now := newSessions()
	late := s.NewCode()
	*now = now.Add(LinkLife)
	if _, ok := s.redeem(late); ok {
		t.Error("an expired code: got a session, want none")
	}

	token, _ := s.redeem(s.NewCode())
	*now = now.Add(sessionIdle)
	if s.valid(token, true) {
		t.Error("an idle session: got valid, want expired")
	}

	token, _ = s.redeem(s.NewCode())
	start := *now
	for now.Sub(start) < sessionLife-time.Hour {
		*now = now.Add(time.Hour)
		if !s.valid(token, true) {
			t.Fatalf("a session in use has expired after %v, want %v", now.Sub(start), sessionLife)
		}
	}
	*now = now.Add(time.Hour)
	if s.valid(token, true) {
		t.Errorf("a session in use is valid after %v, want expired", sessionLife)
	}
}

func TestSessions_OldestCodeMakesRoomAtTheLimit(t *testing.T) {
	s, now := newSessions()
	first := s.NewCode()
	var last string
	for range maxLinks {
		*now = now.Add(time.Second)
		last = s.NewCode()
	}
	if len(s.links) != maxLinks {
		t.Errorf("got %d links, want %d", len(s.links), maxLinks)
	}
	if _, ok := s.redeem(first); ok {
		t.Error("the oldest code: got a session, want none")
	}
	if _, ok := s.redeem(last); !ok {
		t.Error("the newest code: got no session, want one")
	}
}

// newGuard returns a guard whose log entries have no time.
func newGuard(s *Sessions, log io.Writer, hosts ...string) *Guard {
	timeless := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	api, err := personalhttp.New(&personaltest.Service{}, personalhttp.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err) // the options are valid
	}
	return NewGuard(s, api, personaladmin.NewAccessLog(slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{ReplaceAttr: timeless}))), hosts...)
}

// localRequest is a request from this machine.
func localRequest(method, url string, body io.Reader) *http.Request {
	r := httptest.NewRequest(method, url, body)
	r.RemoteAddr = "127.0.0.1:9"
	return r
}

// visit requests a guarded page: 200 for administrators, 401 for others.
func visit(g *Guard, url string, cookies []*http.Cookie) int {
	r := localRequest(http.MethodGet, url, nil)
	for _, c := range cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	g.require(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }),
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }),
	).ServeHTTP(w, r)
	return w.Code
}

// signIn spends a new code and returns the cookies of the response.
func signIn(t *testing.T, s *Sessions, g *Guard, url string) []*http.Cookie {
	t.Helper()
	w := httptest.NewRecorder()
	if !g.signIn(w, localRequest(http.MethodPost, url, nil), s.NewCode()) {
		t.Fatal("signing in with a new code: got a refusal, want success")
	}
	return w.Result().Cookies()
}

func TestGuard_AdmitsSignedInBrowsersOnly(t *testing.T) {
	for url, name := range map[string]string{"http://127.0.0.1:8080/admin/": "admin", "https://cms.example/admin/": "__Host-admin"} {
		s := NewSessions()
		g := newGuard(s, io.Discard, "CMS.example")
		if got := visit(g, url, nil); got != http.StatusUnauthorized {
			t.Errorf("%s without a cookie: got status %d, want 401", url, got)
		}
		cookies := signIn(t, s, g, url)
		c := cookies[0]
		if c.Name != name || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" ||
			c.Secure != (name != "admin") {
			t.Errorf("%s: got cookie %v, want %s, HttpOnly, SameSite=Strict, for this host only", url, c, name)
		}
		if got := visit(g, url, cookies); got != http.StatusOK {
			t.Errorf("%s after signing in: got status %d, want 200", url, got)
		}
		r := localRequest(http.MethodPost, url, nil)
		r.AddCookie(c)
		g.signOut(httptest.NewRecorder(), r)
		if got := visit(g, url, cookies); got != http.StatusUnauthorized {
			t.Errorf("%s after signing out: got status %d, want 401", url, got)
		}
	}
}

func TestGuard_LogsAccessWithoutSecrets(t *testing.T) {
	s := NewSessions()
	var log bytes.Buffer
	g := newGuard(s, &log)
	send := func(url, token string, handle func(w http.ResponseWriter, r *http.Request)) *httptest.ResponseRecorder {
		r := localRequest(http.MethodPost, url, nil)
		r.AddCookie(&http.Cookie{Name: "admin", Value: token})
		w := httptest.NewRecorder()
		handle(w, r.WithContext(personal.WithCall(r.Context(), personal.Call{RequestID: "r-1", Address: netip.MustParseAddr("192.0.2.7")})))
		return w
	}
	code := s.NewCode()
	signIn := func(w http.ResponseWriter, r *http.Request) { g.signIn(w, r, code) }
	pages := g.require(http.NotFoundHandler(), http.NotFoundHandler()).ServeHTTP

	token := send("http://localhost/", "", signIn).Result().Cookies()[0].Value
	send("http://localhost/", token, pages) // is not logged
	send("http://localhost/", token, g.signOut)
	send("http://localhost/", token, signIn)
	send("http://evil.example/", token, signIn)
	send("http://localhost/", token, pages)
	send("http://evil.example/", token, pages)

	caller := ` address=192.0.2.7 request_id=r-1`
	refused := `level=WARN msg="admin request refused"` + caller + ` reason=`
	want := strings.Join([]string{
		`level=INFO msg="administrator signed in"` + caller,
		`level=INFO msg="administrator signed out"` + caller,
		refused + `"the sign-in link is unknown, used or expired"`,
		refused + strconv.Quote(errForeignHost.Error()),
		refused + `"no valid administrator session"`,
		refused + strconv.Quote(errForeignHost.Error()),
	}, "\n") + "\n"
	if log.String() != want {
		t.Errorf("got the log\n%swant\n%s", log.String(), want)
	}
}

func TestGuard_GetSpendsNoCode(t *testing.T) {
	s := NewSessions()
	g := newGuard(s, io.Discard)
	code := s.NewCode()
	if g.signIn(httptest.NewRecorder(), localRequest(http.MethodGet, "http://localhost/", nil), code) {
		t.Error("signing in by GET: got success, want a refusal")
	}
	if _, ok := s.redeem(code); !ok {
		t.Error("the code after a GET: got spent, want unused")
	}
}

func TestGuard_RefusesForeignHostNames(t *testing.T) {
	s := NewSessions()
	g := newGuard(s, io.Discard, "cms.example")
	for name, tt := range map[string]struct {
		url  string
		want int
	}{
		"own name":              {"http://cms.example:8080/", http.StatusOK},
		"own name in capitals":  {"http://CMS.example/", http.StatusOK},
		"IPv4 loopback":         {"http://127.0.0.9:1/", http.StatusOK},
		"IPv6 loopback":         {"http://[::1]:8080/", http.StatusOK},
		"IPv6 without a port":   {"http://[::1]/", http.StatusOK},
		"localhost":             {"http://localhost/", http.StatusOK},
		"foreign name":          {"http://evil.example/", http.StatusUnauthorized},
		"foreign address":       {"http://192.0.2.1/", http.StatusUnauthorized},
		"own name as a prefix":  {"http://cms.example.evil/", http.StatusUnauthorized},
		"own name before an at": {"http://cms.example@evil.example/", http.StatusUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			cookies := signIn(t, s, g, "http://cms.example/")
			if got := visit(g, tt.url, cookies); got != tt.want {
				t.Errorf("got status %d, want %d", got, tt.want)
			}
			got := g.signIn(httptest.NewRecorder(), localRequest(http.MethodPost, tt.url, nil), s.NewCode())
			if want := tt.want == http.StatusOK; got != want {
				t.Errorf("signing in: got %t, want %t", got, want)
			}
		})
	}
}

func TestGuard_LoopbackNameNeedsLocalClient(t *testing.T) {
	s := NewSessions()
	g := newGuard(s, io.Discard, "cms.example")
	cookies := signIn(t, s, g, "http://localhost/")
	for url, want := range map[string]bool{"http://localhost/admin/": false, "http://127.0.0.1:8080/admin/": false,
		"http://cms.example/admin/": true} {
		r := localRequest(http.MethodPost, url, nil)
		r.Header.Set("X-Forwarded-For", "192.0.2.7")
		r.AddCookie(cookies[0])
		w := httptest.NewRecorder()
		g.require(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), http.NotFoundHandler()).ServeHTTP(w, r)
		if got := w.Code == http.StatusOK; got != want {
			t.Errorf("%s through a proxy: got %t, want admitted %t", url, got, want)
		}
		if got := g.signIn(httptest.NewRecorder(), r, s.NewCode()); got != want {
			t.Errorf("%s: signing in through a proxy: got %t, want %t", url, got, want)
		}
	}
}

func TestGuard_PollsOfAnOpenTabAreNoUse(t *testing.T) {
	for condition, polls := range map[string]bool{"a script polls": true, "the administrator works": false} {
		sessions, now := newSessions()
		guard := newGuard(sessions, io.Discard, "example.com")
		token, _ := sessions.redeem(sessions.NewCode())
		admitted := true
		for range 5 {
			*now = now.Add(sessionIdle / 4)
			r := httptest.NewRequest("GET", "/admin/overview/now", nil)
			r.AddCookie(&http.Cookie{Name: cookieName, Value: token})
			if polls {
				r.Header.Set("Personal-Poll", "true")
			}
			_, err := guard.Admit(r)
			admitted = err == nil
		}
		if admitted == polls {
			t.Errorf("%s: admitted after %v: %t, want %t", condition, 5*sessionIdle/4, admitted, !polls)
		}
	}
}
