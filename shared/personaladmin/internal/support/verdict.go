package support

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personaladmin/internal/frame"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

// verdict is a [personal.Verdict] in words.
type verdict struct {
	Tone   string // severity: a class; may be empty
	Hint   bool   // it refuses no sign-in
	Title  string // the reason
	Limit  limitTitle
	Parts  []part // what it carries
	Advice string // what helps; may be empty
	Doc    string // URL of the documentation about it; may be empty
	Button *button
}

// limitTitle is a title about a limit; Key is empty for none.
type limitTitle struct {
	Key, Who, Where string // Who, Where: empty if the text has no place for it
}

// part is a sentence with a value in it, of which one is set.
type part struct {
	Before, After string
	Text          string
	Quote         string // the words of another system
	Time          time.Time
	In            string // how far away Time is; empty: the time itself is shown
}

// button is what an administrator can do about a verdict.
type button struct {
	Label string
	URL   string      // of a page, or of the action
	Quiet bool        // not the usual help
	Form  []ui.Hidden // what it posts; nil: it leads to a page
}

// What a verdict may carry, as the keys of texts name it.
const (
	carriesLimit   = "limit"
	carriesKind    = "kind"
	carriesAddress = "address"
	carriesCount   = "count"
	carriesSince   = "since"
	carriesReply   = "reply"
	carriesUntil   = "until"
)

// other is the key of reasons that have no text of their own.
const other = "other"

// reasons are the reasons that have texts. Text support_because_REASON is the title, and
// support_because_REASON_VALUE a sentence with a value that the reason carries.
var reasons = map[personal.Reason]struct {
	tone    string
	carries []string // in the order of the sentences
	advice  bool     // support_because_REASON_advice says what helps, or what to do first
	hint    bool     // it refuses no sign-in
}{
	personal.ReasonNoAccount:      {tone: "warn", advice: true},
	personal.ReasonEmailSignInOff: {tone: "warn", advice: true},
	personal.ReasonLoginNotEmail:  {tone: "warn", advice: true},
	personal.ReasonDisabled:       {tone: "warn", advice: true},
	personal.ReasonDeleted:        {tone: "bad", carries: []string{carriesUntil}, advice: true},
	personal.ReasonUnverified:     {tone: "warn", carries: []string{carriesUntil}},
	personal.ReasonNoPassword:     {tone: "warn"},
	personal.ReasonIdentities:     {tone: "warn", carries: []string{carriesCount}, advice: true},
	personal.ReasonNoEmail:        {tone: "warn", hint: true},
	personal.ReasonLimit:          {tone: "warn", carries: []string{carriesLimit, carriesAddress, carriesUntil}},
	personal.ReasonAddressLimit:   {tone: "warn", carries: []string{carriesLimit, carriesAddress, carriesUntil}, advice: true},
	personal.ReasonMailLimit:      {tone: "warn", carries: []string{carriesKind, carriesAddress, carriesUntil}, advice: true, hint: true},
	personal.ReasonCodesBlocked:   {tone: "warn", carries: []string{carriesUntil}, advice: true},
	personal.ReasonTwoFactor:      {carries: []string{carriesCount}, advice: true},
	personal.ReasonTwoFactorKey:   {tone: "bad", advice: true},
	personal.ReasonPasskeys:       {carries: []string{carriesCount}, advice: true, hint: true},
	personal.ReasonPasskeysVoid:   {tone: "warn", carries: []string{carriesCount}, advice: true, hint: true},
	personal.ReasonMailWaiting:    {tone: "warn", carries: []string{carriesKind, carriesSince, carriesCount, carriesUntil}, hint: true},
	personal.ReasonMailRefused:    {tone: "warn", carries: []string{carriesKind, carriesSince, carriesReply}, advice: true, hint: true},
	personal.ReasonFailed:         {tone: "warn", carries: []string{carriesCount, carriesSince, carriesAddress}, hint: true},
	personal.ReasonIdentitiesVoid: {tone: "warn", carries: []string{carriesCount}, advice: true, hint: true},
	personal.ReasonMissingFields:  {carries: []string{carriesCount}, hint: true},
	personal.ReasonNothing:        {tone: "good", advice: true},
}

// limitTitles are the titles about limits that say whom and what they refuse: Text
// support_limit_is_LIMIT, with the login or the address or both.
var limitTitles = map[personal.Reason]map[string]struct{ who, where bool }{
	personal.ReasonLimit: {
		"guess": {who: true, where: true}, "guess_account": {who: true}, "sign_in_account": {who: true}, "code": {who: true},
	},
	personal.ReasonAddressLimit: {
		"guess_address": {where: true}, "sign_in_address": {where: true}, "recover": {where: true}, "confirm": {where: true},
	},
}

