package rehearsal

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// maxJobsLeft is how many jobs a process may have done that it has not stored as done when it stops.
const maxJobsLeft = 5

// serve sees that a process that serves works by itself, and hashes passwords at the costs of the site:
// scratch processes work in turns, and hash at once.
func serve(p *player) {
	u := p.add("served")
	var mailed, erased bool // a mail of any kind
	var id int64
	await := func(operation personal.OperationName, field string, request any, done func() bool) (accepted bool) {
		err := p.patiently(operation, func() error { _, err := p.invoke(u, operation, request); return err })
		p.lines = append(p.lines, line{check: p.check, operation: operation, answer: AnswerOf(nil, err)})
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
			case <-p.process.Lost():
				p.lost(operation, "the process has ended", nil)
			case <-limit.C:
				p.fail(operation, field, "nothing has come within "+startTimeout.String())
			case <-p.ctx.Done():
				p.fail(operation, field, "the rehearsal has ended")
			}
		}
		return true
	}
	if await(personal.OpRegister, "event", u.registration(), func() bool { return id != 0 }) {
		await(personal.OpRecover, "mail", personal.RecoverRequest{Login: u.login}, func() bool { return mailed })
		_ = p.patiently(personal.OpAuthorize, func() error { return signInTogether(p, u) })
		bare := hideLogins(p, u)
		for range 45 { // more than run at once
			u.away++
			_ = p.patiently(personal.OpRecover, func() error {
				_, err := p.invoke(u, personal.OpRecover, personal.RecoverRequest{Login: "nobody"})
				return err
			})
		}
		registered := id
		u = p.add("again")
		await(personal.OpRegister, "event", u.registration(), func() bool { return id > max(registered, bare) })
		id, u = registered, nil // an administrator
		await(personal.OpDeleteUser, "erased", id, func() bool { return erased })
	}
	quiesce(p)
	if warnings, err := p.warnings(); err != nil || len(warnings) > 0 {
		p.note("Health", "", fmt.Sprint("it warns: ", warnings, err))
	}
}

// quiesce ends the work of the process while it sends a mail.
func quiesce(p *player) {
	p.stage.take()
	p.stage.delay(time.Second)
	err := p.patiently(personal.OpCreateUser, func() error {
		_, err := p.invoke(nil, personal.OpCreateUser, personal.CreateUserRequest{Login: "last", Email: "last@script.invalid", Invite: true})
		return err
	})
	invited := err == nil // else by the site's settings
	if invited {
		limit := time.NewTimer(startTimeout)
		defer limit.Stop()
		select {
		case <-p.stage.sending:
		case <-p.process.Lost():
			p.lost(personal.OpCreateUser, "the process has ended", nil)
		case <-limit.C:
			p.fail(personal.OpCreateUser, "mail", "nothing has come within "+startTimeout.String())
		}
	}
	ctx, cancel := context.WithTimeout(p.ctx, callTimeout)
	defer cancel()
	if err := p.process.Quiesce(ctx); err != nil {
		p.note("Quiesce", "", err.Error())
	}
	if mails, _, _ := p.stage.take(); invited && len(mails) == 0 {
		p.note("Quiesce", "mail", "a mail that was being sent was cut off")
	}
}

// hideLogins compares the time to refuse a login that has a password with that of one that has none, or does not
// exist. The quickest and the slowest of several calls in turn tolerate a busy machine. It returns the id of a user whom it makes.
func hideLogins(p *player, u *user) (bare int64) {
	known, unknown := time.Hour, map[string]time.Duration{}
	_ = p.patiently(personal.OpCreateUser, func() error {
		made, err := p.invoke(nil, personal.OpCreateUser, personal.CreateUserRequest{Login: "bare", Email: "bare@script.invalid"})
		bare, _ = made.(int64)
		return err
	})
	for range 3 {
		for _, login := range []string{u.login, "nobody", "bare"} {
			began := time.Now()
			_, err := p.invoke(u, personal.OpAuthorize, personal.AuthorizeRequest{Login: login, Password: "wrong-password"})
			switch took := time.Since(began); {
			case personal.CodeOf(err) != personal.CodeInvalidCredentials: // a limit, for example
				return bare
			case login == u.login:
				known = min(known, took)
			default:
				unknown[login] = max(unknown[login], took)
			}
		}
	}
	for login, took := range unknown {
		if known > 10*time.Millisecond && took < known/3 {
			p.note(personal.OpAuthorize, "duration", fmt.Sprintf("the login %s is refused in %v, one with a password in %v: that tells who has an account", login, took, known))
		}
	}
	return bare
}

// pause is how long patiently waits between two calls.
const pause = 100 * time.Millisecond

// patiently calls until the process is not unavailable, and fails the act after a while: until then the
// machine may be busy.
func (p *player) patiently(operation personal.OperationName, call func() error) error {
	began, starved := time.Now(), p.process.Starved()
	for {
		err := call()
		switch code := personal.CodeOf(err); {
		case err == nil:
			return nil
		case p.process.IsLost():
			p.lost(operation, "the process has ended", err)
		case code == personal.CodeInternal, p.ctx.Err() != nil:
			p.fail(operation, ErrorCode, "it fails: "+err.Error())
		case code != personal.CodeUnavailable:
			return err
		case time.Since(began)-(p.process.Starved()-starved) >= startTimeout:
			p.fail(operation, ErrorCode, "it is unavailable: "+err.Error())
		}
		time.Sleep(pause)
	}
}

// signInTogether signs a user in twice at once, who may not be allowed to yet.
func signInTogether(p *player, u *user) error {
	var calling sync.WaitGroup
	failed := make([]error, 2)
	for i := range failed {
		calling.Go(func() {
			_, err := p.invoke(u, personal.OpAuthorize, personal.AuthorizeRequest{Login: u.login, Password: u.password})
			if broken(err) {
				failed[i] = err
			}
		})
	}
	calling.Wait()
	return cmp.Or(failed...)
}
