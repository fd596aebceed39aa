package jsontext

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"golang.org/x/text/language"
)

// Languages reads the texts of each language by their keys, see [Languages.Read].
type Languages struct {
	// BuiltIn are folders with a file LOCALE.json, an object of texts, for each language that the program has; all
	// languages have the same keys. A text of a later folder replaces one of an earlier folder.
	BuiltIn []fs.FS

	// Own, which may be nil, has files of the same form. Their texts replace built-in ones, or are in another language.
	// Names that begin with a dot are ignored.
	Own fs.FS

	// Needed are languages that need no file.
	Needed []string

	// Default is the language for texts that a language lacks, and that none of its parents has: de-AT, then de, then
	// Default, then en.
	Default string
}

// Read returns the texts of each language that has a file or is needed, all with the same keys, and the keys, in
// alphabetical order, for which a language has the text of another one.
//
// The error names everything that is wrong, with the file and the key: invalid JSON, a file
// name that is not a BCP 47 tag, a value that is not a text, an empty text, a repeated or
// unknown key, and the keys that a built-in language lacks.
func (l Languages) Read() (all map[string]map[string]string, missing map[string][]string, err error) {
	all = map[string]map[string]string{}
	for _, folder := range l.BuiltIn {
		read, err := readAll(folder)
		if err != nil {
			return nil, nil, err
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
		if lacking := lacks(keys, texts); len(lacking) > 0 {
			errs = append(errs, fmt.Errorf("%s.json: texts are missing: %s", locale, strings.Join(lacking, ", ")))
		}
	}
	if l.Own != nil {
		own, err := readAll(l.Own)
		errs = append(errs, err)
		for _, locale := range slices.Sorted(maps.Keys(own)) {
			for _, key := range slices.Sorted(maps.Keys(own[locale])) {
				if _, known := keys[key]; !known {
					errs = append(errs, fmt.Errorf("%s.json: there is no text with the key %q", locale, key))
				}
			}
			if all[locale] == nil {
				all[locale] = map[string]string{}
			}
			maps.Copy(all[locale], own[locale])
		}
	}
	for _, locale := range l.Needed {
		if all[locale] == nil {
			all[locale] = map[string]string{}
		}
	}
	missing = map[string][]string{}
	for locale, texts := range all {
		if lacking := lacks(keys, texts); len(lacking) > 0 {
			missing[locale] = lacking
		}
	}
	for locale, lacking := range missing {
		others := append(append(Parents(locale), l.Default), append(Parents(l.Default), "en")...)
		for _, key := range lacking {
			for _, other := range others {
				if text, ok := all[other][key]; ok {
					all[locale][key] = text
					break
				}
			}
		}
	}
	return all, missing, errors.Join(errs...)
}

// Parents returns the languages that are more general than another one, the nearest first: en-001 and en for en-GB.
func Parents(locale string) (more []string) {
	for tag := language.Make(locale).Parent(); tag != language.Und; tag = tag.Parent() {
		more = append(more, tag.String())
	}
	return more
}

// lacks returns the keys for which a language has no text, in alphabetical order.
func lacks(keys, texts map[string]string) (missing []string) {
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
