package rehearsal

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/shared/personal"
)

// script is the list of checks, in the order in which they run. Each but the first needs an
// account and its session.
var script = []step{
	{name: "register", do: (*run).register},
	{name: "sign_in", do: (*run).authorize},
	{name: "wrong_password", do: (*run).wrongPassword},
	{name: "refresh", do: (*run).refresh},
	{name: "lost_response", do: (*run).lostResponse},
	{name: "stolen_hash", do: (*run).stolenHash},
	{name: "sessions", do: (*run).sessions},
	{name: "profile", do: (*run).profile},
	{name: "features", do: (*run).features},
	{name: "update", do: (*run).update},
	{name: "hidden_fields", do: (*run).hiddenFields},
	{name: "other_user", do: (*run).otherUser},
	{name: "proof", do: (*run).proof},
	{name: "password", do: (*run).password},
	{name: "verification", do: (*run).verification},
	{name: "email", do: (*run).changeEmail},
	{name: "recovery", do: (*run).recovery},
	{name: "second_factor", do: (*run).secondFactor},
	{name: "passkeys", do: (*run).passkeys},
	{name: "export", do: (*run).export},
	{name: "administration", do: (*run).administration},
	{name: "identities", do: (*run).identities},
	{name: "deletion", do: (*run).deletion},
	{name: "undo", do: (*run).undo},
	{name: "erasure", do: (*run).erasure},
	{name: "events", do: (*run).events},
}

// create registers a user and gives them a session.
func (r *run) create(c *check, u *user, sent map[string]personal.Input) {
	if err := r.expect(u, sent); err != nil {
		c.fail(personal.OpRegister, errorCode, "the user fields cannot be set at a registration: "+described(err))
		panic(ended{})
	}
	in, err := r.client.Register(r.call(), r.registration(*u, sent))
	c.ok(personal.OpRegister, err)
	if r.requiresVerification() {
		c.equal(personal.OpRegister, "user_hash", in, personal.SignedIn{})
		_, err := r.client.Authorize(r.call(), personal.AuthorizeRequest{Login: u.login, Password: u.password})
		c.refused(personal.OpAuthorize, err, personal.CodeEmailUnverified, "", "")
		r.find(c, u)
		token := r.mail(c, personal.OpRegister, mailtext.Verification, u.email)
		_, err = r.client.ConfirmEmail(r.call(), personal.ConfirmEmailRequest{Token: token, Login: u.login})
		c.ok(personal.OpConfirmEmail, err)
		u.verified = true
		r.signInAs(c, u)
		return
	}
	u.id, u.pair = in.Credentials.UserID, in.Credentials
	r.ids = append(r.ids, u.id)
	c.compare(personal.OpRegister, in.Profile, *u)
}

func (r *run) registration(u user, fields map[string]personal.Input) personal.RegisterRequest {
	all := map[string]personal.Input{"name": personal.Text(u.name)}
	for name, in := range fields {
		all[name] = in
	}
	return personal.RegisterRequest{Login: u.login, Password: u.password, ConfirmPassword: u.password, Email: u.email, Fields: all}
}

// find finds the id of a user who has no session.
func (r *run) find(c *check, u *user) {
	explained, err := r.client.Explain(r.administer(), personal.ExplainRequest{Login: u.login})
	c.ok(personal.OpExplain, err)
	if !c.is(personal.OpExplain, "user", explained.User != nil && explained.User.Login == u.login) {
		panic(ended{})
	}
	u.id = explained.User.ID
	r.ids = append(r.ids, u.id)
}

// compare compares a profile with what it must be.
func (c *check) compare(op personal.OperationName, got personal.Profile, want user) {
	c.equal(op, "login", got.Login, want.login)
	c.is(op, "name", got.Name != nil && *got.Name == want.name)
	c.equal(op, "email", got.Email, want.email)
	c.equal(op, "email_verified", got.EmailVerified, want.verified)
	c.equal(op, "two_factor", got.TwoFactor, want.twoFactor)
	c.is(op, "missing", len(got.Missing) == 0)
	c.compareFields(op, got.Fields, want, false)
}

