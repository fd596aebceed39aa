package accounts_test

import (
	"context"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
)

// What an address is to an account.
const (
	unknown   = "unknown"
	known     = "known"
	codesOnly = "known, and fully known for codes"
	full      = "fully known"
)

// what returns what an address is to the account of a login.
func (f *fixture) what(t *testing.T, login, address string) string {
	t.Helper()
	after := f.clock.Now().Add(-f.settings.KnownAddressLifetime())
	switch k, err := f.store.KnownAddress(t.Context(), accounts.AccountQuery{LoginKey: login}, address, after); {
	case err != nil:
		t.Fatal(err)
	case k.Full && k.Codes:
		return full
	case k.Codes:
		return codesOnly
	case k.Known():
		return known
	}
	return unknown
}

// resident is a user who has signed in at home. Their session began there.
type resident struct {
	*factor
	t *testing.T
}

// signIn completes a sign-in, with a code if that is needed.
func (r *resident) signIn(address string) {
	r.t.Helper()
	request := personal.AuthorizeRequest{Login: "ada", Password: goodPassword}
	if r.secret != "" {
		request.Code = r.next()
	}
	in, err := r.f.service.Authorize(at(r.t, address), request)
	if err != nil {
		r.t.Fatal(err)
	}
	r.in = in.Credentials
}

func (r *resident) confirmFactor(address string) { r.confirm(r.t, at(r.t, address)) }

func (r *resident) removeFactor(address string) {
	r.t.Helper()
	r.end(r.t, at(r.t, address))
	r.secret = ""
}

func (r *resident) changePassword(address string) {
	r.t.Helper()
	request := personal.ChangePasswordRequest{Credentials: r.in, OldPassword: goodPassword, Password: goodPassword,
		ConfirmPassword: goodPassword}
	if r.secret != "" {
		request.Code = r.next()
	}
	var err error
	r.in, err = r.f.service.ChangePassword(at(r.t, address), request)
	r.must(err)
}

func (r *resident) recover(address string) {
	r.t.Helper()
	r.f.clock.Advance(time.Hour) // no limit suppresses the mail
	r.f.recoverNow(r.t, personal.RecoverRequest{Login: "ada"})
	tokens := r.f.tokens()
	_, err := r.f.service.RecoverConfirm(at(r.t, address), personal.RecoverConfirmRequest{
		Token: tokens[len(tokens)-1], Password: goodPassword, ConfirmPassword: goodPassword,
	})
	r.must(err)
}

func (r *resident) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// administer calls an operation of an administrator.
func (r *resident) administer(operation func(ctx context.Context, id int64) error) {
	r.t.Helper()
	r.must(operation(r.t.Context(), r.in.UserID))
}

