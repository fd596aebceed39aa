package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/passkey"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/shared/personal"
)

// newAttempt stores an attempt of a session.
func (w *world) newAttempt(a accounts.Account, s accounts.Session) accounts.PasskeyCeremony {
	w.t.Helper()
	attempt := accounts.PasskeyCeremony{
		Digest: digest("attempt", w.number()), SessionID: s.ID, Purpose: personal.PasskeyProve, Challenge: passkey.Challenge(digest("challenge", w.number())),
		CredentialVersion: a.CredentialVersion, WithCode: true,
	}
	w.must(w.AddCeremony(w.t.Context(), attempt))
	return attempt
}

func (w *world) newPasskey(a accounts.Account) accounts.Passkey {
	id, key := digest("credential", w.number()), digest("key", w.number())
	return accounts.Passkey{
		AccountID: a.ID, Key: passkey.Key{CredentialID: id[:], PublicKey: key[:], SignCount: 7, BackupEligible: true, BackedUp: true, Transports: []string{"hybrid", "new"}},
		RelyingParty: "site.example", Name: "phone", Created: w.Now(), WithCode: true,
		Confirmation: digest("confirmation", w.number()),
	}
}

// addPasskey stores a passkey and returns it with its id.
func (w *world) addPasskey(a accounts.Account, s accounts.Session) accounts.Passkey {
	w.t.Helper()
	p := w.newPasskey(a)
	var err error
	p.ID, err = w.AddPasskey(w.t.Context(), p, a.CredentialVersion, use(w.newAttempt(a, s)))
	w.must(err)
	return p
}

func use(a accounts.PasskeyCeremony) accounts.CeremonyUse {
	return accounts.CeremonyUse{Digest: a.Digest, SessionID: a.SessionID}
}

// useOf is a sign-in with a passkey.
func useOf(p accounts.Passkey, n int) accounts.PasskeyUse {
	return accounts.PasskeyUse{
		ID: p.ID, SignCount: p.SignCount + 1,
		Attempt: accounts.CeremonyUse{Digest: digest("sealed", n), Expires: time.Date(2026, 3, 1, 12, 5, 0, 0, time.UTC)},
		OnClone: func() []accounts.NewJob { return []accounts.NewJob{job("event")} },
	}
}

func (w *world) signInBy(a accounts.Account, u accounts.PasskeyUse) error {
	s := w.newSession(a.ID)
	s.Method, s.PasskeyID, s.Proof = personal.MethodPasskey, u.ID, w.newProof(a)
	s.Proof.PasskeyID = u.ID
	return w.OpenSession(w.t.Context(), accounts.OpenSession{Session: s, CredentialVersion: a.CredentialVersion, MaxSessions: 100, Passkey: u})
}

// onlyPasskey returns the account's only passkey.
func (w *world) onlyPasskey(a accounts.Account) accounts.Passkey {
	w.t.Helper()
	list, err := w.Passkeys(w.t.Context(), a.ID)
	w.must(err)
	if len(list) != 1 {
		w.t.Fatalf("got %d passkeys, want 1", len(list))
	}
	return list[0]
}