// compareFields compares the user fields; those that are hidden must be there if all is set,
// and must not otherwise.
func (c *check) compareFields(op personal.OperationName, got []personal.ProfileField, want user, all bool) {
	for _, f := range c.r.fields {
		i := slices.IndexFunc(got, func(g personal.ProfileField) bool { return g.Name == f.Name })
		switch {
		case f.Hidden && !all:
			c.is(op, f.Name, i < 0)
		case i < 0:
			c.is(op, f.Name, false)
		default:
			c.equal(op, f.Name, got[i].Value, want.values[f.Name])
		}
	}
	c.is(op, "fields", len(got) <= len(c.r.fields))
}

// signIn gives the user a new session.
func (r *run) signIn(c *check) { r.signInAs(c, &r.user) }

func (r *run) signInAs(c *check, u *user) {
	in, err := r.client.Authorize(r.call(), personal.AuthorizeRequest{Login: u.login, Password: u.password})
	c.ok(personal.OpAuthorize, err)
	c.equal(personal.OpAuthorize, "user_id", in.Credentials.UserID, u.id)
	u.pair = in.Credentials
	c.compare(personal.OpAuthorize, in.Profile, *u)
}

// void demands that credentials are not valid any more.
func (c *check) void(pair personal.Credentials) {
	_, err := c.r.client.Profile(c.r.call(), pair)
	c.refused(personal.OpProfile, err, personal.CodeUnauthenticated, "", "")
}

// valid demands that credentials are valid.
func (c *check) valid(pair personal.Credentials) {
	_, err := c.r.client.Profile(c.r.call(), pair)
	c.ok(personal.OpProfile, err)
}

// rotated demands that an operation has replaced the hash of a session.
func (c *check) rotated(op personal.OperationName, before, after personal.Credentials) {
	c.equal(op, "user_id", after.UserID, before.UserID)
	c.is(op, "user_hash", after.UserHash != before.UserHash)
}

// register registers two users: one with a value of each field, one with what is required.
func (r *run) register(c *check) {
	every, required := map[string]personal.Input{}, map[string]personal.Input{}
	for _, f := range r.fields {
		if f.settable() && len(f.values) > 0 {
			every[f.Name] = f.first().in
			if f.Required {
				required[f.Name] = f.first().in
			}
		}
	}
	r.create(c, &r.user, every)
	r.create(c, &r.other, required)
	again := r.registration(r.user, every)
	_, err := r.client.Register(r.call(), again)
	c.refused(personal.OpRegister, err, personal.CodeAlreadyExists, "login", personal.FieldErrorTaken)
	if !r.requiresVerification() { // else the owner of the address gets a mail
		again.Login += "-2"
		_, err = r.client.Register(r.call(), again)
		c.refused(personal.OpRegister, err, personal.CodeAlreadyExists, "email", personal.FieldErrorTaken)
	}
}

func (r *run) authorize(c *check) {
	before := r.user.pair
	r.signIn(c)
	c.is(personal.OpAuthorize, "user_hash", r.user.pair.UserHash != before.UserHash)
	if r.Settings.LoginWithEmail {
		in, err := r.client.Authorize(r.call(), personal.AuthorizeRequest{Login: r.user.email, Password: r.user.password})
		c.ok(personal.OpAuthorize, err)
		c.equal(personal.OpAuthorize, "user_id", in.Credentials.UserID, r.user.id)
	}
}

