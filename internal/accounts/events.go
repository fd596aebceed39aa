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

// event returns the job that tells the host, and the audit log, what happened to
// an account. It is stored in the transaction of what happened, so that neither
// is without the other.
func (s *Service) event(ctx context.Context, by personal.Actor, t personal.EventType, accountID int64) NewJob {
	call := personal.CallFrom(ctx)
	e := personal.Event{ID: newID(), Type: t, Time: s.store.Now().UTC(), UserID: accountID, Actor: by, RequestID: call.RequestID}
	if by == personal.ActorAdministrator {
		e.ActorName = call.Administrator
	}
	if call.Address.IsValid() {
		e.Address = call.Address.String()
	}
	job := newJob(KindEvent, e)
	job.AccountID, job.Event = accountID, &e
	return job
}

// newJob returns a job with a payload of texts, numbers and times of this age,
// which always has a JSON form.
func newJob(k outbox.Kind, payload any) NewJob {
	data, err := json.Marshal(payload)
	if err != nil {
		panic(fmt.Sprintf("a payload that JSON can't hold: %v", err))
	}
	return NewJob{Kind: k, Payload: data}
}

// jobOf returns a job that goes when the account does.
func jobOf(accountID int64, k outbox.Kind, payload any) NewJob {
	job := newJob(k, payload)
	job.AccountID = accountID
	return job
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
