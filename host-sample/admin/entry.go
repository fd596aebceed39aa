package admin

import (
	"embed"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/cms-personal/personal/shared/personaladmin"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalpages"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

//go:embed templates texts assets
var files embed.FS

// Paths of the entry.
const (
	EnterPath = personaladmin.Path + "/enter"
	LeavePath = personaladmin.Path + "/leave"
)

// command is what prints a link.
const command = "host-sample admin-link"

// EntryOptions configure [NewEntry].
type EntryOptions struct {
	Guard *Guard
	API   *personalhttp.Handler
	Log   *slog.Logger
}

// Entry has the pages on which administrators sign in and out.
type Entry struct {
	http.Handler // of EnterPath and LeavePath
	pages        *ui.Pages
	guard        *Guard
}

// NewEntry returns the pages.
func NewEntry(o EntryOptions) (*Entry, error) {
	pages, err := ui.New(ui.Options{
		Templates: ui.Folder(files, "templates"), Texts: ui.Folder(files, "texts"), Assets: ui.Folder(files, "assets"),
		AssetPath: EnterPath + "/assets/", LanguagePath: personalpages.LanguagePath,
		API: o.API, Cookies: []string{cookieName}, Foreign: o.Guard.foreignPost, Log: o.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("entry of administrators: %w", err)
	}
	e := &Entry{pages: pages, guard: o.Guard}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+EnterPath, e.showLink)
	mux.HandleFunc("POST "+EnterPath, e.signIn)
	mux.Handle("POST "+LeavePath, o.Guard.require(http.HandlerFunc(e.signOut), http.HandlerFunc(e.Refuse)))
	e.Handler = pages.Handler(mux)
	return e, nil
}

// showLink shows the page that a sign-in link leads to. A script takes the code from the link's
// fragment, which no server gets.
func (e *Entry) showLink(w http.ResponseWriter, r *http.Request) {
	e.pages.Render(w, r, http.StatusOK, "enter", ui.Page{Body: struct{ Action string }{EnterPath}})
}

func (e *Entry) signIn(w http.ResponseWriter, r *http.Request) {
	posted, err := ui.ReadForm(w, r)
	if err != nil || !e.guard.signIn(w, r, posted.Get("code")) {
		e.refuse(w, r, http.StatusForbidden, "enter_refused")
		return
	}
	ui.Redirect(w, r, personaladmin.Path)
}

func (e *Entry) signOut(w http.ResponseWriter, r *http.Request) {
	e.guard.signOut(w, r)
	ui.Redirect(w, r, "/")
}

// Refuse tells a caller without a session how to sign in.
func (e *Entry) Refuse(w http.ResponseWriter, r *http.Request) {
	e.refuse(w, r, http.StatusUnauthorized, "not_signed_in")
}

func (e *Entry) refuse(w http.ResponseWriter, r *http.Request, status int, reason string) {
	e.pages.Render(w, r, status, "refused", ui.Page{Body: struct{ Reason, Command string }{e.pages.Text(r, reason), command}})
}

// Admit is a [personaladmin.Config].Guard.
func (e *Entry) Admit(r *http.Request) (name string, err error) { return e.guard.Admit(r) }

// Nav returns the link to sign out.
func (e *Entry) Nav(r *http.Request) []ui.Link {
	return []ui.Link{{Text: e.pages.Text(r, "nav_leave"), Path: LeavePath, Post: true}}
}
