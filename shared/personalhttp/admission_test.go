package personalhttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cms-personal/personal/internal/testkit/openapitest"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personalhttp"
)

// judgedPaths are the operations that an Admission judges.
var judgedPaths = []string{"register", "auth", "passkey_auth", "code_begin", "code_auth", "recover", "email", "email_resend"}

// judgedBy returns a service behind a Judge.
func judgedBy(s personal.Service, judge func(context.Context, personal.AdmissionRequest) error) personal.Service {
	return (&personal.Admission{Judge: judge}).Wrap(s)
}

// judgedFailing is a service whose judged operations return an error.
func judgedFailing(err error) *personaltest.Service {
	return &personaltest.Service{
		RegisterFunc: func(context.Context, personal.RegisterRequest) (personal.SignedIn, error) {
			return personal.SignedIn{}, err
		},
		AuthorizeFunc: func(context.Context, personal.AuthorizeRequest) (personal.SignedIn, error) {
			return personal.SignedIn{}, err
		},
		BeginMailedCodeFunc: func(context.Context, personal.BeginMailedCodeRequest) (personal.MailedCodeAttempt, error) {
			return personal.MailedCodeAttempt{}, nil
		},
		AuthorizeMailedCodeFunc: func(context.Context, personal.AuthorizeMailedCodeRequest) (personal.SignedIn, error) {
			return personal.SignedIn{}, nil
		},
		AuthorizePasskeyFunc: func(context.Context, personal.AuthorizePasskeyRequest) (personal.SignedIn, error) {
			return personal.SignedIn{}, err
		},
		RecoverFunc:            func(context.Context, personal.RecoverRequest) error { return err },
		ChangeEmailFunc:        func(context.Context, personal.ChangeEmailRequest) error { return err },
		ResendVerificationFunc: func(context.Context, personal.ResendVerificationRequest) error { return err },
		FieldsFunc: func(context.Context) ([]personal.Field, error) {
			return []personal.Field{{Name: "city", Type: personal.TypeText}}, nil
		},
	}
}

// TestAdmission_OrderOfErrors checks the order of the HTTP contract, section 1: the
// admission comes after the errors of HTTP itself and before all others.
func TestAdmission_OrderOfErrors(t *testing.T) {
	var judged int
	judge := func(context.Context, personal.AdmissionRequest) error {
		judged++
		return personal.Refuse(nil)
	}
	for _, code := range []personal.Code{
		personal.CodeTooManyAttempts, personal.CodeUnauthenticated, personal.CodeInvalidCredentials, personal.CodeAccountDisabled, personal.CodeValidationFailed,
	} {
		s := newSite(t, judgedBy(judgedFailing(personal.NewError(code, nil)), judge), personalhttp.Options{Transient: []string{"captcha"}})
		for _, name := range judgedPaths {
			judged = 0
			path := prefix + name + "/"
			s.do("POST", prefix+name+"s/", form, "").want(t, 404, personal.CodeNotFound)
			s.do("PUT", path, form, "").want(t, 405, personal.CodeMethodNotAllowed)
			s.do("POST", path, "text/plain", "x").want(t, 415, personal.CodeUnsupportedMediaType)
			s.do("POST", path, form, strings.Repeat("x", 65<<10)).want(t, 413, personal.CodeTooLarge)
			s.do("POST", path, asJSON, "{").want(t, 400, personal.CodeMalformedRequest)
			s.do("POST", path, form, "captcha=a&captcha=b").want(t, 400, personal.CodeMalformedRequest)
			s.do("POST", path, form, "captcha[]=a").want(t, 400, personal.CodeMalformedRequest)
			s.do("POST", path, asJSON, `{"captcha": {}}`).want(t, 400, personal.CodeMalformedRequest)
			if !slices.Contains([]string{"email", "passkey_auth", "code_auth"}, name) { // their other parameters are ignored
				s.do("POST", path, form, "login=a&login=b").want(t, 400, personal.CodeMalformedRequest)
			}
			if name == "register" {
				s.do("POST", path, form, "city=a&city=b").want(t, 400, personal.CodeMalformedRequest)
			}
			if judged != 0 {
				t.Errorf("%s: %d requests were judged although HTTP itself refuses them", name, judged)
			}
			s.do("POST", path, form, "login[]=a").want(t, 403, personal.CodeRefused) // a field error of the decoder comes later
			if judged != 1 {
				t.Errorf("%s with %s: judged %d times, want once", name, code, judged)
			}
		}
	}
}

