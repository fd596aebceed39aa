package accounts_test

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
)

// home and abroad are addresses of callers: users register and sign in at home.
const home, abroad = "203.0.113.1", "198.51.100.7"

func from(t testing.TB, address, locale string) context.Context {
	call := personal.Call{Locale: locale}
	if address != "" {
		call.Address = netip.MustParseAddr(address)
	}
	return personal.WithCall(t.Context(), call)
}

// signInFrom signs in and returns the credentials of the new session.
func (f *fixture) signInFrom(t testing.TB, login, password, address, locale string) personal.Credentials {
	t.Helper()
	in, err := f.service.Authorize(from(t, address, locale), personal.AuthorizeRequest{Login: login, Password: password})
	if err != nil {
		t.Fatalf("signing in from %q: %v", address, err)
	}
	return in.Credentials
}

// changeEmail changes an e-mail by a mailed token.
func (f *fixture) changeEmail(t *testing.T, ctx context.Context, c personal.Credentials, email string) {
	t.Helper()
	if err := f.service.ChangeEmail(ctx, personal.ChangeEmailRequest{Credentials: c, Password: goodPassword, Email: email}); err != nil {
		t.Fatal(err)
	}
	f.drain(t)
	tokens := f.tokens()
	if _, err := f.service.ConfirmEmail(ctx, personal.ConfirmEmailRequest{Token: tokens[len(tokens)-1]}); err != nil {
		t.Fatal(err)
	}
}

// stealSession presents a hash that was superseded too long ago.
func (f *fixture) stealSession(t *testing.T, ctx context.Context, c personal.Credentials) {
	t.Helper()
	f.refreshTimes(t, c, 3, 0)
	f.clock.Advance(time.Minute) // more than the grace period
	_, err := f.service.Profile(ctx, c)
	wantCode(t, err, personal.CodeUnauthenticated)
}

// noticed are the operations that cause a notice. Each is called by a signed-in user.
var noticed = map[mailtext.Kind]func(*testing.T, context.Context, *fixture, personal.Credentials){
	mailtext.PasswordChanged: func(t *testing.T, ctx context.Context, f *fixture, c personal.Credentials) {
		_, err := f.service.ChangePassword(ctx, personal.ChangePasswordRequest{
			Credentials: c, OldPassword: goodPassword, Password: otherPassword, ConfirmPassword: otherPassword,
		})
		wantCode(t, err, "")
	},
	mailtext.Recovered: func(t *testing.T, ctx context.Context, f *fixture, _ personal.Credentials) {
		f.recoverNow(t, personal.RecoverRequest{Login: "ada"})
		_, err := f.service.RecoverConfirm(ctx, personal.RecoverConfirmRequest{
			Token: f.tokens()[0], Password: otherPassword, ConfirmPassword: otherPassword,
		})
		wantCode(t, err, "")
	},
	mailtext.EmailChanged: func(t *testing.T, ctx context.Context, f *fixture, c personal.Credentials) {
		f.changeEmail(t, ctx, c, "new@example.com")
	},
	mailtext.NewAddress: func(t *testing.T, ctx context.Context, f *fixture, _ personal.Credentials) {
		_, err := f.service.Authorize(ctx, personal.AuthorizeRequest{Login: "ada", Password: goodPassword})
		wantCode(t, err, "")
	},
	mailtext.SessionTheft: func(t *testing.T, ctx context.Context, f *fixture, c personal.Credentials) {
		f.stealSession(t, ctx, c)
	},
	mailtext.IdentityLinked: func(t *testing.T, ctx context.Context, f *fixture, c personal.Credentials) {
		wantCode(t, f.service.LinkIdentity(ctx, personal.LinkIdentityRequest{
			Identity: subject("ada"), Credentials: c, Proof: f.prove(t, ctx, c, "").Proof,
		}), "")
	},
	mailtext.IdentityUnlinked: func(t *testing.T, ctx context.Context, f *fixture, c personal.Credentials) {
		f.link(t, c.UserID, "ada")
		wantCode(t, f.service.UnlinkIdentity(ctx, personal.UnlinkIdentityRequest{
			Identity: subject("ada"), Credentials: c, Proof: f.prove(t, ctx, c, "").Proof,
		}), "")
	},
}

func wantMail(t *testing.T, f *fixture, m personal.Mail, to string, k mailtext.Kind, locale string, l mailtext.Letter) {
	t.Helper()
	l.Site = f.settings.Site
	subject, text, html, err := mailtext.BuiltIn().Write(k, locale, l)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(personal.Mail{ID: m.ID, To: to, Subject: subject, Text: text, HTML: html}, m); diff != "" || m.ID == "" {
		t.Errorf("got another mail than %s to %s, or none with an id:\n%s", k, to, diff)
	}
}

