package rehearsal

import (
	"fmt"
	"net/netip"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest/softkey"
)

// actAccount is what users do with their accounts.
var actAccount = []scene{
	{"recovery", recovery}, {"invitation", invitation}, {"verification", verification}, {"email", changeEmail}, {"password", changePassword},
	{"proof", proof}, {"two_factor", twoFactor}, {"passkeys", passkeys}, {"identities", identities}, {"export", export}, {"deletion", deletion},
}

// send calls operations by their requests.
func (p *player) send(as *user, requests ...any) {
	for _, r := range requests {
		p.do(as, personal.OperationName(strings.TrimSuffix(reflect.TypeOf(r).Name(), "Request")), r)
	}
}

// ends calls functions a second before something ends that lasts so long since a time, then, and a
// second later.
func (p *player) ends(since time.Time, d time.Duration, moments ...func()) {
	for i, f := range moments {
		move := p.wait // else what has ended is removed at once
		if i == 0 {
			move = p.pass
		}
		move(max(since.Add(d+time.Duration(i-1)*time.Second).Sub(p.now), 0))
		f()
	}
	p.pass(0)
}

// enter signs users in, each at a new address.
func (p *player) enter(users ...*user) {
	for _, u := range users {
		p.move(u)
		p.signIn(u)
	}
}

// move gives a user another address.
func (p *player) move(u *user) {
	p.network++
	u.away = 1000 + p.network
}

// code returns the next code of a user; "" without a second factor.
func (p *player) code(u *user) string {
	if u.secret == "" {
		return ""
	}
	p.wait(softkey.CodePeriod)
	code := softkey.Code(u.secret, p.now)
	p.secrets = append(p.secrets, `"`+code+`"`) // as a log has it, which has many numbers
	return code
}

func (p *player) prove(u *user) {
	u.proof = ask[personal.Proof](p, u, personal.OpProve, personal.ProveRequest{Credentials: u.in, Password: u.password, Code: p.code(u)}).Proof
}

// outfit gives a user a session, a proof, a passkey, an identity and a second factor.
func (p *player) outfit(u *user) {
	p.enter(u)
	p.prove(u)
	p.addPasskey(u)
	u.identity = personal.Identity{Issuer: "https://op.script.invalid", Subject: u.login}
	p.send(nil, personal.LinkIdentityRequest{Identity: u.identity, Credentials: u.in, Proof: u.proof})
	p.confirmFactor(u, p.beginFactor(u))
}

func (p *player) beginFactor(u *user) (secret string) {
	return ask[personal.TwoFactorSecret](p, u, personal.OpBeginTwoFactor, personal.BeginTwoFactorRequest{Credentials: u.in, Password: u.password}).Secret
}

func (p *player) confirmFactor(u *user, secret string) {
	r := personal.ConfirmTwoFactorRequest{Credentials: u.in, Code: softkey.Code(secret, p.now)}
	if on := ask[personal.ConfirmedTwoFactor](p, u, personal.OpConfirmTwoFactor, r); on.Credentials.UserID != 0 {
		u.secret, u.codes, u.former, u.in = secret, on.RecoveryCodes, append(u.former, u.in), on.Credentials
	}
}

func (p *player) beginPasskey(u *user, purpose personal.PasskeyPurpose) personal.PasskeyCeremony {
	return ask[personal.PasskeyCeremony](p, u, personal.OpBeginPasskey, personal.BeginPasskeyRequest{Credentials: u.in, Purpose: purpose})
}

func (p *player) addPasskey(u *user) (id string) {
	c := ask[personal.PasskeyCeremony](p, u, personal.OpAddPasskey, personal.AddPasskeyRequest{Credentials: u.in, Proof: u.proof})
	return ask[personal.Passkey](p, u, personal.OpConfirmPasskey, u.created(c)).ID
}

// device returns the user at another device, which has no passkey yet.
func (u *user) device() *user {
	another := *u
	another.keys = softkey.Authenticator{Origin: u.keys.Origin}
	return &another
}

