package mailtext_test

import (
	"html"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/shared/personal"
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

func load(t testing.TB, dir string, locales ...string) *mailtext.Set {
	t.Helper()
	set, err := mailtext.Load(dir, locales...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// unspanned returns HTML without the elements that keep words on one line.
func unspanned(page string) string {
	return regexp.MustCompile(`<span style="white-space: nowrap;">([^<]*)</span>`).ReplaceAllString(page, "$1")
}

func TestBuiltIn_EveryKindIsCompleteInEachLanguage(t *testing.T) {
	set := load(t, "", personal.Languages()...)
	readers := map[string]string{"ru-RU": "ru", "de-AT": "de", "pt-PT": "pt-BR", "": "en", "none of these": "en"}
	for _, locale := range personal.Languages() {
		readers[locale] = locale
	}
	for _, d := range mailtext.Descriptions() {
		for locale, written := range readers {
			l := mailtext.Sample()
			l.Lifetime = 47 * time.Hour // a number that the layout does not contain
			subject, text, html, err := set.Write(d.Kind, locale, l)
			if err != nil {
				t.Fatalf("%s in %q: %v", d.Kind, locale, err)
			}
			for part, content := range map[string]string{"subject": subject, "text": text, "HTML": html} {
				cyrillic := written == "ru" || written == "uk"
				if got := strings.ContainsAny(content, "абвгдеопн"); got != cyrillic {
					t.Errorf("%s in %q: got %s in Cyrillic letters: %t, want %t:\n%s", d.Kind, locale, part, got, cyrillic, content)
				}
			}
			if !strings.Contains(html, `<html lang="`+written+`">`) {
				t.Errorf("%s in %q: want it in %s:\n%s", d.Kind, locale, written, html)
			}
			if !strings.Contains(html, "<title>"+subject+"</title>") {
				t.Errorf("%s in %q: got HTML without the subject %q as its title:\n%s", d.Kind, locale, subject, html)
			}
			values := map[mailtext.Field]string{
				mailtext.Site: l.Site, mailtext.Token: l.Token, mailtext.Link: l.Link, mailtext.Hours: "47",
				mailtext.Time: "2026-03-31 14:05 UTC", mailtext.Address: "203.0.113.7", mailtext.EraseAt: "2026-04-07 14:05 UTC",
			}
			for field, value := range values {
				want := slices.Contains(d.Fields, field)
				if strings.Contains(text, value) != want || strings.Contains(unspanned(html), value) != want {
					t.Errorf("%s in %q: want .%s in text and HTML: %t:\n%s\n%s", d.Kind, locale, field, want, text, html)
				}
			}
		}
	}
}

// A token is not for typing: the link comes first, and the token is a long code to copy.
func TestBuiltIn_TokenHasItsOwnLine(t *testing.T) {
	set := load(t, "", personal.Languages()...)
	for _, d := range mailtext.Descriptions() {
		if !slices.Contains(d.Fields, mailtext.Token) {
			continue
		}
		for _, locale := range personal.Languages() {
			toCopy := map[string]string{"en": "copy this long code,", "ru": "скопируйте этот длинный код "}[locale]
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
				before, _, _ := strings.Cut(text, "\n\nTOKEN\n\n")
				asked := before[strings.LastIndex(before, "\n\n")+2:]
				if !strings.Contains(strings.ToLower(asked), toCopy) || !strings.Contains(before, link) {
					t.Errorf("%s in %s, link %q: got before the code\n%s\nwant the link, and then that the code is to be copied", d.Kind, locale, link, before)
				}
				buttons := 0
				if link != "" {
					buttons = 1
				}
				if strings.Count(text, ":\n"+link+"\n\n") != buttons || strings.Count(html, `<a class="button" href="`+link+`"`) != buttons ||
					strings.Count(html, ">"+link+"</a>") != buttons {
					t.Errorf("%s in %s, link %q: want %d link in the text, and buttons with the link below:\n%s\n%s", d.Kind, locale, link, buttons, text,
						html)
				}
			}
		}
	}
}

func TestBuiltIn_NamesTheSiteInSubjectAndFirstLine(t *testing.T) {
	set := load(t, "", personal.Languages()...)
	for _, d := range mailtext.Descriptions() {
		for _, locale := range personal.Languages() {
			for _, site := range []string{"", `Fish & "Chips"`, strings.Repeat("ф", mailtext.MaxSite)} {
				l := mailtext.Sample()
				l.Site = ""
				plain, _, _, err := set.Write(d.Kind, locale, l)
				if err != nil {
					t.Fatal(err)
				}
				l.Site = site
				subject, text, page, err := set.Write(d.Kind, locale, l)
				if err != nil {
					t.Fatal(err)
				}
				want := plain
				if site != "" {
					want = site + ": " + plain
				}
				first, _, _ := strings.Cut(text, "\n")
				if strings.Replace(subject, "\u00a0:", ":", 1) != want || !strings.Contains(first, site) || strings.Contains(text, "  ") || strings.Contains(first, "«»") {
					t.Errorf("%s in %s: got subject %q and first line %q, want %q and a line with %q", d.Kind, locale, subject, first, want, site)
				}
				if !strings.Contains(unspanned(page), ">"+html.EscapeString(plain)+"</h1>") ||
					strings.Count(page, `class="quiet" style="margin: 0 0 16px; color: #5b616b; font-size: 14px; font-weight`) > 0 != (site != "") {
					t.Errorf("%s in %s, site %q: want the heading %q, and the name above it if there is one:\n%s", d.Kind, locale, site, plain, page)
				}
			}
		}
	}
}

func TestBuiltIn_LoadsNothingFromElsewhere(t *testing.T) {
	set := load(t, "")
	for _, d := range mailtext.Descriptions() {
		_, _, page, err := set.Write(d.Kind, "ru", mailtext.Letter{Token: "T"})
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"<script", "<img", "<link", "url(", "@import", "http://", "https://", "<table", "src="} {
			if strings.Contains(page, part) {
				t.Errorf("%s: got %s in\n%s", d.Kind, part, page)
			}
		}
		for _, part := range []string{`<html lang="ru">`, `<meta name="color-scheme" content="light dark">`,
			"@media (prefers-color-scheme: dark)"} {
			if !strings.Contains(page, part) {
				t.Errorf("%s: want %s in\n%s", d.Kind, part, page)
			}
		}
	}
}

func TestBuiltIn_LifetimeIsShownInItsUnit(t *testing.T) {
	set := load(t, "", personal.Languages()...)
	number := regexp.MustCompile(`\d+`)
	for _, locale := range personal.Languages() {
		for lifetime, want := range map[time.Duration][]string{72 * time.Hour: {"72"}, 119 * time.Minute: {"119"}, time.Second: nil} {
			_, text, _, err := set.Write(mailtext.Verification, locale, mailtext.Letter{Token: "T", Lifetime: lifetime})
			text = strings.Replace(text, "0001-01-01 00:00 UTC", "", 1)
			if got := number.FindAllString(text, -1); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s, %v: got the numbers %q (%v), want %q:\n%s", locale, lifetime, got, err, want, text)
			}
		}
	}
	for lifetime, want := range map[time.Duration]string{
		72 * time.Hour: "valid for 72 hours", 2 * time.Hour: "valid for 2 hours", 119 * time.Minute: "valid for 119 minutes",
		2 * time.Minute: "valid for 2 minutes", 119 * time.Second: "valid for at most one minute", time.Second: "valid for at most one minute",
	} {
		_, text, html, err := set.Write(mailtext.Verification, "en", mailtext.Letter{Token: "T", Lifetime: lifetime})
		if err != nil || !strings.Contains(text, want) || !strings.Contains(html, want) {
			t.Errorf("%v: got %s\n%s (%v), want %q", lifetime, text, html, err, want)
		}
	}
	for lifetime, want := range map[time.Duration]string{
		168 * time.Hour: "valid for 7 days", 48 * time.Hour: "valid for 2 days", 47 * time.Hour: "valid for 47 hours",
		30 * time.Minute: "valid for 30 minutes", time.Second: "valid for at most one minute",
	} {
		_, text, html, err := set.Write(mailtext.Invitation, "en", mailtext.Letter{Token: "T", Lifetime: lifetime})
		if err != nil || !strings.Contains(text, want) || !strings.Contains(html, want) {
			t.Errorf("invitation, %v: got %s\n%s (%v), want %q", lifetime, text, html, err, want)
		}
	}
}

