package adminpages

import (
	"errors"
	"net/http"
	"slices"

	"github.com/cms-personal/personal/host-sample/ui"
	"github.com/cms-personal/personal/shared/personal"
)

// problem answers with an error page that leads on to the other pages.
func (s *site) problem(w http.ResponseWriter, r *http.Request, p ui.Problem) {
	p.Nav = s.nav(r)
	s.pages.Problem(w, r, p)
}

// fail answers what is nobody's fault but the host's, and logs it.
func (s *site) fail(w http.ResponseWriter, r *http.Request, doing string, err error) {
	s.Log.ErrorContext(r.Context(), "admin page: "+doing, "request_id", personal.CallFrom(r.Context()).RequestID, "error", err)
	s.problem(w, r, ui.Problem{Status: http.StatusInternalServerError, Message: s.pages.Text(r, "see_log")})
}

// posted reads a form of at most 64 KiB, or answers that there is none and
// returns false.
func (s *site) posted(w http.ResponseWriter, r *http.Request) (ui.Posted, bool) {
	return s.postedBy(ui.ReadForm, w, r)
}

// postedLarge is posted with a limit of 1 MiB: for the user-field schema, a field
// with its options, and all fields of a user.
func (s *site) postedLarge(w http.ResponseWriter, r *http.Request) (ui.Posted, bool) {
	return s.postedBy(ui.ReadLargeForm, w, r)
}

func (s *site) postedBy(
	read func(http.ResponseWriter, *http.Request) (ui.Posted, error), w http.ResponseWriter, r *http.Request,
) (ui.Posted, bool) {
	posted, err := read(w, r)
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		message := s.pages.Text(r, "form_too_large", large.Limit>>10)
		s.problem(w, r, ui.Problem{Status: http.StatusRequestEntityTooLarge, Message: message})
		return ui.Posted{}, false
	}
	if err != nil {
		s.problem(w, r, ui.Problem{Status: http.StatusBadRequest})
		return ui.Posted{}, false
	}
	return posted, true
}

// notice tells what just succeeded, if it is one of these.
func (s *site) notice(w http.ResponseWriter, r *http.Request, codes ...string) string {
	if code := ui.TakeNotice(w, r); slices.Contains(codes, code) {
		return s.pages.Text(r, code)
	}
	return ""
}

// inLanguage returns the request as if it had asked for a language.
func inLanguage(r *http.Request, locale string) *http.Request {
	call := personal.CallFrom(r.Context())
	call.Locale = locale
	other := r.Clone(personal.WithCall(r.Context(), call))
	other.Header.Set("Accept-Language", locale)
	return other
}