func (r *run) wrongPassword(c *check) {
	u, wrong := r.user, r.newPassword()
	_, err := r.client.Authorize(r.call(), personal.AuthorizeRequest{Login: u.login, Password: wrong})
	c.refused(personal.OpAuthorize, err, personal.CodeInvalidCredentials, "", "")
	_, err = r.client.Authorize(r.call(), personal.AuthorizeRequest{Login: u.login + "-x", Password: u.password})
	c.refused(personal.OpAuthorize, err, personal.CodeInvalidCredentials, "", "")
	_, err = r.client.ChangePassword(r.call(), personal.ChangePasswordRequest{Credentials: u.pair, OldPassword: wrong, Password: wrong,
		ConfirmPassword: wrong})
	c.refused(personal.OpChangePassword, err, personal.CodeValidationFailed, "old_password", personal.FieldErrorMismatch)
	err = r.client.ChangeEmail(r.elsewhere(), personal.ChangeEmailRequest{Credentials: u.pair, Password: wrong, Email: "x" + u.email})
	c.refused(personal.OpChangeEmail, err, personal.CodeValidationFailed, "password", personal.FieldErrorMismatch)
	_, err = r.client.Export(r.call(), personal.ExportRequest{Credentials: u.pair, Password: wrong})
	c.refused(personal.OpExport, err, personal.CodeValidationFailed, "password", personal.FieldErrorMismatch)
	_, err = r.client.Delete(r.call(), personal.DeleteRequest{Credentials: u.pair, Password: wrong})
	c.refused(personal.OpDelete, err, personal.CodeValidationFailed, "password", personal.FieldErrorMismatch)
}

func (r *run) refresh(c *check) {
	pair, err := r.client.Refresh(r.call(), r.user.pair)
	c.ok(personal.OpRefresh, err)
	c.rotated(personal.OpRefresh, r.user.pair, pair)
	r.user.pair = pair
	c.valid(pair)
}

// lostResponse refreshes with a hash that was superseded: the response with the new one may have
// been lost.
func (r *run) lostResponse(c *check) {
	pair, err := r.client.Refresh(r.call(), r.user.pair)
	c.ok(personal.OpRefresh, err)
	again, err := r.client.Refresh(r.call(), r.user.pair)
	c.ok(personal.OpRefresh, err)
	c.equal(personal.OpRefresh, "user_hash", again, pair)
	c.valid(r.user.pair)
	r.user.pair = pair
	c.valid(pair)
}

// stolenHash presents a superseded hash after the grace period: the session must end.
func (r *run) stolenHash(c *check) {
	late := r.Settings.SupersededGrace + time.Second
	if late >= min(r.Settings.SessionIdle, r.Settings.SessionAbsolute) {
		c.skip("sessions expire before session.grace has passed")
		return
	}
	r.signIn(c)
	pair, err := r.client.Refresh(r.call(), r.user.pair)
	c.ok(personal.OpRefresh, err)
	c.valid(pair)
	r.Clock.move(late)
	_, err = r.client.Refresh(r.call(), r.user.pair)
	c.refused(personal.OpRefresh, err, personal.CodeUnauthenticated, "", "")
	c.void(pair)
	r.signIn(c)
	r.notice(c, personal.OpRefresh, mailtext.SessionTheft, r.user.email)
}

func (r *run) sessions(c *check) {
	elsewhere := newAddress()
	in := func() personal.Credentials {
		in, err := r.client.Authorize(r.callFrom(elsewhere), personal.AuthorizeRequest{Login: r.user.login, Password: r.user.password})
		c.ok(personal.OpAuthorize, err)
		return in.Credentials
	}
	second := in()
	list, err := r.client.Sessions(r.call(), r.user.pair)
	c.ok(personal.OpSessions, err)
	current, id := 0, ""
	for _, s := range list {
		if s.Current {
			current++
		}
		if s.Address == elsewhere.String() {
			id = s.ID
			c.equal(personal.OpSessions, "agent", s.Agent, agent)
			c.is(personal.OpSessions, "created", s.Created.Equal(r.Clock.Now().Truncate(time.Microsecond)))
			c.is(personal.OpSessions, "expires", s.Expires.After(s.LastSeen))
		}
	}
	c.equal(personal.OpSessions, "current", current, 1)
	c.is(personal.OpSessions, "address", id != "")
	c.ok(personal.OpRevokeSession, r.client.RevokeSession(r.call(), personal.RevokeSessionRequest{Credentials: r.user.pair, ID: id}))
	c.void(second)
	third := in()
	c.ok(personal.OpRevokeOtherSessions, r.client.RevokeOtherSessions(r.call(), r.user.pair))
	c.void(third)
	c.valid(r.user.pair)
	fourth := in()
	c.ok(personal.OpLogout, r.client.Logout(r.call(), personal.LogoutRequest{Credentials: fourth}))
	c.void(fourth)
	c.valid(r.user.pair)
	fifth := in()
	c.ok(personal.OpLogout, r.client.Logout(r.call(), personal.LogoutRequest{Credentials: r.user.pair, All: true}))
	c.void(fifth)
	c.void(r.user.pair)
	r.signIn(c)
}

