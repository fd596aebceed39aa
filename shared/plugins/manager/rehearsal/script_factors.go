package rehearsal

import (
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest/softkey"
)

func twoFactor(p *player) {
	fay, finn := p.users["fay"], p.users["finn"]
	p.enter(fay, finn)
	other := *fay
	p.enter(&other)
	type confirm = personal.ConfirmTwoFactorRequest
	p.send(fay, personal.BeginTwoFactorRequest{Credentials: fay.in, Password: "wrong-password"}, confirm{Credentials: fay.in, Code: "12345"},
		personal.RenewRecoveryCodesRequest{Credentials: fay.in, Password: fay.password, Code: "123456"})
	late := p.beginFactor(finn)
	since := p.now
	wrong := func() { p.send(finn, confirm{Credentials: finn.in, Code: "12345"}) }
	p.ends(since, 10*time.Minute, wrong, wrong, wrong)
	p.confirmFactor(finn, late)

	secret := p.beginFactor(fay)
	former := confirm{Credentials: fay.in, Code: softkey.Code(secret, p.now)}
	p.send(&other, confirm{Credentials: other.in, Code: former.Code})
	p.confirmFactor(fay, secret)
	since = p.now
	again := func() { p.do(fay, personal.OpConfirmTwoFactor, former) }
	p.ends(since, time.Minute, again, again)
	p.do(&other, personal.OpProfile, other.in)

	signIn := func(code string) {
		p.move(fay)
		p.send(fay, personal.AuthorizeRequest{Login: fay.login, Password: fay.password, Code: code})
	}
	if len(fay.codes) < 7 { // the site has no second factors
		return
	}
	p.send(fay, personal.BeginTwoFactorRequest{Credentials: fay.in, Password: fay.password}) // there is one
	p.pass(softkey.CodePeriod - time.Duration(p.now.Unix()%30)*time.Second)                  // a period begins
	p.pass(10 * softkey.CodePeriod)
	at := func(periods float64) string {
		return softkey.Code(fay.secret, p.now.Add(time.Duration(periods*float64(softkey.CodePeriod))))
	}
	wide := func(code string) string { return strings.Map(func(c rune) rune { return c - '0' + '０' }, code) }
	for _, code := range []string{"", "12345x", at(-2), at(2), at(-1)[:3] + " " + at(-1)[3:], at(-1), wide(at(0)), at(0), at(1), at(0), at(1)} {
		signIn(code)
	}
	p.pass(10 * time.Minute)
	signIn(strings.ToLower(fay.codes[0]))
	signIn(fay.codes[0])
	signIn(finn.login)
	fay.password = "wrong-password"
	p.signIn(fay)
	fay.password = passwordOf(fay.login)
	p.signIn(fay)
	type renew = personal.RenewRecoveryCodesRequest
	p.prove(fay)
	p.send(fay, renew{Credentials: fay.in, Proof: fay.proof})
	r := renew{Credentials: fay.in, Password: fay.password, Code: p.code(fay)}
	p.send(fay, renew{Credentials: fay.in, Password: fay.password, Code: "12345"}, renew{Credentials: fay.in, Password: fay.password})
	fresh := ask[[]string](p, fay, personal.OpRenewRecoveryCodes, r)
	p.send(fay, r)
	p.pass(time.Minute)
	p.send(fay, r)
	signIn(fay.codes[1])
	if len(fresh) > 6 {
		fay.codes = fresh
	}
	p.codesBlocked(fay)
	p.refuseCodes(fay, 12) // one limit for all addresses that fay has not used
	p.send(nil, personal.ExplainRequest{Login: fay.login})
	p.signIn(fay) // at an address that is known
	p.do(nil, personal.OpLiftLimits, personal.LiftLimitsRequest{UserID: fay.id})
	p.enter(fay)
	prove := personal.ProveRequest{Credentials: fay.in, Password: fay.password, Code: fay.codes[3]}
	p.send(fay, prove, prove, personal.AddPasskeyRequest{Credentials: fay.in, Password: fay.password, Code: fay.codes[4]},
		personal.ChangeEmailRequest{Credentials: fay.in, Password: fay.password, Email: "fay.new@script.invalid", Code: fay.codes[5]},
		personal.ExportRequest{Credentials: fay.in, Password: fay.password, Code: fay.codes[6]})
	if !p.lacks[personal.OpRegisterIdentity] { // a version that has it gives proofs with sign-ins, which do not authorise everything
		p.move(fay)
		in := ask[personal.SignedIn](p, fay, personal.OpAuthorize, personal.AuthorizeRequest{Login: fay.login, Password: fay.password, Code: p.code(fay)})
		p.send(fay, personal.RemoveOwnTwoFactorRequest{Credentials: in.Credentials, Proof: in.Proof.Proof}, renew{Credentials: in.Credentials, Proof: in.Proof.Proof})
	}
	p.prove(fay)
	p.addPasskey(fay)
	for _, code := range []string{"12345", "", p.code(fay)} {
		p.send(fay, personal.RemoveOwnTwoFactorRequest{Credentials: fay.in, Password: fay.password, Code: code})
	}
	fay.secret = ""
	p.enter(fay)
}

