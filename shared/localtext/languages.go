// Package localtext reads the texts of a program by language: built-in ones, and those of a site in place of them or
// in other languages.
package localtext

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"golang.org/x/text/language"

	"github.com/cms-personal/personal/shared/internal/jsontext"
)

// Source reads the texts of each language by their keys, see [Source.Read].
type Source struct {
	// BuiltIn are folders with a file LOCALE.json, an object of texts, for each language that the program has; en.json has
	// all keys. A text of a later folder replaces one of an earlier folder. Only the files that are needed are read.
	BuiltIn []fs.FS

	// Own, which may be nil, has files of the same form. Their texts replace built-in ones, or are in another language.
	// Names that begin with a dot are ignored.
	Own fs.FS

	// Needed are languages that are read even if they have no file: they have the texts of others then.
	Needed []string

	// Default is the language for texts that a language lacks, and that none of its parents has: de-AT, then de, then
	// Default, then en.
	Default string
}

// Texts are the texts of a language by their keys.
type Texts map[string]Text

// english is the language whose texts stand for those that no other has. Its placeholders are those of all languages.
const english = "en"

// Read returns the texts of each language that is needed or has a file in Own, all with the same keys, and the
// keys, in alphabetical order, for which a language has the text of another one that is not its parent.
//
// The error names everything that is wrong, with the file and the key: invalid JSON, a file
// name that is not a BCP 47 tag, a value that is not a text, an empty text, a repeated or
// unknown key, and placeholders that are not those of the English text.
func (l Source) Read() (all map[string]Texts, missing map[string][]string, err error) {
	var errs []error
	own := map[string]Texts{}
	if l.Own != nil {
		own, err = readFolder(l.Own)
		errs = append(errs, err)
	}
	wanted := append(slices.Sorted(maps.Keys(own)), l.Needed...)
	l.Default = cmp.Or(l.Default, english)
	read := map[string]Texts{} // with the languages whose texts may stand for others
	for _, locale := range append(slices.Clone(wanted), l.Default, english) {
		for _, locale := range append([]string{locale}, Parents(locale)...) {
			if _, done := read[locale]; done {
				continue
			}
			if read[locale], err = l.builtIn(locale); err != nil {
				return nil, nil, err
			}
		}
	}
	keys := maps.Clone(read[english])
	for _, locale := range slices.Sorted(maps.Keys(own)) {
		errs = append(errs, own[locale].check(locale, keys))
		maps.Copy(read[locale], own[locale])
	}
	all, missing = map[string]Texts{}, map[string][]string{}
	for _, locale := range wanted {
		all[locale] = maps.Clone(read[locale])
		fill := func(others ...string) {
			for _, key := range lacks(keys, all[locale]) {
				if i := slices.IndexFunc(others, func(other string) bool { return read[other][key] != Text{} }); i >= 0 {
					all[locale][key] = read[others[i]][key]
				}
			}
		}
		fill(Parents(locale)...)
		if lacking := lacks(keys, all[locale]); len(lacking) > 0 {
			missing[locale] = lacking
		}
		fill(append(append([]string{l.Default}, Parents(l.Default)...), english)...)
	}
	return all, missing, errors.Join(errs...)
}

// builtIn returns the built-in texts of a language; none if it has no file.
func (l Source) builtIn(locale string) (Texts, error) {
	all := Texts{}
	for _, folder := range l.BuiltIn {
		data, err := fs.ReadFile(folder, locale+".json")
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading texts: %w", err)
		}
		texts, wrong := parseTexts(language.Make(locale), data)
		if err := errors.Join(wrong...); err != nil {
			return nil, fmt.Errorf("%s.json: %w", locale, err)
		}
		maps.Copy(all, texts)
	}
	return all, nil
}

// check returns an error for every text that has no English one, or other placeholders.
func (t Texts) check(locale string, keys Texts) error {
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(t)) {
		if in, known := keys[key]; !known {
			errs = append(errs, fmt.Errorf("%s.json: there is no text with the key %q", locale, key))
		} else if err := t[key].check(in); err != nil {
			errs = append(errs, fmt.Errorf("%s.json: the text %q %w", locale, key, err))
		}
	}
	return errors.Join(errs...)
}

