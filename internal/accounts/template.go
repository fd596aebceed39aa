package accounts

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"strings"
	"sync"
	texttemplate "text/template"

	"golang.org/x/text/language"

	"github.com/cms-personal/personal/shared/personal"
)

// Each mail has a text and an HTML form in each language. The first line of the
// text form is the subject.
//
//go:embed mails
var mailFiles embed.FS

// mailTemplate names a mail.
type mailTemplate string

// The mails that the module sends.
const (
	recoveryMail    mailTemplate = "recovery"
	emailChangeMail mailTemplate = "email_change"
	emailNoticeMail mailTemplate = "email_notice"
)

// letter is all that a mail may say: nothing that a user typed.
type letter struct {
	Token   string
	Link    string // "" for none
	Minutes int    // that the token is good for, rounded down
}

// mailLocales are the languages there are; the first serves whoever speaks none.
var mailLocales = []language.Tag{language.English, language.Russian}

// mailSet holds the parsed templates; they are parsed once, when first needed.
var mailSet = sync.OnceValues(func() (set struct {
	text *texttemplate.Template
	html *template.Template
}, err error) {
	if set.text, err = texttemplate.ParseFS(mailFiles, "mails/*.txt"); err != nil {
		return set, err
	}
	set.html, err = template.ParseFS(mailFiles, "mails/*.html")
	return set, err
})

// write fills the mail in the language that fits the locale best.
func (m mailTemplate) write(locale string, l letter) (personal.Mail, error) {
	set, err := mailSet()
	if err != nil {
		return personal.Mail{}, fmt.Errorf("reading mail templates: %w", err)
	}
	_, index := language.MatchStrings(language.NewMatcher(mailLocales), locale)
	name := string(m) + "." + mailLocales[index].String()
	var text, html bytes.Buffer
	if err := set.text.ExecuteTemplate(&text, name+".txt", l); err != nil {
		return personal.Mail{}, fmt.Errorf("writing mail %s: %w", name, err)
	}
	if err := set.html.ExecuteTemplate(&html, name+".html", l); err != nil {
		return personal.Mail{}, fmt.Errorf("writing mail %s: %w", name, err)
	}
	subject, body, _ := strings.Cut(text.String(), "\n")
	return personal.Mail{Subject: subject, Text: strings.TrimLeft(body, "\n"), HTML: html.String()}, nil
}
