package localtext

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/text/feature/plural"
	"golang.org/x/text/language"
)

// Text is a text of a language, in package fmt's format if it has placeholders. It may have a form for each category
// of numbers that the language has (CLDR, Language Plural Rules).
type Text struct {
	other string
	forms *forms // nil: other is for every number
}

// forms are the forms of a text for the numbers of some categories; Text.other is for all others.
type forms struct {
	language   language.Tag
	byCategory map[plural.Form]string
}

// Plain returns a text with one form.
func Plain(text string) Text { return Text{other: text} }

// String returns the text; of one with several forms, the one for most numbers.
func (t Text) String() string { return t.other }

// Format returns the text with arguments in place of its placeholders, in the form for the first of them that is a
// number.
func (t Text) Format(args ...any) string {
	format := t.other
	if t.forms != nil {
		n := firstNumber(args)
		category := plural.Cardinal.MatchPlural(t.forms.language, int(max(n, -n)), 0, 0, 0, 0)
		if form, ok := t.forms.byCategory[category]; ok {
			format = form
		}
	}
	return fmt.Sprintf(format, args...)
}

func firstNumber(args []any) int64 {
	for _, arg := range args {
		switch n := arg.(type) {
		case int:
			return int64(n)
		case int64:
			return n
		}
	}
	return 0
}

// categories are the names that CLDR gives to the categories.
func categories() map[string]plural.Form {
	return map[string]plural.Form{
		"zero": plural.Zero, "one": plural.One, "two": plural.Two, "few": plural.Few, "many": plural.Many, "other": plural.Other,
	}
}

// parseText reads a text, or an object with a text for each category. Its errors complete a sentence that begins with
// the key.
func parseText(tag language.Tag, value any) (Text, error) {
	switch value := value.(type) {
	case string:
		if value == "" {
			return Text{}, errors.New("is empty")
		}
		return Text{other: value}, nil
	case map[string]any:
		t, all := Text{forms: &forms{language: tag, byCategory: map[plural.Form]string{}}}, categories()
		for _, name := range slices.Sorted(maps.Keys(value)) {
			form, ok := value[name].(string)
			category, known := all[name]
			switch {
			case !known:
				return Text{}, fmt.Errorf("has a form %q: the forms are %s", name, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
			case !ok || form == "":
				return Text{}, fmt.Errorf("has no text in its form %q", name)
			case category == plural.Other:
				t.other = form
			default:
				t.forms.byCategory[category] = form
			}
		}
		if t.other == "" {
			return Text{}, errors.New("has no form \"other\"")
		}
		return t, nil
	}
	return Text{}, errors.New("is not a text")
}

// MarshalJSON implements [json.Marshaler]: it writes a text as [Source] reads it.
func (t Text) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if t.forms == nil {
		err := e.Encode(t.other)
		return b.Bytes(), err
	}
	written := map[string]string{"other": t.other}
	for name, category := range categories() {
		if form, ok := t.forms.byCategory[category]; ok {
			written[name] = form
		}
	}
	err := e.Encode(written)
	return b.Bytes(), err
}

// all returns the forms of the text.
func (t Text) all() []string {
	if t.forms == nil {
		return []string{t.other}
	}
	return append(slices.Collect(maps.Values(t.forms.byCategory)), t.other)
}

// check returns an error for a text that does not have the placeholders of the English one: %s and %d or, with
// their positions, %[1]s. With positions it may leave some out. In a text that has none in English, a per cent sign is one.
// The error completes a sentence that begins with the key.
func (t Text) check(in Text) error {
	if t == (Text{}) { // its error is known
		return nil
	}
	want := placeholders(in.other)
	if t.forms != nil && !slices.Contains(slices.Collect(maps.Values(want)), "d") {
		return errors.New("has forms for numbers, but no number is in it")
	}
	for _, form := range t.all() {
		got := placeholders(form)
		fits := len(want) == 0 || len(got) == len(want) || strings.Contains(form, "%[")
		for at, verb := range got {
			fits = fits && (len(want) == 0 || want[at] == verb)
		}
		if !fits {
			return errors.New("must have the placeholders " + strings.Join(placeholder.FindAllString(in.other, -1), " "))
		}
	}
	return nil
}

var placeholder = regexp.MustCompile(`%(?:\[([0-9]+)\])?([a-z])`)

// placeholders returns the verbs of a format by their positions, as package fmt counts them.
func placeholders(format string) map[int]string {
	verbs, at := map[int]string{}, 0
	for _, found := range placeholder.FindAllStringSubmatch(strings.ReplaceAll(format, "%%", ""), -1) {
		at++
		if n, err := strconv.Atoi(found[1]); err == nil {
			at = n
		}
		verbs[at] = found[2]
	}
	return verbs
}