func TestFullyKnownAddress(t *testing.T) {
	for _, test := range []struct {
		name         string
		do           func(r *resident)
		home, abroad string
	}{
		{"a sign-in", func(*resident) {}, full, unknown},
		{"a sign-in elsewhere", func(r *resident) { r.signIn(abroad) }, full, full},
		{"time", func(r *resident) { r.f.clock.Advance(89 * 24 * time.Hour) }, full, unknown},
		{"a refused code", func(r *resident) {
			r.confirmFactor(home)
			r.wantTry(r.t, at(r.t, abroad), r.wrong(), personal.CodeInvalidCode)
			r.wantTry(r.t, at(r.t, abroad), "", personal.CodeCodeRequired)
		}, full, unknown},
		{"password/ there", func(r *resident) { r.signIn(abroad); r.changePassword(abroad); r.changePassword(abroad) }, known, full},
		{"password/ at an unknown address", func(r *resident) { r.changePassword(abroad) }, known, unknown},
		{"password/ when the address has expired", func(r *resident) { r.f.exec(t, "UPDATE personal_known_addresses SET seen = 1"); r.changePassword(home) }, unknown, unknown},
		{"two_factor_confirm/ there", func(r *resident) { r.signIn(abroad); r.confirmFactor(abroad) }, known, full},
		{"two_factor_confirm/ at an unknown address", func(r *resident) { r.confirmFactor(abroad) }, known, unknown},
		{"two_factor_remove/ there", func(r *resident) { r.confirmFactor(home); r.removeFactor(home) }, full, unknown},
		{"two_factor_remove/ elsewhere", func(r *resident) { r.confirmFactor(home); r.removeFactor(abroad) }, known, unknown},
		{"a sign-in after that", func(r *resident) { r.changePassword(abroad); r.signIn(home) }, full, unknown},
		{"recover_confirm/ there", func(r *resident) { r.recover(home) }, codesOnly, unknown},
		{"two of them", func(r *resident) { r.recover(home); r.recover(home) }, codesOnly, unknown},
		{"recover_confirm/ there, and password/ by another session", func(r *resident) {
			r.recover(home)
			r.signIn(abroad)
			r.changePassword(home)
		}, codesOnly, known},
		{"recover_confirm/ there and a sign-in", func(r *resident) { r.recover(home); r.signIn(home) }, full, unknown},
		{"recover_confirm/ elsewhere", func(r *resident) { r.recover(abroad) }, known, known},
		{"recover_confirm/ there with a factor", func(r *resident) { r.confirmFactor(home); r.recover(home) }, codesOnly, unknown},
		{"recover_confirm/ elsewhere with a factor", func(r *resident) { r.confirmFactor(home); r.recover(abroad) }, known, unknown},
		{"email_confirm/", func(r *resident) { r.f.changeEmail(r.t, at(r.t, home), r.in, "new@example.com") }, known, unknown},
		{"email_confirm/ and back", func(r *resident) {
			r.f.changeEmail(r.t, at(r.t, home), r.in, "new@example.com")
			r.f.clock.Advance(time.Hour)
			r.f.changeEmail(r.t, at(r.t, home), r.in, "ada@example.com")
		}, known, unknown},
		{"an e-mail by an administrator", func(r *resident) { r.f.setEmail(r.t, r.in.UserID, "new@example.com") }, known, unknown},
		{"disabling and enabling", func(r *resident) {
			r.administer(r.f.service.DisableUser)
			r.administer(r.f.service.EnableUser)
		}, known, unknown},
		{"an administrator's sign-out", func(r *resident) { r.administer(r.f.service.RevokeUserSessions) }, known, unknown},
		{"an administrator's sign-out without a session", func(r *resident) {
			r.must(r.f.service.Logout(r.t.Context(), personal.LogoutRequest{Credentials: r.in, All: true}))
			r.administer(r.f.service.RevokeUserSessions)
		}, known, unknown},
		{"the factor's removal by an administrator", func(r *resident) {
			r.confirmFactor(home)
			r.administer(func(ctx context.Context, id int64) error {
				return r.f.service.RemoveTwoFactor(ctx, personal.RemoveTwoFactorRequest{UserID: id})
			})
		}, known, unknown},
		{"a sign-out of all users", func(r *resident) {
			_, err := r.f.store.RevokeAll(r.t.Context())
			r.must(err)
		}, known, unknown},
		{"the user's own sign-out", func(r *resident) {
			r.must(r.f.service.Logout(r.t.Context(), personal.LogoutRequest{Credentials: r.in, All: true}))
		}, full, unknown},
	} {
		t.Run(test.name, func(t *testing.T) {
			testdb.Database(t, func(t *testing.T, url string) {
				f := offering(t, url)
				r := &resident{&factor{f: f, in: f.register(t, "ada").Credentials, login: "ada"}, t}
				r.signIn(home)
				test.do(r)
				if got := f.what(t, "ada", home); got != test.home {
					t.Errorf("got home %s, want %s", got, test.home)
				}
				if got := f.what(t, "ada", abroad); got != test.abroad {
					t.Errorf("got the other address %s, want %s", got, test.abroad)
				}
			})
		})
	}
}

func TestRegister_MakesTheAddressFullyKnown(t *testing.T) {
	f := newFixture(t, testdb.SQLite(t))
	_, err := f.service.Register(at(t, home), personal.RegisterRequest{
		Login: "ada", Password: goodPassword, ConfirmPassword: goodPassword, Email: "ada@example.com",
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := f.what(t, "ada", home); got != full {
		t.Errorf("got %s, want fully known", got)
	}
}

// An address that has expired becomes known again from the next sign-in, whether or not its row was removed.
func TestKnownAddress_CountsFromTheNextSignInAfterItHasExpired(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		f.register(t, "ada")
		start, lifetime := f.clock.Now(), f.settings.KnownAddressLifetime()
		for _, step := range []struct {
			after time.Duration
			since time.Time
		}{{0, start}, {lifetime - time.Second, start}, {lifetime, start.Add(2*lifetime - time.Second)}} {
			f.clock.Advance(step.after)
			f.signInFrom(t, "ada", goodPassword, home, "")
			k, err := f.store.KnownAddress(t.Context(), accounts.AccountQuery{LoginKey: "ada"}, home, time.Time{})
			if err != nil || !k.Since.Equal(step.since) {
				t.Errorf("after %v: got %v and error %v, want %v", step.after, k.Since, err, step.since)
			}
		}
	})
}
