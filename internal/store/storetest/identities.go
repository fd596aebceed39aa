package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/shared/personal"
)

// linking returns what links a new identity with an account.
func (w *world) linking(account int64) accounts.LinkIdentity {
	return accounts.LinkIdentity{
		Identity: personal.Identity{Issuer: "https://op.example", Subject: fmt.Sprint("subject ", w.number())}, AccountID: account,
		May:  func(accounts.Account, accounts.WaysIn) error { return nil },
		Jobs: func(accounts.Account) []accounts.NewJob { return []accounts.NewJob{job("event")} },
	}
}

// linked links a new identity with an account.
func (w *world) linked(account int64) accounts.LinkIdentity {
	w.t.Helper()
	l := w.linking(account)
	w.must(w.LinkIdentity(w.t.Context(), l))
	return l
}

func (w *world) identities(account int64) []accounts.StoredIdentity {
	w.t.Helper()
	all, err := w.Identities(w.t.Context(), account)
	w.must(err)
	return all
}

var errRefused = errors.New("refused")

var identityCases = []testCase{
	{"linked identity is found and listed, with one event", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		first := w.linked(a.ID)
		w.pass(time.Minute)
		second := w.linked(a.ID)
		w.must(w.LinkIdentity(t.Context(), first)) // again
		want := []accounts.StoredIdentity{
			{Identity: second.Identity, AccountID: a.ID, Linked: w.Now()},
			{Identity: first.Identity, AccountID: a.ID, Linked: w.Now().Add(-time.Minute)},
		}
		if diff := cmp.Diff(want, w.identities(a.ID)); diff != "" {
			t.Errorf("identities (-want +got):\n%s", diff)
		}
		found, err := w.FindIdentity(t.Context(), first.Identity)
		w.must(err)
		if found != a.ID {
			t.Errorf("found account %d, want %d", found, a.ID)
		}
		if kinds := w.kindsDue(); len(kinds) != 2 {
			t.Errorf("got jobs %v, want one for each identity", kinds)
		}
		_, err = w.FindIdentity(t.Context(), w.linking(a.ID).Identity)
		w.wantError(err, accounts.ErrNotFound)
		w.wantError(w.LinkIdentity(t.Context(), w.linking(a.ID+100)), accounts.ErrNotFound)
		w.must(w.DeleteAccount(t.Context(), a.ID, removed))
		_, err = w.FindIdentity(t.Context(), first.Identity)
		w.wantError(err, accounts.ErrNotFound)
	}},
	{"refused identity stores nothing", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		b, _ := w.createAny()
		taken := w.linked(b.ID)
		taken.AccountID = a.ID
		w.wantError(w.LinkIdentity(t.Context(), taken), accounts.ErrIdentityTaken)
		w.kindsDue()
		l := w.linking(a.ID)
		l.May = func(account accounts.Account, ways accounts.WaysIn) error {
			if account.ID != a.ID || ways != (accounts.WaysIn{Used: true}) {
				t.Errorf("got account %d with %+v, want %d, which has a session", account.ID, ways, a.ID)
			}
			return errRefused
		}
		w.wantError(w.LinkIdentity(t.Context(), l), errRefused)
		for range personal.MaxIdentities {
			w.linked(a.ID)
		}
		w.kindsDue()
		w.wantError(w.LinkIdentity(t.Context(), w.linking(a.ID)), accounts.ErrTooManyIdentities)
		if got, kinds := w.identities(a.ID), w.kindsDue(); len(got) != personal.MaxIdentities || len(kinds) != 0 {
			t.Errorf("got %d identities and jobs %v, want %d and none", len(got), kinds, personal.MaxIdentities)
		}
	}},
	{"identity is linked and unlinked with a valid proof", func(t *testing.T, w *world) {
		a, s := w.createWithPassword()
		proof := accounts.Proof{Digest: digest("proof", 1), Created: w.Now(), CredentialVersion: 1, EmailKey: a.Email.Key}
		w.must(w.SetProof(t.Context(), a.ID, s.ID, proof, accounts.CodeUse{}, accounts.PasskeyUse{}))
		l := w.linking(a.ID)
		l.Proof, l.CredentialVersion = accounts.ProofUse{SessionID: s.ID, Digest: proof.Digest, After: w.Now().Add(-time.Minute)}, 1
		w.must(w.LinkIdentity(t.Context(), l))
		void, stale := l, l
		void.Proof.Digest, stale.CredentialVersion = digest("proof", 2), 2
		for _, change := range []func(accounts.LinkIdentity) error{
			func(l accounts.LinkIdentity) error { return w.LinkIdentity(t.Context(), l) },
			func(l accounts.LinkIdentity) error { return w.UnlinkIdentity(t.Context(), l) },
		} {
			w.wantError(change(void), accounts.ErrProofVoid)
			w.wantError(change(stale), accounts.ErrStale)
		}
		w.must(w.UnlinkIdentity(t.Context(), l))
		if got := w.identities(a.ID); len(got) != 0 {
			t.Errorf("got %v, want none", got)
		}
	}},
	{"unlinked identity ends sessions of other methods", func(t *testing.T, w *world) {
		a, _ := w.createWithPassword()
		for _, method := range append([]string{"oidc", "saml"}, personal.ModuleMethods()...) {
			s := w.newSession(a.ID)
			s.Method = method
			w.must(w.OpenSession(t.Context(), accounts.OpenSession{Session: s, CredentialVersion: 1, MaxSessions: 100}))
		}
		l := w.linked(a.ID)
		w.kindsDue()
		w.must(w.UnlinkIdentity(t.Context(), w.linking(a.ID)))
		if got, kinds := len(w.sessions(a.ID)), w.kindsDue(); got != 7 || len(kinds) != 0 {
			t.Fatalf("got %d sessions and jobs %v, want all and none", got, kinds)
		}
		w.must(w.UnlinkIdentity(t.Context(), l))
		if got, kinds := len(w.sessions(a.ID)), w.kindsDue(); got != 5 || len(kinds) != 1 {
			t.Errorf("got %d sessions and jobs %v, want 5 and one", got, kinds)
		}
	}},
	{"session by an identity is one of the account that has it", func(t *testing.T, w *world) {
		a, _ := w.createWithPassword()
		b, _ := w.createAny()
		l := w.linked(a.ID)
		open := func(account int64, i personal.Identity) error {
			return w.OpenSession(t.Context(), accounts.OpenSession{Session: w.newSession(account), CredentialVersion: 1, MaxSessions: 100, Identity: i})
		}
		w.pass(time.Minute)
		w.must(open(a.ID, l.Identity))
		used := w.Now()
		w.pass(time.Minute)
		w.wantError(open(b.ID, l.Identity), accounts.ErrStale)
		w.wantError(open(a.ID, w.linking(a.ID).Identity), accounts.ErrStale)
		if got := w.identities(a.ID)[0].LastUsed; !got.Equal(used) {
			t.Errorf("last used at %v, want %v: the time of the session", got, used)
		}
		w.must(w.UnlinkIdentity(t.Context(), l))
		w.wantError(open(a.ID, l.Identity), accounts.ErrStale)
		if got := len(w.sessions(a.ID)); got != 2 {
			t.Errorf("got %d sessions, want the first one and that by the identity", got)
		}
	}},
}

