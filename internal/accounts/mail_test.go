package accounts_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/shared/personal"
)

// recoverNow asks for a recovery and does the work at once.
func (f *fixture) recoverNow(t *testing.T, r personal.RecoverRequest) {
	t.Helper()
	if err := f.service.Recover(t.Context(), r); err != nil {
		t.Fatalf("asking for a recovery: %v", err)
	}
	f.drain(t)
}

// drain does every job that is due now.
func (f *fixture) drain(t *testing.T) {
	t.Helper()
	for {
		jobs, err := f.store.ClaimJobs(t.Context(), f.kinds(), f.clock.Now().Add(time.Minute), 100)
		if err != nil {
			t.Fatalf("claiming jobs: %v", err)
		}
		if len(jobs) == 0 {
			return
		}
		for _, j := range jobs {
			if err := f.worker.Handlers[j.Kind](t.Context(), j); err != nil {
				if err := f.store.RetryJob(t.Context(), j, f.clock.Now().Add(time.Second)); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if err := f.store.FinishJob(t.Context(), j); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func (f *fixture) tokens() (tokens []string) {
	for _, m := range f.host.Mails() {
		for line := range strings.Lines(m.Text) {
			if line = strings.TrimSpace(line); len(line) == 43 {
				tokens = append(tokens, line)
			}
		}
	}
	return tokens
}

func (f *fixture) confirm(t *testing.T, token string) error {
	return f.service.RecoverConfirm(t.Context(), personal.RecoverConfirmRequest{
		Token: token, Password: otherPassword, ConfirmPassword: otherPassword,
	})
}

func TestAnAccountGetsOneMailAMinuteAndFiveAnHour(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		f.register(t, "ada")
		f.register(t, "bob")
		var sent []int
		for range 8 {
			f.recoverNow(t, personal.RecoverRequest{Login: "ada"})
			f.recoverNow(t, personal.RecoverRequest{Email: "ada@example.com"}) // right behind: one too many
			sent = append(sent, len(f.host.Mails()))
			f.clock.Advance(time.Minute)
		}
		if got := sent[0]; got != 1 {
			t.Fatalf("%d mails within a minute, want 1", got)
		}
		if got := sent[7]; got != 5 {
			t.Fatalf("%d mails within an hour, want 5", got)
		}
		f.recoverNow(t, personal.RecoverRequest{Login: "bob"})
		if got := len(f.host.Mails()); got != 6 {
			t.Fatalf("%d mails, want 6: another account has a count of its own", got)
		}
		f.clock.Advance(time.Hour)
		f.recoverNow(t, personal.RecoverRequest{Login: "ada"})
		if got := len(f.host.Mails()); got != 7 {
			t.Fatalf("%d mails after an hour, want 7", got)
		}
	})
}

func TestANewerMailLeavesEarlierTokensValidAndSuccessVoidsAll(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		f.register(t, "ada")
		for range 3 {
			f.recoverNow(t, personal.RecoverRequest{Login: "ada"})
			f.clock.Advance(2 * time.Minute)
		}
		tokens := f.tokens()
		if len(tokens) != 3 {
			t.Fatalf("%d tokens, want 3", len(tokens))
		}
		if err := f.confirm(t, tokens[1]); err != nil {
			t.Fatalf("confirming with an earlier token: %v", err)
		}
		for _, token := range tokens {
			wantCode(t, f.confirm(t, token), personal.CodeInvalidToken)
		}
	})
}

