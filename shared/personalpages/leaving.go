package personalpages

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalweb"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

// leavingPages are the pages to take one's data along, to delete the account, and to
// undo that.
type leavingPages struct{ *site }

func (p leavingPages) route(mux *http.ServeMux) {
	p.provenForm(mux, dataPath, form{build: p.exportForm, submit: p.export})
	p.provenForm(mux, deletePath, form{build: p.deleteForm, submit: p.delete})
	p.publicForm(mux, undoPath, form{build: p.undoForm, submit: p.undo})
}

func (p leavingPages) exportForm(r *http.Request) (formPage, error) {
	return formPage{
		Title: p.text(r, "data"),
		Lead:  p.text(r, "data_lead"),
		Form: ui.Form{
			Action: dataPath, Submit: p.text(r, "data_button"), User: profileOf(r).Login, File: true,
			Controls: p.withCode(r, p.currentPassword(r, "password")...),
		},
	}, nil
}

// export sends what is kept about the user as a file.
func (p leavingPages) export(w http.ResponseWriter, r *http.Request, posted ui.Posted) (done, error) {
	kept, err := p.Service.Export(r.Context(), personal.ExportRequest{
		Credentials: p.credentials(r), Password: posted.Get("password"), Code: posted.Get("code"), Proof: p.proofOf(r),
	})
	if err != nil {
		return done{}, err
	}
	encoded, err := personalhttp.EncodeExport(kept)
	if err != nil {
		return done{}, err
	}
	var file bytes.Buffer
	if err := json.Indent(&file, encoded, "", "  "); err != nil {
		return done{}, fmt.Errorf("indenting an export: %w", err)
	}
	header := w.Header()
	header.Set("Content-Type", "application/json; charset=utf-8")
	header.Set("Content-Disposition", `attachment; filename="account.json"`)
	header.Set("Cache-Control", "no-store")
	_, _ = w.Write(file.Bytes()) // an error means that the client is gone
	return done{}, nil
}

// deletion says what happens to an account that its user deletes, and when.
func (s *site) deletion(r *http.Request, user personal.Profile) string {
	when := s.text(r, "erased_later")
	if grace := s.features(r).DeletionGrace; grace > 0 {
		when = s.text(r, "erased_on", s.pages.Date(r, time.Now().Add(grace)))
	}
	if user.Email == "" {
		return s.text(r, "delete_lead_no_email", when)
	}
	return s.text(r, "delete_lead", when, user.Email)
}

func (p leavingPages) deleteForm(r *http.Request) (formPage, error) {
	user := profileOf(r)
	return formPage{
		Title: p.text(r, "delete"),
		Lead:  p.deletion(r, user),
		Form: ui.Form{
			Action: deletePath, Submit: p.text(r, "delete_button"), User: user.Login, Danger: true,
			Controls: p.withCode(r, p.currentPassword(r, "password")...),
		},
		Asides: []aside{p.aside(r, "data_question", "data_link", dataPath)},
	}, nil
}

// delete signs out: every session of the account has ended. The notice on the next page
// says so: a page with an address could be linked to, and would scare any visitor.
func (p leavingPages) delete(w http.ResponseWriter, r *http.Request, posted ui.Posted) (done, error) {
	_, err := p.Service.Delete(r.Context(), personal.DeleteRequest{
		Credentials: p.credentials(r), Password: posted.Get("password"), Code: posted.Get("code"), Proof: p.proofOf(r),
	})
	if err != nil {
		return done{}, err
	}
	p.session.Clear(w, r)
	personalweb.ForgetProof(p.API, w, r)
	p.forgetWaiting(w, r)
	return done{operation: "delete", next: p.Home}, nil
}

// undoForm is the page that mails about a deletion link to. Opening it changes nothing,
// because mail scanners open links too.
func (p leavingPages) undoForm(r *http.Request) (formPage, error) {
	return formPage{
		Title:    p.text(r, "undo"),
		BadToken: p.text(r, "undo_invalid"),
		Lead:     p.text(r, "undo_lead"),
		Script:   true,
		Form: ui.Form{
			Action: undoPath, Submit: p.text(r, "undo_button"),
			Controls: []ui.Control{p.tokenControl(r)},
		},
	}, nil
}

func (p leavingPages) undo(_ http.ResponseWriter, r *http.Request, posted ui.Posted) (done, error) {
	_, err := p.Service.UndoDelete(r.Context(), personal.UndoDeleteRequest{Token: posted.Get("token")})
	return done{operation: "delete_undo", next: SignInPath}, err
}
