package rehearsal

import (
	"cmp"
	"sync"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// serve sees that a process that serves works by itself, and hashes passwords at the costs of the site:
// scratch processes work in turns, and hash at once.
func serve(p *player) {
	u := p.add("served")
	var mailed, erased bool
	var id int64
	await := func(operation personal.OperationName, field string, request any, done func() bool) (asked bool) {
		_, err := p.call(u, operation, request)
		if code := personal.CodeOf(err); code == personal.CodeInternal || code == personal.CodeUnavailable {
			p.fail(operation, ErrorCode, "it fails: "+err.Error())
		}
		if err != nil { // by the site's settings; both versions are asked that elsewhere
			return false
		}
		limit := time.NewTimer(startTimeout)
		defer limit.Stop()
		for !done() {
			select {
			case <-p.stage.came:
				mails, events, accounts := p.stage.take()
				mailed, erased = mailed || len(mails) > 0, erased || len(accounts) > 0
				for _, e := range events {
					id = max(id, e.UserID)
				}
			case <-limit.C:
				p.fail(operation, field, "nothing has come within "+startTimeout.String())
			case <-p.ctx.Done():
				p.fail(operation, field, "the rehearsal has ended")
			}
		}
		return true
	}
	if !await(personal.OpRegister, "event", u.registration(), func() bool { return id != 0 }) {
		return
	}
	await(personal.OpRecover, "mail", personal.RecoverRequest{Login: u.login}, func() bool { return mailed })
	for began := time.Now(); ; {
		err := signInTogether(p, u)
		if err == nil {
			break
		}
		if time.Since(began) >= startTimeout { // until then the machine may be busy
			p.fail(personal.OpAuthorize, ErrorCode, "sign-ins at the same time fail: "+err.Error())
		}
	}
	u = nil // an administrator
	await(personal.OpDeleteUser, "erased", id, func() bool { return erased })
}

// signInTogether signs a user in several times at once. The user may not sign in yet.
func signInTogether(p *player, u *user) error {
	var calling sync.WaitGroup
	failed := make([]error, 3)
	for i := range failed {
		calling.Go(func() {
			_, err := p.invoke(u, personal.OpAuthorize, personal.AuthorizeRequest{Login: u.login, Password: u.password})
			if code := personal.CodeOf(err); code == personal.CodeInternal || code == personal.CodeUnavailable {
				failed[i] = err
			}
		})
	}
	calling.Wait()
	return cmp.Or(failed...)
}