// created answers the creation of a passkey.
func (u *user) created(c personal.PasskeyCeremony) personal.ConfirmPasskeyRequest {
	credential, err := u.keys.Create(c.Options)
	if err != nil { // there is one already, or there are no options
		credential, _ = u.device().keys.Create(c.Options)
	}
	return personal.ConfirmPasskeyRequest{Credentials: u.in, Attempt: c.Attempt, Credential: credential, Name: "Ключ " + u.login}
}

// signed answers a ceremony with the latest passkey.
func (u *user) signed(c personal.PasskeyCeremony) personal.AuthorizePasskeyRequest {
	credential, _ := u.keys.Get(c.Options)
	return personal.AuthorizePasskeyRequest{Attempt: c.Attempt, Credential: credential}
}

// altered replaces a part of a credential by that of another one.
func altered(credential, name, other string) string {
	part := regexp.MustCompile(`"` + name + `":"[^"]*"`)
	return part.ReplaceAllLiteralString(credential, part.FindString(other))
}

func recovered(token, password string) personal.RecoverConfirmRequest {
	return personal.RecoverConfirmRequest{Token: token, Password: password, ConfirmPassword: password}
}

func recovery(p *player) {
	rita, ruth, rick := p.users["rita"], p.users["ruth"], p.users["rick"]
	p.outfit(rita)
	p.enter(ruth, rick)
	type recover = personal.RecoverRequest
	p.send(nil, recover{Login: rick.login}) // an administrator asks
	p.send(ruth, recover{}, recover{Email: "no address"}, recover{Login: "nobody"}, recover{Email: "nobody@script.invalid"},
		recover{Login: rita.login, Email: ruth.email}, recover{Login: ruth.login, Email: " RUTH@script.invalid"})
	p.send(rita, recover{Login: strings.ToUpper(rita.login)})
	p.send(rick, recover{Email: rick.email})
	since := p.now
	token, late := p.token(rita.email), p.token(rick.email)
	p.send(ruth, recovered("", ""), recovered(strings.Repeat("A", 43), "Anderes-Wort-1"), recovered(late[1:]+"A", "Anderes-Wort-1"),
		personal.UndoDeleteRequest{Token: late}, personal.ConfirmEmailRequest{Token: late})
	weak := recovered(token, "password1")
	weak.ConfirmPassword = "another"
	p.ends(since, p.durations["recovery.lifetime"], func() {
		p.send(rita, personal.RecoverConfirmRequest{Token: token, Preview: true}, weak, recovered(token, rita.login+"12345"), recovered(token, rita.email))
		rita.password = "Neues-Wort-5512"
		p.move(rita) // they have not signed in with a code there
		p.send(rita, recovered(token, rita.password), recovered(token, "Neues-Wort-5513"))
		p.do(rita, personal.OpProfile, rita.in)
	}, func() {
		p.send(rick, personal.RecoverConfirmRequest{Token: late, Preview: true})
	}, func() {
		p.send(rick, recovered(late, "Neues-Wort-5514"))
	})
	p.enter(rita, ruth, rick)
	p.send(rita, recover{Login: rita.login})
	p.send(rita, recovered(p.token(rita.email), rita.password)) // where they are known
	p.many(2, 1, 0, rita, personal.OpAuthorize, func(int) any {
		return personal.AuthorizeRequest{Login: rita.login, Password: rita.password, Code: "12345"}
	})
	p.signIn(rita)
	de := *p.users[hashed()[20]]
	de.language = "de"
	p.send(&de, recover{Login: de.login})
	p.do(rita, personal.OpPasskeys, rita.in)
	p.send(rita, personal.SignInRequest{Identity: rita.identity, Method: "oidc", SecondFactorDone: true})
	p.mailsOfStrangers(ruth)
}

