package languages_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/feature/plural"
	"golang.org/x/text/language"

	"github.com/cms-personal/personal/internal/languages"
	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/shared/localtext"
	"github.com/cms-personal/personal/shared/personal"
)

// note is the key with who has translated a file, and who has checked it.
const note = "_translation"

// folders are all folders with texts, and those of the sample site, by their path.
func folders() map[string]fs.FS {
	all := map[string]fs.FS{}
	for _, path := range []string{"shared/personalhttp/messages", "shared/personalweb/ui/texts", "shared/personalpages/texts", "shared/personaladmin/texts",
		"host-sample/site/texts", "host-sample/site/replaced", "host-sample/reference/texts", "host-sample/admin/texts"} {
		all[path] = os.DirFS(filepath.Join("..", "..", path))
	}
	return all
}

// A site of a release may have any of its keys in files of its own, so none of them may go.
func TestTexts_KeysOfAReleaseStay(t *testing.T) {
	released, err := os.ReadFile("testdata/0.2.0.txt")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, p := range languages.Parts() {
		all, _, err := localtext.Source{BuiltIn: p.Files, Needed: []string{"en"}}.Read()
		if err != nil {
			t.Fatal(err)
		}
		for key := range all["en"] {
			known[p.Name+" "+key] = true
		}
	}
	for key := range strings.Lines(string(released)) {
		if key = strings.TrimSpace(key); !known[key] {
			t.Errorf("the text %s of 0.2.0 is gone: a site that replaces it does not start any more", key)
		}
	}
}

// read returns the texts of a file as they are written: each is a text, or an object of forms.
func read(t *testing.T, files fs.FS, locale string) (texts map[string]any) {
	t.Helper()
	data, err := fs.ReadFile(files, locale+".json")
	if err == nil {
		err = json.Unmarshal(data, &texts)
	}
	if err != nil {
		t.Fatal(err)
	}
	if by, _ := texts[note].(string); by == "" {
		t.Errorf("%s.json does not say, under %q, who has translated it, and who has checked it", locale, note)
	}
	delete(texts, note)
	return texts
}

// forms returns the forms of a text by their category; other for one without forms.
func forms(text any) map[string]string {
	if text, ok := text.(string); ok {
		return map[string]string{"other": text}
	}
	all := map[string]string{}
	for category, form := range text.(map[string]any) {
		all[category] = form.(string)
	}
	return all
}

func translations() []string {
	return slices.DeleteFunc(personal.Languages(), func(l string) bool { return l == "en" })
}

func TestTexts_EachLanguageHasAll(t *testing.T) {
	for name, files := range folders() {
		all, missing, err := localtext.Source{BuiltIn: []fs.FS{files}, Own: jsonFiles{files}}.Read() // own texts are checked
		if err != nil || len(missing) > 0 || len(all) != len(personal.Languages()) {
			t.Errorf("%s: got %d languages, %d of them incomplete: %v, %v; want %d", name, len(all), len(missing), missing, err, len(personal.Languages()))
		}
	}
	for _, d := range mailtext.Descriptions() {
		for _, locale := range personal.Languages() {
			if text := mail(t, d.Kind, locale); locale != "en" && !regexp.MustCompile(`\ASubject: .*\n{{/\* .* \*/}}\n\n`).MatchString(text) {
				t.Errorf("%s.%s.txt: got no note below the subject about who has translated it", d.Kind, locale)
			}
		}
	}
}

// jsonFiles hides the Go files of a folder.
type jsonFiles struct{ fs.FS }

func (f jsonFiles) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(f.FS, name)
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !strings.HasSuffix(e.Name(), ".json") }), err
}

