package ui

import (
	"net/http"
	"strings"
)

// Page is what a page shows.
type Page struct {
	Nav    []Link // of the site
	SubNav []Link // of the part that the page belongs to; may be empty
	Notice string // what just succeeded; may be empty
	Wide   bool   // as wide as a table needs
	Live   bool   // brings htmx, for parts that change while they are looked at
	Body   any    // what the page's own templates get
}

// Link is an entry of a navigation.
type Link struct {
	Text string
	Path string
	Post bool // a button that posts, for what changes something
}

// laidOut is what the layout gets.
type laidOut struct {
	Page
	Path string // of the page, with its query: where a change of language leads
	at   string
}

func (p *Pages) laidOut(r *http.Request, page Page) laidOut {
	return laidOut{Page: page, Path: r.URL.RequestURI(), at: r.URL.Path}
}

// Here reports whether a link leads to the page on show.
func (l laidOut) Here(link Link) bool { return link.Path == l.at }

// Within reports whether the page on show lies under a link.
func (l laidOut) Within(link Link) bool {
	return link.Path == l.at || link.Path != "/" && strings.HasPrefix(l.at, link.Path+"/")
}

// Problem is an error shown as a page. What is empty is said in general terms.
type Problem struct {
	Status  int
	Message string
	Retry   bool // trying again may help
	Nav     []Link
}

// problemBody is the page of a problem.
type problemBody struct {
	Title, Message string
	Retry          string // where trying again leads; may be empty
}

// Problem answers with an error page.
func (p *Pages) Problem(w http.ResponseWriter, r *http.Request, problem Problem) {
	body := problemBody{Title: p.Text(r, problemTitle(problem.Status)), Message: problem.Message}
	if problem.Retry && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		body.Retry = r.URL.RequestURI()
	}
	var b strings.Builder
	page := p.laidOut(r, Page{Nav: problem.Nav, Body: body})
	if err := p.language(r).templates["problem"].ExecuteTemplate(&b, "layout", page); err != nil {
		p.log.ErrorContext(r.Context(), "drawing an error page", "error", err)
		http.Error(w, http.StatusText(problem.Status), problem.Status)
		return
	}
	write(w, problem.Status, []byte(b.String()))
}

// problemTitle returns the key of what a status means to a visitor.
func problemTitle(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "problem_unauthorized"
	case http.StatusForbidden:
		return "problem_forbidden"
	case http.StatusNotFound:
		return "problem_not_found"
	case http.StatusMethodNotAllowed:
		return "problem_method"
	case http.StatusServiceUnavailable:
		return "problem_unavailable"
	case http.StatusTooManyRequests:
		return "problem_too_many"
	}
	if status >= http.StatusInternalServerError {
		return "problem_internal"
	}
	return "problem_request"
}
