package accounts_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
)

// leave deletes the account of the user, as they do themselves, and returns the token
// that undoes it.
func (f *fixture) leave(t *testing.T, in personal.SignedIn) (token string) {
	t.Helper()
	if _, err := f.service.Delete(t.Context(), personal.DeleteRequest{Credentials: in.Credentials, Password: goodPassword}); err != nil {
		t.Fatalf("deleting: %v", err)
	}
	before := len(f.tokens())
	f.drain(t)
	tokens := f.tokens()
	if len(tokens) != before+1 {
		t.Fatalf("got %d mailed tokens, want 1", len(tokens)-before)
	}
	return tokens[before]
}

func (f *fixture) undo(t *testing.T, token string) error {
	t.Helper()
	_, err := f.service.UndoDelete(t.Context(), personal.UndoDeleteRequest{Token: token})
	return err
}

func (f *fixture) enable(t *testing.T, id int64) {
	t.Helper()
	if err := f.service.EnableUser(t.Context(), id); err != nil {
		t.Fatalf("enabling: %v", err)
	}
}

func (f *fixture) eraseDue(t *testing.T) {
	t.Helper()
	if err := f.service.EraseDue(t.Context()); err != nil {
		t.Fatalf("erasing: %v", err)
	}
}

// exists reports whether the account is stored.
func (f *fixture) exists(t *testing.T, id int64) bool {
	t.Helper()
	_, err := f.store.Account(t.Context(), id)
	if err != nil && !errors.Is(err, accounts.ErrNotFound) {
		t.Fatal(err)
	}
	return err == nil
}

// registerUnverified stores an account that must verify its e-mail before the first
// sign-in.
func (f *fixture) registerUnverified(t *testing.T, login string) (id int64) {
	t.Helper()
	email := login + "@example.com"
	id, err := f.store.CreateWithoutSession(t.Context(), accounts.Account{
		Login: login, LoginKey: login, PasswordHash: "none", CredentialVersion: 1,
		Unverified: accounts.Email{Address: email, Key: email}, Created: f.clock.Now(), Updated: f.clock.Now(),
	}, func(int64) []accounts.NewJob { return nil })
	if err != nil {
		t.Fatalf("registering: %v", err)
	}
	return id
}

func TestDelete_MailIsInTheLocaleOfTheAccount(t *testing.T) {
	f := newFixture(t, testdb.SQLite(t))
	in := f.register(t, "ada")
	f.exec(t, "UPDATE personal_accounts SET locale = 'ru'")
	f.leave(t, in)
	if mails := f.host.Mails(); mails[0].Subject != "Ваша учётная запись будет удалена" {
		t.Errorf("got subject %q, want it in Russian", mails[0].Subject)
	}
}

// deletionCase is something that happens to an account that its user has deleted.
type deletionCase struct {
	happens func(f *fixture, t *testing.T, login string, id int64, token string)
	erased  bool // when the grace period has passed
	undone  bool // whether the token works afterwards
}

