package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
}

func noRemoval(accounts.Account, accounts.OtherWays) []accounts.NewJob { return nil }
