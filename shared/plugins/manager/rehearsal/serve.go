package rehearsal

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// maxJobsLeft is how many jobs a process may have done that it has not stored as done when it stops.
const maxJobsLeft = 5

// serving plays a process that serves, and another one beside it on the same database, as in a swap.
func (c *Config) serving(ctx context.Context, database string) *player {
	beside := func(p *player) {
		other := c.play(ctx, c.New, database, p.story.clone(), nil, true)
		p.failures = append(p.failures, other.failures...)
	}
	soon := *c
	soon.Settings = erasingSoon(c.Settings)
	p := soon.play(ctx, c.New, database, newStory(time.Now(), soon.Settings), []scene{{"serve", serve}, {"serve", beside}, {"serve", rest}, {"serve", quiesce}}, true)
	next := p.story.clone()
	next.now = time.Now().UTC().Add(time.Second)
	leasesEnd := []scene{{"work", func(p *player) { p.pass(2 * time.Minute) }}}
	left := c.play(ctx, c.New, database, next, leasesEnd, false)
	if len(p.failures) == 0 && len(left.lines) > 0 && left.lines[0].rows["personal_jobs"] > maxJobsLeft {
		p.note("work", "", fmt.Sprintf("%d jobs are left of those that it has done", left.lines[0].rows["personal_jobs"]))
	}
	for _, m := range left.mails[len(p.mails):] {
		if len(p.failures) == 0 && slices.ContainsFunc(p.mails, func(sent personal.Mail) bool { return sent.ID == m.ID }) {
			p.note("work", "mail", "a mail is sent again after a stop")
		}
	}
	c.compareCosts(ctx, p, database)
	return p
}

// deletionGrace is how long after its deletion an account is erased, in its usual form.
var deletionGrace = regexp.MustCompile(`(?m)(^\[deletion\]$[^\[]*^\s*grace\s*=\s*)"([^"]*)"`)

// erasingSoon returns settings by which an account is erased a second after its user has deleted it; the same settings if
// they have the time in another form.
func erasingSoon(settings []byte) []byte {
	if bytes.Contains(settings, []byte("deletion")) {
		return deletionGrace.ReplaceAll(settings, []byte(`${1}"1s"`))
	}
	return append(slices.Clip(settings), "\n[deletion]\ngrace = \"1s\"\n"...)
}

// serve sees that a process that serves works by itself, and hashes passwords at the costs of the site:
// scratch processes work in turns, and hash at once.
func serve(p *player) {
	u := p.add("served")
	var erased bool
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
				p.mails, erased = append(p.mails, mails...), erased || len(accounts) > 0
				for _, e := range events {
					id = max(id, e.UserID)
				}
			case <-p.process.Lost():
				p.lost(operation, "the process has ended", nil)
			case <-limit.C:
				if p.slept() {
					return true
				}
				p.fail(operation, field, "nothing has come within "+startTimeout.String())
			case <-p.ctx.Done():
				p.fail(operation, field, "the rehearsal has ended")
			}
		}
		return true
	}
	if await(personal.OpRegister, "event", u.registration(), func() bool { return id != 0 }) {
		await(personal.OpRecover, "mail", personal.RecoverRequest{Login: u.login}, func() bool { return len(p.mails) > 0 })
		stranger := *u
		stranger.away = 9600
		hangUp(p, &stranger)
		_ = p.patiently(personal.OpAuthorize, func() error { return signInTogether(p, u) })
		bare := hideLogins(p, u)
		for range 45 { // more than run at once
			u.away++
			_ = p.patiently(personal.OpRecover, func() error {
				_, err := p.invoke(u, personal.OpRecover, personal.RecoverRequest{Login: "nobody"})
				return err
			})
		}
		grace := deletionGrace.FindSubmatch(p.settings)
		soon := grace != nil && string(grace[2]) == "1s"
		const second = "Neues-Wort-5515"
		token := p.token(u.email) // of a verification or of a recovery
		_, _ = p.invoke(u, personal.OpConfirmEmail, personal.ConfirmEmailRequest{Token: token, Login: u.login})
		_, _ = p.invoke(u, personal.OpRecoverConfirm, recovered(token, second))
		for _, password := range []string{u.password, second} {
			response, _ := p.invoke(u, personal.OpAuthorize, personal.AuthorizeRequest{Login: u.login, Password: password})
			if in, ok := response.(personal.SignedIn); ok && soon {
				await(personal.OpDelete, "erased", personal.DeleteRequest{Credentials: in.Credentials, Password: password}, func() bool { return erased })
				break
			}
		}
		registered := id
		u = p.add("again")
		await(personal.OpRegister, "event", u.registration(), func() bool { return id > max(registered, bare) })
		u, erased = nil, false // an administrator
		await(personal.OpDeleteUser, "erased", id, func() bool { return erased })
		p.stage.refuse(errRefused)
		accepting := time.AfterFunc(1500*time.Millisecond, func() { p.stage.refuse(nil) }) // the worker has looked for jobs by then
		defer accepting.Stop()
		before := len(p.mails)
		invitation := personal.CreateUserRequest{Login: "invited", Email: "invited@script.invalid", Invite: true}
		await(personal.OpCreateUser, "mail", invitation, func() bool { return len(p.mails) > before })
	}
	if warnings, err := p.warnings(); err != nil || len(warnings) > 0 {
		p.note("Health", "", fmt.Sprint("it warns: ", warnings, err))
	}
}