// mailsOfStrangers asks for more mails to a user than anyone gets.
func (p *player) mailsOfStrangers(u *user) {
	network := p.network
	for range 4 { // hours
		p.many(12, 3, time.Second, u, personal.OpRecover, func(i int) any {
			u.away = 2000 + network + i/3
			return personal.RecoverRequest{Login: u.login}
		})
		p.send(nil, personal.ExplainRequest{Login: u.login})
		p.pass(time.Hour)
	}
	p.many(12, 12, 0, nil, personal.OpRecover, func(int) any { return personal.RecoverRequest{Login: u.login} }) // an administrator has mails of their own
	p.enter(u)
	p.pass(24 * time.Hour)
	p.many(4, 1, time.Second, u, personal.OpRecover, func(int) any { return personal.RecoverRequest{Login: u.login} })
	if p.durations["recovery.lifetime"] > 2*time.Hour { // in a day come too few mails for this limit
		return
	}
	crowd := *u
	crowd.away = 0
	p.many(26, 1, p.durations["recovery.lifetime"]/2, &crowd, personal.OpRecover, func(i int) any { // one network
		crowd.address = netip.AddrFrom4([4]byte{10, 250, 0, byte(i + 1)})
		return personal.RecoverRequest{Login: u.login}
	})
}

func invitation(p *player) {
	for i, language := range []string{"en", "ru", ""} {
		ivan := p.add(fmt.Sprintf("ivan%d", i))
		r := personal.CreateUserRequest{Login: ivan.login, Email: ivan.email, Locale: language, Invite: i < 2, Fields: map[string]personal.Input{"name": personal.Text("Иван"), "rating": personal.Text("4")}}
		ivan.id = ask[int64](p, nil, personal.OpCreateUser, r)
		p.do(nil, personal.OpUser, ivan.id)
		p.send(nil, personal.ExplainRequest{Login: ivan.login})
	}
	a, b, since := p.users["ivan0"], p.users["ivan1"], p.now
	p.send(nil, personal.CreateUserRequest{Login: a.login, Email: b.email}, personal.CreateUserRequest{Login: "ivan9", Email: strings.ToUpper(b.email)},
		personal.CreateUserRequest{Login: "x", Email: "y", Fields: map[string]personal.Input{"age": personal.Text("200")}}, personal.CreateUserRequest{Login: "ivan8", Invite: true})
	p.ends(since, p.durations["recovery.invitation_lifetime"], func() {
		p.send(a, recovered(p.token(a.email), a.password))
	}, func() {
		p.send(b, personal.RecoverConfirmRequest{Token: p.token(b.email), Preview: true})
	}, func() {
		p.send(b, recovered(p.token(b.email), b.password))
	})
	p.enter(a, b)
}

// join registers a user, who confirms nothing yet.
func (p *player) join(login string) *user {
	u := p.add(login)
	in := ask[personal.SignedIn](p, u, personal.OpRegister, u.registration())
	u.id, u.in = in.Credentials.UserID, in.Credentials
	return u
}

