package storetest

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/throttle"
)

var mailCases = []testCase{
	{"mails are limited in exact periods, per digest", func(t *testing.T, w *world) {
		want := func(granted bool, id string, mailbox byte, digests ...byte) {
			t.Helper()
			if got := w.reserve(reservation(id, mailbox, digests...)); got != granted {
				t.Errorf("mail %s to %d for %v: got granted: %t, want %t", id, mailbox, digests, got, granted)
			}
		}
		const one, other, both = 1, 2, 100
		want(true, "1", 1, one, both)
		want(false, "2", 1, one, both)
		want(true, "2", 1, other, both)
		want(true, "2b", 2, one+2, both+1)
		w.pass(time.Minute - time.Microsecond)
		want(false, "3", 1, one, both)
		w.pass(time.Microsecond)
		want(true, "3", 1, one, both)
		w.pass(time.Minute)
		want(false, "4", 1, other, both) // 3 for both in the hour
		want(false, "4", 1, one, both)
		want(true, "4", 1, other) // another limit
		w.pass(58*time.Minute - time.Microsecond)
		want(false, "5", 1, other, both)
		w.pass(time.Microsecond)
		want(true, "5", 1, other, both) // the first two are an hour old
		want(true, "5b", 1, one, both)
		w.pass(time.Minute)
		want(true, "6", 1, one, both)
		want(false, "7", 1, other, both)
	}},
	{"the first way that allows a mail grants it, and counts it for its own limits only", func(t *testing.T, w *world) {
		next := 0
		reserve := func(ways ...byte) bool {
			next++
			r := accounts.MailReservation{MailID: fmt.Sprint(next), Mailbox: [32]byte{1}, Kind: mailtext.Recovery}
			for _, digest := range ways {
				r.Allowances = append(r.Allowances, accounts.MailAllowance{Limits: []accounts.MailLimit{{Digest: [32]byte{digest}, Max: 1, Window: time.Hour}}})
			}
			return w.reserve(r)
		}
		for i, step := range []struct {
			want bool
			ways []byte
		}{
			{true, []byte{10, 11}}, {false, []byte{10}}, {true, []byte{11}}, // the first way was counted, the second was not
			{true, []byte{10, 12}}, {false, []byte{10, 12}},
		} {
			if got := reserve(step.ways...); got != step.want {
				t.Errorf("mail %d for %v: got granted: %t, want %t", i+1, step.ways, got, step.want)
			}
		}
	}},
	{"a rate refuses without being charged, and regains in time", func(t *testing.T, w *world) {
		for i, step := range []struct {
			pass time.Duration
			want bool
		}{
			{0, true}, {0, true}, {0, false}, {15*time.Minute - time.Microsecond, false}, {time.Microsecond, true}, {0, false}, {30 * time.Minute, true}, {0, true}, {0, false},
		} {
			w.pass(step.pass)
			way := accounts.MailAllowance{Rate: throttle.Charge{Key: [32]byte{7}, Limit: throttle.Limit{Burst: 2, Every: 15 * time.Minute}}}
			full := accounts.MailAllowance{Rate: way.Rate, Limits: []accounts.MailLimit{{Digest: [32]byte{8}, Max: 1, Window: time.Hour}}}
			r := accounts.MailReservation{MailID: fmt.Sprint(i), Mailbox: [32]byte{1}, Kind: mailtext.Recovery, Allowances: []accounts.MailAllowance{full, way}}
			if got := w.reserve(r); got != step.want {
				t.Errorf("mail %d: got granted: %t, want %t", i, got, step.want)
			}
			if step.want && !w.reserve(r) { // charges nothing
				t.Errorf("mail %d again: got a refusal", i)
			}
		}
	}},
	{"a repeated reservation is granted and counted once, and its jobs are stored once", func(t *testing.T, w *world) {
		for range 10 {
			if !w.reserve(reservation("1", 1, 1), job("mail")) {
				t.Fatal("got a refusal, want the reservation again")
			}
		}
		if diff := cmp.Diff([]outbox.Kind{"mail"}, w.kindsDue()); diff != "" {
			t.Error(diff)
		}
		w.pass(time.Minute)
		if !w.reserve(reservation("2", 1, 1)) {
			t.Error("the next one: got a refusal")
		}
	}},
	{"a refused mail stores no job", func(t *testing.T, w *world) {
		w.reserve(reservation("1", 1, 1))
		granted := w.reserve(reservation("2", 1, 1), job("mail"))
		if due := w.kindsDue(); granted || len(due) > 0 {
			t.Errorf("got granted: %t, and jobs %v, want neither", granted, due)
		}
	}},
	{"a key is what the first call has stored", func(t *testing.T, w *world) {
		for i, name := range []string{"a", "a", "b"} {
			key, err := w.Key(t.Context(), name, []byte{byte(i)})
			w.must(err)
			if want := []byte{byte(i / 2 * 2)}; !bytes.Equal(key, want) {
				t.Errorf("call %d: got %v, want %v", i, key, want)
			}
		}
	}},
	{"a replacing job removes the waiting jobs of its account and kind", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		b, _ := w.createAny()
		of := func(account int64, kind outbox.Kind) accounts.NewJob {
			return accounts.NewJob{Kind: kind, Payload: []byte("{}"), AccountID: account}
		}
		for _, j := range []accounts.NewJob{of(a.ID, "mail"), of(a.ID, "event"), of(b.ID, "mail")} {
			w.must(w.Enqueue(t.Context(), j))
		}
		newer := of(a.ID, "mail")
		newer.Replaces = true
		w.must(w.Enqueue(t.Context(), newer))
		jobs, err := w.ClaimJobs(t.Context(), outbox.Claim{Kinds: []outbox.Kind{"mail", "event"}, N: 10, Lease: time.Minute})
		w.must(err)
		var got []string
		for _, j := range jobs {
			got = append(got, fmt.Sprintf("%s of %d", j.Kind, j.AccountID))
		}
		want := []string{fmt.Sprintf("event of %d", a.ID), fmt.Sprintf("mail of %d", b.ID), fmt.Sprintf("mail of %d", a.ID)}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}},
	{"a token for an account without an e-mail is stale once it has one", func(t *testing.T, w *world) {
		a := w.newAccount()
		a.Email = accounts.Email{}
		a, _ = w.create(a)
		w.addToken(a, accounts.PurposeEmail, 1)
		w.addToken(a, accounts.PurposeEmail, 2)
		w.must(w.RedeemEmail(t.Context(), digest("token", 1)))
		w.wantError(w.AddMailToken(t.Context(), w.newToken(a, accounts.PurposeEmail, 3)), accounts.ErrStale)
	}},
	{"a token is stale with another version, another e-mail, a disabled or an unknown account", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		off := w.newAccount()
		off.Disabled = true
		disabled, _ := w.create(off)
		older, newer, moved, unknown := a, a, a, a
		older.CredentialVersion, newer.CredentialVersion = 0, 2
		moved.Email.Key = "before@example.org"
		unknown.ID = nobody
		for _, of := range []accounts.Account{older, newer, moved, disabled, unknown} {
			w.wantError(w.AddMailToken(t.Context(), w.newToken(of, accounts.PurposeRecovery, 1)), accounts.ErrStale)
		}
	}},
	{"a recovery sets the hash, ends all sessions and voids all tokens, once", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		w.open(a)
		b, foreign := w.createAny()
		w.addToken(a, accounts.PurposeRecovery, 1)
		w.addToken(a, accounts.PurposeRecovery, 2)
		w.addToken(a, accounts.PurposeEmail, 3)
		w.addToken(b, accounts.PurposeRecovery, 4)
		w.pass(time.Minute)
		w.must(w.RedeemRecovery(t.Context(), digest("token", 1), "second hash", accounts.KnownAt{}, removing(job("event"))))
		want := a
		want.PasswordHash, want.CredentialVersion, want.Updated = "second hash", 2, w.Now()
		want.EmailVerified = true
		if diff := cmp.Diff(want, w.account(a.ID)); diff != "" {
			t.Error(diff)
		}
		w.wantSessions(a.ID)
		w.wantSessions(b.ID, foreign)
		for i := 1; i <= 2; i++ {
			w.wantError(w.RedeemRecovery(t.Context(), digest("token", i), "third hash", accounts.KnownAt{}, removing(job("event"))),
				accounts.ErrNotFound)
		}
		w.wantError(w.RedeemEmail(t.Context(), digest("token", 3)), accounts.ErrNotFound)
		if diff := cmp.Diff([]outbox.Kind{"event"}, w.kindsDue()); diff != "" {
			t.Error(diff)
		}
		w.must(w.RedeemRecovery(t.Context(), digest("token", 4), "hash", accounts.KnownAt{}, removing()))
	}},
	{"an e-mail token sets the address, keeps another login and the sessions, and voids all tokens", func(t *testing.T, w *world) {
		a, s := w.createAny()
		w.addToken(a, accounts.PurposeRecovery, 1)
		w.addToken(a, accounts.PurposeEmail, 2)
		w.pass(time.Minute)
		w.must(w.RedeemEmail(t.Context(), digest("token", 2), job("mail")))
		want := a
		want.Email, want.Updated = accounts.Email{Address: "New2@Example.org", Key: "new2@example.org"}, w.Now()
		want.EmailVerified = true
		if diff := cmp.Diff(want, w.account(a.ID)); diff != "" {
			t.Error(diff)
		}
		w.wantSessions(a.ID, s)
		w.wantError(w.RedeemEmail(t.Context(), digest("token", 2), job("mail")), accounts.ErrNotFound)
		w.wantError(w.RedeemRecovery(t.Context(), digest("token", 1), "x", accounts.KnownAt{}, removing()), accounts.ErrNotFound)
		if diff := cmp.Diff([]outbox.Kind{"mail"}, w.kindsDue()); diff != "" {
			t.Error(diff)
		}
	}},
	{"a login that was the old address becomes the new one", func(t *testing.T, w *world) {
		a := w.newAccount()
		a.Login, a.LoginKey = a.Email.Address, a.Email.Key
		a, _ = w.create(a)
		w.addToken(a, accounts.PurposeEmail, 1)
		w.must(w.RedeemEmail(t.Context(), digest("token", 1)))
		got := w.account(a.ID)
		if got.Login != "New1@Example.org" || got.LoginKey != "new1@example.org" || got.Email.Key != got.LoginKey {
			t.Errorf("got login %q (%q) and e-mail %+v, want the new address", got.Login, got.LoginKey, got.Email)
		}
	}},
	{"an address taken since does not use up the token", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		w.addToken(a, accounts.PurposeEmail, 1)
		w.addToken(a, accounts.PurposeRecovery, 2)
		b := w.newAccount()
		b.Email = accounts.Email{Address: "NEW1@example.org", Key: "new1@example.org"}
		w.create(b)
		w.wantTaken(w.RedeemEmail(t.Context(), digest("token", 1), job("mail")), accounts.TakenError{Email: true})
		if diff := cmp.Diff(a, w.account(a.ID)); diff != "" {
			t.Error(diff)
		}
		for p, i := range map[accounts.MailPurpose]int{accounts.PurposeEmail: 1, accounts.PurposeRecovery: 2} {
			_, err := w.FindMailToken(t.Context(), p, digest("token", i))
			w.must(err)
		}
		if due := w.kindsDue(); len(due) > 0 {
			t.Errorf("got jobs %v, want none", due)
		}
	}},
	{"the account's own address is no conflict", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		tok := w.newToken(a, accounts.PurposeEmail, 1)
		tok.Email = accounts.Email{Address: "x" + a.Email.Address, Key: a.Email.Key}
		w.must(w.AddMailToken(t.Context(), tok))
		w.must(w.RedeemEmail(t.Context(), tok.Digest))
		if got := w.account(a.ID).Email; got != tok.Email {
			t.Errorf("got e-mail %+v, want that of the token", got)
		}
	}},
}

