package rehearsal

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// actAdministration is what administrators do.
var actAdministration = []scene{
	{"find_users", findUsers}, {"update_user", updateUser}, {"access", access}, {"explain", explain}, {"fill_fields", fillFields},
	{"jobs", jobs}, {"audit", audit}, {"prune", prune},
}

// people are the logins of users who are imported for scenes.
var people = strings.Fields("rita ruth rick emma ezra paul pete ivy xena dana dave dora fay finn pia phil uma umar una " +
	bystanderNames + handedOver(1) + handedOver(2))

func findUsers(p *player) {
	type find = personal.FindUsersRequest
	for _, search := range []string{
		"JORG", "łuć", "иван", "smith", "o'neill", "ёлк", "ЕЛКИНА", "παπα", "小明", "はなこ", "철수", "علي", "כהן", "ใจดี", "कुमार", "ქეთი", "ՊԵՏՐՈՍ", "ruth", "почта", "uth@SCRIPT", " rit ", "a%", "_", "'", "\\",
		fmt.Sprint(p.users["uma"].id), "nobody", strings.Repeat("x", 255), "a\x00b",
	} {
		p.send(nil, find{Search: search, Limit: 4, Oldest: len(search)%2 == 0})
	}
	for _, state := range []personal.UserState{personal.UserActive, personal.UserDisabled, personal.UserUnconfirmed, personal.UserTwoFactor, "odd"} {
		p.send(nil, find{State: state, Limit: 8}, find{State: state, Search: "script", Oldest: true, Limit: 3})
	}
	imported := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, r := range []find{
		{Since: imported, Until: imported.Add(time.Second), Limit: 3}, {Until: imported, Limit: 3}, {Since: imported.Add(10 * 24 * time.Hour), Oldest: true, Limit: 3}, {Since: p.now, Until: imported},
		{Since: imported, Search: "ru", Limit: 3}, {Field: "kind", Value: "writer", Fields: []string{"kind", "rating", "city"}, Limit: 3}, {Field: "kind", Value: "reader", Search: "a", Limit: 2},
		{Field: "a_boolean", Value: "true", Limit: 3}, {Field: "rating", Value: "3", Limit: 3}, {Field: "rating", Value: "x"}, {Field: "kind", Value: "poet"}, {Field: "city", Value: "Riga"},
		{Field: "none", Value: "1"}, {Value: "1"}, {Fields: []string{"none"}}, {Limit: -1}, {Limit: personal.MaxUserLimit + 1}, {After: -1},
	} {
		p.send(nil, r)
	}
	for _, oldest := range []bool{false, true} {
		r := find{Oldest: oldest, Limit: 20}
		for range 3 {
			r.After = ask[personal.UserPage](p, nil, personal.OpFindUsers, r).Next
		}
	}
	r := find{Since: imported, Oldest: true, Limit: 20} // many of the same moment
	for range 3 {
		r.After = ask[personal.UserPage](p, nil, personal.OpFindUsers, r).Next
	}
	p.do(nil, personal.OpUsers, []int64{p.users["uma"].id, 1 << 40, p.users["una"].id})
	p.do(nil, personal.OpUsers, make([]int64, personal.MaxUsers+1))
	page := make([]int64, 20) // which one statement reads
	for i := range page {
		page[i] = int64(i + 1)
	}
	p.do(nil, personal.OpUsers, page)
	p.do(nil, personal.OpUser, int64(1<<40))
}

