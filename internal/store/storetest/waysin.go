package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/shared/personal"
)

// otherWays counts the other ways into an account.
func (w *world) otherWays(account int64) accounts.OtherWays {
	w.t.Helper()
	list, err := w.Passkeys(w.t.Context(), account)
	w.must(err)
	return accounts.OtherWays{Passkeys: len(list), Identities: len(w.identities(account))}
}

// openBy opens a session by a method of the host.
func (w *world) openBy(a accounts.Account, method string) {
	w.t.Helper()
	s := w.newSession(a.ID)
	s.Method = method
	w.must(w.OpenSession(w.t.Context(), accounts.OpenSession{Session: s, CredentialVersion: a.CredentialVersion, MaxSessions: 100}))
}

var wayInCases = []testCase{
	{"other ways in are removed together, with what they began", func(t *testing.T, w *world) {
		a, s := w.createWithPassword()
		p := w.addPasskey(a, s)
		w.addPasskey(a, s)
		w.linked(a.ID)
		w.must(w.signInBy(a, useOf(p, 1)))
		w.openBy(a, "oidc")
		proof := w.newProof(a)
		proof.PasskeyID, p.SignCount = p.ID, p.SignCount+1
		w.must(w.SetProof(t.Context(), a.ID, s.ID, proof, accounts.CodeUse{}, useOf(p, 2)))
		attempt := w.newAttempt(a, s)
		w.kindsDue()
		bystander, other := w.createAny()
		w.addPasskey(bystander, other)
		w.linked(bystander.ID)
		w.kindsDue()
		var seen []accounts.OtherWays
		remove := func() error {
			return w.RemoveOtherWaysIn(t.Context(), a.ID, func(before accounts.Account, removed accounts.OtherWays) []accounts.NewJob {
				if before.ID != a.ID {
					t.Errorf("the jobs were requested for account %d, want %d", before.ID, a.ID)
				}
				seen = append(seen, removed)
				return []accounts.NewJob{job("event")}
			})
		}
		w.must(remove())
		later := w.newAttempt(a, s)
		w.must(remove()) // there are none
		if diff := cmp.Diff([]accounts.OtherWays{{Passkeys: 2, Identities: 1}}, seen); diff != "" {
			t.Errorf("removed (-want +got):\n%s", diff)
		}
		if left, kinds := w.otherWays(a.ID), w.kindsDue(); !left.None() || len(kinds) != 1 {
			t.Errorf("left %+v, and got jobs %v; want none, and one", left, kinds)
		}
		if got := w.sessions(a.ID); len(got) != 1 || got[0].ID != s.ID || w.session(s).Proof != (accounts.Proof{}) {
			t.Errorf("got the sessions %+v, want the one that the password began, without the proof", got)
		}
		for name, started := range map[string]accounts.PasskeyCeremony{"an attempt that a proof has started": attempt, "one when there are no other ways in": later} {
			if _, err := w.FindCeremony(t.Context(), s.ID, a.CredentialVersion, started.Digest, time.Time{}); !errors.Is(err, accounts.ErrNotFound) {
				t.Errorf("%s: got error %v, want ErrNotFound", name, err)
			}
		}
		if got := w.otherWays(bystander.ID); got != (accounts.OtherWays{Passkeys: 1, Identities: 1}) {
			t.Errorf("another account has %+v left", got)
		}
		w.wantError(w.RemoveOtherWaysIn(t.Context(), nobody, nil), accounts.ErrNotFound)
	}},
	{"last way in is a password, a verified e-mail or another way in", func(t *testing.T, w *world) {
		for name, test := range map[string]struct {
			hash     string
			verified bool
			want     error
		}{
			"password":          {"", false, nil},
			"verified e-mail":   {password.Unusable, true, nil},
			"unverified e-mail": {password.Unusable, false, accounts.ErrLastWayIn},
		} {
			account := w.newAccount()
			account.PasswordHash, account.EmailVerified = passwordHash, test.verified
			if test.hash != "" {
				account.PasswordHash = test.hash
			}
			if test.hash == "" && !password.Verifiable(account.PasswordHash) {
				t.Fatal("the hash of the test is none")
			}
			a, s := w.create(account)
			first := w.linked(a.ID)
			p := w.addPasskey(a, s)
			w.must(w.UnlinkIdentity(t.Context(), first)) // the passkey is left
			second := w.linked(a.ID)
			w.must(w.RemovePasskey(t.Context(), a.ID, a.CredentialVersion, p.ID, accounts.CodeUse{}, nil)) // the identity is left
			for what, remove := range map[string]func() error{
				"all":      func() error { return w.RemoveOtherWaysIn(t.Context(), a.ID, noRemoval) },
				"identity": func() error { return w.UnlinkIdentity(t.Context(), second) },
			} {
				if err := remove(); !errors.Is(err, test.want) {
					t.Errorf("%s, removing %s: got %v, want %v", name, what, err, test.want)
				}
				if refused := test.want != nil; refused == w.otherWays(a.ID).None() {
					t.Errorf("%s, removing %s: got %+v left", name, what, w.otherWays(a.ID))
				}
			}
		}
	}},
	{"recovery removes every other way in, and the factor stays", func(t *testing.T, w *world) {
		for _, factor := range []bool{false, true} {
			a, s := w.createAny()
			if factor {
				a, s = w.createEnrolled()
			}
			w.addPasskey(a, s) // with a code
			w.linked(a.ID)
			n := w.number()
			w.must(w.AddMailToken(t.Context(), accounts.MailToken{
				Digest: digest("token", n), AccountID: a.ID, Purpose: accounts.PurposeRecovery, CredentialVersion: a.CredentialVersion,
				AccountEmailKey: a.Email.Key, Expires: w.Now().Add(time.Hour),
			}))
			var removed accounts.OtherWays
			w.must(w.RedeemRecovery(t.Context(), digest("token", n), "second hash", accounts.KnownAt{}, func(r accounts.OtherWays) []accounts.NewJob {
				removed = r
				return nil
			}))
			if left := w.otherWays(a.ID); removed != (accounts.OtherWays{Passkeys: 1, Identities: 1}) || !left.None() {
				t.Errorf("factor %t: removed %+v and left %+v, want all removed", factor, removed, left)
			}
			if got := w.account(a.ID).TwoFactor.On(); got != factor {
				t.Errorf("factor %t: got %t after the recovery", factor, got)
			}
		}
	}},
	{"reset leaves only the e-mail", func(t *testing.T, w *world) {
		for name, state := range map[string]func(accounts.Account) accounts.Account{
			"enabled": func(a accounts.Account) accounts.Account { return a },
			"disabled": func(a accounts.Account) accounts.Account {
				w.must(w.SetDisabled(t.Context(), a.ID, true))
				return w.account(a.ID)
			},
			"deleted": w.requestDeletion,
		} {
			a, s := w.createEnrolled()
			p := w.addPasskey(a, s)
			w.linked(a.ID)
			a = state(a)
			w.kindsDue()
			email := accounts.Email{Address: name + "@new.example", Key: name + "@new.example"}
			w.must(w.ResetAccess(t.Context(), a.ID, email, func(before accounts.Account) []accounts.NewJob {
				if diff := cmp.Diff(a, before); diff != "" {
					t.Errorf("%s: the jobs were requested with: %s", name, diff)
				}
				return []accounts.NewJob{job("event")}
			}))
			want := a
			want.Email, want.EmailVerified, want.Unverified = email, false, accounts.Email{}
			want.PasswordHash, want.TwoFactor, want.CredentialVersion = password.AwaitsRecovery, accounts.TwoFactor{}, a.CredentialVersion+1
			want.Disabled, want.EraseAt, want.Updated = false, time.Time{}, w.Now()
			if a.LoginKey == a.Email.Key {
				want.Login, want.LoginKey = email.Address, email.Key
			}
			if diff := cmp.Diff(want, w.account(a.ID)); diff != "" {
				t.Errorf("%s: account (-want +got):\n%s", name, diff)
			}
			if left, kinds := w.otherWays(a.ID), w.kindsDue(); !left.None() || len(kinds) != 1 || len(w.sessions(a.ID)) != 0 {
				t.Errorf("%s: left %+v and %d sessions, and got jobs %v; want none, and one job", name, left, len(w.sessions(a.ID)), kinds)
			}
			if _, _, _, err := w.FindPasskey(t.Context(), p.CredentialID, digest("sealed", 1)); !errors.Is(err, accounts.ErrNotFound) {
				t.Errorf("%s: finding the passkey: got %v, want ErrNotFound", name, err)
			}
			w.must(w.ResetAccess(t.Context(), a.ID, email, func(accounts.Account) []accounts.NewJob { return nil })) // the present one
		}
		a, s := w.createAny()
		other, _ := w.createAny()
		err := w.ResetAccess(t.Context(), a.ID, other.Email, func(accounts.Account) []accounts.NewJob { return nil })
		w.wantTaken(err, accounts.TakenError{Email: true})
		w.wantUnchanged(a, s)
		w.wantError(w.ResetAccess(t.Context(), nobody, a.Email, nil), accounts.ErrNotFound)
	}},
	{"single removal is of its account alone", func(t *testing.T, w *world) {
		a, s := w.createWithPassword()
		w.addPasskey(a, s)
		foreign := w.linked(a.ID)
		b, _ := w.createAny()
		foreign.AccountID = b.ID
		w.must(w.UnlinkIdentity(t.Context(), foreign))
		if got := w.otherWays(a.ID); got != (accounts.OtherWays{Passkeys: 1, Identities: 1}) {
			t.Errorf("got %+v, want all", got)
		}
		w.openBy(a, personal.MethodPassword)
		foreign.AccountID = a.ID
		w.must(w.UnlinkIdentity(t.Context(), foreign))
		if got := w.otherWays(a.ID); got != (accounts.OtherWays{Passkeys: 1}) || len(w.sessions(a.ID)) != 2 {
			t.Errorf("got %+v and %d sessions, want the passkey and both sessions", got, len(w.sessions(a.ID)))
		}
	}},
}

func noRemoval(accounts.Account, accounts.OtherWays) []accounts.NewJob { return nil }
