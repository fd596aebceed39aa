package accounts_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/internal/token"
	"github.com/cms-personal/personal/shared/personal"
)

// prove returns a proof of the session's user.
func (f *fixture) prove(t testing.TB, ctx context.Context, c personal.Credentials, code string) personal.Proof {
	t.Helper()
	p, err := f.service.Prove(ctx, personal.ProveRequest{Credentials: c, Password: goodPassword, Code: code})
	if err != nil {
		t.Fatalf("proving: %v", err)
	}
	return p
}

// provenUses are the operations that take a proof in place of password and code.
var provenUses = map[string]use{
	"password": func(ctx context.Context, s *accounts.Service, c personal.Credentials, proof string) error {
		_, err := s.ChangePassword(ctx, personal.ChangePasswordRequest{
			Credentials: c, Password: otherPassword, ConfirmPassword: otherPassword, Proof: proof,
		})
		return err
	},
	"email": func(ctx context.Context, s *accounts.Service, c personal.Credentials, proof string) error {
		return s.ChangeEmail(ctx, personal.ChangeEmailRequest{Credentials: c, Email: "new@example.com", Proof: proof})
	},
	"export": func(ctx context.Context, s *accounts.Service, c personal.Credentials, proof string) error {
		_, err := s.Export(ctx, personal.ExportRequest{Credentials: c, Proof: proof})
		return err
	},
	"delete": func(ctx context.Context, s *accounts.Service, c personal.Credentials, proof string) error {
		_, err := s.Delete(ctx, personal.DeleteRequest{Credentials: c, Proof: proof})
		return err
	},
	"two_factor": func(ctx context.Context, s *accounts.Service, c personal.Credentials, proof string) error {
		_, err := s.BeginTwoFactor(ctx, personal.BeginTwoFactorRequest{Credentials: c, Proof: proof})
		return err
	},
	"two_factor_codes": func(ctx context.Context, s *accounts.Service, c personal.Credentials, proof string) error {
		_, err := s.RenewRecoveryCodes(ctx, personal.RenewRecoveryCodesRequest{Credentials: c, Proof: proof})
		return err
	},
	"two_factor_remove": func(ctx context.Context, s *accounts.Service, c personal.Credentials, proof string) error {
		_, err := s.RemoveOwnTwoFactor(ctx, personal.RemoveOwnTwoFactorRequest{Credentials: c, Proof: proof})
		return err
	},
}

// isWrongProof reports whether a proof was refused, and nothing else.
func isWrongProof(err error) bool {
	var e *personal.Error
	return errors.As(err, &e) && e.Code == personal.CodeValidationFailed && len(e.FieldErrors) == 1 &&
		e.FieldErrors["proof"] == personal.FieldErrorMismatch
}

// wantNoProof checks that every operation refuses the proof.
func (f *fixture) wantNoProof(t *testing.T, why string, c personal.Credentials, proof string) {
	t.Helper()
	for name, use := range provenUses {
		if err := use(t.Context(), f.service, c, proof); !isWrongProof(err) {
			t.Errorf("%s with a proof %s: got %v, want the field error mismatch of proof", name, why, err)
		}
	}
}

func TestProof_EndsAfterItsLifetime(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := offering(t, url, func(s *accounts.Settings) { s.ProofLifetime = time.Minute })
		in := f.register(t, "ada").Credentials
		p := f.prove(t, t.Context(), in, "")
		if want := f.clock.Now().Add(time.Minute); !p.Until.Equal(want) {
			t.Errorf("got a proof until %v, want %v", p.Until, want)
		}
		f.clock.Advance(time.Minute - time.Microsecond)
		if err := provenUses["export"](t.Context(), f.service, in, p.Proof); err != nil {
			t.Errorf("at the end: %v", err)
		}
		f.clock.Advance(time.Microsecond)
		f.wantNoProof(t, "that has ended", in, p.Proof)
	})
}

