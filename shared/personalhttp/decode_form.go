package personalhttp

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cms-personal/personal/shared/personal"
)

// decodeForm reads application/x-www-form-urlencoded.
func decodeForm(body []byte) (params, error) {
	values, err := url.ParseQuery(string(body)) // refuses semicolons and broken escapes
	if err != nil {
		return nil, malformed(errors.New("the form cannot be read")) // the error itself quotes the body
	}
	return formParams(values)
}

// formParams turns a form's values into parameters. A name ending in [] is a
// list; a form that has a name both with and without it is ambiguous.
func formParams(values map[string][]string) (params, error) {
	p := make(params, len(values))
	for name, texts := range values {
		if !utf8.ValidString(name) || slices.ContainsFunc(texts, isNotUTF8) {
			return nil, malformed(errors.New("the form is not UTF-8"))
		}
		plain, isList := strings.CutSuffix(name, "[]")
		if _, both := values[plain]; isList && both {
			return nil, malformed(errors.New("a parameter was given both as a text and as a list"))
		}
		p[plain] = formInput(texts, isList)
	}
	return p, nil
}

func isNotUTF8(s string) bool { return !utf8.ValidString(s) }

// formInput takes empty texts as not set. A repeated name stays repeated even
// when nothing is in it: only the type of the parameter tells whether that is
// a list or a malformed scalar.
func formInput(texts []string, isList bool) personal.Input {
	if !isList && len(texts) == 1 {
		return personal.Text(texts[0])
	}
	filled := slices.DeleteFunc(texts, func(s string) bool { return s == "" })
	switch {
	case !isList:
		return personal.Input{Kind: personal.InputRepeated, List: filled}
	case len(filled) == 0:
		return personal.Input{}
	}
	return personal.Input{Kind: personal.InputList, List: filled}
}
