// Package mailtext writes the mails of the module from templates: built-in ones in the
// languages of [personal.Languages], and those of the site, which replace or add to them.
//
// A template is a file KIND.LOCALE.txt, whose first line is "Subject: …". The HTML of the
// mail is that text in the layout that all mails share, unless a file KIND.LOCALE.html of
// the site replaces it. Templates are parsed when they are loaded, never while a mail is
// written. Those of the site are rendered with samples, too.
package mailtext

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	htmltemplate "html/template"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/text/language"

	"github.com/cms-personal/personal/shared/personal"
)

//go:embed mails
var builtIn embed.FS

// BuiltInFiles returns the built-in templates, by file name. A folder of them is one
// that [Load] accepts.
func BuiltInFiles() fs.FS {
	files, err := fs.Sub(builtIn, "mails")
	if err != nil {
		panic(err) // the name is a constant
	}
	return files
}

// Set holds the templates of every kind. It is safe for concurrent use.
type Set struct {
	kinds   map[Kind]*languages
	layout  *htmltemplate.Template
	unknown error // names the files of unknown kinds
}

// languages are the templates of one kind.
type languages struct {
	matcher language.Matcher
	tags    []language.Tag // as in the matcher; the first one is for readers whom none fits
	mails   []mail         // parallel to tags
	builtIn []mail         // likewise; zero where there is none
}

// BuiltIn returns the built-in templates in English and Russian.
func BuiltIn() *Set { return builtInSet() }

var builtInSet = sync.OnceValue(func() *Set {
	set, err := Load("")
	if err != nil {
		panic(err) // a test loads them
	}
	return set
})

// Load returns the built-in templates in some languages and the templates of a folder, "" for none.
// Readers whom no language fits get the first one of these in which a mail exists. If there are none in these languages, it
// returns those in English; without languages those in English and Russian.
//
// The error names every invalid file, with the line, and says what to do; at most maxErrors are
// listed. The set is complete even then: it leaves out mails with an invalid file.
//
// Files of kinds that this version does not know are not in the error: see [Set.Unknown].
//
// Names that begin with a dot are ignored.
func Load(dir string, locales ...string) (*Set, error) {
	if len(locales) == 0 {
		locales = []string{"en", "ru"}
	}
	builtIn, order, err := builtInIn(locales)
	if err != nil {
		return nil, fmt.Errorf("built-in mail templates: %w", err)
	}
	if dir == "" {
		return newSet(builtIn, builtIn, order), nil
	}
	if _, err := os.ReadDir(dir); err != nil {
		return newSet(builtIn, builtIn, order), fmt.Errorf("the folder of mail templates cannot be read: %w; name a folder that the plugin may read",
			err)
	}
	site, invalid, problems := parseFolder(os.DirFS(dir), true)
	ofUnknownKind := func(err error) bool { return errors.As(err, new(unknownKind)) }
	later := slices.DeleteFunc(slices.Clone(problems), func(err error) bool { return !ofUnknownKind(err) })
	problems = slices.DeleteFunc(problems, ofUnknownKind)
	all := maps.Clone(builtIn)
	for _, id := range slices.SortedFunc(maps.Keys(site), compareIDs) {
		m, replaced := site[id], builtIn[id]
		if m.text == nil && replaced.text == nil { // of a language that the site does not name
			others, _, _ := parseFolder(languageFiles{BuiltInFiles(), id.locale.String()}, false)
			replaced = others[id]
		}
		switch {
		case invalid[id]:
			continue
		case m.text == nil && replaced.text == nil:
			problems = append(problems, fmt.Errorf("%s.html: this language has no text for the mail: add %s.txt", id, id))
			continue
		case m.text == nil:
			m.subject, m.text = replaced.subject, replaced.text
		}
		all[id] = m
	}
	set := newSet(all, builtIn, order)
	set.unknown = inFolder(dir, later)
	return set, inFolder(dir, problems)
}

// Unknown names the files of the folder that are of kinds which this version does not know: it sends no such mail,
// a later version may. It returns nil if there are none.
func (s *Set) Unknown() error { return s.unknown }

// builtInIn returns the built-in templates in languages, or else in English, and the order of languages for readers whom
// none fits. For pt-PT it takes the templates in pt-BR.
func builtInIn(locales []string) (_ map[id]mail, order []language.Tag, err error) {
	all := map[id]mail{}
	for _, locale := range append(slices.Clone(locales), "en") {
		if locale == "en" && len(all) > 0 && !slices.Contains(locales, "en") {
			continue // only a last resort
		}
		base, _ := language.Make(locale).Base()
		order = append(order, language.Make(locale))
		for _, known := range personal.Languages() {
			if other, _ := language.Make(known).Base(); other != base {
				continue
			}
			mails, _, problems := parseFolder(languageFiles{BuiltInFiles(), known}, false) // a test renders them
			if len(problems) > 0 {
				return nil, nil, errors.Join(problems...)
			}
			maps.Copy(all, mails)
			order = append(order, language.Make(known))
		}
	}
	return all, order, nil
}

