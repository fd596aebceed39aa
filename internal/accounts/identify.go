package accounts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cms-personal/personal/internal/token"
	"github.com/cms-personal/personal/shared/personal"
)

// caller is who a pair of credentials belongs to.
type caller struct {
	account  Account
	session  Session
	standing standing
	secret   token.Secret // the session's current one; to be returned, never stored
}

// identify finds out who shows the credentials. It writes nothing but what the
// rules of the session need: that the session is in use, that its current hash
// has been used, or that a superseded one was stolen.
func (s *Service) identify(ctx context.Context, c personal.Credentials) (caller, error) {
	now := s.store.Now()
	who, err := s.recognise(ctx, c, now)
	if err != nil {
		return caller{}, err
	}
	s.noteUse(ctx, who, now)
	return who, nil
}

// noteUse writes that a session is in use, where that is not known already. The
// caller is identified whether or not it can be written: a full disk must not sign
// everybody out. What is lost favours the user: the predecessor of a hash whose
// first use is not known stays valid.
func (s *Service) noteUse(ctx context.Context, who caller, now time.Time) {
	firstUse := who.standing == current && who.session.Used.IsZero()
	if !firstUse && now.Sub(who.session.LastSeen) < s.settings.seenEvery() {
		return
	}
	err := s.store.TouchSession(ctx, who.session.ID, who.session.Newest, firstUse, now)
	if err != nil && s.useWarnings.Take(0, oncePerMinute, now) == 0 {
		s.log.WarnContext(ctx, "the use of a session could not be stored; users are identified all the same", slog.Any("error", err))
	}
}

// What was read may have changed by the time of the write that follows from it.
// That takes somebody else's success every time; so many in a row mean that
// something else is wrong.
const tries = 8

// recognise judges the credentials. It ends a session whose hash was stolen and
// writes nothing else.
func (s *Service) recognise(ctx context.Context, c personal.Credentials, now time.Time) (caller, error) {
	for range tries {
		who, err := s.judge(ctx, c, now)
		if err != nil || who.standing != stolen {
			return who, err
		}
		if err := s.endStolen(ctx, who); !errors.Is(err, ErrStale) {
			return caller{}, err
		}
	}
	return caller{}, fail("judging a session", ErrUnavailable)
}

// judge returns the verdict on the credentials by the session as it is. Of the
// session it writes nothing.
func (s *Service) judge(ctx context.Context, c personal.Credentials, now time.Time) (caller, error) {
	selector, secret, ok := token.ParseHash(c.UserHash)
	if !ok {
		return caller{}, refusal(personal.CodeUnauthenticated)
	}
	session, account, err := s.store.FindSession(ctx, selector)
	if errors.Is(err, ErrNotFound) {
		return caller{}, refusal(personal.CodeUnauthenticated)
	}
	if err != nil {
		return caller{}, fail("finding a session", err)
	}
	if account.ID != c.UserID || !s.settings.Lifetimes(now).Alive(session) || session.Rotations >= MaxRotations {
		return caller{}, refusal(personal.CodeUnauthenticated)
	}
	if account.Disabled {
		return caller{}, s.endDisabled(ctx, session)
	}
	behind, currentSecret, err := s.walk(ctx, session, secret)
	if err != nil {
		return caller{}, err
	}
	return caller{account, session, judge(session, behind, now, s.settings.SessionGrace), currentSecret}, nil
}

// shortWalk is how many steps along a chain cost next to nothing: a hash that is
// presented in good faith is nearer than that.
const shortWalk = 64

// walk finds how many rotations a presented secret is behind the current one. One
// that is not of the session's chain is unauthenticated and a guess: the session is
// not affected by it, and an address that presents many such is refused before the
// long walk.
func (s *Service) walk(ctx context.Context, session Session, secret token.Secret) (behind int64, currentSecret token.Secret, err error) {
	maxBehind := session.maxBehind()
	behind, currentSecret, ok := token.Distance(session.ChainKey, secret, session.Newest, min(maxBehind, shortWalk))
	if ok {
		return behind, currentSecret, nil
	}
	guess := perNetwork(ctx, "guess", s.settings.Throttle.GuessAddress)
	if maxBehind > shortWalk {
		if err := s.look(ctx, guess); err != nil {
			return 0, token.Secret{}, err
		}
		behind, currentSecret, ok = token.Distance(session.ChainKey, secret, session.Newest, maxBehind)
		if ok {
			return behind, currentSecret, nil
		}
	}
	if err := s.charge(ctx, guess); err != nil {
		return 0, token.Secret{}, err
	}
	return 0, token.Secret{}, refusal(personal.CodeUnauthenticated)
}

// endDisabled ends a session of a disabled account, so that it does not live
// again when the account is enabled.
func (s *Service) endDisabled(ctx context.Context, session Session) error {
	if err := s.store.EndSession(ctx, session.AccountID, session.ID); err != nil {
		return fail("ending a session of a disabled account", err)
	}
	return refusal(personal.CodeUnauthenticated)
}

// endStolen ends a session of which an old hash came back, and says so. The
// session must be gone before the answer is: a thief gets no second try. If it
// was rotated meanwhile the old hash may be within the grace now: ErrStale.
func (s *Service) endStolen(ctx context.Context, who caller) error {
	event := s.event(ctx, personal.ActorSystem, personal.EventSessionTheft, who.account.ID)
	if err := s.store.EndStolen(ctx, who.session, event); err != nil {
		if errors.Is(err, ErrStale) {
			return err
		}
		// Whatever kept it from being stored may pass; until then nobody gets in.
		return &personal.Error{Code: personal.CodeUnavailable, RetryAfter: retryAfter, Cause: fmt.Errorf("ending a stolen session: %w", err)}
	}
	s.wake()
	s.log.WarnContext(ctx, "an old session hash came back; the session was ended",
		slog.Int64("user_id", who.account.ID), slog.Int64("session_id", who.session.ID))
	return refusal(personal.CodeUnauthenticated)
}

// credentials are the pair to be answered for a session's secret.
func credentials(accountID int64, selector token.Selector, secret token.Secret) personal.Credentials {
	return personal.Credentials{UserID: accountID, UserHash: token.FormatHash(selector, secret)}
}

// newSession returns a session that starts now, with its first secret.
func (s *Service) newSession(ctx context.Context, accountID int64) (Session, token.Secret) {
	selector, secret, key := token.NewSession()
	call, now := personal.CallFrom(ctx), s.store.Now()
	session := Session{
		AccountID: accountID,
		Selector:  selector,
		ChainKey:  key,
		Newest:    secret.Digest(),
		Created:   now,
		Rotated:   now,
		LastSeen:  now,
		Agent:     call.Agent,
		Marks:     []RotationMark{{Time: now}},
	}
	if call.Address.IsValid() {
		session.Address = call.Address.String()
	}
	return session, secret
}