// ending are the reasons that end by themselves within days.
var ending = []personal.Reason{personal.ReasonLimit, personal.ReasonAddressLimit, personal.ReasonMailLimit, personal.ReasonCodesBlocked}

// countsZero are the reasons whose count is told even if it is 0.
var countsZero = []personal.Reason{personal.ReasonTwoFactor}

// verdict puts a verdict into words. A reason or an action of a newer plugin is shown by
// its name.
func (p *Pages) verdict(r *http.Request, q question, user *personal.User, v personal.Verdict) verdict {
	key := string(v.Reason)
	reason, known := reasons[v.Reason]
	worded := verdict{Tone: reason.tone, Hint: reason.hint}
	if known {
		worded.Title = p.site.Text(r, "support_because_"+key)
	} else {
		key, worded.Tone = other, "warn"
		worded.Title = p.site.Text(r, "support_because_other", string(v.Reason))
		reason.carries = []string{carriesLimit, carriesKind, carriesAddress, carriesCount, carriesSince, carriesReply, carriesUntil}
	}
	told := []string{} // by the title
	if of, ok := limitTitles[v.Reason][v.Limit]; ok && user != nil && (v.Address != "" || !of.where) {
		worded.Limit.Key = "support_limit_is_" + v.Limit
		told = append(told, carriesLimit)
		if of.who {
			worded.Limit.Who = user.Login
		}
		if of.where {
			worded.Limit.Where = v.Address
			told = append(told, carriesAddress)
		}
	}
	for _, value := range reason.carries {
		if slices.Contains(told, value) {
			continue
		}
		if s, ok := p.value(r, v, value); ok {
			const mark = "\x00"
			s.Before, s.After, _ = strings.Cut(p.site.Text(r, "support_because_"+key+"_"+value, mark), mark)
			worded.Parts = append(worded.Parts, s)
		}
	}
	if reason.advice {
		worded.Advice = p.site.Text(r, "support_because_"+key+"_advice")
	}
	if v.Reason == personal.ReasonTwoFactorKey {
		worded.Doc = p.site.Doc("two-factor.md#the-secret-key")
	}
	p.addAction(r, &worded, q, user, v.Action)
	return worded
}

// value returns one of the values of a verdict. It reports false for one that is not set.
func (p *Pages) value(r *http.Request, v personal.Verdict, name string) (part, bool) {
	switch name {
	case carriesLimit:
		return part{Text: p.word(r, "support_limit_of_", v.Limit, limits)}, v.Limit != ""
	case carriesKind:
		return part{Text: p.word(r, "support_kind_", v.Kind, mails)}, v.Kind != ""
	case carriesAddress:
		return part{Text: v.Address}, v.Address != ""
	case carriesCount:
		return part{Text: strconv.Itoa(v.Count)}, v.Count != 0 || slices.Contains(countsZero, v.Reason)
	case carriesSince:
		return part{Time: v.Since}, !v.Since.IsZero()
	case carriesReply:
		return part{Quote: v.Reply}, v.Reply != ""
	}
	until := part{Time: v.Until}
	if slices.Contains(ending, v.Reason) {
		until.In = p.lasting(r, time.Until(v.Until))
	}
	return until, !v.Until.IsZero()
}

// lasting writes a time to wait in its largest unit, rounded up.
func (p *Pages) lasting(r *http.Request, d time.Duration) string {
	for _, unit := range []struct {
		name string
		size time.Duration
		most int
	}{{"second", time.Second, 90}, {"minute", time.Minute, 90}, {"hour", time.Hour, 48}, {"day", 24 * time.Hour, math.MaxInt}} {
		n := max(1, int((d+unit.size-1)/unit.size))
		switch {
		case n == 1:
			return p.site.Text(r, "in_one_"+unit.name)
		case n <= unit.most:
			return p.site.Text(r, "in_"+unit.name+"s", n)
		}
	}
	return "" // never
}

// limits are the limits that have a text.
var limits = []string{
	"guess", "guess_address", "guess_account", "sign_in_address", "sign_in_account", "session_writes", "register",
	"register_invalid", "taken_email", "recover", "recover_all", "confirm", "code", "export",
}

// mails are the kinds of mails that have a text.
var mails = []string{"recovery", "email_change", "verification", "invitation", "deletion"}

// word returns the text of a name, or the name if it has none.
func (p *Pages) word(r *http.Request, prefix, name string, named []string) string {
	if slices.Contains(named, name) {
		return p.site.Text(r, prefix+name)
	}
	return name
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
		link(createURL(q.Login), false)
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
		v.Doc = cmp.Or(v.Doc, p.site.Doc("sign-in-problems.md#a-user-cannot-sign-in"))
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

// createURL returns the URL of the page that creates a user.
func createURL(login string) string {
	name := "login"
	if strings.Contains(login, "@") { // no login has one
		name = "email"
	}
	return frame.URL("/admin/users/new", name, login)
}
