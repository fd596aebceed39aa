package personalhttp_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personalhttp"
)

// guarded is a site with one route of the host behind RequireUser.
func guarded(t *testing.T, s personal.Service, options ...personalhttp.RequireOption) *site {
	t.Helper()
	h, err := personalhttp.New(s, personalhttp.Options{Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, ok := personalhttp.UserFrom(r.Context())
		if !ok || personal.CallFrom(r.Context()).RequestID == "" {
			t.Errorf("got user %v, %t and call %v, want both", u, ok, personal.CallFrom(r.Context()))
		}
		_, _ = io.WriteString(w, "hello "+u.Profile.Login)
	})
	server := httptest.NewServer(h.RequireUser(page, options...))
	t.Cleanup(server.Close)
	return &site{Server: server, t: t}
}

// annOnly is a service with one session.
func annOnly(calls *[]personal.Call) *personaltest.Service {
	return &personaltest.Service{ProfileFunc: func(ctx context.Context, c personal.Credentials) (personal.Profile, error) {
		*calls = append(*calls, personal.CallFrom(ctx))
		if c != (personal.Credentials{UserID: 42, UserHash: hash}) {
			return personal.Profile{}, personal.NewError(personal.CodeUnauthenticated, nil)
		}
		return personal.Profile{Login: "ann"}, nil
	}}
}

func TestRequireUser_PassesAuthenticatedUsersOnly(t *testing.T) {
	var calls []personal.Call
	s := guarded(t, annOnly(&calls))
	s.do("GET", "/page", "", "", "User-Id", "41", "User-Hash", hash, "Accept-Language", "ru", "X-Request-Id", "r-1").want(t, 401,
		personal.CodeUnauthenticated)
	if len(calls) != 1 || calls[0].RequestID != "r-1" || calls[0].Locale != "ru" || !calls[0].Address.IsValid() {
		t.Errorf("got calls %+v, want one with the request's id, locale and address", calls)
	}
	s.do("GET", "/page", "", "").want(t, 401, personal.CodeUnauthenticated)
	s.do("GET", "/page", "", "", "User-Id", "42", "User-Id", "42", "User-Hash", hash).want(t, 401, personal.CodeUnauthenticated)
	if len(calls) != 1 {
		t.Errorf("got %d calls, want none for malformed credentials", len(calls)-1)
	}

	r, _ := http.NewRequest("GET", s.URL+"/page", nil)
	r.Header.Set("User-Id", "42")
	r.Header.Set("User-Hash", hash)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, _ := io.ReadAll(res.Body); string(body) != "hello ann" || res.Header.Get("X-Request-Id") != calls[1].RequestID {
		t.Errorf("got %s %v, want hello ann and the request id", body, res.Header)
	}
}

func TestRequireUser_WithExtractor(t *testing.T) {
	var calls []personal.Call
	cookie := func(r *http.Request) (personal.Credentials, bool) {
		c, err := r.Cookie("session")
		if err != nil {
			return personal.Credentials{}, false
		}
		return personal.Credentials{UserID: 42, UserHash: c.Value}, true
	}
	s := guarded(t, annOnly(&calls), personalhttp.WithExtractor(cookie))
	s.do("GET", "/", "", "", "User-Id", "42", "User-Hash", hash).want(t, 401, personal.CodeUnauthenticated)
	s.do("GET", "/", "", "", "Cookie", "session=short").want(t, 401, personal.CodeUnauthenticated)
	r, _ := http.NewRequest("GET", s.URL, nil)
	r.AddCookie(&http.Cookie{Name: "session", Value: hash})
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if res.Body.Close(); res.StatusCode != 200 || len(calls) != 1 {
		t.Errorf("got status %d after %d calls, want 200 after 1", res.StatusCode, len(calls))
	}
}

