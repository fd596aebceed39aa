package jsontext

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"golang.org/x/text/language"
)

// Languages reads the texts of each language by their keys. Each folder of builtIn has a file
// LOCALE.json, an object of texts, for each language that the program has; all languages have
// the same keys. A text of a later folder replaces one of an earlier folder. own, which may be
// nil, has files of the same form: that of a built-in language replaces any of its texts, and
// that of another language has them all.
//
// The error names everything that is wrong, with the file and the key: invalid JSON, a file
// name that is not a BCP 47 tag, a value that is not a text, an empty text, a repeated or
// unknown key, and the keys that a language lacks. Names in own that begin with a dot are
// ignored.
func Languages(own fs.FS, builtIn ...fs.FS) (map[string]map[string]string, error) {
	all := map[string]map[string]string{}
	for _, folder := range builtIn {
		read, err := readAll(folder)
		if err != nil {
			return nil, err
		}
		for locale, texts := range read {
			if all[locale] == nil {
				all[locale] = map[string]string{}
			}
			maps.Copy(all[locale], texts)
		}
	}
	keys := map[string]string{} // the values do not count
	for _, texts := range all {
		maps.Copy(keys, texts)
	}
	var errs []error
	for locale, texts := range all {
		errs = append(errs, lacks(locale, keys, texts))
	}
	if own == nil {
		return all, errors.Join(errs...)
	}
	replaced, err := readAll(own)
	errs = append(errs, err)
	for _, locale := range slices.Sorted(maps.Keys(replaced)) {
		for _, key := range slices.Sorted(maps.Keys(replaced[locale])) {
			if _, known := keys[key]; !known {
				errs = append(errs, fmt.Errorf("%s.json: there is no text with the key %q", locale, key))
			}
		}
		if all[locale] == nil {
			all[locale] = map[string]string{}
			errs = append(errs, lacks(locale, keys, replaced[locale]))
		}
		maps.Copy(all[locale], replaced[locale])
	}
	return all, errors.Join(errs...)
}

// lacks returns an error that names the keys for which a language has no text.
func lacks(locale string, keys, texts map[string]string) error {
	var missing []string
	for key := range keys {
		if _, ok := texts[key]; !ok {
			missing = append(missing, key)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return fmt.Errorf("%s.json: texts are missing: %s", locale, strings.Join(missing, ", "))
}

// readAll reads the files of a folder by their locales. Of an invalid file it returns what it
// could read.
func readAll(folder fs.FS) (map[string]map[string]string, error) {
	entries, err := fs.ReadDir(folder, ".")
	if err != nil {
		return nil, fmt.Errorf("listing the files with texts: %w", err)
	}
	all := map[string]map[string]string{}
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
		texts, wrong := parseTexts(data)
		for _, err := range wrong {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		if texts != nil {
			all[locale] = texts
		}
	}
	return all, errors.Join(errs...)
}

// parseTexts reads an object of texts. The texts are nil if it is none.
func parseTexts(data []byte) (texts map[string]string, wrong []error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // of an editor
	if err := Check(data); err != nil {
		return nil, []error{err}
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return nil, []error{errors.New("not a JSON object")}
	}
	texts = map[string]string{}
	for d.More() {
		var value any
		token, err := d.Token()
		if err == nil {
			err = d.Decode(&value)
		}
		if err != nil { // Check has accepted it
			return nil, append(wrong, err)
		}
		key, _ := token.(string)
		text, isText := value.(string)
		_, repeated := texts[key]
		switch {
		case repeated:
			wrong = append(wrong, fmt.Errorf("the key %q is given twice", key))
		case !isText:
			wrong = append(wrong, fmt.Errorf("the value of %q is not a text", key))
		case text == "":
			wrong = append(wrong, fmt.Errorf("the text %q is empty", key))
		}
		texts[key] = text
	}
	return texts, wrong
}
