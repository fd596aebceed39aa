package mailtext_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/mailtext"
)

// folder returns a folder with files: names and contents in turn.
func folder(t testing.TB, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for pair := range slices.Chunk(files, 2) {
		if err := os.WriteFile(filepath.Join(dir, pair[0]), []byte(pair[1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func load(t testing.TB, dir string) *mailtext.Set {
	t.Helper()
	set, err := mailtext.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestBuiltIn_EveryKindIsCompleteInEachLanguage(t *testing.T) {
	set := load(t, "")
	for _, d := range mailtext.Descriptions() {
		for locale, russian := range map[string]bool{"en": false, "ru": true, "ru-RU": true, "de": false, "": false, "none of these": false} {
			l := mailtext.Sample()
			subject, text, html, err := set.Write(d.Kind, locale, l)
			if err != nil {
				t.Fatalf("%s in %q: %v", d.Kind, locale, err)
			}
			for part, content := range map[string]string{"subject": subject, "text": text, "HTML": html} {
				if got := strings.ContainsAny(content, "абвгдеопн"); got != russian {
					t.Errorf("%s in %q: got %s in Russian: %t, want %t:\n%s", d.Kind, locale, part, got, russian, content)
				}
			}
			if !strings.Contains(html, "<title>"+subject+"</title>") {
				t.Errorf("%s in %q: got HTML without the subject %q as its title:\n%s", d.Kind, locale, subject, html)
			}
			values := map[mailtext.Field]string{
				mailtext.Token: l.Token, mailtext.Link: l.Link, mailtext.Hours: "24",
				mailtext.Time: "2026-03-31 14:05 UTC", mailtext.Address: "203.0.113.7", mailtext.EraseAt: "2026-04-07 14:05 UTC",
			}
			for field, value := range values {
				want := slices.Contains(d.Fields, field)
				if strings.Contains(text, value) != want || strings.Contains(html, value) != want {
					t.Errorf("%s in %q: want .%s in text and HTML: %t:\n%s\n%s", d.Kind, locale, field, want, text, html)
				}
			}
		}
	}
}

func TestBuiltIn_TokenHasItsOwnLine(t *testing.T) {
	set := load(t, "")
	for _, d := range mailtext.Descriptions() {
		if !slices.Contains(d.Fields, mailtext.Token) {
			continue
		}
		for _, locale := range []string{"en", "ru"} {
			for _, link := range []string{"", "https://cms.example/recover#token=TOKEN"} {
				l := mailtext.Sample()
				l.Token, l.Link = "TOKEN", link
				_, text, html, err := set.Write(d.Kind, locale, l)
				if err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(text, "\n\nTOKEN\n\n") {
					t.Errorf("%s in %s: got no line with only the token:\n%s", d.Kind, locale, text)
				}
				if or := strings.Contains(text+html, "Or ") || strings.Contains(text+html, "Или "); or != (link != "") {
					t.Errorf("%s in %s, link %q: got the word for \"or\": %t", d.Kind, locale, link, or)
				}
				if has := strings.Contains(text, "\n\n"+link+"\n\n") && strings.Contains(html, `<a href="`+link+`">`); has != (link != "") {
					t.Errorf("%s in %s, link %q:\n%s", d.Kind, locale, link, html)
				}
			}
		}
	}
}

func TestBuiltIn_LifetimeIsShownInItsUnit(t *testing.T) {
	set := load(t, "")
	for lifetime, want := range map[time.Duration]string{
		72 * time.Hour: "valid for 72 hours", 2 * time.Hour: "valid for 2 hours", 119 * time.Minute: "valid for 119 minutes",
		2 * time.Minute: "valid for 2 minutes", 119 * time.Second: "valid for at most one minute", time.Second: "valid for at most one minute",
	} {
		_, text, html, err := set.Write(mailtext.Verification, "en", mailtext.Letter{Token: "T", Lifetime: lifetime})
		if err != nil || !strings.Contains(text, want) || !strings.Contains(html, want) {
			t.Errorf("%v: got %s\n%s (%v), want %q", lifetime, text, html, err, want)
		}
	}
}

func TestLoad_TakesTheBuiltInFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, mailtext.BuiltInFiles()); err != nil {
		t.Fatal(err)
	}
	files, err := fs.Glob(mailtext.BuiltInFiles(), "*")
	if want := 4 * len(mailtext.Descriptions()); err != nil || len(files) != want {
		t.Errorf("got %d built-in files (%v), want %d: text and HTML in two languages for each kind", len(files), err, want)
	}
	load(t, dir)
}
