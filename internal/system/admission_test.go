package system

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
)

// TestAdmission_RegisterDomains restricts the domains of the sample host.
func TestAdmission_RegisterDomains(t *testing.T) {
	t.Parallel()
	testdb.Database(t, func(t *testing.T, database string) {
		t.Parallel()
		s := start(t, options{database: database, settings: cheap + "[throttle.register]\nburst = 1\n",
			flags: []string{"--register-domains", "mail.example,Müller.Example"}})
		elsewhere := applicant(params{"email": unique() + "@elsewhere.example"})

		// The refusal costs no attempt, and comes before the limit.
		for range 2 {
			s.post(t, "register/", elsewhere).want(t, "refused")
		}
		own := applicant(nil)
		own["email"] = strings.ReplaceAll(own["email"].(string), "mail.example", "MAIL.example")
		p := s.post(t, "register/", own).pair(t)
		s.post(t, "register/", applicant(nil)).want(t, "too_many_attempts")
		r := s.do(t, call{path: "register/", params: elsewhere, header: http.Header{"Accept-Language": {"ru"}}}).want(t, "refused")
		if r.Status != http.StatusForbidden || !strings.Contains(r.Result.Message, "только адреса") ||
			!strings.Contains(r.Result.Message, "mail.example, müller.example") {
			t.Errorf("got %d %q, want 403 and the domains in Russian", r.Status, r.Result.Message)
		}
		s.do(t, call{path: "register/", form: url.Values{"login": {"a", "b"}, "email": {"a@elsewhere.example"}}}).want(t, "malformed_request")
		s.post(t, "register/", params{"email": ""}).want(t, "too_many_attempts") // judged by the module

		change := params{"email": "new@elsewhere.example", "password": own["password"]}
		s.postAs(t, p, "email/", change).want(t, "refused")
		s.post(t, "email/", change).want(t, "refused") // before the 401
		change["email"] = "new@elsewhere.example\n@mail.example"
		s.postAs(t, p, "email/", change).want(t, "validation_failed")
		change["email"] = unique() + "@müller.example"
		s.postAs(t, p, "email/", change).want(t, "")
		s.mailTo(t, mailtext.EmailChange, strings.Replace(change["email"].(string), "müller", "xn--mller-kva", 1))
		s.post(t, "recover/", params{"email": "anna@elsewhere.example"}).want(t, "")
		s.post(t, "email_resend/", params{"email": "anna@elsewhere.example"}).want(t, "")
		s.post(t, "auth/", params{"login": own["login"], "password": own["password"]}).want(t, "")

		page, text := s.web(t, http.MethodPost, "/account/register", "login=anna&email=anna%40elsewhere.example&password=x&confirm_password=x",
			"Content-Type", formType, "Accept-Language", "en")
		if page.StatusCode != http.StatusForbidden || !strings.Contains(text, "addresses of these domains: mail.example") {
			t.Errorf("the page to register: got %d %s, want 403 and the domains", page.StatusCode, text)
		}
	})
}

