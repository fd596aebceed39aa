package rehearsal

import (
	"crypto/rand"
	"slices"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/shared/personal"
)

// identities does what a CMS does for a new user of a provider: it creates them, links their
// identity, and signs them in.
func (r *run) identities(c *check) {
	const method = "rehearsal"
	u := r.newUser()
	id, err := r.client.CreateUser(r.administer(), personal.CreateUserRequest{
		Login: u.login, Email: u.email, Locale: "en", Fields: map[string]personal.Input{"name": personal.Text(u.name)},
	})
	c.ok(personal.OpCreateUser, err)
	u.id = id
	r.ids = append(r.ids, id)
	identity := personal.Identity{Issuer: "https://rehearsal.invalid", Subject: rand.Text()}
	_, err = r.client.FindIdentity(r.call(), identity)
	c.refused(personal.OpFindIdentity, err, personal.CodeNotFound, "", "")
	link := personal.LinkIdentityRequest{Identity: identity, UserID: id}
	c.ok(personal.OpLinkIdentity, r.client.LinkIdentity(r.call(), link))
	found, err := r.client.FindIdentity(r.call(), identity)
	c.ok(personal.OpFindIdentity, err)
	c.equal(personal.OpFindIdentity, "user_id", found, id)
	link.UserID = r.user.id // who has a password
	c.refused(personal.OpLinkIdentity, r.client.LinkIdentity(r.call(), link), personal.CodeAlreadyExists, "subject", personal.FieldErrorTaken)
	link.Identity.Subject += "-2"
	c.refused(personal.OpLinkIdentity, r.client.LinkIdentity(r.call(), link), personal.CodeValidationFailed, "proof",
		personal.FieldErrorRequired)

	in, err := r.client.SignIn(r.call(), personal.SignInRequest{UserID: id, Method: method, AuthenticatedAt: r.Clock.Now()})
	c.ok(personal.OpSignIn, err)
	c.is(personal.OpSignIn, "proof", in.Proof.Proof != "" && in.Proof.Until.After(r.Clock.Now()))
	c.equal(personal.OpSignIn, "user_id", in.Credentials.UserID, id)
	c.equal(personal.OpSignIn, "login", in.Profile.Login, u.login)
	c.valid(in.Credentials)
	list, err := r.client.Sessions(r.call(), in.Credentials)
	c.ok(personal.OpSessions, err)
	c.is(personal.OpSessions, "method", len(list) == 1 && list[0].Method == method)
	record, err := r.client.User(r.administer(), id)
	c.ok(personal.OpUser, err)
	c.is(personal.OpUser, "identities", len(record.Identities) == 1 && record.Identities[0].Identity == identity)
	c.explains(u.login, personal.ReasonIdentities, true)

	unlink := personal.UnlinkIdentityRequest{Identity: identity, UserID: id} // the e-mail is not verified
	c.refused(personal.OpUnlinkIdentity, r.client.UnlinkIdentity(r.administer(), unlink), personal.CodeLastWayIn, "", "")
	c.valid(in.Credentials)
	c.ok(personal.OpResetAccess, r.client.ResetAccess(r.administer(), personal.ResetAccessRequest{UserID: id, Email: u.email}))
	c.void(in.Credentials)
	_, err = r.client.FindIdentity(r.call(), identity)
	c.refused(personal.OpFindIdentity, err, personal.CodeNotFound, "", "")
	_, err = r.client.SignIn(r.call(), personal.SignInRequest{UserID: id, Method: method})
	c.refused(personal.OpSignIn, err, personal.CodeEmailUnverified, "", "")
	c.explains(u.login, personal.ReasonNoPassword, true)
	r.notice(c, personal.OpResetAccess, mailtext.AccessReset, u.email)
	for event, op := range map[personal.EventType]personal.OperationName{
		personal.EventIdentityLinked: personal.OpLinkIdentity, personal.EventAccessReset: personal.OpResetAccess,
	} {
		c.is(op, "event "+string(event), slices.ContainsFunc(r.sink.events, func(e personal.Event) bool {
			return e.Type == event && e.UserID == id
		}))
	}
	c.ok(personal.OpDeleteUser, r.client.DeleteUser(r.administer(), id))
	r.gone(c, personal.OpDeleteUser, u)
	r.ownIdentity(c, identity)
}

// ownIdentity links and unlinks an identity for the rehearsed user, who proves that they ask.
func (r *run) ownIdentity(c *check, identity personal.Identity) {
	link := personal.LinkIdentityRequest{Identity: identity, Credentials: r.user.pair, Proof: "rehearsal"}
	c.refused(personal.OpLinkIdentity, r.client.LinkIdentity(r.call(), link), personal.CodeValidationFailed, "proof",
		personal.FieldErrorMismatch)
	proof, err := r.client.Prove(r.call(), personal.ProveRequest{Credentials: r.user.pair, Password: r.user.password})
	c.ok(personal.OpProve, err)
	link.Proof = proof.Proof
	c.ok(personal.OpLinkIdentity, r.client.LinkIdentity(r.call(), link))
	found, err := r.client.FindIdentity(r.call(), identity)
	c.ok(personal.OpFindIdentity, err)
	c.equal(personal.OpFindIdentity, "user_id", found, r.user.id)
	c.ok(personal.OpUnlinkIdentity, r.client.UnlinkIdentity(r.call(),
		personal.UnlinkIdentityRequest{Identity: identity, Credentials: r.user.pair, Proof: link.Proof}))
	c.valid(r.user.pair)
	r.notice(c, personal.OpUnlinkIdentity, mailtext.IdentityUnlinked, r.user.email)
	c.is(personal.OpUnlinkIdentity, "event "+string(personal.EventIdentityUnlinked), slices.ContainsFunc(r.sink.events, func(e personal.Event) bool {
		return e.Type == personal.EventIdentityUnlinked && e.UserID == r.user.id
	}))
}