var passkeyCases = []testCase{
	{"what a proof has started ends with a passkey and with the e-mail", func(t *testing.T, w *world) {
		for name, end := range map[string]func(a accounts.Account, s accounts.Session) error{
			"removed passkey": func(a accounts.Account, s accounts.Session) error {
				p := w.addPasskey(a, s)
				return w.RemovePasskey(t.Context(), a.ID, a.CredentialVersion, p.ID, accounts.CodeUse{}, nil)
			},
			"another e-mail": func(a accounts.Account, _ accounts.Session) error {
				email := accounts.Email{Address: "new@example.com", Key: "new@example.com"}
				return w.SetEmail(t.Context(), a.ID, email, func(accounts.Account) ([]accounts.NewJob, error) { return nil, nil })
			},
		} {
			a, s := w.createWithPassword()
			attempt := w.newAttempt(a, s)
			secret := accounts.Sealed{Key: "k", Data: []byte("secret")}
			w.must(w.SetPendingFactor(t.Context(), accounts.PendingFactor{AccountID: a.ID, SessionID: s.ID, CredentialVersion: a.CredentialVersion,
				Secret: secret}))
			w.must(end(a, s))
			if _, err := w.FindCeremony(t.Context(), s.ID, a.CredentialVersion, attempt.Digest, time.Time{}); !errors.Is(err, accounts.ErrNotFound) {
				t.Errorf("%s: the attempt: got error %v, want ErrNotFound", name, err)
			}
			if _, err := w.PendingFactor(t.Context(), s.ID, a.CredentialVersion, time.Time{}); !errors.Is(err, accounts.ErrNotFound) {
				t.Errorf("%s: the pending factor: got error %v, want ErrNotFound", name, err)
			}
		}
	}},
	{"a passkey is listed, found with its account, and renamed", func(t *testing.T, w *world) {
		a, s := w.createEnrolled()
		handle, err := w.BeginPasskey(t.Context(), a.ID, accounts.PasskeyCeremony{Digest: digest("x", 1), SessionID: s.ID,
			CredentialVersion: a.CredentialVersion},
			[]byte("handle"), accounts.CodeUse{})
		w.must(err)
		again, err := w.BeginPasskey(t.Context(), a.ID, accounts.PasskeyCeremony{Digest: digest("x", 2), SessionID: s.ID,
			CredentialVersion: a.CredentialVersion},
			[]byte("another"), accounts.CodeUse{})
		w.must(err)
		if string(handle) != "handle" || string(again) != "handle" {
			t.Errorf("got the handles %q and %q, want one per account", handle, again)
		}
		first := w.addPasskey(a, s)
		w.pass(time.Second)
		second := w.addPasskey(a, s)
		list, err := w.Passkeys(t.Context(), a.ID)
		w.must(err)
		if diff := cmp.Diff([]accounts.Passkey{second, first}, list); diff != "" {
			t.Errorf("passkeys (-stored +listed):\n%s", diff)
		}
		p, found, used, err := w.FindPasskey(t.Context(), first.CredentialID, digest("sealed", 1))
		w.must(err)
		first.UserHandle = handle
		want := w.account(a.ID)
		want.Login, want.Name, want.Fields, want.Created, want.Updated = "", nil, nil, time.Time{}, time.Time{}
		if diff := cmp.Diff(first, p) + cmp.Diff(want, found); diff != "" || used {
			t.Errorf("got used %t; (-want +found):\n%s", used, diff)
		}
		w.must(w.RenamePasskey(t.Context(), a.ID, first.ID, "my phone"))
		other, _ := w.createAny()
		w.must(w.RenamePasskey(t.Context(), other.ID, first.ID, "not mine"))
		if p, err := w.ConfirmedPasskey(t.Context(), a.ID, first.Confirmation); err != nil || p.Name != "my phone" {
			t.Errorf("got %q, error %v; want the new name", p.Name, err)
		}
		_, err = w.ConfirmedPasskey(t.Context(), other.ID, first.Confirmation)
		w.wantError(err, accounts.ErrNotFound)
		_, _, _, err = w.FindPasskey(t.Context(), []byte("unknown"), digest("sealed", 1))
		w.wantError(err, accounts.ErrNotFound)
		if other, err := w.OtherRelyingParty(t.Context(), "site.example"); err != nil || other != "" {
			t.Errorf("got the relying party %q, error %v; want no other", other, err)
		}
		if other, err := w.OtherRelyingParty(t.Context(), ""); err != nil || other != "site.example" {
			t.Errorf("got the relying party %q, error %v; want that of the passkeys", other, err)
		}
	}},
	{"an attempt is its session's, for its credential version, and used once", func(t *testing.T, w *world) {
		a, s := w.createAny()
		other := w.open(a)
		attempt := w.newAttempt(a, s)
		early := w.Now().Add(-time.Second)
		got, err := w.FindCeremony(t.Context(), s.ID, a.CredentialVersion, attempt.Digest, early)
		w.must(err)
		if diff := cmp.Diff(attempt, got); diff != "" {
			t.Errorf("attempt (-stored +found):\n%s", diff)
		}
		for _, missing := range []struct {
			session, version int64
			after            time.Time
		}{{other.ID, a.CredentialVersion, early}, {s.ID, a.CredentialVersion + 1, early}, {s.ID, a.CredentialVersion, w.Now()}} {
			_, err := w.FindCeremony(t.Context(), missing.session, missing.version, attempt.Digest, missing.after)
			w.wantError(err, accounts.ErrNotFound)
		}
		p := w.newPasskey(a)
		_, err = w.AddPasskey(t.Context(), p, a.CredentialVersion, accounts.CeremonyUse{Digest: attempt.Digest, SessionID: other.ID}, job("event"))
		w.wantError(err, accounts.ErrCeremonyUsed)
		_, err = w.AddPasskey(t.Context(), p, a.CredentialVersion+1, use(attempt), job("event"))
		w.wantError(err, accounts.ErrStale)
		errs := atOnce(8, func(int) error {
			_, err := w.AddPasskey(context.Background(), p, a.CredentialVersion, use(attempt))
			return err
		})
		if count(errs, nil) != 1 || count(errs, accounts.ErrCeremonyUsed) != 7 {
			t.Errorf("got %v, want one success", errs)
		}
		_, err = w.AddPasskey(t.Context(), p, a.CredentialVersion, use(w.newAttempt(a, s)), job("event"))
		w.wantError(err, accounts.ErrPasskeyTaken)
		if due := w.kindsDue(); len(due) != 0 {
			t.Errorf("got the jobs %v of what was refused", due)
		}
		w.must(w.RevokeSession(t.Context(), a.ID, s.ID))
		w.wantError(w.AddCeremony(t.Context(), attempt), accounts.ErrStale)
		_, err = w.FindCeremony(t.Context(), s.ID, a.CredentialVersion, attempt.Digest, early)
		w.wantError(err, accounts.ErrStale)
		_, err = w.AddPasskey(t.Context(), p, a.CredentialVersion, use(attempt), job("event"))
		w.wantError(err, accounts.ErrStale)
	}},
	{"a use stores the counter and uses its sealed attempt up", func(t *testing.T, w *world) {
		a, s := w.createWithPassword()
		p := w.addPasskey(a, s)
		errs := atOnce(8, func(int) error { return w.signInBy(a, useOf(p, 1)) })
		if count(errs, nil) != 1 || count(errs, accounts.ErrCeremonyUsed) != 7 {
			t.Errorf("got %v, want one success", errs)
		}
		if got := w.onlyPasskey(a); got.SignCount != p.SignCount+1 || !got.LastUsed.Equal(w.Now()) || got.BackedUp || got.BackupEligible {
			t.Errorf("got %+v, want the counter, the backup state and the time of the use", got)
		}
		if due := w.kindsDue(); len(due) != 0 {
			t.Errorf("got the jobs %v of a clone", due)
		}
		w.must(w.signInBy(a, useOf(p, 2))) // the same counter again
		if due := w.kindsDue(); len(due) != 1 {
			t.Errorf("got the jobs %v, want that of a clone", due)
		}
		_, _, used, err := w.FindPasskey(t.Context(), p.CredentialID, digest("sealed", 2))
		if w.must(err); !used {
			t.Error("a used attempt is not found to be used")
		}
		w.must(w.RemovePasskey(t.Context(), a.ID, a.CredentialVersion, p.ID, accounts.CodeUse{}, nil))
		w.wantError(w.signInBy(a, useOf(p, 4)), accounts.ErrCeremonyUsed)
		w.pass(time.Hour)
		w.must(w.Prune(t.Context(), store.PruneOptions{AttemptsBefore: w.Now()}))
		_, _, used, _ = w.FindPasskey(t.Context(), p.CredentialID, digest("sealed", 2))
		if used {
			t.Error("a digest is kept longer than its attempt is valid")
		}
	}},
	{"a removal ends the sessions that the passkey began and voids its proofs", func(t *testing.T, w *world) {
		a, s := w.createWithPassword()
		p, kept := w.addPasskey(a, s), w.addPasskey(a, s)
		w.must(w.signInBy(a, useOf(p, 1)))
		w.must(w.signInBy(a, useOf(kept, 2)))
		proof := w.newProof(a)
		proof.PasskeyID, p.SignCount = p.ID, p.SignCount+1
		w.must(w.SetProof(t.Context(), a.ID, s.ID, proof, accounts.CodeUse{}, useOf(p, 3)))
		if got := w.session(s).Proof; got.PasskeyID != p.ID {
			t.Errorf("got the proof %+v, want that of the passkey", got)
		}
		remove := func(a accounts.Account, id int64) error {
			return w.RemovePasskey(t.Context(), a.ID, a.CredentialVersion, id, accounts.CodeUse{}, nil, job("event"))
		}
		other, _ := w.createAny()
		w.must(remove(other, p.ID))
		w.must(remove(a, p.ID))
		w.must(remove(a, p.ID))
		if due := w.kindsDue(); len(due) != 1 {
			t.Errorf("got the jobs %v, want those of one removal", due)
		}
		if got := w.session(s).Proof; got != (accounts.Proof{}) {
			t.Errorf("got the proof %+v of a removed passkey", got)
		}
		methods := map[string]int{}
		for _, s := range w.sessions(a.ID) {
			methods[s.Method]++
		}
		if diff := cmp.Diff(map[string]int{personal.MethodPassword: 1, personal.MethodPasskey: 1}, methods); diff != "" ||
			w.onlyPasskey(a).ID != kept.ID {
			t.Errorf("sessions by method (-want +got):\n%s", diff)
		}
		a.CredentialVersion++
		w.wantError(remove(a, kept.ID), accounts.ErrStale)
	}},
}