// profile has an administrator set what users cannot, and compares each field.
func (r *run) profile(c *check) {
	fields, err := r.client.Fields(r.call())
	c.ok(personal.OpFields, err)
	visible := slices.DeleteFunc(slices.Clone(r.sink.schema.Fields), func(f personal.Field) bool { return f.Hidden })
	slices.SortStableFunc(visible, func(a, b personal.Field) int { return a.Order - b.Order })
	if c.equal(personal.OpFields, "fields", len(fields), len(visible)) {
		for i, f := range visible {
			c.equal(personal.OpFields, f.Name, asJSON(fields[i]), asJSON(f))
		}
	}

	before := r.user
	before.values = maps.Clone(r.user.values)
	change := map[string]personal.Input{"name": personal.Text(r.user.name)}
	for _, f := range r.fields {
		if !f.settable() && len(f.values) > 0 {
			change[f.Name], r.user.values[f.Name] = f.first().in, f.first().want
		}
	}
	c.ok(personal.OpUpdateUser, r.client.UpdateUser(r.administer(), personal.UpdateUserRequest{UserID: r.user.id, Fields: change}))
	r.noteChange(personal.OpUpdateUser, personal.EventUserUpdated, before)
	r.compareStored(c)
}

// features compares what pages learn with the settings and the contract.
func (r *run) features(c *check) {
	got, err := r.client.Features(r.call())
	c.ok(personal.OpFeatures, err)
	c.equal(personal.OpFeatures, "password.min_length", got.PasswordMinLength, r.Settings.MinPassword)
	c.equal(personal.OpFeatures, "password.max_bytes", got.PasswordMaxBytes, 1024)
	c.equal(personal.OpFeatures, "login.min_length", got.LoginMinLength, 3)
	c.equal(personal.OpFeatures, "login.max_length", got.LoginMaxLength, 64)
	c.equal(personal.OpFeatures, "login.with_email", got.LoginWithEmail, r.Settings.LoginWithEmail)
	c.equal(personal.OpFeatures, "email_verification", got.EmailVerification, r.Settings.EmailVerification)
	c.equal(personal.OpFeatures, "two_factor", got.TwoFactor, r.offersTwoFactor())
	c.equal(personal.OpFeatures, "passkeys", got.Passkeys, r.Settings.Passkeys.ID != "")
	c.equal(personal.OpFeatures, "deletion.grace", got.DeletionGrace, r.Settings.DeletionGrace)
}

