package rehearsal

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// valid has a value of each user field.
var valid = map[string]personal.Input{
	"phone": personal.Text("+7 900 123"), "city": personal.Text("Казань"), "kind": personal.Text("writer"),
	"rating": number("7"), "level": number("3"), "age": personal.Text("42"),
	"a_text": personal.Text("Cafe\u0301  <b>&amp; 'x'"), "a_long_text": personal.Text("one\r\ntwo\n\n three"), "a_integer": number("-9007199254740991"),
	"a_number": personal.Text("1e-3"), "a_boolean": {Kind: personal.InputBoolean, Text: "true"}, "a_date": personal.Text("2000-02-29"),
	"a_datetime": personal.Text("2001-02-03T04:05:06.5+03:00"), "a_file": personal.Text("pictures/a 1.png"), "a_link": personal.Text("article-1"),
	"share": number("0.5"), "a_link_set": list("2", "1"), "a_tags": list("ф", "a b"), "motto": personal.Text(strings.Repeat("ф", 12)),
}

// others are other forms of valid values.
var others = []map[string]personal.Input{
	{"a_boolean": personal.Text("on"), "a_file": personal.Text("https://x.invalid/a.png"), "a_tags": {Kind: personal.InputRepeated, List: []string{"b", "a"}}, "a_integer": number("0"), "share": number("1"), "a_long_text": personal.Text(strings.Repeat("ф", 20_000))},
	{"a_boolean": {Kind: personal.InputBoolean, Text: "false"}, "a_file": personal.Text("http://x.invalid/"), "a_link_set": {Kind: personal.InputRepeated, List: []string{"1"}}, "share": number("0")},
}

// invalid has values that fields refuse.
var invalid = []map[string]personal.Input{
	{
		"name": personal.Text("a\x00b"), "phone": personal.Text("none"), "city": {}, "kind": personal.Text("other"), "age": number("151"),
		"a_text": personal.Text(strings.Repeat("ф", 1001)), "a_long_text": {Kind: personal.InputOther}, "a_integer": number("9007199254740992"),
		"a_number": personal.Text("1,5"), "a_boolean": personal.Text("maybe"), "a_date": personal.Text("2001-02-29"),
		"a_datetime": personal.Text("2001-02-03"), "a_file": personal.Text("javascript:alert(1)"), "a_link": personal.Text(strings.Repeat("1", 256)),
		"a_link_set": list("1", ""), "a_tags": list(strings.Repeat("x", 256)), "motto": personal.Text(strings.Repeat("ф", 13)),
	},
	{
		"name": personal.Text(strings.Repeat("n", 256)), "age": number("-1"), "a_text": list("a"), "a_integer": number("1.5"), "a_number": personal.Text("NaN"),
		"a_boolean": number("2"), "a_date": personal.Text("01.02.2003"), "a_file": personal.Text("../a"), "a_tags": personal.Text("a"), "a_link_set": list("1", "1"),
	},
	{"name": personal.Text("a\u202eb"), "motto": personal.Text("a\u2066b")}, {"rating": number("1")}, {"phone": {Kind: personal.InputRepeated, List: []string{"1", "2"}}, "share": number("1.5")}, {"level": number("9")}, {"unknown": personal.Text("x")}, {"phone": personal.Text("call +7 900 123"), "motto": personal.Text("a x"), "a_file": personal.Text("//evil.invalid/a.png")},
	{strings.Repeat("u", 65): personal.Text("x")},
	{"a_integer": number("1e99999999"), "a_number": number("1e400"), "a_long_text": personal.Text(strings.Repeat("ф", 20_001)), "a_file": personal.Text("%2e%2e/a"), "a_tags": list(strings.Split(strings.Repeat("x,", 1001), ",")...)},
	{"a_file": personal.Text("a/" + strings.Repeat("b", 2048)), "a_integer": number("-1e17")}, {"a_file": personal.Text("https://user:pw@x.invalid/a")}, {"a_file": personal.Text(`/\\evil.invalid`)},
	{"a_file": personal.Text("javascript://x.invalid/%0aalert(1)"), "phone": personal.Text("+7 900 123 or 4")},
}

