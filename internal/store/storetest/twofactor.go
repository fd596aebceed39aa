package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/throttle"
)

// firstStep is the step with which enrol confirms a second factor.
const firstStep = 100

func step(n int64) accounts.CodeUse   { return accounts.CodeUse{Step: n} }
func recovery(n int) accounts.CodeUse { return accounts.CodeUse{Recovery: digest("code", n)} }

// codes returns two recovery codes, from the given number on.
func codes(n int) accounts.NewRecoveryCodes {
	return accounts.NewRecoveryCodes{Digests: [][32]byte{digest("code", n), digest("code", n+1)}}
}

func (w *world) newPending(a accounts.Account, s accounts.Session) accounts.PendingFactor {
	return accounts.PendingFactor{
		AccountID: a.ID, SessionID: s.ID, CredentialVersion: a.CredentialVersion,
		Secret: accounts.Sealed{Key: "key", Data: fmt.Append(nil, "sealed \x00\xff ", w.number())},
	}
}

// enrol gives an account a second factor and codes(0), and returns it as stored.
func (w *world) enrol(a accounts.Account, s accounts.Session) accounts.Account {
	w.t.Helper()
	p := w.newPending(a, s)
	w.must(w.SetPendingFactor(w.t.Context(), p))
	w.must(w.EnableTwoFactor(w.t.Context(), p, firstStep, codes(0), accounts.KeptSession{Session: s}))
	return w.account(a.ID)
}

// createEnrolled creates an account with a second factor and one session.
func (w *world) createEnrolled() (accounts.Account, accounts.Session) {
	w.t.Helper()
	a, s := w.createAny()
	return w.enrol(a, s), s
}

// wantPending checks which secret waits in a session; nil for none.
func (w *world) wantPending(p accounts.PendingFactor, want *accounts.Sealed) {
	w.t.Helper()
	got, err := w.PendingFactor(w.t.Context(), p.SessionID, p.CredentialVersion, time.Time{})
	switch {
	case want == nil:
		w.wantError(err, accounts.ErrNotFound)
	default:
		w.must(err)
		if diff := cmp.Diff(*want, got); diff != "" {
			w.t.Error(diff)
		}
	}
}

// wantUnchanged checks that an account is as before, with these sessions and its two
// recovery codes, and that no job is due.
func (w *world) wantUnchanged(want accounts.Account, sessions ...accounts.Session) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.account(want.ID)); diff != "" {
		w.t.Error(diff)
	}
	w.wantSessions(want.ID, sessions...)
	if due := w.kindsDue(); len(due) > 0 {
		w.t.Errorf("got jobs %v, want none", due)
	}
}

// jobOf is a job of an account, which locks the account.
func jobOf(a accounts.Account) accounts.NewJob {
	return accounts.NewJob{Kind: "event", AccountID: a.ID, Payload: []byte("{}")}
}