func TestNotices_TellWhatHappenedInTheLanguageOfTheAccount(t *testing.T) {
	for kind, act := range noticed {
		t.Run(string(kind), func(t *testing.T) {
			testdb.Database(t, func(t *testing.T, url string) {
				f := newFixture(t, url, func(s *accounts.Settings) { s.Site = "Example" })
				f.register(t, "ada")
				f.signInFrom(t, "ada", goodPassword, "", "ru")
				c := f.signInFrom(t, "ada", goodPassword, home, "")
				act(t, from(t, abroad, "en"), f, c)
				happened := f.clock.Now()
				f.clock.Advance(time.Minute)
				before := len(f.host.Mails())
				f.drain(t)
				mails := f.host.Mails()[before:]
				if len(mails) != 1 {
					t.Fatalf("got %d mails, want the notice", len(mails))
				}
				wantMail(t, f, mails[0], "ada@example.com", kind, "ru", mailtext.Letter{At: happened, From: netip.MustParseAddr(abroad)})
			})
		})
	}
}

func TestNotices_OffStoresNone(t *testing.T) {
	for kind, act := range noticed {
		t.Run(string(kind), func(t *testing.T) {
			f := newFixture(t, testdb.SQLite(t), func(s *accounts.Settings) { s.Notices = false })
			f.register(t, "ada")
			act(t, from(t, abroad, ""), f, f.signInFrom(t, "ada", goodPassword, home, ""))
			if jobs, err := f.store.ClaimJobs(t.Context(), outbox.Claim{Kinds: []outbox.Kind{accounts.KindNotice}, N: 1}); err != nil ||
				len(jobs) > 0 {
				t.Errorf("got jobs %v and error %v, want neither", jobs, err)
			}
		})
	}
}

// A made-up 0.3.0 has stored a notice, and one of a kind that this version does not know.
func TestNotices_OneOfALaterVersionStaysAndHoldsUpNoOther(t *testing.T) {
	f := newFixture(t, testdb.SQLite(t))
	id := f.register(t, "ada").Credentials.UserID
	const later = `{"kind":"passkey_renamed","to":"ada@example.com","time":"2030-01-01T00:00:00Z","renamed":{"to":"phone"}}`
	for _, payload := range []string{later, `{"kind":"password_changed","to":"ada@example.com","time":"2030-01-01T00:00:00Z","new":1}`} {
		if err := f.store.Enqueue(t.Context(), accounts.NewJob{Kind: accounts.KindNotice, Payload: []byte(payload), AccountID: id}); err != nil {
			t.Fatal(err)
		}
	}
	f.drain(t)
	if mails := f.host.Mails(); len(mails) != 1 || !strings.Contains(mails[0].Subject, "assword") {
		t.Errorf("got mails %v, want that of the known kind", mails)
	}
	jobs, err := f.store.ClaimJobs(t.Context(), outbox.Claim{Kinds: []outbox.Kind{"notice.passkey_renamed"}, N: 2, Lease: time.Minute})
	if err != nil || len(jobs) != 1 || jobs[0].AccountID != id || string(jobs[0].Payload) != later {
		t.Errorf("got jobs %v, %v, want the other one, unchanged", jobs, err)
	}
	// 0.2.0 knows 22 kinds: add to Service.Jobs a handler of "notice.KIND" for each kind of a notice that is new.
	// The mail sign_in_code is none.
	if n := len(mailtext.Descriptions()); n != 23 {
		t.Errorf("got %d kinds, want 23, or the handlers", n)
	}
}

// The address of the administrator is not for the user.
func TestNotices_AdministratorChangesTheEmail(t *testing.T) {
	f := newFixture(t, testdb.SQLite(t))
	id := f.register(t, "ada").Credentials.UserID
	err := f.service.SetEmail(from(t, abroad, "ru"), personal.SetEmailRequest{UserID: id, Email: "new@example.com"})
	wantCode(t, err, "")
	f.drain(t)
	mails := f.host.Mails()
	if len(mails) != 1 {
		t.Fatalf("got mails to %v, want one", f.recipients())
	}
	wantMail(t, f, mails[0], "ada@example.com", mailtext.EmailChanged, "ru", mailtext.Letter{At: f.clock.Now()})
}

// A notice waits while the account changes.
func TestNotices_GoToTheRightAddress(t *testing.T) {
	password, email := mailtext.PasswordChanged, mailtext.EmailChanged
	for name, test := range map[string]struct {
		cause mailtext.Kind
		then  func(f *fixture, t *testing.T, id int64)
		want  []string
	}{
		"a password changed, then the address":   {password, func(f *fixture, t *testing.T, id int64) { f.setEmail(t, id, "b@example.com") }, []string{"ada@example.com", "ada@example.com"}},
		"a password changed, then no address":    {password, func(f *fixture, t *testing.T, id int64) { f.setEmail(t, id, "") }, []string{"ada@example.com", "ada@example.com"}},
		"a password changed, then deleted":       {password, func(f *fixture, t *testing.T, id int64) { f.delete(t, id) }, nil},
		"the address changed, then once more":    {email, func(f *fixture, t *testing.T, id int64) { f.setEmail(t, id, "b@example.com") }, []string{"ada@example.com", "new@example.com"}},
		"the address changed, then deleted":      {email, func(f *fixture, t *testing.T, id int64) { f.delete(t, id) }, nil},
		"the address changed, then was disabled": {email, func(f *fixture, t *testing.T, id int64) { f.disable(t, id) }, []string{"ada@example.com"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, testdb.SQLite(t))
			c := f.register(t, "ada").Credentials
			noticed[test.cause](t, t.Context(), f, c)
			before := len(f.host.Mails())
			test.then(f, t, c.UserID)
			f.drain(t)
			if got := f.recipients()[before:]; !slices.Equal(got, test.want) {
				t.Errorf("got mails to %v, want %v", got, test.want)
			}
			f.wantNoJobs(t)
		})
	}
}

