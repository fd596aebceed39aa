package users

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personaladmin/internal/frame"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

// listBody is the body of the list page.
type listBody struct {
	Form     ui.Form // of the search
	More     ui.Form // its filters beside the first ones
	Filtered bool    // one of these is set
	Search   search
	Inputs   []ui.Hidden // the search, in the form of the selected users
	Column   string      // label of the user field that is shown; empty for none
	Users    []listed
	Newest   string // URL of the first page; empty on that page
	Older    string // URL of the next page; empty on the last one
	New      string // URL that adds a user with the searched login
	Why      string // URL that explains why the searched user cannot sign in; may be empty
}

// listed is a user in the list.
type listed struct {
	personal.User
	Value string // of the field that is shown
}

// search is what the list is searched for, by the names of its parameters in the URL.
type search map[string]string

// searchNames are the parameters of a search.
var searchNames = []string{"search", "state", "since", "until", "is", "show", "order", "after"}

// searchOf returns the search of a page's URL or of a form.
func searchOf(get func(name string) string) search {
	s := search{}
	for _, name := range searchNames {
		if value := get(name); value != "" {
			s[name] = value
		}
	}
	return s
}

// inputs are the parameters of the search.
func (s search) inputs() (inputs []ui.Hidden) {
	for _, name := range searchNames {
		if s[name] != "" {
			inputs = append(inputs, ui.Hidden{Name: name, Value: s[name]})
		}
	}
	return inputs
}

// at returns the URL of a page of the list, 0 for the first one.
func (s search) at(after int64) string {
	values := url.Values{}
	for _, h := range s.inputs() {
		values.Set(h.Name, h.Value)
	}
	values.Del("after")
	if after > 0 {
		values.Set("after", strconv.FormatInt(after, 10))
	}
	return strings.TrimSuffix(listPath+"?"+values.Encode(), "?")
}

// url returns the URL of this page of the list.
func (s search) url() string { return s.at(s.after()) }

// after returns the position of the page; 0, the first page, if it is not a number.
func (s search) after() int64 {
	after, _ := strconv.ParseInt(s["after"], 10, 64)
	return max(0, after)
}

// request returns the request of the search, and the names of parameters that are not days.
func (s search) request() (r personal.FindUsersRequest, faulty []string) {
	r = personal.FindUsersRequest{
		Search: s["search"], State: personal.UserState(s["state"]), Oldest: s["order"] == "oldest", After: s.after(), Limit: pageSize,
	}
	for name, bound := range map[string]*time.Time{"since": &r.Since, "until": &r.Until} {
		if s[name] == "" {
			continue
		}
		day, err := time.Parse(time.DateOnly, s[name])
		if err != nil {
			faulty = append(faulty, name)
			continue
		}
		if *bound = day; name == "until" {
			*bound = day.AddDate(0, 0, 1) // the day counts
		}
	}
	r.Field, r.Value, _ = strings.Cut(s["is"], "=")
	if s["show"] != "" {
		r.Fields = []string{s["show"]}
	}
	return r, faulty
}

func (p *Pages) list(w http.ResponseWriter, r *http.Request) error {
	s := searchOf(r.URL.Query().Get)
	request, faulty := s.request()
	fields := p.settableFields(r)
	body := listBody{
		Form: ui.Form{Controls: p.searchControls(r, s)}, More: ui.Form{Controls: p.filterControls(r, s, fields)}, Search: s, Inputs: s.inputs(),
		New: frame.URL(listPath+"/new", "login", s["search"]), Why: p.why(s["search"]),
	}
	body.Filtered = slices.ContainsFunc(body.More.Controls, func(c ui.Control) bool { return c.Value != "" })
	var page personal.UserPage
	var err error
	if len(faulty) == 0 {
		page, err = p.Administration.FindUsers(r.Context(), request)
	} else {
		refused := personal.FieldErrors{}
		for _, name := range faulty {
			refused[name] = personal.FieldErrorInvalidFormat
		}
		err = refused.Err()
	}
	status := http.StatusOK
	switch personal.CodeOf(err) {
	case "":
	case personal.CodeValidationFailed:
		status = p.refuseSearch(r, &body, err, faulty)
	default:
		return p.pageError(r, err)
	}
	show := indexOf(fields, s["show"])
	if show >= 0 {
		body.Column = p.site.API.Labels(r)(fields[show].Label, fields[show].Name)
	}
	for _, u := range page.Users {
		one := listed{User: u}
		if show >= 0 && len(u.Fields) == 1 {
			one.Value = p.valueText(r, fields[show], u.Fields[0].Value)
		}
		body.Users = append(body.Users, one)
	}
	if request.After > 0 {
		body.Newest = s.at(0)
	}
	if page.Next != 0 {
		body.Older = s.at(page.Next)
	}
	return p.site.Render(w, r, status, "users", p.page(w, r, body, nil, []string{"users_none_selected", "users_undo_late"}))
}