// codeUses are the operations that use up a code.
var codeUses = []struct {
	name string
	use  func(w *world, a accounts.Account, s accounts.Session, code accounts.CodeUse) error
}{
	{"a sign-in", func(w *world, a accounts.Account, _ accounts.Session, code accounts.CodeUse) error {
		return w.OpenSession(w.t.Context(), accounts.OpenSession{
			Session: w.newSession(a.ID), CredentialVersion: a.CredentialVersion, MaxSessions: 9, Code: code, Rehash: "stronger",
			Known: accounts.KnownAt{Address: "192.0.2.1"}, Locale: "ru", Jobs: []accounts.NewJob{jobOf(a)},
		})
	}},
	{"a change of password", func(w *world, a accounts.Account, s accounts.Session, code accounts.CodeUse) error {
		return w.ReplacePassword(w.t.Context(), a, "second hash", accounts.KeptSession{Session: s}, code, false, changed(jobOf(a)))
	}},
	{"a change of e-mail", func(w *world, a accounts.Account, _ accounts.Session, code accounts.CodeUse) error {
		return w.RequestEmail(w.t.Context(), a.ID, a.CredentialVersion, "new@example.org", code, []accounts.NewJob{jobOf(a)})
	}},
	{"a deletion", func(w *world, a accounts.Account, _ accounts.Session, code accounts.CodeUse) error {
		return w.RequestDeletion(w.t.Context(), a.ID, a.CredentialVersion, w.Now().Add(time.Hour), code, jobOf(a))
	}},
	{"an export", func(w *world, a accounts.Account, _ accounts.Session, code accounts.CodeUse) error {
		return w.ChargeExport(w.t.Context(), a.ID, a.CredentialVersion, []throttle.Charge{limited(1, 1, time.Minute)}, code, jobOf(a))
	}},
	{"new recovery codes", func(w *world, a accounts.Account, _ accounts.Session, code accounts.CodeUse) error {
		return w.ReplaceRecoveryCodes(w.t.Context(), a.ID, a.CredentialVersion, code, codes(10), jobOf(a))
	}},
	{"the end of the factor", func(w *world, a accounts.Account, s accounts.Session, code accounts.CodeUse) error {
		return w.RemoveOwnTwoFactor(w.t.Context(), a.ID, a.CredentialVersion, accounts.KeptSession{Session: s}, code, removing(jobOf(a)))
	}},
	{"a proof", func(w *world, a accounts.Account, s accounts.Session, code accounts.CodeUse) error {
		return w.SetProof(w.t.Context(), a.ID, s.ID, w.newProof(a), code, accounts.PasskeyUse{}, jobOf(a))
	}},
}