// signedOut in place of a time is a sign-out by an administrator.
const signedOut = time.Duration(-1)

// signIn is a step of a test.
type signIn struct {
	after  time.Duration
	from   string
	notice bool
}

func TestNotices_NewAddress(t *testing.T) {
	const network, neighbour = "2001:db8::1", "2001:db8::2"
	lifetime := testSettings().KnownAddressLifetime()
	for name, test := range map[string][]signIn{
		"none is known":                         {{0, home, false}},
		"the known one":                         {{0, home, false}, {48 * time.Hour, home, false}},
		"another one, once":                     {{0, home, false}, {0, abroad, true}, {0, abroad, false}, {0, home, false}},
		"the network of an IPv6 address":        {{0, network, false}, {0, neighbour, false}, {0, "2001:db8:0:1::1", true}},
		"unknown addresses":                     {{0, home, false}, {0, "", false}, {0, abroad, true}},
		"only an unknown one before":            {{0, "", false}, {0, home, false}},
		"all known ones were forgotten":         {{0, home, false}, {lifetime, abroad, false}},
		"the known one was forgotten":           {{0, home, false}, {lifetime / 2, abroad, true}, {lifetime/2 + time.Hour, home, true}},
		"an old one is known as long as it is":  {{0, home, false}, {lifetime - time.Second, home, false}, {lifetime - time.Second, abroad, true}},
		"one that is not fully known any more":  {{0, home, false}, {signedOut, home, true}, {0, home, false}},
		"an address that pushes out the oldest": append(append([]signIn{{0, home, false}}, twenty(abroad)...), signIn{time.Hour, home, true}),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, testdb.SQLite(t))
			id := f.imported(t, "ada", "ada@example.com")
			for i, s := range test {
				if s.after == signedOut {
					if err := f.service.RevokeUserSessions(t.Context(), id); err != nil {
						t.Fatal(err)
					}
				} else {
					f.clock.Advance(s.after)
				}
				before := len(f.host.Mails())
				f.signInFrom(t, "ada", goodPassword, s.from, "")
				f.drain(t)
				if got := len(f.host.Mails()) > before; got != s.notice {
					t.Errorf("sign-in %d from %q: got a notice: %t, want %t", i+1, s.from, got, s.notice)
				}
			}
		})
	}
}

// twenty are sign-ins, an hour apart, from as many addresses as are known at most.
func twenty(first string) (all []signIn) {
	address := netip.MustParseAddr(first)
	for range personal.MaxKnownAddresses {
		all = append(all, signIn{150 * time.Minute, address.String(), true}) // ten a day
		address = address.Next()
	}
	return all
}

func TestNotices_WithoutAnEmailThereAreNone(t *testing.T) {
	f := newFixture(t, testdb.SQLite(t))
	f.imported(t, "ada", "")
	c := f.signInFrom(t, "ada", goodPassword, home, "")
	f.signInFrom(t, "ada", goodPassword, abroad, "")
	f.changePassword(t, c, goodPassword, otherPassword)
	f.stealSession(t, from(t, abroad, ""), f.signInFrom(t, "ada", otherPassword, home, ""))
	f.drain(t)
	if got := f.recipients(); len(got) > 0 {
		t.Errorf("got mails to %v, want none", got)
	}
	f.wantNoJobs(t)
}

// The sign-ins of a thief must not choose the language of the notices that warn of them.
func TestSignIn_StoresTheLocaleIfTheAddressHasBeenKnownForADay(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		id := f.imported(t, "ada", "ada@example.com")
		for i, step := range []struct {
			after              time.Duration
			from, locale, want string
		}{
			{0, home, "ru", ""},
			{24*time.Hour - time.Microsecond, home, "ru", ""},
			{time.Microsecond, home, "ru", "ru"},
			{0, home, "", "ru"},
			{0, home, "en", "en"},
			{0, abroad, "ru", "en"},
			{time.Hour, abroad, "ru", "en"},
			{0, "", "pt-BR", "pt-BR"},
			{23 * time.Hour, abroad, "ru", "ru"},
			{0, home, strings.Repeat("de,", 30), strings.Repeat("de,", 20) + "de"}, // those that fit
			{f.settings.KnownAddressLifetime(), home, "en", strings.Repeat("de,", 20) + "de"},
		} {
			f.clock.Advance(step.after)
			f.signInFrom(t, "ada", goodPassword, step.from, step.locale)
			a, err := f.store.Account(t.Context(), id)
			if err != nil || a.Locale != step.want {
				t.Errorf("step %d: got locale %q and error %v, want %q", i+1, a.Locale, err, step.want)
			}
		}
	})
}
