package support

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personaladmin/internal/frame"
	"github.com/cms-personal/personal/shared/personaladmin/texts"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

// verdict is a [personal.Verdict] in words, with what an administrator can do.
type verdict struct {
	texts.Verdict
	Doc    string // URL of the documentation about it; may be empty
	Button *button
}

// button is what an administrator can do about a verdict.
type button struct {
	Label string
	URL   string      // of a page, or of the action
	Quiet bool        // not the usual help
	Form  []ui.Hidden // what it posts; nil: it leads to a page
}

// verdict puts a verdict into words. An action of a newer plugin is shown by its name.
func (p *Pages) verdict(r *http.Request, q question, user *personal.User, v personal.Verdict) verdict {
	text := texts.Lookup(func(key string, args ...any) string { return p.site.Text(r, key, args...) })
	worded := verdict{Verdict: text.Verdict(user, v)}
	if v.Reason == personal.ReasonTwoFactorKey {
		worded.Doc = p.site.Doc("two-factor.md#the-secret-key")
	}
	p.addAction(r, &worded, q, user, v.Action)
	return worded
}

// addAction adds what an administrator can do.
func (p *Pages) addAction(r *http.Request, v *verdict, q question, user *personal.User, action personal.Action) {
	post := func(name string) {
		if user != nil {
			v.Button = p.button(r, "support_do_"+string(action), name, q, user.ID)
		}
	}
	link := func(url string, quiet bool) {
		if p.site.HasSection(frame.Users) {
			v.Button = &button{Label: p.site.Text(r, "support_do_"+string(action)), URL: url, Quiet: quiet}
		}
	}
	page := func(below string, quiet bool) {
		if user != nil {
			link("/admin/users/"+strconv.FormatInt(user.ID, 10)+below, quiet)
		}
	}
	switch action {
	case "":
	case personal.ActionCreate:
		link(frame.URL("/admin/users/new", "login", q.Login), false)
	case personal.ActionEnable:
		post("enable")
	case personal.ActionVerify:
		post("verify")
	case personal.ActionRecover:
		post("recover")
	case personal.ActionLiftLimits:
		post("lift-limits")
	case personal.ActionSetEmail:
		page("#field-email", false)
	case personal.ActionRemoveTwoFactor:
		page("/two-factor", true)
	case personal.ActionOperator:
		v.Advice = strings.TrimSpace(v.Advice + " " + p.site.Text(r, "support_do_operator"))
		v.Doc = cmp.Or(v.Doc, p.site.Doc("helping-users.md#a-user-cannot-sign-in"))
	default:
		v.Advice = strings.TrimSpace(v.Advice + " " + p.site.Text(r, "support_do_other", string(action)))
	}
}

// button returns a button that posts an action and leads back to the question.
func (p *Pages) button(r *http.Request, label, action string, q question, userID int64) *button {
	return &button{Label: p.site.Text(r, label), URL: path + "/" + action, Form: []ui.Hidden{
		{Name: "user", Value: strconv.FormatInt(userID, 10)}, {Name: "login", Value: q.Login}, {Name: "address", Value: q.Typed},
	}}
}