func (f *fixture) exec(t *testing.T, query string) {
	t.Helper()
	pools, err := dbconn.Open(f.url, dbconn.RequestLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer pools.Close()
	if _, err := pools.Write.ExecContext(t.Context(), query); err != nil {
		t.Fatal(err)
	}
}

var deletionCases = map[string]deletionCase{
	"nothing": {func(*fixture, *testing.T, string, int64, string) {}, true, true},
	"an administrator disables it": {func(f *fixture, t *testing.T, _ string, id int64, _ string) {
		f.disable(t, id)
	}, true, false},
	"an administrator disables it twice": {func(f *fixture, t *testing.T, _ string, id int64, _ string) {
		f.disable(t, id)
		f.disable(t, id)
	}, true, false},
	"an administrator enables it": {func(f *fixture, t *testing.T, _ string, id int64, _ string) {
		f.enable(t, id)
	}, false, false},
	"an administrator enables and disables it": {func(f *fixture, t *testing.T, _ string, id int64, _ string) {
		f.enable(t, id)
		f.disable(t, id)
	}, false, false},
	"an administrator disables and enables it": {func(f *fixture, t *testing.T, _ string, id int64, _ string) {
		f.disable(t, id)
		f.enable(t, id)
	}, false, false},
	"the user undoes it": {func(f *fixture, t *testing.T, _ string, _ int64, token string) {
		if err := f.undo(t, token); err != nil {
			t.Fatalf("undoing: %v", err)
		}
	}, false, false},
	"the user undoes it, an administrator disables it": {func(f *fixture, t *testing.T, _ string, id int64, token string) {
		if err := f.undo(t, token); err != nil {
			t.Fatalf("undoing: %v", err)
		}
		f.disable(t, id)
	}, false, false},
	"the user undoes it and deletes it again": {func(f *fixture, t *testing.T, login string, _ int64, token string) {
		if err := f.undo(t, token); err != nil {
			t.Fatalf("undoing: %v", err)
		}
		again, err := f.signIn(login, goodPassword)
		if err != nil {
			t.Fatal(err)
		}
		f.leave(t, again)
	}, true, false},
}

func TestDelete_ErasureFollowsOnlyWhileTheDeletionStands(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		ids, tokens, n := map[string]int64{}, map[string]string{}, 0
		for name, c := range deletionCases {
			for _, undo := range []bool{false, true} {
				n++
				login := fmt.Sprint("user", n)
				in := f.register(t, login)
				token := f.leave(t, in)
				f.clock.Advance(time.Hour)
				c.happens(f, t, login, in.Credentials.UserID, token)
				if undo {
					if err := f.undo(t, token); (err == nil) != c.undone {
						t.Errorf("%s: undoing the deletion gets %v, want success: %t", name, err, c.undone)
					}
					f.delete(t, in.Credentials.UserID)
					continue
				}
				ids[name], tokens[name] = in.Credentials.UserID, token
				record, err := f.service.User(t.Context(), in.Credentials.UserID)
				if err != nil || record.EraseAt.IsZero() == c.erased {
					t.Errorf("%s: administrators see an erasure at %v (%v), want one: %t", name, record.EraseAt, err, c.erased)
				}
			}
		}
		f.clock.Advance(f.settings.DeletionGrace)
		f.eraseDue(t)
		for name, c := range deletionCases {
			if f.exists(t, ids[name]) == c.erased {
				t.Errorf("%s: the account exists: %t, want it erased: %t", name, !c.erased, c.erased)
			}
			wantCode(t, f.undo(t, tokens[name]), personal.CodeInvalidToken)
		}
		for _, want := range []personal.EventType{personal.EventDeletionRequested, personal.EventDeletionUndone} {
			if !slices.ContainsFunc(f.host.Events(), func(e personal.Event) bool { return e.Type == want }) {
				t.Errorf("got no event %s", want)
			}
		}
	})
}

func TestDelete_ErasureComesWithTheEndOfTheToken(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		in := f.register(t, "ada")
		in2 := f.register(t, "bob")
		token, token2 := f.leave(t, in), f.leave(t, in2)
		f.clock.Advance(f.settings.DeletionGrace - time.Microsecond)
		f.eraseDue(t)
		if err := f.undo(t, token); err != nil {
			t.Errorf("undoing at the last moment: %v", err)
		}
		if !f.exists(t, in2.Credentials.UserID) {
			t.Error("the account was erased too early")
		}
		f.clock.Advance(time.Microsecond)
		wantCode(t, f.undo(t, token2), personal.CodeInvalidToken)
		f.eraseDue(t)
		if f.exists(t, in2.Credentials.UserID) || !f.exists(t, in.Credentials.UserID) {
			t.Error("got another account erased than that whose deletion stands")
		}
	})
}

func TestErasure_ReachesOnlyAccountsThatNeverVerified(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		normal := f.register(t, "ada").Credentials.UserID
		disabled := f.register(t, "bob").Credentials.UserID
		f.disable(t, disabled)
		waiting := f.registerUnverified(t, "eve")
		confirmed := f.registerUnverified(t, "zoe")
		f.exec(t, fmt.Sprintf("UPDATE personal_accounts SET email = 'zoe@example.com', email_key = 'zoe@example.com', "+
			"unverified_email = '', unverified_key = NULL WHERE id = %d", confirmed))
		withoutEmail := f.registerUnverified(t, "tom")
		f.exec(t, fmt.Sprintf("UPDATE personal_accounts SET unverified_email = '', unverified_key = NULL WHERE id = %d", withoutEmail))
		f.exec(t, fmt.Sprintf("UPDATE personal_accounts SET unverified_email = 'a@example.org', unverified_key = 'a@example.org' WHERE id = %d", normal))
		f.clock.Advance(f.settings.UnverifiedLifetime - time.Microsecond)
		later := f.registerUnverified(t, "kim")
		f.eraseDue(t)
		if !f.exists(t, waiting) {
			t.Fatal("an account was erased before its time to verify was over")
		}
		f.clock.Advance(time.Microsecond)
		f.eraseDue(t)
		for id, want := range map[int64]bool{normal: true, disabled: true, waiting: false, confirmed: true, withoutEmail: true, later: true} {
			// As if the account had changed since it was due.
			if _, err := f.service.EraseIfDue(t.Context(), id); err != nil {
				t.Error(err)
			}
			if got := f.exists(t, id); got != want {
				t.Errorf("account %d exists: %t, want %t", id, got, want)
			}
		}
		f.drain(t)
		i := slices.IndexFunc(f.host.Events(), func(e personal.Event) bool { return e.Type == personal.EventUserDeleted })
		if i < 0 || f.host.Events()[i].Actor != personal.ActorSystem || f.host.Events()[i].UserID != waiting {
			t.Errorf("got events %+v, want user_deleted of %d by system", f.host.Events(), waiting)
		}
	})
}

