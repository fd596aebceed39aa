package accounts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/token"
	"github.com/cms-personal/personal/shared/personal"
)

// caller is the user to whom a pair of credentials belongs.
type caller struct {
	account Account // the part that the operation needs
	session Session // without Address, Agent and Method, unless that is the whole account
	hash    hashState
	secret  token.Secret // the session's current secret; to be returned, never stored
	read    time.Time    // the time that hash is for, before the session was read
	stored  bool         // the database knows that the session is in use, see touch
	mended  bool         // the session has now in place of stored times that are false
}

// identify returns the caller of an operation, with a part of their account. It writes
// only what the session's rules require: the last use of the session, the first use of
// its current hash, and the end of a session whose hash was stolen.
func (s *Service) identify(ctx context.Context, c personal.Credentials, part AccountPart) (caller, error) {
	now := s.store.Now()
	who, err := s.verify(ctx, c, part, now)
	if err != nil {
		return caller{}, err
	}
	who.stored = s.touch(ctx, &who, now)
	return who, nil
}

// touch stores that a session is in use, if that is news or the session has false times, which
// it replaces. Of a poll it stores the first use of a hash only. It reports whether the database
// knows the use. A failure does not matter to the caller: a full disk must not sign all users out.
// It favours the user: the predecessor of a hash whose first use is unknown stays valid.
func (s *Service) touch(ctx context.Context, who *caller, now time.Time) bool {
	touch := SessionTouch{ID: who.session.ID, Current: who.session.Current, Used: who.hash == current && who.session.Used.IsZero()}
	if who.mended {
		touch.Marks = who.session.Marks
	}
	if !touch.Used && !who.mended && (personal.CallFrom(ctx).Poll || now.Sub(who.session.LastSeen) < s.settings.seenEvery()) {
		return true
	}
	err := s.store.TouchSession(ctx, touch)
	if err == nil {
		who.session.LastSeen = now
		return true
	}
	if s.useWarnings.Take(0, oncePerMinute, now) == 0 {
		s.log.WarnContext(ctx, "the use of a session could not be stored; users are still identified", slog.Any("error", err))
	}
	return false
}

// tries is how often an operation starts again because a session has changed
// between its read and its write. Each time another request has succeeded, so more
// repetitions mean that something else is wrong.
const tries = 8

// verify checks the credentials. It revokes a session whose hash was stolen, ends the repeat of a session
// whose former pair is presented, which may be a thief's, and writes nothing else.
func (s *Service) verify(ctx context.Context, c personal.Credentials, part AccountPart, now time.Time) (caller, error) {
	who, err := s.verifyRepeater(ctx, c, part, now)
	if personal.CodeOf(err) == personal.CodeUnauthenticated {
		if err := s.endRepeat(ctx, c); err != nil {
			return caller{}, err
		}
	}
	return who, err
}

// verifyRepeater is verify for a request that may be a repetition.
func (s *Service) verifyRepeater(ctx context.Context, c personal.Credentials, part AccountPart, now time.Time) (caller, error) {
	for range tries {
		who, err := s.readCaller(ctx, c, part, now)
		if err != nil || who.hash != stolen {
			return who, err
		}
		if err := s.revokeStolen(ctx, who); !errors.Is(err, ErrStale) {
			return caller{}, err
		}
	}
	return caller{}, fail("identifying a session", ErrUnavailable)
}

// readCaller reads the session of the credentials and finds the state of their hash.
func (s *Service) readCaller(ctx context.Context, c personal.Credentials, part AccountPart, now time.Time) (caller, error) {
	selector, secret, ok := token.ParseHash(c.UserHash)
	if !ok {
		return caller{}, refusal(personal.CodeUnauthenticated)
	}
	session, account, err := s.store.FindSession(ctx, selector, part)
	if err != nil {
		return caller{}, failWith(personal.CodeUnauthenticated, "finding a session", err)
	}
	session, mended := session.truthful(now)
	if !s.settings.hold(session, account, c.UserID, now) {
		return caller{}, refusal(personal.CodeUnauthenticated)
	}
	if account.Disabled {
		// Revoked, so that the session does not work again when the account is enabled.
		if err := s.store.RevokeSession(ctx, account.ID, session.ID); err != nil {
			return caller{}, fail("revoking a session of a disabled account", err)
		}
		return caller{}, refusal(personal.CodeUnauthenticated)
	}
	behind, currentSecret, err := s.walk(ctx, session, secret)
	if err != nil {
		return caller{}, err
	}
	return caller{account: account, session: session, hash: stateOf(session, behind, now, s.settings.SupersededGrace), secret: currentSecret,
		read: now, mended: mended}, nil
}