func updateUser(p *player) {
	uma, una := p.users["uma"], p.users["una"]
	p.enter(uma)
	type update = personal.UpdateUserRequest
	p.send(nil, update{UserID: uma.id, Fields: map[string]personal.Input{"name": personal.Text("Ума"), "rating": personal.Text("5"), "level": personal.Text("2"), "city": personal.Text("Omsk"), "a_tags": {Kind: personal.InputList, List: []string{"b", "a"}}}}, update{UserID: uma.id, Fields: map[string]personal.Input{"city": {}}},
		update{UserID: uma.id, Fields: map[string]personal.Input{"age": personal.Text("151"), "kind": personal.Text("poet"), "none": personal.Text("1")}}, update{UserID: 1 << 40}, update{UserID: uma.id})
	p.send(nil, personal.FindUsersRequest{Search: "ума"})
	p.do(uma, personal.OpProfile, uma.in)
	p.send(uma, personal.RecoverRequest{Login: uma.login})
	token := p.token(uma.email)
	started := ask[personal.PasskeyCeremony](p, uma, personal.OpAddPasskey, personal.AddPasskeyRequest{Credentials: uma.in, Password: uma.password})
	type set = personal.SetEmailRequest
	p.send(nil, set{UserID: uma.id, Email: "uma.new@script.invalid"}, set{UserID: uma.id, Email: strings.ToUpper(una.email)}, set{UserID: uma.id, Email: "x"}, set{UserID: 1 << 40})
	p.send(nil, personal.FindUsersRequest{Search: "ma.new@"})
	p.send(uma, personal.BeginTwoFactorRequest{Credentials: uma.in, Password: uma.password}, personal.AddPasskeyRequest{Credentials: uma.in, Password: uma.password}) // an e-mail that no one has verified
	p.prove(uma)
	p.send(nil, personal.LinkIdentityRequest{Identity: personal.Identity{Issuer: "https://op.script.invalid", Subject: "uma"}, Credentials: uma.in, Proof: uma.proof})
	p.send(uma, recovered(token, "Neues-Wort-5515"), personal.AuthorizeRequest{Login: uma.email, Password: uma.password}, personal.AuthorizeRequest{Login: "uma.new@script.invalid", Password: uma.password})
	p.send(nil, set{UserID: uma.id}, personal.ExplainRequest{Login: uma.login})
	p.send(nil, set{UserID: uma.id, Email: uma.email}, personal.CreateUserRequest{Login: "uma.mail@script.invalid", Email: "uma.mail@script.invalid"})
	p.send(uma, personal.ConfirmEmailRequest{Token: p.token(uma.email)})
	p.do(uma, personal.OpConfirmPasskey, uma.device().created(started)) // of the former e-mail
	p.do(nil, personal.OpUser, uma.id)
	mailed := p.users[posted]
	p.enter(mailed)
	p.send(nil, set{UserID: mailed.id}, set{UserID: mailed.id, Email: "posted.new@script.invalid"})
	p.do(nil, personal.OpUser, mailed.id)
	p.send(mailed, personal.AuthorizeRequest{Login: "posted.new@script.invalid", Password: mailed.password})
}

// access takes access from users, and gives it back.
func access(p *player) {
	uma, umar, una := p.users["uma"], p.users["umar"], p.users["una"]
	for _, u := range []*user{umar, una} {
		p.outfit(u)
	}
	p.enter(uma, umar)
	sessions := ask[[]personal.Session](p, nil, personal.OpUserSessions, umar.id)
	for _, id := range []string{"none", at(sessions, 0).ID} {
		p.send(nil, personal.RevokeUserSessionRequest{UserID: uma.id, ID: id}, personal.RevokeUserSessionRequest{UserID: umar.id, ID: id})
		p.do(nil, personal.OpUserSessions, umar.id)
	}
	p.send(umar, personal.RecoverRequest{Login: umar.login})
	for _, id := range []int64{umar.id, 1 << 40} {
		p.do(nil, personal.OpDisableUser, id)
		p.do(nil, personal.OpDisableUser, id)
	}
	p.signIn(umar)
	p.send(umar, personal.SignInRequest{Identity: umar.identity, Method: "oidc", SecondFactorDone: true}, umar.signed(p.beginPasskey(umar, personal.PasskeySignIn)),
		recovered(p.token(umar.email), umar.password), personal.RecoverRequest{Login: umar.login})
	p.do(umar, personal.OpProfile, umar.in)
	p.send(nil, personal.ExplainRequest{Login: umar.login})
	p.do(nil, personal.OpEnableUser, umar.id)
	p.enter(umar)
	p.prove(umar)
	p.signIn(umar)
	second := umar.device() // whose passkey stands for the code of this factor, and not of the next one
	p.addPasskey(second)
	type off = personal.RemoveTwoFactorRequest
	p.send(nil, off{UserID: umar.id, KeepOtherWaysIn: true})
	p.do(umar, personal.OpProfile, umar.in)
	umar.secret = ""
	p.signIn(umar) // where they have entered with the factor
	p.enter(umar)
	p.confirmFactor(umar, p.beginFactor(umar))
	p.send(umar, second.signed(p.beginPasskey(umar, personal.PasskeySignIn)))
	p.send(nil, off{UserID: umar.id, KeepOtherWaysIn: true}, off{UserID: umar.id}, off{UserID: 1 << 40})
	umar.secret = ""
	p.send(umar, personal.SignInRequest{Identity: umar.identity, Method: "oidc"})
	p.enter(umar)
	started := ask[personal.PasskeyCeremony](p, umar, personal.OpAddPasskey, personal.AddPasskeyRequest{Credentials: umar.in, Password: umar.password})
	for _, id := range []int64{umar.id, umar.id, p.users["ivan2"].id, 1 << 40} {
		p.do(nil, personal.OpRemoveOtherWaysIn, id)
	}
	p.do(umar, personal.OpConfirmPasskey, umar.device().created(started))
	p.do(nil, personal.OpUser, umar.id)
	p.do(umar, personal.OpProfile, umar.in)
	p.do(nil, personal.OpRevokeUserSessions, umar.id)
	p.do(umar, personal.OpProfile, umar.in)

	p.send(nil, off{UserID: una.id})
	p.outfit(una)
	p.refuseCodes(una, 2)
	type reset = personal.ResetAccessRequest
	p.send(nil, reset{UserID: una.id, Email: strings.ToUpper(uma.email)}, reset{UserID: 1 << 40, Email: "x"}, reset{UserID: una.id, Email: "una.new@script.invalid"})
	p.do(una, personal.OpProfile, una.in)
	p.signIn(una)
	p.send(una, personal.SignInRequest{UserID: una.id, Method: "oidc"}, una.signed(p.beginPasskey(una, personal.PasskeySignIn)))
	p.send(nil, personal.ExplainRequest{Login: una.login})
	una.secret = ""
	p.send(una, recovered(p.token("una.new@script.invalid"), una.password))
	p.enter(una)
	p.send(una, personal.DeleteRequest{Credentials: una.in, Password: una.password})
	p.send(nil, reset{UserID: una.id, Email: una.email})
	p.send(una, recovered(p.token(una.email), una.password))
	p.enter(una)
	p.send(una, personal.ExportRequest{Credentials: una.in, Password: una.password})

	gone := p.users["ruth"]
	p.outfit(gone)
	p.enter(gone)
	p.beginPasskey(gone, personal.PasskeyProve)
	p.send(gone, personal.RecoverRequest{Login: gone.login})
	for _, id := range []int64{gone.id, gone.id} {
		p.do(nil, personal.OpDeleteUser, id)
	}
	p.do(gone, personal.OpProfile, gone.in)
	p.send(gone, recovered(p.token(gone.email), gone.password))
	p.send(nil, personal.AuditEntriesRequest{Limit: 4})
}

