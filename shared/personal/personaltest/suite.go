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

// Start makes the Service under test, with the given host, and sees to its end.
// Its settings are the defaults, but hashing a password may be made cheap;
// background work (mail) runs.
type Start func(t *testing.T, host personal.Host) personal.Service

// Run tests that a Service keeps the contract. The same suite runs against the
// domain itself, over gRPC within a process, and against a plugin process.
//
// It needs a store of its own, and takes a few seconds: passwords are hashed.
func Run(t *testing.T, start Start) {
	fields := &fieldSet{}
	fields.set(sampleFields())
	host := &Host{UserFieldsFunc: fields.schema}
	s := &suite{service: start(t, host), host: host, fields: fields}
	for name, test := range map[string]func(*testing.T, *suite){
		"registering answers a pair and the whole profile":         testRegister,
		"every fault is reported at once":                          testAllFaults,
		"a taken login is named, the e-mail only if that is free":  testTaken,
		"of 32 registrations of one login one succeeds":            testRegistrationRace,
		"what users may not set is refused":                        testReadOnly,
		"a repeated scalar is malformed":                           testRepeatedScalar,
		"a sign-in by login and by e-mail":                         testAuthorize,
		"an unknown login and a wrong password are answered alike": testInvalidCredentials,
		"credentials that are nobody's are refused":                testUnauthenticated,
		"a refresh rotates and an old hash answers the newest":     testRefresh,
		"32 refreshes of one pair give one successor":              testRefreshRace,
		"a profile update changes what was sent and nothing else":  testUpdateProfile,
		"a changed schema judges the next request":                 testSchemaChange,
		"a new password ends every other session":                  testChangePassword,
		"signing out ends this session or all":                     testLogout,
		"sessions are listed and revoked":                          testSessions,
		"a recovery sets a new password and ends every session":    testRecovery,
		"a recovery of nobody's account sends nothing":             testRecoveryOfNobody,
		"an e-mail changes when its new address is confirmed":      testChangeEmail,
		"fields are all but the hidden ones":                       testFields,
		"a deadline that has passed is no success":                 testDeadline,
	} {
		t.Run(name, func(t *testing.T) { test(t, s) })
	}
}

// suite is the Service under test and what surrounds it.
type suite struct {
	service personal.Service
	host    *Host
	fields  *fieldSet
	users   atomic.Int64
}

// Password is a good one; what is tested is seldom the password.
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

// register makes an account.
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

// signIn opens another session of the account.
func (s *suite) signIn(t *testing.T, login, password string) personal.Credentials {
	t.Helper()
	in, err := s.service.Authorize(t.Context(), personal.AuthorizeRequest{Login: login, Password: password})
	if err != nil {
		t.Fatalf("signing in: %v", err)
	}
	return in.Credentials
}

// alive tells whether the pair is somebody's.
func (s *suite) alive(t *testing.T, c personal.Credentials) bool {
	t.Helper()
	_, err := s.service.Profile(t.Context(), c)
	if err != nil && personal.CodeOf(err) != personal.CodeUnauthenticated {
		t.Fatalf("asking for a profile: %v", err)
	}
	return err == nil
}

// mailTo waits for the n-th mail to an address. Mail is sent behind the caller's
// back, and may come twice.
func (s *suite) mailTo(t *testing.T, address string, n int) personal.Mail {
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
			if m.To == address && !seen[m.ID] {
				if seen[m.ID] = true; len(seen) == n {
					return m
				}
			}
		}
	}
}

// tokenIn finds the token: alone on a line.
func tokenIn(t *testing.T, m personal.Mail) string {
	t.Helper()
	for line := range strings.Lines(m.Text) {
		if line = strings.TrimSpace(line); len(line) == 43 && !strings.ContainsAny(line, " :/") {
			return line
		}
	}
	t.Fatal("the mail has no token alone on a line")
	return ""
}

func wantCode(t *testing.T, err error, want personal.Code) {
	t.Helper()
	if got := personal.CodeOf(err); got != want {
		t.Fatalf("code %q (%v), want %q", got, err, want)
	}
}

func wantFaults(t *testing.T, err error, code personal.Code, want personal.FieldErrors) {
	t.Helper()
	wantCode(t, err, code)
	var got personal.FieldErrors
	if e, ok := asError(err); ok {
		got = e.FieldErrors
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("faults (-want +got):\n%s", diff)
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
	least, most := 0.0, 150.0
	return []personal.Field{
		{Name: "phone", Type: personal.TypeText, Pattern: `\+?[0-9 ]{5,20}`},
		{Name: "age", Type: personal.TypeInteger, Min: &least, Max: &most},
		{Name: "height", Type: personal.TypeNumber},
		{Name: "newsletter", Type: personal.TypeBoolean, Default: personal.Input{Kind: personal.InputBoolean, Text: "false"}},
		{Name: "city", Type: personal.TypeEnum, Required: true, Options: []personal.Option{{Value: "riga"}, {Value: "oslo"}}},
		{Name: "interests", Type: personal.TypeTags},
		{Name: "number", Type: personal.TypeText, ReadOnly: true},
		{Name: "note", Type: personal.TypeText, Hidden: true},
	}
}
