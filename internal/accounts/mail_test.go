package accounts_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
)

// recoverNow requests a recovery and runs its job at once.
func (f *fixture) recoverNow(t *testing.T, r personal.RecoverRequest) {
	t.Helper()
	if err := f.service.Recover(t.Context(), r); err != nil {
		t.Fatalf("requesting a recovery: %v", err)
	}
	f.drain(t)
}

// drain runs every job that is due now.
func (f *fixture) drain(t *testing.T) {
	t.Helper()
	for {
		jobs, err := f.store.ClaimJobs(t.Context(), outbox.Claim{Kinds: f.kinds(), N: 100, Lease: time.Minute})
		if err != nil {
			t.Fatalf("claiming jobs: %v", err)
		}
		for _, j := range jobs {
			if err := f.worker.Handlers[j.Kind](t.Context(), j); err != nil && !errors.Is(err, outbox.ErrOver) {
				if err := f.store.RetryJob(t.Context(), j, f.clock.Now().Add(time.Second)); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if err := f.store.FinishJobs(t.Context(), j); err != nil {
				t.Fatal(err)
			}
		}
		if len(jobs) == 0 {
			return
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
	_, err := f.service.RecoverConfirm(t.Context(), personal.RecoverConfirmRequest{
		Token: token, Password: otherPassword, ConfirmPassword: otherPassword,
	})
	return err
}

// The host gets a mail with the id of the request that caused it, although the
// response was sent long before.
func TestMail_CarriesTheRequestID(t *testing.T) {
	f := newFixture(t, testdb.SQLite(t))
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
		_, err := f.service.ConfirmEmail(ctx, personal.ConfirmEmailRequest{Token: f.tokens()[1]})
		return err
	})
	if want := []string{"recovery", "change", "confirmation"}; !slices.Equal(carried, want) {
		t.Errorf("got mails with the request ids %q, want %q", carried, want)
	}
}

func TestRecoverConfirm_ExpiredTokenIsInvalid(t *testing.T) {
	f := newFixture(t, testdb.SQLite(t))
	f.register(t, "ada")
	f.recoverNow(t, personal.RecoverRequest{Login: "ada"})
	f.clock.Advance(f.settings.RecoveryLifetime)
	wantCode(t, f.confirm(t, f.tokens()[0]), personal.CodeInvalidToken)
}

// redeemedTwice is a store in which something happens once after a token was found.
type redeemedTwice struct {
	accounts.Store
	found func()
}

func (s *redeemedTwice) FindMailToken(ctx context.Context, p accounts.MailPurpose, digest [32]byte, lifetime time.Duration) (accounts.Account, error) {
	account, err := s.Store.FindMailToken(ctx, p, digest, lifetime)
	if found := s.found; found != nil && err == nil {
		s.found = nil
		found()
	}
	return account, err
}

func TestMail_TokenThatIsUsedUpMeanwhileIsInvalid(t *testing.T) {
	for name, test := range map[string]struct {
		open   func(testing.TB, string, ...func(*accounts.Settings)) *fixture
		mail   func(*fixture)
		redeem func(f *fixture, token string) error
	}{
		"verification": {requiring, func(f *fixture) { f.applied(t, "ada", "ada@example.com") },
			func(f *fixture, token string) error { return f.verifyAs(t, token, "ada") }},
		"change of the e-mail": {newFixture, func(f *fixture) {
			wantCode(t, f.service.ChangeEmail(t.Context(), personal.ChangeEmailRequest{
				Credentials: f.register(t, "ada").Credentials, Password: goodPassword, Email: "new@example.com",
			}), "")
		}, func(f *fixture, token string) error { return f.verify(t, token) }},
		"deletion": {newFixture, func(f *fixture) { f.leave(t, f.register(t, "ada")) },
			func(f *fixture, token string) error { return f.undo(t, token) }},
	} {
		t.Run(name, func(t *testing.T) {
			f := test.open(t, testdb.SQLite(t))
			test.mail(f)
			f.drain(t)
			token := f.tokens()[0]
			s := &redeemedTwice{Store: f.store}
			f.service = f.serve(s, mustHasher(t, cheap))
			s.found = func() { wantCode(t, test.redeem(f, token), "") }
			wantCode(t, test.redeem(f, token), personal.CodeInvalidToken)
		})
	}
}

func TestMail_RetryIsTheSameMailWithAValidToken(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
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
			t.Fatalf("got %d mails, want one, with the id of the failed one", len(mails))
		}
		if err := f.confirm(t, f.tokens()[0]); err != nil {
			t.Fatalf("confirming: %v", err)
		}
	})
}

func TestChangeEmail_ReplacesAWaitingChange(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		c := f.register(t, "ada").Credentials
		f.drain(t)
		var sent []string
		f.host.SendMailFunc = func(_ context.Context, m personal.Mail) error {
			sent = append(sent, m.To)
			if strings.HasPrefix(m.To, "typo") {
				return errors.New("not now")
			}
			return nil
		}
		ask := func(email string) {
			t.Helper()
			wantCode(t, f.service.ChangeEmail(t.Context(), personal.ChangeEmailRequest{Credentials: c, Password: goodPassword, Email: email}), "")
			f.drain(t)
		}
		ask("typo@example.com")
		f.clock.Advance(2 * time.Minute)
		ask("right@example.com")
		if last := sent[len(sent)-1]; last != "right@example.com" {
			t.Fatalf("got mails to %v, want the last to the newer address", sent)
		}
		before := len(sent)
		f.clock.Advance(time.Hour)
		f.drain(t)
		if len(sent) > before {
			t.Errorf("got mails to %v, want no retry of the older change", sent)
		}
	})
}

func TestMail_PermanentRefusalDropsItWithAnEvent(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		c := f.register(t, "ada").Credentials
		tries := 0
		f.host.SendMailFunc = func(context.Context, personal.Mail) error {
			tries++
			return fmt.Errorf("delivering: %w", personal.NewMailRefusedError("550 5.1.1 no such user"))
		}
		wantCode(t, f.service.ChangeEmail(t.Context(), personal.ChangeEmailRequest{Credentials: c, Password: goodPassword,
			Email: "typo@example.com"}), "")
		wantCode(t, f.service.Recover(t.Context(), personal.RecoverRequest{Login: "ada"}), "")
		for range 3 {
			f.drain(t)
			f.clock.Advance(time.Hour)
		}
		if tries != 2 {
			t.Errorf("got %d attempts for two mails, want 2", tries)
		}
		sent := 0
		for _, e := range f.host.Events() {
			if e.Type == personal.EventMailRefused && e.UserID == c.UserID && e.Actor == personal.ActorSystem {
				sent++
			}
		}
		if sent != 2 {
			t.Errorf("got %d mail_refused events, want 2", sent)
		}
	})
}
