package rehearsal

import (
	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest/softkey"
)

// passkeys adds a passkey, signs in and proves with it, and removes it.
func (r *run) passkeys(c *check) {
	if r.Settings.Passkeys.ID == "" {
		_, err := r.client.BeginPasskey(r.call(), personal.BeginPasskeyRequest{Purpose: personal.PasskeySignIn})
		c.refused(personal.OpBeginPasskey, err, personal.CodeNotFound, "", "")
		c.skip("passkeys.rp_id is empty")
		return
	}
	u := &r.user
	device := &softkey.Authenticator{Origin: r.Settings.Passkeys.Origins[0]}
	_, err := r.client.AddPasskey(r.call(), personal.AddPasskeyRequest{Credentials: u.pair, Password: r.newPassword()})
	c.refused(personal.OpAddPasskey, err, personal.CodeValidationFailed, "password", personal.FieldErrorMismatch)
	added := r.addPasskey(c, device, "Rehearsal")
	r.notice(c, personal.OpConfirmPasskey, mailtext.PasskeyAdded, u.email)
	started, err := r.client.AddPasskey(r.call(), personal.AddPasskeyRequest{Credentials: u.pair, Password: u.password})
	c.ok(personal.OpAddPasskey, err)
	_, err = device.Create(started.Options)
	c.equal(personal.OpAddPasskey, "excludeCredentials", err, softkey.ErrExcluded)

	c.ok(personal.OpRenamePasskey, r.client.RenamePasskey(r.call(),
		personal.RenamePasskeyRequest{Credentials: u.pair, ID: added.ID, Name: "Renamed"}))
	added.Name = "Renamed"
	list, err := r.client.Passkeys(r.call(), u.pair)
	c.ok(personal.OpPasskeys, err)
	c.is(personal.OpPasskeys, "passkeys", len(list) == 1 && list[0] == added)

	attempt, credential := r.respond(c, device, personal.BeginPasskeyRequest{Purpose: personal.PasskeySignIn})
	in, err := r.client.AuthorizePasskey(r.call(), personal.AuthorizePasskeyRequest{Attempt: attempt, Credential: credential})
	c.ok(personal.OpAuthorizePasskey, err)
	c.equal(personal.OpAuthorizePasskey, "user_id", in.Credentials.UserID, u.id)
	c.compare(personal.OpAuthorizePasskey, in.Profile, *u)
	c.valid(in.Credentials)
	_, err = r.client.AuthorizePasskey(r.call(), personal.AuthorizePasskeyRequest{Attempt: attempt, Credential: credential})
	c.refused(personal.OpAuthorizePasskey, err, personal.CodeInvalidCredentials, "", "")

	attempt, credential = r.respond(c, device, personal.BeginPasskeyRequest{Credentials: u.pair, Purpose: personal.PasskeyProve})
	proof, err := r.client.Prove(r.call(), personal.ProveRequest{Credentials: u.pair, Attempt: attempt, Credential: credential})
	c.ok(personal.OpProve, err)
	c.ok(personal.OpRemovePasskey, r.client.RemovePasskey(r.call(),
		personal.RemovePasskeyRequest{Credentials: u.pair, ID: added.ID, Proof: proof.Proof}))
	c.void(in.Credentials)
	c.valid(u.pair)
	r.notice(c, personal.OpRemovePasskey, mailtext.PasskeyRemoved, u.email)
	attempt, credential = r.respond(c, device, personal.BeginPasskeyRequest{Purpose: personal.PasskeySignIn})
	_, err = r.client.AuthorizePasskey(r.call(), personal.AuthorizePasskeyRequest{Attempt: attempt, Credential: credential})
	c.refused(personal.OpAuthorizePasskey, err, personal.CodeInvalidCredentials, "", "")

	r.addPasskey(c, &softkey.Authenticator{Origin: device.Origin}, "Rehearsal")
	c.ok(personal.OpRemoveOtherWaysIn, r.client.RemoveOtherWaysIn(r.administer(), u.id))
	list, err = r.client.Passkeys(r.call(), u.pair)
	c.ok(personal.OpPasskeys, err)
	c.equal(personal.OpRemoveOtherWaysIn, "passkeys", len(list), 0)
	r.work(c, personal.OpRemoveOtherWaysIn)
}

// addPasskey adds a passkey of a device to the rehearsed user.
func (r *run) addPasskey(c *check, device *softkey.Authenticator, name string) personal.Passkey {
	started, err := r.client.AddPasskey(r.call(), personal.AddPasskeyRequest{Credentials: r.user.pair, Password: r.user.password})
	c.ok(personal.OpAddPasskey, err)
	credential, err := device.Create(started.Options)
	c.is(personal.OpAddPasskey, "options", err == nil)
	request := personal.ConfirmPasskeyRequest{Credentials: r.user.pair, Attempt: started.Attempt, Credential: credential, Name: name}
	added, err := r.client.ConfirmPasskey(r.call(), request)
	c.ok(personal.OpConfirmPasskey, err)
	c.equal(personal.OpConfirmPasskey, "name", added.Name, name)
	again, err := r.client.ConfirmPasskey(r.call(), request)
	c.ok(personal.OpConfirmPasskey, err)
	c.equal(personal.OpConfirmPasskey, "passkey", again, added)
	return added
}

// respond begins a ceremony and lets a device respond.
func (r *run) respond(c *check, device *softkey.Authenticator, request personal.BeginPasskeyRequest) (attempt, credential string) {
	started, err := r.client.BeginPasskey(r.call(), request)
	c.ok(personal.OpBeginPasskey, err)
	credential, err = device.Get(started.Options)
	c.is(personal.OpBeginPasskey, "options", err == nil)
	return started.Attempt, credential
}
