package personalpages

import (
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalweb"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

// InputKind is what an [Input] looks like.
type InputKind string

// The kinds of input.
const (
	InputText     InputKind = "text"     // one line of 255 characters at most
	InputCheckbox InputKind = "checkbox" // sends "true" if it is ticked, else nothing
	InputWidget   InputKind = "widget"   // HTML with a script, such as a captcha
)

// Input is what a form asks for the site's [personal.Admission]: an invite code, the acceptance of
// terms, a captcha. What is sent reaches the Judge alone, by [personal.TransientFrom]. A form that
// is shown again keeps it, and has the Judge's field error of Name beside it.
type Input struct {
	// Name is the transient parameter. It must be one of [personalhttp.Options].Transient.
	Name string

	// Operations are the judged operations whose forms have the input: [personal.OpRegister],
	// [personal.OpRegisterIdentity], which is a registration by a [Provider], [personal.OpAuthorize] and [personal.OpAuthorizeMailedCode] with the page for the code of a second
	// factor, [personal.OpBeginMailedCode], [personal.OpRecover], [personal.OpResendVerification],
	// [personal.OpChangeEmail]. The two registrations if empty. Other judged operations have no form here.
	Operations []personal.OperationName

	Kind  InputKind          // InputText if empty
	Label personal.LocalText // required; chosen like the labels of user fields
	Hint  personal.LocalText // may be empty

	// Required marks the input as required. The Judge decides, also about requests to the API.
	Required bool

	// Link is the path or https URL of the text that a checkbox is about, such as the terms, and
	// LinkText what the link says. It opens in a window of its own, because the form is not saved.
	Link     string
	LinkText personal.LocalText

	// HTML is that of a widget, in the form, and Script the https URL of the script that it needs.
	// SentAs is the name under which the widget sends its value; Name if empty.
	HTML   template.HTML
	Script string
	SentAs string

	// Sources are what the widget loads, by the directive of the Content-Security-Policy, such as
	// "script-src": {"https://challenges.example"}. Only pages that show it allow them. In the
	// site's layout the site sends the policy.
	Sources map[string][]string
}

var (
	inputDirective = regexp.MustCompile(`\A(script|style|frame|connect|img|font|worker)-src\z`)
	inputSource    = regexp.MustCompile(`\A[!-+\--:<-~]+\z`) // visible ASCII without , and ;
)

// checkInputs returns an error for every input that no form can show or no Judge can get.
func checkInputs(inputs []Input, transient []string) error {
	var wrong []error
	for i, in := range inputs {
		refuse := func(format string, args ...any) {
			wrong = append(wrong, fmt.Errorf("Config.Inputs: input %q: "+format, append([]any{in.Name}, args...)...))
		}
		if !slices.Contains(transient, in.Name) {
			refuse("add the name to the Transient of the API's options, which the admission gets")
		}
		if slices.ContainsFunc(inputs[:i], func(other Input) bool { return other.Name == in.Name }) {
			refuse("it is named twice")
		}
		if len(in.Label) == 0 {
			refuse("it has no Label")
		}
		for _, name := range in.Operations {
			if !slices.ContainsFunc(personal.Operations(), func(o personal.Operation) bool { return o.Name == name && o.Judged() }) {
				refuse("no admission judges the operation %q", name)
			}
		}
		switch in.Kind {
		case "", InputText, InputCheckbox:
		case InputWidget:
			if in.HTML == "" {
				refuse("a widget needs HTML")
			}
		default:
			refuse("unknown kind %q: use text, checkbox or widget", in.Kind)
		}
		if in.Link != "" && personalweb.LocalPath(in.Link, "") == "" && !isHTTPS(in.Link) {
			refuse("Link is neither a path on this site nor an https URL")
		}
		if in.Link != "" && len(in.LinkText) == 0 {
			refuse("Link has no LinkText")
		}
		if in.Script != "" && !isHTTPS(in.Script) {
			refuse("Script is not an https URL")
		}
		for directive, sources := range in.Sources {
			unsafe := func(source string) bool { return !inputSource.MatchString(source) }
			if !inputDirective.MatchString(directive) || len(sources) == 0 || slices.ContainsFunc(sources, unsafe) {
				refuse("Sources: %q is not a directive such as script-src with a list of sources", directive)
			}
		}
	}
	return errors.Join(wrong...)
}

func isHTTPS(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Scheme == "https" && u.Host != ""
}

// isFor reports whether a form of the operation has the input.
func (in Input) isFor(o personal.OperationName) bool {
	registers := o == personal.OpRegister || o == personal.OpRegisterIdentity
	return slices.Contains(in.Operations, o) || len(in.Operations) == 0 && registers
}

// built returns the page of a form, with the inputs of the site.
func (s *site) built(r *http.Request, f form) (formPage, error) {
	page, err := f.build(r)
	if err != nil || f.judged == "" || page.Form.Submit == "" {
		return page, err
	}
	labels := s.API.Labels(r)
	for _, in := range s.Inputs {
		if !in.isFor(f.judged) {
			continue
		}
		c := ui.Control{Name: in.Name, Label: labels(in.Label, in.Name), Hint: labels(in.Hint, ""), Required: in.Required}
		switch in.Kind {
		case InputCheckbox:
			c.Kind = ui.KindCheckbox
			if in.Link != "" {
				c.Link = &ui.Link{Text: labels(in.LinkText, in.Link), Path: in.Link}
			}
		case InputWidget:
			c.Kind, c.Widget = ui.KindWidget, in.HTML
		}
		page.Form.Controls = append(page.Form.Controls, c)
		if in.Script != "" && !slices.Contains(page.Scripts, in.Script) {
			page.Scripts = append(page.Scripts, in.Script)
		}
		for directive, sources := range in.Sources {
			if page.sources == nil {
				page.sources = map[string][]string{}
			}
			page.sources[directive] = append(page.sources[directive], sources...)
		}
	}
	return page, nil
}

// withTransient returns the request with the transient parameters that a form has sent, for the
// site's admission: those of its inputs, and those of its templates.
func (s *site) withTransient(r *http.Request, posted ui.Posted) *http.Request {
	names := s.API.Options().Transient
	if len(names) == 0 {
		return r
	}
	sent := map[string]string{}
	for _, name := range names {
		sent[name] = posted.Get(name)
	}
	for _, in := range s.Inputs {
		if in.SentAs != "" && sent[in.Name] == "" {
			sent[in.Name] = posted.Get(in.SentAs)
		}
		if in.Kind == "" || in.Kind == InputText {
			sent[in.Name] = strings.TrimSpace(sent[in.Name]) // copied from a mail, with what is around it
		}
	}
	return r.WithContext(personal.WithTransient(r.Context(), sent))
}