func explain(p *player) {
	finn := p.users["finn"]
	p.move(finn)
	wrong := personal.AuthorizeRequest{Login: finn.login, Password: "wrong-password"}
	at := []netip.Addr{addressOf(finn.away), addressOf(9)}
	p.many(20, 1, 0, finn, personal.OpAuthorize, func(int) any { return wrong })
	p.send(nil, personal.ExplainRequest{Login: finn.login}, personal.ExplainRequest{Login: finn.login, Addresses: at})
	p.signIn(finn)
	p.send(nil, personal.LiftLimitsRequest{UserID: finn.id}, personal.LiftLimitsRequest{UserID: finn.id, Addresses: at}, personal.LiftLimitsRequest{UserID: 1 << 40},
		personal.LiftLimitsRequest{UserID: finn.id, Addresses: make([]netip.Addr, personal.MaxExplainAddresses+1)}, personal.ExplainRequest{Login: finn.login, Addresses: at})
	p.enter(finn)
	for _, login := range []string{"", "nobody", "nobody@script.invalid", fmt.Sprint(finn.id), strings.Repeat("x", 300)} {
		p.send(nil, personal.ExplainRequest{Login: login})
	}
	for i, login := range slices.Sorted(maps.Keys(p.users)) {
		if i%8 == 0 {
			p.send(nil, personal.ExplainRequest{Login: p.users[login].email})
		}
	}
}

func fillFields(p *player) {
	for _, fields := range [][]personal.Field{
		p.schema.Fields, {{Name: "BAD"}}, {{Name: "city", Type: personal.TypeText, ReadOnly: true}, {Name: "kind", Type: personal.TypeText, Required: true, Default: personal.Text("x")}},
	} {
		p.do(nil, personal.OpPreviewFields, fields)
	}
	for _, revision := range []string{"", "other", p.schema.Revision} {
		p.do(nil, personal.OpFillFields, revision)
		p.do(nil, personal.OpFieldsFill, nil)
	}
	next := p.schema
	next.Revision = "script 5"
	p.quietly(func() { // before the job begins
		p.do(nil, personal.OpFillFields, p.schema.Revision)
		p.stage.show(next)
	})
	p.do(nil, personal.OpFieldsFill, nil)
	p.stage.show(p.schema)
}

// erasedEmail is that of una, whom the scene jobs erases.
const erasedEmail = "una@script.invalid"

