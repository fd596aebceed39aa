package accounts_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/internal/token"
	"github.com/cms-personal/personal/shared/personal"
)

func optional(s *accounts.Settings) {
	s.EmailVerification = personal.VerificationOptional
	s.VerificationLifetime = 24 * time.Hour
	s.RegistrationURL = "https://cms.example/verify#token={token}"
}

// requiring returns a fixture in which new accounts must confirm their e-mail.
func requiring(t testing.TB, url string, adjust ...func(*accounts.Settings)) *fixture {
	t.Helper()
	f := newFixture(t, url, append(adjust, optional, func(s *accounts.Settings) { s.EmailVerification = personal.VerificationRequired })...)
	f.service.RequireVerification(true)
	return f
}

func (f *fixture) apply(ctx context.Context, login, email string) (personal.SignedIn, error) {
	return f.service.Register(ctx, personal.RegisterRequest{Login: login, Password: goodPassword, ConfirmPassword: goodPassword, Email: email})
}

// applied registers an account that waits for its address and returns its id.
func (f *fixture) applied(t *testing.T, login, email string) (id int64) {
	t.Helper()
	in, err := f.apply(t.Context(), login, email)
	if err != nil {
		t.Fatalf("registering %s: %v", login, err)
	}
	if diff := cmp.Diff(personal.SignedIn{}, in); diff != "" {
		t.Fatalf("registering %s: got a session: %s", login, diff)
	}
	found, err := f.store.FindAccount(t.Context(), accounts.AccountQuery{LoginKey: login})
	if err != nil {
		t.Fatal(err)
	}
	return found.ID
}

func (f *fixture) verify(t *testing.T, token string) error {
	t.Helper()
	return f.verifyAs(t, token, "")
}

// verifyAs confirms the address of an account that waits and has this login.
func (f *fixture) verifyAs(t *testing.T, token, login string) error {
	t.Helper()
	_, err := f.service.ConfirmEmail(t.Context(), personal.ConfirmEmailRequest{Token: token, Login: login})
	return err
}

func (f *fixture) resend(t *testing.T, login, email string) {
	t.Helper()
	if err := f.service.ResendVerification(t.Context(), personal.ResendVerificationRequest{Login: login, Email: email}); err != nil {
		t.Fatalf("requesting another verification mail: %v", err)
	}
	f.drain(t)
}

// wantState checks an account's e-mail, whether it was confirmed, and the address that
// it waits for.
func (f *fixture) wantState(t *testing.T, id int64, email string, verified bool, waiting string) {
	t.Helper()
	r, err := f.service.User(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if r.Email != email || r.EmailVerified != verified || r.UnverifiedEmail != waiting {
		t.Errorf("user %d: got e-mail %q, verified %t, waiting for %q; want %q, %t, %q",
			id, r.Email, r.EmailVerified, r.UnverifiedEmail, email, verified, waiting)
	}
}

func (f *fixture) wantRecipients(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, f.recipients()); diff != "" {
		t.Fatalf("mails (-want +got):\n%s", diff)
	}
}

// published returns the types of the account's events.
func (f *fixture) published(t *testing.T, id int64) (types []personal.EventType) {
	t.Helper()
	f.drain(t)
	for _, e := range f.host.Events() {
		if e.UserID == id {
			types = append(types, e.Type)
		}
	}
	return types
}

func TestVerification_OffMailsNothing(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := newFixture(t, url, optional, func(s *accounts.Settings) { s.EmailVerification = personal.VerificationOff })
		id := f.register(t, "ada").Credentials.UserID
		f.resend(t, "ada", "")
		f.setEmail(t, id, "ada@example.org")
		f.drain(t)
		f.wantRecipients(t, "ada@example.com") // the notice to the old address
	})
}