// What a site's languages are decides in which a mail is written, and for whom.
func TestLoad_WritesInTheLanguagesOfTheSite(t *testing.T) {
	own := folder(t, "recovery.pl.txt", "Subject: Nowe hasło\n\n{{.Token}}\n")
	for name, test := range map[string]struct {
		dir     string
		locales []string
		want    map[string]string // the language of the recovery mail by that of the reader
	}{
		"none, as from an older host":   {"", nil, map[string]string{"": "en", "ru": "ru", "de": "en", "uk,ru": "ru"}},
		"German alone":                  {"", []string{"de"}, map[string]string{"": "de", "de-AT": "de", "en": "de", "fr": "de"}},
		"a variety, before English":     {"", []string{"pt-PT", "en"}, map[string]string{"": "pt-BR", "pt": "pt-BR", "pt-PT": "pt-BR", "ja": "pt-BR"}},
		"one without mails":             {"", []string{"pl", "uk"}, map[string]string{"": "uk", "pl": "uk", "de": "uk", "en": "uk"}},
		"one without mails alone":       {"", []string{"pl"}, map[string]string{"": "en", "pl": "en"}},
		"one with the site's templates": {own, []string{"pl", "uk"}, map[string]string{"": "pl", "pl": "pl", "uk": "uk", "de": "pl", "en": "pl"}},
		"templates in another language": {own, []string{"de"}, map[string]string{"": "de", "pl": "pl", "uk": "de"}},
	} {
		set := load(t, test.dir, test.locales...)
		for reader, want := range test.want {
			_, _, page, err := set.Write(mailtext.Recovery, reader, mailtext.Sample())
			if err != nil || !strings.Contains(page, `<html lang="`+want+`">`) {
				t.Errorf("%s: reader of %q: want a mail in %s (%v):\n%.60s", name, reader, want, err, page)
			}
		}
	}
}

