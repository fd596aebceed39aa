package rehearsal

import (
	"github.com/cms-personal/personal/shared/personal"
)

// scene is a part of an act, and a check of the rehearsal.
type scene struct {
	name string
	do   func(*player)
}

// bystanders is the name of the check of users with whom nothing is done.
const bystanders = "bystanders"

var actOne = []scene{{"register", register}, {"sign_in", signIn}}

var actTwo = []scene{{"sign_in", signIn}, {"refresh", refresh}}

var actThree = []scene{{"sign_in", signIn}}

var actLoad = []scene{{"load", load}}

func register(p *player) {
	u := p.add("anna")
	in := ask[personal.SignedIn](p, u, personal.OpRegister, personal.RegisterRequest{
		Login: u.login, Email: u.email, Password: u.password, ConfirmPassword: u.password, Fields: map[string]personal.Input{"name": personal.Text("Anna")},
	})
	u.id, u.in = in.Credentials.UserID, in.Credentials
}

func signIn(p *player) {
	for _, login := range sorted(p.users) {
		p.signIn(p.users[login])
	}
}

func (p *player) signIn(u *user) {
	in := ask[personal.SignedIn](p, u, personal.OpAuthorize, personal.AuthorizeRequest{Login: u.login, Password: u.password})
	if in.Credentials.UserID != 0 {
		u.id, u.former, u.in = in.Credentials.UserID, append(u.former, u.in), in.Credentials
	}
}

func refresh(p *player) {
	u := p.users["anna"]
	next := ask[personal.Credentials](p, u, personal.OpRefresh, u.in)
	p.do(u, personal.OpProfile, next)
}

func load(p *player) {}