var twoFactorCases = []testCase{
	{"a secret waits in no session of another account, version, or disabled account, and in none that has ended", func(t *testing.T, w *world) {
		a, s := w.createAny()
		b, foreign := w.createAny()
		off := w.newAccount()
		off.Disabled = true
		disabled, old := w.create(off)
		ended := w.open(a)
		w.must(w.RevokeSession(t.Context(), a.ID, ended.ID))
		other := a
		other.CredentialVersion = 2
		for _, p := range []accounts.PendingFactor{
			w.newPending(other, s), w.newPending(a, foreign), w.newPending(b, s), w.newPending(disabled, old), w.newPending(a, ended),
			w.newPending(accounts.Account{ID: nobody, CredentialVersion: 1}, s),
		} {
			w.wantError(w.SetPendingFactor(t.Context(), p), accounts.ErrStale)
			w.wantPending(p, nil)
		}
	}},
	{"enabling stores the factor, raises the version, ends other sessions, voids tokens and stores the jobs", func(t *testing.T, w *world) {
		a, s := w.createAny()
		w.open(a)
		b, foreign := w.createAny()
		w.addToken(a, accounts.PurposeRecovery, 1)
		p := w.newPending(a, s)
		w.must(w.SetPendingFactor(t.Context(), p))
		w.pass(time.Minute)
		s = w.renewed(s)
		w.must(w.EnableTwoFactor(t.Context(), p, firstStep, codes(0), accounts.KeptSession{Session: s}, job("event")))
		a.CredentialVersion, a.Updated, a.TwoFactor = 2, w.Now(), accounts.TwoFactor{Secret: p.Secret, Step: firstStep}
		w.wantAfter(a, s)
		w.wantSessions(b.ID, foreign)
		w.wantPending(p, nil)
		if diff := cmp.Diff([]outbox.Kind{"event"}, w.kindsDue()); diff != "" {
			t.Error(diff)
		}
		found, err := w.FindAccount(t.Context(), accounts.AccountQuery{LoginKey: a.LoginKey})
		w.must(err)
		if diff := cmp.Diff(a.TwoFactor, found.TwoFactor); diff != "" {
			t.Errorf("found at a sign-in: %s", diff)
		}
	}},
	{"a code of one account does not work for another one, nor without a factor, where none is needed", func(t *testing.T, w *world) {
		w.createEnrolled()
		other, s := w.createAny()
		for _, code := range []accounts.CodeUse{step(firstStep + 1), recovery(0)} {
			for _, o := range codeUses {
				if err := o.use(w, other, s, code); !errors.Is(err, accounts.ErrCodeUsed) {
					t.Errorf("%s: got %v, want ErrCodeUsed", o.name, err)
				}
			}
		}
		w.wantUnchanged(other, s)
		// It needs no code.
		for _, o := range codeUses[:5] {
			a, s := w.createAny()
			if err := o.use(w, a, s, accounts.CodeUse{}); err != nil {
				t.Errorf("%s: %v", o.name, err)
			}
		}
	}},
	{"a refused export leaves the code", func(t *testing.T, w *world) {
		a, _ := w.createEnrolled()
		export := func(code accounts.CodeUse) error {
			return w.ChargeExport(t.Context(), a.ID, a.CredentialVersion, []throttle.Charge{limited(1, 1, time.Minute)}, code)
		}
		w.must(export(step(firstStep + 1)))
		var refused *accounts.WaitError
		if err := export(recovery(0)); !errors.As(err, &refused) {
			t.Errorf("got %v, want *WaitError", err)
		}
		w.pass(time.Minute)
		w.must(export(recovery(0)))
	}},
	{"a taken e-mail is learned with a good code only, and leaves it", func(t *testing.T, w *world) {
		other, _ := w.createAny()
		a, s := w.createEnrolled()
		ask := func(code accounts.CodeUse) error {
			return w.RequestEmail(t.Context(), a.ID, a.CredentialVersion, other.Email.Key, code, []accounts.NewJob{job("mail")},
				limited(1, 1, time.Minute))
		}
		for _, code := range []accounts.CodeUse{step(firstStep), recovery(5)} {
			w.wantError(ask(code), accounts.ErrCodeUsed)
		}
		for _, code := range []accounts.CodeUse{step(firstStep + 1), recovery(0)} {
			w.wantTaken(ask(code), accounts.TakenError{Email: true})
			w.pass(time.Minute) // the limit
		}
		w.wantUnchanged(a, s)
		w.must(codeUses[0].use(w, a, s, step(firstStep+1)))
		w.must(codeUses[0].use(w, a, s, recovery(0)))
	}},
	{"changes of the factor are stale after a change of the account, and leave the code", func(t *testing.T, w *world) {
		a, s := w.createEnrolled()
		for _, version := range []int64{a.CredentialVersion - 1, a.CredentialVersion + 1} {
			w.wantError(w.ReplaceRecoveryCodes(t.Context(), a.ID, version, recovery(0), codes(10), job("event")), accounts.ErrStale)
			w.wantError(w.RemoveOwnTwoFactor(t.Context(), a.ID, version, accounts.KeptSession{Session: s}, step(firstStep+1), removing(job("event"))),
				accounts.ErrStale)
			w.wantError(w.ChargeExport(t.Context(), a.ID, version, nil, step(firstStep+1), job("event")), accounts.ErrStale)
		}
		w.wantError(w.ReplaceRecoveryCodes(t.Context(), nobody, 1, recovery(0), codes(10), job("event")), accounts.ErrStale)
		w.wantError(w.RemoveOwnTwoFactor(t.Context(), nobody, 1, accounts.KeptSession{Session: s}, recovery(0), removing(job("event"))), accounts.ErrStale)
		w.wantUnchanged(a, s)
		w.must(codeUses[0].use(w, a, s, recovery(0)))
		w.kindsDue()
		w.must(w.SetDisabled(t.Context(), a.ID, true))
		a = w.account(a.ID)
		w.wantError(w.ReplaceRecoveryCodes(t.Context(), a.ID, a.CredentialVersion, recovery(1), codes(10), job("event")), accounts.ErrStale)
		w.wantError(w.RemoveOwnTwoFactor(t.Context(), a.ID, a.CredentialVersion, accounts.KeptSession{Session: s}, recovery(1), removing(job("event"))),
			accounts.ErrStale)
		w.wantUnchanged(a)
	}},
	{"an administrator's removal ends every session and keeps the version", func(t *testing.T, w *world) {
		a, s := w.createEnrolled()
		p := w.newPending(a, s)
		w.must(w.SetPendingFactor(t.Context(), p))
		b, foreign := w.createEnrolled()
		w.pass(time.Minute)
		var seen []accounts.Account
		remove := func(id int64) error {
			return w.RemoveTwoFactor(t.Context(), id, false, func(before accounts.Account, _, _ accounts.OtherWays) []accounts.NewJob {
				seen = append(seen, before)
				return []accounts.NewJob{job("event")}
			})
		}
		w.must(remove(a.ID))
		want := a
		want.TwoFactor, want.Updated = accounts.TwoFactor{}, w.Now()
		if diff := cmp.Diff(want, w.account(a.ID)); diff != "" {
			t.Error(diff)
		}
		w.wantSessions(a.ID)
		w.wantPending(p, nil)
		w.pass(time.Minute)
		w.must(remove(a.ID)) // without a factor
		w.wantError(remove(nobody), accounts.ErrNotFound)
		if diff := cmp.Diff([]outbox.Kind{"event"}, w.kindsDue()); diff != "" {
			t.Error(diff)
		}
		w.wantUnchanged(want)
		if diff := cmp.Diff([]accounts.Account{a}, seen); diff != "" {
			t.Errorf("the jobs were requested with: %s", diff)
		}
		for _, code := range []accounts.CodeUse{step(firstStep + 1), recovery(0)} { // judged before the removal
			w.wantError(codeUses[0].use(w, a, s, code), accounts.ErrCodeUsed)
		}
		w.wantUnchanged(b, foreign)
	}},
	{"a deletion that stands survives the removal, and so does the token that undoes it", func(t *testing.T, w *world) {
		a, _ := w.createEnrolled()
		a = w.requestDeletion(a)
		w.addToken(a, accounts.PurposeDeletion, 1)
		w.must(w.RemoveTwoFactor(t.Context(), a.ID, false, ended()))
		if got := w.account(a.ID); !got.Deleted() || got.TwoFactor.On() {
			t.Errorf("got %+v, want it deleted and without a factor", got)
		}
		w.must(w.UndoDeletion(t.Context(), digest("token", 1)))
	}},
	{"refused codes are told and block by the rules, until they are forgotten or pruned", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		b, _ := w.createAny()
		rules := accounts.CodeRules{Window: 10 * time.Hour, Notice: 2, Block: 4, NoticeEvery: 3 * time.Hour}
		refuse := func(account int64, wantTold, wantBlocked bool) {
			t.Helper()
			told := false
			w.must(w.CountRefusedCode(t.Context(), account, rules, func() []accounts.NewJob { told = true; return nil }))
			var want time.Time
			if wantBlocked {
				want = w.Now().Add(rules.Window)
			}
			until, err := w.CodesBlockedUntil(t.Context(), account, rules)
			if err != nil || told != wantTold || !until.Equal(want) {
				t.Errorf("got told %t, blocked until %v, error %v; want %t, %v", told, until, err, wantTold, want)
			}
		}
		wantBlocked := func(want bool) {
			t.Helper()
			if until, err := w.CodesBlockedUntil(t.Context(), a.ID, rules); err != nil || until.IsZero() == want {
				t.Errorf("got blocked until %v, error %v, want blocked %t", until, err, want)
			}
		}
		refuse(nobody, false, false)
		refuse(a.ID, false, false)
		refuse(a.ID, true, false)
		refuse(b.ID, false, false)
		w.pass(10 * time.Hour) // neither counts any more
		refuse(a.ID, false, false)
		refuse(a.ID, true, false)
		refuse(a.ID, false, false)
		w.pass(3 * time.Hour)
		refuse(a.ID, true, true)
		w.pass(9 * time.Hour)
		refuse(a.ID, true, true) // only the fourth before it counts still
		w.pass(10*time.Hour - time.Microsecond)
		wantBlocked(true)
		w.must(w.Prune(t.Context(), store.PruneOptions{CodesBefore: w.Now().Add(-rules.Window), Batch: 1}))
		wantBlocked(true)
		w.pass(time.Microsecond)
		wantBlocked(false)
		w.pass(-time.Microsecond)
		wantBlocked(true)
		w.must(w.LiftLimits(t.Context(), a.ID, nil))
		wantBlocked(false)
	}},
	{"secrets are counted by key, and read page by page", func(t *testing.T, w *world) {
		keys := []string{"b", "a", "b", "b", "a"}
		want := map[string][]accounts.AccountSecret{}
		for _, key := range keys {
			w.createAny() // without a factor
			a, s := w.createAny()
			p := w.newPending(a, s)
			p.Secret.Key = key
			w.must(w.SetPendingFactor(t.Context(), p))
			w.must(w.EnableTwoFactor(t.Context(), p, firstStep, codes(0), accounts.KeptSession{Session: s}))
			want[key] = append(want[key], accounts.AccountSecret{AccountID: a.ID, Secret: p.Secret})
		}
		_, err := w.SealedKey(t.Context(), "logins", accounts.Sealed{Key: "c", Data: []byte("sealed")})
		w.must(err)
		_, err = w.Key(t.Context(), "another", []byte("as it is"))
		w.must(err)
		wantCounts := func(want ...accounts.SecretCount) {
			t.Helper()
			counts, err := w.CountSecrets(t.Context())
			w.must(err)
			if diff := cmp.Diff(want, counts); diff != "" {
				t.Error(diff)
			}
			used, err := w.SecretKeys(t.Context())
			w.must(err)
			for i, c := range want {
				if len(used) != len(want) || used[i] != c.Key {
					t.Fatalf("got keys %q, want those of %v", used, want)
				}
			}
		}
		wantCounts(accounts.SecretCount{Key: "a", Accounts: 2}, accounts.SecretCount{Key: "b", Accounts: 3}, accounts.SecretCount{Key: "c", LoginKey: true})
		w.must(w.ResealKey(t.Context(), "logins", accounts.Sealed{Key: "c", Data: []byte("sealed")}, accounts.Sealed{Key: "b", Data: []byte("again")}))
		wantCounts(accounts.SecretCount{Key: "a", Accounts: 2}, accounts.SecretCount{Key: "b", Accounts: 3, LoginKey: true})
		page := func(after int64, n int) []accounts.AccountSecret {
			found, err := w.SecretsOfKey(t.Context(), "b", after, n)
			w.must(err)
			return found
		}
		if diff := cmp.Diff(want["b"], page(0, 9)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(want["b"][1:2], page(want["b"][0].AccountID, 1)); diff != "" {
			t.Errorf("a page: %s", diff)
		}
	}},
	{"an encrypted key is made once, and encrypted again only if it is still the same", func(t *testing.T, w *world) {
		_, err := w.SealedKey(t.Context(), "logins", accounts.Sealed{})
		w.wantError(err, accounts.ErrNotFound)
		first, other := accounts.Sealed{Key: "a", Data: []byte("first")}, accounts.Sealed{Key: "b", Data: []byte("other")}
		for _, candidate := range []accounts.Sealed{first, other, {}} {
			if got, err := w.SealedKey(t.Context(), "logins", candidate); err != nil || !cmp.Equal(got, first) {
				t.Errorf("got %+v, error %v, want the first", got, err)
			}
		}
		w.wantError(w.ResealKey(t.Context(), "logins", other, first), accounts.ErrStale)
		w.must(w.ResealKey(t.Context(), "logins", first, other))
		if got, err := w.SealedKey(t.Context(), "logins", first); err != nil || !cmp.Equal(got, other) {
			t.Errorf("got %+v, error %v, want the other", got, err)
		}
	}},
	{"a secret is encrypted again only if it is still the same", func(t *testing.T, w *world) {
		a, s := w.createEnrolled()
		old, again := a.TwoFactor.Secret, accounts.Sealed{Key: "new key", Data: []byte("sealed again")}
		w.pass(time.Minute)
		w.must(w.Reseal(t.Context(), a.ID, old, again))
		w.wantError(w.Reseal(t.Context(), a.ID, old, accounts.Sealed{Key: "x", Data: []byte("x")}), accounts.ErrStale)
		a.TwoFactor.Secret = again
		w.wantUnchanged(a, s)
		none, own := w.createAny()
		w.wantError(w.Reseal(t.Context(), none.ID, again, old), accounts.ErrStale)
		w.wantUnchanged(none, own)
		w.must(codeUses[0].use(w, a, s, step(firstStep+1)))
	}},
	{"pruning removes pending secrets, in batches, and nothing else", func(t *testing.T, w *world) {
		var old []accounts.PendingFactor
		for range 5 {
			p := w.newPending(w.createAny())
			w.must(w.SetPendingFactor(t.Context(), p))
			old = append(old, p)
		}
		limit := w.Now()
		w.pass(time.Minute)
		enrolled, s := w.createEnrolled()
		fresh := w.newPending(w.createAny())
		w.must(w.SetPendingFactor(t.Context(), fresh))
		w.must(w.Prune(t.Context(), pruneOptions(limit)))
		for _, p := range old {
			w.wantPending(p, nil)
			if n := len(w.sessions(p.AccountID)); n != 1 {
				t.Errorf("got %d sessions, want 1", n)
			}
		}
		w.wantPending(fresh, &fresh.Secret)
		w.wantUnchanged(enrolled, s)
	}},
	{"enabling is stale if the secret does not wait, or the account has changed, and writes nothing", func(t *testing.T, w *world) {
		for _, c := range []struct {
			name   string
			change func(p *accounts.PendingFactor, a accounts.Account, s accounts.Session)
		}{
			{"another version", func(p *accounts.PendingFactor, _ accounts.Account, _ accounts.Session) { p.CredentialVersion++ }},
			{"an unknown account", func(p *accounts.PendingFactor, _ accounts.Account, _ accounts.Session) { p.AccountID = 9999 }},
			{"another session", func(p *accounts.PendingFactor, a accounts.Account, _ accounts.Session) { p.SessionID = w.open(a).ID }},
			{"a later secret", func(p *accounts.PendingFactor, a accounts.Account, s accounts.Session) {
				w.must(w.SetPendingFactor(t.Context(), w.newPending(a, s)))
			}},
			{"an ended session", func(p *accounts.PendingFactor, a accounts.Account, s accounts.Session) {
				w.must(w.RevokeSession(t.Context(), a.ID, s.ID))
			}},
			{"a disabled account", func(p *accounts.PendingFactor, a accounts.Account, _ accounts.Session) {
				w.must(w.SetDisabled(t.Context(), a.ID, true))
				p.CredentialVersion++
			}},
			{"a factor", func(p *accounts.PendingFactor, a accounts.Account, s accounts.Session) {
				a = w.enrol(a, s)
				*p = w.newPending(a, s)
				w.must(w.SetPendingFactor(t.Context(), *p))
			}},
		} {
			a, s := w.createAny()
			other := w.open(a)
			p := w.newPending(a, s)
			w.must(w.SetPendingFactor(t.Context(), p))
			c.change(&p, a, s)
			before, sessions := w.account(a.ID), w.sessions(a.ID)
			if err := w.EnableTwoFactor(t.Context(), p, firstStep+9, codes(10), accounts.KeptSession{Session: s}, job("event")); !errors.Is(err,
				accounts.ErrStale) {
				t.Errorf("%s: got %v, want ErrStale", c.name, err)
			}
			w.wantUnchanged(before, sessions...)
			if c.name == "a later secret" {
				w.wantSessions(a.ID, s, other)
			}
		}
	}},
	{"a code works once, and an operation with a used one writes nothing", func(t *testing.T, w *world) {
		type used struct {
			name       string
			good, used accounts.CodeUse
		}
		codes := []used{
			{"a recovery code", recovery(0), recovery(5)},
			{"the last step", step(firstStep + 1), step(firstStep)},
			{"an earlier step", step(firstStep + 1), step(firstStep - 1)},
		}
		for i, o := range codeUses {
			if i > 1 { // a sign-in, and what shares the judgement of its code with the others
				codes = codes[:1]
			}
			for _, c := range codes {
				a, s := w.createEnrolled()
				if err := o.use(w, a, s, c.used); !errors.Is(err, accounts.ErrCodeUsed) {
					t.Errorf("%s with %s: got %v, want ErrCodeUsed", o.name, c.name, err)
				}
				w.wantUnchanged(a, s)
				if err := o.use(w, a, s, c.good); err != nil {
					t.Errorf("%s with a good code: %v", o.name, err)
				}
				if due := w.kindsDue(); len(due) != 1 {
					t.Errorf("%s: got jobs %v, want one", o.name, due)
				}
				got := w.account(a.ID)
				if c.good.Step != 0 && got.TwoFactor.On() && got.TwoFactor.Step != c.good.Step {
					t.Errorf("%s: got step %d, want %d", o.name, got.TwoFactor.Step, c.good.Step)
				}
				w.must(w.SetDisabled(t.Context(), a.ID, false))
				again := w.open(w.account(a.ID))
				if err := o.use(w, w.account(a.ID), again, c.good); !errors.Is(err, accounts.ErrCodeUsed) {
					t.Errorf("%s with %s again: got %v, want ErrCodeUsed", o.name, c.name, err)
				}
				if due := w.kindsDue(); len(due) != 0 {
					t.Errorf("%s with a used code: got jobs %v, want none", o.name, due)
				}
				w.must(w.Refund(t.Context(), []throttle.Charge{limited(1, 1, time.Minute)})) // of the export
			}
		}
	}},
}

