package personaltest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
)

// Start starts the Service under test with the given host, and stops it when the test
// ends. The service has the default settings, but may hash passwords cheaply, offers second
// factors, mailed codes and the passkeys of [PasskeyDomain], and its background work (mail) runs.
type Start func(t *testing.T, host personal.Host) personal.Service

// Run tests that a Service conforms to the contract. The same suite runs against the
// module itself, through client and server in one process, and against a plugin process.
//
// It needs its own store and takes a few seconds, because it hashes passwords.
func Run(t *testing.T, start Start) {
	s := newSuite(t, start)
	for name, test := range map[string]func(*testing.T, *suite){
		"registration returns credentials and the whole profile":          testRegister,
		"all field errors are reported at once":                           testAllFieldErrors,
		"taken login is reported, taken e-mail only if the login is free": testTaken,
		"only one of 32 concurrent registrations of a login succeeds":     testRegistrationRace,
		"fields that users may not set are read-only":                     testReadOnly,
		"repeated scalar is malformed":                                    testRepeatedScalar,
		"unknown names are limited":                                       testUnknownNames,
		"login and e-mail both sign in":                                   testAuthorize,
		"unknown login and wrong password get the same error":             testInvalidCredentials,
		"invalid credentials are unauthenticated":                         testUnauthenticated,
		"refresh rotates, and a superseded hash returns the current one":  testRefresh,
		"32 concurrent refreshes return one new hash":                     testRefreshRace,
		"profile update changes only the fields that were sent":           testUpdateProfile,
		"changed schema applies to the next request":                      testSchemaChange,
		"password change ends every other session":                        testChangePassword,
		"password set in decomposed form also matches in composed form":   testComposedPassword,
		"login and e-mail are refused as a new password":                  testPersonalPassword,
		"logout ends one session or all":                                  testLogout,
		"sessions are listed and revoked":                                 testSessions,
		"recovery sets a new password and ends every session":             testRecovery,
		"recovery without a matching account sends no mail":               testRecoveryWithoutMatch,
		"e-mail changes when the new address is confirmed":                testChangeEmail,
		"deletion disables the account and ends its sessions":             testDelete,
		"mailed token undoes the deletion, once":                          testUndoDelete,
		"mail after a registration confirms the e-mail":                   testVerification,
		"export has everything about the user, and asks for the password": testExport,
		"fields include all but the hidden ones":                          testFields,
		"features are the rules in force":                                 testFeatures,
		"proof is given for password and code":                            testProve,
		"proof stands for password and code":                              testProofOperations,
		"wrong, foreign and void proofs are refused":                      testProofMismatch,
		"sign-in is a proof, except to change the second factor":          testProofOfSignIn,
		"second factor is asked for, and each code works once":            testTwoFactor,
		"operations ask for the code of a second factor":                  testTwoFactorOperations,
		"recovery codes are renewed and the second factor is removed":     testTwoFactorChanges,
		"confirmation and new recovery codes can be repeated":             testTwoFactorRepeats,
		"second factor is off until its secret is confirmed":              testTwoFactorOff,
		"second factor survives recovery, e-mail change and deletion":     testTwoFactorStays,
		"code in concurrent sign-ins opens one session":                   testTwoFactorRace,
		"passkey signs in and proves until it is removed":                 testPasskeys,
		"wrong attempts and passkeys are refused":                         testPasskeyRefusals,
		"options tell how browsers reach passkeys":                        testPasskeyTransports,
		"passkey needs a code unless it was added with one":               testPasskeySecondFactor,
		"password change keeps passkeys or removes them":                  testPasskeyPassword,
		"recovery removes all passkeys":                                   testPasskeyRecovery,
		"passkeys of a user are limited":                                  testPasskeyNumber,
		"attempt in concurrent sign-ins opens one session":                testPasskeyRace,
		"mailed code signs in and proves, once":                           testMailedCodes,
		"mailed code asks for the second factor":                          testMailedCodeSecondFactor,
		"mailed code in concurrent sign-ins opens one session":            testMailedCodeRace,
		"white space around identifiers is cut":                           testTypedIdentifiers,
		"passed deadline is an error":                                     testDeadline,
	} {
		t.Run(name, func(t *testing.T) { test(t, s) })
	}
}

// RunRequiredVerification tests what differs from [Run] where accounts must confirm their
// e-mail before the first sign-in: start returns a Service for which that is in force.
func RunRequiredVerification(t *testing.T, start Start) {
	s := newSuite(t, start)
	testWaiting(t, s)
	s.wantFeatures(t, personal.VerificationRequired)
}

func newSuite(t *testing.T, start Start) *suite {
	fields := &fieldSet{}
	fields.set(sampleFields())
	host := &Host{UserFieldsFunc: fields.schema}
	return &suite{service: start(t, host), host: host, fields: fields}
}

// suite is the Service under test with its host.
type suite struct {
	service personal.Service
	host    *Host
	fields  *fieldSet
	users   atomic.Int64
}

