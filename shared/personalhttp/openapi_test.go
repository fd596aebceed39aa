package personalhttp_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/testkit/openapitest"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personalhttp"
)

// everyType is a schema with a field of every type and with every property.
func everyType() []personal.Field {
	limit := func(n float64) *float64 { return &n }
	return []personal.Field{
		{Name: "phone", Type: personal.TypeText, Label: personal.LocalText{"en": "Phone", "ru": "Телефон"}, Required: true, MaxLength: 20, Pattern: `\+?[0-9 ]+`,
			Hint:           personal.LocalText{"en": "With the country.", "ru": "С кодом страны."},
			PatternMessage: personal.LocalText{"en": "Digits and spaces.", "ru": "Цифры и пробелы."}},
		{Name: "about", Type: personal.TypeLongText, Pattern: `(?i)hello.*`},
		{Name: "age", Type: personal.TypeInteger, Min: limit(0), Max: limit(150)},
		{Name: "height", Type: personal.TypeNumber},
		{Name: "letters", Type: personal.TypeBoolean, Required: true, Default: personal.Input{Kind: personal.InputBoolean, Text: "true"}},
		{Name: "born", Type: personal.TypeDate},
		{Name: "seen", Type: personal.TypeDateTime},
		{Name: "city", Type: personal.TypeEnum, Options: []personal.Option{{Value: "kazan", Label: personal.LocalText{"ru": "Казань"}}, {Value: "omsk"}}},
		{Name: "photo", Type: personal.TypeFile},
		{Name: "page", Type: personal.TypeLink},
		{Name: "friends", Type: personal.TypeLinkSet},
		{Name: "tags", Type: personal.TypeTags, Required: true, MaxLength: 10},
		{Name: "number", Type: personal.TypeText, ReadOnly: true},
	}
}

func withFields(list ...personal.Field) *personaltest.Service {
	s := everything()
	s.FieldsFunc = func(context.Context) ([]personal.Field, error) { return list, nil }
	return s
}

// variants are options that change the document.
var variants = map[string]personalhttp.Options{
	"plain":               {},
	"in Russian":          {DefaultLocale: "ru"},
	"with CORS":           {CORSOrigins: []string{origin}, BasePath: "/x"},
	"always 200":          {AlwaysOK: true},
	"with transients":     {Transient: []string{"captcha", "invite"}},
	"always 200 and CORS": {AlwaysOK: true, CORSOrigins: []string{origin}},
}

