package transfer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cms-personal/personal/internal/transfer/dump"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

// jsonRecords reads NDJSON: one object on each line.
type jsonRecords struct {
	lines  *lines
	fields map[string]bool // user fields that are columns
}

func newNDJSON(file io.Reader, schema *userfields.Schema) (*jsonRecords, error) {
	j := &jsonRecords{lines: newLines(file), fields: fieldNames(schema)}
	head, _ := j.lines.r.Peek(64)
	switch head = bytes.TrimLeft(head, " \t\r\n"); {
	case bytes.HasPrefix(head, []byte("[")):
		return nil, errors.New("the file is a list of JSON, and NDJSON has one object in each line: write it with jq -c '.[]' FILE")
	case bytes.HasPrefix(head, []byte("{\n")), bytes.HasPrefix(head, []byte("{\r\n")):
		return nil, errors.New("the JSON has objects over several lines, and NDJSON has one in each line: write it with jq -c . FILE")
	}
	return j, nil
}

func (*jsonRecords) close() error { return nil }

func (j *jsonRecords) next() (record, error) {
	for {
		line, err := j.lines.next()
		if errors.Is(err, errTooLong) {
			return record{line: j.lines.number, end: j.lines.offset, invalid: err.Error()}, nil
		}
		if err != nil {
			return record{}, err
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		r, err := j.parse(line)
		if err != nil {
			r.invalid = err.Error()
		}
		r.line, r.end = j.lines.number, j.lines.offset
		return r, nil
	}
}

var errTooDeep = fmt.Errorf("nested more than %d levels deep", dump.MaxDepth)

var errNoObject = errors.New("not a JSON object")

// parse parses an object by its tokens, because encoding/json accepts repeated names.
// Errors hold no values.
func (j *jsonRecords) parse(line []byte) (r record, err error) {
	if !utf8.Valid(line) {
		return r, errors.New("not UTF-8")
	}
	if dump.TooDeep(line) {
		return r, errTooDeep
	}
	if halfPair(line) {
		return r, errors.New("a \\u escape of half a character: write it as UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(line))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return r, errNoObject
	}
	r.columns = map[string]personal.Input{}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		var value json.RawMessage
		if err != nil || !ok || d.Decode(&value) != nil {
			return r, errNoObject
		}
		if seen[name] {
			return r, fmt.Errorf("%.40q is repeated", name)
		}
		seen[name] = true
		switch name {
		case columnFactor:
			r.factor = value
		case columnPasskeys:
			r.keys = value
		case columnIdentity:
			r.identities = value
		}
		if name == columnFields {
			err = j.readFields(&r, value)
		} else {
			err = read(r.columns, name, value)
		}
		if err != nil {
			return r, err
		}
	}
	if _, err := d.Token(); err != nil {
		return r, errNoObject
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return r, errors.New("text follows the JSON object")
	}
	return r, j.checkNames(r)
}

// escapes matches the escapes of JSON that matter here: a pair of UTF-16, half of one (the group), a backslash.
var escapes = regexp.MustCompile(`\\u[dD][89abAB][[:xdigit:]]{2}\\u[dD][c-fC-F][[:xdigit:]]{2}|(\\u[dD][89a-fA-F][[:xdigit:]]{2})|\\\\`)

// halfPair reports whether JSON has an escape of UTF-16 for half a character, which encoding/json would
// replace.
func halfPair(text []byte) bool {
	return bytes.Contains(text, []byte(`\u`)) &&
		slices.ContainsFunc(escapes.FindAllSubmatchIndex(text, -1), func(m []int) bool { return m[2] >= 0 })
}

// read reads a value into columns.
func read(columns map[string]personal.Input, name string, value json.RawMessage) error {
	var in personal.Input
	if err := json.Unmarshal(value, &in); err != nil {
		return errNoObject
	}
	columns[name] = in
	return nil
}

// inFields says how to import a user field that has the name of a column.
const inFields = `write NDJSON, with the user fields in an object "fields"`

// checkNames returns an error if a name is in the object and in its fields, or is that
// of a column and of a user field, while no object fields tells them apart.
func (j *jsonRecords) checkNames(r record) error {
	for name := range r.columns {
		_, twice := r.fields[name]
		switch {
		case !isColumn(name) && twice:
			return fmt.Errorf("%.40q is repeated", name)
		case isColumn(name) && j.fields[name] && r.fields == nil:
			return fmt.Errorf("%s: a user field has this name, too: "+inFields, name)
		}
	}
	return nil
}

// readFields reads the user fields of an export. Those of the schema are columns and
// are checked. All others are imported unchecked: the schema may have changed since
// they were stored.
func (j *jsonRecords) readFields(r *record, value json.RawMessage) (err error) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(value, &fields) != nil {
		return errors.New("fields: not an object")
	}
	r.fields, r.stored = map[string]personal.Input{}, userfields.Values{}
	for name, value := range fields {
		if j.fields[name] {
			err = read(r.fields, name, value)
		} else {
			r.stored[name], err = storable(name, userfields.DecodeValue(value))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// storable returns a value that is imported unchecked, or an error if a database
// cannot store it.
func storable(name string, value any) (any, error) {
	raw, _ := value.(json.RawMessage)
	var numbers any
	switch p, err := plain(value); {
	case err == nil:
		value = p
	case json.Unmarshal(raw, &numbers) != nil: // one that is too large
		return nil, errors.New("fields: a value has no type of user fields")
	} // else it is stored as written: a later version may have such fields
	texts, _ := value.([]string)
	switch v := value.(type) {
	case string:
		texts = []string{v}
	case json.RawMessage:
		texts = []string{strings.ReplaceAll(string(v), `\u0000`, "\x00")}
	}
	if slices.ContainsFunc(append(texts, name), func(s string) bool { return strings.Contains(s, "\x00") }) {
		return nil, errors.New("fields: a NUL, which PostgreSQL cannot store")
	}
	return value, nil
}
