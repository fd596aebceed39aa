package users

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/netip"
	"slices"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personaladmin/internal/frame"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

// action is a change that needs no input: of one user on their page, or of each of the
// users that are selected in the list.
type action struct {
	notice  string // the key of the text that says it is done, and its name in the log; with "_many", of several users
	warning string // the key of what cannot be undone; may be empty
	apply   func(p *Pages, ctx context.Context, id int64) error

	undo     string                          // the name of the action that undoes it; empty: nothing does
	undoable func(before personal.User) bool // whether undo gives a user their state back; nil: never
}

// actions returns the actions by their names, which forms send.
func actions() map[string]action {
	return map[string]action{
		"disable": {
			notice: "users_disabled", warning: "users_disabled_final", apply: calls(personal.Administration.DisableUser),
			undo: "enable", undoable: func(before personal.User) bool { return !before.Disabled },
		},
		"enable": {
			notice: "users_enabled", apply: calls(personal.Administration.EnableUser),
			// Enabling also undoes the deletion by a user, and disabling does not bring that back.
			undo: "disable", undoable: func(before personal.User) bool { return before.Disabled && before.EraseAt.IsZero() },
		},
		"sign_out":   {notice: "users_sessions_ended", warning: "users_final", apply: calls(personal.Administration.RevokeUserSessions)},
		"recovery":   {notice: "users_recovery_sent", warning: "users_final", apply: (*Pages).sendRecovery},
		"two_factor": {notice: "users_two_factor_removed", warning: "users_final", apply: removeTwoFactor(false)},
		"two_factor_keeping_ways": {
			notice: "users_two_factor_removed", warning: "users_final", apply: removeTwoFactor(true),
		},
		"ways_in": {notice: "users_ways_removed", warning: "users_final", apply: calls(personal.Administration.RemoveOtherWaysIn)},
		"delete":  {notice: "users_deleted", warning: "users_final", apply: calls(personal.Administration.DeleteUser)},
	}
}

func removeTwoFactor(keepOtherWays bool) func(*Pages, context.Context, int64) error {
	return calls(func(a personal.Administration, ctx context.Context, id int64) error {
		return a.RemoveTwoFactor(ctx, personal.RemoveTwoFactorRequest{UserID: id, KeepOtherWaysIn: keepOtherWays})
	})
}

func calls(call func(personal.Administration, context.Context, int64) error) func(*Pages, context.Context, int64) error {
	return func(p *Pages, ctx context.Context, id int64) error { return call(p.Administration, ctx, id) }
}

// errNotRecoverable is the error of a recovery mail to a user who cannot get one.
var errNotRecoverable = errors.New("the user is disabled or has no e-mail")

// sendRecovery requests a recovery as the user would, so that no administrator ever
// knows a password. It leaves out the administrator's address: the plugin would
// count it against the rate limit and record it as the user's.
func (p *Pages) sendRecovery(ctx context.Context, id int64) error {
	user, err := p.Administration.User(ctx, id)
	if err != nil {
		return err
	}
	if !recoverable(user.User) {
		return errNotRecoverable
	}
	call := personal.CallFrom(ctx)
	call.Address = netip.Addr{}
	return p.Recovery.Recover(personal.WithCall(ctx, call), personal.RecoverRequest{Email: user.Email})
}

// recoverable reports whether a recovery mail can be sent to a user.
func recoverable(user personal.User) bool { return user.Email != "" && !user.Disabled }

// outcome is what an action did. That of an administrator's last action is kept in their
// session, so that a request to undo can name no other users.
type outcome struct {
	action action
	back   string // path of the page that shows it
	total  int    // users
	failed []failure
	undo   []int64 // users whom the action's undo gives their state back
	key    string  // random; the request to undo sends it
}

// failure is a user for whom an action failed.
type failure struct {
	ID     int64
	Login  string // empty if the user could not be read
	Reason string
	err    error
}

// act applies an action to each of these users for itself, and keeps the outcome. Once the
// plugin does not respond, the rest of the users fail without a call.
func (p *Pages) act(w http.ResponseWriter, r *http.Request, a action, back string, ids []int64) *outcome {
	o := &outcome{action: a, back: back, total: len(ids), key: rand.Text()}
	var down error
	for _, id := range ids {
		var before personal.UserRecord
		unread, err := down, down
		if down == nil {
			// An action must not depend on readable user fields: without them it cannot be undone.
			before, unread = p.Administration.User(r.Context(), id)
			if err = unread; personal.CodeOf(err) != personal.CodeUnavailable {
				err = a.apply(p, r.Context(), id)
			}
		}
		switch {
		case err != nil:
			o.failed = append(o.failed, failure{ID: id, Login: before.Login, Reason: p.reason(r, err), err: err})
			if personal.CodeOf(err) == personal.CodeUnavailable {
				down = err
			}
			continue
		case unread == nil && a.undoable != nil && a.undoable(before.User):
			o.undo = append(o.undo, id)
		}
		p.logChange(r, a.notice, id)
	}
	p.site.SaveResult(w, r, o)
	return o
}