// reservation returns one with a limit for each digest: of a mail a minute, or, for those
// from 100 on, of three an hour.
func reservation(id string, mailbox byte, digests ...byte) accounts.MailReservation {
	var way accounts.MailAllowance
	for _, digest := range digests {
		l := accounts.MailLimit{Digest: [32]byte{digest}, Max: 1, Window: time.Minute}
		if digest >= 100 {
			l.Max, l.Window = 3, time.Hour
		}
		way.Limits = append(way.Limits, l)
	}
	return accounts.MailReservation{MailID: id, Mailbox: [32]byte{mailbox, 255}, Kind: mailtext.Recovery, Allowances: []accounts.MailAllowance{way}}
}

func (w *world) reserve(r accounts.MailReservation, jobs ...accounts.NewJob) bool {
	w.t.Helper()
	granted, err := w.ReserveMail(w.t.Context(), r, jobs...)
	w.must(err)
	return granted
}

func (w *world) newToken(a accounts.Account, p accounts.MailPurpose, n int) accounts.MailToken {
	return accounts.MailToken{
		AccountID: a.ID, Purpose: p, Digest: digest("token", n),
		CredentialVersion: a.CredentialVersion, AccountEmailKey: a.Email.Key,
		Email:   accounts.Email{Address: fmt.Sprintf("New%d@Example.org", n), Key: fmt.Sprintf("new%d@example.org", n)},
		Expires: w.Now().Add(30 * time.Minute),
	}
}

func (w *world) addToken(a accounts.Account, p accounts.MailPurpose, n int) accounts.MailToken {
	w.t.Helper()
	t := w.newToken(a, p, n)
	w.must(w.AddMailToken(w.t.Context(), t))
	return t
}
