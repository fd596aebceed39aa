// Package admission has the examples of docs/admission.md.
package admission

import (
	"context"
	"errors"
	"os"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhost"
	"github.com/cms-personal/personal/shared/personalhost/captcha"
	"github.com/cms-personal/personal/shared/personalpages"
)

// Open opens the module for visitors with a captcha, an invite, and the terms accepted. It
// returns the account pages, too.
func Open(ctx context.Context, host personalhost.Config, pages personalpages.Config, invites *Invites) (*personalhost.Module, *personalpages.Pages, error) {
	host.API.Transient = []string{"invite", "terms"}
	host.Admission = &personal.Admission{
		Judge: func(ctx context.Context, r personal.AdmissionRequest) error {
			if err := Terms(ctx, r); err != nil {
				return err
			}
			return invites.Judge(ctx, r) // last: it takes the invite
		},
	}
	pages.Inputs = Inputs()
	captcha.Turnstile(os.Getenv("CAPTCHA_SITE_KEY"), os.Getenv("CAPTCHA_SECRET")).Use(&host, &pages)
	module, err := personalhost.Open(ctx, host)
	if err != nil {
		return nil, nil, err
	}
	account, err := personalpages.New(module, pages)
	if err != nil {
		return nil, nil, errors.Join(err, module.Close())
	}
	return module, account, nil
}