func TestAdmission_FieldErrorsComeAlone(t *testing.T) {
	judge := func(context.Context, personal.AdmissionRequest) error {
		return personal.FieldErrors{"captcha": personal.FieldErrorRequired}.Err()
	}
	s := newSite(t, judgedBy(lifelike(nil), judge), personalhttp.Options{Transient: []string{"captcha"}})
	described, err := openapitest.Parse([]byte(s.do("GET", prefix+"openapi.json", "", "").Body))
	if err != nil {
		t.Fatal(err)
	}
	s.described = described
	for _, name := range judgedPaths {
		a := s.do("POST", prefix+name+"/", form, "login[]=a&email[]=b")
		a.want(t, 422, personal.CodeValidationFailed)
		if len(a.Result.Fields) != 1 || a.Result.Fields["captcha"].Code != "required" {
			t.Errorf("%s: got fields %v, want the Judge's alone", name, a.Result.Fields)
		}
	}
}

func TestAdmission_RefusalHasMessageInCallersLanguage(t *testing.T) {
	message := personal.LocalText{"en": "Members only.", "ru": "Только для участников.", "de": "Nur für Mitglieder."}
	for _, tt := range []struct {
		message         personal.LocalText
		language, shown string
	}{
		{message, "ru", "Только для участников."},
		{message, "de, en;q=0.5", "Nur für Mitglieder."},
		{message, "fr", "Members only."},
		{personal.LocalText{"ru": "Только для участников."}, "en", "Только для участников."},
		{nil, "en", "This site does not accept this request. Please contact the administrator of the site."},
		{personal.LocalText{"en": ""}, "ru", "Сайт не принимает этот запрос. Обратитесь к администратору сайта."},
	} {
		s := newSite(t, judgedBy(lifelike(nil), func(context.Context, personal.AdmissionRequest) error { return personal.Refuse(tt.message) }),
			personalhttp.Options{})
		a := s.do("POST", prefix+"recover/", form, "login=anna", "Accept-Language", tt.language)
		a.want(t, 403, personal.CodeRefused)
		if a.Result.Message != tt.shown {
			t.Errorf("%v for %s: got message %q, want %q", tt.message, tt.language, a.Result.Message, tt.shown)
		}
	}
}

func TestAdmission_FieldErrorHasTheJudgesTextInCallersLanguage(t *testing.T) {
	all := personal.LocalText{"en": "Unknown invite.", "ru": "Приглашение не найдено.", "de": "Unbekannte Einladung."}
	const standard = "any"
	for _, tt := range []struct {
		text                   personal.LocalText
		site, language, wanted string
	}{
		{all, "en", "ru", all["ru"]},
		{all, "en", "de, en;q=0.5", all["de"]},
		{all, "en", "fr", all["en"]},
		{all, "de-AT", "fr", all["de"]},
		{all, "ru", "", all["ru"]},
		{personal.LocalText{"ru": all["ru"]}, "en", "en", all["ru"]},
		{nil, "en", "en", standard},
		{personal.LocalText{"en": ""}, "en", "en", standard},
	} {
		for _, parameter := range []string{"invite_code", "unnamed", "login", "city"} {
			judge := func(context.Context, personal.AdmissionRequest) error {
				return &personal.AdmissionError{FieldErrors: map[string]personal.AdmissionFieldError{
					parameter: {Code: personal.FieldErrorMismatch, Text: tt.text},
				}}
			}
			service := judgedFailing(errors.New("the module is called"))
			s := newSite(t, judgedBy(service, judge), personalhttp.Options{Transient: []string{"invite_code"}, DefaultLocale: tt.site, Messages: german(t)})
			a := s.do("POST", prefix+"register/", form, "invite_code=x", "Accept-Language", tt.language)
			a.want(t, 422, personal.CodeValidationFailed)
			got, ok := a.Result.Fields[parameter]
			if !ok || len(a.Result.Fields) != 1 || got.Code != "mismatch" || tt.wanted != standard && got.Message != tt.wanted {
				t.Errorf("%s, %v for %q: got fields %v, want %q", parameter, tt.text, tt.language, a.Result.Fields, tt.wanted)
			}
			if tt.wanted == standard && (got.Message == "" || strings.Contains(got.Message, "nvite")) {
				t.Errorf("%s: got %q, want the standard message", parameter, got.Message)
			}
		}
	}
}

