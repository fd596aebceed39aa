package rehearsal

import (
	"fmt"
	"strings"

	"github.com/cms-personal/personal/internal/mailtext"
)

// mails writes every mail in every language: those of the rehearsal, and samples of the kinds
// that it has not caused.
func (r *run) mails(c *check) {
	for _, d := range mailtext.Descriptions() {
		sample := mailtext.Sample()
		sample.Site = r.Settings.Site
		letters := []mailtext.Letter{sample}
		for _, m := range r.sink.mails {
			if m.kind == d.Kind {
				letters = append(letters, m.letter)
			}
		}
		for _, locale := range r.Mails.Locales(d.Kind) {
			c.protect(func() { r.write(c, d, locale, letters) })
		}
	}
}

// write writes the letters of a kind in one language.
func (r *run) write(c *check, d mailtext.Description, locale string, letters []mailtext.Letter) {
	op, field := d.Cause, string(d.Kind)+"."+locale
	panicked := true
	defer func() {
		if panicked {
			c.fail(op, field, fmt.Sprintf("writing the mail %s panics", field))
		}
	}()
	for _, l := range letters {
		c.Count++
		subject, text, html, err := r.Mails.Write(d.Kind, locale, l)
		switch {
		case err != nil:
			c.fail(op, field, fmt.Sprintf("the template of the mail %s fails", field))
		case subject == "" || text == "" || html == "":
			c.fail(op, field, fmt.Sprintf("the mail %s is incomplete", field))
		case l.Token != "" && d.Has(mailtext.Token) && (!strings.Contains(text, l.Token) || !strings.Contains(html, l.Token)):
			c.fail(op, field, fmt.Sprintf("the mail %s lacks its code", field))
		}
	}
	panicked = false
}
