package accounts_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
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

func TestDelete_DisablesTheAccountAndMailsAToken(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		in := f.register(t, "ada")
		other, err := f.signIn("ada", goodPassword)
		if err != nil {
			t.Fatal(err)
		}
		eraseAt, err := f.service.Delete(t.Context(), personal.DeleteRequest{Credentials: in.Credentials, Password: goodPassword})
		if err != nil {
			t.Fatal(err)
		}
		if want := f.clock.Now().Add(f.settings.DeletionGrace); !eraseAt.Equal(want) || eraseAt.Location() != time.UTC {
			t.Errorf("got an erasure at %v, want %v", eraseAt, want)
		}
		record, err := f.service.User(t.Context(), in.Credentials.UserID)
		if err != nil || !record.Disabled || !record.EraseAt.Equal(eraseAt) {
			t.Errorf("got user %+v, error %v, want them disabled and erased at %v", record.User, err, eraseAt)
		}
		for _, c := range []personal.Credentials{in.Credentials, other.Credentials} {
			_, err := f.service.Profile(t.Context(), c)
			wantCode(t, err, personal.CodeUnauthenticated)
		}
		_, err = f.signIn("ada", goodPassword)
		wantCode(t, err, personal.CodeAccountDisabled)
		f.drain(t)
		f.recoverNow(t, personal.RecoverRequest{Login: "ada"})
		if tokens := f.tokens(); len(tokens) != 1 {
			t.Fatalf("got %d mailed tokens, want only that of the deletion", len(tokens))
		}
		for _, r := range []personal.RegisterRequest{{Login: "ada", Email: "else@example.com"}, {Login: "else", Email: "ada@example.com"}} {
			r.Password, r.ConfirmPassword = goodPassword, goodPassword
			_, err := f.service.Register(t.Context(), r)
			wantCode(t, err, personal.CodeAlreadyExists)
		}
		if err := f.undo(t, f.tokens()[0]); err != nil {
			t.Fatalf("undoing: %v", err)
		}
		if _, err := f.signIn("ada", goodPassword); err != nil {
			t.Errorf("signing in after the deletion was undone: %v", err)
		}
		wantCode(t, f.undo(t, f.tokens()[0]), personal.CodeInvalidToken)
		f.clock.Advance(2 * f.settings.DeletionGrace)
		f.eraseDue(t)
		if !f.exists(t, in.Credentials.UserID) {
			t.Error("the account was erased, although its user has undone the deletion")
		}
		f.drain(t)
		var types []personal.EventType
		for _, e := range f.host.Events() {
			types = append(types, e.Type)
		}
		for _, want := range []personal.EventType{personal.EventDeletionRequested, personal.EventDeletionUndone} {
			if !slices.Contains(types, want) {
				t.Errorf("got events %v, want %s among them", types, want)
			}
		}
	})
}

func TestDelete_JudgesThePasswordAfterTheCaller(t *testing.T) {
	f := newFixture(t, testdb.SQLite(t), threeGuesses)
	in := f.register(t, "ada")
	try := func(c personal.Credentials, password string, invalid personal.FieldErrors) error {
		_, err := f.service.Delete(at(t, "203.0.113.1"), personal.DeleteRequest{Credentials: c, Password: password, FieldErrors: invalid})
		return err
	}
	wantField := func(err error, parameter string, want personal.FieldErrorCode) {
		t.Helper()
		wantCode(t, err, personal.CodeValidationFailed)
		var e *personal.Error
		if errors.As(err, &e); e.FieldErrors[parameter] != want {
			t.Errorf("got field errors %v, want %s: %s", e.FieldErrors, parameter, want)
		}
	}
	wantCode(t, try(personal.Credentials{UserID: in.Credentials.UserID, UserHash: "x"}, "", nil), personal.CodeUnauthenticated)
	wantField(try(in.Credentials, "", nil), "password", personal.FieldErrorRequired)
	wantField(try(in.Credentials, goodPassword, personal.FieldErrors{"other": personal.FieldErrorUnknownField}), "other",
		personal.FieldErrorUnknownField)
	for range 3 {
		wantField(try(in.Credentials, otherPassword, nil), "password", personal.FieldErrorMismatch)
	}
	wantCode(t, try(in.Credentials, goodPassword, nil), personal.CodeTooManyAttempts)
	if _, err := f.service.Profile(t.Context(), in.Credentials); err != nil {
		t.Errorf("refused deletions ended the session: %v", err)
	}
}