func TestTransient_ReachesTheJudgeOnly(t *testing.T) {
	const multipart = "--x\r\nContent-Disposition: form-data; name=\"captcha\"\r\n\r\nT1\r\n--x--\r\n"
	for _, tt := range []struct {
		mediaType, body string
		want            map[string]string
	}{
		{form, "captcha=T1&invite=I1&city=Kazan", map[string]string{"captcha": "T1", "invite": "I1"}},
		{form, "captcha=&city=Kazan", nil},
		{asJSON, `{"captcha": "T1", "invite": 12345}`, map[string]string{"captcha": "T1", "invite": "12345"}},
		{asJSON, `{"captcha": null, "invite": true}`, map[string]string{"invite": "true"}},
		{"multipart/form-data; boundary=x", multipart, map[string]string{"captcha": "T1"}},
		{"", "", nil},
	} {
		for _, withAdmission := range []bool{true, false} {
			noFields := func(context.Context) ([]personal.Field, error) { return nil, nil }
			var service personal.Service = &personaltest.Service{FieldsFunc: noFields, RegisterFunc: func(ctx context.Context,
				r personal.RegisterRequest) (personal.SignedIn, error) {
				for name := range r.Fields {
					if name != "city" {
						t.Errorf("%s: the module got field %s", tt.body, name)
					}
				}
				if got := personal.TransientFrom(ctx); withAdmission && got != nil {
					t.Errorf("%s: the module got %v", tt.body, got)
				}
				return personal.SignedIn{}, nil
			}}
			judged := 0
			if withAdmission {
				service = judgedBy(service, func(ctx context.Context, r personal.AdmissionRequest) error {
					judged++
					if got := personal.TransientFrom(ctx); !maps.Equal(got, tt.want) || len(r.Fields) > 1 {
						t.Errorf("%s: the Judge got %v and fields %v, want %v", tt.body, got, r.Fields, tt.want)
					}
					return nil
				})
			}
			s := newSite(t, service, personalhttp.Options{Transient: []string{"captcha", "invite"}})
			s.do("POST", prefix+"register/", tt.mediaType, tt.body).want(t, 200, "")
			if withAdmission && judged != 1 {
				t.Errorf("%s: judged %d times, want once", tt.body, judged)
			}
		}
	}
}

func TestTransient_OtherOperationsIgnoreIt(t *testing.T) {
	service := &personaltest.Service{UpdateProfileFunc: func(ctx context.Context, r personal.UpdateProfileRequest) (personal.Profile, error) {
		if personal.TransientFrom(ctx) != nil || len(r.Fields) != 1 {
			t.Errorf("got %v and fields %v, want only city", personal.TransientFrom(ctx), r.Fields)
		}
		return personal.Profile{}, nil
	}}
	s := newSite(t, service, personalhttp.Options{Transient: []string{"captcha"}})
	for _, captcha := range []string{"captcha=T1", "captcha[]=T1", "captcha=T1&captcha=T2"} {
		s.do("POST", prefix+"profile/", form, captcha+"&city=Kazan").want(t, 200, "")
	}
}

func TestNew_RefusesTransientNames(t *testing.T) {
	for _, name := range append(personal.ParameterNames(), "", "Captcha", "cap tcha", "_captcha", "captcha_", "captcha[]",
		"g-recaptcha-response", "капча") {
		_, err := personalhttp.New(noService(), personalhttp.Options{Transient: []string{"fine", name}})
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", name)) {
			t.Errorf("%q: got %v, want an error that names it", name, err)
		}
	}
	if _, err := personalhttp.New(noService(), personalhttp.Options{Transient: []string{"captcha", "captcha"}}); err == nil {
		t.Error("got no error for a name given twice")
	}
	if _, err := personalhttp.New(noService(), personalhttp.Options{Transient: []string{"captcha", "invite_2"}}); err != nil {
		t.Error(err)
	}
}