// codesBlocked has codes of a user refused from many addresses until codes of the app are, which a
// recovery code ends, or an administrator.
func (p *player) codesBlocked(u *user) {
	for _, end := range []any{
		personal.AuthorizeRequest{Login: u.login, Password: u.password, Code: u.codes[2]}, personal.LiftLimitsRequest{UserID: u.id},
	} {
		p.enter(u)
		home := u.away
		p.many(personal.CodesToBlock+1, 10, 10*15*time.Minute, u, personal.OpAuthorize, func(int) any {
			p.move(u)
			return personal.AuthorizeRequest{Login: u.login, Password: u.password, Code: "12345"}
		})
		known := *u
		known.away = home
		p.signIn(&known)
		shared := *u
		shared.away, shared.shared = home, true // others use the address, too
		p.signIn(&shared)
		p.enter(u)
		p.send(nil, personal.ExplainRequest{Login: u.login})
		p.enter(p.users["rita"]) // whose codes are not
		p.send(u, end)
		p.enter(u)
	}
}

func passkeys(p *player) {
	pia, phil, dana := p.users["pia"], p.users["phil"], p.users["dana"]
	p.enter(pia, phil)
	other := *pia
	p.enter(&other)
	p.prove(pia)
	p.prove(phil)
	type add = personal.AddPasskeyRequest
	p.send(pia, add{Credentials: pia.in, Password: "wrong-password"}, add{Credentials: pia.in, Proof: phil.proof})
	c := ask[personal.PasskeyCeremony](p, pia, personal.OpAddPasskey, add{Credentials: pia.in, Password: pia.password})
	r := pia.created(c)
	for _, flags := range []byte{softkey.Flags &^ 4, softkey.Flags &^ 1} { // neither verified nor there
		bad := pia.keys
		bad.Flags = flags
		r.Credential, _ = bad.Create(c.Options)
		p.send(pia, r)
	}
	r = pia.created(c)
	nameless, foreign := r, r
	nameless.Name, foreign.Credentials = strings.Repeat("n", personal.MaxPasskeyName+1), other.in
	p.send(pia, nameless, foreign)
	id := ask[personal.Passkey](p, pia, personal.OpConfirmPasskey, r).ID
	p.send(pia, r)
	p.addPasskey(phil)
	mixed, proving := ask[personal.PasskeyCeremony](p, phil, personal.OpAddPasskey, add{Credentials: phil.in, Proof: phil.proof}), p.beginPasskey(phil, personal.PasskeyProve)
	mixed.Attempt, mixed.Options = proving.Attempt, altered(mixed.Options, "challenge", proving.Options) // of another purpose
	p.send(phil, phil.created(mixed))
	expired := pia.created(ask[personal.PasskeyCeremony](p, pia, personal.OpAddPasskey, add{Credentials: pia.in, Password: pia.password}))
	lists := func() { p.do(pia, personal.OpPasskeys, pia.in) }
	lists()
	p.quietly(func() {
		for range personal.MaxPasskeys {
			p.addPasskey(phil.device())
		}
	})
	p.signIn(phil) // this session may have written too often
	for _, algorithm := range []int{softkey.EdDSA, softkey.RS256} {
		p.enter(dana)
		p.prove(dana)
		device := dana.device()
		device.keys.Algorithm = algorithm
		p.addPasskey(device)
		p.send(device, device.signed(p.beginPasskey(device, personal.PasskeySignIn)))
	}

	// Sign-ins: forged in each part, from elsewhere, of others, repeated.
	begin := func(u *user) personal.PasskeyCeremony { return p.beginPasskey(u, personal.PasskeySignIn) }
	phils := phil.signed(begin(phil)).Credential
	spoilt := func(change func(*user, *personal.AuthorizePasskeyRequest)) {
		copied := *pia
		copied.keys.Count = 0
		r := copied.signed(begin(pia))
		change(&copied, &r)
		p.send(pia, r)
	}
	for _, part := range []string{"signature", "userHandle", "authenticatorData", "clientDataJSON", "id"} {
		spoilt(func(_ *user, r *personal.AuthorizePasskeyRequest) { r.Credential = altered(r.Credential, part, phils) })
	}
	spoilt(func(_ *user, r *personal.AuthorizePasskeyRequest) { r.Attempt = begin(pia).Attempt })
	spoilt(func(_ *user, r *personal.AuthorizePasskeyRequest) { r.Credential = "{}" })
	for _, change := range []func(*softkey.Authenticator){
		func(k *softkey.Authenticator) { k.Origin = "https://evil.invalid" }, func(k *softkey.Authenticator) { k.Site = "evil.invalid" },
		func(k *softkey.Authenticator) { k.Flags = softkey.Flags &^ 4 }, func(k *softkey.Authenticator) { k.Flags = softkey.Flags &^ 1 },
		func(k *softkey.Authenticator) { k.Count = 9 }, func(k *softkey.Authenticator) { k.Count = 3 }, func(k *softkey.Authenticator) { k.Count = 10 },
	} {
		copied := *pia
		change(&copied.keys)
		p.send(pia, copied.signed(begin(pia)))
	}
	for _, origin := range p.listed("origins") {
		copied := *pia
		copied.keys.Origin = origin
		p.send(pia, copied.signed(begin(pia)))
	}
	pia.keys.Count = 20
	good := pia.signed(begin(pia))
	pia.in = ask[personal.SignedIn](p, pia, personal.OpAuthorizePasskey, good).Credentials
	p.send(pia, good)

	since := p.now
	var attempts []personal.AuthorizePasskeyRequest
	for range 3 {
		attempts = append(attempts, pia.signed(begin(pia)))
	}
	var proofs []personal.ProveRequest
	prove := func(u *user, c personal.PasskeyCeremony) personal.ProveRequest {
		return personal.ProveRequest{Credentials: u.in, Attempt: c.Attempt, Credential: pia.signed(c).Credential}
	}
	for range 3 {
		proofs = append(proofs, prove(pia, p.beginPasskey(pia, personal.PasskeyProve)))
	}
	stolen := p.beginPasskey(phil, personal.PasskeyProve)
	p.send(phil, prove(phil, stolen), prove(phil, begin(phil)))
	foreignProof := proofs[0]
	foreignProof.Credentials = other.in
	p.send(pia, foreignProof, personal.ProveRequest{Credentials: pia.in, Attempt: good.Attempt, Credential: good.Credential})
	try := func(i int) func() {
		return func() { p.send(pia, attempts[i], proofs[i], proofs[i]); p.send(pia, expired) }
	}
	p.ends(since, 5*time.Minute, try(0), try(1), try(2))

	p.enter(&other)
	p.prove(&other)
	third := *pia
	p.enter(&third)
	third.proof = ask[personal.Proof](p, &third, personal.OpProve, prove(&third, p.beginPasskey(&third, personal.PasskeyProve))).Proof
	var latest personal.PasskeyCeremony
	for range 11 { // more than a session has
		p.wait(time.Second)
		latest = p.beginPasskey(&third, personal.PasskeyProve)
	}
	third.proof = ask[personal.Proof](p, &third, personal.OpProve, prove(&third, latest)).Proof
	p.send(phil, personal.RenamePasskeyRequest{Credentials: phil.in, ID: id, Name: "mine"},
		personal.RemovePasskeyRequest{Credentials: phil.in, ID: id, Password: phil.password})
	lists()
	p.send(&other, personal.RenamePasskeyRequest{Credentials: other.in, ID: id, Name: " Новый "}, personal.RenamePasskeyRequest{Credentials: other.in, ID: id})
	lists()
	p.send(&other, personal.RemovePasskeyRequest{Credentials: other.in, ID: id}, personal.RemovePasskeyRequest{Credentials: other.in, ID: id, Proof: other.proof})
	lists() // in a session that the passkey began
	p.send(&third, add{Credentials: third.in, Proof: third.proof})
	p.do(&other, personal.OpPasskeys, other.in)
	p.send(pia, pia.signed(begin(pia)))
}
