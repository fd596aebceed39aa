package accounts

import (
	"strings"
	"testing"
)

func TestMailTemplate_UsesTheCallersLanguage(t *testing.T) {
	for _, template := range []mailTemplate{recoveryMail, emailChangeMail, emailNoticeMail} {
		for locale, russian := range map[string]bool{"en": false, "ru": true, "ru-RU": true, "de": false, "": false, "none of these": false} {
			m, err := template.write(locale, letter{Token: "TOKEN", Link: "https://cms.example/#TOKEN", Minutes: 30})
			if err != nil {
				t.Fatalf("%s in %q: %v", template, locale, err)
			}
			if got := strings.ContainsAny(m.Subject, "абвгдеопн"); got != russian {
				t.Errorf("%s in %q: got subject %q, want Russian: %t", template, locale, m.Subject, russian)
			}
			if strings.Contains(m.Subject, "\n") || m.Text == "" || !strings.Contains(m.HTML, "<p>") {
				t.Errorf("%s in %q: got %+v, want a subject, a text and an HTML form", template, locale, m)
			}
		}
	}
}

func TestMailTemplate_TokenHasItsOwnLine(t *testing.T) {
	for _, template := range []mailTemplate{recoveryMail, emailChangeMail} {
		for _, locale := range []string{"en", "ru"} {
			for _, link := range []string{"", "https://cms.example/recover#token=TOKEN"} {
				m, err := template.write(locale, letter{Token: "TOKEN", Link: link, Minutes: 30})
				if err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(m.Text, "\n\nTOKEN\n\n") {
					t.Errorf("%s in %s: got no line with only the token:\n%s", template, locale, m.Text)
				}
				if or := strings.Contains(m.Text+m.HTML, "Or ") || strings.Contains(m.Text+m.HTML, "Или "); or != (link != "") {
					t.Errorf("%s in %s, link %q: got the word for \"or\": %t", template, locale, link, or)
				}
				if has := strings.Contains(m.Text, "https://") && strings.Contains(m.HTML, `<a href="https://cms.example/recover#token=TOKEN">`); has != (link != "") {
					t.Errorf("%s in %s, link %q:\n%s", template, locale, link, m.HTML)
				}
			}
		}
	}
}