// TestAdmission_NothingTransientIsKept sends captcha tokens to a CMS with the real plugin
// while its Judge passes, refuses, errs, panics and hangs, and searches everything that
// remains for them.
func TestAdmission_NothingTransientIsKept(t *testing.T) {
	t.Parallel()
	testdb.Database(t, func(t *testing.T, database string) {
		t.Parallel()
		const token = "SecretCaptcha"
		hanging, hang := make(chan struct{}, 2), make(chan struct{})
		exports, spans, log := newCollector(t), tracetest.NewSpanRecorder(), &journal{}
		c := moduleConfig(t)
		c.DatabaseURL = database
		c.Settings = func() ([]byte, error) { return []byte(cheap + unthrottled), nil }
		c.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		c.Manager.Env = exports.env()
		c.API.TracerProvider = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
		c.API.Transient = []string{"captcha"}
		const slots = 2 // of the tests' address
		c.Admission = &personal.Admission{Concurrent: 8 * slots, Judge: func(ctx context.Context, r personal.AdmissionRequest) error {
			sent := personal.TransientFrom(ctx)["captcha"]
			if seen := fmt.Sprintf("%#v %#v", r, personal.CallFrom(ctx)); strings.Contains(seen, "correct") || strings.Contains(seen, token) {
				t.Errorf("the Judge sees %s, want no password, and the token in the context only", seen)
			}
			switch decision, _ := strings.CutPrefix(sent, token); decision {
			case "Passes":
				return nil
			case "Refuses":
				return personal.Refuse(personal.LocalText{"en": "No."})
			case "Errs":
				return errors.New("verifying " + sent)
			case "Panics":
				panic(sent)
			case "Hangs":
				hanging <- struct{}{}
				<-hang // whatever becomes of the context
				return nil
			}
			return personal.FieldErrors{"captcha": personal.FieldErrorMismatch}.Err()
		}}
		m := openModule(t, c)
		server := httptest.NewServer(m.Front(nil))
		t.Cleanup(server.Close)
		api := server.URL + "/api/v1/personal/"
		calls := map[string]string{
			"register/": registration, "auth/": "login=anna&password=correct+horse", "recover/": "login=anna", "email_resend/": "login=anna",
			"email/": "email=b@mail.example&password=correct+horse", "passkey_auth/": "attempt=a&credential=b",
		}
		want := func(path, decision string, status int, code string) {
			t.Helper()
			got, body := post(t, api+path, calls[path]+"&captcha="+token+decision)
			if got != status || !strings.Contains(body, code) || strings.Contains(body, token) {
				t.Errorf("%s, a Judge that %s: got %d %s, want %d %s", path, strings.ToLower(decision), got, body, status, code)
			}
		}
		for path := range calls {
			want(path, "Unknown", http.StatusUnprocessableEntity, `"captcha":{"CODE":"mismatch"`)
			want(path, "Refuses", http.StatusForbidden, `"refused"`)
			want(path, "Errs", http.StatusServiceUnavailable, `"unavailable"`)
			want(path, "Panics", http.StatusServiceUnavailable, `"unavailable"`)
		}
		want("auth/", "Passes", http.StatusUnauthorized, "invalid_credentials") // none of the requests above registered anna
		want("email/", "Passes", http.StatusUnauthorized, "unauthenticated")
		want("passkey_auth/", "Passes", http.StatusNotFound, "not_found") // this site has no passkeys
		want("register/", "Passes", http.StatusOK, `"user_id"`)
		for _, path := range []string{"auth/", "recover/", "email_resend/"} {
			want(path, "Passes", http.StatusOK, "MESSAGE")
		}
		if _, err := m.Service().Authorize(t.Context(), personal.AuthorizeRequest{Login: "anna",
			Password: "correct horse"}); personal.CodeOf(err) != personal.CodeValidationFailed {
			t.Errorf("in process without the token: got %v, want the Judge's field error", err)
		}
		page := personal.WithTransient(t.Context(), map[string]string{"captcha": token + "Passes"})
		if _, err := m.Service().Authorize(page, personal.AuthorizeRequest{Login: "anna", Password: "correct horse"}); err != nil {
			t.Errorf("in process: %v", err)
		}
		signIn := personal.SignInRequest{Identity: personal.Identity{Issuer: "https://provider.example", Subject: "anna"}, Method: "oidc"}
		if _, err := m.Administration().SignIn(t.Context(), signIn); personal.CodeOf(err) != personal.CodeValidationFailed {
			t.Errorf("single sign-on without the token: got %v, want the Judge's field error", err)
		}
		if _, err := m.Administration().SignIn(page, signIn); personal.CodeOf(err) != personal.CodeNotFound {
			t.Errorf("single sign-on: got %v, want the module's not_found", err)
		}
		anna, err := m.Client().Authorize(page, personal.AuthorizeRequest{Login: "anna", Password: "correct horse"}) // not judged
		if err != nil {
			t.Fatal(err)
		}

		// All slots hang, and one request more waits for one; other operations do not.
		ended := make(chan int, 3)
		for range cap(ended) {
			go func() {
				response, err := http.PostForm(api+"auth/", url.Values{"login": {"anna"}, "password": {"correct horse"}, "captcha": {token + "Hangs"}})
				if err != nil {
					ended <- 0
					return
				}
				_ = response.Body.Close()
				ended <- response.StatusCode
			}()
		}
		for range slots {
			select {
			case <-hanging:
			case status := <-ended:
				t.Fatalf("a sign-in ended with %d before its judgement hung", status)
			}
		}
		for _, path := range []string{"profile/", "auth_refresh/"} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, api+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("User-Id", fmt.Sprint(anna.Credentials.UserID))
			request.Header.Set("User-Hash", anna.Credentials.UserHash)
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if response.StatusCode != http.StatusOK {
				t.Errorf("%s while judgements hang: got %s, want 200", path, response.Status)
			}
		}
		for range cap(ended) {
			if status := <-ended; status != http.StatusServiceUnavailable {
				t.Errorf("a sign-in whose judgement hangs: got %d, want 503", status)
			}
		}
		close(hang)
		want("auth/", "Passes", http.StatusOK, "user_id")

		audit, err := m.Client().AuditEntries(t.Context(), personal.AuditEntriesRequest{})
		if err != nil || len(audit.Entries) == 0 {
			t.Errorf("got %d audit entries, %v, want some", len(audit.Entries), err)
		}
		if err := m.Close(); err != nil { // the plugin exports its spans
			t.Fatal(err)
		}
		hidden := secrets{"a transient parameter": token}
		hidden.wantNone(t, "the log", log.String())
		if len(spans.Ended()) == 0 || len(exports.all()) == 0 || len(log.linesWith("the Judge panicked with a value of type string")) != len(calls) {
			t.Errorf("got %d and %d spans, log\n%s\nwant spans of host and plugin, and the panics", len(spans.Ended()), len(exports.all()), log)
		}
		for _, s := range spans.Ended() {
			hidden.wantNone(t, "a span of the host", fmt.Sprint(s.Name(), s.Attributes(), s.Events(), s.Status()))
		}
		hidden.wantNone(t, "a span of the plugin", string(exports.raw))
		hidden.wantNone(t, "the audit log", fmt.Sprintf("%+v", audit))
		if file, isSQLite := strings.CutPrefix(database, "sqlite://"); isSQLite {
			hidden.wantNone(t, "the database", readFile(t, file))
		}
		err = filepath.WalkDir(c.Data, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && d.Name() != "personal" { // the plugin
				hidden.wantNone(t, d.Name(), readFile(t, path))
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// TestAdmission_OneAddressLeavesOthersTheirSlots floods a slow Judge from one address.
func TestAdmission_OneAddressLeavesOthersTheirSlots(t *testing.T) {
	t.Parallel()
	const flood, slots, waiting, honest = 100, 8, 64, 20
	hanging, release := make(chan struct{}, flood), make(chan struct{})
	c := moduleConfig(t)
	c.API.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	c.Admission = &personal.Admission{Judge: func(_ context.Context, r personal.AdmissionRequest) error {
		if r.Login == "slow" {
			hanging <- struct{}{}
			<-release // whatever becomes of the context
		}
		return nil
	}}
	server := httptest.NewServer(openModule(t, c).Front(nil))
	t.Cleanup(server.Close)
	request := func(address, login string) (status int) {
		r, err := http.NewRequest(http.MethodPost, server.URL+"/api/v1/personal/recover/", strings.NewReader("login="+login))
		if err != nil {
			return 0
		}
		r.Header.Set("Content-Type", formType)
		r.Header.Set("X-Forwarded-For", address)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	ended := make(chan int, flood)
	for range flood {
		go func() { ended <- request("203.0.113.1", "slow") }()
	}
	for range slots {
		<-hanging
	}
	for range flood - slots - waiting {
		if status := <-ended; status != http.StatusServiceUnavailable {
			t.Errorf("a request of the flood: got %d, want 503", status)
		}
	}
	others := make(chan int, honest)
	for i := range honest {
		go func() { others <- request(fmt.Sprintf("198.51.100.%d", i), "anna") }()
	}
	for range honest {
		if status := <-others; status != http.StatusOK {
			t.Errorf("recover/ from another address: got %d, want 200", status)
		}
	}
	if n := len(hanging); n != 0 {
		t.Errorf("got %d requests of one address judged at once, want %d", slots+n, slots)
	}
	close(release)
	for range slots + waiting {
		<-ended
	}
}