func TestVerification_TokenExpires(t *testing.T) {
	f := requiring(t, testdb.SQLite(t))
	f.applied(t, "ada", "ada@example.com")
	f.drain(t)
	f.clock.Advance(24*time.Hour - time.Second)
	digest, _ := token.MailDigest(f.tokens()[0])
	if _, err := f.store.FindMailToken(t.Context(), accounts.PurposeVerification, digest, f.settings.VerificationLifetime); err != nil {
		t.Fatalf("before the end of its lifetime: %v", err)
	}
	f.clock.Advance(time.Second)
	wantCode(t, f.verify(t, f.tokens()[0]), personal.CodeInvalidToken)
}

func TestVerification_RequiredAccountWaitsUntilConfirmed(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := requiring(t, url)
		id := f.applied(t, "ada", "Ada@Example.com")
		f.wantState(t, id, "", false, "Ada@Example.com")
		_, err := f.signIn("ada", goodPassword)
		wantCode(t, err, personal.CodeEmailUnverified)
		_, err = f.signIn("ada", "not the password")
		wantCode(t, err, personal.CodeInvalidCredentials)
		_, err = f.signIn("ada@example.com", goodPassword)
		wantCode(t, err, personal.CodeInvalidCredentials)
		f.recoverNow(t, personal.RecoverRequest{Login: "ada"})
		f.recoverNow(t, personal.RecoverRequest{Email: "ada@example.com"})
		f.wantRecipients(t, "Ada@Example.com") // the verification
		first := f.tokens()[0]
		wantCode(t, f.confirm(t, first), personal.CodeInvalidToken) // it is no recovery token

		f.disable(t, id)
		_, err = f.signIn("ada", goodPassword)
		wantCode(t, err, personal.CodeAccountDisabled)
		wantCode(t, f.verify(t, first), personal.CodeInvalidToken)
		if err := f.service.EnableUser(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		f.clock.Advance(time.Minute)
		f.resend(t, "ada", "")
		if err := f.verifyAs(t, f.tokens()[1], "ADA"); err != nil { // the mapped form counts
			t.Fatal(err)
		}
		f.wantState(t, id, "Ada@Example.com", true, "")
		for _, login := range []string{"ada", "ada@example.com"} {
			if _, err := f.signIn(login, goodPassword); err != nil {
				t.Errorf("signing in as %s: %v", login, err)
			}
		}
	})
}

// Nothing before the response of a registration depends on whose address it is.
func TestVerification_RequiredRevealsNoAddress(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f, h := guarded(t, url)
		f.settings.EmailVerification, f.settings.VerificationLifetime = personal.VerificationOptional, 24*time.Hour
		f.settings.Throttle.Register.Burst, f.settings.Throttle.TakenEmail.Burst = 100, 1
		counter := &statementCounter{}
		f.service = f.serve(counter.open(t, f, url), h)
		f.worker.Handlers = f.service.Jobs()
		owner := f.register(t, "owner") // before it is required
		disabled := f.register(t, "gone")
		f.disable(t, disabled.Credentials.UserID)
		f.service.RequireVerification(true)
		f.applied(t, "waits", "waited-for@example.com")
		register := func(login, email string) (statements []string, err error) {
			counter.take()
			in, err := f.apply(at(t, "203.0.113.1"), login, email)
			if diff := cmp.Diff(personal.SignedIn{}, in); diff != "" {
				t.Errorf("%s: got a result: %s", email, diff)
			}
			for _, s := range counter.take() {
				statements = append(statements, strings.Join(strings.Fields(s)[:min(4, len(strings.Fields(s)))], " "))
			}
			return statements, err
		}
		if _, err := register("first", "first@example.com"); err != nil { // prepares connections
			t.Fatal(err)
		}
		want, err := register("free", "free@example.com")
		if err != nil {
			t.Fatal(err)
		}
		wantTaken, loginTaken := register("free", "other@example.com")
		for i, email := range []string{"owner@example.com", "OWNER@example.com", "gone@example.com", "waited-for@example.com",
			"free@example.com"} {
			got, err := register(fmt.Sprint("user", i), email)
			if err != nil {
				t.Errorf("%s: got %v, want none", email, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: statements (-free +taken):\n%s", email, diff)
			}
			got, err = register("free", email) // the login of an account that waits
			if diff := cmp.Diff(fmt.Sprint(loginTaken, fieldErrors(loginTaken)), fmt.Sprint(err, fieldErrors(err))); diff != "" {
				t.Errorf("a taken login and %s: (-free e-mail +taken):\n%s", email, diff)
			}
			if diff := cmp.Diff(wantTaken, got); diff != "" {
				t.Errorf("a taken login and %s: statements (-free e-mail +taken):\n%s", email, diff)
			}
		}
		wantCode(t, loginTaken, personal.CodeAlreadyExists)
		if _, named := fieldErrors(loginTaken)["email"]; named {
			t.Error("a taken login names the e-mail")
		}
		f.wantState(t, owner.Credentials.UserID, "owner@example.com", false, "")
	})
}