func number(text string) personal.Input {
	return personal.Input{Kind: personal.InputNumber, Text: text}
}

func list(items ...string) personal.Input {
	return personal.Input{Kind: personal.InputList, List: items}
}

// settableFields returns the values of the fields that a user may set.
func (s *story) settableFields() map[string]personal.Input {
	all := map[string]personal.Input{"name": personal.Text("Ан\u0301на  Smith")}
	for _, f := range s.schema.Fields {
		if !f.Hidden && !f.ReadOnly {
			all[f.Name] = valid[f.Name]
		}
	}
	return all
}

// registration returns the request by which a user registers.
func (u *user) registration() personal.RegisterRequest {
	return personal.RegisterRequest{Login: u.login, Email: u.email, Password: u.password, ConfirmPassword: u.password, Fields: map[string]personal.Input{"city": personal.Text("Kazan")}}
}

// register makes a user who can sign in, whatever the site asks for, and signs them in.
func (p *player) register(login string) *user {
	u := p.add(login)
	p.do(u, personal.OpRegister, u.registration())
	p.do(u, personal.OpConfirmEmail, personal.ConfirmEmailRequest{Token: p.token(u.email), Login: u.login})
	p.signIn(u)
	return u
}

// signIn opens another session of a user.
func (p *player) signIn(u *user) {
	in := ask[personal.SignedIn](p, u, personal.OpAuthorize, personal.AuthorizeRequest{Login: u.login, Password: u.password, Code: p.code(u)})
	if in.Credentials.UserID != 0 {
		u.id, u.in, u.former = in.Credentials.UserID, in.Credentials, append(u.former, u.in)
	}
}

// refresh replaces the hash of a user's session.
func (p *player) refresh(u *user) {
	next := ask[personal.Credentials](p, u, personal.OpRefresh, u.in)
	if next.UserID != 0 {
		u.in, u.former = next, append(u.former, u.in)
	}
}

// pairs returns the credentials that a user has had, the current ones last.
func (u *user) pairs() []personal.Credentials {
	return slices.DeleteFunc(append(slices.Clone(u.former), u.in), func(c personal.Credentials) bool { return c.UserID == 0 })
}

// usersOfSessions are users of the scenes in this file.
var usersOfSessions = []string{"fields", "chain", "thief", "devices", "witness", "states", "windows", "limits", "others"}

// registerSessions is act 1: users, and what their sessions leave behind.
func registerSessions(p *player) {
	for _, login := range usersOfSessions {
		p.register(login)
	}
	for _, u := range []string{"chain", "thief"} {
		for range 3 {
			p.refresh(p.users[u])
			p.pass(p.durations["session.grace"] / 4)
		}
	}
	for _, login := range []string{"devices", "witness", "windows", "states"} {
		u := p.users[login]
		for range 3 {
			u.away++
			p.signIn(u)
		}
		u.away = 0
	}
	p.do(p.users["fields"], personal.OpUpdateProfile, personal.UpdateProfileRequest{Credentials: p.users["fields"].in, Fields: p.settableFields()})
}