func verification(p *player) {
	vera, vlad, void := p.join("vera"), p.join("vlad"), p.join("void")
	never, rival := p.join("never"), p.add("rival")
	rival.email = never.email // who waits for the same one
	p.do(rival, personal.OpRegister, rival.registration())
	p.send(rival, personal.ResendVerificationRequest{Email: never.email})
	p.signIn(vera) // too early, where it is required
	p.send(nil, personal.ExplainRequest{Login: vera.login}, personal.FindUsersRequest{State: personal.UserUnconfirmed, Limit: 5})
	p.send(void, personal.BeginTwoFactorRequest{Credentials: void.in, Password: void.password}, personal.ResendVerificationRequest{},
		personal.ResendVerificationRequest{Login: "nobody"}, personal.ResendVerificationRequest{Login: void.login, Email: vera.email})
	for range personal.DefaultUserLimit / 4 { // more often than a token bears
		p.send(void, personal.ConfirmEmailRequest{Token: p.token(void.email), Login: "another"})
	}
	p.send(void, personal.ConfirmEmailRequest{Token: p.token(void.email), Login: void.login})
	p.pass(time.Hour)
	first := p.token(vera.email)
	p.send(vera, personal.ResendVerificationRequest{Email: vera.email})
	p.send(vlad, personal.ResendVerificationRequest{Login: vlad.login})
	token, since := p.token(vera.email), p.now
	confirm := func(u *user, token string) personal.ConfirmEmailRequest {
		return personal.ConfirmEmailRequest{Token: token, Login: u.login}
	}
	p.ends(since, p.durations["registration.verification_lifetime"], func() {
		p.send(vera, recovered(token, vera.password), personal.ConfirmEmailRequest{Token: token}, confirm(vera, first), confirm(vera, token), confirm(vera, token))
	}, func() {
		p.send(vlad, personal.ConfirmEmailRequest{Token: p.token(vlad.email), Login: "another"})
	}, func() {
		p.send(vlad, confirm(vlad, p.token(vlad.email)))
	})
	p.enter(vera, vlad)
	for i := range 4 { // one mailbox, one network
		u := p.add(fmt.Sprint("tag", i))
		u.email = fmt.Sprintf("box+%d@script.invalid", i)
		copied := *vlad
		p.do(&copied, personal.OpRegister, u.registration())
	}
	last := p.join("last")
	since = p.now
	seen := func() {
		p.do(nil, personal.OpUsers, []int64{never.id, last.id})
		p.send(nil, personal.ExplainRequest{Login: last.login})
	}
	p.ends(since, p.durations["registration.unverified_lifetime"], seen, seen, seen)
	p.send(last, personal.FindUsersRequest{Limit: 6}, personal.ResendVerificationRequest{Login: last.login})
	p.join("never") // again, if it was erased
}

func changeEmail(p *player) {
	emma, ezra := p.users["emma"], p.users["ezra"]
	p.enter(emma, ezra)
	change := func(u *user, email, password string) personal.ChangeEmailRequest {
		return personal.ChangeEmailRequest{Credentials: u.in, Email: email, Password: password}
	}
	old, fresh := emma.email, "emma.new@script.invalid"
	p.send(emma, change(emma, fresh, "wrong-password"), change(emma, "emma", emma.password), change(emma, strings.ToUpper(ezra.email), emma.password),
		change(emma, old, emma.password), change(emma, "EMMA@script.invalid", emma.password), change(emma, fresh, emma.password))
	token := p.token(fresh)
	p.send(ezra, change(ezra, fresh, ezra.password), change(ezra, "ezra.new@script.invalid", ezra.password))
	late := p.token("ezra.new@script.invalid")
	since := p.now
	p.prove(emma)
	p.send(emma, personal.ChangeEmailRequest{Credentials: emma.in, Email: "none", Proof: emma.proof})
	p.ends(since, p.durations["recovery.lifetime"], func() {
		p.enter(emma) // the former session may have ended
		p.prove(emma)
		started := ask[personal.PasskeyCeremony](p, emma, personal.OpAddPasskey, personal.AddPasskeyRequest{Credentials: emma.in, Password: emma.password})
		secret := p.beginFactor(emma)
		p.send(emma, recovered(token, emma.password), personal.ConfirmEmailRequest{Token: token}, personal.ConfirmEmailRequest{Token: token})
		p.do(emma, personal.OpConfirmPasskey, emma.device().created(started)) // of the former e-mail
		p.send(emma, personal.ConfirmTwoFactorRequest{Credentials: emma.in, Code: softkey.Code(secret, p.now)})
		p.send(nil, personal.LinkIdentityRequest{Identity: personal.Identity{Issuer: "https://op.script.invalid", Subject: "e"}, Credentials: emma.in, Proof: emma.proof})
		for _, login := range []string{old, fresh} {
			p.send(emma, personal.AuthorizeRequest{Login: login, Password: emma.password})
		}
	}, func() {}, func() {
		p.send(ezra, personal.ConfirmEmailRequest{Token: late})
	})
	p.do(nil, personal.OpUser, emma.id)
}