// More accounts than one batch are due, and some of them cannot be erased.
func TestErasure_GoesOnBehindAccountsThatItLeaves(t *testing.T) {
	f := newFixture(t, testdb.SQLite(t))
	const total = 250
	for i := range total {
		f.registerUnverified(t, fmt.Sprint("user", i))
	}
	f.clock.Advance(f.settings.UnverifiedLifetime)
	s := &changing{Store: f.store}
	f.service = f.serve(s, nil)
	f.eraseDue(t)
	if s.asked != total || s.left != total/5 {
		t.Errorf("got %d accounts tried and %d left, want %d and %d", s.asked, s.left, total, total/5)
	}
	f.service = f.serve(f.store, nil)
	f.eraseDue(t)
	if left, err := f.store.DueErasures(t.Context(), f.clock.Now(), 0, total); err != nil || len(left) != 0 {
		t.Errorf("after the next call: got %d accounts, error %v, want none", len(left), err)
	}
}

// changing is a store in which every fifth account changes before it is erased.
type changing struct {
	accounts.Store
	asked, left int
}

func (s *changing) EraseAccount(
	ctx context.Context, id int64, due func(accounts.Account) bool, remains func(accounts.Account, outbox.Job) []byte, jobs ...accounts.NewJob,
) error {
	if s.asked++; s.asked%5 == 0 {
		s.left++
		return accounts.ErrStale
	}
	return s.Store.EraseAccount(ctx, id, due, remains, jobs...)
}

func TestErasure_HostIsToldUntilItSucceeds(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		calls := 0
		f.host.EraseUserFunc = func(context.Context, int64) error {
			if calls++; calls <= 2 {
				return errors.New("the search index is away")
			}
			return nil
		}
		id := f.register(t, "ada").Credentials.UserID
		f.delete(t, id)
		for range 2 {
			f.drain(t) // the first attempts fail
			if erased := f.host.Erased(); len(erased) > 0 {
				t.Fatalf("got %v erased after %d calls, want nothing yet", erased, calls)
			}
			f.clock.Advance(time.Hour)
		}
		if _, err := f.store.RevokeAll(t.Context()); err != nil { // after a backup was restored
			t.Fatal(err)
		}
		f.drain(t)
		f.wantNoJobs(t)
		if erased := f.host.Erased(); !slices.Equal(erased, []int64{id}) || calls != 3 {
			t.Errorf("got %v erased in %d calls, want %d in 3", erased, calls, id)
		}
	})
}

func TestErasure_HostThatKeepsNothingIsNotTold(t *testing.T) {
	f := newFixture(t, testdb.SQLite(t))
	keepsNothing := struct{ personal.Host }{f.host}
	f.service = accounts.New(f.settings, f.store, mustHasher(t, cheap), keepsNothing, slog.New(slog.DiscardHandler), f.worker.Wake)
	f.worker.Handlers = f.service.Jobs()
	f.delete(t, f.register(t, "ada").Credentials.UserID)
	f.drain(t)
	f.wantNoJobs(t)
}

func TestEraseDue_ContinuesAfterAnAccountThatCannotBeErased(t *testing.T) {
	f := newFixture(t, testdb.SQLite(t))
	var last int64
	for _, login := range []string{"ada", "bob"} {
		in := f.register(t, login)
		if _, err := f.service.Delete(t.Context(), personal.DeleteRequest{Credentials: in.Credentials, Password: goodPassword}); err != nil {
			t.Fatal(err)
		}
		last = in.Credentials.UserID
	}
	f.exec(t, "UPDATE personal_accounts SET fields = '[' WHERE login = 'ada'") // unreadable
	f.clock.Advance(f.settings.DeletionGrace)
	if err := f.service.EraseDue(t.Context()); err == nil {
		t.Error("got no error for the account that cannot be erased")
	}
	if f.exists(t, last) {
		t.Error("the other account was not erased")
	}
}
