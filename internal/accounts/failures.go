package accounts

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"time"

	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/shared/personal"
)

// What an attacker can cause is told in part only, so that it fills no database
// and slows nothing down: the first few of one target from one address, and of
// all so many that a day brings 86,400 at most.
var (
	oncePerMinute = throttle.Limit{Burst: 1, Every: time.Minute}
	notesEach     = throttle.Limit{Burst: 5, Every: time.Minute}
	notesAll      = throttle.Limit{Burst: 100, Every: time.Second}
)

// failed notes that a password was wrong, or its account disabled. The account may
// be nobody's. The log has the address, for what bans addresses by it, and the
// login as a digest, under a key that ends with the process: people type their
// passwords into the login's place.
func (s *Service) failed(ctx context.Context, login string, account Account) {
	q := s.loginQuery(login)
	target := cmp.Or(q.LoginKey, q.EmailKey, login)
	digest := hmac.New(sha256.New, s.logKey[:])
	digest.Write([]byte(target))
	s.log.InfoContext(ctx, "authentication failed", address(ctx), slog.String("identifier", hex.EncodeToString(digest.Sum(nil)[:8])))
	s.note(ctx, personal.EventSignInFailed, account.ID, target)
}

// throttled notes that there were too many attempts. As one costs who makes it
// nothing, the log has no more of them than the host is told of.
func (s *Service) throttled(ctx context.Context) {
	if s.note(ctx, personal.EventThrottled, 0, "") {
		s.log.InfoContext(ctx, "too many attempts", address(ctx))
	}
}

func address(ctx context.Context) slog.Attr {
	return slog.Any("address", personal.CallFrom(ctx).Address)
}

// note tells the host of something that was refused, unless much of the kind has
// been told lately. It is told of who hangs up, too. Nobody waits for it, so a
// failure is logged and no more.
func (s *Service) note(ctx context.Context, t personal.EventType, accountID int64, target string) (told bool) {
	wait, err := s.store.Charge(context.WithoutCancel(ctx), []throttle.Charge{
		{Key: chargeKey("note", string(t), source(ctx), target), Limit: notesEach},
		{Key: chargeKey("note", string(t)), Limit: notesAll},
	}, s.store.Now(), s.event(ctx, personal.ActorUser, t, accountID))
	switch {
	case err != nil:
		s.log.WarnContext(ctx, "an event could not be stored", slog.String("type", string(t)), slog.Any("error", err))
	case wait == 0:
		s.wake()
		return true
	}
	return false
}
