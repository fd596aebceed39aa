package transfer

import (
	"encoding/json"
	"fmt"
	"html"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"

	"github.com/cms-personal/personal/internal/transfer/dump"
	"github.com/cms-personal/personal/shared/personal"
)

// undoubled returns a text whose UTF-8 was encoded a second time, which gives JÃ¼rgen for Jürgen: something
// took each of its bytes for a letter of Windows-1252, which MySQL calls latin1. It returns false for every
// other text.
func undoubled(text string) (meant string, ok bool) {
	if !strings.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return text, false
	}
	encoded := make([]byte, 0, len(text))
	for _, r := range text {
		b, ok := charmap.Windows1252.EncodeRune(r)
		if !ok && 0x80 <= r && r < 0xa0 { // five bytes are no letter, and stay as they are
			b, ok = byte(r), true
		}
		if !ok {
			return text, false
		}
		encoded = append(encoded, b)
	}
	meant = string(encoded)
	return meant, utf8.Valid(encoded) && !strings.ContainsFunc(meant, rareInNames)
}

// rareInNames reports whether two letters of Windows-1252 that stand for it are likelier than the letter: those of
// JOSÉ’S would be the ɒ of the phonetic alphabet.
func rareInNames(r rune) bool { return 0x180 <= r && r < 0x370 || 0x460 <= r && r < 0x590 }

// asHTML is a character reference that HTML needs in texts.
var asHTML = regexp.MustCompile(`&(?:amp|lt|gt|quot|apos|nbsp|#[0-9]{1,6}|#x[0-9A-Fa-f]{1,5});`)

// unescaped returns a text that the other system has escaped as HTML, once.
func unescaped(text string) (meant string, ok bool) {
	if !strings.Contains(text, "&") || !asHTML.MatchString(text) {
		return text, false
	}
	return asHTML.ReplaceAllStringFunc(text, html.UnescapeString), true
}

// mending says which texts are replaced by what was meant.
type mending struct{ utf8, html bool }

// mend looks in the columns that hold texts for what other systems did to these, remembers the first, and
// replaces those that m says.
func (r *record) mend(m mending) {
	for _, columns := range []map[string]personal.Input{r.columns, r.fields} {
		for name, in := range columns {
			if name == columnHash || name == columnSalt || name == columnForm {
				continue
			}
			before := in.Text
			in.Text = m.mended(r, in.Text)
			r.changed = r.changed || in.Text != before && (name == columnLogin || name == columnEmail)
			for i, item := range in.List {
				in.List[i] = m.mended(r, item)
			}
			columns[name] = in
		}
	}
}

func (m mending) mended(r *record, text string) string {
	for _, kind := range []struct {
		meant func(string) (string, bool)
		found *string
		mend  bool
	}{{undoubled, &r.doubled, m.utf8}, {unescaped, &r.escaped, m.html}} {
		meant, ok := kind.meant(text)
		if !ok {
			continue
		}
		if *kind.found == "" {
			*kind.found = fmt.Sprintf("%.40q for %.40q", text, meant)
		}
		if kind.mend {
			text = meant
		}
	}
	return text
}

// mendingRecords are the records of a file, see [record.mend].
type mendingRecords struct {
	records
	mending
}

func (m mendingRecords) next() (record, error) {
	r, err := m.records.next()
	r.mend(m.mending)
	return r, err
}

// ofPHP is how PHP's serialize writes lists and objects.
var ofPHP = regexp.MustCompile(`\A(?:a:[0-9]+:\{|O:[0-9]+:")`)

// expand returns the items of a list that PHP has written, or JSON if the field is a list; of another text that
// text. It returns false for what holds more than texts, numbers and booleans. See phpReader.items for keys.
func expand(text string, isList, keys bool) (items []string, ok bool) {
	if text == "" {
		return nil, true
	}
	if isList && strings.HasPrefix(text, "[") && !dump.TooDeep([]byte(text)) && json.Unmarshal([]byte(text), &items) == nil {
		return items, true
	}
	if !ofPHP.MatchString(text) {
		return []string{text}, true
	}
	p := phpReader{rest: text}
	items, ok = p.items(keys)
	return items, ok && p.rest == ""
}