// hold reports whether the settings let a session of the user go on at now.
func (s Settings) hold(session Session, account Account, userID int64, now time.Time) bool {
	return account.ID == userID && s.Lifetimes(now).Alive(session) && session.Rotations < MaxRotations
}

// acceptedFor is how long Accepts looks ahead. A session that ends about now is refused by one process
// and accepted by another, whose clocks differ a little.
const acceptedFor = time.Minute

// Accepts reports whether the credentials identify a user by the given settings, and will in a minute. It
// only looks: it stores no use, ends no session and counts no guess.
func (s *Service) Accepts(ctx context.Context, c personal.Credentials, by Settings) (bool, error) {
	selector, secret, ok := token.ParseHash(c.UserHash)
	if !ok {
		return false, nil
	}
	session, account, err := s.store.FindSession(ctx, selector, AccountState)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	soon := s.store.Now().Add(acceptedFor)
	session, _ = session.truthful(soon)
	if account.Disabled || !by.hold(session, account, c.UserID, soon) {
		return false, nil
	}
	behind, _, ok := token.Distance(session.ChainKey, secret, session.Current, min(session.Rotations, shortWalk))
	return ok && stateOf(session, behind, soon, by.SupersededGrace) != stolen, nil
}

// shortWalk is how many steps along a hash chain cost next to nothing. Hashes that
// are presented in good faith are nearer than that.
const shortWalk = 64

// walk returns how many rotations a presented secret is behind the current one. A
// secret that is not of the session's chain is unauthenticated and charged as a
// guess; it does not affect the session. An address that presents many of them is
// refused before the long walk.
func (s *Service) walk(ctx context.Context, session Session, secret token.Secret) (behind int64, currentSecret token.Secret, err error) {
	maxBehind := session.Rotations
	behind, currentSecret, ok := token.Distance(session.ChainKey, secret, session.Current, min(maxBehind, shortWalk))
	if ok {
		return behind, currentSecret, nil
	}
	guess := s.guessAddress(ctx)
	if maxBehind > shortWalk {
		if err := s.checkLimits(ctx, guess); err != nil {
			return 0, token.Secret{}, err
		}
		behind, currentSecret, ok = token.Distance(session.ChainKey, secret, session.Current, maxBehind)
		if ok {
			return behind, currentSecret, nil
		}
	}
	if err := s.charge(ctx, guess); err != nil {
		return 0, token.Secret{}, err
	}
	return 0, token.Secret{}, refusal(personal.CodeUnauthenticated)
}

// revokeStolen revokes a session of which an old hash was presented, and reports
// that. It does so before the response, because a thief must get no second try. If
// the session was rotated since, the old hash may be within the grace period
// now: ErrStale.
func (s *Service) revokeStolen(ctx context.Context, who caller) error {
	jobs := []NewJob{s.event(ctx, personal.ActorSystem, personal.EventSessionTheft, who.account.ID)}
	jobs = append(jobs, s.notice(ctx, personal.ActorSystem, mailtext.SessionTheft, who.account.ID, who.account.Email.Address)...)
	err := s.store.RevokeStolenSession(ctx, who.session, jobs...)
	if errors.Is(err, ErrStale) {
		return err
	}
	if err != nil {
		// Whatever the cause, it may pass; until then the session is refused.
		return &personal.Error{
			Code: personal.CodeUnavailable, RetryAfter: retryAfter, UserID: who.account.ID, Cause: fmt.Errorf("revoking a stolen session: %w", err),
		}
	}
	s.wake()
	s.log.WarnContext(ctx, "an old session hash came back; the session was revoked",
		slog.Int64("user_id", who.account.ID), slog.Int64("session_id", who.session.ID))
	return &personal.Error{Code: personal.CodeUnauthenticated, UserID: who.account.ID}
}

// credentials returns the pair for a session's secret.
func credentials(accountID int64, selector token.Selector, secret token.Secret) personal.Credentials {
	return personal.Credentials{UserID: accountID, UserHash: token.FormatHash(selector, secret)}
}

// newSession returns a session that starts now by a method, see [personal.Session], and its
// first secret.
func (s *Service) newSession(ctx context.Context, accountID int64, method string) (Session, token.Secret) {
	selector, secret, key := token.NewSession()
	call, now := personal.CallFrom(ctx), s.store.Now()
	session := Session{
		AccountID: accountID,
		Selector:  selector,
		ChainKey:  key,
		Current:   secret.Digest(),
		Created:   now,
		Rotated:   now,
		LastSeen:  now,
		Agent:     call.Agent,
		Method:    method,
		Marks:     []RotationMark{{Time: now}},
	}
	if call.Address.IsValid() {
		session.Address = call.Address.String()
	}
	return session, secret
}
