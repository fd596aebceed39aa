package captcha_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personalhost"
	"github.com/cms-personal/personal/shared/personalhost/captcha"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalpages"
)

const (
	secret = "0xS3CRET"
	token  = "T0KEN"
)

// providers are the four, with their published protocol and what their servers say.
var providers = map[string]struct {
	make                  func(siteKey, secret string) *captcha.Captcha
	verify                string
	tokenKey, addressKey  string
	good, bad, badSecret  string // responses
	class, script, sentAs string
}{
	"turnstile": {
		captcha.Turnstile, "https://challenges.cloudflare.com/turnstile/v0/siteverify", "response", "remoteip",
		`{"success":true,"hostname":"www.example.com","error-codes":[]}`, `{"success":false,"error-codes":["timeout-or-duplicate"]}`,
		`{"success":false,"error-codes":["invalid-input-secret"]}`,
		"cf-turnstile", "https://challenges.cloudflare.com/turnstile/v0/api.js", "cf-turnstile-response",
	},
	"hcaptcha": {
		captcha.HCaptcha, "https://api.hcaptcha.com/siteverify", "response", "remoteip",
		`{"success":true,"hostname":"www.example.com","credit":false}`, `{"success":false,"error-codes":["invalid-input-response"]}`,
		`{"success":false,"error-codes":["sitekey-secret-mismatch"]}`,
		"h-captcha", "https://js.hcaptcha.com/1/api.js", "h-captcha-response",
	},
	"recaptcha": {
		captcha.ReCaptcha, "https://www.google.com/recaptcha/api/siteverify", "response", "remoteip",
		`{"success":true,"challenge_ts":"2026-11-29T19:00:00Z","hostname":"www.example.com"}`, `{"success":false,"error-codes":["timeout-or-duplicate"]}`,
		`{"success":false,"error-codes":["missing-input-secret"]}`,
		"g-recaptcha", "https://www.google.com/recaptcha/api.js", "g-recaptcha-response",
	},
	"smartcaptcha": {
		captcha.SmartCaptcha, "https://smartcaptcha.cloud.yandex.ru/validate", "token", "ip",
		`{"status":"ok","message":"","host":"www.example.com:8080"}`, `{"status":"failed","message":"Invalid or expired Token.","host":""}`,
		`{"status":"failed","message":"Authentication failed. Invalid Secret."}`,
		"smart-captcha", "https://smartcaptcha.cloud.yandex.ru/captcha.js", "smart-token",
	},
}

// fake is the server of a provider.
type fake struct {
	t       *testing.T
	respond func(w http.ResponseWriter)
	asked   []string // URL of each request
	form    url.Values
	fails   error // of the network
	hangs   bool
}

// newFake returns a captcha whose requests go to a fake provider, and its log.
func newFake(t *testing.T, c *captcha.Captcha, respond func(w http.ResponseWriter)) (*fake, *bytes.Buffer) {
	t.Helper()
	f := &fake{t: t, respond: respond}
	log := &bytes.Buffer{}
	c.Client, c.Log = &http.Client{Transport: f}, slog.New(slog.NewTextHandler(log, nil))
	return f, log
}

func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	f.asked = append(f.asked, r.URL.String())
	if f.fails != nil {
		return nil, f.fails
	}
	if f.hangs {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" || r.ParseForm() != nil {
		f.t.Errorf("got %s with %s, want a posted form", r.Method, r.Header.Get("Content-Type"))
	}
	f.form = r.PostForm
	w := httptest.NewRecorder()
	f.respond(w)
	response := w.Result()
	if response.ContentLength > int64(w.Body.Len()) {
		response.Body = io.NopCloser(io.MultiReader(response.Body, iotest.ErrReader(io.ErrUnexpectedEOF)))
	}
	return response, nil
}