// asJSON returns a field in a form that does not distinguish empty lists from missing ones.
func asJSON(f personal.Field) string {
	data, err := json.Marshal(f)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// compareStored reads the user in each way, and compares all of it.
func (r *run) compareStored(c *check) {
	profile, err := r.client.Profile(r.call(), r.user.pair)
	c.ok(personal.OpProfile, err)
	c.compare(personal.OpProfile, profile, r.user)
	record, err := r.client.User(r.administer(), r.user.id)
	c.ok(personal.OpUser, err)
	c.equal(personal.OpUser, "id", record.ID, r.user.id)
	c.equal(personal.OpUser, "login", record.Login, r.user.login)
	c.is(personal.OpUser, "name", record.Name != nil && *record.Name == r.user.name)
	c.equal(personal.OpUser, "email", record.Email, r.user.email)
	c.equal(personal.OpUser, "email_verified", record.EmailVerified, r.user.verified)
	c.is(personal.OpUser, "disabled", !record.Disabled)
	c.compareFields(personal.OpUser, record.Fields, r.user, true)
}

// update changes each field that the user may change, one at first: the others must stay.
func (r *run) update(c *check) {
	known := r.user
	known.values = maps.Clone(r.user.values)
	send := func(fields map[string]personal.Input) {
		profile, err := r.client.UpdateProfile(r.call(), personal.UpdateProfileRequest{Credentials: r.user.pair, Fields: fields})
		c.ok(personal.OpUpdateProfile, err)
		c.compare(personal.OpUpdateProfile, profile, r.user)
		r.noteChange(personal.OpUpdateProfile, personal.EventProfileUpdated, known)
		known = r.user
		known.values = maps.Clone(r.user.values)
	}
	r.user.name += " Ä"
	send(map[string]personal.Input{"name": personal.Text(r.user.name)})
	changed, cleared := map[string]personal.Input{}, map[string]personal.Input{}
	for _, f := range r.fields {
		if f.settable() && len(f.values) > 0 {
			changed[f.Name], r.user.values[f.Name] = f.last().in, f.last().want
		}
	}
	send(changed)
	r.compareStored(c)
	before := r.user.values
	r.user.values = map[string]any{}
	for _, f := range r.fields {
		r.user.values[f.Name] = before[f.Name]
		if f.settable() && !f.Required {
			cleared[f.Name], r.user.values[f.Name] = personal.Input{}, nil
		}
	}
	send(cleared)
	r.user.values = before
	send(changed)
}

// hiddenFields demands that users can neither set nor read what they must not, and that
// values of the wrong form are refused.
func (r *run) hiddenFields(c *check) {
	refused := func(name string, in personal.Input, code personal.FieldErrorCode) {
		_, err := r.client.UpdateProfile(r.call(), personal.UpdateProfileRequest{Credentials: r.user.pair,
			Fields: map[string]personal.Input{name: in}})
		c.refused(personal.OpUpdateProfile, err, personal.CodeValidationFailed, name, code)
	}
	refused("groups", personal.Text("admin"), personal.FieldErrorReadOnly)
	refused("rehearsal_unknown", personal.Text("x"), personal.FieldErrorUnknownField)
	for _, f := range r.fields {
		switch {
		case !f.settable() && len(f.values) > 0:
			refused(f.Name, f.last().in, personal.FieldErrorReadOnly)
		case !f.settable():
		case f.Type == personal.TypeInteger, f.Type == personal.TypeNumber, f.Type == personal.TypeBoolean:
			refused(f.Name, personal.Text("x"), personal.FieldErrorInvalidType)
		case f.Type == personal.TypeDate, f.Type == personal.TypeDateTime:
			refused(f.Name, personal.Text("x"), personal.FieldErrorInvalidFormat)
		case f.Required:
			refused(f.Name, personal.Input{}, personal.FieldErrorRequired)
		}
	}
	r.compareStored(c)
}

// otherUser demands that users see and change only what is theirs.
func (r *run) otherUser(c *check) {
	r.signInAs(c, &r.other)
	profile, err := r.client.Profile(r.call(), r.other.pair)
	c.ok(personal.OpProfile, err)
	c.compare(personal.OpProfile, profile, r.other)
	c.void(personal.Credentials{UserID: r.user.id, UserHash: r.other.pair.UserHash})
	list, err := r.client.Sessions(r.call(), r.user.pair)
	c.ok(personal.OpSessions, err)
	for _, s := range list {
		c.ok(personal.OpRevokeSession, r.client.RevokeSession(r.call(), personal.RevokeSessionRequest{Credentials: r.other.pair, ID: s.ID}))
	}
	c.valid(r.user.pair)
	profile, err = r.client.Profile(r.call(), r.user.pair)
	c.ok(personal.OpProfile, err)
	c.compare(personal.OpProfile, profile, r.user)
}

// proof demands that a proof stands for the password in its session alone, until it ends.
func (r *run) proof(c *check) {
	u, elsewhere := r.user, r.user
	r.signInAs(c, &elsewhere)
	_, err := r.client.Prove(r.call(), personal.ProveRequest{Credentials: u.pair, Password: r.newPassword()})
	c.refused(personal.OpProve, err, personal.CodeValidationFailed, "password", personal.FieldErrorMismatch)
	p, err := r.client.Prove(r.call(), personal.ProveRequest{Credentials: u.pair, Password: u.password})
	c.ok(personal.OpProve, err)
	c.is(personal.OpProve, "proved_until", p.Until.Equal(r.Clock.Now().Truncate(time.Microsecond).Add(r.Settings.ProofLifetime)))
	export := func(pair personal.Credentials, proof string) error {
		_, err := r.client.Export(r.call(), personal.ExportRequest{Credentials: pair, Proof: proof})
		return err
	}
	c.ok(personal.OpExport, export(u.pair, p.Proof))
	refused := func(pair personal.Credentials, proof string) {
		c.refused(personal.OpExport, export(pair, proof), personal.CodeValidationFailed, "proof", personal.FieldErrorMismatch)
	}
	refused(u.pair, "rehearsal")
	refused(elsewhere.pair, p.Proof)
	if r.Settings.ProofLifetime < min(r.Settings.SessionIdle, r.Settings.SessionAbsolute) {
		r.Clock.move(r.Settings.ProofLifetime)
		refused(u.pair, p.Proof)
	}
	r.signIn(c)
}

func (r *run) password(c *check) {
	before, elsewhere := r.user, r.user
	r.signInAs(c, &elsewhere)
	wanted := r.newPassword()
	_, err := r.client.ChangePassword(r.call(), personal.ChangePasswordRequest{
		Credentials: r.user.pair, OldPassword: before.password, Password: wanted, ConfirmPassword: wanted + "x",
	})
	c.refused(personal.OpChangePassword, err, personal.CodeValidationFailed, "confirm_password", personal.FieldErrorMismatch)
	_, err = r.client.ChangePassword(r.call(), personal.ChangePasswordRequest{
		Credentials: r.user.pair, OldPassword: before.password, Password: "short", ConfirmPassword: "short",
	})
	c.refused(personal.OpChangePassword, err, personal.CodeValidationFailed, "password", personal.FieldErrorTooShort)
	pair, err := r.client.ChangePassword(r.call(), personal.ChangePasswordRequest{
		Credentials: r.user.pair, OldPassword: before.password, Password: wanted, ConfirmPassword: wanted,
	})
	c.ok(personal.OpChangePassword, err)
	r.user.password, r.user.pair = wanted, pair
	c.rotated(personal.OpChangePassword, before.pair, pair)
	c.valid(pair)
	c.void(before.pair)
	c.void(elsewhere.pair)
	_, err = r.client.Authorize(r.call(), personal.AuthorizeRequest{Login: before.login, Password: before.password})
	c.refused(personal.OpAuthorize, err, personal.CodeInvalidCredentials, "", "")
	r.signIn(c)
	r.notice(c, personal.OpChangePassword, mailtext.PasswordChanged, r.user.email)
}

// notice demands a notice, if the site sends any.
func (r *run) notice(c *check, op personal.OperationName, kind mailtext.Kind, to string) {
	if r.Settings.Notices {
		r.mail(c, op, kind, to)
		return
	}
	r.work(c, op)
}

// verification confirms the address of the other user.
func (r *run) verification(c *check) {
	if v := r.Settings.EmailVerification; v != personal.VerificationOptional && v != personal.VerificationRequired {
		c.skip("registration.email_verification is off")
		return
	}
	_, err := r.client.ConfirmEmail(r.call(), personal.ConfirmEmailRequest{Token: "rehearsal"})
	c.refused(personal.OpConfirmEmail, err, personal.CodeInvalidToken, "", "")
	if r.requiresVerification() { // which the registration has rehearsed
		c.ok(personal.OpResendVerification, r.client.ResendVerification(r.elsewhere(), personal.ResendVerificationRequest{Login: r.user.login}))
		r.work(c, personal.OpResendVerification)
		return
	}
	r.work(c, personal.OpRegister)
	r.Clock.move(time.Hour) // a mailbox gets one such mail a minute
	r.signInAs(c, &r.other)
	c.ok(personal.OpResendVerification, r.client.ResendVerification(r.elsewhere(), personal.ResendVerificationRequest{Login: r.other.login}))
	token := r.mail(c, personal.OpResendVerification, mailtext.Verification, r.other.email)
	id, err := r.client.ConfirmEmail(r.call(), personal.ConfirmEmailRequest{Token: token})
	c.ok(personal.OpConfirmEmail, err)
	c.equal(personal.OpConfirmEmail, "user_id", id, r.other.id)
	r.other.verified = true
	profile, err := r.client.Profile(r.call(), r.other.pair)
	c.ok(personal.OpProfile, err)
	c.compare(personal.OpProfile, profile, r.other)
	_, err = r.client.ConfirmEmail(r.call(), personal.ConfirmEmailRequest{Token: token})
	c.refused(personal.OpConfirmEmail, err, personal.CodeInvalidToken, "", "")
	r.signIn(c)
}

func (r *run) changeEmail(c *check) {
	request := personal.ChangeEmailRequest{Credentials: r.user.pair, Password: r.user.password, Email: r.other.email}
	err := r.client.ChangeEmail(r.elsewhere(), request)
	c.refused(personal.OpChangeEmail, err, personal.CodeAlreadyExists, "email", personal.FieldErrorTaken)
	before := r.user.email
	request.Email = "new-" + before
	c.ok(personal.OpChangeEmail, r.client.ChangeEmail(r.elsewhere(), request))
	token := r.mail(c, personal.OpChangeEmail, mailtext.EmailChange, request.Email)
	profile, err := r.client.Profile(r.call(), r.user.pair)
	c.ok(personal.OpProfile, err)
	c.equal(personal.OpProfile, "email", profile.Email, before)
	id, err := r.client.ConfirmEmail(r.call(), personal.ConfirmEmailRequest{Token: token})
	c.ok(personal.OpConfirmEmail, err)
	c.equal(personal.OpConfirmEmail, "user_id", id, r.user.id)
	r.user.email, r.user.verified = request.Email, true
	r.compareStored(c)
	r.notice(c, personal.OpConfirmEmail, mailtext.EmailChanged, before)
}

func (r *run) recovery(c *check) {
	mails := len(r.sink.mails)
	c.ok(personal.OpRecover, r.client.Recover(r.elsewhere(), personal.RecoverRequest{Login: r.user.login + "-x"}))
	r.work(c, personal.OpRecover)
	c.equal(personal.OpRecover, "mails", len(r.sink.mails), mails)

	c.ok(personal.OpRecover, r.client.Recover(r.elsewhere(), personal.RecoverRequest{Login: r.user.login}))
	token := r.mail(c, personal.OpRecover, mailtext.Recovery, r.user.email)
	c.valid(r.user.pair)
	before, wanted := r.user, r.newPassword()
	request := personal.RecoverConfirmRequest{Token: token + "x", Password: wanted, ConfirmPassword: wanted}
	_, err := r.client.RecoverConfirm(r.call(), request)
	c.refused(personal.OpRecoverConfirm, err, personal.CodeInvalidToken, "", "")
	request.Token = token
	recovered, err := r.client.RecoverConfirm(r.call(), request)
	c.ok(personal.OpRecoverConfirm, err)
	r.user.password, r.user.verified = wanted, true
	c.equal(personal.OpRecoverConfirm, "user_id", recovered.UserID, r.user.id)
	_, err = r.client.RecoverConfirm(r.call(), request)
	c.refused(personal.OpRecoverConfirm, err, personal.CodeInvalidToken, "", "")
	c.void(before.pair)
	_, err = r.client.Authorize(r.call(), personal.AuthorizeRequest{Login: before.login, Password: before.password})
	c.refused(personal.OpAuthorize, err, personal.CodeInvalidCredentials, "", "")
	r.signIn(c)
	r.notice(c, personal.OpRecoverConfirm, mailtext.Recovered, r.user.email)
}
