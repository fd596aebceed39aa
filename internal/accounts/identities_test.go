package accounts_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
)

const method = "oidc"

func subject(name string) personal.Identity {
	return personal.Identity{Issuer: "https://op.example", Subject: name}
}

// link stores that an identity is an account's.
func (f *fixture) link(t *testing.T, id int64, name string) {
	t.Helper()
	must(t, f.store.LinkIdentity(t.Context(), accounts.LinkIdentity{
		Identity: subject(name), AccountID: id,
		May: func(accounts.Account, accounts.WaysIn) error { return nil }, Jobs: func(accounts.Account) []accounts.NewJob { return nil },
	}))
}

func (f *fixture) signInBy(ctx context.Context, id int64, code string) error {
	_, err := f.service.SignIn(ctx, personal.SignInRequest{UserID: id, Method: method, Code: code})
	return err
}

func TestSignIn_IsChargedToTheAccount(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f, _ := guarded(t, url)
		id := f.register(t, "ada").Credentials.UserID
		for i := range 60 {
			if err := f.signInBy(at(t, fmt.Sprintf("198.51.100.%d", i)), id, ""); err != nil {
				t.Fatalf("sign-in %d: %v", i, err)
			}
		}
		wantCode(t, f.signInBy(at(t, home), id, ""), personal.CodeTooManyAttempts)
		f.clock.Advance(5 * time.Second)
		wantCode(t, f.signInBy(at(t, home), id, ""), "")
		f.disable(t, id)
		wantCode(t, f.signInBy(at(t, home), id, ""), personal.CodeTooManyAttempts) // a refused one is charged, too
	})
}

func TestSignIn_MakesTheAddressFullyKnown(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		id := f.register(t, "ada").Credentials.UserID
		for _, address := range []string{home, abroad} {
			must(t, f.signInBy(at(t, address), id, ""))
			if got := f.what(t, "ada", address); got != full {
				t.Errorf("%s: got %s, want %s", address, got, full)
			}
		}
		must(t, f.signInBy(at(t, abroad), id, ""))
		f.drain(t)
		told := 0
		for _, m := range f.host.Mails() {
			if m.Subject == "Sign-in from an unfamiliar IP address" {
				told++
			}
		}
		if told != 1 {
			t.Errorf("got %d notices, want one of the sign-in elsewhere", told)
		}
	})
}

func TestSignIn_CodesAreLimitedAndBlockedAsInAuthorize(t *testing.T) {
	u := enrolled(t, testdb.SQLite(t))
	f, id := u.f, u.in.UserID
	for range 5 {
		wantCode(t, f.signInBy(at(t, abroad), id, u.wrong()), personal.CodeInvalidCode)
		u.wantTry(t, at(t, abroad), u.wrong(), personal.CodeInvalidCode)
	}
	wantCode(t, f.signInBy(at(t, abroad), id, u.code()), personal.CodeTooManyAttempts)
	wantCode(t, f.signInBy(at(t, home), id, u.next()), "") // the known address has its own limit
	if got := f.told(t); got != 1 {
		t.Errorf("got %d notices of refused codes, want 1", got)
	}
	f.clock.Advance(31 * 24 * time.Hour)
	u.block(t)
	wantCode(t, f.signInBy(at(t, abroad), id, u.next()), personal.CodeCodesBlocked)
	wantCode(t, f.signInBy(at(t, abroad), id, ""), personal.CodeCodeRequired)
	f.clock.Advance(time.Hour) // the limit is regained
	wantCode(t, f.signInBy(at(t, abroad), id, u.recoveryCode()), "")
	wantCode(t, f.signInBy(at(t, abroad), id, u.next()), "") // which has lifted the block
}

// changingAccounts is a store in which something happens before each of the first sessions is
// opened.
type changingAccounts struct {
	accounts.Store
	happens func()
	left    int
}

func (s *changingAccounts) OpenSession(ctx context.Context, o accounts.OpenSession) (accounts.Account, error) {
	if s.left > 0 {
		s.left--
		s.happens()
	}
	return s.Store.OpenSession(ctx, o)
}

// The host has authenticated the user, so a new password does not matter.
func TestSignIn_ChangeMeanwhileIsJudgedAgain(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		f, h := guarded(t, url)
		changes := &changingAccounts{}
		f.offer(t, f.store, h)
		u := f.enrol(t, "ada")
		changes.Store = f.store
		f.service = f.serve(changes, h)
		f.service.OfferTwoFactor(true)
		id := u.in.UserID
		changes.happens = func() {
			f.exec(t, fmt.Sprintf("UPDATE personal_accounts SET credential_version = credential_version + 1 WHERE id = %d", id))
		}
		for range 5 { // no limit of codes is reached: those that were not used are refunded
			changes.left = 5
			must(t, f.signInBy(at(t, home), id, u.next()))
		}
		changes.left = 100
		wantCode(t, f.signInBy(at(t, home), id, u.next()), personal.CodeUnavailable)
		changes.left, changes.happens = 1, func() { f.disable(t, id) }
		wantCode(t, f.signInBy(at(t, home), id, u.next()), personal.CodeAccountDisabled)
		changes.left, changes.happens = 1, func() { f.delete(t, id) }
		f.enable(t, id)
		wantCode(t, f.signInBy(at(t, home), id, u.next()), personal.CodeNotFound)
	})
}

// A recovery, for example, may remove the identity while its user signs in with it.
func TestSignIn_IdentityThatIsRemovedMeanwhileOpensNoSession(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		f, h := guarded(t, url)
		changes := &changingAccounts{Store: f.store}
		f.service = f.serve(changes, h)
		id, other := f.register(t, "ada").Credentials.UserID, f.register(t, "bob").Credentials.UserID
		signIn := func() (int64, error) {
			in, err := f.service.SignIn(at(t, home), personal.SignInRequest{Identity: subject("ada"), Method: method})
			return in.Credentials.UserID, err
		}
		remove := func() { f.exec(t, "DELETE FROM personal_identities") }
		for name, happens := range map[string]func(){
			"removed": remove,
			"removed by a recovery": func() {
				remove()
				f.exec(t, fmt.Sprintf("UPDATE personal_accounts SET credential_version = credential_version + 1 WHERE id = %d", id))
			},
		} {
			f.link(t, id, "ada")
			changes.left, changes.happens = 1, happens
			_, err := signIn()
			if personal.CodeOf(err) != personal.CodeNotFound {
				t.Errorf("%s: got %v, want not_found", name, err)
			}
		}
		f.link(t, id, "ada")
		changes.left, changes.happens = 1, func() { remove(); f.link(t, other, "ada") }
		if got, err := signIn(); err != nil || got != other {
			t.Errorf("linked with another account: got user %d, %v; want %d", got, err, other)
		}
	})
}