// registering is what a registration refuses, and what it stores.
func registering(p *player) {
	features := ask[personal.Features](p, nil, personal.OpFeatures, nil)
	p.do(nil, personal.OpFields, nil)
	u := p.add("registered")
	try := func(change func(*personal.RegisterRequest)) {
		r := u.registration()
		change(&r)
		p.do(u, personal.OpRegister, r)
	}
	for _, fields := range invalid {
		try(func(r *personal.RegisterRequest) { r.Fields = fields })
	}
	for _, login := range []string{
		"", "ab", strings.Repeat("l", 65), "a b", "Ivаn_", "other@script.invalid", "a,b", "Fields", " ｆields\u200b", "fields@script.invalid",
	} {
		try(func(r *personal.RegisterRequest) { r.Login = login })
	}
	for _, login := range append(p.listed("reserved"), "Admin ", "abuse", "administrator", "contact", "help", "hostmaster", "info", "mail", "moderator", "noc", "official", "postmaster", "root", "security", "staff", "support", "webmaster", "www") {
		try(func(r *personal.RegisterRequest) { r.Login, r.Email = strings.ToUpper(login), "fields@script.invalid" })
	}
	for _, email := range []string{"", "none", "a@b", "a b@script.invalid", " FIELDS@script.INVALID ", "fields＠script.invalid"} {
		try(func(r *personal.RegisterRequest) { r.Email = email })
	}
	words := p.listed("words")
	for _, word := range words { // each is long enough, and has little besides the word
		words = append(words, strings.Repeat(strings.ToUpper(word), 1+features.PasswordMinLength/len(word))+"84027")
	}
	for _, password := range append(words, "", "passwor", strings.Repeat("x", features.PasswordMinLength-1), strings.Repeat("x", features.PasswordMaxBytes+1),
		"password1", "PassWord1", "1234567890QWERTY", "registered@script.invalid", "a\x00bcdefghijklm") {
		try(func(r *personal.RegisterRequest) { r.Password, r.ConfirmPassword = password, password })
	}
	try(func(r *personal.RegisterRequest) { r.ConfirmPassword = "another" })
	own := "registered_by_the_script"
	try(func(r *personal.RegisterRequest) { r.Login, r.Password, r.ConfirmPassword = own, own, own })
	asked := p.schema
	asked.Revision, asked.Fields = "script 1b", append(slices.Clip(asked.Fields), personal.Field{Name: "asked", Type: personal.TypeText, Required: true})
	p.stage.show(asked)
	try(func(*personal.RegisterRequest) {})
	p.stage.show(p.schema)
	try(func(r *personal.RegisterRequest) {
		r.FieldErrors = personal.FieldErrors{"phone": personal.FieldErrorInvalidType}
	})
	try(func(r *personal.RegisterRequest) { r.Fields = p.settableFields() })
	try(func(*personal.RegisterRequest) {})
	p.do(u, personal.OpConfirmEmail, personal.ConfirmEmailRequest{Token: p.token(u.email), Login: u.login})
	p.signIn(u)
	p.do(u, personal.OpProfile, u.in)
	p.do(nil, personal.OpUser, u.id)
	idn := p.add("idn_user")
	idn.email = "idn@почта.invalid"
	p.do(idn, personal.OpRegister, idn.registration())
	for i, login := range []string{"Jürgen_ß", "юрий_ё", "Ελένη_ς", "李小龙", "やまだ_が", "김철수", "محمد", "דוד_כהן", "สมชาย", "अमित", "ქეთი", "Անի", "7j.o'neil-x+y"} {
		u := p.add(login)
		u.email = "scr.ipt-" + string(rune('a'+i)) + "_1@sub-domain.script.invalid"
		u.password = "Мой пароль " + login + " 73"
		p.do(u, personal.OpRegister, u.registration())
		p.do(u, personal.OpConfirmEmail, personal.ConfirmEmailRequest{Token: p.token(u.email), Login: u.login})
		p.do(u, personal.OpAuthorize, personal.AuthorizeRequest{Login: []string{" \u200b" + strings.ToUpper(login) + "\u00a0", u.email}[i%2], Password: []string{strings.ReplaceAll(u.password, "й", "и\u0306"), u.password}[i%2]})
	}
}

