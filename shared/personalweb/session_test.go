package personalweb_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalweb"
)

// hash returns a well-formed session hash with the given last character.
func hash(end string) string { return strings.Repeat("aB3_-", 8) + "xy" + end }

var ann = personal.Credentials{UserID: 42, UserHash: hash("1")}

func newSession(t *testing.T, s personal.Service, o personalweb.SessionOptions) *personalweb.Session {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	session, err := personalweb.NewSession(newAPI(t, personalhttp.Options{}), s, o)
	if err != nil {
		t.Fatal(err)
	}
	return session
}

func newAPI(t *testing.T, o personalhttp.Options) *personalhttp.Handler {
	t.Helper()
	o.Log = slog.New(slog.DiscardHandler)
	api, err := personalhttp.New(&personaltest.Service{}, o)
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// holding returns a request with a cookie of the given age.
func holding(method string, c personal.Credentials, age time.Duration) *http.Request {
	r := httptest.NewRequest(method, "/page", nil)
	value := fmt.Sprintf("%d.%s.%d", c.UserID, c.UserHash, time.Now().Add(-age).Unix())
	r.AddCookie(&http.Cookie{Name: "account", Value: value})
	return r
}

func TestSession_CookieAttributes(t *testing.T) {
	for condition, tt := range map[string]struct {
		url     string
		options personalweb.SessionOptions
		want    string // with the hash
	}{
		"plain HTTP": {"http://site.example/", personalweb.SessionOptions{}, "account=42.%s.; Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax"},
		"TLS":        {"https://site.example/", personalweb.SessionOptions{}, "__Host-account=42.%s.; Path=/; Max-Age=2592000; HttpOnly; Secure; SameSite=Lax"},
		"options":    {"http://site.example/", personalweb.SessionOptions{Name: "me", Life: 90 * time.Minute}, "me=42.%s.; Path=/; Max-Age=5400; HttpOnly; SameSite=Lax"},
	} {
		t.Run(condition, func(t *testing.T) {
			s := newSession(t, &personaltest.Service{}, tt.options)
			w := httptest.NewRecorder()
			r := httptest.NewRequest("POST", tt.url, nil)
			s.SignIn(w, r, ann)
			value, attributes, _ := strings.Cut(w.Header().Get("Set-Cookie"), ";")
			if got := value[:strings.LastIndex(value, ".")+1] + ";" + attributes; got != fmt.Sprintf(tt.want, ann.UserHash) {
				t.Errorf("got %s, want %s", got, fmt.Sprintf(tt.want, ann.UserHash))
			}
			if got := w.Header().Get("Cache-Control"); got != "no-store" {
				t.Errorf("got Cache-Control %q, want no-store", got)
			}
			r.AddCookie(w.Result().Cookies()[0])
			if got, ok := s.Credentials(r); !ok || got != ann {
				t.Errorf("got credentials %v, %t, want those of the sign-in", got, ok)
			}
		})
	}
}

func TestSession_MalformedCookieHasNoCredentials(t *testing.T) {
	s := newSession(t, &personaltest.Service{}, personalweb.SessionOptions{})
	for _, value := range []string{"", "42", "42." + hash("1"), "042." + hash("1") + ".1", "42." + hash("1") + ".x",
		"42." + hash("1") + ".1.2"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.AddCookie(&http.Cookie{Name: "account", Value: value})
		if c, ok := s.Credentials(r); ok {
			t.Errorf("%q: got %v, want none", value, c)
		}
	}
}

func TestSession_SignInEndsPrevious(t *testing.T) {
	previous := personal.Credentials{UserID: 41, UserHash: hash("0")}
	for condition, tt := range map[string]struct {
		held   bool
		err    error
		logged bool
	}{
		"no session before":  {},
		"a session":          {held: true},
		"it has ended":       {held: true, err: personal.NewError(personal.CodeUnauthenticated, nil)},
		"it cannot be ended": {held: true, err: personal.NewError(personal.CodeUnavailable, nil), logged: true},
	} {
		t.Run(condition, func(t *testing.T) {
			var ended []personal.LogoutRequest
			service := &personaltest.Service{LogoutFunc: func(_ context.Context, r personal.LogoutRequest) error {
				ended = append(ended, r)
				return tt.err
			}}
			var log bytes.Buffer
			s := newSession(t, service, personalweb.SessionOptions{Log: slog.New(slog.NewTextHandler(&log, nil))})
			r, want := httptest.NewRequest("POST", "/", nil), []personal.LogoutRequest(nil)
			if tt.held {
				r, want = holding("POST", previous, 0), []personal.LogoutRequest{{Credentials: previous}}
			}
			w := httptest.NewRecorder()
			s.SignIn(w, r, ann)
			if diff := cmp.Diff(want, ended); diff != "" {
				t.Errorf("ended sessions (-want +got):\n%s", diff)
			}
			if !strings.Contains(w.Header().Get("Set-Cookie"), ann.UserHash) || strings.Contains(log.String(), "code=unavailable") != tt.logged {
				t.Errorf("got %v and the log %s, want the new hash, and a line: %t", w.Header(), &log, tt.logged)
			}
			if strings.Contains(log.String(), previous.UserHash) {
				t.Errorf("the log has the hash:\n%s", &log)
			}
		})
	}
}

func TestSession_SignOut(t *testing.T) {
	for condition, tt := range map[string]struct {
		err  error
		kept bool
	}{
		"a session":          {},
		"it has ended":       {err: personal.NewError(personal.CodeUnauthenticated, nil)},
		"it cannot be ended": {err: personal.NewError(personal.CodeUnavailable, nil), kept: true},
	} {
		t.Run(condition, func(t *testing.T) {
			var ended []personal.LogoutRequest
			s := newSession(t, &personaltest.Service{LogoutFunc: func(_ context.Context, r personal.LogoutRequest) error {
				ended = append(ended, r)
				return tt.err
			}}, personalweb.SessionOptions{})
			w := httptest.NewRecorder()
			err := s.SignOut(w, holding("POST", ann, 0), true)
			if diff := cmp.Diff([]personal.LogoutRequest{{Credentials: ann, All: true}}, ended); diff != "" {
				t.Errorf("ended sessions (-want +got):\n%s", diff)
			}
			deleted := strings.HasPrefix(w.Header().Get("Set-Cookie"), "account=; Path=/; Max-Age=0")
			if (err != nil) != tt.kept || deleted == tt.kept {
				t.Errorf("got %v and %v, want that the cookie is kept: %t", err, w.Header(), tt.kept)
			}
		})
	}
}

func TestSession_Refresh(t *testing.T) {
	for condition, tt := range map[string]struct {
		method string
		age    time.Duration
		err    error
		asked  int
		sent   bool
	}{
		"young":                {method: "GET", age: 4 * time.Minute},
		"old":                  {method: "GET", age: 6 * time.Minute, asked: 1, sent: true},
		"from the future":      {method: "GET", age: -time.Hour, asked: 1, sent: true},
		"a post":               {method: "POST", age: 6 * time.Minute},
		"the service is down":  {method: "GET", age: 6 * time.Minute, err: personal.NewError(personal.CodeUnavailable, nil), asked: 1},
		"the session is ended": {method: "GET", age: 6 * time.Minute, err: personal.NewError(personal.CodeUnauthenticated, nil), asked: 1},
	} {
		t.Run(condition, func(t *testing.T) {
			asked := 0
			s := newSession(t, &personaltest.Service{RefreshFunc: func(context.Context, personal.Credentials) (personal.Credentials, error) {
				asked++
				return personal.Credentials{UserID: 42, UserHash: hash("2")}, tt.err
			}}, personalweb.SessionOptions{})
			w := httptest.NewRecorder()
			s.Refresh(w, holding(tt.method, ann, tt.age))
			cookie := w.Header().Get("Set-Cookie")
			if sent := strings.Contains(cookie, hash("2")); asked != tt.asked || sent != tt.sent || sent != (cookie != "") {
				t.Errorf("got %d refreshes and cookie %q, want %d and the new one: %t", asked, cookie, tt.asked, tt.sent)
			}
		})
	}
	s := newSession(t, &personaltest.Service{}, personalweb.SessionOptions{}) // which is not asked
	s.Refresh(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))   // no session
	poll := holding("GET", ann, time.Hour)
	poll.Header.Set("Personal-Poll", "true")
	s.Refresh(httptest.NewRecorder(), poll)
}

