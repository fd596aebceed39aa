// Package support has the admin page that says why a user cannot sign in, with the one
// action that helps beside each reason.
package support

import (
	"cmp"
	"context"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"unicode"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personaladmin/internal/frame"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

const path = frame.Path + "/support"

// Pages is the page of support.
type Pages struct {
	Administration personal.Administration
	Mails          Mails

	site *frame.Site
}

// Mails requests mails as a user does, so that no administrator ever knows a password
// or a code.
type Mails interface {
	Recover(ctx context.Context, r personal.RecoverRequest) error
	ResendVerification(ctx context.Context, r personal.ResendVerificationRequest) error
}

// Name implements [frame.Section].
func (p *Pages) Name() string { return "support" }

// Register implements [frame.Section].
func (p *Pages) Register(s *frame.Site) {
	p.site = s
	s.Handle("GET "+path, p.show)
	for name, act := range map[string]action{
		"enable": p.enable, "disable": p.disable, "verify": p.verify, "recover": p.recover, "lift-limits": p.liftLimits,
	} {
		s.HandleForm("POST "+path+"/"+name, ui.ReadForm, p.handle(act))
	}
}

// question is what an administrator asks.
type question struct {
	Login     string       // a login, an e-mail or an id
	Addresses []netip.Addr // of the user
	Typed     string       // the addresses as they were typed
}

// URL returns the URL of the page with the answer.
func (q question) URL() string { return frame.URL(path, "login", q.Login, "address", q.Typed) }

// newQuestion reads a question. It reports false if a text is not an address.
func newQuestion(login, addresses string) (question, bool) {
	words := strings.FieldsFunc(addresses, func(r rune) bool { return r == ',' || r == ';' || unicode.IsSpace(r) })
	q, ok := question{Login: personal.Typed(login), Typed: strings.Join(words, " ")}, true
	for _, word := range words {
		address, err := netip.ParseAddr(word)
		ok = ok && err == nil && address.Zone() == ""
		q.Addresses = append(q.Addresses, address.Unmap())
	}
	return q, ok
}

// form returns the form of the question.
func (p *Pages) form(r *http.Request, q question) ui.Form {
	return ui.Form{Controls: []ui.Control{
		{Name: "login", Type: "search", Label: p.site.Text(r, "support_login"), Value: q.Login, Autocomplete: "off"},
		{Name: "address", Label: p.site.Text(r, "support_address"), Hint: p.site.Text(r, "support_address_hint", personal.MaxExplainAddresses), Value: q.Typed, Autocomplete: "off"},
	}}
}

// body is the body of the page.
type body struct {
	Form     ui.Form
	Undo     *button        // of what was done just now; nil if nothing can be undone
	User     *personal.User // nil if there is none
	UserURL  string         // of their page; may be empty
	History  string         // URL; may be empty
	Decisive *verdict       // nil: nothing was asked
	Others   []verdict
}

func (p *Pages) show(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	q, ok := newQuestion(query.Get("login"), strings.Join(query["address"], " "))
	notice := p.site.Notice(w, r, "support_enabled", "support_deletion_undone", "support_disabled", "support_verification_sent",
		"users_recovery_sent", "users_recovery_not_sent", "support_limits_lifted")
	b := body{Form: p.form(r, q)}
	status := http.StatusOK
	switch {
	case !ok:
		status = p.refuse(r, &b.Form, personal.FieldErrors{"addresses": personal.FieldErrorInvalidFormat}.Err())
	case q.Login != "":
		e, err := p.Administration.Explain(r.Context(), personal.ExplainRequest{Login: q.Login, Addresses: q.Addresses})
		switch personal.CodeOf(err) {
		case "":
			p.answer(r, &b, q, e)
			done, _ := p.site.LastResult(r).(enabled)
			if e.User != nil && done.userID == e.User.ID && notice == p.site.Text(r, "support_enabled") {
				b.Undo = p.button(r, "support_undo", "disable", q, e.User.ID)
				b.Undo.Quiet = true
			}
		case personal.CodeValidationFailed:
			status = p.refuse(r, &b.Form, err)
		default:
			return p.site.PluginError(r, err)
		}
	}
	return p.site.Render(w, r, status, "support", ui.Page{Notice: notice, Body: b})
}

// answer puts an explanation into words.
func (p *Pages) answer(r *http.Request, b *body, q question, e personal.Explanation) {
	if b.User = e.User; b.User != nil {
		user := frame.Path + "/users/" + strconv.FormatInt(b.User.ID, 10)
		b.UserURL, b.History = p.site.LinkTo(frame.Users, user), p.site.LinkTo(frame.Events, user+"/events")
	}
	for i, v := range e.Verdicts {
		worded := p.verdict(r, q, e.User, v)
		if i == 0 {
			b.Decisive = &worded
		} else {
			if worded.Button != nil {
				worded.Button.Quiet = true
			}
			b.Others = append(b.Others, worded)
		}
	}
}

// refuse shows field errors in the form and returns the status of the response.
func (p *Pages) refuse(r *http.Request, form *ui.Form, err error) int {
	x := p.site.API.ErrorResponse(r, err)
	texts := map[string]string{}
	for name, e := range x.FieldErrors {
		if name == "addresses" {
			name, e.Message = "address", p.site.Text(r, "support_no_address", personal.MaxExplainAddresses)
		}
		texts[name] = e.Message
	}
	form.Refuse(x.Message, texts)
	return x.Status
}

// enabled is the user whom the administrator has enabled last; 0 if they were enabled
// already. It is kept in their session: the notice alone says nothing about whom it concerns.
type enabled struct{ userID int64 }

// action helps a user, and returns the key of the notice that says what was done.
type action func(ctx context.Context, user personal.User, q question) (notice string, err error)

// handle returns the handler of an action's button, which leads back to the question.
func (p *Pages) handle(act action) func(http.ResponseWriter, *http.Request, ui.Posted) error {
	return func(w http.ResponseWriter, r *http.Request, posted ui.Posted) error {
		ctx := r.Context()
		q, ok := newQuestion(posted.Get("login"), posted.Get("address"))
		id, err := strconv.ParseInt(posted.Get("user"), 10, 64)
		if !ok || err != nil {
			return &frame.PageError{Status: http.StatusBadRequest}
		}
		user, err := p.Administration.User(ctx, id)
		if personal.CodeOf(err) == personal.CodeNotFound {
			return p.site.PageError(r, http.StatusNotFound, "users_unknown")
		}
		if err != nil {
			return p.site.PluginError(r, err)
		}
		notice, err := act(ctx, user.User, q)
		switch personal.CodeOf(err) {
		case "":
			done := enabled{}
			if user.Disabled {
				done.userID = user.ID
			}
			p.site.SaveResult(w, r, done)
			p.site.Log.InfoContext(ctx, "user helped by an administrator", "change", notice, "user_id", id, "request_id",
				personal.CallFrom(ctx).RequestID)
			return p.site.Redirect(w, r, q.URL(), notice)
		case personal.CodeNotFound: // deleted since
			return p.site.PageError(r, http.StatusNotFound, "users_unknown")
		}
		return p.site.PluginError(r, err)
	}
}

func (p *Pages) enable(ctx context.Context, user personal.User, _ question) (string, error) {
	notice := "support_enabled"
	if !user.EraseAt.IsZero() {
		notice = "support_deletion_undone" // disabling would not bring the deletion back
	}
	return notice, p.Administration.EnableUser(ctx, user.ID)
}

func (p *Pages) disable(ctx context.Context, user personal.User, _ question) (string, error) {
	return "support_disabled", p.Administration.DisableUser(ctx, user.ID)
}

func (p *Pages) verify(ctx context.Context, user personal.User, _ question) (string, error) {
	email := cmp.Or(user.UnverifiedEmail, user.Email)
	// With the login, because several accounts may wait for the address.
	return "support_verification_sent", p.Mails.ResendVerification(asUser(ctx),
		personal.ResendVerificationRequest{Login: user.Login, Email: email})
}

func (p *Pages) recover(ctx context.Context, user personal.User, _ question) (string, error) {
	if user.Email == "" || user.Disabled { // they were not when the page was shown
		return "users_recovery_not_sent", nil
	}
	return "users_recovery_sent", p.Mails.Recover(asUser(ctx), personal.RecoverRequest{Email: user.Email})
}

func (p *Pages) liftLimits(ctx context.Context, user personal.User, q question) (string, error) {
	return "support_limits_lifted", p.Administration.LiftLimits(ctx, personal.LiftLimitsRequest{UserID: user.ID, Addresses: q.Addresses})
}

// asUser leaves out the administrator's address: the plugin would count it against the
// rate limit and record it as the user's.
func asUser(ctx context.Context) context.Context {
	call := personal.CallFrom(ctx)
	call.Address = netip.Addr{}
	return personal.WithCall(ctx, call)
}
