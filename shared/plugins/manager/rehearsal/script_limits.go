package rehearsal

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// maxBurst is how often a call is repeated to find a limit. A wider one isn't seen.
const maxBurst = 130

// burst repeats a call until a limit refuses it, and again just before and just after the limit's
// interval has passed. The setting is that of the limit.
func (p *player) burst(setting string, operation personal.OperationName, call func(i int) (*user, any)) {
	if !p.repeat(operation, call) {
		return
	}
	p.wait(p.durations["throttle."+setting+".every"] - time.Second)
	p.repeat(operation, call)
	p.wait(time.Second)
	p.repeat(operation, call)
}

// limits uses up each limit, and calls as others, whom it doesn't concern.
func limits(p *player) {
	u := p.users["limits"]
	p.pass(0)
	by := func(n int) *user { c := *u; c.away = n; return &c } // at another address
	wrong := func(login string) personal.AuthorizeRequest {
		return personal.AuthorizeRequest{Login: login, Password: "wrong"}
	}
	right := personal.AuthorizeRequest{Login: u.login, Password: u.password}
	same := func(u *user, request any) func(int) (*user, any) {
		return func(int) (*user, any) { return u, request }
	}

	p.burst("guess", personal.OpAuthorize, same(by(2001), wrong("limits")))
	p.do(by(2001), personal.OpAuthorize, wrong("LIMITS"))
	p.do(by(2001), personal.OpAuthorize, wrong("witness")) // another login
	p.do(by(2002), personal.OpAuthorize, wrong("limits"))  // another address
	p.pass(p.durations["throttle.guess.every"])
	p.do(by(2001), personal.OpAuthorize, right) // clears it
	p.repeat(personal.OpAuthorize, same(by(2001), wrong("limits")))

	p.burst("guess_account", personal.OpAuthorize, func(i int) (*user, any) { return by(3000 + i), wrong("full") })
	p.do(by(2001), personal.OpAuthorize, wrong("full")) // at an address that only another user is known at
	p.signIn(p.users["full"])                           // at a known address

	forged := u.in
	forged.UserHash = forge(forged.UserHash)
	p.burst("guess_address", personal.OpProfile, same(by(4000), forged))
	p.do(by(4000), personal.OpProfile, u.in)
	p.do(by(4001), personal.OpProfile, forged)

	several := hashed()
	p.burst("sign_in_address", personal.OpAuthorize, func(i int) (*user, any) {
		if i%3 > 0 { // counts as well, and costs less
			return by(5000), wrong(fmt.Sprint("nobody", i))
		}
		u := *p.users[several[i%len(several)]]
		u.away = 5000
		return &u, personal.AuthorizeRequest{Login: u.login, Password: u.password}
	})
	p.send(nil, personal.ExplainRequest{Login: "nobody", Addresses: []netip.Addr{addressOf(5000)}})
	p.do(by(5000), personal.OpAuthorize, right)
	p.do(by(5001), personal.OpAuthorize, right)
	p.burst("sign_in_account", personal.OpAuthorize, same(u, right))
	p.do(u, personal.OpSessions, u.in)
	p.signIn(p.users["witness"])

	p.pass(2 * p.durations["throttle.sign_in_account.every"])
	p.signIn(u)
	p.burst("session_writes", personal.OpRevokeSession, same(u, personal.RevokeSessionRequest{Credentials: u.in, ID: "0"}))
	p.everyOperation(u, u.in)
	p.do(u, personal.OpProfile, u.in)
	p.signIn(u) // another session
	p.do(u, personal.OpRevokeSession, personal.RevokeSessionRequest{Credentials: u.in, ID: "0"})

	taken := u.registration()
	taken.Email = "new@script.invalid"
	p.burst("register", personal.OpRegister, same(by(6000), taken))
	p.do(by(6001), personal.OpRegister, taken)
	p.burst("register_invalid", personal.OpRegister, same(by(6100), personal.RegisterRequest{}))
	p.do(by(6100), personal.OpRegister, taken)
	taken = u.registration()
	taken.Login = "new_login"
	p.burst("taken_email", personal.OpRegister, same(by(6200), taken))
	p.do(by(6200), personal.OpChangeEmail, personal.ChangeEmailRequest{Credentials: u.in, Email: taken.Email, Password: u.password})
	p.do(by(6201), personal.OpRegister, taken)

	p.burst("recover", personal.OpRecover, same(by(7000), personal.RecoverRequest{Login: "nobody"}))
	p.do(by(7000), personal.OpResendVerification, personal.ResendVerificationRequest{Login: "nobody"})
	p.do(by(7001), personal.OpRecover, personal.RecoverRequest{Login: "nobody"})
	proxy := by(7002)
	proxy.shared = true
	p.repeat(personal.OpRecover, same(proxy, personal.RecoverRequest{Login: "nobody"}))
	nowhere := by(0)
	nowhere.address = netip.Addr{}
	p.repeat(personal.OpRecover, same(nowhere, personal.RecoverRequest{Login: "nobody"}))
	stranger := by(7100)
	p.many(20, 1, 0, stranger, personal.OpRecover, func(int) any { // all wait
		stranger.away++
		return personal.RecoverRequest{Login: "nobody"}
	})
	p.burst("confirm", personal.OpConfirmEmail, same(by(8000), personal.ConfirmEmailRequest{Token: "none"}))
	p.do(by(8000), personal.OpUndoDelete, personal.UndoDeleteRequest{Token: "none"})
	p.do(by(8000), personal.OpRecoverConfirm, personal.RecoverConfirmRequest{Token: "none", Preview: true})
	if !p.lacks[personal.OpAuthorizeMailedCode] {
		p.do(by(8000), personal.OpAuthorizeMailedCode, personal.AuthorizeMailedCodeRequest{Attempt: "none", MailedCode: "x"})
	}
	p.do(by(8001), personal.OpUndoDelete, personal.UndoDeleteRequest{Token: "none"})
	p.repeat(personal.OpExport, same(u, personal.ExportRequest{Credentials: u.in, Password: u.password}))
	p.repeat(personal.OpProve, same(u, personal.ProveRequest{Credentials: u.in, Password: "wrong"}))
	w := *p.users["witness"]
	w.away = 9001
	p.signIn(&w)
	p.repeat(personal.OpChangePassword, same(&w, personal.ChangePasswordRequest{Credentials: w.in, OldPassword: "wrong", Password: "x", ConfirmPassword: "x"}))
	w.away = 9003
	p.signIn(&w)
	p.repeat(personal.OpChangeEmail, same(&w, personal.ChangeEmailRequest{Credentials: w.in, Email: "w@script.invalid", Password: "wrong"}))
}