func fieldErrors(err error) personal.FieldErrors {
	var e *personal.Error
	errors.As(err, &e)
	return e.FieldErrors
}

func TestVerification_OwnerOfATakenAddressIsTold(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := requiring(t, url)
		f.service.RequireVerification(false)
		ctx := personal.WithCall(t.Context(), personal.Call{Locale: "ru"})
		owner, err := f.apply(ctx, "owner", "Owner@example.com")
		if err != nil {
			t.Fatal(err)
		}
		f.drain(t)
		f.service.RequireVerification(true)
		f.clock.Advance(time.Hour)
		id := f.applied(t, "second", "owner@EXAMPLE.com")
		f.drain(t)
		f.wantRecipients(t, "Owner@example.com", "Owner@example.com")
		note := f.host.Mails()[1]
		if !strings.ContainsAny(note.Subject, "абвгдеопн") || strings.Contains(note.Text+note.HTML, "second") {
			t.Errorf("got a note that is not in the owner's language, or with user input:\n%s\n%s", note.Subject, note.Text)
		}
		if n := len(f.tokens()); n != 1 {
			t.Errorf("got %d tokens, want only that of the owner's registration", n)
		}
		f.wantState(t, id, "", false, "owner@EXAMPLE.com")
		f.clock.Advance(time.Hour)
		f.resend(t, "second", "") // no token either, and the owner gets no further note
		if n := len(f.tokens()); n != 1 || len(f.host.Mails()) != 2 {
			t.Errorf("after another request: got %d tokens and %d mails, want 1 and 2", n, len(f.host.Mails()))
		}
		f.disable(t, owner.Credentials.UserID)
		f.clock.Advance(time.Hour)
		f.applied(t, "third", "owner@example.com")
		f.drain(t)
		if n := len(f.tokens()); n != 1 || len(f.host.Mails()) != 3 {
			t.Errorf("the owner is disabled: got %d tokens and %d mails, want 1 and 3", n, len(f.host.Mails()))
		}
	})
}

