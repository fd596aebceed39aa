package storetest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/shared/userfields"
)

var accountCases = []testCase{
	{"an account is found as stored, to the microsecond", func(t *testing.T, w *world) {
		name := "Анна O'Neil \\ \"quoted\" ? ?0 $1 🙂"
		want := w.newAccount()
		want.Name, want.Disabled = &name, true
		want.Fields = userfields.Values{
			"text": "it's \n ? $1", "yes": true, "whole": int64(1) << 52, "part": 1.5,
			"many": []string{"a", "b"}, "unset": nil,
		}
		want.ID = w.createID(want)
		if diff := cmp.Diff(want, w.account(want.ID)); diff != "" {
			t.Error(diff)
		}
	}},
	{"an id is not reused after a refused account", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		again := w.newAccount()
		again.LoginKey = a.LoginKey
		_, err := w.CreateAccount(t.Context(), again, w.newSession(0), noJobs)
		w.wantTaken(err, accounts.TakenError{Login: true})
		if b, _ := w.createAny(); b.ID <= a.ID {
			t.Errorf("got id %d after %d, want a higher one", b.ID, a.ID)
		}
	}},
	{"a new password is stale with another version, a disabled account, an ended session or another account's session", func(t *testing.T, w *world) {
		a, s := w.createAny()
		_, foreign := w.createAny()
		off := w.newAccount()
		off.Disabled = true
		disabled, disabledSession := w.create(off)
		ended := w.open(a)
		w.must(w.RevokeSession(t.Context(), a.ID, ended.ID))
		for _, c := range []struct {
			account accounts.Account
			version int64
			keep    accounts.Session
		}{{a, 2, s}, {a, 0, s}, {disabled, 1, disabledSession}, {a, 1, ended}, {a, 1, foreign}} {
			stale := c.account
			stale.CredentialVersion = c.version
			err := w.ReplacePassword(t.Context(), stale, "second hash", accounts.KeptSession{Session: c.keep}, accounts.CodeUse{}, false,
				changed(job("event")))
			w.wantError(err, accounts.ErrStale)
			if diff := cmp.Diff(c.account, w.account(c.account.ID)); diff != "" {
				t.Error(diff)
			}
		}
		if due := w.kindsDue(); len(due) > 0 || len(w.sessions(a.ID)) != 1 {
			t.Errorf("got jobs %v and %d sessions, want none and 1", due, len(w.sessions(a.ID)))
		}
	}},
}

func (w *world) createID(a accounts.Account) int64 {
	w.t.Helper()
	id, err := w.CreateAccount(w.t.Context(), a, w.newSession(0), noJobs)
	w.must(err)
	return id
}