// signingIn signs in with every stored hash: wrong, right, and again after it was replaced.
func signingIn(p *player) {
	for i, login := range append(hashed(), wrapped[0], posted, "passwordless", "unverified", "disabled", "leaving", "mailless", "full", "fields", "nobody") {
		u := p.users[login]
		if u == nil {
			u = &user{login: login, password: "password", email: "nobody@script.invalid", address: addressOf(999)}
		}
		if i%8 == 0 || login == "disabled" { // it costs as much as several right ones
			p.do(u, personal.OpAuthorize, personal.AuthorizeRequest{Login: u.login, Password: "wrong " + u.login})
		}
		p.do(u, personal.OpAuthorize, personal.AuthorizeRequest{Login: u.login, Password: u.password})
		if i%8 == 1 {
			p.do(u, personal.OpAuthorize, personal.AuthorizeRequest{Login: strings.ToUpper(u.email) + " ", Password: u.password})
		}
	}
	typed := p.users["composed"]
	for _, password := range []string{strings.ReplaceAll(typed.password, "й", "и\u0306"), typed.password} { // decomposed, and composed
		p.do(typed, personal.OpAuthorize, personal.AuthorizeRequest{Login: typed.login, Password: password})
	}
	u := p.users["fields"]
	misplaced := strings.ToLower(u.password) // a password in the place of the login, as logins are stored
	p.secrets = append(p.secrets, misplaced)
	p.send(u, personal.RecoverRequest{Login: misplaced}, personal.ResendVerificationRequest{Login: misplaced}, personal.RecoverRequest{Email: "petr@почта.рф"})
	for _, r := range []personal.AuthorizeRequest{
		{}, {Login: u.login}, {Password: u.password}, {Login: "fiеlds", Password: u.password}, {Login: u.login, Password: strings.ToUpper(u.password)},
		{Login: u.login, Password: u.password + " "}, {Login: misplaced, Password: "x"}, {Login: "full@script.invalid", Password: u.password}, {Login: "ＦＩＥＬＤＳ", Password: u.password},
	} {
		p.do(u, personal.OpAuthorize, r)
	}
}

// signInAll uses the hashes that a version has stored, and opens the sessions that the next act uses.
func signInAll(logins ...string) func(p *player) {
	return func(p *player) {
		for _, login := range logins {
			if u := p.users[login]; u != nil {
				p.signIn(u)
			}
		}
	}
}

// chain is what happens to a session whose hashes come back: a lost response, requests that overtake
// each other, a thief.
func chain(p *player) {
	grace := p.durations["session.grace"]
	u := p.users["chain"]
	profiles := func(all ...personal.Credentials) {
		for _, c := range all {
			p.do(u, personal.OpProfile, c)
		}
	}
	last := at(u.former, len(u.former)-1)
	profiles(last, u.in)              // the predecessor, of another version
	p.do(u, personal.OpRefresh, last) // returns the current one
	profiles(at(u.former, 1))         // within the grace period, or not
	p.signIn(u)                       // another session
	first := u.in
	p.refresh(u)
	second := u.in
	p.do(u, personal.OpRefresh, first)
	p.do(u, personal.OpRefresh, first)
	profiles(first, second)
	p.refresh(u)
	p.pass(grace - time.Second)
	profiles(first, second)
	p.pass(time.Second)
	profiles(second, u.in)
	p.pass(grace - time.Second)
	profiles(second)
	forged := u.in
	forged.UserHash = forge(forged.UserHash)
	profiles(forged, u.in)
	p.pass(time.Second)
	profiles(second, u.in, second) // a thief's: the session ends
	p.signIn(u)
	stolen := u.in
	p.refresh(u)
	p.refresh(u)
	p.pass(grace + grace/16)
	p.do(u, personal.OpRefresh, stolen)
	profiles(u.in)
	p.do(u, personal.OpRefresh, u.in)
	thief := p.users["thief"] // whose hashes are of act 1
	for _, c := range []personal.Credentials{at(thief.former, 1), thief.in} {
		p.do(thief, personal.OpRefresh, c)
	}
	p.signIn(thief)
	stolen = thief.in
	p.quietly(func() {
		for range 70 {
			p.refresh(thief)
			p.wait(p.durations["throttle.session_writes.every"])
		}
	})
	profiles(stolen, thief.in) // long ago
	p.do(nil, personal.OpUserSessions, u.id)
	p.signIn(u)
	p.refresh(u)
	p.signIn(thief)
}

// forge returns another hash of the same session.
func forge(hash string) string {
	if len(hash) < 2 {
		return hash
	}
	last := byte('A')
	if hash[len(hash)-2] == last {
		last = 'B'
	}
	return hash[:len(hash)-2] + string(last) + hash[len(hash)-1:]
}