var identityRaces = []testCase{
	{"concurrent accounts: one gets an identity", func(t *testing.T, w *world) {
		const n = 8
		l := w.linking(0)
		ids := make([]int64, n)
		for i := range ids {
			a, _ := w.createAny()
			ids[i] = a.ID
		}
		errs := atOnce(n, func(i int) error {
			mine := l
			mine.AccountID = ids[i]
			return w.LinkIdentity(t.Context(), mine)
		})
		if won, lost := count(errs, nil), count(errs, accounts.ErrIdentityTaken); won != 1 || lost != n-1 {
			t.Errorf("got %v, want one account that gets the identity", errs)
		}
	}},
	{"concurrent sign-in and removal of an identity: no session is left", func(t *testing.T, w *world) {
		for range rounds {
			links := make([]accounts.LinkIdentity, contenders/2)
			for i := range links {
				a, _ := w.createWithPassword()
				links[i] = w.linked(a.ID)
			}
			errs := atOnce(contenders, func(i int) error {
				l := links[i/2]
				if i%2 == 0 {
					return w.UnlinkIdentity(t.Context(), l)
				}
				s := w.newSession(l.AccountID)
				s.Method = "oidc"
				err := w.OpenSession(t.Context(), accounts.OpenSession{Session: s, CredentialVersion: 1, MaxSessions: 100, Identity: l.Identity})
				if errors.Is(err, accounts.ErrStale) {
					return nil
				}
				return err
			})
			w.must(errors.Join(errs...))
			for _, l := range links {
				if got := len(w.sessions(l.AccountID)); got != 1 {
					t.Errorf("got %d sessions, want the first one", got)
				}
			}
		}
	}},
	{"concurrent identities: an account gets as many as it may", func(t *testing.T, w *world) {
		const n, left = 8, 3
		a, _ := w.createAny()
		for range personal.MaxIdentities - left {
			w.linked(a.ID)
		}
		errs := atOnce(n, func(int) error { return w.LinkIdentity(t.Context(), w.linking(a.ID)) })
		if won, lost := count(errs, nil), count(errs, accounts.ErrTooManyIdentities); won != left || lost != n-left || len(w.identities(a.ID)) != personal.MaxIdentities {
			t.Errorf("got %v, want three identities", errs)
		}
	}},
}
