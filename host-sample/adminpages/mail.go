package adminpages

import (
	"errors"
	"net/http"
	"net/url"
	"regexp"

	"github.com/cms-personal/personal/host-sample/mailbox"
	"github.com/cms-personal/personal/host-sample/ui"
)

const (
	mailPath  = "/admin/mail"
	mailsShow = 25 // mails on a page
)

func (s *site) mailRoutes() {
	s.private("GET "+mailPath, s.listMails)
	if s.Mails == nil {
		return
	}
	s.private("POST "+mailPath+"/delete", s.deleteMail)
	s.private("POST "+mailPath+"/clear", s.clearMails)
	s.private("GET "+mailPath+"/message/{name}", s.showMail)
	s.private("GET "+mailPath+"/message/{name}/html", s.showMailHTML)
	s.private("GET "+mailPath+"/message/{name}/source", s.sendMailSource)
}

// mailsBody is the page that lists mails.
type mailsBody struct {
	Relay bool // mails are sent, not kept
	Mails []mailbox.Mail
	First bool   // it is the first page
	Older string // the next page; empty if there is none
}

func (s *site) listMails(w http.ResponseWriter, r *http.Request) {
	if s.Mails == nil {
		s.render(w, r, http.StatusOK, "mails", ui.Page{Body: mailsBody{Relay: true}})
		return
	}
	before := r.URL.Query().Get("before")
	page, err := s.Mails.List(before, mailsShow)
	if err != nil {
		s.fail(w, r, "reading the mailbox", err)
		return
	}
	body := mailsBody{Mails: page.Mails, First: before == ""}
	if page.Next != "" {
		body.Older = mailPath + "?" + url.Values{"before": {page.Next}}.Encode()
	}
	s.render(w, r, http.StatusOK, "mails", ui.Page{Notice: s.notice(w, r, "mail_deleted", "mail_cleared"), Body: body})
}

// mailBody is the page of one mail.
type mailBody struct {
	mailbox.Mail
	Text []run
}

// run is a piece of a text: a link if it is an address.
type run struct{ Text, Link string }

var webAddress = regexp.MustCompile(`https?://[^\s<>"]+`)

// runs makes what looks like an address of the web a link.
func runs(text string) []run {
	var all []run
	end := 0
	for _, found := range webAddress.FindAllStringIndex(text, -1) {
		address := text[found[0]:found[1]]
		all = append(all, run{Text: text[end:found[0]]}, run{Text: address, Link: address})
		end = found[1]
	}
	return append(all, run{Text: text[end:]})
}

func (s *site) showMail(w http.ResponseWriter, r *http.Request) {
	m, ok := s.mail(w, r)
	if !ok {
		return
	}
	// The mail's HTML stands in a frame, of this site alone.
	header := w.Header()
	header.Set("Content-Security-Policy", header.Get("Content-Security-Policy")+"; frame-src 'self'")
	s.render(w, r, http.StatusOK, "mail", ui.Page{Body: mailBody{Mail: m, Text: runs(m.Text)}})
}

// mail reads the mail that a request names, or answers that there is none.
func (s *site) mail(w http.ResponseWriter, r *http.Request) (mailbox.Mail, bool) {
	m, err := s.Mails.Read(r.PathValue("name"))
	if err != nil {
		s.noMail(w, r, err)
		return mailbox.Mail{}, false
	}
	return m, true
}

func (s *site) noMail(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, mailbox.ErrNotFound) {
		s.problem(w, r, ui.Problem{Status: http.StatusNotFound, Message: s.pages.Text(r, "mail_unknown")})
		return
	}
	s.fail(w, r, "reading a mail", err)
}

// mailPolicy lets a mail's HTML do nothing: no script, style, picture or link,
// and no origin. Only the page of the mail may show it.
const mailPolicy = "sandbox; default-src 'none'; form-action 'none'; base-uri 'none'; frame-ancestors 'self'"

func (s *site) showMailHTML(w http.ResponseWriter, r *http.Request) {
	m, ok := s.mail(w, r)
	if !ok {
		return
	}
	header := w.Header()
	header.Set("Content-Security-Policy", mailPolicy)
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	_, _ = w.Write([]byte(m.HTML)) // an error means that nobody listens any more
}

// sendMailSource sends a mail as it was kept, for a mail program to open.
func (s *site) sendMailSource(w http.ResponseWriter, r *http.Request) {
	source, err := s.Mails.Source(r.PathValue("name"))
	if err != nil {
		s.noMail(w, r, err)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "message/rfc822")
	header.Set("Content-Disposition", `attachment; filename="mail.eml"`)
	header.Set("Cache-Control", "no-store")
	_, _ = w.Write(source) // an error means that nobody listens any more
}

func (s *site) deleteMail(w http.ResponseWriter, r *http.Request) {
	posted, ok := s.posted(w, r)
	if !ok {
		return
	}
	if err := s.Mails.Delete(posted.Get("name")); err != nil {
		s.noMail(w, r, err)
		return
	}
	ui.LeaveNotice(w, r, "mail_deleted")
	ui.Redirect(w, r, mailPath)
}

// clearMails deletes what the administrator has seen, and nothing newer.
func (s *site) clearMails(w http.ResponseWriter, r *http.Request) {
	posted, ok := s.posted(w, r)
	if !ok {
		return
	}
	if err := s.Mails.Clear(posted.Get("newest")); err != nil {
		s.fail(w, r, "deleting the mails", err)
		return
	}
	ui.LeaveNotice(w, r, "mail_cleared")
	ui.Redirect(w, r, mailPath)
}
