package site

import (
	"net/http"
	"slices"

	"github.com/cms-personal/personal/host-sample/ui"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
)

// keepTyped refuses the post of a form of the account. While the service cannot
// say whose it is, the form is shown again with what was typed.
func (s *site) keepTyped(f form) personalhttp.ErrorHandler {
	return func(w http.ResponseWriter, r *http.Request, refusal error) {
		if personal.CodeOf(refusal) != personal.CodeUnavailable {
			s.refuse(w, r, refusal)
			return
		}
		posted, page, ok := s.posted(w, r, f)
		if !ok {
			return
		}
		// What the form tells of the account is not known now.
		page.Lead = ""
		page.Form.Controls = slices.DeleteFunc(page.Form.Controls, func(c ui.Control) bool { return c.Kind == ui.KindText })
		s.showAgain(w, r, page, posted, refusal)
	}
}

// formFields returns the user fields to draw a form by. While the service is away
// a form that was posted is drawn by those it told last, so that nothing typed is
// lost.
func (s *site) formFields(r *http.Request) ([]personal.Field, error) {
	fields, err := s.service.Fields(r.Context())
	if err == nil {
		s.told.Store(&fields)
		return fields, nil
	}
	if told := s.told.Load(); told != nil && r.Method == http.MethodPost && personal.CodeOf(err) == personal.CodeUnavailable {
		return *told, nil
	}
	return nil, err
}
