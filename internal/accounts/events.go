package accounts

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/shared/personal"
)

// event returns the job that reports what happened to an account to the host and
// to the audit log. It is stored in the transaction of what happened, so neither
// exists without the other. The fields are the names of what was changed.
func (s *Service) event(ctx context.Context, by personal.Actor, t personal.EventType, accountID int64, fields ...string) NewJob {
	return s.eventJob(ctx, personal.Event{Type: t, UserID: accountID, Actor: by, Fields: fields})
}

// eventJob is event for one that has more than that. It adds when, where and by which call
// it happened.
func (s *Service) eventJob(ctx context.Context, e personal.Event) NewJob {
	call := personal.CallFrom(ctx)
	e.ID, e.Time, e.RequestID = newID(), s.store.Now().UTC(), call.RequestID
	if e.Actor == personal.ActorAdministrator {
		e.ActorName = call.Administrator
	}
	if call.Address.IsValid() {
		e.Address = call.Address.String()
	}
	job := jobOf(ctx, e.UserID, KindEvent, e)
	job.Event = &e
	return job
}

// publishTimeout is the host's time to take one event (see [personal.Host]).
const publishTimeout = 10 * time.Second

// publish hands a stored event to the host.
func (s *Service) publish(ctx context.Context, _ int64, e personal.Event) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	if err := s.host.PublishEvent(ctx, e); err != nil {
		return fmt.Errorf("handing an event to the host: %w", err)
	}
	return nil
}

// Refused attempts are reported in part only, so that an attacker can neither fill
// the database nor slow it down: the first few for one target from one address,
// and at most 86,400 a day of each type.
var (
	oncePerMinute = throttle.Limit{Burst: 1, Every: time.Minute}
	reportsEach   = throttle.Limit{Burst: 5, Every: time.Minute}
	reportsAll    = throttle.Limit{Burst: 100, Every: time.Second}
)

// failed reports that a password was wrong or its account disabled; accountID is 0
// if the login has no account. The log gets the address, for tools that ban by it,
// and a digest of the login with a key that lasts as long as the process: people
// type passwords into the login field.
func (s *Service) failed(ctx context.Context, login string, accountID int64) {
	target := s.typed(login)
	digest := hmac.New(sha256.New, s.logKey[:])
	digest.Write([]byte(target))
	s.log.InfoContext(ctx, "authentication failed", address(ctx), slog.String("identifier", hex.EncodeToString(digest.Sum(nil)[:8])))
	s.report(ctx, personal.EventSignInFailed, accountID, target)
}

// throttled reports that there were too many attempts. The log gets as many of
// these as the host, because such an attempt costs the attacker nothing.
func (s *Service) throttled(ctx context.Context) {
	if s.report(ctx, personal.EventThrottled, 0, "") {
		s.log.InfoContext(ctx, "too many attempts", address(ctx))
	}
}

func address(ctx context.Context) slog.Attr {
	return slog.Any("address", personal.CallFrom(ctx).Address)
}

// report sends an event about a refused attempt, unless there were too many of its
// type recently, and returns whether it did. It does so even if the caller has hung
// up. A failure is only logged.
func (s *Service) report(ctx context.Context, t personal.EventType, accountID int64, target string) (sent bool) {
	err := s.store.Charge(context.WithoutCancel(ctx), []throttle.Charge{
		{Key: s.typedKey("note", string(t), source(ctx), target), Limit: reportsEach},
		{Key: chargeKey("note", string(t)), Limit: reportsAll},
	}, s.store.Now(), s.event(ctx, personal.ActorUser, t, accountID))
	if _, limited := errors.AsType[*WaitError](err); limited {
		return false
	}
	if err != nil {
		s.log.WarnContext(ctx, "an event could not be stored", slog.String("type", string(t)), slog.Any("error", err))
		return false
	}
	s.wake()
	return true
}