// The proof of a sign-in ends after the lifetime of proofs, and after five minutes at the latest.
func TestProof_OfASignInEnds(t *testing.T) {
	for lifetime, want := range map[time.Duration]time.Duration{time.Minute: time.Minute, 15 * time.Minute: 5 * time.Minute} {
		testdb.Database(t, func(t *testing.T, url string) {
			f := offering(t, url, func(s *accounts.Settings) { s.ProofLifetime = lifetime })
			in := f.register(t, "ada")
			if until := f.clock.Now().Add(want); !in.Proof.Until.Equal(until) {
				t.Errorf("got a proof until %v, want %v", in.Proof.Until, until)
			}
			f.clock.Advance(want - time.Microsecond)
			if err := provenUses["export"](t.Context(), f.service, in.Credentials, in.Proof.Proof); err != nil {
				t.Errorf("at the end: %v", err)
			}
			f.clock.Advance(time.Microsecond)
			f.wantNoProof(t, "of a sign-in that has ended", in.Credentials, in.Proof.Proof)
		})
	}
}

// interrupted is a store that calls found once, after it has found a session.
type interrupted struct {
	accounts.Store
	found func()
}

func (s *interrupted) FindSession(ctx context.Context, selector token.Selector, part accounts.AccountPart) (accounts.Session,
	accounts.Account, error) {
	session, account, err := s.Store.FindSession(ctx, selector, part)
	if found := s.found; found != nil {
		s.found = nil
		found()
	}
	return session, account, err
}

func TestProof_VoidedMeanwhileDoesNothing(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		s := &interrupted{Store: f.store}
		f.offer(t, s, mustHasher(t, cheap))
		for i, name := range slices.Sorted(maps.Keys(provenUses)) {
			u := f.enrol(t, fmt.Sprint("ada", i))
			if name == "two_factor" {
				u = &factor{f: f, in: f.register(t, "bob").Credentials, login: "bob"}
			}
			code := func() string {
				if u.secret == "" {
					return ""
				}
				return u.recoveryCode()
			}
			proof := f.prove(t, t.Context(), u.in, code()).Proof
			s.found = func() { f.prove(t, t.Context(), u.in, code()) }
			before, events := f.account(t, u.in.UserID), f.published(t, u.in.UserID)
			if err := provenUses[name](t.Context(), f.service, u.in, proof); !isWrongProof(err) {
				t.Errorf("%s: got %v, want the field error mismatch of proof", name, err)
			}
			after := f.account(t, u.in.UserID)
			if after.PasswordHash != before.PasswordHash || after.CredentialVersion != before.CredentialVersion || after.Disabled {
				t.Errorf("%s: the account has changed", name)
			}
			for _, e := range f.published(t, u.in.UserID)[len(events):] {
				if e != personal.EventRecoveryCodeUsed { // by the other proof
					t.Errorf("%s: got event %s, want none", name, e)
				}
			}
		}
	})
}

func TestProof_OfASessionThatEndsMeanwhileIsUnauthenticated(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		s := &interrupted{Store: f.store}
		passkeys(&f.settings)
		f.offer(t, s, mustHasher(t, cheap))
		ends := func(in personal.Credentials) { // after it was identified
			s.found = func() { must(t, f.service.RevokeUserSessions(t.Context(), in.UserID)) }
		}
		for i, name := range slices.Sorted(maps.Keys(provenUses)) {
			u := &factor{f: f, login: "bob"}
			code := ""
			if name == "two_factor" {
				u.in = f.register(t, u.login).Credentials
			} else {
				u = f.enrol(t, fmt.Sprint("ada", i))
				code = u.recoveryCode()
			}
			proof := f.prove(t, t.Context(), u.in, code).Proof
			ends(u.in)
			wantCode(t, provenUses[name](t.Context(), f.service, u.in, proof), personal.CodeUnauthenticated)
		}
		u := f.passkeyUser(t, "eve")
		attempt, credential := u.respond(t)
		ends(u.in)
		_, err := f.service.Prove(t.Context(), personal.ProveRequest{Credentials: u.in, Attempt: attempt, Credential: credential})
		wantCode(t, err, personal.CodeUnauthenticated)
		in := f.register(t, "mallory").Credentials
		started, err := f.service.AddPasskey(t.Context(), personal.AddPasskeyRequest{Credentials: in, Password: goodPassword})
		must(t, err)
		credential, err = u.device.Create(started.Options)
		must(t, err)
		ends(in)
		_, err = f.service.ConfirmPasskey(t.Context(), personal.ConfirmPasskeyRequest{Credentials: in, Attempt: started.Attempt,
			Credential: credential, Name: "a passkey"})
		wantCode(t, err, personal.CodeUnauthenticated)
	})
}

