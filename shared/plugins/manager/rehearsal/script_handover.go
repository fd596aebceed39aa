package rehearsal

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest/softkey"
)

var errRefused = errors.New("the host of the script accepts nothing now")

// handedOver are the logins of users of whom something waits at the end of an act.
func handedOver(act int) string {
	var logins strings.Builder
	for _, name := range strings.Fields("full pend reco mail undo gone left off lim job erased moved") {
		fmt.Fprintf(&logins, "%s%d ", name, act)
	}
	return logins.String()
}

// handOver makes one of everything that can wait for the next version.
func handOver(act int) func(p *player) {
	return func(p *player) {
		who := func(name string) *user { return p.users[fmt.Sprint(name, act)] }
		full, pend, reco, mail, undo, gone, lim, job := who("full"), who("pend"), who("reco"), who("mail"), who("undo"), who("gone"), who("lim"), who("job")
		p.outfit(full)
		p.enter(pend, reco, mail, undo, gone, who("left"), who("off"), lim, job, who("erased"), who("moved"))
		for range 2 {
			p.refresh(full)
			p.pass(time.Second)
		}
		p.prove(full)
		if !p.lacks[personal.OpEndIdentitySessions] {
			p.send(full, personal.SignInRequest{Identity: full.identity, Method: "oidc", SecondFactorDone: true, ProviderSession: "provider"})
		}
		add := personal.AddPasskeyRequest{Credentials: full.in, Proof: full.proof}
		full.ceremonies = []personal.PasskeyCeremony{
			p.beginPasskey(full, personal.PasskeySignIn), p.beginPasskey(full, personal.PasskeyProve), ask[personal.PasskeyCeremony](p, full, personal.OpAddPasskey, add),
		}
		invited, fresh := p.add(fmt.Sprint("invited", act)), p.join(fmt.Sprint("fresh", act))
		p.join(fmt.Sprint("waits", act))
		p.send(nil, personal.CreateUserRequest{Login: invited.login, Email: invited.email, Invite: true, Locale: invited.language})
		p.send(fresh, personal.ResendVerificationRequest{Login: fresh.login})
		p.send(nil, personal.UpdateUserRequest{UserID: reco.id, Fields: map[string]personal.Input{"a_text": personal.Text("kept"), "phone": personal.Text("+7 900")}})
		p.send(undo, personal.DeleteRequest{Credentials: undo.in, Password: undo.password})
		p.send(gone, personal.DeleteRequest{Credentials: gone.in, Password: gone.password})
		p.do(nil, personal.OpDisableUser, who("off").id)
		p.send(lim, personal.ChangeEmailRequest{Credentials: lim.in, Email: "next." + lim.email, Password: lim.password}) // exports name it
		p.many(15, 1, 0, lim, personal.OpAuthorize, func(int) any { return personal.AuthorizeRequest{Login: lim.login, Password: "wrong-password"} })
		p.many(4, 1, 0, full, personal.OpAuthorize, func(int) any {
			return personal.AuthorizeRequest{Login: full.login, Password: full.password, Code: "12345"}
		})
		pend.secret = p.beginFactor(pend)
		p.send(reco, personal.RecoverRequest{Login: reco.login})
		p.send(mail, personal.ChangeEmailRequest{Credentials: mail.in, Email: "new." + mail.email, Password: mail.password})
		p.stage.refuse(errRefused)
		p.send(job, personal.RecoverRequest{Email: job.email}, personal.LogoutRequest{Credentials: job.in})
		p.send(reco, personal.UpdateProfileRequest{Credentials: reco.in, Fields: map[string]personal.Input{"city": personal.Text("Omsk")}})
		p.send(reco, personal.ChangeEmailRequest{Credentials: reco.in, Email: "next." + reco.email, Password: reco.password})
		left := who("left")
		p.send(left, personal.DeleteRequest{Credentials: left.in, Password: left.password})
		later := p.add(fmt.Sprint("later", act))
		p.send(nil, personal.CreateUserRequest{Login: later.login, Email: later.email, Invite: true})
		p.signIn(who("erased"))
		p.do(nil, personal.OpDeleteUser, who("erased").id)
		p.send(nil, personal.SetEmailRequest{UserID: who("moved").id, Email: "moved.new" + who("moved").email})
	}
}