// setBack uses what is left by a clock that was ahead for a while: limits, sessions and jobs of a time to come.
func setBack(p *player) {
	const ahead = 3 * time.Hour
	u := *p.users["witness"]
	u.away = 9500
	wrong := func(int) (*user, any) { return &u, personal.AuthorizeRequest{Login: u.login, Password: "wrong"} }
	p.wait(ahead)
	p.repeat(personal.OpAuthorize, wrong)
	p.repeat(personal.OpConfirmEmail, func(int) (*user, any) { return &u, personal.ConfirmEmailRequest{Token: "none"} })
	u.away++
	p.signIn(&u)
	former := u.in
	p.refresh(&u)
	p.stage.refuse(errRefused)
	p.do(&u, personal.OpRecover, personal.RecoverRequest{Login: u.login})
	p.do(&u, personal.OpUpdateProfile, personal.UpdateProfileRequest{Credentials: u.in, Fields: map[string]personal.Input{"city": personal.Text("Perm")}})
	p.wait(-ahead)
	p.stage.refuse(nil)
	p.pass(16 * time.Minute)
	p.do(&u, personal.OpProfile, former)
	p.refresh(&u)
	p.do(&u, personal.OpSessions, u.in)
	u.away--
	p.signIn(&u)
	p.do(&u, personal.OpConfirmEmail, personal.ConfirmEmailRequest{Token: "none"})
	p.pass(ahead)
}

// repeat repeats a call until a limit refuses it, and reports whether one did. What the calls have done,
// and how many passed, is one line.
func (p *player) repeat(operation personal.OperationName, call func(i int) (*user, any)) (limited bool) {
	for i := range maxBurst {
		u, request := call(i)
		_, err := p.call(u, operation, request)
		limited = personal.CodeOf(err) == personal.CodeTooManyAttempts
		if !limited && i < maxBurst-1 {
			continue
		}
		l := line{check: p.check, operation: operation, answer: AnswerOf(nil, err)}
		l.answer["calls"] = fmt.Sprint(i + 1)
		p.turn(&l, 0, false)
		p.lines = append(p.lines, l)
		break
	}
	return limited
}

// windows uses sessions just before and just after they end. It is the last scene of its
// act: the clock moves far.
func windows(p *player) {
	u := p.users["windows"]
	idle, absolute := p.durations["session.idle"], p.durations["session.absolute"]
	slack := min(idle/100, time.Minute) // of the stored last use
	p.signIn(u)
	sessions := u.pairs()
	use := func(i int) {
		p.do(u, personal.OpProfile, at(sessions, i))
	}
	for i := range sessions { // all are used now
		use(i)
		p.accepts(at(sessions, i))
	}
	p.pass(idle / 2)
	u.poll = true
	use(3) // which keeps no session
	u.poll = false
	p.pass(idle - idle/2 - time.Second)
	use(0)
	p.do(u, personal.OpSessions, at(sessions, 0))
	p.pass(slack)
	use(1)
	p.wait(2 * time.Second)
	p.accepts(at(sessions, 2))
	use(2)
	use(3)
	p.do(nil, personal.OpUserSessions, u.id)
	p.signIn(u)
	p.quietly(func() {
		end := absolute - time.Second
		for age := time.Duration(0); age < end; { // is used all the time
			step := min(max(idle-idle/10, absolute/500), end-age)
			p.pass(step)
			p.do(u, personal.OpProfile, u.in)
			age += step
		}
	})
	p.do(u, personal.OpSessions, u.in)
	p.wait(time.Second)
	p.do(u, personal.OpProfile, u.in)
	p.do(u, personal.OpRefresh, u.in)
}

// sessionsLeft is act 3: what the sessions of another version are to this one.
func sessionsLeft(p *player) {
	for _, login := range usersOfSessions {
		u := p.users[login]
		p.do(nil, personal.OpUserSessions, u.id)
		p.do(nil, personal.OpUser, u.id)
		p.do(u, personal.OpProfile, u.in)
		if len(u.former) > 0 {
			p.do(u, personal.OpProfile, u.former[len(u.former)-1])
		}
		p.refresh(u)
		p.do(u, personal.OpProfile, u.in)
	}
}
