package site

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/cms-personal/personal/host-sample/ui"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
)

// form is a page that is one form: shown by GET, submitted by POST to the same
// address.
type form struct {
	build func(*http.Request) (formPage, error)
	// submit carries out what the form asks for.
	submit func(http.ResponseWriter, *http.Request, ui.Posted) (done, error)
}

// done says how it goes on after success.
type done struct {
	operation string // of the API, whose confirmation the next page shows
	next      string // the next page
}

// formPage is what the template of a form gets.
type formPage struct {
	Title  string
	Lead   string // what the form is for; may be empty
	Form   ui.Form
	Asides []aside
	Script bool // brings the script that takes a code from the address

	account bool // belongs to the account, and has its navigation
}

// aside is a question below a form, and the link that answers it.
type aside struct {
	Text string
	Link ui.Link
}

func (s *site) show(f form) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		page, err := f.build(r)
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		s.render(w, r, http.StatusOK, page)
	}
}

// submit carries a form out and leads on, or shows it again with what is wrong
// and what was typed.
func (s *site) submit(f form) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		posted, page, ok := s.posted(w, r, f)
		if !ok {
			return
		}
		d, err := f.submit(w, r, posted)
		if err != nil {
			s.showAgain(w, r, page, posted, err)
			return
		}
		ui.LeaveNotice(w, r, d.operation)
		ui.Redirect(w, r, d.next)
	}
}

// posted returns what was typed into a form, and the page to show it on again, or
// refuses the post.
func (s *site) posted(w http.ResponseWriter, r *http.Request, f form) (posted ui.Posted, page formPage, ok bool) {
	posted, err := ui.ReadForm(w, r)
	if err != nil {
		s.refuse(w, r, unreadable(err))
		return posted, page, false
	}
	if page, err = f.build(r); err != nil {
		s.refuse(w, r, err)
		return posted, page, false
	}
	return posted, page, true
}

// unreadable is the error of a form that cannot be read. Its cause may quote a
// password, so it ends here.
func unreadable(err error) error {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return personal.NewError(personal.CodeTooLarge, nil)
	}
	return personal.NewError(personal.CodeMalformedRequest, nil)
}

func (s *site) showAgain(w http.ResponseWriter, r *http.Request, page formPage, posted ui.Posted, err error) {
	if page.account && personal.CodeOf(err) == personal.CodeUnauthenticated {
		s.refuse(w, r, err)
		return
	}
	x := s.api.Explain(r, err)
	faults := make(map[string]string, len(x.Fields))
	for name, fault := range x.Fields {
		faults[name] = fault.Message
	}
	page.Form.Fill(posted)
	page.Form.Refuse(strings.TrimSpace(x.Message+" "+s.wait(r, x)), faults)
	tellWhen(w, x)
	s.render(w, r, x.Status, page)
}

// wait says in words when trying again may help; empty if it would not.
func (s *site) wait(r *http.Request, x personalhttp.Explanation) string {
	switch {
	case x.RetryAfter <= 0:
		return ""
	case x.RetryAfter < 120:
		return s.pages.Text(r, "wait_seconds", x.RetryAfter)
	}
	return s.pages.Text(r, "wait_minutes", (x.RetryAfter+59)/60)
}

// tellWhen says when trying again may help.
func tellWhen(w http.ResponseWriter, x personalhttp.Explanation) {
	if x.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(x.RetryAfter, 10))
	}
}

func (s *site) render(w http.ResponseWriter, r *http.Request, status int, page formPage) {
	p := s.page(w, r)
	if page.account {
		p.SubNav = s.accountNav(r)
	}
	p.Body = page
	s.pages.Render(w, r, status, "form", p)
}