func says(status int, body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// judge returns the decision about a request, as its caller gets it.
func judge(t *testing.T, c *captcha.Captcha, sent string) error {
	t.Helper()
	return judgeAs(t, c, personal.OpRegister, personal.Call{Address: netip.MustParseAddr("192.0.2.1")}, sent)
}

func judgeAs(t *testing.T, c *captcha.Captcha, operation personal.OperationName, call personal.Call, sent string) (err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { err = judgeInBubble(t, c, operation, call, sent) }) // a judgement has little time
	return err
}

func judgeInBubble(t *testing.T, c *captcha.Captcha, operation personal.OperationName, call personal.Call, sent string) error {
	t.Helper()
	service := (&personal.Admission{Judge: c.Judge}).Wrap(&personaltest.Service{
		RegisterFunc: func(ctx context.Context, _ personal.RegisterRequest) (personal.SignedIn, error) {
			if personal.TransientFrom(ctx) != nil {
				t.Error("the module gets the token")
			}
			return personal.SignedIn{}, nil
		},
		AuthorizeFunc: func(context.Context, personal.AuthorizeRequest) (personal.SignedIn, error) {
			return personal.SignedIn{}, nil
		},
		RecoverFunc: func(context.Context, personal.RecoverRequest) error { return nil },
		BeginMailedCodeFunc: func(context.Context, personal.BeginMailedCodeRequest) (personal.MailedCodeAttempt, error) {
			return personal.MailedCodeAttempt{}, nil
		},
		ResendVerificationFunc: func(context.Context, personal.ResendVerificationRequest) error { return nil },
		ChangeEmailFunc:        func(context.Context, personal.ChangeEmailRequest) error { return nil },
		FieldsFunc:             func(context.Context) ([]personal.Field, error) { return nil, nil },
	})
	ctx := personal.WithTransient(personal.WithCall(t.Context(), call), map[string]string{captcha.Parameter: sent})
	var err error
	switch operation {
	case personal.OpRegister:
		_, err = service.Register(ctx, personal.RegisterRequest{})
	case personal.OpAuthorize:
		_, err = service.Authorize(ctx, personal.AuthorizeRequest{})
	case personal.OpRecover:
		err = service.Recover(ctx, personal.RecoverRequest{})
	case personal.OpResendVerification:
		err = service.ResendVerification(ctx, personal.ResendVerificationRequest{})
	case personal.OpBeginMailedCode:
		_, err = service.BeginMailedCode(ctx, personal.BeginMailedCodeRequest{})
	case personal.OpChangeEmail:
		err = service.ChangeEmail(ctx, personal.ChangeEmailRequest{})
	default:
		t.Fatalf("no call of %s", operation)
	}
	return err
}

// wantDecision checks a decision: admitted, required, mismatch or unavailable.
func wantDecision(t *testing.T, err error, want string) {
	t.Helper()
	var e *personal.Error
	got := "admitted"
	switch {
	case err == nil:
	case !errors.As(err, &e):
		t.Fatalf("got %v, want a *personal.Error", err)
	case e.Code == personal.CodeValidationFailed && len(e.FieldErrors) == 1:
		if got = string(e.FieldErrors[captcha.Parameter]); e.FieldTexts[captcha.Parameter]["ru"] == "" {
			t.Errorf("%s has no text of its own: %v", got, e.FieldTexts)
		}
	default:
		got = string(e.Code)
	}
	if got != want {
		t.Errorf("got %s (%v), want %s", got, err, want)
	}
}

func TestCaptcha_FollowsTheProtocolOfItsProvider(t *testing.T) {
	for name, p := range providers {
		t.Run(name, func(t *testing.T) {
			c := p.make("site-key", secret)
			f, log := newFake(t, c, says(200, p.good))
			wantDecision(t, judge(t, c, token), "admitted")
			if want := (url.Values{"secret": {secret}, p.tokenKey: {token}, p.addressKey: {"192.0.2.1"}}); !maps.EqualFunc(f.form, want, slices.Equal) ||
				!slices.Equal(f.asked, []string{p.verify}) {
				t.Errorf("got %v sent to %v, want %v to %s", f.form, f.asked, want, p.verify)
			}
			if log.Len() > 0 {
				t.Errorf("a good token is logged: %s", log)
			}
			in := c.Input()
			if want := fmt.Sprintf(`<div class="%s" data-sitekey="site-key"></div>`, p.class); string(in.HTML) != want || in.Script != p.script || in.SentAs != p.sentAs {
				t.Errorf("got the input %+v, want %s, %s and %s", in, want, p.script, p.sentAs)
			}
		})
	}
}