var twoFactorRaces = []testCase{
	{"of codes that are refused concurrently one is told, and each counts", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		rules := accounts.CodeRules{Window: time.Hour, Notice: 3, Block: contenders, NoticeEvery: time.Minute}
		var told atomic.Int32
		errs := atOnce(contenders, func(int) error {
			return w.CountRefusedCode(t.Context(), a.ID, rules, func() []accounts.NewJob { told.Add(1); return []accounts.NewJob{jobOf(a)} })
		})
		w.must(errors.Join(errs...))
		until, err := w.CodesBlockedUntil(t.Context(), a.ID, rules)
		if err != nil || until.IsZero() || told.Load() != 1 {
			t.Errorf("got %d notices, blocked until %v, error %v; want one, and blocked", told.Load(), until, err)
		}
	}},
	{"of concurrent uses of one code one succeeds", func(t *testing.T, w *world) {
		for _, code := range []accounts.CodeUse{step(firstStep + 1), recovery(0)} {
			for _, ops := range [][]int{{0}, {0, 2, 4}, {5, 0, 2}, {1}, {3}, {6}} { // of codeUses
				a, s := w.createEnrolled()
				errs := atOnce(contenders/2, func(i int) error { return codeUses[ops[i%len(ops)]].use(w, a, s, code) })
				if won, lost := count(errs, nil), count(errs, accounts.ErrCodeUsed)+count(errs, accounts.ErrStale); won != 1 || lost != len(errs)-1 {
					t.Errorf("%s: got %d successes, want 1: %v", codeUses[ops[0]].name, won, errors.Join(errs...))
				}
				w.must(w.Refund(t.Context(), []throttle.Charge{limited(1, 1, time.Minute)}))
			}
		}
	}},
	{"no sign-in without a code survives enabling, and a secret is enabled once", func(t *testing.T, w *world) {
		for range rounds {
			a, s := w.createAny()
			p := w.newPending(a, s)
			w.must(w.SetPendingFactor(t.Context(), p))
			const enablings = 4
			errs := atOnce(contenders, func(i int) error {
				if i < enablings {
					return w.EnableTwoFactor(t.Context(), p, firstStep, codes(i), accounts.KeptSession{Session: s})
				}
				return w.OpenSession(t.Context(), accounts.OpenSession{Session: w.newSession(a.ID), CredentialVersion: 1, MaxSessions: 100})
			})
			if count(errs[:enablings], nil) != 1 || count(errs, nil)+count(errs, accounts.ErrStale) != len(errs) {
				t.Fatal(errors.Join(errs...))
			}
			w.wantSessions(a.ID, s)
			w.wantError(w.OpenSession(t.Context(), accounts.OpenSession{
				Session: w.newSession(a.ID), CredentialVersion: 1, MaxSessions: 100,
			}), accounts.ErrStale)
		}
	}},
	{"a secret that is stored while its session ends is stale or goes with it", func(t *testing.T, w *world) {
		for range rounds {
			a, s := w.createAny()
			p := w.newPending(a, s)
			errs := atOnce(8, func(i int) error {
				switch i {
				case 3:
					return w.RevokeSession(t.Context(), a.ID, s.ID)
				case 5:
					return w.RevokeSessions(t.Context(), a.ID, false)
				}
				return w.SetPendingFactor(t.Context(), p)
			})
			if n := count(errs, nil) + count(errs, accounts.ErrStale); n != len(errs) {
				t.Fatal(errors.Join(errs...))
			}
			w.wantPending(p, nil)
		}
	}},
	{"all changes of one account's factor at once do not deadlock, even with its erasure", func(t *testing.T, w *world) {
		for range 3 {
			a, s := w.createEnrolled()
			others := []accounts.Session{w.open(a), w.open(a)}
			w.must(w.SetPendingFactor(t.Context(), w.newPending(a, s)))
			proof := w.prove(a, others[1])
			ctx := t.Context()
			var ops []func(i int) error
			for _, o := range codeUses {
				ops = append(ops, func(i int) error { return o.use(w, a, s, recovery(i%3)) })
			}
			ops = append(ops,
				func(int) error { return w.SetPendingFactor(ctx, w.newPending(a, others[0])) },
				func(int) error {
					return w.EnableTwoFactor(ctx, w.newPending(a, s), firstStep, codes(0), accounts.KeptSession{Session: s})
				},
				func(int) error {
					return w.RemoveTwoFactor(ctx, a.ID, false, ended(job("event")))
				},
				func(i int) error { return w.SetDisabled(ctx, a.ID, i%2 == 0, job("event")) },
				func(i int) error {
					return w.EraseAccount(ctx, a.ID, func(accounts.Account) bool { return i > 2*contenders }, removed)
				},
				func(int) error { return w.RevokeSession(ctx, a.ID, others[1].ID) },
				func(i int) error {
					return proofUses[i%len(proofUses)].use(w, a, others[1], accounts.CodeUse{Proof: proof})
				},
				func(int) error { return w.RevokeSessions(ctx, a.ID, false) },
				func(int) error {
					return w.Reseal(ctx, a.ID, a.TwoFactor.Secret, accounts.Sealed{Key: "x", Data: []byte("x")})
				},
				func(int) error { return w.Prune(ctx, pruneOptions(w.Now())) },
			)
			errs := atOnce(4*contenders, func(i int) error {
				err := ops[i%len(ops)](i)
				var limited *accounts.WaitError
				if slices.ContainsFunc([]error{accounts.ErrStale, accounts.ErrNotFound, accounts.ErrCodeUsed, accounts.ErrProofVoid},
					func(e error) bool { return errors.Is(err, e) }) ||
					errors.As(err, &limited) {
					return nil
				}
				return err
			})
			if err := errors.Join(errs...); err != nil {
				t.Error(err)
			}
		}
	}},
}

// pruneOptions remove pending secrets stored until then, and hardly anything else.
func pruneOptions(pendingBefore time.Time) store.PruneOptions {
	return store.PruneOptions{PendingBefore: pendingBefore, Batch: 2}
}
