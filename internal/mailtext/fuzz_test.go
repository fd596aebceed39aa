package mailtext

import (
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/text/language"
)

// FuzzTemplate loads any content under any name: loading does not panic, an error names
// the file, and a valid template writes every sample.
func FuzzTemplate(f *testing.F) {
	for _, name := range []string{"recovery.de.txt", "recovery.de.html", "session_theft.pt-BR.html", "recovery.zh_tw.txt", "x"} {
		for _, content := range []string{
			"Subject: {{.Token}}\n\n{{if .Link}}{{.Link}}{{else}}{{.Token}}{{end}}", "Subject: a\n{{with .Address}}{{.}}{{end}}{{.Time}}", "Subject: {{.Site}}:\n\n<Open>:\n{{.Link}}\n\n{{.Token}}\n\n{{.Link}}",
			"<a href=\"{{.Link}}\" onclick='{{.Token}}'>{{.Minutes}}</a><script>var a = {{.Token}};</script>", "Subject: {{range 9}}{{end}}",
			"{{define \"recovery.de.txt\"}}{{end}}", "Subject: {{$x := .Hours}}\n{{$x = .Token}}{{($x).Y}}{{break}}", "Subject: \xff\r\n\u2029{{/* */}}",
		} {
			f.Add(name, content)
		}
	}
	f.Fuzz(func(t *testing.T, name, content string) {
		if strings.Trim(name, ".") == "" || strings.Contains(name, "/") {
			return
		}
		layout := newLayout()
		mails, invalid, problems := parseFolder(fstest.MapFS{name: {Data: []byte(content)}}, true)
		for _, p := range problems {
			if !strings.HasPrefix(p.Error(), name+":") {
				t.Errorf("got error %v, want it to begin with %s:", p, name)
			}
		}
		for id, m := range mails {
			if invalid[id] {
				t.Errorf("%s is both valid and invalid", id)
			}
			for _, l := range samples() {
				if m.text == nil { // of the same language, which is checked elsewhere
					if _, err := execute(m.html, l); err != nil {
						t.Error(err)
					}
					continue
				}
				subject, text, page, err := m.write(layout, language.German, l)
				if err != nil || strings.ContainsAny(subject, "\r\n") || subject == "" || text == "" || page == "" {
					t.Errorf("got subject %q, text %q, HTML %q (%v)", subject, text, page, err)
				}
			}
		}
	})
}