// reason says to an administrator why an action failed for a user.
func (p *Pages) reason(r *http.Request, err error) string {
	switch {
	case errors.Is(err, errNotRecoverable):
		return p.site.Text(r, "users_not_recoverable")
	case personal.CodeOf(err) == personal.CodeLastWayIn:
		return p.site.Text(r, "users_last_way_in")
	case personal.CodeOf(err) == personal.CodeNotFound:
		return p.site.Text(r, "users_gone")
	}
	if e, ok := errors.AsType[*frame.PageError](p.site.PluginError(r, err)); ok {
		return e.Message
	}
	return ""
}

// Keys of notices that [ui.Pages.LeaveNotice] carries, besides those of texts.
const outcomeNotice = "users_outcome" // that of the last action

// change returns the handler of an action's button on the page of a user.
func (p *Pages) change(name string) handler { return p.do(actions()[name]) }

// unlinkIdentity unlinks the identity that a form names.
func (p *Pages) unlinkIdentity(w http.ResponseWriter, r *http.Request, posted ui.Posted) error {
	identity := personal.Identity{Issuer: posted.Get("issuer"), Subject: posted.Get("subject")}
	unlink := func(a personal.Administration, ctx context.Context, id int64) error {
		return a.UnlinkIdentity(ctx, personal.UnlinkIdentityRequest{UserID: id, Identity: identity})
	}
	return p.do(action{notice: "users_identity_unlinked", warning: "users_final", apply: calls(unlink)})(w, r, posted)
}

// do returns the handler of an action on one user.
func (p *Pages) do(a action) handler {
	return p.forID(func(w http.ResponseWriter, r *http.Request, id int64, _ ui.Posted) error {
		o := p.act(w, r, a, userURL(id, ""), []int64{id})
		if len(o.failed) > 0 && !refused(o.failed[0].err) {
			return p.pageError(r, o.failed[0].err)
		}
		return p.site.Redirect(w, r, o.back, outcomeNotice)
	})
}

// refused reports whether an action failed because of what the user is like: their page says so.
func refused(err error) bool {
	return errors.Is(err, errNotRecoverable) || personal.CodeOf(err) == personal.CodeLastWayIn
}

// undo undoes the administrator's last action, for the users that it changed.
func (p *Pages) undo(w http.ResponseWriter, r *http.Request, posted ui.Posted) error {
	last, ok := p.site.LastResult(r).(*outcome)
	if !ok || posted.Get("action") != last.key || len(last.undo) == 0 {
		return p.site.Redirect(w, r, listPath, "users_undo_late")
	}
	o := p.act(w, r, actions()[last.action.undo], last.back, last.undo)
	return p.site.Redirect(w, r, o.back, outcomeNotice)
}

// report is a notice of what an action did.
type report struct {
	Tone    string
	Text    string
	Warning string // what cannot be undone; may be empty
	Failed  []failure
	Undo    string // the key of the outcome; empty: nothing can be undone
}

// page returns a page with the notice that the request before has left. keys are those of
// texts that the page may show; each of bad says that nothing was done.
func (p *Pages) page(w http.ResponseWriter, r *http.Request, body any, keys, bad []string) ui.Page {
	page := ui.Page{Body: body}
	key := p.site.TakeNotice(w, r)
	o, ok := p.site.LastResult(r).(*outcome)
	switch {
	case key == outcomeNotice && ok:
		page.Extra = p.report(r, o)
	case slices.Contains(keys, key):
		page.Notice = p.site.Text(r, key)
	case slices.Contains(bad, key):
		page.Extra = report{Tone: "bad", Text: p.site.Text(r, key)}
	}
	return page
}

func (p *Pages) report(r *http.Request, o *outcome) report {
	done := o.total - len(o.failed)
	rep := report{Tone: "good", Failed: o.failed}
	switch {
	case o.total == 1 && done == 1:
		rep.Text = p.site.Text(r, o.action.notice)
	default:
		rep.Text = p.site.Text(r, o.action.notice+"_many", done, o.total)
	}
	if done > 0 && o.action.warning != "" {
		rep.Warning = p.site.Text(r, o.action.warning)
	}
	if len(o.undo) > 0 {
		rep.Undo = o.key
	}
	if len(o.failed) > 0 {
		rep.Tone = "bad"
	}
	return rep
}