// A token is made for the address that the account has: of one that changes while
// the mail is being made, none is left over that the old mailbox could use.
func TestAnEmailThatChangesWhileAMailIsMadeGetsNoToken(t *testing.T) {
	f, s, _ := spied(t, testkit.SQLite(t), cheap)
	in := f.register(t, "ada")
	change := personal.ChangeEmailRequest{Credentials: in.Credentials, Password: goodPassword, Email: "new@example.com"}
	if err := f.service.ChangeEmail(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	f.drain(t)
	token := f.tokens()[0]
	f.worker.Handlers = f.service.Jobs() // which look at the store through the spy
	s.found = func() {
		if err := f.service.ConfirmEmail(t.Context(), personal.ConfirmEmailRequest{Token: token}); err != nil {
			t.Errorf("confirming: %v", err)
		}
	}
	f.recoverNow(t, personal.RecoverRequest{Login: "ada"})
	if tokens := f.tokens(); len(tokens) != 1 {
		t.Fatalf("%d tokens were mailed, want the confirmation's alone", len(tokens))
	}
}

// A mail is handed to the host under the id of the request that caused it, though
// that was answered long before.
func TestEveryMailCarriesTheIDOfItsRequest(t *testing.T) {
	f := newFixture(t, testkit.SQLite(t))
	in := f.register(t, "ada")
	var carried []string
	f.host.SendMailFunc = func(ctx context.Context, _ personal.Mail) error {
		carried = append(carried, personal.CallFrom(ctx).RequestID)
		return nil
	}
	during := func(id string, request func(ctx context.Context) error) {
		t.Helper()
		if err := request(personal.WithCall(t.Context(), personal.Call{RequestID: id})); err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		f.drain(t)
	}
	during("recovery", func(ctx context.Context) error {
		return f.service.Recover(ctx, personal.RecoverRequest{Login: "ada"})
	})
	during("change", func(ctx context.Context) error {
		return f.service.ChangeEmail(ctx, personal.ChangeEmailRequest{
			Credentials: in.Credentials, Password: goodPassword, Email: "new@example.com",
		})
	})
	during("confirmation", func(ctx context.Context) error {
		return f.service.ConfirmEmail(ctx, personal.ConfirmEmailRequest{Token: f.tokens()[1]})
	})
	if want := []string{"recovery", "change", "confirmation"}; !slices.Equal(carried, want) {
		t.Errorf("mails carry %q, want %q", carried, want)
	}
}

func TestATokenExpires(t *testing.T) {
	f := newFixture(t, testkit.SQLite(t))
	f.register(t, "ada")
	f.recoverNow(t, personal.RecoverRequest{Login: "ada"})
	f.clock.Advance(f.settings.MailLifetime)
	wantCode(t, f.confirm(t, f.tokens()[0]), personal.CodeInvalidToken)
}

func TestAPasswordChangeVoidsMailedTokens(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		in := f.register(t, "ada")
		f.recoverNow(t, personal.RecoverRequest{Login: "ada"})
		change := personal.ChangeEmailRequest{Credentials: in.Credentials, Password: goodPassword, Email: "new@example.com"}
		if err := f.service.ChangeEmail(t.Context(), change); err != nil {
			t.Fatal(err)
		}
		fresh := f.changePassword(t, in.Credentials, goodPassword, otherPassword)
		f.drain(t) // the confirmation that was asked for before is not mailed any more
		tokens := f.tokens()
		if len(tokens) != 1 {
			t.Fatalf("%d tokens, want the recovery's alone", len(tokens))
		}
		wantCode(t, f.confirm(t, tokens[0]), personal.CodeInvalidToken)
		if p, err := f.service.Profile(t.Context(), fresh); err != nil || p.Email != "ada@example.com" {
			t.Fatalf("e-mail %q, %v", p.Email, err)
		}
	})
}

func TestASecondEmailChangeWithinAMinuteMustWait(t *testing.T) {
	f := newFixture(t, testkit.SQLite(t))
	in := f.register(t, "ada")
	change := personal.ChangeEmailRequest{Credentials: in.Credentials, Password: goodPassword, Email: "new@example.com"}
	if err := f.service.ChangeEmail(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	err := f.service.ChangeEmail(t.Context(), change)
	wantCode(t, err, personal.CodeTooManyAttempts)
	var e *personal.Error
	if !errors.As(err, &e) || e.RetryAfter <= 0 || e.RetryAfter > time.Minute {
		t.Fatalf("retry after %v", e.RetryAfter)
	}
}

func TestAMailThatFailedIsSentAgainAndItsTokenIsGood(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		f.register(t, "ada")
		var failed []personal.Mail
		f.host.SendMailFunc = func(_ context.Context, m personal.Mail) error {
			if len(failed) == 0 {
				failed = append(failed, m)
				return errors.New("no mail server")
			}
			return nil
		}
		f.recoverNow(t, personal.RecoverRequest{Login: "ada"})
		f.clock.Advance(time.Second)
		f.drain(t)
		mails := f.host.Mails()
		if len(mails) != 1 || mails[0].ID != failed[0].ID {
			t.Fatalf("%d mails; the second try must be the same mail", len(mails))
		}
		if err := f.confirm(t, f.tokens()[0]); err != nil {
			t.Fatalf("confirming: %v", err)
		}
	})
}

func TestAnAddressTakenMeanwhileUsesTheTokenNotUp(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		in := f.register(t, "ada")
		change := personal.ChangeEmailRequest{Credentials: in.Credentials, Password: goodPassword, Email: "bob@example.com"}
		if err := f.service.ChangeEmail(t.Context(), change); err != nil {
			t.Fatal(err)
		}
		f.drain(t)
		f.register(t, "bob")
		for range 2 {
			err := f.service.ConfirmEmail(t.Context(), personal.ConfirmEmailRequest{Token: f.tokens()[0]})
			wantCode(t, err, personal.CodeAlreadyExists)
		}
	})
}