// refuseSearch shows the errors of a search at its controls, and returns the status of the
// response. faulty are the controls whose texts are not days.
func (p *Pages) refuseSearch(r *http.Request, body *listBody, err error, faulty []string) int {
	status := p.site.RefuseForm(r, &body.Form, err)
	texts := map[string]string{}
	for _, e := range body.Form.Errors {
		texts[e.Label] = e.Text // those without a control have its name as their label
	}
	for _, name := range faulty {
		texts[name] = p.site.Text(r, "users_no_day")
	}
	body.More.Refuse(body.Form.Message, texts)
	body.More.Errors = slices.DeleteFunc(body.More.Errors, func(e ui.FieldError) bool { return e.ID == "" })
	body.Form.Errors = append(slices.DeleteFunc(body.Form.Errors, func(e ui.FieldError) bool { return e.ID == "" }), body.More.Errors...)
	return status
}

// why returns the URL that explains why a user cannot sign in, empty without that section.
func (p *Pages) why(login string) string {
	return p.site.LinkTo(frame.Support, frame.URL(frame.Path+"/"+frame.Support, "login", login))
}

// bulk are the actions for selected users, in the order of their buttons.
var bulk = []string{"disable", "enable", "sign_out", "recovery", "delete"}

func (p *Pages) searchControls(r *http.Request, s search) []ui.Control {
	states := []ui.Choice{{Label: p.site.Text(r, "users_all")}}
	for _, state := range []personal.UserState{personal.UserActive, personal.UserDisabled, personal.UserUnconfirmed, personal.UserTwoFactor} {
		states = append(states, ui.Choice{Value: string(state), Label: p.site.Text(r, "users_state_"+string(state))})
	}
	return []ui.Control{
		{Name: "search", Type: "search", Label: p.site.Text(r, "users_search"), Value: s["search"], Autocomplete: "off"},
		{Kind: ui.KindSelect, Name: "state", Label: p.site.Text(r, "users_state"), Value: s["state"], Options: states},
	}
}

// filterControls are the controls of the filters beside the first ones. The values of a field are
// offered if they are few.
func (p *Pages) filterControls(r *http.Request, s search, fields []personal.Field) []ui.Control {
	text := func(key string) string { return p.site.Text(r, key) }
	is, show := []ui.Choice{{Label: text("users_any_value")}}, []ui.Choice{{Label: text("users_no_column")}}
	labels := p.site.API.Labels(r)
	for _, f := range fields {
		label := labels(f.Label, f.Name)
		show = append(show, ui.Choice{Value: f.Name, Label: label})
		for _, value := range finite(f) {
			is = append(is, ui.Choice{Value: f.Name + "=" + value, Label: label + p.site.Text(r, "colon") + " " + p.valueText(r, f, value)})
		}
	}
	if s["is"] != "" && !slices.ContainsFunc(is, func(c ui.Choice) bool { return c.Value == s["is"] }) { // of a link
		is = append(is, ui.Choice{Value: s["is"], Label: s["is"]})
	}
	controls := []ui.Control{
		{Name: "since", Type: "date", Label: text("users_since"), Value: s["since"], Autocomplete: "off"},
		{Name: "until", Type: "date", Label: text("users_until"), Value: s["until"], Autocomplete: "off"},
		{Kind: ui.KindSelect, Name: "order", Label: text("users_order"), Value: s["order"], Options: []ui.Choice{
			{Label: text("users_newest_first")}, {Value: "oldest", Label: text("users_oldest_first")},
		}},
	}
	if len(is) > 1 {
		controls = append(controls, ui.Control{Kind: ui.KindSelect, Name: "is", Label: text("users_is"), Value: s["is"], Options: is})
	}
	if len(show) > 1 {
		controls = append(controls, ui.Control{Kind: ui.KindSelect, Name: "show", Label: text("users_show"), Value: s["show"], Options: show})
	}
	return controls
}

// finite returns the values of a field that can be chosen from a list, none if it has others.
func finite(f personal.Field) (values []string) {
	switch f.Type {
	case personal.TypeBoolean:
		return []string{"true", "false"}
	case personal.TypeEnum:
		for _, o := range f.Options {
			values = append(values, o.Value)
		}
	}
	return values
}

// valueText returns what a list shows for a value of a field.
func (p *Pages) valueText(r *http.Request, f personal.Field, value any) string {
	if value == nil {
		return ""
	}
	text := strings.ReplaceAll(ui.FieldText(f, value), "\n", ", ")
	switch f.Type {
	case personal.TypeBoolean:
		if text == "true" {
			return p.site.Text(r, "yes")
		}
		return p.site.Text(r, "no")
	case personal.TypeEnum:
		for _, o := range f.Options {
			if o.Value == text {
				return p.site.API.Labels(r)(o.Label, o.Value)
			}
		}
	}
	return text
}

func indexOf(fields []personal.Field, name string) int {
	return slices.IndexFunc(fields, func(f personal.Field) bool { return f.Name == name })
}