// languageFiles are the files of a folder that are in one language.
type languageFiles struct {
	fs.FS
	locale string
}

// ReadDir lists the files in the language.
func (f languageFiles) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(f.FS, name)
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !strings.Contains(e.Name(), "."+f.locale+".") }), err
}

// maxErrors bounds the errors that Load reports.
const maxErrors = 10

// inFolder joins errors that begin with names of files in dir.
func inFolder(dir string, problems []error) error {
	var listed []error
	for i, p := range problems {
		if i == maxErrors {
			listed = append(listed, fmt.Errorf("%s: %d more errors", dir, len(problems)-i))
			break
		}
		listed = append(listed, fmt.Errorf("%s%c%w", strings.TrimSuffix(dir, "/"), filepath.Separator, p))
	}
	return errors.Join(listed...)
}

// id names a mail in one language. Its text is the beginning of file names.
type id struct {
	kind   Kind
	locale language.Tag
}

func (i id) String() string { return string(i.kind) + "." + i.locale.String() }

func compareIDs(a, b id) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.locale.String(), b.locale.String()))
}

// parseFolder returns the mails of the valid files, the mails that have an invalid file,
// and an error for each of those files. The errors begin with the file's name. With render, a text
// is valid only if it can be rendered with samples.
func parseFolder(folder fs.FS, render bool) (mails map[id]mail, invalid map[id]bool, problems []error) {
	mails, invalid = map[id]mail{}, map[id]bool{}
	entries, err := fs.ReadDir(folder, ".")
	if err != nil {
		return nil, nil, []error{err}
	}
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") {
			continue
		}
		id, html, err := parseName(name)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
			continue
		}
		m := mails[id]
		source, err := read(folder, name)
		switch {
		case err != nil:
			err = fmt.Errorf("%s: %w", name, err)
		case html:
			m.html, err = parseHTML(id.kind, name, source)
		default:
			m.subject, m.text, err = parseText(id.kind, name, source)
			if err == nil && render {
				err = m.checkText(id.kind, name)
			}
		}
		if err != nil {
			invalid[id] = true
			problems = append(problems, err)
			continue
		}
		mails[id] = m
	}
	return mails, invalid, problems
}

// parseName splits the name of a template.
func parseName(name string) (_ id, html bool, err error) {
	parts := strings.Split(name, ".")
	if len(parts) != 3 || parts[2] != "txt" && parts[2] != "html" {
		return id{}, false, errors.New("a template is called KIND.LOCALE.txt or KIND.LOCALE.html, like recovery.de.txt: rename or remove it")
	}
	kind, locale := Kind(parts[0]), parts[1]
	if err := CheckKind(kind); err != nil {
		return id{}, false, err
	}
	tag, err := parseLocale(locale)
	if err != nil {
		return id{}, false, err
	}
	if tag.String() != locale {
		return id{}, false, fmt.Errorf("write the locale %q as %q: rename it to %s.%s.%s", locale, tag, kind, tag, parts[2])
	}
	return id{kind, tag}, parts[2] == "html", nil
}

// CheckKind returns an error that names all kinds if there is no such kind.
func CheckKind(k Kind) error {
	if _, ok := describe(k); ok {
		return nil
	}
	return unknownKind(k)
}

// unknownKind is the error of a kind that this version does not know.
type unknownKind Kind

func (k unknownKind) Error() string {
	var names []string
	for _, d := range Descriptions() {
		names = append(names, string(d.Kind))
	}
	return fmt.Sprintf("there is no mail %q: the kinds are %s", string(k), strings.Join(names, ", "))
}

func parseLocale(text string) (language.Tag, error) {
	tag, err := language.Parse(text)
	if base, _, _ := tag.Raw(); err != nil || base == (language.Base{}) || len(tag.Extensions()) > 0 {
		return tag, fmt.Errorf("%q is not a locale: write it like de, pt-BR or zh-Hant", text)
	}
	return tag, nil
}

// maxFile is the maximum size of a template in bytes.
const maxFile = 64 << 10