func TestCaptcha_Decisions(t *testing.T) {
	const garbage, open, closed = "<html>502 \xff", true, false
	for name, p := range providers {
		for condition, tt := range map[string]struct {
			respond         func(http.ResponseWriter)
			token           string
			closed, open    string // decisions
			asked           int
			loggedIfRefused string
		}{
			"good token":              {says(200, p.good), token, "admitted", "admitted", 1, ""},
			"bad token":               {says(200, p.bad), token, "mismatch", "mismatch", 1, ""},
			"bad token with a 400":    {says(400, p.bad), token, "mismatch", "mismatch", 1, ""},
			"no token":                {says(200, p.good), "", "required", "required", 0, ""},
			"a huge token":            {says(200, p.good), strings.Repeat("x", 8<<10+1), "mismatch", "mismatch", 0, ""},
			"wrong secret":            {says(200, p.badSecret), token, "unavailable", "unavailable", 1, "check the keys"},
			"wrong secret with a 403": {says(403, garbage), token, "unavailable", "unavailable", 1, "check the keys"},
			"success with a 400":      {says(400, p.good), token, "mismatch", "mismatch", 1, ""},
			"provider is down":        {nil, token, "unavailable", "admitted", 1, "connection refused"},
			"provider is broken":      {says(500, garbage), token, "unavailable", "admitted", 1, "status 500"},
			"success with a 500":      {says(500, p.good), token, "unavailable", "admitted", 1, "status 500"},
			"provider is overloaded":  {says(429, garbage), token, "unavailable", "unavailable", 1, "status 429"},
			"garbage":                 {says(200, garbage), token, "unavailable", "admitted", 1, "is not a result"},
			"an empty object":         {says(200, "{}"), token, "unavailable", "admitted", 1, "is not a result"},
			"an empty response":       {says(200, ""), token, "unavailable", "admitted", 1, "is not a result"},
			"a huge response":         {says(200, p.good+strings.Repeat(" ", 1<<20)), token, "unavailable", "admitted", 1, "is not a result"},
			"a redirect":              {func(w http.ResponseWriter) { w.Header().Set("Location", "https://evil.example/"); w.WriteHeader(307) }, token, "unavailable", "admitted", 1, "status 307"},
			"a response that ends early": {func(w http.ResponseWriter) {
				w.Header().Set("Content-Length", "1000")
				_, _ = io.WriteString(w, p.good)
			}, token, "unavailable", "admitted", 1, "reading the response"},
		} {
			for _, failOpen := range []bool{closed, open} {
				t.Run(fmt.Sprintf("%s, %s, open %t", name, condition, failOpen), func(t *testing.T) {
					c := p.make("site-key", secret)
					c.FailOpen = failOpen
					f, log := newFake(t, c, tt.respond)
					if tt.respond == nil {
						f.fails = errors.New("connection refused")
					}
					err := judge(t, c, tt.token)
					wantDecision(t, err, map[bool]string{closed: tt.closed, open: tt.open}[failOpen])
					if len(f.asked) != tt.asked {
						t.Errorf("the provider was asked %d times, want %d", len(f.asked), tt.asked)
					}
					if !strings.Contains(log.String(), tt.loggedIfRefused) || tt.loggedIfRefused == "" && log.Len() > 0 {
						t.Errorf("got the log %q, want %q", log, tt.loggedIfRefused)
					}
					if all := fmt.Sprint(err, log); strings.Contains(all, secret) || strings.Contains(all, token) {
						t.Errorf("secret or token are in %s", all)
					}
				})
			}
		}
	}
}