// Another user registers with the address of someone who registers too: the owner of the
// mailbox confirms only the account whose login they type.
func TestVerification_RequiredAccountNeedsItsLogin(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := requiring(t, url)
		stranger := f.applied(t, "mallory", "ada@example.com")
		f.drain(t)
		f.clock.Advance(time.Hour)
		id := f.applied(t, "ada", "ada@example.com")
		f.drain(t)
		f.service.RequireVerification(false) // an account that waits needs it whatever the setting is now
		tokens := f.tokens()
		wantLogin := func(err error, want personal.FieldErrorCode) {
			t.Helper()
			wantCode(t, err, personal.CodeValidationFailed)
			if diff := cmp.Diff(personal.FieldErrors{"login": want}, fieldErrors(err)); diff != "" {
				t.Errorf("field errors (-want +got):\n%s", diff)
			}
		}
		for range accounts.MaxMismatches {
			wantLogin(f.verify(t, tokens[0]), personal.FieldErrorRequired)
			_, err := f.service.ConfirmEmail(t.Context(), personal.ConfirmEmailRequest{
				Token: tokens[0], FieldErrors: personal.FieldErrors{"login": personal.FieldErrorInvalidType},
			})
			wantLogin(err, personal.FieldErrorInvalidType)
		}
		others := []string{"ada", "nobody", "ada@example.com", "a", strings.Repeat("mallory", 100), "mallory x", "mal\u0131ory", "\xff", "mаllory"}
		for _, login := range others { // the e-mail, which the owner of the mailbox knows, is another login too
			wantLogin(f.verifyAs(t, tokens[0], login), personal.FieldErrorMismatch)
		}
		wantLogin(f.verifyAs(t, tokens[0], "ada"), personal.FieldErrorMismatch) // the tenth
		wantCode(t, f.verifyAs(t, tokens[0], "mallory"), personal.CodeInvalidToken)
		wantCode(t, f.verify(t, tokens[0]), personal.CodeInvalidToken) // before the login that is missing
		f.wantState(t, stranger, "", false, "ada@example.com")

		if err := f.verifyAs(t, tokens[1], "Ada"); err != nil { // counted with each token
			t.Fatal(err)
		}
		f.wantState(t, id, "ada@example.com", true, "")
		f.clock.Advance(time.Hour)
		f.delete(t, id)
		f.resend(t, "mallory", "") // a voided token does not block the account
		tokens = f.tokens()
		if err := f.verifyAs(t, tokens[len(tokens)-1], "mallory"); err != nil {
			t.Fatal(err)
		}
	})
}

func TestVerification_ResendFindsOnlyTheUnconfirmed(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := requiring(t, url)
		f.service.RequireVerification(false)
		unconfirmed := f.register(t, "unconfirmed").Credentials.UserID
		f.register(t, "confirmed")
		f.drain(t)
		if err := f.verify(t, f.tokens()[1]); err != nil {
			t.Fatal(err)
		}
		f.service.RequireVerification(true)
		waiting := f.applied(t, "waiting", "waiting@example.com")
		f.drain(t)
		for _, c := range []struct{ login, email, to string }{
			{"unconfirmed", "", "unconfirmed@example.com"},
			{"", "Unconfirmed@example.com", "unconfirmed@example.com"},
			{"unconfirmed@example.com", "", "unconfirmed@example.com"},
			{"unconfirmed", "unconfirmed@example.com", "unconfirmed@example.com"},
			{"waiting", "", "waiting@example.com"},
			{"", "waiting@example.com", "waiting@example.com"},
			{"waiting@example.com", "", "waiting@example.com"},
			{"waiting", "waiting@example.com", "waiting@example.com"},
			{"waiting@example.com", "waiting@example.com", "waiting@example.com"},
			{"confirmed", "", ""},
			{"", "confirmed@example.com", ""},
			{"unconfirmed", "waiting@example.com", ""},
			{"waiting", "unconfirmed@example.com", ""},
			{"waiting@example.com", "other@example.com", ""},
			{"nobody", "waiting@example.com", ""},
			{"nobody", "", ""},
		} {
			f.clock.Advance(12 * time.Minute)
			before := len(f.host.Mails())
			f.resend(t, c.login, c.email)
			var got string
			if mails := f.host.Mails()[before:]; len(mails) > 0 {
				got = mails[0].To
			}
			if got != c.to {
				t.Errorf("login %q, e-mail %q: got a mail to %q, want %q", c.login, c.email, got, c.to)
			}
		}
		f.disable(t, unconfirmed)
		f.disable(t, waiting)
		before := len(f.host.Mails())
		f.clock.Advance(time.Hour)
		f.resend(t, "unconfirmed", "")
		f.resend(t, "waiting", "")
		f.resend(t, "", "waiting@example.com")
		if n := len(f.host.Mails()) - before; n != 0 {
			t.Errorf("got %d mails to disabled accounts, want none", n)
		}
	})
}

