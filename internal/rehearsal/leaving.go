package rehearsal

import (
	"slices"
	"strings"
	"time"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/shared/personal"
)

func (r *run) export(c *check) {
	got, err := r.client.Export(r.call(), personal.ExportRequest{Credentials: r.user.pair, Password: r.user.password})
	c.ok(personal.OpExport, err)
	c.equal(personal.OpExport, "user_id", got.UserID, r.user.id)
	c.compare(personal.OpExport, got.Profile, r.user)
	c.is(personal.OpExport, "sessions", len(got.Sessions) > 0)
	c.is(personal.OpExport, "known_addresses", len(got.KnownAddresses) > 0)
	c.is(personal.OpExport, "created", !got.Created.IsZero() && !got.Updated.Before(got.Created))
	for _, t := range []personal.EventType{personal.EventRegistered, personal.EventSignedIn} {
		c.is(personal.OpExport, "events", slices.ContainsFunc(got.Events, func(e personal.ExportedEvent) bool { return e.Type == t }))
	}
}

// administration rehearses what administrators do, with the other user and one whom they
// create.
func (r *run) administration(c *check) {
	page, err := r.client.FindUsers(r.administer(), personal.FindUsersRequest{After: r.user.id + 1, Limit: 1})
	c.ok(personal.OpFindUsers, err)
	i := slices.IndexFunc(page.Users, func(u personal.User) bool { return u.ID == r.user.id })
	if c.is(personal.OpFindUsers, "users", i >= 0) {
		c.equal(personal.OpFindUsers, "login", page.Users[i].Login, r.user.login)
		c.equal(personal.OpFindUsers, "email", page.Users[i].Email, r.user.email)
	}
	users, err := r.client.Users(r.administer(), []int64{r.user.id})
	c.ok(personal.OpUsers, err)
	c.equal(personal.OpUsers, "login", users[r.user.id].Login, r.user.login)
	sessions, err := r.client.UserSessions(r.administer(), r.user.id)
	c.ok(personal.OpUserSessions, err)
	c.is(personal.OpUserSessions, "sessions", len(sessions) > 0)
	c.ok(personal.OpLiftLimits, r.client.LiftLimits(r.administer(), personal.LiftLimitsRequest{UserID: r.user.id}))
	log, err := r.client.AuditEntries(r.administer(), personal.AuditEntriesRequest{UserID: r.user.id, Limit: personal.MaxAuditLimit})
	c.ok(personal.OpAuditEntries, err)
	c.is(personal.OpAuditEntries, "entries", len(log.Entries) > 0)
	for _, e := range log.Entries {
		c.equal(personal.OpAuditEntries, "user_id", e.UserID, r.user.id)
	}
	r.disabling(c)
	r.otherEmail(c)
	r.invitation(c)
	r.fieldJobs(c)
}

func (r *run) disabling(c *check) {
	u := &r.other
	r.signInAs(c, u)
	c.explains(u.login, personal.ReasonDisabled, false)
	c.ok(personal.OpDisableUser, r.client.DisableUser(r.administer(), u.id))
	c.void(u.pair)
	_, err := r.client.Authorize(r.call(), personal.AuthorizeRequest{Login: u.login, Password: u.password})
	c.refused(personal.OpAuthorize, err, personal.CodeAccountDisabled, "", "")
	c.explains(u.login, personal.ReasonDisabled, true)
	c.ok(personal.OpEnableUser, r.client.EnableUser(r.administer(), u.id))
	r.signInAs(c, u)
	c.ok(personal.OpRevokeUserSession, r.client.RevokeUserSession(r.administer(), personal.RevokeUserSessionRequest{UserID: u.id, ID: "0"}))
	c.ok(personal.OpRevokeUserSessions, r.client.RevokeUserSessions(r.administer(), u.id))
	c.void(u.pair)
	r.work(c, personal.OpRevokeUserSessions)
}