func TestSession_SchemeMayChange(t *testing.T) {
	s := newSession(t, &personaltest.Service{LogoutFunc: func(context.Context, personal.LogoutRequest) error { return nil }},
		personalweb.SessionOptions{})
	r := holding("POST", ann, 0)
	if _, ok := s.Credentials(r); !ok {
		t.Error("plain HTTP: got no credentials")
	}
	r.TLS = &tls.ConnectionState{} // another host of the domain can have set the cookie
	if _, ok := s.Credentials(r); ok {
		t.Error("HTTPS: a cookie without the prefix was accepted")
	}
	w := httptest.NewRecorder()
	s.SignIn(w, r, ann)
	var names []string
	for _, c := range w.Result().Cookies() {
		names = append(names, fmt.Sprint(c.Name, " ", c.MaxAge > 0))
	}
	if want := []string{"__Host-account true", "account false"}; !slices.Equal(names, want) {
		t.Errorf("got cookies %q, want %q", names, want)
	}
}

func TestNewSession_RefusesInvalidOptions(t *testing.T) {
	for _, o := range []personalweb.SessionOptions{{Name: "a b"}, {Name: "__Host-account"}, {Life: time.Millisecond}, {Life: -time.Hour}} {
		if _, err := personalweb.NewSession(nil, nil, o); err == nil {
			t.Errorf("%+v: got no error", o)
		}
	}
}