func TestRequireUser_WithErrorHandler(t *testing.T) {
	var calls []personal.Call
	h, err := personalhttp.New(annOnly(&calls), personalhttp.Options{Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	reject := func(w http.ResponseWriter, r *http.Request, err error) {
		x := h.ErrorResponse(r, err)
		http.Error(w, x.Message, x.Status)
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Accept-Language", "ru")
	w := httptest.NewRecorder()
	h.RequireUser(http.NotFoundHandler(), personalhttp.WithErrorHandler(reject)).ServeHTTP(w, r)
	if w.Code != 401 || w.Body.String() != "Вы не вошли, или ваш сеанс завершён. Пожалуйста, войдите.\n" {
		t.Errorf("got %d %s, want 401 and the message in Russian", w.Code, w.Body)
	}
}

func TestRequireUser_DeniesOnServiceFailure(t *testing.T) {
	for code, profile := range map[personal.Code]func(context.Context, personal.Credentials) (personal.Profile, error){
		personal.CodeUnavailable: func(context.Context, personal.Credentials) (personal.Profile, error) {
			return personal.Profile{}, personal.NewError(personal.CodeUnavailable, nil)
		},
		personal.CodeInternal: func(context.Context, personal.Credentials) (personal.Profile, error) { panic("x") },
		personal.CodeNotFound: nil,
	} {
		s := guarded(t, &personaltest.Service{ProfileFunc: profile})
		if a := s.do("GET", "/", "", "", "User-Id", "42", "User-Hash", hash); a.Status < 400 || a.Result.Code != string(code) {
			t.Errorf("got %d %q, want %q", a.Status, a.Result.Code, code)
		}
	}
}

func TestWithCall_KeepsHostsCall(t *testing.T) {
	var calls []personal.Call
	s := annOnly(&calls)
	s.FieldsFunc = func(ctx context.Context) ([]personal.Field, error) {
		calls = append(calls, personal.CallFrom(ctx))
		return nil, nil
	}
	h, err := personalhttp.New(s, personalhttp.Options{Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	mine := personal.Call{RequestID: "mine", Locale: "ru", Agent: "a"}
	r := httptest.NewRequest("GET", prefix+"fields", nil)
	r = r.WithContext(personal.WithCall(r.Context(), mine))
	r.Header.Set("User-Id", "42")
	r.Header.Set("User-Hash", hash)
	for name, handler := range map[string]http.Handler{"the routes": h, "RequireUser": h.RequireUser(h), "WithCall": h.WithCall(h)} {
		calls = nil
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if got := w.Header().Values("X-Request-Id"); len(got) != 1 || got[0] != "mine" || len(calls) == 0 {
			t.Errorf("%s: got X-Request-Id %q after %d calls, want the host's", name, got, len(calls))
		}
		for _, got := range calls {
			if got != mine {
				t.Errorf("%s: got call %+v, want %+v", name, got, mine)
			}
		}
	}
}

func TestMessages_UnsupportedLocaleUsesDefault(t *testing.T) {
	h, err := personalhttp.New(noService(), personalhttp.Options{DefaultLocale: "ru", Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("GET", prefix, nil)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r.WithContext(personal.WithCall(r.Context(), personal.Call{RequestID: "x", Locale: "de"})))
	if !strings.Contains(w.Body.String(), "Такой страницы") {
		t.Errorf("got %s, want the message in Russian", w.Body)
	}
}

func TestUserFrom_NoUserOutsideRequireUser(t *testing.T) {
	if u, ok := personalhttp.UserFrom(t.Context()); ok {
		t.Errorf("got %v, want none", u)
	}
}

func BenchmarkAuthRefresh(b *testing.B) {
	s := everything()
	s.RefreshFunc = func(_ context.Context, c personal.Credentials) (personal.Credentials, error) { return c, nil }
	h, err := personalhttp.New(s, personalhttp.Options{Log: quiet()})
	if err != nil {
		b.Fatal(err)
	}
	r := httptest.NewRequest("GET", prefix+"auth_refresh/", nil)
	r.Header.Set("User-Id", "42")
	r.Header.Set("User-Hash", hash)
	r.Header.Set("Accept-Language", "ru-RU,ru;q=0.9,en;q=0.8")
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
}

func TestRequireUser_LetsTheServiceRememberWithinTheTimeout(t *testing.T) {
	var calls int
	ann := &personaltest.Service{ProfileFunc: func(ctx context.Context, _ personal.Credentials) (personal.Profile, error) {
		calls++
		if !personal.RememberedAllowed(ctx) {
			t.Error("got a context that does not allow remembered profiles")
		}
		if _, ok := ctx.Deadline(); !ok {
			t.Error("got a context without a deadline")
			return personal.Profile{}, nil
		}
		<-ctx.Done()
		return personal.Profile{}, personal.NewError(personal.CodeUnavailable, ctx.Err())
	}}
	h, err := personalhttp.New(ann, personalhttp.Options{Timeout: time.Millisecond, Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("GET", "/page", nil)
	r.Header.Set("User-Id", "42")
	r.Header.Set("User-Hash", hash)
	w := httptest.NewRecorder()
	h.RequireUser(http.NotFoundHandler()).ServeHTTP(w, r)
	if w.Code != http.StatusServiceUnavailable || calls != 1 {
		t.Errorf("got %d after %d calls, want 503 after one", w.Code, calls)
	}
}

func TestRequireUser_PollsAreMarked(t *testing.T) {
	for condition, tt := range map[string]struct {
		method, header string
		want           bool
	}{
		"a poll":        {"GET", "true", true},
		"a page":        {"GET", "", false},
		"another value": {"GET", "yes", false},
		"a post":        {"POST", "true", false},
	} {
		var calls []personal.Call
		h, err := personalhttp.New(annOnly(&calls), personalhttp.Options{Log: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(tt.method, "/page", nil)
		r.Header.Set("User-Id", "42")
		r.Header.Set("User-Hash", hash)
		r.Header.Set("Personal-Poll", tt.header)
		h.WithCall(h.RequireUser(http.NotFoundHandler())).ServeHTTP(httptest.NewRecorder(), r)
		if len(calls) != 1 || calls[0].Poll != tt.want {
			t.Errorf("%s: got the calls %+v, want one with Poll %t", condition, calls, tt.want)
		}
	}
}

// A service may hand its context to a goroutine that outlives the call.
func TestRequireUser_ContextOfTheVerificationEnds(t *testing.T) {
	var kept context.Context
	ann := &personaltest.Service{ProfileFunc: func(ctx context.Context, _ personal.Credentials) (personal.Profile, error) {
		kept = ctx
		return personal.Profile{Login: "ann"}, nil
	}}
	h, err := personalhttp.New(ann, personalhttp.Options{Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("GET", "/page", nil)
	r.Header.Set("User-Id", "42")
	r.Header.Set("User-Hash", hash)
	page := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if kept.Err() == nil {
			t.Error("the page is served: got a context that goes on, want that it has ended")
		}
	})
	h.RequireUser(page).ServeHTTP(httptest.NewRecorder(), r)
	if kept == nil {
		t.Error("got no call of Profile")
	}
}

func BenchmarkRequireUser(b *testing.B) {
	h, err := personalhttp.New(everything(), personalhttp.Options{Log: quiet()})
	if err != nil {
		b.Fatal(err)
	}
	page := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	r := httptest.NewRequest("GET", "/page", nil)
	r.Header.Set("User-Id", "42")
	r.Header.Set("User-Hash", hash)
	r.Header.Set("Accept-Language", "ru-RU,ru;q=0.9,en;q=0.8")
	r.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:141.0) Gecko/20100101 Firefox/141.0")
	for name, handler := range map[string]http.Handler{"bare": page, "WithCall": h.WithCall(page), "RequireUser": h.RequireUser(page),
		"both": h.WithCall(h.RequireUser(page))} {
		b.Run(name, func(b *testing.B) {
			w := httptest.NewRecorder()
			b.ReportAllocs()
			for b.Loop() {
				handler.ServeHTTP(w, r)
			}
		})
	}
}

func TestRequireUser_Complete(t *testing.T) {
	var p personal.Profile
	ann := &personaltest.Service{ProfileFunc: func(context.Context, personal.Credentials) (personal.Profile, error) { return p, nil }}
	tests := []struct {
		condition string
		profile   personal.Profile
		options   []personalhttp.RequireOption
		status    int
		code      personal.Code
	}{
		{"complete", personal.Profile{}, []personalhttp.RequireOption{personalhttp.Complete()}, 200, ""},
		{"incomplete", personal.Profile{Missing: []string{"city"}}, []personalhttp.RequireOption{personalhttp.Complete()}, 403, personal.CodeProfileIncomplete},
		{"incomplete, not demanded", personal.Profile{Missing: []string{"city"}}, nil, 200, ""},
		{
			"incomplete, and the e-mail is not verified", personal.Profile{Missing: []string{"city"}},
			[]personalhttp.RequireOption{personalhttp.Complete(), personalhttp.VerifiedEmail()}, 403, personal.CodeEmailUnverified,
		},
	}
	for _, tt := range tests {
		t.Run(tt.condition, func(t *testing.T) {
			p = tt.profile
			s := guarded(t, ann, tt.options...)
			r, _ := http.NewRequest("GET", s.URL, nil)
			r.Header.Set("User-Id", "42")
			r.Header.Set("User-Hash", hash)
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, _ := io.ReadAll(res.Body)
			if res.StatusCode != tt.status || !strings.Contains(string(body), string(tt.code)) {
				t.Errorf("got %d %s, want %d %s", res.StatusCode, body, tt.status, tt.code)
			}
		})
	}
}

func TestOptionalUser(t *testing.T) {
	const noUser, theUser, rejected = "nobody", "ann", "rejected "
	failing := func(code personal.Code) error { return personal.NewError(code, nil) }
	signedIn := []string{"User-Id", "42", "User-Hash", hash}
	tests := []struct {
		condition string
		headers   []string
		err       error // of the service
		options   []personalhttp.RequireOption
		want      string
		calls     int
	}{
		{"no credentials", nil, nil, nil, noUser, 0},
		{"malformed credentials", []string{"User-Id", "42", "User-Hash", "short"}, nil, nil, noUser, 0},
		{"a session", signedIn, nil, nil, theUser, 1},
		{"a session that has ended", signedIn, failing(personal.CodeUnauthenticated), nil, noUser, 1},
		{"the service is unavailable", signedIn, failing(personal.CodeUnavailable), nil, rejected + "unavailable", 1},
		{"the service is unavailable, no credentials", nil, failing(personal.CodeUnavailable), nil, noUser, 0},
		{"the site's service refuses the user", signedIn, failing(personal.CodeAccountDisabled), nil, rejected + "account_disabled", 1},
		{"a user who may not see it", signedIn, nil, []personalhttp.RequireOption{personalhttp.VerifiedEmail()}, rejected + "email_unverified of ann", 1},
		{"a visitor, and users need more", nil, nil, []personalhttp.RequireOption{personalhttp.VerifiedEmail()}, noUser, 0},
	}
	for _, tt := range tests {
		t.Run(tt.condition, func(t *testing.T) {
			calls := 0
			service := &personaltest.Service{ProfileFunc: func(ctx context.Context, _ personal.Credentials) (personal.Profile, error) {
				if calls++; !personal.RememberedAllowed(ctx) {
					t.Error("got a context that does not allow remembered profiles")
				}
				return personal.Profile{Login: "ann"}, tt.err
			}}
			h, err := personalhttp.New(service, personalhttp.Options{Log: quiet()})
			if err != nil {
				t.Fatal(err)
			}
			name := func(r *http.Request) string {
				if u, ok := personalhttp.UserFrom(r.Context()); ok {
					return u.Profile.Login
				}
				return noUser
			}
			page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if personal.CallFrom(r.Context()).RequestID == "" {
					t.Error("got no call")
				}
				_, _ = io.WriteString(w, name(r))
			})
			reject := func(w http.ResponseWriter, r *http.Request, err error) {
				text := rejected + string(personal.CodeOf(err))
				if of := name(r); of != noUser {
					text += " of " + of
				}
				_, _ = io.WriteString(w, text)
			}
			r := httptest.NewRequest("GET", "/", nil)
			for i := 0; i < len(tt.headers); i += 2 {
				r.Header.Set(tt.headers[i], tt.headers[i+1])
			}
			w := httptest.NewRecorder()
			h.OptionalUser(page, append(tt.options, personalhttp.WithErrorHandler(reject))...).ServeHTTP(w, r)
			if w.Body.String() != tt.want || calls != tt.calls {
				t.Errorf("got %q after %d calls, want %q after %d", w.Body, calls, tt.want, tt.calls)
			}
		})
	}
}
