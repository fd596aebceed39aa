package accounts

import (
	"context"
	"encoding/json"

	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/shared/personal"
)

// DeleteUser implements [personal.Administration].
func (s *Service) DeleteUser(ctx context.Context, id int64) error {
	e := Erasure{Left: leftOf, Open: KindRecovery, Means: s.meant}
	if err := s.store.DeleteAccount(ctx, id, e, s.event(ctx, personal.ActorAdministrator, personal.EventUserDeleted, id)); err != nil {
		return nobody("deleting an account", err)
	}
	s.wake()
	return nil
}

// leftOf is what is left of the job of a user who is deleted: of an event what
// happened, as the host has not been told yet, and of mails nothing.
func leftOf(j outbox.Job) []byte {
	var e personal.Event
	if j.Kind != KindEvent || json.Unmarshal(j.Payload, &e) != nil {
		return nil
	}
	e.Address, e.RequestID = "", ""
	return newJob(KindEvent, e).Payload
}

// meant reports whether a recovery that waits holds the account's login or e-mail,
// whether or not it would find the account by it.
func (s *Service) meant(j outbox.Job, a Account) bool {
	var r recoveryJob
	if json.Unmarshal(j.Payload, &r) != nil {
		return false
	}
	for _, typed := range []string{r.Login, r.Email} {
		if email, fault := ParseEmail(typed); fault == "" && (email.Key == a.Email.Key || email.Key == a.LoginKey) {
			return true
		}
		if q := s.loginQuery(typed); q.LoginKey != "" && q.LoginKey == a.LoginKey {
			return true
		}
	}
	return false
}