// As docs/mails.md says: the text of a built-in language stands below the HTML of the site, whatever the languages of the site are.
func TestLoad_HTMLAloneInALanguageThatTheSiteDoesNotName(t *testing.T) {
	set := load(t, folder(t, "recovery.ru.html", "<p>{{.Token}}</p>"), "de")
	if _, text, page, err := set.Write(mailtext.Recovery, "ru", mailtext.Sample()); err != nil || !strings.Contains(text, "скопируйте") || page != "<p>"+mailtext.Sample().Token+"</p>" {
		t.Errorf("got %q and %q (%v), want the built-in text in Russian and the site's HTML", text, page, err)
	}
}

func TestLayout_RightToLeft(t *testing.T) {
	set := load(t, folder(t, "recovery.ar.txt", "Subject: كلمة مرور جديدة\n\n{{.Token}}\n"))
	if _, _, page, err := set.Write(mailtext.Recovery, "ar-EG", mailtext.Sample()); err != nil || !strings.Contains(page, `<html lang="ar" dir="rtl">`) {
		t.Errorf("got %.60s (%v)", page, err)
	}
}

func TestLoad_TakesTheBuiltInFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, mailtext.BuiltInFiles()); err != nil {
		t.Fatal(err)
	}
	files, err := fs.Glob(mailtext.BuiltInFiles(), "*")
	if want := len(personal.Languages()) * len(mailtext.Descriptions()); err != nil || len(files) != want {
		t.Errorf("got %d built-in files (%v), want %d: each kind in each language", len(files), err, want)
	}
	load(t, dir)
}

