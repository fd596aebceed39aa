package storetest

import (
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/shared/personal"
)

// newCode returns a mailed code of an account to sign in with.
func (w *world) newCode(a accounts.Account) accounts.MailedCode {
	n := w.number()
	return accounts.MailedCode{
		Attempt: digest("attempt", n), AccountID: a.ID, Purpose: personal.MailedCodeSignIn, Digest: digest("code", n),
		Expires: w.Now().Add(accounts.MailedCodeLifetime), CredentialVersion: a.CredentialVersion, EmailKey: a.Email.Key,
	}
}

// addCode stores a mailed code.
func (w *world) addCode(a accounts.Account) accounts.MailedCode {
	w.t.Helper()
	c := w.newCode(a)
	w.must(w.AddMailedCode(w.t.Context(), c))
	return c
}

// findsCode reports whether a code is found by its attempt and purpose.
func (w *world) findsCode(c accounts.MailedCode) bool {
	w.t.Helper()
	found, account, err := w.FindMailedCode(w.t.Context(), c.Attempt, c.Purpose)
	if err != nil {
		w.wantError(err, accounts.ErrNotFound)
		return false
	}
	if found.Digest != c.Digest || account.ID != c.AccountID {
		w.t.Errorf("got code %+v of account %d, want %+v", found, account.ID, c)
	}
	return true
}

// signInWith signs in with a mailed code, at an address.
func (w *world) signInWith(c accounts.MailedCode, code accounts.CodeUse) error {
	return w.OpenSession(w.t.Context(), accounts.OpenSession{
		Session: w.newSession(c.AccountID), CredentialVersion: c.CredentialVersion, MaxSessions: 100, MailedCode: c.Attempt, Code: code,
		Known: accounts.KnownAt{Address: "192.0.2.1", After: w.Now().Add(-time.Hour)},
	})
}

var mailedCodeCases = []testCase{
	{"another try of a mail leaves its code as it is, and does not store one again that was used", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		c := w.addCode(a)
		later := c
		later.Expires = c.Expires.Add(time.Minute)
		w.must(w.AddMailedCode(t.Context(), later))
		w.pass(accounts.MailedCodeLifetime)
		if w.findsCode(c) {
			t.Error("the code was found after its end")
		}
		c = w.addCode(a)
		w.must(w.signInWith(c, accounts.CodeUse{}))
		w.wantError(w.AddMailedCode(t.Context(), c), accounts.ErrStale)
		if w.findsCode(c) {
			t.Error("a used code was found")
		}
	}},
	{"a mailed code is stale with another version or e-mail, and for a disabled or unknown account", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		off := w.newAccount()
		off.Disabled = true
		disabled, _ := w.create(off)
		older, moved, unknown := a, a, a
		older.CredentialVersion, moved.Email.Key, unknown.ID = 0, "before@example.org", nobody
		for _, of := range []accounts.Account{older, moved, disabled, unknown} {
			w.wantError(w.AddMailedCode(t.Context(), w.newCode(of)), accounts.ErrStale)
		}
	}},
	{"a sign-in with a mailed code uses up all of the account, and makes the address known, not fully", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		b, _ := w.createAny()
		used, also, foreign := w.addCode(a), w.addCode(a), w.addCode(b)
		w.must(w.signInWith(used, accounts.CodeUse{}))
		for _, c := range []accounts.MailedCode{used, also} {
			w.wantError(w.signInWith(c, accounts.CodeUse{}), accounts.ErrMailedCodeUsed)
		}
		if w.findsCode(used) || w.findsCode(also) || !w.findsCode(foreign) {
			t.Error("a code of the account is left, or that of another one is not")
		}
		at, err := w.KnownAddress(t.Context(), accounts.AccountQuery{LoginKey: a.LoginKey}, "192.0.2.1", w.Now().Add(-time.Hour))
		if w.must(err); !at.Known() || at.Full {
			t.Errorf("got the address %+v, want one that is known, not fully", at)
		}
		wrong := foreign
		wrong.AccountID, wrong.CredentialVersion = a.ID, a.CredentialVersion
		w.wantError(w.signInWith(wrong, accounts.CodeUse{}), accounts.ErrMailedCodeUsed)
	}},
	{"a sign-in with a mailed code and a code of the factor makes the address fully known", func(t *testing.T, w *world) {
		a, _ := w.createEnrolled()
		w.must(w.signInWith(w.addCode(a), step(firstStep+1)))
		at, err := w.KnownAddress(t.Context(), accounts.AccountQuery{LoginKey: a.LoginKey}, "192.0.2.1", w.Now().Add(-time.Hour))
		if w.must(err); !at.Full {
			t.Errorf("got the address %+v, want one that is fully known", at)
		}
		c := w.addCode(a)
		w.wantError(w.signInWith(c, step(firstStep+1)), accounts.ErrCodeUsed)
		if !w.findsCode(c) {
			t.Error("a sign-in that failed has used up the mailed code")
		}
	}},
	{"a proof uses up a mailed code", func(t *testing.T, w *world) {
		a, s := w.createAny()
		c := w.addCode(a)
		p := w.newProof(a)
		p.MailedCode = c.Attempt
		w.must(w.SetProof(t.Context(), a.ID, s.ID, p, accounts.CodeUse{}, accounts.PasskeyUse{}))
		w.wantError(w.SetProof(t.Context(), a.ID, s.ID, p, accounts.CodeUse{}, accounts.PasskeyUse{}), accounts.ErrMailedCodeUsed)
		if w.findsCode(c) {
			t.Error("the code is left")
		}
	}},
}