// phpReader reads a value of PHP's serialize.
type phpReader struct{ rest string }

// take removes a text that the rest begins with.
func (p *phpReader) take(text string) (ok bool) {
	p.rest, ok = strings.CutPrefix(p.rest, text)
	return ok
}

// upTo takes the text up to a mark, and the mark.
func (p *phpReader) upTo(mark string) (text string, ok bool) {
	text, p.rest, ok = strings.Cut(p.rest, mark)
	return text, ok
}

// items reads a list. A list of booleans is a set: its items are the keys that are true, and with keys those of
// every list, as WordPress reads roles.
func (p *phpReader) items(keys bool) (items []string, ok bool) {
	if !p.take("a:") {
		return nil, false
	}
	number, ok := p.upTo(":{")
	n, err := strconv.Atoi(number)
	if !ok || err != nil {
		return nil, false
	}
	var set []string
	isSet := n > 0
	for range n {
		key, _, okKey := p.scalar()
		value, kind, okValue := p.scalar()
		if !okKey || !okValue {
			return nil, false
		}
		isSet = isSet && (kind == 'b' || keys)
		if value != "false" && value != "0" && value != "" {
			set = append(set, key)
		}
		if value != "" {
			items = append(items, value)
		}
	}
	if isSet {
		items = set
	}
	return items, p.take("}")
}

// scalar reads a value that is no list. That of null is "".
func (p *phpReader) scalar() (text string, kind byte, ok bool) {
	if p.take("N;") {
		return "", 'N', true
	}
	if len(p.rest) < 2 || p.rest[1] != ':' {
		return "", 0, false
	}
	kind, p.rest = p.rest[0], p.rest[2:]
	switch kind {
	case 'i', 'd':
		text, ok = p.upTo(";")
		_, err := strconv.ParseFloat(text, 64)
		return text, kind, ok && err == nil
	case 'b':
		text, ok = p.upTo(";")
		return strconv.FormatBool(text == "1"), kind, ok && (text == "0" || text == "1")
	case 's':
		number, _ := p.upTo(`:"`)
		n, err := strconv.Atoi(number)
		if err != nil || n < 0 {
			return "", kind, false
		}
		for _, end := range []int{n, bytesOf(p.rest, n)} { // a dump in UTF-8 of a table in Latin-1 counts its letters
			if end <= len(p.rest) && strings.HasPrefix(p.rest[end:], `";`) {
				text, p.rest = p.rest[:end], p.rest[end+len(`";`):]
				return text, kind, true
			}
		}
	}
	return "", kind, false
}

// bytesOf returns the length in bytes of the first letters of a text.
func bytesOf(text string, letters int) int {
	for at := range text {
		if letters--; letters < 0 {
			return at
		}
	}
	return len(text)
}

// Role is a role of the other system that becomes a value of a user field.
type Role struct{ Theirs, Ours string }

// WithRoles returns the move with a user field for its roles, if it has some.
func (m Move) WithRoles() Move {
	of := findSystem(m.System)
	m.Fields = slices.Clone(m.Fields)
	for i, f := range m.Fields {
		if f.Theirs == theirName(roles) {
			m.Fields[i].Theirs = roles
		}
	}
	if len(m.Roles) > 0 && of != nil && !slices.ContainsFunc(m.Fields, func(f Mapped) bool { return of.isRole(f.Theirs) }) {
		m.Fields = append(m.Fields, Mapped{Theirs: roles, Ours: "role"})
	}
	return m
}

// translate returns what becomes of the roles of a user, in the order of the flags, which is that of their
// importance, and those of which nothing was said. Without flags they stay as they are.
func translate(roles []Role, theirs []string) (ours, left []string) {
	if len(roles) == 0 {
		return theirs, nil
	}
	known := map[string]bool{}
	for _, r := range roles {
		known[r.Theirs] = true
		if slices.Contains(theirs, r.Theirs) && r.Ours != "" && !slices.Contains(ours, r.Ours) {
			ours = append(ours, r.Ours)
		}
	}
	return ours, slices.DeleteFunc(slices.Clone(theirs), func(t string) bool { return known[t] })
}