func changePassword(p *player) {
	paul := p.users["paul"]
	p.outfit(paul)
	other := *paul
	p.enter(&other)
	type change = personal.ChangePasswordRequest
	set := func(old, password string) change {
		return change{Credentials: paul.in, OldPassword: old, Password: password, ConfirmPassword: password, Code: p.code(paul)}
	}
	if paul.secret != "" { // else nothing asks for a code
		p.refuseCodes(paul, 2)
		p.send(paul, personal.ChangeEmailRequest{Credentials: paul.in, Email: "paul.new@script.invalid", Password: paul.password, Code: "123456"},
			personal.AddPasskeyRequest{Credentials: paul.in, Password: paul.password, Code: "123456"})
		p.pass(time.Hour)
		p.send(paul, personal.RemovePasskeyRequest{Credentials: paul.in, ID: "1", Password: paul.password, Code: "123456"},
			change{Credentials: paul.in, OldPassword: paul.password, Password: "Viertes-Wort-79", ConfirmPassword: "Viertes-Wort-79", Code: "123456"})
		p.pass(time.Hour)
	}
	for _, password := range []string{"short1", "password1", "paul@script.invalid", "paul1234567", strings.Repeat("long", 300), "Другой-Пароль-77"} {
		p.send(paul, set("wrong-password", password))
		p.send(paul, set(paul.password, password)) // the last one is good
		p.pass(10 * time.Minute)
	}
	p.do(&other, personal.OpProfile, other.in)
	paul.password = "Другой-Пароль-77"
	p.enter(paul, &other)
	p.prove(paul)
	r := set("", "Третий-Пароль-78")
	r.Proof, r.RemoveOtherWaysIn = paul.proof, true
	paul.in = ask[personal.Credentials](p, paul, personal.OpChangePassword, r)
	p.do(&other, personal.OpProfile, other.in)
	p.do(paul, personal.OpPasskeys, paul.in)
	p.send(paul, r)
	p.send(nil, personal.SignInRequest{Identity: paul.identity, Method: "oidc"})
}

// refuseCodes has n codes of a user refused, each at another new address, if they have a second factor.
func (p *player) refuseCodes(u *user, n int) {
	stranger := *u
	p.many(n, 1, 0, &stranger, personal.OpAuthorize, func(int) any {
		p.move(&stranger)
		return personal.AuthorizeRequest{Login: u.login, Password: u.password, Code: "12345"}
	})
}

func proof(p *player) {
	pete := p.users["pete"]
	p.enter(pete)
	second := *pete
	p.enter(&second)
	link := func(u *user, proof string) {
		p.send(nil, personal.LinkIdentityRequest{Identity: personal.Identity{Issuer: "https://op.script.invalid", Subject: "pete"}, Credentials: u.in, Proof: proof})
	}
	p.send(pete, personal.ProveRequest{Credentials: pete.in, Password: "wrong-password"}, personal.ProveRequest{Credentials: pete.in})
	p.prove(pete)
	former := pete.proof
	link(&second, former)
	p.prove(pete)
	link(pete, former)
	try, since := func() { link(pete, pete.proof) }, p.now
	p.ends(since, p.durations["session.proof_lifetime"], try, try, try)
	p.prove(&second)
	p.send(&second, personal.LogoutRequest{Credentials: second.in})
	link(&second, second.proof)
	if p.lacks[personal.OpRegisterIdentity] { // sign-ins have no proofs
		return
	}
	in := ask[personal.SignedIn](p, pete, personal.OpAuthorize, personal.AuthorizeRequest{Login: pete.login, Password: pete.password})
	pete.in, pete.proof = in.Credentials, in.Proof.Proof
	p.ends(p.now, min(p.durations["session.proof_lifetime"], 5*time.Minute), try, try, try)
}