func TestLoad_NamesFileLineAndRemedy(t *testing.T) {
	const good = "Subject: Neues Passwort\n\nIhr Code: {{.Token}}\n"
	for name, test := range map[string]struct{ file, content, want string }{
		"no locale":                  {"recovery.txt", good, "recovery.txt: a template is called KIND.LOCALE.txt"},
		"another type":               {"recovery.de.md", good, "recovery.de.md: a template is called KIND.LOCALE.txt or KIND.LOCALE.html"},
		"a copy of an editor":        {"recovery.de.txt~", good, "recovery.de.txt~: a template is called"},
		"an invalid locale":          {"recovery.german.txt", good, `recovery.german.txt: "german" is not a locale: write it like de`},
		"an undetermined locale":     {"recovery.und.txt", good, `recovery.und.txt: "und" is not a locale`},
		"a private locale":           {"recovery.x-team.txt", good, "is not a locale"},
		"a locale with an extension": {"recovery.de-u-co-phonebk.txt", good, "is not a locale"},
		"a locale in another form":   {"recovery.pt_br.txt", good, `recovery.pt_br.txt: write the locale "pt_br" as "pt-BR": rename it to recovery.pt-BR.txt`},
		"no subject":                 {"recovery.de.txt", "Ihr Code: {{.Token}}\n", "recovery.de.txt:1: the first line must be the subject: write it like Subject: "},
		"an empty file":              {"recovery.de.txt", "", "recovery.de.txt:1: the first line must be the subject"},
		"an empty subject":           {"recovery.de.txt", "Subject: \n\n{{.Token}}\n", "recovery.de.txt:1: the subject is empty"},
		"a subject that is sometimes empty": {
			"recovery.de.txt", "Subject: {{if .Link}}Neues Passwort{{end}}\n\n{{.Token}}\n", "recovery.de.txt:1: the subject is empty",
		},
		"a subject of two lines":                {"recovery.de.txt", "Subject: a{{\"\\r\\nBcc: eve@example.com\"}}\n\n{{.Token}}\n", "recovery.de.txt:1: the subject must be one line"},
		"another header":                        {"recovery.de.txt", "Subject: a\nBcc: eve@example.com\n\n{{.Token}}\n", "recovery.de.txt:2: a mail has no header but the subject"},
		"a subject that goes on":                {"recovery.de.txt", "Subject: a\r\n b\r\n\r\n{{.Token}}\r\n", "recovery.de.txt:2: a mail has no header but the subject"},
		"a separator of lines":                  {"recovery.de.txt", "Subject: a\u2028b\n\n{{.Token}}\n", "recovery.de.txt:1: the subject must be one line"},
		"an action over two lines":              {"recovery.de.txt", "Subject: {{if .Link}}a\nb{{end}}\n{{.Token}}\n", "recovery.de.txt:1: unexpected EOF"},
		"a syntax error":                        {"recovery.de.txt", "Subject: a\n\n{{.Token}}\n{{if .Link}\n", "recovery.de.txt:4: bad character"},
		"a missing end":                         {"recovery.de.html", "<p>{{.Token}}\n{{if .Link}}\n", "recovery.de.html:3: unexpected EOF"},
		"a misspelt field":                      {"recovery.de.txt", "Subject: a\n\n{{.Tokn}}\n", "recovery.de.txt:3:2: .Tokn does not exist: this mail has .Token, .Link, .Minutes, .Hours"},
		"a field of another kind":               {"new_address.en.html", "<p>\n{{.Token}}</p>", "new_address.en.html:2:2: .Token does not exist: this mail has .Time, .Address, .Site"},
		"a field that no sample reaches":        {"recovery.de.txt", "Subject: a\n\n{{.Token}}{{if eq .Minutes 7}}\n{{.Tokn}}{{end}}", "recovery.de.txt:4:2: .Tokn does not exist"},
		"a field in the subject":                {"recovery.de.txt", "Subject: {{.Name}}\n\n{{.Token}}\n", "recovery.de.txt:1:11: .Name does not exist"},
		"a field of a field":                    {"recovery.de.txt", "Subject: a\n\n{{.Token.Text}}\n", "recovery.de.txt:3:8: .Token.Text does not exist"},
		"a field of a variable":                 {"recovery.de.txt", "Subject: a\n\n{{$x := .Token}}{{$x.Text}}\n", "recovery.de.txt:3:20: $x.Text does not exist"},
		"a field of the mail within with":       {"recovery.de.txt", "Subject: a\n\n{{with .Link}}{{.Token}}{{end}}\n", "recovery.de.txt:3:16: within {{with}} write {{$.Token}}"},
		"the whole mail":                        {"recovery.de.txt", "Subject: a\n\n{{.}}\n", "recovery.de.txt:3:2: a mail cannot show {{.}}"},
		"an unknown function":                   {"recovery.de.txt", "Subject: a\n\n{{.Token | upper}}\n", `recovery.de.txt:3: function "upper" not defined`},
		"a function that can fail":              {"recovery.de.txt", "Subject: a\n\n{{index .Token 99}}\n", "recovery.de.txt:3:2: the function index is not available in mails: use only and, or"},
		"a loop":                                {"recovery.de.txt", "Subject: a\n\n{{range 1000000000000}}{{end}}{{.Token}}\n", "recovery.de.txt:3:8: this is not available in mails"},
		"a template in the template":            {"recovery.de.txt", "Subject: a\n\n{{define \"x\"}}{{end}}{{.Token}}\n", "recovery.de.txt:1: define and block are not available"},
		"a comparison of unlike values":         {"recovery.de.txt", "Subject: a\n\n{{.Token}}{{if gt .Minutes \"1\"}}{{end}}\n", "recovery.de.txt:3:15: executing"},
		"no text":                               {"recovery.de.txt", "Subject: a\n\n", "recovery.de.txt:2: the mail is empty"},
		"no code":                               {"recovery.de.txt", "Subject: a\n\nHallo\n", "recovery.de.txt:2: the mail does not always contain its code: add {{.Token}}"},
		"no code without a link":                {"recovery.de.txt", "Subject: a\n\n{{if .Link}}{{.Link}}{{end}} Hallo\n", "recovery.de.txt:2: the mail does not always contain its code"},
		"no code that is valid for minutes":     {"recovery.de.txt", "Subject: a\n\nx{{if .Hours}}{{.Token}}{{end}}\n", "recovery.de.txt:2: the mail does not always contain its code"},
		"no code that is valid for days":        {"invitation.de.txt", "Subject: a\n\nx{{if lt .Days 2}}{{.Token}}{{end}}\n", "invitation.de.txt:2: the mail does not always contain its code"},
		"no subject without a name of the site": {"recovery.de.txt", "Subject: {{.Site}}\n\n{{.Token}}\n", "recovery.de.txt:1: the subject is empty"},
		"no code with a name of the site":       {"recovery.de.txt", "Subject: a\n\nx{{if not .Site}}{{.Token}}{{end}}\n", "recovery.de.txt:2: the mail does not always contain its code"},
		"no code with a link and no name":       {"recovery.de.txt", "Subject: a\n\nx{{if or .Site (not .Link)}}{{.Token}}{{end}}\n", "recovery.de.txt:2: the mail does not always contain its code"},
		"a subject that a name makes long":      {"recovery.de.txt", "Subject: {{.Site}} " + strings.Repeat("ü", 140) + "\n\n{{.Token}}\n", "recovery.de.txt:1: the subject is too long"},
		"a long subject":                        {"recovery.de.txt", "Subject: " + strings.Repeat("ü", 201) + "\n\n{{.Token}}\n", "recovery.de.txt:1: the subject is too long: shorten it to 200 characters"},
		"HTML without the code":                 {"recovery.en.html", "<p>Hello</p>", "recovery.en.html:1: the mail does not always contain its code"},
		"HTML without a text":                   {"recovery.pl.html", "<p>{{.Token}}</p>", "recovery.pl.html: this language has no text for the mail: add recovery.pl.txt"},
		"a field in a broken attribute":         {"recovery.en.html", "<p>{{.Token}}</p>\n<a href='{{.Link}}", "recovery.en.html:1: ends in a non-text context"},
		"a field in an unquoted script":         {"recovery.en.html", "<p>{{.Token}}</p>\n<script>if (/{{if .Link}}/{{end}}</script>", "recovery.en.html:2"},
		"another encoding":                      {"recovery.de.txt", "Subject: a\n\nf\xfcr {{.Token}}\n", "recovery.de.txt:3: the line is not valid UTF-8: save the file as UTF-8"},
		"a control character":                   {"recovery.de.txt", "Subject: a\n\n\x00{{.Token}}\n", "recovery.de.txt:3: the line contains a control character"},
		"a carriage return in a line":           {"recovery.de.txt", "Subject: a\rBcc: b\n\n{{.Token}}\n", "recovery.de.txt:1: the line contains a control character"},
		"a huge file":                           {"recovery.de.txt", good + strings.Repeat("x", 64<<10), "recovery.de.txt: the file is too long: shorten it to 64 KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t, test.file, test.content)
			set, err := mailtext.Load(dir)
			if want := filepath.Join(dir, test.want); err == nil || !strings.HasPrefix(err.Error(), filepath.Join(dir, test.file)) ||
				!strings.Contains(err.Error(), test.want) {
				t.Fatalf("got error %v, want it to begin with the file and to contain %s", err, want)
			}
			if subject, _, _, err := set.Write(mailtext.Recovery, "de", mailtext.Sample()); err != nil || subject != "Example: Set a new password" {
				t.Errorf("got subject %q (%v), want the built-in mail in place of the invalid one", subject, err)
			}
		})
	}
}