func mail(t *testing.T, k mailtext.Kind, locale string) string {
	t.Helper()
	text, err := fs.ReadFile(mailtext.BuiltInFiles(), string(k)+"."+locale+".txt")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTexts_HaveAllPlaceholders(t *testing.T) {
	placeholder := regexp.MustCompile(`%(?:\[\d\])?([a-z])`)
	verbs := func(text string) (all []string) {
		for _, found := range placeholder.FindAllStringSubmatch(text, -1) {
			all = append(all, found[1])
		}
		slices.Sort(all)
		return all
	}
	for name, files := range folders() {
		english := read(t, files, "en")
		for _, locale := range personal.Languages() {
			for key, text := range read(t, files, locale) {
				want := verbs(forms(english[key])["other"])
				for _, form := range forms(text) {
					if got := verbs(form); !slices.Equal(got, want) {
						t.Errorf("%s: %s.json: %q has the placeholders %q, want %q", name, locale, key, got, want)
					}
				}
			}
		}
	}
}

// No page shows millions, for which some languages have a form of their own.
func TestTexts_HaveAFormForEachNumber(t *testing.T) {
	names := map[plural.Form]string{plural.Zero: "zero", plural.One: "one", plural.Two: "two", plural.Few: "few", plural.Many: "many", plural.Other: "other"}
	for name, files := range folders() {
		for _, locale := range personal.Languages() {
			for key, text := range read(t, files, locale) {
				has := forms(text)
				for n := range 200 {
					category := names[plural.Cardinal.MatchPlural(language.Make(locale), n, 0, 0, 0, 0)]
					if _, ok := has[category]; !ok && len(has) > 1 {
						t.Errorf("%s: %s.json: %q has no form %q, as for %d", name, locale, key, category, n)
						break
					}
				}
			}
		}
	}
}

// A button on a phone has room for about 32 characters.
const button, label = 32, 24

func TestTexts_FitWhereTheyStand(t *testing.T) {
	for name, files := range folders() {
		english := read(t, files, "en")
		for _, locale := range translations() {
			for key, text := range read(t, files, locale) {
				original := utf8.RuneCountInString(forms(english[key])["other"])
				for _, form := range forms(text) {
					if n := utf8.RuneCountInString(form); original <= label && n > max(button, 2*original) {
						t.Errorf("%s: %s.json: %q has %d characters, want at most %d: %s", name, locale, key, n, max(button, 2*original), form)
					}
				}
			}
		}
	}
}

// glossary are the terms of a language.
type glossary struct {
	Terms map[string]struct {
		Word   string   // what the language calls it
		Stems  []string // regular expressions of which one matches in a text about it
		Except []string // keys of short texts in which the term is rightly left out
	}
	Refused []string // regular expressions of words: informal address, and second words for a term
	Same    []string // keys whose text is the same as in English
}

func readGlossary(t *testing.T, locale string) (g glossary) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("glossary", locale+".json"))
	if err == nil {
		err = json.Unmarshal(data, &g)
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// words compiles an expression in which \w and \b know the letters of all languages.
func words(expression string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)` + strings.NewReplacer(`\w`, `[\pL\pN]`, `\b`, `(?:^|$|[^\pL\pN])`).Replace(expression))
}

var action = regexp.MustCompile(`{{.*?}}`)

func TestTexts_KeepToTheGlossary(t *testing.T) {
	terms := readGlossary(t, "en").Terms
	if len(terms) < 30 {
		t.Errorf("got %d terms, want 30", len(terms))
	}
	english := map[string]*regexp.Regexp{}
	for term := range terms {
		english[term] = words(terms[term].Stems[0])
	}
	for _, locale := range translations() {
		g := readGlossary(t, locale)
		stems := map[string]*regexp.Regexp{}
		for term := range terms {
			if len(g.Terms[term].Stems) == 0 {
				t.Fatalf("%s: the glossary lacks %q", locale, term)
			}
			stems[term] = words(strings.Join(g.Terms[term].Stems, "|"))
		}
		refused := words(`\b(` + strings.Join(g.Refused, "|") + `)\b`)
		check := func(where, key, original, text string) {
			if found := refused.FindStringSubmatch(text); found != nil {
				t.Errorf("%s: %s: %q has the refused word %q: %s", where, locale, key, found[1], text)
			}
			for term := range terms {
				if utf8.RuneCountInString(original) <= 60 && english[term].MatchString(original) && !stems[term].MatchString(text) &&
					!slices.Contains(g.Terms[term].Except, key) {
					t.Errorf("%s: %s: %q does not call %q %q: %s", where, locale, key, term, g.Terms[term].Word, text)
				}
			}
			if original == text && regexp.MustCompile(`\pL{4}`).MatchString(text) && !slices.Contains(g.Same, key) {
				t.Errorf("%s: %s: %q is the same as in English: %s", where, locale, key, text)
			}
		}
		for name, files := range folders() {
			originals := read(t, files, "en")
			for key, text := range read(t, files, locale) {
				for _, form := range forms(text) {
					if key != "date" {
						check(name, key, forms(originals[key])["other"], form)
					}
				}
			}
		}
		for _, d := range mailtext.Descriptions() {
			text := func(locale string) string { return action.ReplaceAllString(mail(t, d.Kind, locale), "") }
			check("mail", string(d.Kind), text("en"), text(locale))
			subject := func(locale string) string { return strings.SplitN(text(locale), "\n", 2)[0] }
			check("subject", string(d.Kind), subject("en"), subject(locale))
		}
	}
}