// explains demands that a verdict is given, or not.
func (c *check) explains(login string, reason personal.Reason, given bool) {
	explained, err := c.r.client.Explain(c.r.administer(), personal.ExplainRequest{Login: login})
	c.ok(personal.OpExplain, err)
	c.is(personal.OpExplain, "user", explained.User != nil && explained.User.Login == login)
	found := slices.ContainsFunc(explained.Verdicts, func(v personal.Verdict) bool { return v.Reason == reason })
	c.equal(personal.OpExplain, "verdicts", found, given)
}

func (r *run) otherEmail(c *check) {
	wanted := "set-" + r.other.email
	c.ok(personal.OpSetEmail, r.client.SetEmail(r.administer(), personal.SetEmailRequest{UserID: r.other.id, Email: wanted}))
	r.other.email, r.other.verified = wanted, false
	record, err := r.client.User(r.administer(), r.other.id)
	c.ok(personal.OpUser, err)
	c.equal(personal.OpUser, "email", record.Email, wanted)
	c.equal(personal.OpUser, "email_verified", record.EmailVerified, false)
	err = r.client.SetEmail(r.administer(), personal.SetEmailRequest{UserID: r.other.id, Email: r.user.email})
	c.refused(personal.OpSetEmail, err, personal.CodeAlreadyExists, "email", personal.FieldErrorTaken)
	r.work(c, personal.OpSetEmail)
}

// invitation creates a user, who chooses a password, and deletes them.
func (r *run) invitation(c *check) {
	u := r.newUser()
	id, err := r.client.CreateUser(r.administer(), personal.CreateUserRequest{
		Login: u.login, Email: u.email, Invite: true, Locale: "en", Fields: map[string]personal.Input{"name": personal.Text(u.name)},
	})
	c.ok(personal.OpCreateUser, err)
	u.id = id
	r.ids = append(r.ids, id)
	token := r.mail(c, personal.OpCreateUser, mailtext.Invitation, u.email)
	_, err = r.client.RecoverConfirm(r.call(), personal.RecoverConfirmRequest{Token: token, Password: u.password, ConfirmPassword: u.password})
	c.ok(personal.OpRecoverConfirm, err)
	in, err := r.client.Authorize(r.call(), personal.AuthorizeRequest{Login: u.login, Password: u.password})
	c.ok(personal.OpAuthorize, err)
	c.equal(personal.OpAuthorize, "login", in.Profile.Login, u.login)
	c.equal(personal.OpAuthorize, "email_verified", in.Profile.EmailVerified, true)
	c.ok(personal.OpDeleteUser, r.client.DeleteUser(r.administer(), id))
	c.void(in.Credentials)
	r.gone(c, personal.OpDeleteUser, u)
}

// fieldJobs calls the operations on the fields of all users such that they find nothing to do:
// they would read, or lock, rows of others.
func (r *run) fieldJobs(c *check) {
	_, err := r.client.PreviewFields(r.administer(), []personal.Field{{Name: "no type"}})
	c.refused(personal.OpPreviewFields, err, personal.CodeValidationFailed, "fields", personal.FieldErrorInvalidFormat)
	err = r.client.FillFields(r.administer(), "rehearsal "+r.sink.schema.Revision)
	c.refused(personal.OpFillFields, err, personal.CodeValidationFailed, "revision", personal.FieldErrorMismatch)
	_, err = r.client.FieldsFill(r.administer())
	c.ok(personal.OpFieldsFill, err)
}

// gone demands that nothing is left of a user.
func (r *run) gone(c *check, op personal.OperationName, u user) {
	r.work(c, op)
	_, err := r.client.User(r.administer(), u.id)
	c.refused(personal.OpUser, err, personal.CodeNotFound, "", "")
	_, err = r.client.Authorize(r.call(), personal.AuthorizeRequest{Login: u.login, Password: u.password})
	c.refused(personal.OpAuthorize, err, personal.CodeInvalidCredentials, "", "")
	c.is(op, "erasure in the host", slices.Contains(r.sink.erased, u.id))
	tables, err := r.Store.TablesWith(r.ctx, u.id)
	c.ok(op, err)
	c.Count++
	for _, table := range tables {
		c.fail(op, table, "rows of an erased account are left in "+strings.Join(tables, ", "))
	}
}