// takeOver uses what an act has handed over.
func takeOver(act int) func(p *player) {
	return func(p *player) {
		who := func(name string) *user { return p.users[fmt.Sprint(name, act)] }
		full, pend, mail, lim, fresh := who("full"), who("pend"), who("mail"), who("lim"), who("fresh")
		p.do(full, personal.OpProfile, full.in)
		p.do(full, personal.OpSessions, full.in)
		if !p.lacks[personal.OpEndIdentitySessions] {
			p.send(nil, personal.EndIdentitySessionsRequest{Identity: full.identity, ProviderSession: "provider"})
			p.do(full, personal.OpSessions, full.in)
		}
		p.send(full, full.signed(full.ceremonies[0]))
		proved := full.signed(full.ceremonies[1])
		p.send(nil, personal.LinkIdentityRequest{Identity: personal.Identity{Issuer: full.identity.Issuer, Subject: full.login + "2"}, Credentials: full.in, Proof: full.proof})
		second := full.device()
		p.send(full, second.created(full.ceremonies[2]), personal.ProveRequest{Credentials: full.in, Attempt: proved.Attempt, Credential: proved.Credential})
		p.send(full, second.signed(p.beginPasskey(full, personal.PasskeySignIn)))
		for _, former := range full.former[max(0, len(full.former)-2):] { // which may end the session
			p.do(full, personal.OpProfile, former)
		}
		secret := pend.secret
		pend.secret = ""
		p.send(pend, personal.ConfirmTwoFactorRequest{Credentials: pend.in, Code: softkey.Code(secret, p.now)})
		reco, invited := who("reco"), who("invited")
		p.send(reco, recovered(p.token(reco.email), reco.password))
		p.send(invited, recovered(p.token(invited.email), invited.password))
		p.send(mail, personal.ConfirmEmailRequest{Token: p.token("new." + mail.email)})
		p.send(fresh, personal.ConfirmEmailRequest{Token: "https://www.site.example/#token=" + p.token(fresh.email) + ".", Login: fresh.login}) // as people paste it
		p.send(who("undo"), personal.UndoDeleteRequest{Token: p.token(who("undo").email)})
		p.signIn(who("off"))
		p.do(nil, personal.OpEnableUser, who("off").id)
		p.signIn(lim)
		p.send(nil, personal.ExplainRequest{Login: lim.login}, personal.ExplainRequest{Login: full.login}, personal.ExplainRequest{Login: who("gone").login}, personal.LiftLimitsRequest{UserID: lim.id})
		p.do(full, personal.OpRefresh, full.in)
		p.enter(full, reco, invited, mail, fresh, who("undo"), who("off"), lim)
		if len(full.codes) > 0 {
			in := ask[personal.SignedIn](p, full, personal.OpAuthorize, personal.AuthorizeRequest{Login: full.login, Password: full.password, Code: full.codes[0]})
			if !p.lacks[personal.OpRegisterIdentity] { // else sign-ins give no proofs; this one stands for the code, too
				third := full.device()
				third.in, third.proof = in.Credentials, in.Proof.Proof
				p.addPasskey(third)
				p.send(full, third.signed(p.beginPasskey(full, personal.PasskeySignIn)))
			}
		}
		p.send(full, full.signed(p.beginPasskey(full, personal.PasskeySignIn)), personal.SignInRequest{Identity: full.identity, Method: "oidc"})
		r := full.signed(p.beginPasskey(full, personal.PasskeySignIn))
		r.Code = p.code(full)
		q := full.signed(p.beginPasskey(full, personal.PasskeyProve))
		p.send(full, r, personal.ProveRequest{Credentials: full.in, Attempt: q.Attempt, Credential: q.Credential, Code: p.code(full)})
		p.pass(10 * time.Minute)
		p.send(who("job"), recovered(p.token(who("job").email), who("job").password))
		p.send(who("left"), personal.UndoDeleteRequest{Token: p.token(who("left").email)})
		p.send(who("later"), recovered(p.token(who("later").email), who("later").password))
	}
}

// vanish removes user fields from the host's schema, and writes values of others.
func vanish(p *player) {
	gone := p.schema
	gone.Revision, gone.Fields = "script 3", nil
	for _, f := range p.schema.Fields {
		if f.Name != "a_text" && f.Name != "kind" {
			gone.Fields = append(gone.Fields, f)
		}
	}
	gone.Fields = append(gone.Fields, personal.Field{Name: "later", Type: "of_a_later_version"})
	p.stage.show(gone)
	u := p.users["reco1"]
	p.enter(u)
	for _, fields := range []map[string]personal.Input{{"a_text": personal.Text("new")}, {"phone": personal.Text("+7 901"), "a_tags": {}}} {
		p.send(nil, personal.UpdateUserRequest{UserID: u.id, Fields: fields})
		p.send(u, personal.UpdateProfileRequest{Credentials: u.in, Fields: fields})
	}
	p.do(nil, personal.OpUser, u.id)
	p.do(u, personal.OpFields, nil)
	p.do(nil, personal.OpFieldsFill, nil)
	p.stage.show(personal.Schema{Revision: "script 4", Fields: []personal.Field{{Name: "BAD"}}})
	p.do(u, personal.OpProfile, u.in)
	p.stage.show(gone)
}

// read reads all that the acts have left.
func read(p *player) {
	r := personal.FindUsersRequest{Limit: personal.MaxUserLimit, Fields: []string{"a_text", "city"}}
	page := ask[personal.UserPage](p, nil, personal.OpFindUsers, r)
	for i, u := range page.Users {
		if i%3 == 0 {
			p.do(nil, personal.OpUser, u.ID)
		}
	}
	p.do(nil, personal.OpUser, p.users["reco1"].id)
	p.send(nil, personal.AuditEntriesRequest{Limit: personal.MaxAuditLimit})
	for _, login := range []string{"full1", "full2", "rita"} {
		u := p.users[login]
		p.enter(u)
		p.send(u, personal.ExportRequest{Credentials: u.in, Password: u.password, Code: p.code(u)})
	}
}