// The deletion happens while a mail of an earlier request is being made.
func TestDelete_VoidsTokensAndWaitingMails(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		in := f.register(t, "ada")
		f.recoverNow(t, personal.RecoverRequest{Login: "ada"})
		recovery := f.tokens()[0]
		err := f.service.ChangeEmail(t.Context(), personal.ChangeEmailRequest{Credentials: in.Credentials, Password: goodPassword,
			Email: "new@example.com"})
		if err != nil {
			t.Fatal(err)
		}
		token := f.leave(t, in)
		for _, m := range f.host.Mails() {
			if m.To != "ada@example.com" {
				t.Errorf("got a mail to %s, want none: the account was deleted", m.To)
			}
		}
		wantCode(t, f.confirm(t, recovery), personal.CodeInvalidToken)
		wantCode(t, f.confirm(t, token), personal.CodeInvalidToken) // of another purpose
		if err := f.undo(t, token); err != nil {
			t.Errorf("undoing: %v", err)
		}
		f.drain(t)
		f.wantNoJobs(t)
	})
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
		f.clock.Advance(f.settings.UnverifiedLifetime - time.Microsecond)
		later := f.registerUnverified(t, "kim")
		f.eraseDue(t)
		if !f.exists(t, waiting) {
			t.Fatal("an account was erased before its time to verify was over")
		}
		f.clock.Advance(time.Microsecond)
		f.eraseDue(t)
		for id, want := range map[int64]bool{normal: true, disabled: true, waiting: false, confirmed: true, later: true} {
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

// erasures are the ways in which an account is erased.
var erasures = map[string]func(f *fixture, t *testing.T) (id int64){
	"by an administrator": func(f *fixture, t *testing.T) int64 {
		id := f.register(t, "ada").Credentials.UserID
		f.delete(t, id)
		return id
	},
	"after a deletion": func(f *fixture, t *testing.T) int64 {
		in := f.register(t, "ada")
		f.leave(t, in)
		f.clock.Advance(f.settings.DeletionGrace)
		f.eraseDue(t)
		return in.Credentials.UserID
	},
	"without a verified e-mail": func(f *fixture, t *testing.T) int64 {
		id := f.registerUnverified(t, "ada")
		f.clock.Advance(f.settings.UnverifiedLifetime)
		f.eraseDue(t)
		return id
	},
}

func TestErasure_HostIsToldUntilItSucceeds(t *testing.T) {
	for name, erase := range erasures {
		t.Run(name, func(t *testing.T) {
			testdb.Database(t, func(t *testing.T, url string) {
				f := newFixture(t, url)
				calls := 0
				f.host.EraseUserFunc = func(context.Context, int64) error {
					if calls++; calls <= 2 {
						return errors.New("the search index is away")
					}
					return nil
				}
				id := erase(f, t)
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
		})
	}
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

func TestErasure_OfSeveralNodesHappensOnce(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		const users = 40
		for i := range users {
			f.registerUnverified(t, fmt.Sprint("user", i))
		}
		f.clock.Advance(f.settings.UnverifiedLifetime)
		f.worker.Handlers = f.service.Jobs()
		var nodes sync.WaitGroup
		for range 4 {
			nodes.Go(func() {
				if err := f.service.EraseDue(context.Background()); err != nil {
					t.Errorf("erasing: %v", err)
				}
			})
		}
		nodes.Wait()
		f.eraseDue(t) // what all nodes found locked by another
		f.drain(t)
		var erased []int64
		for _, e := range f.host.Events() {
			erased = append(erased, e.UserID)
		}
		slices.Sort(erased)
		if n := len(slices.Compact(slices.Clone(erased))); n != users || len(erased) != users {
			t.Errorf("got %d events of %d users, want %d of as many", len(erased), n, users)
		}
	})
}

// leaving and waiting make accounts whose erasure is due while their tokens are valid.
func leaving(f *fixture, t *testing.T, n int) (ids []int64, tokens []string) {
	for i := range n {
		in := f.register(t, fmt.Sprint("user", i))
		ids, tokens = append(ids, in.Credentials.UserID), append(tokens, f.leave(t, in))
	}
	f.exec(t, fmt.Sprintf("UPDATE personal_accounts SET erase_at = %d", f.clock.Now().UnixMicro()))
	return ids, tokens
}

func waiting(f *fixture, t *testing.T, n int) (ids []int64, tokens []string) {
	f.settings.EmailVerification, f.settings.VerificationLifetime = personal.VerificationRequired, 2*f.settings.UnverifiedLifetime
	f.service = f.serve(f.store, mustHasher(t, cheap))
	f.worker.Handlers = f.service.Jobs()
	for i := range n {
		ids = append(ids, f.registerUnverified(t, fmt.Sprint("user", i)))
		if err := f.service.ResendVerification(t.Context(), personal.ResendVerificationRequest{Login: fmt.Sprint("user", i)}); err != nil {
			t.Fatal(err)
		}
		f.drain(t)
	}
	f.clock.Advance(f.settings.UnverifiedLifetime)
	return ids, f.tokens()
}

// An account is never erased after another operation has kept it, and that operation
// never succeeds on an erased account.
func TestErasure_RacesWithWhatKeepsTheAccount(t *testing.T) {
	const users = 12
	for name, c := range map[string]struct {
		made func(f *fixture, t *testing.T, n int) (ids []int64, tokens []string)
		keep func(f *fixture, id int64, token string) error
	}{
		"undoing": {leaving, func(f *fixture, _ int64, token string) error {
			_, err := f.service.UndoDelete(context.Background(), personal.UndoDeleteRequest{Token: token})
			return err
		}},
		"enabling": {leaving, func(f *fixture, id int64, _ string) error { return f.service.EnableUser(context.Background(), id) }},
		"verifying": {waiting, func(f *fixture, _ int64, token string) error {
			_, err := f.service.ConfirmEmail(context.Background(), personal.ConfirmEmailRequest{Token: token})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			testdb.Databases(t, func(t *testing.T, url string) {
				f := newFixture(t, url)
				ids, tokens := c.made(f, t, users)
				kept := make([]error, users)
				var all sync.WaitGroup
				start := make(chan struct{})
				for range 2 {
					all.Go(func() {
						<-start
						if err := f.service.EraseDue(context.Background()); err != nil {
							t.Errorf("erasing: %v", err)
						}
					})
				}
				for i := range users {
					all.Go(func() {
						<-start
						kept[i] = c.keep(f, ids[i], tokens[i])
					})
				}
				close(start)
				all.Wait()
				f.eraseDue(t)
				won := 0
				for i, err := range kept {
					if err == nil {
						won++
					}
					if exists := f.exists(t, ids[i]); exists != (err == nil) {
						t.Errorf("user %d: keeping the account gets %v, and it exists: %t", i, err, exists)
					}
				}
				t.Logf("%d of %d accounts were kept", won, users)
			})
		})
	}
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