func (r *run) deletion(c *check) {
	eraseAt, err := r.client.Delete(r.call(), personal.DeleteRequest{Credentials: r.user.pair, Password: r.user.password})
	c.ok(personal.OpDelete, err)
	want := r.Clock.Now().Add(r.Settings.DeletionGrace)
	c.is(personal.OpDelete, "erase_at", eraseAt.Sub(want).Abs() < time.Millisecond)
	c.void(r.user.pair)
	_, err = r.client.Authorize(r.call(), personal.AuthorizeRequest{Login: r.user.login, Password: r.user.password})
	c.refused(personal.OpAuthorize, err, personal.CodeAccountDisabled, "", "")
	r.undoToken = r.mail(c, personal.OpDelete, mailtext.Deletion, r.user.email)
}

func (r *run) undo(c *check) {
	if r.undoToken == "" {
		c.skip("there was no mail with a token")
		return
	}
	_, err := r.client.UndoDelete(r.call(), personal.UndoDeleteRequest{Token: r.undoToken + "x"})
	c.refused(personal.OpUndoDelete, err, personal.CodeInvalidToken, "", "")
	id, err := r.client.UndoDelete(r.call(), personal.UndoDeleteRequest{Token: r.undoToken})
	c.ok(personal.OpUndoDelete, err)
	c.equal(personal.OpUndoDelete, "user_id", id, r.user.id)
	r.signIn(c)
	r.work(c, personal.OpUndoDelete)
}

// erasure deletes the account again and lets its time come.
func (r *run) erasure(c *check) {
	eraseAt, err := r.client.Delete(r.call(), personal.DeleteRequest{Credentials: r.user.pair, Password: r.user.password})
	c.ok(personal.OpDelete, err)
	early, err := r.service.EraseIfDue(r.ctx, r.user.id)
	c.ok(personal.OpDelete, err)
	c.is(personal.OpDelete, "erase_at", !early)
	r.Clock.move(eraseAt.Sub(r.Clock.Now()) + time.Second)
	erased, err := r.service.EraseIfDue(r.ctx, r.user.id)
	c.ok(personal.OpDelete, err)
	c.is(personal.OpDelete, "erasure", erased)
	r.gone(c, personal.OpDelete, r.user)
}

// events demands that the host was told what has happened.
func (r *run) events(c *check) {
	if r.failed {
		c.skip("another check failed: what it did not do has no events")
		return
	}
	for event, op := range map[personal.EventType]personal.OperationName{
		personal.EventRegistered:        personal.OpRegister,
		personal.EventSignedIn:          personal.OpAuthorize,
		personal.EventSignInFailed:      personal.OpAuthorize,
		personal.EventPasswordChanged:   personal.OpChangePassword,
		personal.EventEmailChanged:      personal.OpConfirmEmail,
		personal.EventRecoveryRequested: personal.OpRecover,
		personal.EventRecovered:         personal.OpRecoverConfirm,
		personal.EventExported:          personal.OpExport,
		personal.EventDeletionRequested: personal.OpDelete,
		personal.EventDeletionUndone:    personal.OpUndoDelete,
		personal.EventUserDeleted:       personal.OpDeleteUser,
		personal.EventUserUpdated:       personal.OpUpdateUser,
		personal.EventUserDisabled:      personal.OpDisableUser,
		personal.EventUserEnabled:       personal.OpEnableUser,
		personal.EventUserSignedOut:     personal.OpRevokeUserSessions,
		personal.EventUserCreated:       personal.OpCreateUser,
		personal.EventUserInvited:       personal.OpCreateUser,
		personal.EventLimitsLifted:      personal.OpLiftLimits,
	} {
		c.is(op, "event "+string(event), slices.ContainsFunc(r.sink.events, func(e personal.Event) bool { return e.Type == event }))
	}
	for _, want := range r.changes {
		c.is(want.op, "event "+string(want.event)+" fields", slices.ContainsFunc(r.sink.events, func(e personal.Event) bool {
			return e.Type == want.event && e.UserID == r.user.id && slices.Equal(e.Fields, want.fields)
		}))
	}
}