func TestLoad_RefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "recovery.de.txt"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := mailtext.Load(dir); err == nil || !strings.Contains(err.Error(), "recovery.de.txt: this is not a file: remove it") {
		t.Errorf("a folder as a template: got %v", err)
	}
	file := filepath.Join(folder(t, "mails", ""), "mails")
	for _, dir := range []string{file, filepath.Join(t.TempDir(), "none")} {
		if set, err := mailtext.Load(dir); err == nil || set == nil || !strings.Contains(err.Error(), dir) ||
			!strings.Contains(err.Error(), "name a folder") {
			t.Errorf("got %v, want an error that names the folder %s, and the built-in texts", err, dir)
		}
	}
	dir = t.TempDir()
	if err := os.Symlink("nowhere", filepath.Join(dir, "recovery.de.txt")); err != nil {
		t.Fatal(err)
	}
	if _, err := mailtext.Load(dir); err == nil || !strings.Contains(err.Error(), "recovery.de.txt: the file cannot be read: no such file") {
		t.Errorf("a link to nowhere: got %v", err)
	}
}

func TestLoad_ReportsAllFilesUpToALimit(t *testing.T) {
	var files []string
	for _, name := range "abcdefghijkl" {
		files = append(files, string(name)+".txt", "")
	}
	_, err := mailtext.Load(folder(t, files...))
	if err == nil {
		t.Fatal("got no error")
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 11 || !strings.Contains(lines[0], "a.txt") || !strings.HasSuffix(lines[10], ": 2 more errors") {
		t.Errorf("got %d lines, want the first 10 errors and the number of the others:\n%v", len(lines), err)
	}
}

func TestLoad_InvalidFileLeavesOutItsMailOnly(t *testing.T) {
	set, err := mailtext.Load(folder(t,
		"recovery.en.txt", "Subject: Site\n\n{{.Token}}", "recovery.en.html", "{{.Tokn}}",
		"kind_of_later.en.txt", "Subject: Of a later version\n\n{{.Time}}", "deletion.en.txt", "Subject: Site\n\n{{.Token}}"))
	if err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("got error %v, want one line", err)
	}
	const later = `kind_of_later.en.txt: there is no mail "kind_of_later": the kinds are recovery, invitation, email_change`
	if err := set.Unknown(); err == nil || !strings.Contains(err.Error(), later) || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v, want %q", err, later)
	}
	for kind, want := range map[mailtext.Kind]string{mailtext.Recovery: "Example: Set a new password", mailtext.Deletion: "Site"} {
		if subject, _, _, err := set.Write(kind, "en", mailtext.Sample()); err != nil || subject != want {
			t.Errorf("%s: got subject %q (%v), want %q", kind, subject, err, want)
		}
	}
}

