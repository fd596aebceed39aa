package accounts

import (
	"context"
	"errors"
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
	newest   token.Secret // of the session's chain; to be answered, never stored
}

// identify finds out who shows the credentials. It writes nothing but what the
// rules of the session need: that the session is in use, that its newest hash
// has been used, or that an old one was stolen.
func (s *Service) identify(ctx context.Context, c personal.Credentials) (caller, error) {
	now := s.store.Now()
	who, err := s.recognise(ctx, c, now)
	if err != nil {
		return caller{}, err
	}
	if err := s.noteUse(ctx, who, now); err != nil {
		return caller{}, err
	}
	return who, nil
}

// noteUse writes that a session is in use, where that is not known already.
func (s *Service) noteUse(ctx context.Context, who caller, now time.Time) error {
	firstUse := who.standing == newest && who.session.Used.IsZero()
	if !firstUse && now.Sub(who.session.LastSeen) < s.settings.seenEvery() {
		return nil
	}
	if err := s.store.TouchSession(ctx, who.session.ID, who.session.Newest, firstUse, now); err != nil {
		return fail("noting the use of a session", err)
	}
	return nil
}

// What was read may have changed by the time of the write that follows from it.
// That takes somebody else's success every time; so many in a row mean that
// something else is wrong.
const tries = 8

// recognise judges the credentials. It ends a session whose hash was stolen and
// writes nothing else.
func (s *Service) recognise(ctx context.Context, c personal.Credentials, now time.Time) (caller, error) {
	for range tries {
		who, err := s.look(ctx, c, now)
		if err != nil || who.standing != stolen {
			return who, err
		}
		if err := s.endStolen(ctx, who); !errors.Is(err, ErrStale) {
			return caller{}, err
		}
	}
	return caller{}, fail("judging a session", ErrUnavailable)
}

// look judges the credentials by the session as it is. It writes nothing.
func (s *Service) look(ctx context.Context, c personal.Credentials, now time.Time) (caller, error) {
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
	if account.ID != c.UserID || !s.settings.Lifetimes(now).Alive(session) {
		return caller{}, refusal(personal.CodeUnauthenticated)
	}
	if account.Disabled {
		return caller{}, s.endDisabled(ctx, session)
	}
	behind, newestSecret, ok := token.Distance(session.ChainKey, secret, session.Newest)
	if !ok {
		return caller{}, refusal(personal.CodeUnauthenticated)
	}
	return caller{account, session, judge(session, behind, now, s.settings.SessionGrace), newestSecret}, nil
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
	event := s.event(ctx, personal.EventSessionTheft, who.account.ID)
	if err := s.store.EndStolen(ctx, who.session, event); err != nil {
		if errors.Is(err, ErrStale) {
			return err
		}
		return fail("ending a stolen session", err)
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
	}
	if call.Address.IsValid() {
		session.Address = call.Address.String()
	}
	return session, secret
}
