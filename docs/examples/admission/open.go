package admission

import (
	"context"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhost"
)

// Open opens the module for visitors with a captcha and an invite.
func Open(ctx context.Context, c personalhost.Config, captcha *Captcha, invites *Invites) (*personalhost.Module, error) {
	c.API.Transient = []string{"captcha", "invite"}
	c.Admission = &personal.Admission{
		Judge: func(ctx context.Context, r personal.AdmissionRequest) error {
			if err := captcha.Judge(ctx, r); err != nil {
				return err
			}
			return invites.Judge(ctx, r) // last: it takes the invite
		},
	}
	return personalhost.Open(ctx, c)
}