// fields sets, clears and refuses each user field, and has one vanish.
func fields(p *player) {
	u := p.users["fields"]
	p.signIn(u)
	update := func(fields map[string]personal.Input) {
		p.do(u, personal.OpUpdateProfile, personal.UpdateProfileRequest{Credentials: u.in, Fields: fields})
	}
	p.do(u, personal.OpProfile, u.in)
	update(nil)
	for _, f := range append(p.schema.Fields, personal.Field{Name: "name"}) {
		update(map[string]personal.Input{f.Name: {}})
		update(map[string]personal.Input{f.Name: p.settableFields()[f.Name]})
		p.pass(p.durations["throttle.session_writes.every"] * 2)
	}
	for _, fields := range others {
		update(fields)
	}
	p.do(u, personal.OpProfile, u.in)
	p.pass(p.durations["throttle.session_writes.every"] * 60)
	for _, fields := range invalid {
		update(fields)
		p.do(nil, personal.OpUpdateUser, personal.UpdateUserRequest{UserID: u.id, Fields: fields})
	}
	for _, name := range names {
		update(map[string]personal.Input{"name": personal.Text(name), "city": personal.Text(name)})
	}
	odd := p.users["odd"]
	p.enter(odd)
	for _, name := range []string{"A\u200bB", "C\u2060D"} {
		p.send(odd, personal.UpdateProfileRequest{Credentials: odd.in, Fields: map[string]personal.Input{"name": personal.Text(name), "a_text": personal.Text("x\u2066y")}})
	}
	p.do(nil, personal.OpUpdateUser, personal.UpdateUserRequest{UserID: u.id, Fields: valid})
	p.do(nil, personal.OpUser, u.id)
	p.do(nil, personal.OpUser, p.users["full"].id)
	p.pass(p.durations["throttle.session_writes.every"] * 60)

	without := p.schema
	without.Revision, without.Fields = "script 2", without.Fields[1:]
	p.stage.show(without)
	p.do(u, personal.OpProfile, u.in)
	update(map[string]personal.Input{"phone": valid["phone"]})
	update(map[string]personal.Input{"city": personal.Text("Tver")})
	p.do(nil, personal.OpUser, u.id)
	p.do(nil, personal.OpPreviewFields, without.Fields)
	p.stage.show(p.schema)
	p.do(u, personal.OpProfile, u.in)
}

// devices ends sessions, those of others never.
func devices(p *player) {
	u, witness := p.users["devices"], p.users["witness"]
	all := u.pairs()
	check := func() {
		p.quietly(func() {
			for _, c := range all {
				p.do(u, personal.OpProfile, c)
			}
			for _, c := range witness.pairs() {
				p.do(witness, personal.OpProfile, c)
			}
		})
	}
	check()
	foreign := ask[[]personal.Session](p, witness, personal.OpSessions, witness.in)
	own := ask[[]personal.Session](p, u, personal.OpSessions, u.in)
	for _, id := range []string{"", "x", "0", "999999", at(foreign, 0).ID, at(own, len(own)-1).ID} {
		p.do(u, personal.OpRevokeSession, personal.RevokeSessionRequest{Credentials: u.in, ID: id})
	}
	check()
	p.do(nil, personal.OpRevokeUserSession, personal.RevokeUserSessionRequest{UserID: u.id, ID: at(foreign, 0).ID})
	p.do(nil, personal.OpRevokeUserSession, personal.RevokeUserSessionRequest{UserID: u.id, ID: at(own, 1).ID})
	check()
	p.do(u, personal.OpRevokeOtherSessions, u.in)
	check()
	for _, everywhere := range []bool{false, true} {
		for range 3 {
			u.away++
			p.signIn(u)
			all = append(all, u.in)
		}
		p.do(u, personal.OpLogout, personal.LogoutRequest{Credentials: u.in, All: everywhere})
		check()
	}
	p.signIn(u)
	all = append(all, u.in)
	p.do(nil, personal.OpRevokeUserSessions, u.id)
	check()
	u.away = 0
	p.signIn(u)
	p.do(nil, personal.OpUserSessions, witness.id)
	for range 22 { // more addresses than are kept
		p.enter(u)
		p.pass(time.Minute)
	}
	p.send(u, personal.ExportRequest{Credentials: u.in, Password: u.password})
	u.away = 0
	network := *u
	network.address = netip.MustParseAddr("64:ff9b::c000:201") // of IPv6 only (RFC 6052)
	p.signIn(&network)
	p.send(&network, personal.ExportRequest{Credentials: network.in, Password: u.password})
}