// read returns the content of a file. It does not open what is not a regular file,
// because a read of a pipe may never return.
func read(folder fs.FS, name string) (string, error) {
	const must = "a template must be a file that the plugin may read"
	info, err := fs.Stat(folder, name)
	if err == nil && !info.Mode().IsRegular() {
		return "", errors.New("this is not a file: remove it; " + must)
	}
	var data []byte
	if err == nil {
		var file fs.File
		if file, err = folder.Open(name); err == nil {
			data, err = io.ReadAll(io.LimitReader(file, maxFile+1))
			err = errors.Join(err, file.Close())
		}
	}
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		err = failed.Err // without the name, which the caller knows
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("the file cannot be read: %w; %s", err, must)
	case len(data) > maxFile:
		return "", fmt.Errorf("the file is too long: shorten it to %d KiB", maxFile>>10)
	}
	return string(data), nil
}

// newSet puts the languages in an order: those that it names first.
func newSet(mails, builtIn map[id]mail, order []language.Tag) *Set {
	set := &Set{kinds: map[Kind]*languages{}, layout: newLayout()}
	for _, d := range Descriptions() {
		set.kinds[d.Kind] = &languages{}
	}
	place := func(tag language.Tag) int {
		if i := slices.Index(order, tag); i >= 0 {
			return i
		}
		return len(order)
	}
	for _, id := range slices.SortedFunc(maps.Keys(mails), func(a, b id) int {
		return cmp.Or(cmp.Compare(place(a.locale), place(b.locale)), compareIDs(a, b))
	}) {
		l := set.kinds[id.kind]
		l.tags, l.mails, l.builtIn = append(l.tags, id.locale), append(l.mails, mails[id]), append(l.builtIn, builtIn[id])
	}
	matchers := map[string]language.Matcher{} // by tags: most kinds have the same, and a matcher takes long to make
	for _, l := range set.kinds {
		tags := fmt.Sprint(l.tags)
		if matchers[tags] == nil {
			matchers[tags] = language.NewMatcher(l.tags)
		}
		l.matcher = matchers[tags]
	}
	return set
}

// Write writes a mail in the language of the kind that fits the reader best, the set's first one if
// none does. The locale is a tag (BCP 47), or several as in Accept-Language, the best one
// first. Subject, text and HTML are in the same language. An error means that a
// template fails with this letter, although it did not with the samples. The mail is then
// the built-in one of the same language, or of another one; it is empty if that fails, too.
func (s *Set) Write(k Kind, locale string, l Letter) (subject, text, html string, err error) {
	languages, ok := s.kinds[k]
	if !ok {
		return "", "", "", CheckKind(k)
	}
	index, _ := languages.best(locale)
	subject, text, html, err = languages.mails[index].write(s.layout, languages.tags[index], l)
	if err == nil {
		return subject, text, html, nil
	}
	if languages.builtIn[index].text == nil {
		index = slices.IndexFunc(languages.builtIn, func(m mail) bool { return m.text != nil })
	}
	subject, text, html, _ = languages.builtIn[index].write(s.layout, languages.tags[index], l)
	return subject, text, html, err
}

// Locales returns the languages in which the set has a kind.
func (s *Set) Locales(k Kind) (locales []string) {
	languages, ok := s.kinds[k]
	if !ok {
		return nil
	}
	for _, tag := range languages.tags {
		locales = append(locales, tag.String())
	}
	return locales
}

// best returns the index of the language for a reader. CLDR lists languages that speakers
// of another understand, such as Russian for Kazakh. Such a substitute is used only if the
// mail exists in none of the languages that the reader named. It returns 0 and false if no
// language fits.
func (l *languages) best(locale string) (index int, ok bool) {
	readers, _, err := language.ParseAcceptLanguage(locale)
	if err != nil {
		return 0, false
	}
	for _, reader := range readers {
		_, i, confidence := l.matcher.Match(reader)
		wanted, _ := reader.Base()
		found, _ := l.tags[i].Base()
		switch {
		case confidence == language.No:
		case confidence == language.Exact || wanted == found:
			return i, true
		case !ok:
			index, ok = i, true
		}
	}
	return index, ok
}

// CheckLocale returns an error that names the locales of a kind if the locale is not
// valid, or none of them fits it.
func (s *Set) CheckLocale(k Kind, locale string) error {
	languages, ok := s.kinds[k]
	if !ok {
		return CheckKind(k)
	}
	if _, err := parseLocale(locale); err != nil {
		return err
	}
	if _, ok := languages.best(locale); ok {
		return nil
	}
	return fmt.Errorf("there is no mail %s in %q, its reader gets %s: the locales are %s", k, locale, s.Locales(k)[0], strings.Join(s.Locales(k), ", "))
}