func TestOpenAPI_IsValid(t *testing.T) {
	check := func(what string, o personalhttp.Options, list ...personal.Field) {
		t.Helper()
		a := newSite(t, withFields(list...), o).do("GET", o.BasePath+prefix+"openapi.json", "", "")
		loaded, err := openapi3.NewLoader().LoadFromData([]byte(a.Body)) // it resolves the references
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if err := loaded.Validate(t.Context()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for name, o := range variants {
		if !o.AlwaysOK { // adds a sentence only
			check(name, o, everyType()...)
		}
	}
	check("no fields", personalhttp.Options{})
	check("unknown types", personalhttp.Options{}, personal.Field{Name: "later", Type: "made_up_later"},
		personal.Field{Name: "needed", Type: "made_up_later", Required: true})
}

func TestOpenAPI_AlwaysOKAddsASentence(t *testing.T) {
	const sentence = `\n\nThis site sends every envelope with HTTP 200, errors included: ` +
		`the statuses of errors in this document are never sent, and CODE tells errors apart.`
	get := func(o personalhttp.Options) string {
		return newSite(t, withFields(everyType()...), o).do("GET", o.BasePath+prefix+"openapi.json", "", "").Body
	}
	for name, o := range variants {
		o.AlwaysOK = false
		plain := get(o)
		o.AlwaysOK = true
		always := get(o)
		if strings.Count(always, sentence) != 1 {
			t.Errorf("%s: got no sentence in the description", name)
		}
		if diff := cmp.Diff(plain, strings.Replace(always, sentence, "", 1)); diff != "" {
			t.Errorf("%s: got further differences (-plain +always 200):\n%s", name, diff)
		}
	}
}

func TestDocument_EqualsServedDocument(t *testing.T) {
	h, err := personalhttp.New(withFields(everyType()...), personalhttp.Options{Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("GET", prefix+"openapi.json", nil)
	r.Header.Set("Accept-Language", "ru")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	page, err := h.Document(r)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(page), w.Body.String()); diff != "" {
		t.Errorf("document (-from Document +served):\n%s", diff)
	}
	if want := `"description":"Телефон\n\nС кодом страны.\n\nЦифры и пробелы."`; strings.Count(string(page), want) != 3 {
		t.Errorf("got %d times %s, want it in both schemas of parameters and in the profile", strings.Count(string(page), want), want)
	}
}

// lifelike is a service with everyType's fields and valid results. It returns the error,
// if it is not nil.
func lifelike(fail error) *personaltest.Service {
	credentials := personal.Credentials{UserID: 7, UserHash: hash}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	profile := personal.Profile{Login: "anna", Email: "anna@example.com", Fields: []personal.ProfileField{
		{Name: "phone", Value: "1"}, {Name: "about"}, {Name: "age", Value: int64(20)}, {Name: "height", Value: 1.75},
		{Name: "letters", Value: true}, {Name: "born", Value: "2000-01-31"}, {Name: "seen", Value: "2026-01-31T10:00:00Z"},
		{Name: "city", Value: "kazan"}, {Name: "photo"}, {Name: "page", Value: "7"}, {Name: "friends", Value: []string{"1", "2"}},
		{Name: "tags", Value: []string{}}, {Name: "number", Value: "longer than new ones may be"},
	}}
	signedIn := personal.SignedIn{
		Credentials: credentials, Profile: profile, Proof: personal.Proof{Proof: credentials.UserHash, Until: time.Unix(1, 0)},
	}
	sessions := []personal.Session{{ID: "1", Created: now, LastSeen: now, Expires: now, Current: true}}
	return &personaltest.Service{
		AuthorizeFunc: func(context.Context, personal.AuthorizeRequest) (personal.SignedIn, error) { return signedIn, fail },
		RefreshFunc:   func(context.Context, personal.Credentials) (personal.Credentials, error) { return credentials, fail },
		RegisterFunc:  func(context.Context, personal.RegisterRequest) (personal.SignedIn, error) { return signedIn, fail },
		RecoverFunc:   func(context.Context, personal.RecoverRequest) error { return fail },
		RecoverConfirmFunc: func(context.Context, personal.RecoverConfirmRequest) (personal.Recovered, error) {
			return personal.Recovered{}, fail
		},
		ProfileFunc:       func(context.Context, personal.Credentials) (personal.Profile, error) { return profile, fail },
		UpdateProfileFunc: func(context.Context, personal.UpdateProfileRequest) (personal.Profile, error) { return profile, fail },
		ChangePasswordFunc: func(context.Context, personal.ChangePasswordRequest) (personal.Credentials, error) {
			return credentials, fail
		},
		ChangeEmailFunc:   func(context.Context, personal.ChangeEmailRequest) error { return fail },
		ConfirmEmailFunc:  func(context.Context, personal.ConfirmEmailRequest) (int64, error) { return 0, fail },
		LogoutFunc:        func(context.Context, personal.LogoutRequest) error { return fail },
		SessionsFunc:      func(context.Context, personal.Credentials) ([]personal.Session, error) { return sessions, fail },
		RevokeSessionFunc: func(context.Context, personal.RevokeSessionRequest) error { return fail },
		FieldsFunc:        func(context.Context) ([]personal.Field, error) { return everyType(), fail },
	}
}

func TestOpenAPI_DescribesEveryResponse(t *testing.T) {
	for _, name := range []string{"plain", "always 200 and CORS"} { // the others change no response
		o := variants[name]
		t.Run(name, func(t *testing.T) {
			described, err := openapitest.Parse([]byte(newSite(t, lifelike(nil), o).do("GET", o.BasePath+prefix+"openapi.json", "", "").Body))
			if err != nil {
				t.Fatal(err)
			}
			s := newSite(t, lifelike(nil), o)
			s.described = described
			s.callEverything(o.BasePath + prefix)
			for _, fail := range []error{ // other calls do not reach the service
				errors.New("internal failure"),
				personal.NewError(personal.CodeUnavailable, nil), personal.NewError(personal.CodeTooManyAttempts, nil), personal.NewError(personal.CodeNotFound, nil),
			} {
				s := newSite(t, lifelike(fail), o)
				s.described = described
				for name := range personalhttp.Routes() {
					for _, method := range []string{"GET", "POST"} {
						s.do(method, o.BasePath+prefix+name, "", "")
						s.do(method, o.BasePath+prefix+name, "", "", "Origin", origin)
					}
				}
			}
		})
	}
}

// callEverything calls each path in every way that the handler itself checks.
func (s *site) callEverything(base string) {
	for name := range personalhttp.Routes() {
		path := base + name
		for _, method := range []string{"GET", "POST", "HEAD", "OPTIONS", "PUT"} {
			s.do(method, path, "", "")
			s.do(method, path+"/", "", "", "Origin", origin)
			s.do(method, path, "text/plain", "x")
			s.do(method, path, asJSON, "{", "Accept-Language", "ru")
			s.do(method, path, asJSON, strings.Repeat(" ", 65<<10))
		}
		s.do("OPTIONS", path, "", "", "Origin", origin, "Access-Control-Request-Method", "POST")
	}
	s.do("GET", base+"nothing", "", "")
	s.do("HEAD", base, "", "")
}

func TestOpenAPI_DescribesOperationErrors(t *testing.T) {
	fieldError := func(code personal.Code, name string, fieldCode personal.FieldErrorCode) error {
		return &personal.Error{Code: code, FieldErrors: personal.FieldErrors{name: fieldCode}}
	}
	described, err := openapitest.Parse([]byte(newSite(t, lifelike(nil), personalhttp.Options{}).do("GET", prefix+"openapi.json", "",
		"").Body))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		path string
		err  error
		fits bool
	}{
		{"auth", personal.NewError(personal.CodeInvalidCredentials, nil), true},
		{"auth", personal.NewError(personal.CodeAccountDisabled, nil), true},
		{"auth", personal.NewError(personal.CodeUnauthenticated, nil), false},
		{"register", fieldError(personal.CodeAlreadyExists, "login", personal.FieldErrorTaken), true},
		{"register", fieldError(personal.CodeAlreadyExists, "login", personal.FieldErrorRequired), false},
		{"register", fieldError(personal.CodeAlreadyExists, "phone", personal.FieldErrorTaken), false},
		{"register", fieldError(personal.CodeValidationFailed, "phone", personal.FieldErrorTooLong), true},
		{"register", fieldError(personal.CodeValidationFailed, "phone", personal.FieldErrorTaken), false},
		{"register", fieldError(personal.CodeValidationFailed, "phone", "made_up"), false},
		{"register", personal.NewError(personal.CodeValidationFailed, nil), false},
		{"profile", personal.NewError(personal.CodeUnauthenticated, nil), true},
		{"profile", personal.NewError(personal.CodeAlreadyExists, nil), false},
		{"recover", personal.NewError(personal.CodeInvalidToken, nil), false},
		{"recover_confirm", personal.NewError(personal.CodeInvalidToken, nil), true},
	} {
		s := newSite(t, lifelike(test.err), personalhttp.Options{})
		a := s.do("POST", prefix+test.path, "", "")
		err := described.Check(openapitest.Response{Method: "POST", Path: prefix + test.path, Status: a.Status, Header: a.Header,
			Body: []byte(a.Body)})
		if (err == nil) != test.fits {
			t.Errorf("%s with %s: got %v, want it described: %t", test.path, a.Body, err, test.fits)
		}
	}
}
