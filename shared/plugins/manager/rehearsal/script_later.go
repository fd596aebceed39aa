package rehearsal

import (
	"fmt"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// laterOperations are those that the first release lacks, with requests that a version refuses which has them.
var laterOperations = map[personal.OperationName]any{
	personal.OpRegisterIdentity:    personal.RegisterIdentityRequest{},
	personal.OpProveIdentity:       personal.ProveIdentityRequest{},
	personal.OpEndIdentitySessions: personal.EndIdentitySessionsRequest{},
	personal.OpBeginMailedCode:     personal.BeginMailedCodeRequest{Purpose: personal.MailedCodeProve},
	personal.OpAuthorizeMailedCode: personal.AuthorizeMailedCodeRequest{}, // also if the site has no mailed codes
}

func askForOperations(p *player) {
	for operation, request := range laterOperations {
		_, err := p.call(nil, operation, request)
		p.lacks[operation] = personal.CodeOf(err) == personal.CodeNotFound
	}
}

// comers are users who come from a provider.
func comers(p *player) {
	if p.lacks[personal.OpRegisterIdentity] {
		return
	}
	igor, inga := p.add("igor"), p.add("inga")
	type register = personal.RegisterIdentityRequest
	request := func(u *user, verified bool) register {
		u.identity = personal.Identity{Issuer: "https://op.invalid", Subject: u.login}
		return register{
			Identity: u.identity, Login: u.login, Email: u.email, Name: "Имя", Fields: p.settableFields(), Method: "oidc", AuthenticatedAt: p.now,
			ProviderSession: "first", EmailVerified: verified,
		}
	}
	r := request(igor, true)
	known, reserved, own := r, r, r
	known.Identity, own.Method, reserved.Login = p.users["boris"].identity, personal.MethodPassword, append(p.listed("reserved"), "admin")[0]
	p.send(igor, register{}, known, reserved, own)
	in := ask[personal.SignedIn](p, igor, personal.OpRegisterIdentity, r)
	igor.in, igor.proof = in.Credentials, in.Proof.Proof
	p.send(igor, r, request(inga, false))
	inga.in = ask[personal.SignedIn](p, inga, personal.OpSignIn, personal.SignInRequest{Identity: inga.identity, Method: "oidc", ProviderSession: "second"}).Credentials
	p.do(igor, personal.OpProfile, igor.in)
	p.do(igor, personal.OpExport, personal.ExportRequest{Credentials: igor.in, Proof: igor.proof})
	type prove = personal.ProveIdentityRequest
	lifetime := p.durations["session.proof_lifetime"]
	p.send(igor, prove{Credentials: igor.in, Identity: inga.identity, AuthenticatedAt: p.now}, prove{Credentials: igor.in, Identity: igor.identity, AuthenticatedAt: p.now.Add(-lifetime)},
		prove{Credentials: igor.in, Identity: igor.identity}, prove{Credentials: igor.in, Identity: igor.identity, AuthenticatedAt: p.now.Add(20 * time.Second)})
	igor.proof = ask[personal.Proof](p, igor, personal.OpProveIdentity, prove{Credentials: igor.in, Identity: igor.identity, AuthenticatedAt: p.now}).Proof
	p.send(igor, personal.BeginTwoFactorRequest{Credentials: igor.in, Proof: igor.proof})
	next := personal.ChangePasswordRequest{Credentials: igor.in, Proof: igor.proof, Password: igor.password, ConfirmPassword: igor.password}
	igor.in = ask[personal.Credentials](p, igor, personal.OpChangePassword, next)
	type end = personal.EndIdentitySessionsRequest
	p.send(nil, end{Identity: inga.identity, ProviderSession: "first"}, end{Identity: igor.identity, ProviderSession: "second"}, end{Identity: personal.Identity{Issuer: "x", Subject: "y"}})
	p.do(nil, personal.OpUserSessions, igor.in.UserID)
	p.do(igor, personal.OpProfile, igor.in)
	p.send(nil, end{Identity: igor.identity, ProviderSession: "first"})
	p.do(igor, personal.OpProfile, igor.in)
	p.signIn(igor)
	igor.in = ask[personal.SignedIn](p, igor, personal.OpSignIn, personal.SignInRequest{Identity: igor.identity, Method: "oidc", ProviderSession: "third"}).Credentials
	p.send(nil, end{Identity: igor.identity}) // all of it
	p.do(igor, personal.OpProfile, igor.in)
	p.signIn(igor)
	igor.proof = ask[personal.Proof](p, igor, personal.OpProveIdentity, prove{Credentials: igor.in, Identity: igor.identity, AuthenticatedAt: p.now}).Proof
	p.send(nil, personal.UnlinkIdentityRequest{Identity: igor.identity, UserID: igor.in.UserID},
		personal.LinkIdentityRequest{Identity: personal.Identity{Issuer: "https://op.invalid", Subject: "igor2"}, Credentials: igor.in, Proof: igor.proof})
	ines := p.add("ines")
	in = ask[personal.SignedIn](p, ines, personal.OpRegisterIdentity, request(ines, true))
	p.send(ines, personal.DeleteRequest{Credentials: in.Credentials}, personal.DeleteRequest{Credentials: in.Credentials, Proof: in.Proof.Proof})
	p.do(ines, personal.OpProfile, in.Credentials)
	p.many(40, 40, 0, igor, personal.OpRegisterIdentity, func(i int) any { // each of them is another user of the provider
		p.move(igor)
		q := r
		q.Identity.Subject = fmt.Sprint("stranger", i)
		return q
	})
	p.many(40, 40, 0, igor, personal.OpRegisterIdentity, func(int) any { // the same one
		p.move(igor)
		q := r
		q.Identity.Subject = "stranger"
		return q
	})
}

// mailedCodes sign users in, where the site has them, and prove who users are that have no password.
func mailedCodes(p *player) {
	if p.lacks[personal.OpBeginMailedCode] {
		return
	}
	type begin = personal.BeginMailedCodeRequest
	type prove = personal.ProveRequest
	mailed := func(u *user, r begin) (attempt, code string) {
		attempt = ask[personal.MailedCodeAttempt](p, u, personal.OpBeginMailedCode, r).Attempt
		return attempt, p.mailedCode(u.email)
	}
	ivo, mila, mark := p.add("ivo"), p.join("mila"), p.join("mark") // by a provider, with a password, unconfirmed
	p.send(mila, personal.ConfirmEmailRequest{Token: p.token(mila.email), Login: mila.login})
	p.send(mila, personal.RecoverRequest{Email: mila.email}) // confirms the e-mail where that is not asked for
	p.send(mila, recovered(p.token(mila.email), mila.password))
	p.signIn(mila)
	if !p.lacks[personal.OpRegisterIdentity] {
		ivo.identity = personal.Identity{Issuer: "https://op.invalid", Subject: ivo.login}
		ivo.in = ask[personal.SignedIn](p, ivo, personal.OpRegisterIdentity, personal.RegisterIdentityRequest{
			Identity: ivo.identity, Login: ivo.login, Email: ivo.email, Fields: p.settableFields(), Method: "oidc", EmailVerified: true,
		}).Credentials
		p.stage.refuse(errRefused) // the first try fails
		attempt, _ := mailed(ivo, begin{Credentials: ivo.in, Purpose: personal.MailedCodeProve})
		p.stage.refuse(nil)
		p.pass(2 * time.Minute)
		code := p.mailedCode(ivo.email)
		p.send(ivo, prove{Credentials: ivo.in, Attempt: attempt, MailedCode: "0000-0000"}, prove{Credentials: mila.in, Attempt: attempt, MailedCode: code},
			prove{Credentials: ivo.in, Attempt: attempt, MailedCode: code, Password: "x"}, prove{Credentials: ivo.in, Attempt: attempt, MailedCode: code},
			prove{Credentials: ivo.in, Attempt: attempt, MailedCode: code})
		p.send(nil, personal.UnlinkIdentityRequest{Identity: ivo.identity, UserID: ivo.in.UserID}) // the e-mail is left
	}
	p.send(mila, begin{Purpose: "other"}, begin{Credentials: mila.in, Purpose: personal.MailedCodeProve}, begin{})
	if p.lacks[personal.OpAuthorizeMailedCode] {
		return
	}
	type enter = personal.AuthorizeMailedCodeRequest
	none, _ := mailed(mark, begin{Login: mark.login}) // no mail
	p.send(mila, begin{Login: "nobody"}, begin{Login: mila.login, Email: mark.email}, enter{Attempt: none, MailedCode: "0000-0000"})
	p.pass(time.Hour)
	since := p.now
	attempt, code := mailed(mila, begin{Email: mila.email})
	late, lateCode := mailed(mila, begin{Login: mila.login})
	p.pass(5 * time.Minute)
	last, lastCode := mailed(mila, begin{Login: mila.login})
	p.ends(since, 10*time.Minute, func() {
		for range 4 {
			p.send(mila, enter{Attempt: attempt, MailedCode: "0000-0000"})
		}
		p.send(mila, enter{Attempt: attempt, MailedCode: lateCode, Code: "x"}) // the fifth
		p.send(mila, enter{Attempt: attempt, MailedCode: code})
	}, func() { p.send(mila, enter{Attempt: late, MailedCode: lateCode}) })
	p.ends(since.Add(5*time.Minute), 10*time.Minute, func() {
		p.send(mila, prove{Credentials: mila.in, Attempt: last, MailedCode: lastCode}, enter{Attempt: last, MailedCode: lastCode}, enter{Attempt: last, MailedCode: lastCode})
	})
	p.pass(time.Hour)
	attempt, code = mailed(mila, begin{Email: mila.email})
	p.do(nil, personal.OpDisableUser, p.users["ian"].id) // another user
	p.move(mila)                                         // the address becomes known, not fully
	mila.in = ask[personal.SignedIn](p, mila, personal.OpAuthorizeMailedCode, enter{Attempt: attempt, MailedCode: strings.ToLower(code)}).Credentials
	p.send(mila, enter{Attempt: attempt, MailedCode: code})
	p.do(mila, personal.OpSessions, mila.in)
	p.signIn(mila)
	p.outfit(mila)
	attempt, code = mailed(mila, begin{Login: mila.login})
	p.send(mila, enter{Attempt: attempt, MailedCode: code}, enter{Attempt: attempt, MailedCode: code, Code: "000000"}, enter{Attempt: attempt, MailedCode: code, Code: p.code(mila)})
	attempt, code = mailed(mila, begin{Login: mila.login})
	next := personal.ChangePasswordRequest{Credentials: mila.in, OldPassword: mila.password, Password: mila.password, ConfirmPassword: mila.password, Code: p.code(mila)}
	mila.in = ask[personal.Credentials](p, mila, personal.OpChangePassword, next)
	p.send(mila, enter{Attempt: attempt, MailedCode: code, Code: p.code(mila)}) // void
	p.pass(time.Hour)
	attempt, code = mailed(mila, begin{Credentials: mila.in, Purpose: personal.MailedCodeProve})
	p.send(mila, prove{Credentials: mila.in, Attempt: attempt, MailedCode: code}, prove{Credentials: mila.in, Attempt: attempt, MailedCode: code, Code: "000000"})
	p.many(20, 20, 0, mark, personal.OpBeginMailedCode, func(int) any { return begin{Login: mila.login} }) // one network
	p.pass(24 * time.Hour)
	p.send(mila, begin{Login: mila.login})
}
