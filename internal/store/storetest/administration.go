package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

var administrationCases = []testCase{
	{"a search finds what people spell in another way", func(t *testing.T, w *world) {
		const decomposed = "Ju\u0308rgen"
		for i, c := range []struct{ stored, typed string }{
			{"Иван ПЕТРОВ", "Иван Петров"},
			{"Jürgen", decomposed},
			{decomposed + " B", "JÜRGEN b"},
			{"Straße", "STRASSE"},
			{"ΟΔΥΣΣΕΥΣ", "Οδυσσευς"}, // a final sigma
			{"ＡＮＮＡ", "anna"},
			{"Muller", "Müller"},
			{"Артём", "артем"},
			{"İSTANBUL IŞIK", "istanbul ışık"},
			{"O’Brien", "o'brien"},
			{"Anne\u2011Marie", "anne-marie"},
			{"Ada\u00a0\u00a0Lovelace", "ada lovelace"},
			{"Soft\u00adHyphen", "softhyphen"},
			{"علی\u200cرضا", "علیرضا"},
			{"ﬁsher", "Fisher"},
			{"Łukasz", "lukasz"}, {"O´Brien", "o'brien"}, {"Kai ʻOno", "'ono"}, {"Jean−Luc", "jean-luc"}, {"علي كريم", "علی کریم"},
			{"Soren", "Søren"},
			{"Đặng", "dang"},
			{"한국", "\u1112\u1161\u11ab국"},
		} {
			id := w.named(c.stored, fmt.Sprintf("login%02d", i), "")
			if diff := cmp.Diff([]int64{id}, w.search(text(c.typed))); diff != "" {
				t.Errorf("%+q by %+q: %s", c.stored, c.typed, diff)
			}
			w.must(w.DeleteAccount(t.Context(), id, removed))
		}
	}},
	{"marks that change an Indic word are compared", func(t *testing.T, w *world) {
		w.named("कुमार", "login", "")
		if found := w.search(text("कमार")); len(found) > 0 {
			t.Errorf("got %v, want none", found)
		}
	}},
	{"a search finds a login in upper case, and a domain as it is typed", func(t *testing.T, w *world) {
		id := w.named("", "straße", "info@xn--bcher-kva.example")
		for _, typed := range []string{"STRASS", "@BÜCHER.ex", "o@xn--bcher"} {
			if diff := cmp.Diff([]int64{id}, w.search(text(typed))); diff != "" {
				t.Errorf("%s: %s", typed, diff)
			}
		}
	}},
	{"whatever changes an account changes what finds it", func(t *testing.T, w *world) {
		a := w.newAccount()
		a.LoginKey, a.Email = "old@example.org", accounts.Email{Address: "Old@example.org", Key: "old@example.org"}
		a, _ = w.create(a)
		waiting := w.account(w.wait(accounts.Email{Address: "Wait@example.org", Key: "wait@example.org"}))
		imported := w.newAccount()
		imported.Name = new("Jürgen")
		finds := func(what, typed string, want ...int64) {
			t.Helper()
			if diff := cmp.Diff(want, w.search(text(typed))); diff != "" {
				t.Errorf("%s, by %s: %s", what, typed, diff)
			}
		}
		finds("an import", "JU\u0308RGEN", w.add(imported)[0].ID)
		_, err := w.UpdateProfile(t.Context(), a.ID, func(a *accounts.Account) []accounts.NewJob { a.Name = new("ПЁТР"); return nil })
		w.must(err)
		finds("a change of the profile", "петр", a.ID)
		finds("a change of the profile", "old@", a.ID)
		w.must(w.SetEmail(t.Context(), a.ID, accounts.Email{Address: "Set@example.org", Key: "set@example.org"}, jobs()))
		finds("an e-mail that was set", "set@", a.ID)
		finds("an e-mail that was replaced", "old@")
		finds("an e-mail that was set", "пётр", a.ID)
		w.addToken(w.account(a.ID), accounts.PurposeEmail, 1)
		w.must(w.RedeemEmail(t.Context(), digest("token", 1)))
		finds("an e-mail that was confirmed", "new1@", a.ID)
		finds("an e-mail that was replaced", "set@")
		finds("an address to verify", "WAIT@", waiting.ID)
		w.addVerification(waiting, waiting.Unverified, 2)
		w.must(w.RedeemVerification(t.Context(), digest("token", 2), waiting.LoginKey))
		finds("an address that was verified", "WAIT@", waiting.ID)
		w.must(w.SetEmail(t.Context(), waiting.ID, accounts.Email{}, jobs()))
		finds("an address that was removed", "wait@")
	}},
	{"audit entries are found by the name of an administrator in another spelling", func(t *testing.T, w *world) {
		e := personal.Event{ID: "1", Type: "x", Time: w.Now(), Actor: personal.ActorAdministrator, ActorName: "ИВАН Ёлкин", RequestID: "AbC"}
		w.must(w.Enqueue(t.Context(), accounts.NewJob{Kind: "event", Event: &e}))
		for _, typed := range []string{"иван елкин", "Ё", "aBc"} {
			entries, err := w.AuditEntries(t.Context(), personal.AuditEntriesRequest{Text: typed, Limit: 2})
			if err != nil || len(entries) != 1 {
				t.Errorf("%s: got %v, error %v; want one entry", typed, entries, err)
			}
		}
	}},
	{"a whole login, e-mail or id is found before older accounts are searched, and no match is missed", func(t *testing.T, w *world) {
		whole := w.named("a", "anna", "anna@example.org")
		old := w.named("b", "joanna", "")
		others := make([]accounts.Account, 500)
		for i := range others {
			others[i] = w.newAccount()
		}
		w.add(others...)
		recent := w.named("c", "anna2", "hanna@example.org")
		for _, c := range []struct {
			what        string
			q           accounts.AccountSearch
			first, rest []int64
		}{
			{"login", text("anna"), []int64{recent, whole}, []int64{old, whole}},
			{"e-mail", text("anna@example.org"), []int64{recent, whole}, []int64{whole}},
			{"id", accounts.AccountSearch{Text: "else", Key: "anna2", ID: old}, []int64{recent, old}, []int64{old}},
			{"no whole one", text("ann"), []int64{recent, old, whole}, nil},
		} {
			c.q.Limit = 3
			first := w.page(c.q)
			if diff := cmp.Diff(c.first, ids(first)); diff != "" {
				t.Errorf("%s, first page: %s", c.what, diff)
			}
			if c.rest == nil {
				if first.Next != 0 {
					t.Errorf("%s: got next %d, want 0", c.what, first.Next)
				}
				continue
			}
			c.q.After = first.Next
			rest := w.page(c.q)
			if diff := cmp.Diff(c.rest, ids(rest)); diff != "" || rest.Next != 0 {
				t.Errorf("%s, next page, followed by %d: %s", c.what, rest.Next, diff)
			}
		}
		// Whatever the size of a page, the pages together contain all matches.
		for limit := 1; limit <= 3; limit++ {
			found := map[int64]bool{}
			q := accounts.AccountSearch{Text: "anna", Key: "anna", ID: old, Limit: limit}
			for page := w.page(q); ; page = w.page(q) {
				if len(page.Accounts) > limit {
					t.Errorf("got %d accounts on a page, want %d at most", len(page.Accounts), limit)
				}
				for _, id := range ids(page) {
					found[id] = true
				}
				if q.After = page.Next; q.After == 0 {
					break
				}
			}
			if diff := cmp.Diff(map[int64]bool{whole: true, old: true, recent: true}, found); diff != "" {
				t.Errorf("pages of %d: %s", limit, diff)
			}
		}
	}},
	{"a search by state finds who waits or has a second factor", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		waiting := w.newAccount()
		waiting.Unverified = accounts.Email{Address: "w@example.org", Key: "w@example.org"}
		waits := w.createID(waiting)
		factor := w.newAccount()
		factor.TwoFactor = accounts.TwoFactor{Secret: accounts.Sealed{Key: "key1", Data: []byte("secret")}}
		with := w.createID(factor)
		for state, want := range map[personal.UserState][]int64{
			personal.UserUnconfirmed: {waits}, personal.UserTwoFactor: {with}, personal.UserActive: {with, waits, a.ID},
		} {
			if diff := cmp.Diff(want, w.search(accounts.AccountSearch{State: state})); diff != "" {
				t.Errorf("%s: %s", state, diff)
			}
		}
	}},
	{"a search by the time of creation is in its order, whatever the ids are", func(t *testing.T, w *world) {
		at := func(day int) time.Time { return time.Date(2020, 1, day, 0, 0, 0, 0, time.UTC) }
		made := map[int64]int{}
		var created []accounts.Account
		for _, day := range []int{3, 1, 5, 2, 2, 4} { // as an import may bring them
			a := w.newAccount()
			a.Created = at(day)
			created = append(created, a)
		}
		for i, o := range w.add(created...) {
			made[o.ID] = i
		}
		for what, c := range map[string]struct {
			q    accounts.AccountSearch
			want []int // places in the list above
		}{
			"since":             {accounts.AccountSearch{Since: at(3)}, []int{2, 5, 0}},
			"until":             {accounts.AccountSearch{Until: at(3)}, []int{4, 3, 1}},
			"both":              {accounts.AccountSearch{Since: at(2), Until: at(4)}, []int{0, 4, 3}},
			"the oldest first":  {accounts.AccountSearch{Since: at(2), Until: at(5), Oldest: true}, []int{3, 4, 0, 5}},
			"with a state":      {accounts.AccountSearch{Since: at(4), State: personal.UserActive}, []int{2, 5}},
			"with another text": {accounts.AccountSearch{Since: at(4), Text: "nobody", Key: "nobody"}, nil},
		} {
			for limit := 1; limit <= 7; limit++ {
				c.q.Limit = limit
				var got []int
				for _, id := range w.pages(c.q) {
					got = append(got, made[id])
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("%s, pages of %d: %s", what, limit, diff)
				}
			}
		}
		first := w.page(accounts.AccountSearch{Since: at(1), Limit: 4})
		w.must(w.DeleteAccount(t.Context(), first.Next, removed))
		rest := w.search(accounts.AccountSearch{Since: at(1), Limit: 4, After: first.Next})
		if slices.ContainsFunc(rest, func(id int64) bool { return slices.Contains(ids(first), id) }) {
			t.Errorf("got %v after %v whose last one was deleted, want no repetition here", rest, ids(first))
		}
	}},
	{"a whole login is on the first page of a search by the time of creation or a state only if it matches", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		w.must(w.SetDisabled(t.Context(), a.ID, true))
		for _, c := range []struct {
			q    accounts.AccountSearch
			want []int64
		}{
			{accounts.AccountSearch{State: personal.UserDisabled, Oldest: true}, []int64{a.ID}},
			{accounts.AccountSearch{State: personal.UserTwoFactor}, nil},
			{accounts.AccountSearch{Since: a.Created}, []int64{a.ID}},
			{accounts.AccountSearch{Until: a.Created}, nil},
			{accounts.AccountSearch{Field: "role", Value: "editor"}, nil},
		} {
			c.q.Text, c.q.Key = a.LoginKey, a.LoginKey
			if diff := cmp.Diff(c.want, w.search(c.q)); diff != "" {
				t.Errorf("%+v: %s", c.q, diff)
			}
		}
	}},
	{"the last sign-in is written at most once a day", func(t *testing.T, w *world) {
		a, s := w.createAny()
		want := func(what string, when time.Time) {
			t.Helper()
			got, err := w.Account(t.Context(), a.ID)
			w.must(err)
			if !got.LastSignIn.Equal(when) {
				t.Errorf("%s: got %v, want %v", what, got.LastSignIn, when)
			}
		}
		want("a registration with a session", s.Created)
		w.pass(24*time.Hour - time.Second)
		w.open(a)
		want("within a day", s.Created)
		w.pass(time.Second)
		w.open(a)
		want("a day later", w.Now())
		never := w.add(w.newAccount())[0].ID
		if got, err := w.Account(t.Context(), never); err != nil || !got.LastSignIn.IsZero() {
			t.Errorf("without a sign-in: got %v, %v, want none", got.LastSignIn, err)
		}
	}},
	{"an e-mail is not set if it is another account's e-mail or login, or if the jobs fail", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		w.addToken(a, accounts.PurposeRecovery, 1)
		b, _ := w.createAny()
		c := w.newAccount()
		c.Login, c.LoginKey = newEmail.Address, newEmail.Key
		w.create(c)
		for _, email := range []accounts.Email{b.Email, newEmail} {
			w.wantTaken(w.SetEmail(t.Context(), a.ID, email, jobs(job("event"))), accounts.TakenError{Email: true})
		}
		refused := errors.New("refused")
		err := w.SetEmail(t.Context(), a.ID, accounts.Email{}, func(accounts.Account) ([]accounts.NewJob, error) { return nil, refused })
		w.wantError(err, refused)
		w.must(w.SetEmail(t.Context(), a.ID, a.Email, jobs(job("event")))) // changes nothing
		w.wantError(w.SetEmail(t.Context(), nobody, newEmail, jobs(job("event"))), accounts.ErrNotFound)
		if diff := cmp.Diff(a, w.account(a.ID)); diff != "" {
			t.Error(diff)
		}
		_, err = w.FindMailToken(t.Context(), accounts.PurposeRecovery, digest("token", 1))
		w.must(err)
		if due := w.kindsDue(); len(due) > 0 {
			t.Errorf("got jobs %v, want none", due)
		}
	}},
	{"enabling ends the sessions of an account that was disabled in another way", func(t *testing.T, w *world) {
		off := w.newAccount()
		off.Disabled = true
		a, _ := w.create(off)
		w.must(w.SetDisabled(t.Context(), a.ID, false))
		w.wantSessions(a.ID)
	}},
	{"a search by a user field reads a bounded number of accounts for a page", func(t *testing.T, w *world) {
		const n = 10_000 // of a page
		var want []int64
		role := func(a accounts.Account) accounts.Account {
			a.Fields = userfields.Values{"role": "editor"}
			return a
		}
		want = append(want, w.createID(role(w.newAccount())))
		others := make([]accounts.Account, n)
		for i := range others {
			others[i] = w.newAccount()
		}
		w.add(others...)
		want = append(want, w.createID(role(w.newAccount())))
		q := accounts.AccountSearch{Field: "role", Value: "editor", Limit: 10}
		if first := w.page(q); len(first.Accounts) != 1 || first.Next == 0 {
			t.Errorf("the first page: got %v and next %d, want the newest account and another page", ids(first), first.Next)
		}
		q.Oldest = true
		if diff := cmp.Diff(want, w.pages(q)); diff != "" {
			t.Error(diff)
		}
		q.Oldest, q.Since = false, time.Unix(0, 0)
		slices.Reverse(want)
		if diff := cmp.Diff(want, w.pages(q)); diff != "" {
			t.Errorf("by the time of creation: %s", diff)
		}
	}},
}