// Password is a valid password.
const Password = "correct horse battery"

// user is an account made for one test.
type user struct {
	login, email string
	personal.SignedIn
}

func (s *suite) newLogin() (login, email string) {
	n := s.users.Add(1)
	return fmt.Sprintf("user%d", n), fmt.Sprintf("user%d@example.com", n)
}

// register creates an account.
func (s *suite) register(t *testing.T) user {
	t.Helper()
	login, email := s.newLogin()
	in, err := s.service.Register(t.Context(), personal.RegisterRequest{
		Login: login, Password: Password, ConfirmPassword: Password, Email: email,
		Fields: map[string]personal.Input{"name": personal.Text("Ada"), "city": personal.Text("riga")},
	})
	if err != nil {
		t.Fatalf("registering: %v", err)
	}
	return user{login, email, in}
}

// signIn creates another session of the account.
func (s *suite) signIn(t *testing.T, login, password string) personal.Credentials {
	t.Helper()
	in, err := s.service.Authorize(t.Context(), personal.AuthorizeRequest{Login: login, Password: password})
	if err != nil {
		t.Fatalf("signing in: %v", err)
	}
	return in.Credentials
}

// alive reports whether the credentials are valid.
func (s *suite) alive(t *testing.T, c personal.Credentials) bool {
	t.Helper()
	_, err := s.service.Profile(t.Context(), c)
	if err != nil && personal.CodeOf(err) != personal.CodeUnauthenticated {
		t.Fatalf("reading the profile: %v", err)
	}
	return err == nil
}

// verificationSubject is the subject of the mail that follows a registration, in the
// built-in text.
const verificationSubject = "Confirm that this e-mail address is yours"

// mailTo waits for the n-th mail to an address, without verifications.
func (s *suite) mailTo(t *testing.T, address string, n int) personal.Mail {
	t.Helper()
	return s.awaitMail(t, n, address, func(m personal.Mail) bool { return m.Subject != verificationSubject })
}

// awaitMail waits for the n-th of certain mails to an address. Mail is sent in the
// background and may be delivered twice.
func (s *suite) awaitMail(t *testing.T, n int, address string, which func(personal.Mail) bool) personal.Mail {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for known := 0; ; {
		mails, err := s.host.AwaitMails(ctx, known+1)
		if err != nil {
			t.Fatalf("no mail to %s: %v", address, err)
		}
		known = len(mails)
		seen := map[string]bool{}
		for _, m := range mails {
			if m.To == address && which(m) && !seen[m.ID] {
				if seen[m.ID] = true; len(seen) == n {
					return m
				}
			}
		}
	}
}

// tokenIn returns the token of a mail, which is alone on a line.
func tokenIn(t *testing.T, m personal.Mail) string {
	t.Helper()
	for line := range strings.Lines(m.Text) {
		if line = strings.TrimSpace(line); len(line) == 43 && !strings.ContainsAny(line, " :/") {
			return line
		}
	}
	t.Fatal("got a mail without a token alone on a line")
	return ""
}

func wantCode(t *testing.T, err error, want personal.Code) {
	t.Helper()
	if got := personal.CodeOf(err); got != want {
		t.Fatalf("got code %q (%v), want %q", got, err, want)
	}
}

func wantFieldErrors(t *testing.T, err error, code personal.Code, want personal.FieldErrors) {
	t.Helper()
	wantCode(t, err, code)
	var got personal.FieldErrors
	if e, ok := asError(err); ok {
		got = e.FieldErrors
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("field errors (-want +got):\n%s", diff)
	}
}

// fieldSet is a schema that a test can change.
type fieldSet struct {
	mu       sync.Mutex
	revision int
	fields   []personal.Field
}

func (f *fieldSet) set(fields []personal.Field) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revision++
	f.fields = fields
}

func (f *fieldSet) schema(context.Context) (personal.Schema, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return personal.Schema{Revision: fmt.Sprint("r", f.revision), Fields: f.fields}, nil
}

func sampleFields() []personal.Field {
	minAge, maxAge := 0.0, 150.0
	return []personal.Field{
		{Name: "phone", Type: personal.TypeText, Pattern: `\+?[0-9 ]{5,20}`},
		{Name: "age", Type: personal.TypeInteger, Min: &minAge, Max: &maxAge},
		{Name: "height", Type: personal.TypeNumber},
		{Name: "newsletter", Type: personal.TypeBoolean, Default: personal.Input{Kind: personal.InputBoolean, Text: "false"}},
		{Name: "city", Type: personal.TypeEnum, Required: true, Options: []personal.Option{{Value: "riga"}, {Value: "oslo"}}},
		{Name: "interests", Type: personal.TypeTags},
		{Name: "number", Type: personal.TypeText, ReadOnly: true},
		{Name: "note", Type: personal.TypeText, Hidden: true},
	}
}