func TestLoad_AcceptsWhatEditorsAndMountsAdd(t *testing.T) {
	dir := folder(t, "real", "\ufeffSubject: Neues\u00a0Passwort\r\n\r\n\r\nIhr Code:\r\n\t{{.Token}}\r\n", ".git", "", "..data", "")
	if err := os.Rename(filepath.Join(dir, "real"), filepath.Join(dir, ".real")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(".real", filepath.Join(dir, "recovery.de.txt")); err != nil { // as Kubernetes does
		t.Fatal(err)
	}
	subject, text, _, err := load(t, dir).Write(mailtext.Recovery, "de", mailtext.Letter{Token: "T"})
	if err != nil || subject != "Neues\u00a0Passwort" || text != "Ihr Code:\n\tT\n" {
		t.Errorf("got %q and %q (%v), want subject and text without marks of the editor", subject, text, err)
	}
}

func TestWrite_TakesTheLanguageThatFits(t *testing.T) {
	set := load(t, folder(t,
		"recovery.de.txt", "Subject: Deutsch\n\n{{.Token}}", "recovery.pt-BR.txt", "Subject: Português\n{{.Token}}",
		"recovery.gsw-AT.txt", "Subject: Alemannisch\n\n{{.Token}}", "recovery.gsw-AT.html", "<i>{{.Token}}</i>",
		"recovery.en.txt", "Subject: Site's own\n\n{{.Token}}"))
	for _, test := range []struct {
		kind         mailtext.Kind
		locale, want string
	}{
		{mailtext.Recovery, "de", "Deutsch"},
		{mailtext.Recovery, "de-AT", "Deutsch"},
		{mailtext.Recovery, "fr, de;q=0.5", "Deutsch"},
		{mailtext.Recovery, "fr,de-CH,ru", "Deutsch"},
		{mailtext.Recovery, "kk", "Example: Задайте новый пароль"}, // a language that Kazakhs understand
		{mailtext.Recovery, "kk,en", "Site's own"},
		{mailtext.Recovery, "pt", "Português"},
		{mailtext.Recovery, "gsw-AT", "Alemannisch"},
		{mailtext.Recovery, "ru", "Example: Задайте новый пароль"},
		{mailtext.Recovery, "en-GB", "Site's own"},
		{mailtext.Recovery, "fr", "Site's own"},
		{mailtext.Recovery, "", "Site's own"},
		{mailtext.EmailChange, "de", "Example: Confirm your e-mail address"}, // no other kind is in German
	} {
		subject, text, html, err := set.Write(test.kind, test.locale, mailtext.Sample())
		if err != nil || subject != test.want || !strings.Contains(text, mailtext.Sample().Token) ||
			!strings.Contains(html, mailtext.Sample().Token) {
			t.Errorf("%s in %q: got subject %q (%v), want %q", test.kind, test.locale, subject, err, test.want)
		}
	}
	if _, _, _, err := set.Write("none", "en", mailtext.Sample()); err == nil {
		t.Error("an unknown kind: got no error")
	}
}

func TestWrite_TextWithoutHTMLIsShownInTheLayout(t *testing.T) {
	const (
		link   = "https://site.example/?a=1&b=2#token=T"
		shown  = "https://site.example/?a=1&amp;b=2#token=T"
		linked = `<a href="` + shown + `">` + shown + `</a>`
	)
	for name, test := range map[string]struct {
		text   string
		want   string // of the paragraphs, without attributes but href
		button bool
	}{
		"paragraphs":            {"Hello & welcome\nto us\n\n\n\n<b>\n\n{{.Token}}", "<p>Hello &amp; welcome<br>\nto us</p>\n<p>&lt;b&gt;</p>\n<p><code>T</code></p>", false},
		"its own link":          {"{{.Link}}\n\n{{.Token}}", "<p>" + linked + "</p>\n<p><code>T</code></p>", false},
		"a link in a line":      {"Open {{.Link}}, or enter {{.Token}}.", "<p>Open " + linked + ", or enter T.</p>", false},
		"a button":              {"Passwort <setzen>:\n{{.Link}}\n\n{{.Token}}", `<p><a href="` + shown + `">Passwort &lt;setzen&gt;</a></p>` + "\n<p>" + linked + "</p>\n<p><code>T</code></p>", true},
		"only one button":       {"A:\n{{.Link}}\n\nB:\n{{.Link}}\n\n{{.Token}}", `<p><a href="` + shown + `">A</a></p>` + "\n<p>" + linked + "</p>\n<p>B:<br>\n" + linked + "</p>\n<p><code>T</code></p>", true},
		"a label without colon": {"Open\n{{.Link}}\n\n{{.Token}}", "<p>Open<br>\n" + linked + "</p>\n<p><code>T</code></p>", false},
		"a label of two lines":  {"Open\nthis:\n{{.Link}}\n\n{{.Token}}", "<p>Open<br>\nthis:<br>\n" + linked + "</p>\n<p><code>T</code></p>", false},
		"a sentence": {
			"Öffnen Sie den folgenden Link in Ihrem Browser:\n{{.Link}}\n\n{{.Token}}",
			"<p>Öffnen Sie den folgenden Link in Ihrem Browser:<br>\n" + linked + "</p>\n<p><code>T</code></p>", false,
		},
		"words with hyphens": {
			"e-mail: «IP-adrë», a&-b 1-2345678901234567890-12345 {{.Token}}-{{.Token}}\n",
			"<p><span>e-mail:</span> <span>«IP-adrë»,</span> <span>a&amp;-b</span> 1-2345678901234567890-12345 <span>T-T</span></p>", false,
		},
		"a label without a link": {"Open:\n{{if not .Link}}{{.Link}}{{end}}\n\n{{.Token}}", "<p>Open:</p>\n<p><code>T</code></p>", false},
	} {
		set := load(t, folder(t, "recovery.de.txt", "Subject: 1 < 2\n\n"+test.text+"\n"))
		_, _, page, err := set.Write(mailtext.Recovery, "de", mailtext.Letter{Token: "T", Link: link})
		if err != nil {
			t.Fatal(err)
		}
		_, body, _ := strings.Cut(page, "</h1>\n")
		body, _, _ = strings.Cut(body, "\n</div>")
		if got := regexp.MustCompile(` (class|style)="[^"]*"`).ReplaceAllString(body, ""); got != test.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, test.want)
		}
		if !strings.Contains(page, `<html lang="de">`) || !strings.Contains(page, "<title>1 &lt; 2</title>") ||
			strings.Contains(page, `class="button"`) != test.button {
			t.Errorf("%s: want language, title, and a button: %t:\n%s", name, test.button, page)
		}
	}
}

