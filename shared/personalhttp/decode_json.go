package personalhttp

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"unicode"
	"unicode/utf8"
)

// maxDepth bounds how deep JSON may nest; no parameter needs more than 2.
const maxDepth = 32

// decodeJSON reads one JSON object. It is stricter than encoding/json, which
// lets the last of several equal names win, matches names in any case and
// mends broken text: each is a way to have two readers disagree.
func decodeJSON(body []byte) (params, error) {
	switch {
	case !utf8.Valid(body), !json.Valid(body):
		return nil, malformed(errors.New("not one JSON value in UTF-8"))
	case bytes.TrimLeft(body, " \t\r\n")[0] != '{':
		return nil, malformed(errors.New("JSON other than an object"))
	case hasLoneSurrogate(body):
		return nil, malformed(errors.New("an unpaired surrogate in JSON"))
	}
	if err := checkNames(body); err != nil {
		return nil, malformed(err)
	}
	var p params
	if err := json.Unmarshal(body, &p); err != nil {
		return nil, malformed(errors.New("JSON that cannot be read"))
	}
	return p, nil
}

// checkNames refuses names that are equal but for their case, at any depth,
// and nesting beyond [maxDepth], in a valid JSON object.
func checkNames(body []byte) error {
	type level struct {
		names  map[string]bool // nil in a list
		isName bool            // the next token is one
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	levels := []level{{}} // around the object
	for {
		token, err := d.Token()
		if err != nil {
			return errors.New("JSON that cannot be read")
		}
		top := &levels[len(levels)-1]
		if name, ok := token.(string); ok && top.isName {
			key := foldCase(name)
			if top.names[key] {
				return errors.New("a JSON name given twice")
			}
			top.names[key], top.isName = true, false
			continue
		}
		top.isName = top.names != nil // a value ends, or begins, here
		switch token {
		case json.Delim('{'):
			levels = append(levels, level{names: map[string]bool{}, isName: true})
		case json.Delim('['):
			levels = append(levels, level{})
		case json.Delim('}'), json.Delim(']'):
			levels = levels[:len(levels)-1]
		}
		if len(levels) == 1 {
			return nil
		}
		if len(levels) > maxDepth+1 {
			return errors.New("JSON nested too deep")
		}
	}
}

// foldCase returns the same text for all texts that differ only in case.
func foldCase(s string) string {
	folded := make([]rune, 0, len(s))
	for _, r := range s {
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		folded = append(folded, least)
	}
	return string(folded)
}

// hasLoneSurrogate looks through the escapes of valid JSON, where a backslash
// stands in texts only, for half a UTF-16 pair: no character, and so no UTF-8.
func hasLoneSurrogate(valid []byte) bool {
	for i := 0; i < len(valid); i++ {
		if valid[i] != '\\' {
			continue
		}
		i++ // the letter of the escape
		switch unit := utf16Unit(valid[i-1:]); {
		case 0xD800 <= unit && unit < 0xDC00:
			if low := utf16Unit(valid[i+5:]); low < 0xDC00 || low > 0xDFFF {
				return true
			}
			i += 10 // to the end of the pair
		case 0xDC00 <= unit && unit < 0xE000:
			return true
		}
	}
	return false
}

// utf16Unit returns the code unit of the \u escape that b begins with, 0 if it
// begins with anything else.
func utf16Unit(b []byte) uint64 {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0
	}
	unit, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return 0
	}
	return unit
}
