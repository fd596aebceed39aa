package transfer

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cms-personal/personal/internal/transfer/dump"
)

// read reads the dump and sends the rows.
func (w *stager) read(file io.Reader) error {
	var err error
	if w.system.realm {
		w.Marked, err = true, w.readRealm(file)
	} else {
		w.Marked, err = dump.ReadSQL(file, w.open)
	}
	if err == nil {
		err = w.flushAll()
	}
	return err
}

// prefix returns what was found of the tables with a prefix, nil if it is not wanted.
func (w *stager) prefix(prefix string) (*staging, error) {
	if w.move.Prefix != nil && *w.move.Prefix != prefix {
		return nil, nil
	}
	p := w.prefixes[prefix]
	if p == nil {
		if len(w.prefixes) == maxPrefixes {
			return nil, fmt.Errorf("the dump has tables of %s with more than %d prefixes: give --prefix", w.system.name, maxPrefixes)
		}
		p = &staging{number: len(w.prefixes), keys: map[string]*int64{}}
		w.prefixes[prefix] = p
	}
	return p, nil
}

// open implements [dump.Open].
func (w *stager) open(name string, columns []string) (*dump.Table, error) {
	has := func(names ...string) bool {
		return !slices.ContainsFunc(names, func(n string) bool { return !slices.Contains(columns, n) })
	}
	for _, end := range w.system.users {
		if prefix, ok := strings.CutSuffix(name, end); ok && has(w.system.required...) {
			return w.openUsers(prefix, columns)
		}
	}
	for _, a := range w.system.attributes {
		prefix, key, ok := a.match(name)
		a.value = strings.ReplaceAll(a.value, "*", key)
		if end, any := strings.CutPrefix(a.user, "*"); any {
			if i := slices.IndexFunc(columns, func(c string) bool { return strings.HasSuffix(c, end) }); i >= 0 {
				a.user = columns[i]
			}
		}
		wanted := slices.DeleteFunc([]string{a.user, a.value, a.key}, func(c string) bool { return c == "" })
		if ok && has(wanted...) {
			a.only = slices.DeleteFunc(slices.Clone(a.only), func(o [2]string) bool { return !has(o[0]) })
			for _, o := range a.only {
				wanted = append(wanted, o[0])
			}
			return w.openAttributes(prefix, key, a, wanted)
		}
	}
	return nil, nil
}

func (w *stager) openUsers(prefix string, columns []string) (*dump.Table, error) {
	p, err := w.prefix(prefix)
	if p == nil || err != nil {
		return nil, err
	}
	if p.users != nil {
		return nil, fmt.Errorf("the dump has two tables of %s's users with the prefix %q: dump one of them", w.system.name, prefix)
	}
	if p.users, err = w.table(fmt.Sprintf("users_%d", p.number), w.system.staged()); err != nil {
		return nil, err
	}
	staged := w.system.staged()
	wanted := slices.DeleteFunc(slices.Clone(staged), func(c string) bool { return !slices.Contains(columns, c) })
	places := make([]int, len(wanted))
	for i, c := range wanted {
		places[i] = slices.Index(staged, c)
	}
	for _, c := range columns { // those that only this site has
		switch {
		case slices.Contains(staged, c) || !utf8.ValidString(c):
		case w.wanted[c]:
			wanted = append(wanted, c)
		default:
			w.count(p, []byte(c), 0)
		}
	}
	row := make([]any, len(staged))
	return &dump.Table{Columns: wanted, Row: func(line int, values []dump.Value) error {
		for i, place := range places {
			row[place] = cell(values[i])
		}
		for i := len(places); i < len(wanted); i++ {
			if err := w.attribute(p, line, values[0].Text, []byte(wanted[i]), values[i], false); err != nil {
				return err
			}
		}
		return w.add(p.users, line, row...)
	}}, nil
}

func (w *stager) openAttributes(prefix, key string, a attributes, wanted []string) (*dump.Table, error) {
	p, err := w.prefix(prefix)
	if p == nil || err != nil {
		return nil, err
	}
	ofTable := []byte(key)
	if key != roles {
		ofTable = dump.Judge(ofTable).Text
	}
	ofRoles := ""
	if w.wanted[roles] && w.system.roles != "" {
		ofRoles = prefix + w.system.roles
	}
	return &dump.Table{Columns: wanted, Row: func(line int, values []dump.Value) error {
		for i, o := range a.only {
			if string(values[len(values)-len(a.only)+i].Text) != o[1] {
				return nil
			}
		}
		name := ofTable
		if a.key != "" {
			name = values[2].Text
		}
		if a.before != "" && name != nil {
			name = append([]byte(a.before), name...)
		}
		if ofRoles != "" && string(name) == ofRoles {
			if err := w.attribute(p, line, values[0].Text, []byte(roles), values[1], false); err != nil {
				return err
			}
		}
		return w.attribute(p, line, values[0].Text, name, values[1], a.json)
	}}, nil
}

// cell returns a value as it is staged: a text, NULL, or if it is bad the reason as a blob.
func cell(v dump.Value) any {
	switch {
	case v.Bad != "":
		return []byte(v.Bad)
	case v.Text == nil:
		return nil
	}
	return string(v.Text)
}

// decoded returns the value of an attribute that is JSON. What is no string stays as it is.
func decoded(value []byte) dump.Value {
	var text string
	if !dump.TooDeep(value) && json.Unmarshal(value, &text) == nil {
		return dump.Judge([]byte(text))
	}
	return dump.Value{Text: value}
}

// count adds to the number of values of a key.
func (w *stager) count(p *staging, key []byte, values int64) {
	n := p.keys[string(key)]
	if n == nil && (w.wanted[string(key)] || w.keys < maxAllKeys && len(p.keys) < maxKeys && len(key) <= maxKey) {
		w.keys++
		n = new(int64)
		p.keys[string(key)] = n
	}
	if n != nil {
		*n += values
	}
}

// attribute counts a value of a user, and stages it if it is wanted. Without a user or a key, also if
// these are bad, it is that of none.
func (w *stager) attribute(p *staging, line int, user, key []byte, value dump.Value, isJSON bool) error {
	if len(user) == 0 || len(key) == 0 || len(value.Text) == 0 && value.Bad == "" {
		return nil
	}
	w.count(p, key, 1)
	if !w.wanted[string(key)] {
		return nil
	}
	if p.attributes == nil {
		var err error
		if p.attributes, err = w.table(fmt.Sprintf("attributes_%d", p.number), []string{"user", "key", "value"}); err != nil {
			return err
		}
	}
	text := cell(value)
	if value.Bad == "" && isJSON {
		text = cell(decoded(value.Text))
	}
	return w.add(p.attributes, line, string(user), string(key), text)
}