func identities(p *player) {
	ivy, ian := p.users["ivy"], p.add("ian")
	p.outfit(ivy)
	p.send(nil, personal.LinkIdentityRequest{Identity: personal.Identity{Issuer: "x", Subject: "void"}, Credentials: ivy.in, Proof: ivy.proof})
	p.prove(ivy) // the second factor has ended the former proof
	ian.id = ask[int64](p, nil, personal.OpCreateUser, personal.CreateUserRequest{Login: ian.login, Email: ian.email})
	ian.identity = personal.Identity{Issuer: "ACME\u202e", Subject: "ian"}
	type link = personal.LinkIdentityRequest
	p.send(nil, link{Identity: ivy.identity, UserID: ian.id}, link{Identity: ian.identity, UserID: ivy.id}, link{Identity: ian.identity, UserID: ian.id},
		link{Identity: personal.Identity{Issuer: ian.identity.Issuer, Subject: "second"}, UserID: ian.id}, link{Identity: ian.identity, UserID: 1 << 40},
		link{Identity: ian.identity, Credentials: ivy.in, Proof: ivy.proof}, link{Identity: personal.Identity{Issuer: strings.Repeat("i", 256)}, UserID: ian.id})
	for _, i := range []personal.Identity{ivy.identity, ian.identity, {Issuer: ivy.identity.Issuer, Subject: "IVY"}, {}} {
		p.do(nil, personal.OpFindIdentity, i)
	}
	type open = personal.SignInRequest
	lifetime := p.durations["session.proof_lifetime"]
	for _, r := range []open{
		{Identity: ivy.identity, Method: "oidc"}, {Identity: ivy.identity, Method: "oidc", Code: "12345"}, {Identity: ivy.identity, UserID: ivy.id, Method: "oidc"}, {Method: "oidc"},
		{UserID: ian.id, Method: "password"}, {UserID: ian.id, Method: "saml_2"}, {UserID: 1 << 40, Method: "saml"}, {Identity: personal.Identity{Issuer: "x", Subject: "y"}, Method: "oidc"},
		{Identity: ivy.identity, Method: "oidc", Code: p.code(ivy), AuthenticatedAt: p.now.Add(time.Second - lifetime)},
		{Identity: ian.identity, Method: "oidc", AuthenticatedAt: p.now.Add(time.Second - lifetime)}, {Identity: ian.identity, Method: "oidc", AuthenticatedAt: p.now.Add(-lifetime)},
		{Identity: ian.identity, Method: "oidc", AuthenticatedAt: p.now.Add(time.Hour)}, {Identity: ivy.identity, Method: "oidc", SecondFactorDone: true, AuthenticatedAt: p.now},
	} {
		opened := ask[personal.SignedIn](p, ivy, personal.OpSignIn, r)
		if r.SecondFactorDone {
			ivy.in, ivy.proof = opened.Credentials, opened.Proof.Proof
		}
	}
	if ivy.secret != "" && !p.lacks[personal.OpProveIdentity] { // a return from a provider is no second factor
		r := personal.ProveIdentityRequest{Credentials: ivy.in, Identity: ivy.identity, AuthenticatedAt: p.now}
		p.send(ivy, r)
		r.Code = "12345"
		p.send(ivy, r)
	}
	second := ivy.device() // whose passkey stands for no code
	p.addPasskey(second)
	p.send(ivy, second.signed(p.beginPasskey(ivy, personal.PasskeySignIn)))
	p.do(ivy, personal.OpSessions, ivy.in)
	type unlink = personal.UnlinkIdentityRequest
	p.send(nil, unlink{Identity: ian.identity, UserID: ian.id}, unlink{Identity: ian.identity, Credentials: ivy.in, Proof: ivy.proof},
		unlink{Identity: ivy.identity, Credentials: ivy.in}, unlink{Identity: ivy.identity, UserID: ian.id}, unlink{Identity: ivy.identity, Credentials: ivy.in, Proof: ivy.proof})
	p.do(nil, personal.OpUserSessions, ivy.id)
	p.do(nil, personal.OpFindIdentity, ivy.identity)
	comers(p)
	mailedCodes(p)
}