// Parents returns the languages that are more general than another one, the nearest first: en-001 and en for en-GB.
func Parents(locale string) (more []string) {
	for tag := language.Make(locale).Parent(); tag != language.Und; tag = tag.Parent() {
		more = append(more, tag.String())
	}
	return more
}

// lacks returns the keys for which a language has no text, in alphabetical order.
func lacks(keys, texts Texts) (missing []string) {
	for key := range keys {
		if _, ok := texts[key]; !ok {
			missing = append(missing, key)
		}
	}
	slices.Sort(missing)
	return missing
}

// LogMissing logs, for each language, how many of some texts it lacks, and the first of them.
func LogMissing(log *slog.Logger, what string, missing map[string][]string) {
	for _, locale := range slices.Sorted(maps.Keys(missing)) {
		log.Info("texts are missing: they are shown in another language", "texts", what, "language", locale, "missing", len(missing[locale]),
			"first", missing[locale][0])
	}
}

// readFolder reads the files of a folder by their locales. Of an invalid file it returns what it
// could read.
func readFolder(folder fs.FS) (map[string]Texts, error) {
	entries, err := fs.ReadDir(folder, ".")
	if err != nil {
		return nil, fmt.Errorf("listing the files with texts: %w", err)
	}
	all := map[string]Texts{}
	var errs []error
	for _, entry := range entries {
		name := entry.Name()
		if strings.HasPrefix(name, ".") {
			continue
		}
		locale, ok := strings.CutSuffix(name, ".json")
		tag, err := language.Parse(locale)
		switch {
		case !ok || entry.IsDir() || err != nil || tag == language.Und:
			errs = append(errs, fmt.Errorf("%s: the name is not a BCP 47 tag with .json, such as de.json or pt-BR.json", name))
			continue
		case tag.String() != locale:
			errs = append(errs, fmt.Errorf("%s: name it %s.json", name, tag))
			continue
		}
		data, err := fs.ReadFile(folder, name)
		if err != nil {
			errs = append(errs, fmt.Errorf("reading texts: %w", err))
			continue
		}
		texts, wrong := parseTexts(tag, data)
		for _, err := range wrong {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		if texts != nil {
			all[locale] = texts
		}
	}
	return all, errors.Join(errs...)
}

// parseTexts reads an object of texts in a language. It returns nil for other JSON. Keys that begin with _ are
// notes: who has translated the file, for example.
func parseTexts(tag language.Tag, data []byte) (texts Texts, wrong []error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // of an editor
	if err := jsontext.Check(data); err != nil {
		return nil, []error{err}
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return nil, []error{errors.New("not a JSON object")}
	}
	texts = Texts{}
	for d.More() {
		var value any
		token, err := d.Token()
		if err == nil {
			err = d.Decode(&value)
		}
		if err != nil { // jsontext.Check has accepted it
			return nil, append(wrong, err)
		}
		key, _ := token.(string)
		if strings.HasPrefix(key, "_") {
			continue
		}
		if _, repeated := texts[key]; repeated {
			wrong = append(wrong, fmt.Errorf("the key %q is given twice", key))
		}
		text, err := parseText(tag, value)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("the text %q %w", key, err))
		}
		texts[key] = text
	}
	return texts, wrong
}

// Direction returns the direction in which a language is written, as in HTML's dir.
func Direction(locale string) string {
	script, _ := language.Make(locale).Script()
	if slices.Contains([]string{"Adlm", "Arab", "Hebr", "Nkoo", "Rohg", "Syrc", "Thaa"}, script.String()) {
		return "rtl"
	}
	return "ltr"
}

// ValidLanguages returns the languages of a list in the form of Accept-Language that are valid, as
// many of the first ones as fit into limit bytes.
func ValidLanguages(list string, limit int) string {
	if _, _, err := language.ParseAcceptLanguage(list); err == nil && len(list) <= limit {
		return list
	}
	kept := ""
	for reader := range strings.SplitSeq(list, ",") {
		tags, _, err := language.ParseAcceptLanguage(reader)
		switch {
		case err != nil || len(tags) == 0:
			continue
		case kept != "":
			reader = kept + "," + reader
		}
		if len(reader) > limit {
			break
		}
		kept = strings.TrimSpace(reader)
	}
	return kept
}