func TestWrite_HTMLWithoutTextKeepsTheBuiltInText(t *testing.T) {
	set := load(t, folder(t, "recovery.ru.html", "<h1>Сайт</h1> {{.Token}}"))
	subject, text, html, err := set.Write(mailtext.Recovery, "ru", mailtext.Letter{Token: "<T>"})
	if err != nil || subject != "Задайте новый пароль" || !strings.Contains(text, "Мы получили запрос") || html != "<h1>Сайт</h1> &lt;T&gt;" {
		t.Errorf("got %q, %q, %q (%v), want the built-in subject and text with the site's HTML", subject, text, html, err)
	}
}

func TestWrite_ReadsNoFile(t *testing.T) {
	dir := folder(t, "recovery.de.txt", "Subject: Deutsch\n\n{{.Token}}", "recovery.de.html", "<p>{{.Token}}</p>")
	set := load(t, dir)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if subject, _, _, err := set.Write(mailtext.Recovery, "de", mailtext.Sample()); err != nil || subject != "Deutsch" {
		t.Errorf("got subject %q (%v), want the template from before the folder was removed", subject, err)
	}
}

func TestWrite_LineBreakInAValueAddsNoHeader(t *testing.T) {
	set := load(t, folder(t, "recovery.en.txt", "Subject: {{.Token}}\n\n{{.Token}}"))
	if subject, _, _, err := set.Write(mailtext.Recovery, "en", mailtext.Letter{Token: "T\r\nBcc: eve@example.com"}); err == nil {
		t.Errorf("got subject %q, want an error", subject)
	}
}