// hangUp makes more calls than may wait for a hash, and ends them: neither must fail, or keep others waiting.
func hangUp(p *player, u *user) {
	var calling sync.WaitGroup
	failed := make([]error, 80)
	for i := range failed {
		stranger := *u
		stranger.away += i
		calling.Go(func() {
			ctx, cancel := context.WithTimeout(p.by(&stranger, personal.OpAuthorize), 300*time.Millisecond+time.Duration(i)*time.Millisecond)
			defer cancel()
			_, err := p.client.Authorize(ctx, personal.AuthorizeRequest{Login: fmt.Sprint("nobody", i), Password: "wrong-password"})
			if ctx.Err() == nil && personal.CodeOf(err) == personal.CodeInternal {
				failed[i] = err
			}
		})
	}
	calling.Wait()
	if err := cmp.Or(failed...); err != nil {
		p.note(personal.OpAuthorize, ErrorCode, "it fails while many sign in: "+err.Error())
	}
}

var asked = regexp.MustCompile(`(?m)^personal_plugin_store_duration_seconds_count\{operation="(\w+)"\} (\d+)$`)

// rest sees that a process that has nothing to do asks its database a few times at most, and writes nothing. It has several
// tries: now and then there is periodic work.
func rest(p *player) {
	const tries, window, most = 3, 2 * time.Second, 8
	counts := func() (queries, writes int) {
		text, _ := p.process.Metrics(p.ctx)
		for _, m := range asked.FindAllSubmatch(text, -1) {
			n, _ := strconv.Atoi(string(m[2]))
			if string(m[1]) == "query" {
				queries += n
			} else {
				writes += n
			}
		}
		return queries, writes
	}
	for range tries {
		queries, writes := counts()
		time.Sleep(window)
		q, w := counts()
		if q-queries <= most && w == writes {
			return
		}
	}
	p.note("work", "statements", "a process that has nothing to do writes, or asks its database all the time")
}

// quiesce ends the work of the process while it sends a mail, and begins it again, as after a rollback.
func quiesce(p *player) {
	p.stage.delay(time.Second)
	p.stop("last")
	p.stage.delay(0)
	ctx, cancel := context.WithTimeout(p.ctx, startTimeout)
	defer cancel()
	if err := p.process.Activate(ctx); err != nil {
		p.note("Activate", "", "after Quiesce: "+err.Error())
		return
	}
	p.stop("again_last")
}

// stop ends the work of the process after it has started to send a mail to a new user.
func (p *player) stop(login string) {
	p.stage.take()
	select {
	case <-p.stage.sending: // an earlier one
	default:
	}
	err := p.patiently(personal.OpCreateUser, func() error {
		_, err := p.invoke(nil, personal.OpCreateUser, personal.CreateUserRequest{Login: login, Email: login + "@script.invalid", Invite: true})
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
			if !p.slept() {
				p.fail(personal.OpCreateUser, "mail", "nothing has come within "+startTimeout.String())
			}
		}
	}
	ctx, cancel := context.WithTimeout(p.ctx, callTimeout)
	defer cancel()
	if err := p.process.Quiesce(ctx); err != nil {
		p.note("Quiesce", "", err.Error())
	}
	mails, _, _ := p.stage.take()
	p.mails = append(p.mails, mails...)
	if invited && len(mails) == 0 && !p.slept() {
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

// slept reports whether the clock of the machine has jumped since the process was started, as when it sleeps: for a minute after
// that a version runs no jobs.
func (p *player) slept() bool {
	now := time.Now()
	return (now.Round(0).Sub(p.began.Round(0)) - now.Sub(p.began)).Abs() > time.Second
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
