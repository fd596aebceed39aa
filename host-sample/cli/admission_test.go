package cli

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
)

// testDomains are those of the tests: plain, internationalised, and given in capitals.
var testDomains = []string{"example.com, Müller.Example", "SUB.example.org"}

func domainsAdmission(t *testing.T) *personal.Admission {
	t.Helper()
	a, err := admitDomains(testDomains)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestRegisterDomains_Judge(t *testing.T) {
	const passes, refused, invalid = personal.Code(""), personal.CodeRefused, personal.CodeValidationFailed
	judge := domainsAdmission(t).Judge
	for email, want := range map[string]personal.Code{
		"anna@example.com": passes, "anna@EXAMPLE.Com": passes, "anna@müller.example": passes, "anna@MÜLLER.example": passes,
		"anna@xn--mller-kva.example": passes, "anna@XN--MLLER-KVA.EXAMPLE": passes, "anna@sub.example.org": passes,
		"anna@ｅxample.com": passes, "anna@example。com": passes, // the module stores example.com, too

		"anna@evil.example": refused, "anna@sub.example.com": refused, "anna@example.org": refused, "anna@notexample.com": refused,
		"anna@example.com.evil.example": refused, "anna@example.com@evil.example": refused, "anna@muller.example": refused,
		"anna@example.co": refused, "anna@xample.com": refused, "anna@еxample.com": refused, // a Cyrillic е

		"anna@": refused, "anna": invalid, "anna@evil.example>,<x@example.com ": invalid, "anna@example.com\x00": invalid, "anna@example.com ": invalid,
		"anna@evil.example\n@ example.com": invalid,

		"": passes, // the module asks for it
	} {
		for _, operation := range []personal.OperationName{personal.OpRegister, personal.OpChangeEmail} {
			if got := personal.CodeOf(judge(t.Context(), personal.AdmissionRequest{Operation: operation, Email: email})); got != want {
				t.Errorf("%s with %q: got %q, want %q", operation, email, got, want)
			}
		}
	}
	for _, operation := range []personal.OperationName{personal.OpAuthorize, personal.OpRecover, personal.OpResendVerification} {
		if err := judge(t.Context(), personal.AdmissionRequest{Operation: operation, Login: "anna@evil.example",
			Email: "anna@evil.example"}); err != nil {
			t.Errorf("%s: got %v, want that it is not judged", operation, err)
		}
	}
}

// TestRegisterDomains_LetsInWhatTheModuleReadsAsADomain compares the Judge with the module's
// reading of e-mails.
func TestRegisterDomains_LetsInWhatTheModuleReadsAsADomain(t *testing.T) {
	judge := domainsAdmission(t).Judge
	accepted := []string{"example.com", "xn--mller-kva.example", "sub.example.org"}
	parts := []string{
		"anna", "@", "＠", ".", "。", "．", "example", "EXAMPLE", "com", "example.com", "evil.example", "müller", "xn--mller-kva", "sub", "org",
		"\u00ad", "\u200d", "\u200b", "%", "!", "\"", "(", ")", "<", ">", ",", " ", "\t", "\n", "\x00", "[127.0.0.1]", ":", "\\", "ß", "ss", "İ", "ı", "ﬁ", "-",
	}
	rapid.Check(t, func(t *rapid.T) {
		some := rapid.SliceOfN(rapid.SampledFrom(parts), 0, 3)
		email := strings.Join(slices.Concat(
			[]string{rapid.SampledFrom([]string{"", "anna", "anna@"}).Draw(t, "start")}, some.Draw(t, "before"),
			[]string{rapid.SampledFrom([]string{"", "example.com", "MÜLLER.example", "sub.example.org"}).Draw(t, "domain")}, some.Draw(t, "after"),
		), "")
		read, code := accounts.ParseEmail(email)
		_, domain, _ := strings.Cut(read.Key, "@")
		allowed := code == "" && slices.Contains(accepted, domain)
		err := judge(context.Background(), personal.AdmissionRequest{Operation: personal.OpRegister, Email: email})
		if err == nil && code == "" && !allowed {
			t.Fatalf("%q passes, but the module reads the domain %q", email, domain)
		}
		if err != nil && allowed {
			t.Fatalf("%q is refused with %v, but the module reads the domain %q", email, err, domain)
		}
	})
}

func TestRegisterDomains_InvalidValues(t *testing.T) {
	for _, value := range []string{
		"", ",", "example.com,", "example", ".example.com", "example.com.", "example..com", "*.example.com", "@example.com", "anna@example.com",
		"https://example.com", "example.com:25", "example.com/x", "exa mple.com", "example.com;example.org", "127.0.0.1", "[::1]", "-a.example", "xn--a.example",
		strings.Repeat("a", 64) + ".example",
	} {
		if a, err := admitDomains([]string{"example.com", value}); err == nil || a != nil {
			t.Errorf("%q: got %v, %v, want an error", value, a, err)
		}
	}
	if a, err := admitDomains(nil); a != nil || err != nil {
		t.Errorf("without the flag: got %v, %v, want none", a, err)
	}
}

func TestRegisterDomains_FormShowsRefusal(t *testing.T) {
	registered := 0
	service := &personaltest.Service{
		FieldsFunc: func(context.Context) ([]personal.Field, error) { return nil, nil },
		RegisterFunc: func(context.Context, personal.RegisterRequest) (personal.SignedIn, error) {
			registered++
			return personal.SignedIn{Credentials: personal.Credentials{UserID: 42, UserHash: userHash}}, nil
		},
	}
	s := startSite(t, domainsAdmission(t).Wrap(service), "")
	const body = "login=anna&password=x&confirm_password=x&email=anna%40"
	for language, message := range map[string]string{
		"en": "addresses of these domains: example.com, müller.example, sub.example.org.",
		"ru": "Этот сайт принимает только адреса электронной почты в этих доменах: example.com, müller.example, sub.example.org.",
	} {
		headers := []string{"Content-Type", "application/x-www-form-urlencoded", "Accept-Language", language}
		a := s.send(t, http.MethodPost, "/account/register", body+"evil.example", headers...)
		if a.StatusCode != http.StatusForbidden || !strings.Contains(a.body, message) || !strings.Contains(a.body, "anna@evil.example") {
			t.Errorf("page in %s: got %s %s, want 403, the message and what was typed", language, a.Status, a.body)
		}
		a = s.send(t, http.MethodPost, "/api/v1/personal/register/", body+"evil.example", headers...)
		if a.StatusCode != http.StatusForbidden || !strings.Contains(a.body, message) || !strings.Contains(a.body, `"CODE":"refused"`) {
			t.Errorf("API in %s: got %s %s, want 403 refused and the message", language, a.Status, a.body)
		}
	}
	if registered != 0 {
		t.Errorf("%d users were registered, want none", registered)
	}
	a := s.send(t, http.MethodPost, "/account/register", body+"Example.com", "Content-Type", "application/x-www-form-urlencoded")
	if a.StatusCode != http.StatusSeeOther || registered != 1 {
		t.Errorf("an accepted domain: got %s, %d users, want a redirect and one", a.Status, registered)
	}
}
