package accounts

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/shared/personal"
)

// KindEvent is the job that hands an event to the host.
const KindEvent outbox.Kind = "event"

// event returns the job that tells the host what happened to an account. It is
// stored in the transaction of what happened, so that neither is without the
// other.
func (s *Service) event(ctx context.Context, t personal.EventType, accountID int64) (NewJob, error) {
	job, err := s.eventFor(ctx, t)
	if err != nil {
		return NewJob{}, err
	}
	return job(accountID), nil
}

// eventFor is event for an account whose id is not known yet.
func (s *Service) eventFor(ctx context.Context, t personal.EventType) (func(accountID int64) NewJob, error) {
	call := personal.CallFrom(ctx)
	e := personal.Event{ID: newID(), Type: t, Time: s.store.Now().UTC(), RequestID: call.RequestID}
	if call.Address.IsValid() {
		e.Address = call.Address.String()
	}
	if _, err := json.Marshal(e); err != nil {
		return nil, fail("writing an event", err)
	}
	return func(accountID int64) NewJob {
		e.UserID = accountID
		payload, _ := json.Marshal(e) // marshalled once above; the id changes nothing
		return NewJob{Kind: KindEvent, Payload: payload}
	}, nil
}

// publish hands a stored event to the host.
func (s *Service) publish(ctx context.Context, j outbox.Job) error {
	var e personal.Event
	if err := json.Unmarshal(j.Payload, &e); err != nil {
		return fmt.Errorf("reading an event: %w", err)
	}
	if err := s.host.PublishEvent(ctx, e); err != nil {
		return fmt.Errorf("handing an event to the host: %w", err)
	}
	return nil
}