// jobs has the host refuse mails and events, which are repeated.
func jobs(p *player) {
	pia := p.users["pia"]
	p.quietly(func() { // the mail waits
		p.send(pia, personal.RecoverRequest{Login: pia.login})
		p.send(nil, personal.ExplainRequest{Login: pia.login})
	})
	for _, refusal := range []error{
		personal.NewMailRefusedError("550 5.1.1 unknown"), &personal.MailFailedError{Reply: "554 5.7.1"}, &personal.MailFailedError{PerhapsSent: true}, errRefused,
	} {
		p.pass(25 * time.Hour)
		p.stage.refuse(refusal)
		p.send(pia, personal.RecoverRequest{Login: pia.login})
		p.health()
		p.pass(2 * time.Minute)
		p.pass(11 * time.Minute) // a mail that has perhaps been sent is tried no more
		p.stage.refuse(nil)
		for range 3 {
			p.pass(11 * time.Minute)
		}
		p.send(nil, personal.ExplainRequest{Login: pia.login})
	}
	p.stage.refuse(errRefused)
	p.send(pia, personal.RecoverRequest{Login: pia.login})
	p.quietly(func() { // of a request that waits
		p.send(p.users["una"], personal.RecoverRequest{Login: "una"})
		p.do(nil, personal.OpDeleteUser, p.users["una"].id)
	})
	for range 105 { // longer than the mail may wait; the erasure is never given up
		p.wait(16 * time.Minute)
	}
	p.pass(0) // removes nothing that waits
	p.stage.refuse(nil)
	p.pass(16 * time.Minute)
}

// health asks what is wrong.
func (p *player) health() {
	warnings, err := p.warnings()
	p.lines = append(p.lines, line{check: p.check, operation: "Health", answer: AnswerOf(warnings, err)})
}

// counted are metrics whose values depend on the script alone.
var counted = regexp.MustCompile(`(?m)^personal_plugin_((?:operation_duration_seconds_count|outbox_job_duration_seconds_count|rejected_attempts_total|suppressed_mails_total)\{.*\}) (\S+)$`)

var exported = regexp.MustCompile(`(?m)^# TYPE (\w+) (\w+)$`)

// counters asks what the process has counted.
func counters(p *player) {
	text, err := p.process.Metrics(p.ctx)
	answer := AnswerOf(nil, err)
	for _, m := range counted.FindAllSubmatch(text, -1) {
		if value := string(m[2]); value != "0" {
			answer[string(m[1])] = value
		}
	}
	for _, m := range exported.FindAllSubmatch(text, -1) {
		answer["type."+string(m[1])] = string(m[2])
	}
	answer["host.UserFields"] = fmt.Sprint(p.stage.questions())
	p.lines = append(p.lines, line{check: p.check, operation: "Metrics", answer: answer})
}

// accepts asks whether a pair is that of a session, as the bake does.
func (p *player) accepts(c personal.Credentials) {
	accepted, err := p.process.Accepts(p.ctx, c, p.settings)
	p.lines = append(p.lines, line{check: p.check, operation: "Accepts", answer: AnswerOf(accepted, err)})
}

func audit(p *player) {
	type entries = personal.AuditEntriesRequest
	u := p.users["fay"]
	since := p.now.Add(-48 * time.Hour)
	for _, r := range []entries{
		{UserID: u.id, Limit: 9}, {Type: personal.EventSignedIn, Limit: 3}, {Type: personal.EventSignedIn, UserID: u.id, Limit: 3}, {Type: "odd"}, {Text: "REHEARSAL d", Limit: 3}, {Text: "ZOE op", Limit: 3}, {Text: "2001:db8:3", Limit: 3},
		{Text: "%", Limit: 3}, {Since: since, Limit: 3}, {Until: since, Limit: 3}, {Since: since, Until: since}, {Since: since, Type: personal.EventUserUpdated, Text: "rehearsal"},
		{Limit: -1}, {Limit: personal.MaxAuditLimit + 1}, {After: -1}, {UserID: -1}, {Text: strings.Repeat("x", 255)}, {Type: "a\nb"},
	} {
		p.send(nil, r)
	}
	r := entries{Limit: personal.MaxAuditLimit}
	for range 12 {
		r.After = ask[personal.AuditPage](p, nil, personal.OpAuditEntries, r).Next
	}
}

// prune lets go what is not kept for ever.
func prune(p *player) {
	phil := p.users["phil"]
	update := func(i int) any {
		return personal.UpdateUserRequest{UserID: phil.id, Fields: map[string]personal.Input{"age": personal.Text(fmt.Sprint(i % 100))}}
	}
	p.many(10, 1, time.Second, nil, personal.OpUpdateUser, update)
	p.many(30, 1, 0, nil, personal.OpUpdateUser, update)
	p.send(nil, personal.AuditEntriesRequest{UserID: phil.id, Type: personal.EventUserUpdated, Until: p.now.Add(-time.Second)})
	p.enter(phil)
	since := p.now
	look := func() { p.send(nil, personal.AuditEntriesRequest{UserID: phil.id, Type: personal.EventSignedIn}) }
	known := max(90*24*time.Hour, 2*p.durations["session.absolute"])
	first, second := min(known, p.durations["audit.retention"]), max(known, p.durations["audit.retention"])
	p.ends(since, first, look, look, look)
	p.ends(since, second, look, look, look)
	p.signIn(phil)
	p.send(phil, personal.ExportRequest{Credentials: phil.in, Password: phil.password})
}
