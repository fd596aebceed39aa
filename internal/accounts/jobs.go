package accounts

import (
	"github.com/cms-personal/personal/internal/outbox"
)

// Jobs are the handlers of everything the domain leaves to be done later.
func (s *Service) Jobs() map[outbox.Kind]outbox.Handler {
	return map[outbox.Kind]outbox.Handler{
		KindEvent:       s.publish,
		KindRecovery:    s.doRecovery,
		KindEmailChange: s.sendEmailToken,
		KindEmailNotice: s.sendEmailNotice,
	}
}
