package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

var administrationCases = []testCase{
	{"audit entries are returned latest first, by every filter and page", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		b, _ := w.createAny()
		for i, e := range []personal.Event{
			{Type: "x", UserID: a.ID, Address: "192.0.2.1"},
			{Type: "y", UserID: a.ID, RequestID: "100%_R!"},
			{Type: "x", UserID: b.ID, Actor: personal.ActorAdministrator, ActorName: "it's Ada", Fields: []string{"city", "name"}},
			{Type: "y", Address: "192.0.2.1"},
			{Type: "x", UserID: a.ID},
		} {
			e.ID, e.Time = fmt.Sprint(i), time.Unix(int64(100+i), 5000).UTC()
			w.must(w.Enqueue(t.Context(), accounts.NewJob{Kind: "event", AccountID: e.UserID, Event: &e}))
		}
		at := func(i int64) time.Time { return time.Unix(100+i, 5000) }
		for what, c := range map[string]struct {
			r    personal.AuditEntriesRequest
			want string
		}{
			"everything":              {personal.AuditEntriesRequest{}, "43210"},
			"an account":              {personal.AuditEntriesRequest{UserID: a.ID}, "410"},
			"a type":                  {personal.AuditEntriesRequest{Type: "x"}, "420"},
			"an account and a type":   {personal.AuditEntriesRequest{UserID: a.ID, Type: "x"}, "40"},
			"a part of an address":    {personal.AuditEntriesRequest{Text: "2.0.2"}, "30"},
			"an account's address":    {personal.AuditEntriesRequest{UserID: a.ID, Text: "2.0.2"}, "0"},
			"a request in any case":   {personal.AuditEntriesRequest{Text: "%_r!"}, "1"},
			"a per cent sign alone":   {personal.AuditEntriesRequest{Text: "%"}, "1"},
			"a name with a quote":     {personal.AuditEntriesRequest{Text: "'S ADA"}, "2"},
			"a text in no entry":      {personal.AuditEntriesRequest{Text: "1_0"}, ""},
			"a time and later":        {personal.AuditEntriesRequest{Since: at(3)}, "43"},
			"before a time":           {personal.AuditEntriesRequest{Until: at(2)}, "10"},
			"two entries":             {personal.AuditEntriesRequest{Limit: 2}, "43"},
			"two entries of one type": {personal.AuditEntriesRequest{Type: "y", Limit: 2}, "31"},
		} {
			if c.r.Limit == 0 {
				c.r.Limit = 10
			}
			entries, err := w.AuditEntries(t.Context(), c.r)
			w.must(err)
			got := ""
			for _, e := range entries {
				got += e.ID
			}
			if got != c.want {
				t.Errorf("%s: got entries %q, want %q", what, got, c.want)
			}
		}
		entries, err := w.AuditEntries(t.Context(), personal.AuditEntriesRequest{Limit: 3})
		w.must(err)
		want := personal.Event{ID: "2", Type: "x", Time: at(2).UTC(), UserID: b.ID, Actor: personal.ActorAdministrator, ActorName: "it's Ada",
			Fields: []string{"city", "name"}}
		if diff := cmp.Diff(want, entries[2].Event); diff != "" {
			t.Errorf("entry (-want +got):\n%s", diff)
		}
		rest, err := w.AuditEntries(t.Context(), personal.AuditEntriesRequest{After: entries[2].Cursor, Limit: 3})
		if err != nil || len(rest) != 2 || rest[0].ID != "1" {
			t.Errorf("after the third: got %v (error %v), want entries 1 and 0", rest, err)
		}
	}},
	{"a search matches a part of a login, an e-mail or a name in any case, or a whole id", func(t *testing.T, w *world) {
		anna := w.named("Anna Ö'Neil", "anna_b", "a%b@example.org")
		boris := w.named("Борис Ёлкин", "annaxb", "")
		nameless := w.newAccount()
		nameless.LoginKey, nameless.Email.Key = "zoë!", "axb@example.org"
		zoe := w.createID(nameless)
		all := []int64{zoe, boris, anna}
		for _, c := range []struct {
			what string
			q    accounts.AccountSearch
			want []int64
		}{
			{"everything", accounts.AccountSearch{}, all},
			{"a part of two logins", text("anna"), []int64{boris, anna}},
			{"an underscore is literal", text("a_b"), []int64{anna}},
			{"a per cent sign is literal", text("a%b"), []int64{anna}},
			{"an exclamation mark is literal", text("ë!"), []int64{zoe}},
			{"an e-mail's end", text("@example.org"), []int64{zoe, anna}},
			{"a name in upper case", accounts.AccountSearch{Text: "ANNA Ö", Key: "else"}, []int64{anna}},
			{"a part of a name with a quote", text("'neil"), []int64{anna}},
			{"a Cyrillic name in lower case", text("борис"), []int64{boris}},
			{"a Cyrillic name of two words in lower case", text("борис ёлкин"), []int64{boris}},
			{"the middle of a Cyrillic name", text("лки"), []int64{boris}},
			{"a Cyrillic name as stored", text("Борис Ё"), []int64{boris}},
			{"an id", accounts.AccountSearch{Text: "else", Key: "else", ID: boris}, []int64{boris}},
			{"nothing", text("nobody"), nil},
		} {
			if diff := cmp.Diff(c.want, w.search(c.q)); diff != "" {
				t.Errorf("%s: %s", c.what, diff)
			}
		}
	}},
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
	{"a searched text is never part of the query", func(t *testing.T, w *world) {
		const odd = "it's \\ \\% ?0 $1 -- \" x"
		id := w.named(odd, "a", "")
		w.createAny()
		if diff := cmp.Diff([]int64{id}, w.search(text(odd))); diff != "" {
			t.Error(diff)
		}
	}},
	{"a search continues where the last page ended, whatever was added or deleted since", func(t *testing.T, w *world) {
		var ids []int64
		for range 5 {
			ids = append(ids, w.createID(w.newAccount()))
		}
		first := w.search(accounts.AccountSearch{Limit: 2})
		w.createID(w.newAccount())
		w.must(w.DeleteAccount(t.Context(), ids[3], removed))
		second := w.search(accounts.AccountSearch{Limit: 2, After: ids[3]})
		third := w.search(accounts.AccountSearch{Limit: 2, After: ids[1]})
		got := [][]int64{first, second, third}
		if diff := cmp.Diff([][]int64{{ids[4], ids[3]}, {ids[2], ids[1]}, {ids[0]}}, got); diff != "" {
			t.Error(diff)
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
	{"a search can be limited to disabled or active accounts", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		b, _ := w.createAny()
		w.must(w.SetDisabled(t.Context(), a.ID, true))
		for _, c := range []struct {
			q    accounts.AccountSearch
			want []int64
		}{
			{accounts.AccountSearch{State: personal.UserDisabled}, []int64{a.ID}},
			{accounts.AccountSearch{State: personal.UserActive}, []int64{b.ID}},
			{accounts.AccountSearch{State: personal.UserDisabled, Text: "key", Key: "key"}, []int64{a.ID}},
			{accounts.AccountSearch{State: personal.UserActive, Text: a.Login, Key: a.LoginKey}, nil},
			{accounts.AccountSearch{State: personal.UserActive, Text: "else", Key: "else", ID: a.ID}, nil},
		} {
			if diff := cmp.Diff(c.want, w.search(c.q)); diff != "" {
				t.Errorf("%+v: %s", c.q, diff)
			}
		}
	}},
	{"a search lists the oldest first, in pages", func(t *testing.T, w *world) {
		var want []int64
		for range 5 {
			want = append(want, w.createID(w.newAccount()))
		}
		if diff := cmp.Diff(want, w.pages(accounts.AccountSearch{Oldest: true, Limit: 2})); diff != "" {
			t.Error(diff)
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
	{"a search by a user field compares values and their types", func(t *testing.T, w *world) {
		with := func(fields userfields.Values) int64 {
			a := w.newAccount()
			a.Fields = fields
			return w.createID(a)
		}
		editor := with(userfields.Values{"role": "editor", "level": int64(1), "on": true})
		odd := with(userfields.Values{"role": "it's <b>\" ? $1", "level": "1", "on": int64(1)})
		with(userfields.Values{"role": []string{"editor"}, "level": true})
		with(nil)
		for _, c := range []struct {
			field string
			value any
			want  []int64
		}{
			{"role", "editor", []int64{editor}},
			{"role", "it's <b>\" ? $1", []int64{odd}},
			{"role", "edit", nil},
			{"level", int64(1), []int64{editor}},
			{"on", true, []int64{editor}},
			{"on", false, nil},
			{"it's", "editor", nil},
		} {
			if diff := cmp.Diff(c.want, w.search(accounts.AccountSearch{Field: c.field, Value: c.value})); diff != "" {
				t.Errorf("%s = %v: %s", c.field, c.value, diff)
			}
		}
	}},
	{"accounts are found by their ids", func(t *testing.T, w *world) {
		a, s := w.createAny()
		b := w.createID(w.newAccount())
		w.createAny()
		found, err := w.Accounts(t.Context(), []int64{b, a.ID, b, 0, 1 << 60})
		w.must(err)
		slices.SortFunc(found, func(x, y accounts.Account) int { return int(x.ID - y.ID) })
		if len(found) != 2 || found[1].ID != b {
			t.Fatalf("got %v, want the accounts %d and %d", found, a.ID, b)
		}
		a.LastSeen, a.LastSignIn = s.LastSeen, s.Created
		if diff := cmp.Diff(a, found[0]); diff != "" {
			t.Error(diff)
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
	{"an account is found by its id, with the last use of its sessions", func(t *testing.T, w *world) {
		a, s := w.createAny()
		w.open(a)
		w.pass(time.Hour)
		w.must(w.TouchSession(t.Context(), s.ID, s.Current, false))
		a.LastSeen, a.LastSignIn = w.Now(), s.Created
		w.wantSeen(a)
		w.must(w.RevokeSessions(t.Context(), a.ID, false))
		a.LastSeen = time.Time{}
		w.wantSeen(a)
		_, err := w.Account(t.Context(), a.ID+1)
		w.wantError(err, accounts.ErrNotFound)
	}},
	{"setting an e-mail keeps another login and the sessions, voids every token and stores the jobs", func(t *testing.T, w *world) {
		a, s := w.createAny()
		w.addToken(a, accounts.PurposeRecovery, 1)
		w.addToken(a, accounts.PurposeEmail, 2)
		w.pass(time.Minute)
		var before accounts.Account
		w.must(w.SetEmail(t.Context(), a.ID, newEmail, func(was accounts.Account) ([]accounts.NewJob, error) {
			before = was
			return []accounts.NewJob{job("event")}, nil
		}))
		if diff := cmp.Diff(a, before); diff != "" {
			t.Errorf("the account given to jobs: %s", diff)
		}
		want := a
		want.Email, want.Updated = newEmail, w.Now()
		if diff := cmp.Diff(want, w.account(a.ID)); diff != "" {
			t.Error(diff)
		}
		w.wantSessions(a.ID, s)
		for i, p := range []accounts.MailPurpose{accounts.PurposeRecovery, accounts.PurposeEmail} {
			_, err := w.FindMailToken(t.Context(), p, digest("token", i+1))
			w.wantError(err, accounts.ErrNotFound)
		}
		if diff := cmp.Diff([]outbox.Kind{"event"}, w.kindsDue()); diff != "" {
			t.Error(diff)
		}
	}},
	{"a login that is the e-mail changes with it", func(t *testing.T, w *world) {
		a := w.newAccount()
		a.Login, a.LoginKey = a.Email.Address, a.Email.Key
		a, _ = w.create(a)
		w.must(w.SetEmail(t.Context(), a.ID, newEmail, jobs()))
		got := w.account(a.ID)
		if got.Login != newEmail.Address || got.LoginKey != newEmail.Key || got.Email != newEmail {
			t.Errorf("got login %q (%q) and e-mail %+v, want the new e-mail", got.Login, got.LoginKey, got.Email)
		}
	}},
	{"several accounts may have their e-mail removed, and set again", func(t *testing.T, w *world) {
		for range 2 {
			a, _ := w.createAny()
			w.must(w.SetEmail(t.Context(), a.ID, accounts.Email{}, jobs()))
			if got := w.account(a.ID); got.Email != (accounts.Email{}) || got.Login != a.Login {
				t.Errorf("got login %q and e-mail %+v, want the login and no e-mail", got.Login, got.Email)
			}
			w.must(w.SetEmail(t.Context(), a.ID, a.Email, jobs()))
			if got := w.account(a.ID).Email; got != a.Email {
				t.Errorf("got e-mail %+v, want the first one", got)
			}
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
	{"disabling ends every session, voids every token and stores the jobs; enabling restores none", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		w.open(a)
		b, foreign := w.createAny()
		w.addToken(a, accounts.PurposeRecovery, 1)
		w.pass(time.Minute)
		w.must(w.SetDisabled(t.Context(), a.ID, true, job("event")))
		a.Disabled, a.CredentialVersion, a.Updated = true, 2, w.Now()
		w.wantAfter(a)
		err := w.OpenSession(t.Context(), accounts.OpenSession{Session: w.newSession(a.ID), CredentialVersion: 2, MaxSessions: 9})
		w.wantError(err, accounts.ErrStale)
		w.pass(time.Minute)
		w.must(w.SetDisabled(t.Context(), a.ID, false, job("mail")))
		a.Disabled, a.CredentialVersion, a.Updated = false, 3, w.Now()
		w.wantAfter(a)
		err = w.OpenSession(t.Context(), accounts.OpenSession{Session: w.newSession(a.ID), CredentialVersion: 1, MaxSessions: 9})
		w.wantError(err, accounts.ErrStale) // a sign-in from before the disabling
		w.open(a)
		w.wantSessions(b.ID, foreign)
		if diff := cmp.Diff([]outbox.Kind{"event", "mail"}, w.kindsDue()); diff != "" {
			t.Error(diff)
		}
	}},
	{"enabling ends the sessions of an account that was disabled in another way", func(t *testing.T, w *world) {
		off := w.newAccount()
		off.Disabled = true
		a, _ := w.create(off)
		w.must(w.SetDisabled(t.Context(), a.ID, false))
		w.wantSessions(a.ID)
	}},
	{"disabling or enabling again changes nothing and stores no job", func(t *testing.T, w *world) {
		a, s := w.createAny()
		w.must(w.SetDisabled(t.Context(), a.ID, false, job("event")))
		w.wantSessions(a.ID, s)
		w.must(w.SetDisabled(t.Context(), a.ID, true))
		before := w.account(a.ID)
		w.pass(time.Minute)
		w.must(w.SetDisabled(t.Context(), a.ID, true, job("event")))
		if diff := cmp.Diff(before, w.account(a.ID)); diff != "" {
			t.Error(diff)
		}
		w.wantError(w.SetDisabled(t.Context(), nobody, true, job("event")), accounts.ErrNotFound)
		if due := w.kindsDue(); len(due) > 0 {
			t.Errorf("got jobs %v, want none", due)
		}
	}},
	{"deleting an account removes all its rows, frees its keys and never reuses its id", func(t *testing.T, w *world) {
		a, s := w.createAny()
		w.addToken(a, accounts.PurposeRecovery, 1)
		w.must(w.DeleteAccount(t.Context(), a.ID, removed, job("event")))
		_, _, err := w.FindSession(t.Context(), s.Selector, accounts.AccountState)
		w.wantError(err, accounts.ErrNotFound)
		_, err = w.FindMailToken(t.Context(), accounts.PurposeRecovery, digest("token", 1))
		w.wantError(err, accounts.ErrNotFound)
		w.wantError(w.DeleteAccount(t.Context(), a.ID, removed, job("event")), accounts.ErrNotFound)
		if id := w.createID(a); id <= a.ID {
			t.Errorf("got id %d after %d, want a higher one", id, a.ID)
		}
		if diff := cmp.Diff([]outbox.Kind{"event"}, w.kindsDue()); diff != "" {
			t.Error(diff)
		}
	}},
	{"a profile update stores its jobs, or nothing", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		_, err := w.UpdateProfile(t.Context(), a.ID, func(*accounts.Account) []accounts.NewJob { return []accounts.NewJob{job("event")} })
		w.must(err)
		_, err = w.UpdateProfile(t.Context(), nobody, func(*accounts.Account) []accounts.NewJob { return []accounts.NewJob{job("mail")} })
		w.wantError(err, accounts.ErrNotFound)
		if diff := cmp.Diff([]outbox.Kind{"event"}, w.kindsDue()); diff != "" {
			t.Error(diff)
		}
	}},
}

var administrationTables = []testCase{
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

// wantSeen checks an account as found by its id and by a search.
func (w *world) wantSeen(want accounts.Account) {
	w.t.Helper()
	got, err := w.Account(w.t.Context(), want.ID)
	w.must(err)
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("by id: %s", diff)
	}
	found, err := w.SearchAccounts(w.t.Context(), accounts.AccountSearch{Limit: 9})
	w.must(err)
	if diff := cmp.Diff(accounts.AccountPage{Accounts: []accounts.Account{want}}, found); diff != "" {
		w.t.Errorf("by a search: %s", diff)
	}
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