func TestCaptcha_SlowProviderIsDecidedInTime(t *testing.T) {
	for _, failOpen := range []bool{false, true} {
		t.Run(fmt.Sprintf("open %t", failOpen), func(t *testing.T) {
			c := captcha.Turnstile("site-key", secret)
			c.FailOpen = failOpen
			f, log := newFake(t, c, nil)
			f.hangs = true
			var err error
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				err = judgeInBubble(t, c, personal.OpRegister, personal.Call{Address: netip.MustParseAddr("192.0.2.1")}, token)
				if took := time.Since(start); took > personal.MaxJudgement {
					t.Errorf("took %s, want a decision within %s", took, personal.MaxJudgement)
				}
			})
			wantDecision(t, err, map[bool]string{false: "unavailable", true: "admitted"}[failOpen])
			if !strings.Contains(log.String(), "deadline exceeded") {
				t.Errorf("got the log %q, want the reason", log)
			}
		})
	}
}

// A request that has waited for its turn is not admitted unchecked, whatever the provider does.
func TestCaptcha_LateRequestIsRefused(t *testing.T) {
	c := captcha.Turnstile("site-key", secret)
	c.FailOpen, c.Log = true, slog.New(slog.DiscardHandler)
	c.Client = &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) { return nil, errors.New("down") })}
	ctx := personal.WithTransient(t.Context(), map[string]string{captcha.Parameter: token})
	if err := c.Judge(ctx, personal.AdmissionRequest{Operation: personal.OpRegister}); err != nil {
		t.Errorf("in time, while the provider is down: got %v, want it admitted", err)
	}
	late, cancel := context.WithTimeout(ctx, time.Second) // real time: it is too little
	defer cancel()
	if err := c.Judge(late, personal.AdmissionRequest{Operation: personal.OpRegister}); err == nil {
		t.Error("too late: the request is admitted, want it refused")
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (r roundTrip) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

func TestCaptcha_Hostnames(t *testing.T) {
	for name, p := range providers {
		for hostname, want := range map[string]string{"www.example.com": "admitted", "WWW.Example.com": "admitted", "example.com": "mismatch", "evil.example": "mismatch"} {
			c := p.make("site-key", secret)
			c.Hostnames = []string{"other.example", hostname}
			c.FailOpen = true
			_, log := newFake(t, c, says(200, p.good))
			wantDecision(t, judge(t, c, token), want)
			if got := strings.Contains(log.String(), "hostname=www.example.com"); got != (want == "mismatch") {
				t.Errorf("%s, %s: got the log %q", name, hostname, log)
			}
		}
	}
}

func TestCaptcha_Operations(t *testing.T) {
	visitor := personal.Call{Address: netip.MustParseAddr("192.0.2.1")}
	all := []personal.OperationName{personal.OpRegister, personal.OpAuthorize, personal.OpRecover, personal.OpResendVerification,
		personal.OpBeginMailedCode, personal.OpChangeEmail}
	for name, tt := range map[string]struct {
		chosen, judged []personal.OperationName
		call           personal.Call
	}{
		"by default":    {nil, all[:5], visitor},
		"chosen":        {[]personal.OperationName{personal.OpChangeEmail}, all[5:], visitor},
		"administrator": {nil, nil, personal.Call{Administrator: "root"}},
	} {
		c := captcha.HCaptcha("site-key", secret)
		c.Operations = tt.chosen
		newFake(t, c, says(200, `{"success":true}`))
		for _, operation := range all {
			want := "admitted"
			if slices.Contains(tt.judged, operation) {
				want = "required"
			}
			t.Run(fmt.Sprintf("%s, %s", name, operation), func(t *testing.T) {
				wantDecision(t, judgeAs(t, c, operation, tt.call, ""), want)
			})
		}
		if name != "administrator" && !slices.Equal(c.Input().Operations, tt.judged) {
			t.Errorf("%s: the input is for %v, want %v", name, c.Input().Operations, tt.judged)
		}
	}
}

// connected is the module that the pages need.
type connected struct {
	api     *personalhttp.Handler
	service personal.Service
}

func (c connected) API() *personalhttp.Handler              { return c.api }
func (c connected) Service() personal.Service               { return c.service }
func (c connected) Administration() personal.Administration { return &personaltest.Administration{} }

func TestUse_AddsTheCaptchaToAdmissionAndPages(t *testing.T) {
	for name, p := range providers {
		t.Run(name, func(t *testing.T) {
			var later []string
			host := personalhost.Config{Admission: &personal.Admission{Concurrent: 7, Judge: func(ctx context.Context, _ personal.AdmissionRequest) error {
				later = append(later, personal.TransientFrom(ctx)["invite"])
				return nil
			}}}
			host.API.Transient = []string{"invite"}
			host.API.Log = slog.New(slog.DiscardHandler)
			pages := personalpages.Config{Log: host.API.Log}
			c := p.make(`k"<ey`, secret)
			newFake(t, c, says(200, p.bad))
			c.Use(&host, &pages)
			if host.Admission.Concurrent != 7 || !slices.Equal(host.API.Transient, []string{"invite", captcha.Parameter}) {
				t.Errorf("got %+v and %v, want the site's own kept", host.Admission, host.API.Transient)
			}
			service := host.Admission.Wrap(&personaltest.Service{
				FieldsFunc:   func(context.Context) ([]personal.Field, error) { return nil, nil },
				FeaturesFunc: func(context.Context) (personal.Features, error) { return personal.Features{}, nil },
				RegisterFunc: func(context.Context, personal.RegisterRequest) (personal.SignedIn, error) {
					return personal.SignedIn{}, nil
				},
			})
			api, err := personalhttp.New(service, host.API)
			if err != nil {
				t.Fatal(err)
			}
			account, err := personalpages.New(connected{api, service}, pages)
			if err != nil {
				t.Fatal(err)
			}
			post := func(sent string) *httptest.ResponseRecorder {
				form := url.Values{"login": {"anna"}, "invite": {"ABC"}, p.sentAs: {sent}}
				r := httptest.NewRequest("POST", "/account/register", strings.NewReader(form.Encode()))
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				r.Header.Set("Sec-Fetch-Site", "same-origin")
				w := httptest.NewRecorder()
				account.ServeHTTP(w, r)
				return w
			}
			w := post(token)
			widget := `<div class="` + p.class + `" data-sitekey="k&#34;&lt;ey"></div>`
			for _, want := range []string{widget, `<script src="` + p.script + `" async defer></script>`, `id="field-captcha-error">The check was not successful`} {
				if !strings.Contains(w.Body.String(), want) {
					t.Errorf("want %s in the page:\n%s", want, w.Body)
				}
			}
			if policy := w.Header().Get("Content-Security-Policy"); w.Code != 422 || !strings.Contains(policy, "frame-src https://") || strings.Contains(w.Body.String(), token) {
				t.Errorf("got %d, policy %s, want 422, the provider's frames and no token", w.Code, policy)
			}
			if len(later) > 0 {
				t.Error("the site's Judge decides about a request without a valid token")
			}
			newFake(t, c, says(200, p.good))
			if w := post(token); w.Code != http.StatusSeeOther || !slices.Equal(later, []string{"ABC"}) {
				t.Errorf("got %d, the site's Judge %v, want the registration, and the invite judged once", w.Code, later)
			}
		})
	}
}

func TestUse_WithoutAdmissionAndPages(t *testing.T) {
	var host personalhost.Config
	captcha.Turnstile("site-key", secret).Use(&host, nil)
	service := host.Admission.Wrap(&personaltest.Service{FieldsFunc: func(context.Context) ([]personal.Field, error) { return nil, nil }})
	_, err := service.Register(t.Context(), personal.RegisterRequest{})
	wantDecision(t, err, "required")
}