var newEmail = accounts.Email{Address: "New@Example.org", Key: "new@example.org"}

// jobs returns a function that returns the same jobs for any account.
func jobs(made ...accounts.NewJob) func(accounts.Account) ([]accounts.NewJob, error) {
	return func(accounts.Account) ([]accounts.NewJob, error) { return made, nil }
}

// text is the search for a text in lower case.
func text(s string) accounts.AccountSearch { return accounts.AccountSearch{Text: s, Key: s} }

// search returns the ids of the accounts found, at most ten by default.
func (w *world) search(q accounts.AccountSearch) []int64 {
	w.t.Helper()
	if q.Limit == 0 {
		q.Limit = 10
	}
	return ids(w.page(q))
}

// page returns a page of a search.
func (w *world) page(q accounts.AccountSearch) accounts.AccountPage {
	w.t.Helper()
	page, err := w.SearchAccounts(w.t.Context(), q)
	w.must(err)
	return page
}

// pages returns the ids on all pages of a search.
func (w *world) pages(q accounts.AccountSearch) (found []int64) {
	w.t.Helper()
	for {
		page := w.page(q)
		if len(page.Accounts) > q.Limit {
			w.t.Fatalf("got %d accounts on a page, want %d at most", len(page.Accounts), q.Limit)
		}
		found = append(found, ids(page)...)
		if q.After = page.Next; q.After == 0 {
			return found
		}
	}
}

func ids(page accounts.AccountPage) (ids []int64) {
	for _, a := range page.Accounts {
		ids = append(ids, a.ID)
	}
	return ids
}

func (w *world) named(name, loginKey, emailKey string) int64 {
	w.t.Helper()
	a := w.newAccount()
	a.Name, a.LoginKey, a.Email.Key = &name, loginKey, emailKey
	return w.createID(a)
}

// wantAfter checks an account after a change that leaves only the kept sessions, and no
// token.
func (w *world) wantAfter(want accounts.Account, kept ...accounts.Session) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.account(want.ID)); diff != "" {
		w.t.Error(diff)
	}
	w.wantSessions(want.ID, kept...)
	_, err := w.FindMailToken(w.t.Context(), accounts.PurposeRecovery, digest("token", 1))
	w.wantError(err, accounts.ErrNotFound)
}