// at returns an element of a list, zero if it has none there.
func at[E any](list []E, i int) (e E) {
	if 0 <= i && i < len(list) {
		e = list[i]
	}
	return e
}

// states calls every operation of sessions with what is not a valid session.
func states(p *player) {
	u, other := p.users["states"], p.users["witness"]
	p.signIn(u)
	good := u.in
	p.signIn(u)
	out := u.in
	p.do(u, personal.OpLogout, personal.LogoutRequest{Credentials: out})
	p.signIn(u)
	revoked := u.in
	own := ask[[]personal.Session](p, u, personal.OpSessions, good)
	for _, s := range own {
		if !s.Current {
			p.do(u, personal.OpRevokeSession, personal.RevokeSessionRequest{Credentials: good, ID: s.ID})
		}
	}
	disabled := p.users["others"]
	p.signIn(disabled)
	p.do(nil, personal.OpDisableUser, disabled.id)
	u.in = good
	p.refresh(u)
	p.refresh(u)
	p.send(u, personal.LogoutRequest{Credentials: u.in, FieldErrors: personal.FieldErrors{"all": personal.FieldErrorInvalidType}})
	superseded := good
	p.quietly(func() { // values that the host could not read
		for _, o := range personal.Operations() {
			if r := misread(p.minimal(o.Name, u.in)); r != nil && !p.lacks[o.Name] {
				p.do(u, o.Name, r)
			}
		}
	})
	for _, c := range []personal.Credentials{
		{}, {UserID: u.id}, {UserID: u.id, UserHash: "short"}, {UserID: u.id, UserHash: strings.Repeat("A", 43)}, {UserID: u.id, UserHash: forge(u.in.UserHash)},
		{UserID: other.id, UserHash: u.in.UserHash}, {UserHash: u.in.UserHash}, {UserID: u.id, UserHash: u.in.UserHash + "A"}, out, revoked, disabled.in,
	} {
		p.everyOperation(u, c)
	}
	p.do(u, personal.OpProfile, u.in)
	p.do(u, personal.OpSessions, superseded)
	p.do(nil, personal.OpEnableUser, disabled.id)
	p.do(disabled, personal.OpProfile, disabled.in)
	p.signIn(disabled)
}

// everyOperation calls each operation of sessions with a pair. It does not end the user's own session.
func (p *player) everyOperation(u *user, c personal.Credentials) {
	p.quietly(func() {
		for _, o := range personal.Operations() {
			if o.Credentials && (o.Name != personal.OpLogout || c != u.in) {
				p.do(u, o.Name, p.minimal(o.Name, c))
			}
		}
	})
}

// minimal returns a request of a user's operation, with credentials if it has any; nil if it has no request.
func (p *player) minimal(operation personal.OperationName, c personal.Credentials) any {
	method, _ := reflect.TypeFor[personal.Service]().MethodByName(string(operation))
	if method.Type == nil || method.Type.NumIn() < 2 {
		return nil
	}
	request := reflect.New(method.Type.In(1)).Elem()
	if request.Type() == reflect.TypeFor[personal.Credentials]() {
		return c
	}
	if request.Kind() == reflect.Struct && request.FieldByName("Credentials").IsValid() {
		request.FieldByName("Credentials").Set(reflect.ValueOf(c))
	}
	return request.Interface()
}

// misread returns a request with a value that the host could not read; nil if it has no such values.
func misread(request any) any {
	if request == nil || reflect.TypeOf(request).Kind() != reflect.Struct {
		return nil
	}
	r := reflect.New(reflect.TypeOf(request)).Elem()
	r.Set(reflect.ValueOf(request))
	invalid := r.FieldByName("FieldErrors")
	if !invalid.IsValid() {
		return nil
	}
	invalid.Set(reflect.ValueOf(personal.FieldErrors{"extra": personal.FieldErrorInvalidType}))
	return r.Interface()
}