func TestOpenAPI_ListsTransientParameters(t *testing.T) {
	var document struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct{ Type any }
				Required   []string
			}
		}
	}
	s := newSite(t, withFields(everyType()...), personalhttp.Options{Transient: []string{"captcha"}})
	if err := json.Unmarshal([]byte(s.do("GET", prefix+"openapi.json", "", "").Body), &document); err != nil {
		t.Fatal(err)
	}
	var listed []string
	for name, schema := range document.Components.Schemas {
		if p, ok := schema.Properties["captcha"]; ok && fmt.Sprint(p.Type) == "[string null]" && !slices.Contains(schema.Required, "captcha") {
			listed = append(listed, strings.TrimSuffix(name, "_parameters"))
		}
	}
	slices.Sort(listed)
	if want := slices.Sorted(slices.Values(judgedPaths)); !slices.Equal(listed, want) {
		t.Errorf("the parameter is listed at %v, want %v", listed, want)
	}
}

// TestTransient_IsInNoLogTraceOrObservation makes everything go wrong that can, with a Judge
// that puts what was typed into its errors.
func TestTransient_IsInNoLogTraceOrObservation(t *testing.T) {
	const token, typed = "TRANSIENT-1", "typed@example.com"
	var mu sync.Mutex
	var seen bytes.Buffer // and the log
	decisions := map[string]func(string) error{
		"passes":      func(string) error { return nil },
		"refuses":     func(string) error { return personal.Refuse(nil) },
		"errs":        func(text string) error { return fmt.Errorf("verifying %s: %w", text, errors.New(text)) },
		"errs within": func(text string) error { return personal.NewError(personal.CodeInternal, fmt.Errorf("%s", text)) },
		"panics":      func(text string) error { panic(text) },
	}
	provider, spans := newSpans(true)
	for _, name := range slices.Sorted(maps.Keys(decisions)) {
		for _, moduleFails := range []error{nil, personal.NewError(personal.CodeInternal, nil),
			personal.NewError(personal.CodeUnavailable, nil)} {
			judged := false
			service := judgedBy(judgedFailing(moduleFails), func(ctx context.Context, r personal.AdmissionRequest) error {
				judged = personal.TransientFrom(ctx)["captcha"] == token
				return decisions[name](token + r.Email + r.Login)
			})
			s := newSite(t, service, personalhttp.Options{
				Transient: []string{"captcha"}, TracerProvider: provider,
				Log: slog.New(slog.NewTextHandler(&locked{&mu, &seen}, &slog.HandlerOptions{Level: slog.LevelDebug})),
				Observe: func(o personalhttp.Observation) {
					mu.Lock()
					defer mu.Unlock()
					fmt.Fprintf(&seen, "%+v\n", o)
				},
			})
			for _, path := range judgedPaths {
				judged = false
				a := s.do("POST", prefix+path+"/", form, "captcha="+token+"&login="+typed+"&email="+typed)
				if !judged || strings.Contains(a.Body, token) {
					t.Errorf("%s, a Judge that %s: judged %t, got %s", path, name, judged, a.Body)
				}
			}
			s.do("POST", prefix+"profile/", form, "captcha="+token)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for _, span := range spans.Ended() {
		fmt.Fprintf(&seen, "%s %v %v %v\n", span.Name(), span.Attributes(), span.Events(), span.Status())
	}
	for line := range strings.Lines(seen.String()) {
		if strings.Contains(line, "TRANSIENT") || strings.Contains(line, "typed@") {
			t.Errorf("got %s", line)
		}
	}
	for _, want := range []string{"the Judge returned no decision but an error of type *fmt.wrapError",
		"the Judge panicked with a value of type string", "admission_test.go"} {
		if !strings.Contains(seen.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, seen.String())
		}
	}
	if len(spans.Ended()) == 0 {
		t.Error("there are no spans")
	}
}

// locked is a buffer for several writers.
type locked struct {
	mu *sync.Mutex
	b  *bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}
