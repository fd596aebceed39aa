package storetest

import (
	"errors"
	"testing"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/password"
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
}

func noRemoval(accounts.Account, accounts.OtherWays) []accounts.NewJob { return nil }
