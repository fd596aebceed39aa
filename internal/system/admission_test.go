package system

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
)

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
