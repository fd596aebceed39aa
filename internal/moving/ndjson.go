package moving

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

// jsonRecords reads NDJSON: an object on each line.
type jsonRecords struct{ lines *lines }

func newNDJSON(file io.ReadSeeker, offset int64) (*jsonRecords, error) {
	l, err := linesFrom(file, offset)
	return &jsonRecords{l}, err
}

func (j *jsonRecords) next() (record, error) {
	for {
		line, err := j.lines.next()
		if err != nil {
			return record{}, err
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		r, err := parseObject(line)
		if err != nil {
			r.fault = err.Error()
		}
		r.line, r.end = j.lines.number, j.lines.offset
		return r, nil
	}
}

var errNoObject = errors.New("not a JSON object")

// parseObject reads an object by its tokens: the package would let a repeated
// name pass. Errors hold no value.
func parseObject(line []byte) (r record, err error) {
	if !utf8.Valid(line) {
		return r, errors.New("not UTF-8")
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
			return r, fmt.Errorf("%.40q is there twice", name)
		}
		seen[name] = true
		if err := r.read(name, value); err != nil {
			return r, err
		}
	}
	if _, err := d.Token(); err != nil {
		return r, errNoObject
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return r, errors.New("something follows the JSON object")
	}
	return r, nil
}

func (r *record) read(name string, value json.RawMessage) (err error) {
	if name == columnFields {
		r.stored, err = exportedFields(value)
		return err
	}
	var in personal.Input
	if err := json.Unmarshal(value, &in); err != nil {
		return errNoObject
	}
	r.columns[name] = in
	return nil
}

// exportedFields reads the user fields of an export. They are taken as they are:
// the schema may have changed since they were stored.
func exportedFields(value json.RawMessage) (userfields.Values, error) {
	if bytes.Contains(value, []byte(`\u0000`)) {
		return nil, errors.New("fields: a NUL, which PostgreSQL can't store")
	}
	stored, err := userfields.DecodeValues(value)
	if err != nil {
		return nil, errors.New("fields: not an object")
	}
	for name, v := range stored {
		if stored[name], err = plain(v); err != nil {
			return nil, errors.New("fields: a value is of no kind that user fields have")
		}
	}
	return stored, nil
}
