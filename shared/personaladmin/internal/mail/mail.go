// Package mail has the admin pages of the mails that a host stores instead of sending.
package mail

import (
	"errors"
	"net/http"
	"regexp"
	"strings"

	"github.com/cms-personal/personal/shared/personaladmin/internal/frame"
	"github.com/cms-personal/personal/shared/personaladmin/internal/mailbox"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

const (
	listPath = frame.Path + "/mail"
	pageSize = 25 // mails on a page
)

// Pages are the pages of the mailbox.
type Pages struct {
	Box mailbox.Box // empty: mails are sent, not stored

	site *frame.Site
}

// Name implements [frame.Section].
func (p *Pages) Name() string { return "mail" }

// Register implements [frame.Section].
func (p *Pages) Register(s *frame.Site) {
	p.site = s
	if p.Box == "" {
		s.Handle("GET "+listPath, p.showRelay)
		return
	}
	s.Handle("GET "+listPath, p.list)
	s.HandleForm("POST "+listPath+"/delete", ui.ReadForm, p.delete)
	s.HandleForm("POST "+listPath+"/clear", ui.ReadForm, p.clear)
	s.Handle("GET "+listPath+"/message/{name}", p.show)
	s.Handle("GET "+listPath+"/message/{name}/html", p.sendHTML)
	s.Handle("GET "+listPath+"/message/{name}/source", p.sendSource)
}

// listBody is the body of the list page.
type listBody struct {
	Relay bool // mails are sent, not stored
	Mails []mailbox.Mail
	First bool   // this is the first page
	Older string // URL of the next page; empty on the last one
}

func (p *Pages) showRelay(w http.ResponseWriter, r *http.Request) error {
	return p.site.Render(w, r, http.StatusOK, "mails", ui.Page{Body: listBody{Relay: true}})
}

func (p *Pages) list(w http.ResponseWriter, r *http.Request) error {
	before := r.URL.Query().Get("before")
	page, err := p.Box.List(before, pageSize)
	if err != nil {
		return err
	}
	body := listBody{Mails: page.Mails, First: before == ""}
	if page.Next != "" {
		body.Older = frame.URL(listPath, "before", page.Next)
	}
	return p.site.Render(w, r, http.StatusOK, "mails", ui.Page{Notice: p.site.Notice(w, r, "mail_deleted", "mail_cleared"), Body: body})
}

// mailBody is the body of the page of one mail.
type mailBody struct {
	mailbox.Mail
	Text []segment
}

// segment is a piece of a text; Link is set if the piece is a URL.
type segment struct{ Text, Link string }

var webAddress = regexp.MustCompile(`https?://[^\s<>"]+`)

// linkify splits a text so that its http and https URLs can be shown as links.
func linkify(text string) []segment {
	var segments []segment
	end := 0
	for _, found := range webAddress.FindAllStringIndex(text, -1) {
		address := text[found[0]:found[1]]
		segments = append(segments, segment{Text: text[end:found[0]]}, segment{Text: address, Link: address})
		end = found[1]
	}
	return append(segments, segment{Text: text[end:]})
}

func (p *Pages) show(w http.ResponseWriter, r *http.Request) error {
	m, err := p.Box.Read(r.PathValue("name"))
	if err != nil {
		return p.pageError(r, err)
	}
	// The page shows the mail's HTML in a frame, which comes from this site.
	if policies := w.Header().Values("Content-Security-Policy"); len(policies) > 0 && strings.HasPrefix(policies[0], "default-src ") {
		policies[0] += "; frame-src 'self'"
	}
	return p.site.Render(w, r, http.StatusOK, "mail", ui.Page{Body: mailBody{Mail: m, Text: linkify(m.Text)}})
}

// pageError returns the error page of an operation on one mail.
func (p *Pages) pageError(r *http.Request, err error) error {
	if errors.Is(err, mailbox.ErrNotFound) {
		return p.site.PageError(r, http.StatusNotFound, "mail_unknown")
	}
	return err
}

// htmlPolicy gives a mail's HTML no scripts, pictures, links or origin, and nothing from
// elsewhere. Only the page of the mail may frame it. Styles are part of the mail.
const htmlPolicy = "sandbox; default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'; frame-ancestors 'self'"

func (p *Pages) sendHTML(w http.ResponseWriter, r *http.Request) error {
	m, err := p.Box.Read(r.PathValue("name"))
	if err != nil {
		return p.pageError(r, err)
	}
	w.Header().Set("Content-Security-Policy", htmlPolicy)
	return send(w, "text/html; charset=utf-8", []byte(m.HTML))
}

// sendSource sends a mail as it is stored, for a mail program to open.
func (p *Pages) sendSource(w http.ResponseWriter, r *http.Request) error {
	source, err := p.Box.Source(r.PathValue("name"))
	if err != nil {
		return p.pageError(r, err)
	}
	w.Header().Set("Content-Disposition", `attachment; filename="mail.eml"`)
	return send(w, "message/rfc822", source)
}

func send(w http.ResponseWriter, contentType string, data []byte) error {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(data) // an error means that the browser has gone
	return nil
}

func (p *Pages) delete(w http.ResponseWriter, r *http.Request, posted ui.Posted) error {
	if err := p.Box.Delete(posted.Get("name")); err != nil {
		return p.pageError(r, err)
	}
	return p.site.Redirect(w, r, listPath, "mail_deleted")
}

// clear deletes the mails that the administrator has seen listed, and no newer ones.
func (p *Pages) clear(w http.ResponseWriter, r *http.Request, posted ui.Posted) error {
	if err := p.Box.Clear(posted.Get("newest")); err != nil {
		return err
	}
	return p.site.Redirect(w, r, listPath, "mail_cleared")
}
