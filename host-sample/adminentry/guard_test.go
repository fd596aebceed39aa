package adminentry

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/cms-personal/personal/shared/personal"
)

// newGuard returns a guard whose record is written to a log without times.
func newGuard(e *Entry, log io.Writer, hosts ...string) *Guard {
	timeless := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	return NewGuard(e, NewRecord(slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{ReplaceAttr: timeless}))), hosts...)
}

// visit sends a request to a guarded page: 200 for administrators, 401 for others.
func visit(g *Guard, url string, cookies []*http.Cookie) int {
	r := httptest.NewRequest(http.MethodGet, url, nil)
	for _, c := range cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	g.Require(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }),
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }),
	).ServeHTTP(w, r)
	return w.Code
}

// enter spends a code and returns the cookies it brings.
func enter(t *testing.T, e *Entry, g *Guard, url string) []*http.Cookie {
	t.Helper()
	w := httptest.NewRecorder()
	if !g.Enter(w, httptest.NewRequest(http.MethodPost, url, nil), e.NewCode()) {
		t.Fatal("a fresh code lets nobody in")
	}
	return w.Result().Cookies()
}

func TestOnlyWhoEnteredIsLetThrough(t *testing.T) {
	for url, name := range map[string]string{"http://127.0.0.1:8080/admin/": "admin", "https://cms.example/admin/": "__Host-admin"} {
		e := New()
		g := newGuard(e, io.Discard, "CMS.example")
		if got := visit(g, url, nil); got != http.StatusUnauthorized {
			t.Errorf("a stranger gets %d", got)
		}
		cookies := enter(t, e, g, url)
		c := cookies[0]
		if c.Name != name || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || c.Secure != (name != "admin") {
			t.Errorf("cookie %v", c)
		}
		if got := visit(g, url, cookies); got != http.StatusOK {
			t.Errorf("an administrator gets %d", got)
		}
		r := httptest.NewRequest(http.MethodPost, url, nil)
		r.AddCookie(c)
		g.Leave(httptest.NewRecorder(), r)
		if got := visit(g, url, cookies); got != http.StatusUnauthorized {
			t.Errorf("who has left gets %d", got)
		}
	}
}

func TestComingGoingAndRefusalsAreToldWithoutAnySecret(t *testing.T) {
	e := New()
	var log bytes.Buffer
	g := newGuard(e, &log)
	send := func(url, code string, handle func(w http.ResponseWriter, r *http.Request)) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, url, nil)
		r.AddCookie(&http.Cookie{Name: "admin", Value: code})
		w := httptest.NewRecorder()
		handle(w, r.WithContext(personal.WithCall(r.Context(), personal.Call{RequestID: "r-1", Address: netip.MustParseAddr("192.0.2.7")})))
		return w
	}
	code := e.NewCode()
	enter := func(w http.ResponseWriter, r *http.Request) { g.Enter(w, r, code) }
	pages := g.Require(http.NotFoundHandler(), http.NotFoundHandler()).ServeHTTP

	token := send("http://localhost/", "", enter).Result().Cookies()[0].Value
	send("http://localhost/", token, pages) // which is no news
	send("http://localhost/", token, g.Leave)
	send("http://localhost/", token, enter)
	send("http://evil.example/", token, enter)
	send("http://localhost/", token, pages)
	send("http://evil.example/", token, pages)

	who := ` address=192.0.2.7 request_id=r-1`
	refused := `level=WARN msg="a request to administer was refused"` + who + ` reason=`
	want := []string{
		`level=INFO msg="an administrator has entered"` + who,
		`level=INFO msg="an administrator has left"` + who,
		refused + `"a link that was used, is too old, or never was given out"`,
		refused + `"the site was called by a name that is not its own"`,
		refused + `"no session of an administrator"`,
		refused + `"the site was called by a name that is not its own"`,
	}
	if got := strings.Join(want, "\n") + "\n"; log.String() != got {
		t.Errorf("the log:\n%swant:\n%s", log.String(), got)
	}
}

func TestOpeningALinkSpendsNothing(t *testing.T) {
	e := New()
	g := newGuard(e, io.Discard)
	code := e.NewCode()
	if g.Enter(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "http://localhost/", nil), code) {
		t.Error("a GET lets somebody in")
	}
	if _, ok := e.Redeem(code); !ok {
		t.Error("the code was spent")
	}
}

func TestOtherNamesAreRefused(t *testing.T) {
	e := New()
	g := newGuard(e, io.Discard, "cms.example")
	for name, tt := range map[string]struct {
		url  string
		want int
	}{
		"the site's own name":        {"http://cms.example:8080/", http.StatusOK},
		"its name in capitals":       {"http://CMS.example/", http.StatusOK},
		"loopback":                   {"http://127.0.0.9:1/", http.StatusOK},
		"loopback in IPv6":           {"http://[::1]:8080/", http.StatusOK},
		"loopback by name":           {"http://localhost/", http.StatusOK},
		"another name":               {"http://evil.example/", http.StatusUnauthorized},
		"another address":            {"http://192.0.2.1/", http.StatusUnauthorized},
		"a name that begins like it": {"http://cms.example.evil/", http.StatusUnauthorized},
	} {
		cookies := enter(t, e, g, "http://cms.example/")
		if got := visit(g, tt.url, cookies); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
		if got := g.Enter(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, tt.url, nil), e.NewCode()); got != (tt.want == http.StatusOK) {
			t.Errorf("%s: a code lets in: %v", name, got)
		}
	}
}
