package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
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
	{"a login finds an account without fields, and a sign-in returns it with them", func(t *testing.T, w *world) {
		want, _ := w.createAny()
		found, err := w.FindAccount(t.Context(), accounts.AccountQuery{LoginKey: want.LoginKey})
		w.must(err)
		wantFound := accounts.Account{ID: want.ID, Email: want.Email, PasswordHash: want.PasswordHash, CredentialVersion: 1}
		if diff := cmp.Diff(wantFound, found); diff != "" {
			t.Error(diff)
		}
		got, err := w.Store.OpenSession(t.Context(), accounts.OpenSession{Session: w.newSession(found.ID), CredentialVersion: 1,
			Rehash: "a new hash", MaxSessions: 9})
		w.must(err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}},
	{"either key finds an account, an empty one none", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		none := w.newAccount()
		none.Email = accounts.Email{}
		w.create(none)
		for _, c := range []struct {
			query accounts.AccountQuery
			found bool
		}{
			{accounts.AccountQuery{LoginKey: a.LoginKey}, true},
			{accounts.AccountQuery{EmailKey: a.Email.Key}, true},
			{accounts.AccountQuery{LoginKey: a.LoginKey, EmailKey: "else"}, true},
			{accounts.AccountQuery{LoginKey: "else", EmailKey: a.Email.Key}, true},
			{accounts.AccountQuery{LoginKey: "else", EmailKey: "else"}, false},
			{accounts.AccountQuery{LoginKey: a.Email.Key, EmailKey: a.LoginKey}, false},
			{accounts.AccountQuery{}, false},
		} {
			got, err := w.FindAccount(t.Context(), c.query)
			if c.found && (err != nil || got.ID != a.ID) {
				t.Errorf("%+v: account %d, error %v, want account %d", c.query, got.ID, err, a.ID)
			}
			if !c.found && !errors.Is(err, accounts.ErrNotFound) {
				t.Errorf("%+v: account %d, error %v, want none", c.query, got.ID, err)
			}
		}
	}},
	{"a new account is stored with its session and the jobs for its id", func(t *testing.T, w *world) {
		first := w.newSession(0)
		var given int64
		id, err := w.CreateAccount(t.Context(), w.newAccount(), first, func(id int64) []accounts.NewJob {
			given = id
			return []accounts.NewJob{job("mail"), job("event")}
		})
		w.must(err)
		if id < 1 || given != id {
			t.Errorf("got id %d, and %d for the jobs", id, given)
		}
		if s := w.session(first); s.AccountID != id {
			t.Errorf("got the session of account %d, want %d", s.AccountID, id)
		}
		if diff := cmp.Diff([]outbox.Kind{"mail", "event"}, w.kindsDue()); diff != "" {
			t.Error(diff)
		}
	}},
	{"a taken login is reported, a taken e-mail only with a free login, and nothing is stored", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		b, _ := w.createAny()
		for _, c := range []struct {
			login, email string
			want         accounts.TakenError
		}{
			{a.LoginKey, "free", accounts.TakenError{Login: true}},
			{"free", a.Email.Key, accounts.TakenError{Email: true}},
			{a.LoginKey, a.Email.Key, accounts.TakenError{Login: true}},
			{a.LoginKey, b.Email.Key, accounts.TakenError{Login: true}},
		} {
			n := w.newAccount()
			n.LoginKey, n.Email.Key = c.login, c.email
			first := w.newSession(0)
			_, err := w.CreateAccount(t.Context(), n, first, func(int64) []accounts.NewJob { return []accounts.NewJob{job("mail")} })
			w.wantTaken(err, c.want)
			_, _, err = w.FindSession(t.Context(), first.Selector, accounts.AccountState)
			w.wantError(err, accounts.ErrNotFound)
		}
		if due := w.kindsDue(); len(due) > 0 {
			t.Errorf("got jobs %v, want none", due)
		}
	}},
	{"a taken e-mail is charged, a taken login is not, and a used-up limit returns the wait", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		charge := limited(1, 2, time.Minute)
		try := func(change func(*accounts.Account)) error {
			n := w.newAccount()
			change(&n)
			_, err := w.CreateAccount(t.Context(), n, w.newSession(0), noJobs, charge)
			return err
		}
		sameLogin := func(n *accounts.Account) { n.LoginKey, n.Email.Key = a.LoginKey, a.Email.Key }
		sameEmail := func(n *accounts.Account) { n.Email.Key = a.Email.Key }
		w.wantTaken(try(sameLogin), accounts.TakenError{Login: true})
		w.wantTaken(try(sameEmail), accounts.TakenError{Email: true})
		w.wantTaken(try(sameEmail), accounts.TakenError{Email: true})
		var refused *accounts.WaitError
		if err := try(sameEmail); !errors.As(err, &refused) || refused.Wait != time.Minute {
			t.Errorf("the third time: got %v, want a wait of 1m", err)
		}
		w.wantTaken(try(sameLogin), accounts.TakenError{Login: true})
		w.must(try(func(*accounts.Account) {}))
	}},
	{"a query with OwnEmail finds only an account whose login is the e-mail", func(t *testing.T, w *world) {
		owner, squatter := w.newAccount(), w.newAccount()
		squatter.LoginKey = owner.Email.Key
		w.create(squatter)
		owner, _ = w.create(owner)
		both := w.newAccount()
		both.LoginKey = both.Email.Key
		both, _ = w.create(both)
		got, err := w.FindAccount(t.Context(), accounts.AccountQuery{EmailKey: owner.Email.Key})
		w.must(err)
		if got.ID != owner.ID {
			t.Errorf("by e-mail: got account %d, want %d", got.ID, owner.ID)
		}
		_, err = w.FindAccount(t.Context(), accounts.AccountQuery{EmailKey: owner.Email.Key, OwnEmail: true})
		w.wantError(err, accounts.ErrNotFound)
		got, err = w.FindAccount(t.Context(), accounts.AccountQuery{EmailKey: both.Email.Key, OwnEmail: true})
		w.must(err)
		if got.ID != both.ID {
			t.Errorf("by login and e-mail: got account %d, want %d", got.ID, both.ID)
		}
	}},
	{"several accounts may have no e-mail address", func(t *testing.T, w *world) {
		for range 2 {
			a := w.newAccount()
			a.Email = accounts.Email{}
			if got, _ := w.create(a); got.Email != a.Email {
				t.Errorf("got e-mail %+v, want none", got.Email)
			}
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
	{"a profile update stores only name, fields and time", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		name := "New Name"
		want := a
		want.Name, want.Fields, want.Updated = &name, userfields.Values{"city": "Perm", "n": int64(7)}, a.Updated.Add(time.Hour)
		got, err := w.UpdateProfile(t.Context(), a.ID, func(now *accounts.Account) []accounts.NewJob {
			if diff := cmp.Diff(a, *now); diff != "" {
				t.Error(diff)
			}
			*now = want
			now.Login, now.LoginKey, now.PasswordHash, now.Disabled, now.CredentialVersion = "x", "x", "x", true, 9
			return nil
		})
		w.must(err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("returned: %s", diff)
		}
		if diff := cmp.Diff(want, w.account(a.ID)); diff != "" {
			t.Errorf("stored: %s", diff)
		}
	}},
	{"a name can be removed", func(t *testing.T, w *world) {
		a := w.newAccount()
		name := "Anna"
		a.Name = &name
		a, _ = w.create(a)
		_, err := w.UpdateProfile(t.Context(), a.ID, func(a *accounts.Account) []accounts.NewJob { a.Name = nil; return nil })
		w.must(err)
		if got := w.account(a.ID).Name; got != nil {
			t.Errorf("got name %q, want none", *got)
		}
	}},
	{"the profile of an unknown account is not found", func(t *testing.T, w *world) {
		_, err := w.UpdateProfile(t.Context(), nobody, func(*accounts.Account) []accounts.NewJob { return nil })
		w.wantError(err, accounts.ErrNotFound)
	}},
	{"a new password ends all sessions but one, replaces its secrets, voids tokens and stores jobs", func(t *testing.T, w *world) {
		a, first := w.createAny()
		w.open(a)
		w.addToken(a, accounts.PurposeRecovery, 1)
		w.pass(time.Hour)
		keep := w.renewed(first)
		w.must(w.ReplacePassword(t.Context(), a, "second hash", accounts.KeptSession{Session: keep}, accounts.CodeUse{}, false,
			changed(job("event"))))

		got := w.account(a.ID)
		if got.PasswordHash != "second hash" || got.CredentialVersion != 2 || !got.Updated.Equal(w.Now()) {
			t.Errorf("got account %+v, want the second hash and version 2", got)
		}
		if diff := cmp.Diff([]accounts.Session{keep}, w.sessions(a.ID)); diff != "" {
			t.Error(diff)
		}
		_, _, err := w.FindSession(t.Context(), first.Selector, accounts.AccountState)
		w.wantError(err, accounts.ErrNotFound)
		_, err = w.FindMailToken(t.Context(), accounts.PurposeRecovery, digest("token", 1))
		w.wantError(err, accounts.ErrNotFound)
		if diff := cmp.Diff([]outbox.Kind{"event"}, w.kindsDue()); diff != "" {
			t.Error(diff)
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
