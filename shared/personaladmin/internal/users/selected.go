package users

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personaladmin/internal/frame"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

// changeSelected applies an action to the users that are selected in the list, or leads to
// the page that asks before their deletion.
func (p *Pages) changeSelected(w http.ResponseWriter, r *http.Request, posted ui.Posted) error {
	back := searchOf(posted.Get)
	ids, ok := userIDs(posted.All("user"))
	a, known := actions()[posted.Get("do")]
	switch {
	case !ok || !known || !slices.Contains(bulk, posted.Get("do")):
		return &frame.PageError{Status: http.StatusBadRequest}
	case len(ids) == 0:
		return p.site.Redirect(w, r, back.url(), "users_none_selected")
	case posted.Get("do") == "delete":
		return p.site.Redirect(w, r, listPath+"/delete?"+selection(back, ids).Encode(), "")
	}
	p.act(w, r, a, back.url(), ids)
	return p.site.Redirect(w, r, back.url(), outcomeNotice)
}

// userIDs returns the distinct ids of a request, newest user first. It returns false if
// one is invalid, or if there are more than a page of the list can have.
func userIDs(texts []string) (ids []int64, ok bool) {
	for _, text := range texts {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil || id < 1 {
			return nil, false
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	slices.Reverse(ids)
	return ids, len(ids) <= personal.MaxUserLimit
}

// selection returns selected users and the search that found them, as parameters.
func selection(found search, ids []int64) url.Values {
	values := url.Values{}
	for _, h := range selectionInputs(found, ids) {
		values.Add(h.Name, h.Value)
	}
	return values
}

func selectionInputs(found search, ids []int64) []ui.Hidden {
	hidden := found.inputs()
	for _, id := range ids {
		hidden = append(hidden, ui.Hidden{Name: "user", Value: strconv.FormatInt(id, 10)})
	}
	return hidden
}

// deletionBody is the body of the page that asks before users are deleted.
type deletionBody struct {
	Users []personal.User
	Form  ui.Form
	Back  string // URL of the list
}

func (p *Pages) confirmSelectedDeletion(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	ids, ok := userIDs(query["user"])
	if !ok {
		return &frame.PageError{Status: http.StatusBadRequest}
	}
	body, err := p.deletionBody(r, searchOf(query.Get), ids)
	if err != nil {
		return err
	}
	return p.renderDeletion(w, r, http.StatusOK, body)
}

// renderDeletion leads back to the list if no user is left to delete.
func (p *Pages) renderDeletion(w http.ResponseWriter, r *http.Request, status int, body *deletionBody) error {
	if len(body.Users) == 0 {
		return p.site.Redirect(w, r, body.Back, "users_none_selected")
	}
	return p.site.Render(w, r, status, "usersdelete", ui.Page{Body: body})
}

// deletionBody reads the users of the page. It leaves out those who are gone.
func (p *Pages) deletionBody(r *http.Request, found search, ids []int64) (*deletionBody, error) {
	body := &deletionBody{Back: found.url()}
	var left []int64
	for _, id := range ids {
		user, err := p.Administration.User(r.Context(), id)
		switch {
		case err == nil:
			body.Users, left = append(body.Users, user.User), append(left, id)
		case personal.CodeOf(err) != personal.CodeNotFound:
			return nil, p.pageError(r, err)
		}
	}
	body.Form = ui.Form{
		Action: listPath + "/delete", Submit: p.site.Text(r, "users_delete"), Danger: true, Cancel: body.Back, Hidden: selectionInputs(found, left),
		Controls: []ui.Control{{
			Name: "count", Label: p.site.Text(r, "users_type_count", len(left)), Required: true, InputMode: "numeric", Autocomplete: "off",
		}},
	}
	return body, nil
}

// deleteSelected deletes users if their number was typed, so that none is deleted by
// mistake.
func (p *Pages) deleteSelected(w http.ResponseWriter, r *http.Request, posted ui.Posted) error {
	ids, ok := userIDs(posted.All("user"))
	if !ok || len(ids) == 0 {
		return &frame.PageError{Status: http.StatusBadRequest}
	}
	found := searchOf(posted.Get)
	if posted.Get("count") != strconv.Itoa(len(ids)) {
		body, err := p.deletionBody(r, found, ids)
		if err != nil {
			return err
		}
		body.Form.Fill(posted)
		body.Form.Refuse(p.site.Text(r, "users_none_deleted"), map[string]string{"count": p.site.Text(r, "users_other_count")})
		return p.renderDeletion(w, r, http.StatusUnprocessableEntity, body)
	}
	p.act(w, r, actions()["delete"], found.url(), ids)
	return p.site.Redirect(w, r, found.url(), outcomeNotice)
}
