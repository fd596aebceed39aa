package personalpages_test

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// onceForm is a form that cannot be sent again.
type onceForm struct {
	open func(b *browser) []string // returns what the form sends
	path string
	// refuse makes the service refuse the operation from now on, as it does the second time.
	refuse func(m *module)
	begins bool // it gives the visitor new credentials
}

var onceForms = map[string]onceForm{
	"register": {
		func(b *browser) []string {
			return append(b.get("/account/register").hidden(), "login", "anna", "email", "anna@example.com", "password", "p", "confirm_password", "p")
		}, "/account/register", func(m *module) {
			m.RegisterFunc = func(context.Context, personal.RegisterRequest) (personal.SignedIn, error) {
				return personal.SignedIn{}, personal.NewError(personal.CodeAlreadyExists, nil)
			}
		}, true,
	},
	"recover": {
		func(b *browser) []string {
			return append(b.get("/account/recover").hidden(), "token", "good", "password", "p", "confirm_password", "p")
		}, "/account/recover", func(m *module) {
			m.RecoverConfirmFunc = func(context.Context, personal.RecoverConfirmRequest) (personal.Recovered, error) {
				return personal.Recovered{}, personal.NewError(personal.CodeInvalidToken, nil)
			}
		}, false,
	},
	"forgot": {
		func(b *browser) []string { return append(b.get("/account/forgot").hidden(), "login", "anna") }, "/account/forgot", func(m *module) {
			m.RecoverFunc = func(context.Context, personal.RecoverRequest) error {
				return personal.NewError(personal.CodeTooManyAttempts, nil)
			}
		}, false,
	},
	"two-factor": {
		func(b *browser) []string {
			b.hold(first, 0)
			return append(b.post("/account/two-factor/set-up", "password", "correct horse").hidden(), "code", rightCode)
		}, "/account/two-factor/confirm", func(m *module) {
			m.ConfirmTwoFactorFunc = func(context.Context, personal.ConfirmTwoFactorRequest) (personal.ConfirmedTwoFactor, error) {
				return personal.ConfirmedTwoFactor{}, personal.NewError(personal.CodeTwoFactorOff, nil)
			}
		}, true,
	},
}

// sameResponse reports whether two responses are the same, with their cookies.
func sameResponse(a, b reply) bool {
	return a.StatusCode == b.StatusCode && a.body == b.body && a.Header.Get("Location") == b.Header.Get("Location") &&
		slices.Equal(a.Header["Set-Cookie"], b.Header["Set-Cookie"])
}

func TestOnce_SamePostGetsTheFirstResponse(t *testing.T) {
	for name, form := range onceForms {
		for between, test := range map[string]struct {
			do   func(m *module, b *browser, pairs []string, fresh map[string]*http.Cookie) []string
			same bool
		}{
			"nothing": {func(_ *module, _ *browser, pairs []string, _ map[string]*http.Cookie) []string { return pairs }, true},
			"ten seconds": {func(_ *module, _ *browser, pairs []string, _ map[string]*http.Cookie) []string {
				time.Sleep(10 * time.Second)
				synctest.Wait()
				return pairs
			}, false},
			"another value": {func(_ *module, _ *browser, pairs []string, _ map[string]*http.Cookie) []string {
				return append(pairs[:len(pairs)-1:len(pairs)-1], "other")
			}, false},
			"another view of the page": {func(_ *module, _ *browser, pairs []string, _ map[string]*http.Cookie) []string {
				other := slices.Clone(pairs)
				other[slices.Index(other, "once")+1] += "A"
				return other
			}, false},
			"another session": {func(_ *module, b *browser, pairs []string, _ map[string]*http.Cookie) []string {
				b.hold(hash("5"), 0)
				return pairs
			}, false},
		} {
			t.Run(name+", "+between, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := withTwoFactor(newModule())
					b := newBrowser(t, m)
					pairs := form.open(b)
					if slices.Index(pairs, "once") < 0 {
						t.Fatalf("got the fields %v, want once", pairs)
					}
					before := maps.Clone(b.jar)
					first := b.post(form.path, pairs...)
					if first.StatusCode >= 400 {
						t.Fatalf("got %d: %s", first.StatusCode, first.body)
					}
					fresh := maps.Clone(b.jar)
					b.jar = before // the browser has not read the response
					form.refuse(m)
					pairs = test.do(m, b, pairs, fresh)
					if again := b.post(form.path, pairs...); sameResponse(first, again) != test.same {
						t.Errorf("got %d %v\n%s\nthe first response again: want %t", again.StatusCode, again.Header["Set-Cookie"], again.body, test.same)
					}
				})
			})
		}
		if !form.begins {
			continue
		}
		for after, end := range map[string]func(m *module, b *browser){
			"a use of the session": func(_ *module, b *browser) { b.get("/account") },
			"the end of the session": func(m *module, _ *browser) {
				m.ProfileFunc = func(context.Context, personal.Credentials) (personal.Profile, error) {
					return personal.Profile{}, personal.NewError(personal.CodeUnauthenticated, nil)
				}
			},
		} {
			t.Run(name+", "+after, func(t *testing.T) {
				m := withTwoFactor(newModule())
				b := newBrowser(t, m)
				pairs := form.open(b)
				before := maps.Clone(b.jar)
				first := b.post(form.path, pairs...)
				form.refuse(m)
				end(m, b)
				b.jar = before
				if sameResponse(first, b.post(form.path, pairs...)) {
					t.Error("got the first response, want that of a new post")
				}
			})
		}
	}
}

// The second post comes while the first one is in work, whose browser has hung up.
func TestOnce_WaitsForTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := withTwoFactor(newModule())
		var calls atomic.Int32
		register := m.RegisterFunc
		m.RegisterFunc = func(ctx context.Context, r personal.RegisterRequest) (personal.SignedIn, error) {
			calls.Add(1)
			time.Sleep(time.Second)
			if ctx.Err() != nil {
				t.Error("the first operation was interrupted")
			}
			return register(ctx, r)
		}
		b := newBrowser(t, m)
		pairs := onceForms["register"].open(b)
		form := url.Values{}
		for i := 0; i < len(pairs); i += 2 {
			form.Add(pairs[i], pairs[i+1])
		}
		ctx, hangUp := context.WithCancel(t.Context())
		go func() {
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/account/register", strings.NewReader(form.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Sec-Fetch-Site", "same-origin")
			b.handler.ServeHTTP(httptest.NewRecorder(), r)
		}()
		synctest.Wait()
		hangUp()
		second := b.post("/account/register", pairs...)
		if second.StatusCode != http.StatusSeeOther || calls.Load() != 1 {
			t.Errorf("got %d after %d operations, want 303 after one", second.StatusCode, calls.Load())
		}
	})
}