func export(p *player) {
	xena := p.users["xena"]
	p.outfit(xena)
	second := *xena
	p.enter(&second)
	p.send(xena, personal.RecoverRequest{Login: xena.login}, personal.ExportRequest{Credentials: xena.in, Password: "wrong-password", Code: p.code(xena)},
		personal.ExportRequest{Credentials: xena.in, Password: xena.password})
	p.prove(xena)
	p.quietly(func() { // the mail waits
		p.send(xena, personal.ChangeEmailRequest{Credentials: xena.in, Email: "xena.new@script.invalid", Proof: xena.proof}, personal.ExportRequest{Credentials: xena.in, Proof: xena.proof})
	})
	for range 4 {
		p.send(xena, personal.ExportRequest{Credentials: xena.in, Password: xena.password, Code: p.code(xena)})
	}
}

func deletion(p *player) {
	dana, dave, dora := p.users["dana"], p.users["dave"], p.users["dora"]
	p.outfit(dana)
	p.enter(dave, dora)
	type remove = personal.DeleteRequest
	if dana.secret != "" {
		p.send(dana, remove{Credentials: dana.in, Password: dana.password}, remove{Credentials: dana.in, Password: dana.password, Code: "123456"})
		p.pass(time.Hour)
	}
	p.send(dana, remove{Credentials: dana.in, Password: "wrong-password", Code: p.code(dana)}, remove{Credentials: dana.in, Password: dana.password, Code: p.code(dana)})
	p.send(dave, remove{Credentials: dave.in, Password: dave.password})
	p.send(dora, remove{Credentials: dora.in, Password: dora.password})
	since := p.now
	p.do(nil, personal.OpDisableUser, dora.id)
	p.do(dana, personal.OpProfile, dana.in)
	p.signIn(dana)
	p.send(nil, personal.ExplainRequest{Login: dana.login}, personal.FindUsersRequest{State: personal.UserDisabled, Limit: 5}, personal.SignInRequest{Identity: dana.identity, Method: "oidc"})
	p.send(dana, personal.RecoverRequest{Login: dana.login}, personal.UndoDeleteRequest{}, personal.UndoDeleteRequest{Token: strings.Repeat("A", 43)}, recovered(p.token(dana.email), dana.password))
	seen := func() { p.do(nil, personal.OpUsers, []int64{dana.id, dave.id, dora.id}) }
	p.ends(since, p.durations["deletion.grace"], func() {
		p.send(dana, personal.UndoDeleteRequest{Token: p.token(dana.email)}, personal.UndoDeleteRequest{Token: p.token(dana.email)})
		p.send(dora, personal.UndoDeleteRequest{Token: p.token(dora.email)})
		seen()
	}, seen, seen)
	p.signIn(dana)
	p.send(dave, personal.UndoDeleteRequest{Token: p.token(dave.email)})
	mailless, other := p.users["mailless"], p.users["argon2id"] // who signs in in another language than before
	p.enter(mailless)
	p.signIn(other)
	p.send(mailless, remove{Credentials: mailless.in, Password: mailless.password})
	p.send(other, remove{Credentials: other.in, Password: other.password})
	p.send(other, personal.UndoDeleteRequest{Token: p.token(other.email)})
	p.send(nil, personal.AuditEntriesRequest{Limit: 8})
	p.join("dave")
	rick := p.users["rick"]
	p.enter(rick)
	p.send(rick, remove{Credentials: rick.in, Password: rick.password})
	p.do(nil, personal.OpEnableUser, rick.id)
	p.do(nil, personal.OpDisableUser, rick.id)
	p.do(nil, personal.OpUsers, []int64{rick.id})
}