// Wrong proofs cannot be guessed and are mostly expired ones: they are no guesses, and are not
// reported as failed sign-ins. Writes of the session are limited all the same.
func TestProof_WrongOnesCountOnlyAsWritesOfTheSession(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f, h := guarded(t, url)
		in := f.register(t, "ada").Credentials
		verified := h.verified
		export := func() error { return provenUses["export"](at(t, home), f.service, in, "wrong") }
		for range f.settings.Throttle.SessionWrites.Burst {
			if err := export(); !isWrongProof(err) {
				t.Fatalf("got %v, want the field error mismatch of proof", err)
			}
		}
		wantCode(t, export(), personal.CodeTooManyAttempts)
		if h.verified != verified {
			t.Errorf("got %d passwords verified, want none", h.verified-verified)
		}
		f.wantTry(t, home, "ada", goodPassword, "")
		if slices.Contains(f.published(t, in.UserID), personal.EventSignInFailed) {
			t.Error("got a failed sign-in, want none")
		}
	})
}

// The contract: without a password an attempt does not count, but waits with the others.
func TestProof_WaitsWhileGuessesAreUsedUp(t *testing.T) {
	f, _ := guarded(t, testdb.SQLite(t))
	in := f.register(t, "ada").Credentials
	proof := f.prove(t, at(t, home), in, "").Proof
	for range f.settings.Throttle.Guess.Burst {
		f.wantTry(t, home, "ada", otherPassword, personal.CodeInvalidCredentials)
	}
	wantCode(t, provenUses["export"](at(t, home), f.service, in, proof), personal.CodeTooManyAttempts)
	if err := provenUses["export"](at(t, abroad), f.service, in, proof); err != nil {
		t.Errorf("elsewhere: %v", err)
	}
}

func TestProve_IsChargedAndReportedLikeAPassword(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f, h := guarded(t, url)
		in := f.register(t, "ada").Credentials
		prove := func(password string) error {
			_, err := f.service.Prove(at(t, home), personal.ProveRequest{Credentials: in, Password: password})
			return err
		}
		for range 2 * f.settings.Throttle.Guess.Burst { // right ones are refunded
			wantCode(t, prove(goodPassword), "")
			f.clock.Advance(time.Second)
		}
		if got := f.published(t, in.UserID); slices.Contains(got, personal.EventSignInFailed) || len(got) != 1 {
			t.Errorf("got events %q, want that of the registration alone", got)
		}
		for range f.settings.Throttle.Guess.Burst {
			wantCode(t, prove(otherPassword), personal.CodeValidationFailed)
		}
		verified := h.verified
		wantCode(t, prove(goodPassword), personal.CodeTooManyAttempts)
		_, err := f.service.Prove(at(t, home), personal.ProveRequest{Credentials: in, Attempt: "a", Credential: "{}", Password: goodPassword})
		wantCode(t, err, personal.CodeTooManyAttempts)
		if h.verified != verified {
			t.Error("a password was verified although the limit is used up")
		}
		if !slices.Contains(f.published(t, in.UserID), personal.EventSignInFailed) {
			t.Error("got no failed sign-in")
		}
	})
}

// A taken e-mail costs a guess with a proof as with a password.
func TestProof_TakenEmailsAreCharged(t *testing.T) {
	f, _ := guarded(t, testdb.SQLite(t))
	f.settings.Throttle.TakenEmail.Burst = 1000
	f.service = f.serve(f.store, mustHasher(t, cheap))
	f.register(t, "bob")
	in := f.register(t, "ada").Credentials
	proof := f.prove(t, at(t, home), in, "").Proof
	ask := func(email string) error {
		return f.service.ChangeEmail(at(t, home), personal.ChangeEmailRequest{Credentials: in, Email: email, Proof: proof})
	}
	for range f.settings.Throttle.Guess.Burst {
		wantCode(t, ask("bob@example.com"), personal.CodeAlreadyExists)
	}
	for _, email := range []string{"bob@example.com", "free@example.com"} {
		wantCode(t, ask(email), personal.CodeTooManyAttempts)
	}
}