func TestVerification_ResendHasTheLimitsOfRecovery(t *testing.T) {
	f, _ := guarded(t, testdb.SQLite(t))
	f.settings.EmailVerification = personal.VerificationOptional
	f.settings.Throttle.Recover.Burst, f.settings.Throttle.Recover.Every = 2, time.Hour
	f.service = f.serve(f.store, mustHasher(t, cheap))
	ctx := at(t, "203.0.113.1")
	if err := f.service.Recover(ctx, personal.RecoverRequest{Login: "ada"}); err != nil {
		t.Fatal(err)
	}
	if err := f.service.ResendVerification(ctx, personal.ResendVerificationRequest{Login: "ada"}); err != nil {
		t.Fatal(err)
	}
	wantCode(t, f.service.ResendVerification(ctx, personal.ResendVerificationRequest{Login: "ada"}), personal.CodeTooManyAttempts)
	wantCode(t, f.service.Recover(ctx, personal.RecoverRequest{Login: "ada"}), personal.CodeTooManyAttempts)
	err := f.service.ResendVerification(at(t, "203.0.113.2"), personal.ResendVerificationRequest{})
	if diff := cmp.Diff(personal.FieldErrors{"login": personal.FieldErrorRequired, "email": personal.FieldErrorRequired},
		fieldErrors(err)); diff != "" {
		t.Error(diff)
	}
}

func TestVerification_AdministratorFreesAWaitingAccount(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := requiring(t, url)
		id := f.applied(t, "ada", "typo@example.com")
		f.drain(t)
		for _, search := range []string{"typo@example.com", "typo@", "ada"} {
			page, err := f.service.FindUsers(t.Context(), personal.FindUsersRequest{Search: search})
			if err != nil || len(page.Users) != 1 || page.Users[0].ID != id || page.Users[0].UnverifiedEmail != "typo@example.com" {
				t.Errorf("searching %q: got %+v, error %v, want the account that waits", search, page.Users, err)
			}
		}
		f.setEmail(t, id, "ada@example.com")
		f.wantState(t, id, "ada@example.com", false, "")
		if _, err := f.signIn("ada", goodPassword); err != nil {
			t.Fatal(err)
		}
		wantCode(t, f.verify(t, f.tokens()[0]), personal.CodeInvalidToken)
		f.clock.Advance(time.Hour)
		f.drain(t)
		f.wantRecipients(t, "typo@example.com", "ada@example.com")
		if err := f.verify(t, f.tokens()[1]); err != nil {
			t.Fatal(err)
		}
		f.wantState(t, id, "ada@example.com", true, "")
	})
}

// A sign-in that is refused although the password is right is counted the same way,
// whatever the reason.
func TestVerification_RefusedSignInCostsWhatADisabledOneDoes(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		f, h := guarded(t, url)
		f.settings.EmailVerification = personal.VerificationOptional
		f.settings.Throttle.Register.Burst, f.settings.Throttle.SignInAccount.Burst = 100, 2
		counter := &statementCounter{}
		f.service = f.serve(counter.open(t, f, url), h)
		f.disable(t, f.register(t, "disabled").Credentials.UserID)
		f.service.RequireVerification(true)
		f.applied(t, "waiting", "waiting@example.com")
		f.try(t, "203.0.113.1", "nobody", goodPassword) // prepares connections
		attempts := func(login string, refused personal.Code) (statements int) {
			t.Helper()
			counter.take()
			f.wantTry(t, "203.0.113.1", login, goodPassword, refused)
			statements = len(counter.take())
			f.wantTry(t, "203.0.113.2", login, goodPassword, refused)
			f.wantTry(t, "203.0.113.3", login, goodPassword, personal.CodeTooManyAttempts)
			return statements
		}
		if d, w := attempts("disabled", personal.CodeAccountDisabled), attempts("waiting", personal.CodeEmailUnverified); d != w {
			t.Errorf("got %d statements for an account that waits, want the %d of a disabled one", w, d)
		}
	})
}
