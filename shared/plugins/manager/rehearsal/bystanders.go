package rehearsal

import (
	"github.com/cms-personal/personal/shared/personal"
)

// bystanderNames are the logins of users who have one of everything and do nothing but sign in.
const bystanderNames = "boris bella "

// equipBystanders gives the bystanders one of everything.
func equipBystanders(p *player) {
	for _, u := range p.bystanders() {
		p.outfit(u)
		p.enter(u)
		p.prove(u)
		u.ceremonies = append(u.ceremonies, p.beginPasskey(u, personal.PasskeyProve))
		p.send(u, personal.RecoverRequest{Login: u.login})
	}
}

func (p *player) bystanders() []*user { return []*user{p.users["boris"], p.users["bella"]} }

// askBystanders asks for what the bystanders have, with their former session and after a sign-in.
func askBystanders(p *player) {
	for _, u := range p.bystanders() {
		p.do(u, personal.OpProfile, u.in)
		p.do(nil, personal.OpUser, u.id)
		p.send(nil, personal.ExplainRequest{Login: u.login})
		p.send(u, personal.SignInRequest{Identity: u.identity, Method: "oidc", SecondFactorDone: true})
		p.signIn(u)
		p.do(u, personal.OpPasskeys, u.in)
		p.do(u, personal.OpSessions, u.in)
	}
}

// askBystandersAll asks for all that is kept about the bystanders, too.
func askBystandersAll(p *player) {
	askBystanders(p)
	for _, u := range p.bystanders() {
		p.send(u, personal.ExportRequest{Credentials: u.in, Password: u.password, Code: p.code(u)}, u.signed(p.beginPasskey(u, personal.PasskeySignIn)))
	}
}