func TestWrite_BuiltInMailReplacesOneThatFails(t *testing.T) {
	const fails = "Subject: %s\n\n{{.Token}}{{if eq .Minutes 60}}{{if lt .Hours .Token}}{{end}}{{end}}"
	set := load(t, folder(t, "recovery.ru.txt", fails, "recovery.de.txt", fails))
	l := mailtext.Sample()
	l.Lifetime = time.Hour
	for _, locale := range []string{"ru", "de"} {
		subject, text, html, err := set.Write(mailtext.Recovery, locale, l)
		want, _, _, wrong := mailtext.BuiltIn().Write(mailtext.Recovery, locale, l)
		if err == nil || wrong != nil || subject != want || !strings.Contains(text, l.Token) || !strings.Contains(html, l.Token) {
			t.Errorf("%s: got subject %q, text %q, HTML %q (%v), want the built-in mail with an error", locale, subject, text, html, err)
		}
	}
}

func TestCheckLocale_NamesWhatExists(t *testing.T) {
	set := load(t, folder(t, "recovery.de.txt", "Subject: Deutsch\n\n{{.Token}}"))
	for _, locale := range []string{"de", "de-AT", "en-GB", "ru"} {
		if err := set.CheckLocale(mailtext.Recovery, locale); err != nil {
			t.Errorf("%s: %v", locale, err)
		}
	}
	for _, locale := range []string{"fr", "zh-Hant"} {
		if err := set.CheckLocale(mailtext.Recovery, locale); err == nil || !strings.HasSuffix(err.Error(), "the locales are en, ru, de") {
			t.Errorf("%s: got %v, want the locales", locale, err)
		}
	}
	if err := set.CheckLocale(mailtext.Recovery, "deutsch!"); err == nil || !strings.Contains(err.Error(), "write it like de") {
		t.Errorf("got %v, want how to write a locale", err)
	}
}
