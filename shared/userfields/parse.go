package userfields

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cms-personal/personal/shared/internal/jsontext"
	"github.com/cms-personal/personal/shared/personal"
)

// ParseJSON parses and compiles a host's user-fields.json, an array of fields. It
// returns the fields in the order of the file, and the schema. Unknown keys and data after
// the array are errors. The error is a [*SchemaError]; that of a syntax error has the line,
// the column and what was found.
//
// A type that this version does not know is an error, too, unless one of the fields in force has that
// name and type: a later version has accepted it.
func ParseJSON(data []byte, inForce ...personal.Field) ([]personal.Field, *Schema, error) {
	return parse(data, func(f personal.Field) bool {
		return slices.ContainsFunc(inForce, func(g personal.Field) bool { return f.Name == g.Name && f.Type == g.Type })
	})
}

// ParseInForce is [ParseJSON] for a file that is in force already. It accepts types that this version does
// not know, with any properties: see [Schema].
func ParseInForce(data []byte) ([]personal.Field, *Schema, error) {
	return parse(data, func(personal.Field) bool { return true })
}

func parse(data []byte, accepts func(later personal.Field) bool) ([]personal.Field, *Schema, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // of an editor
	if err := jsontext.Check(data); err != nil {
		return nil, nil, &SchemaError{Problem: err.Error()}
	}
	var items []json.RawMessage
	if err := json.Unmarshal(data, &items); err != nil {
		problem := err.Error()
		if wrongType, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			problem = "not a JSON array but of type " + wrongType.Value
		}
		return nil, nil, &SchemaError{Problem: problem}
	}
	if items == nil {
		return nil, nil, &SchemaError{Problem: "not a JSON array but null"}
	}
	fields := make([]personal.Field, len(items))
	for i, item := range items {
		f := &fields[i]
		var wrong *json.UnmarshalTypeError // of a property that is another one in a later version; the others are read
		err := json.Unmarshal(item, f)
		if later := (err == nil || errors.As(err, &wrong)) && f.Type != "" && !f.Type.Known(); later && accepts(*f) {
			continue
		} else if later {
			return nil, nil, locate(data, i, &SchemaError{Field: title(*f, i), Property: "type",
				Problem: fmt.Sprintf("unknown type %q: the types are %s", f.Type, typeNames())})
		}
		*f = personal.Field{}
		if err := decodeField(item, f); err != nil {
			return nil, nil, locate(data, i, &SchemaError{Field: title(*f, i), Problem: err.Error()})
		}
	}
	schema, err := Compile(fields)
	if invalid, ok := errors.AsType[*SchemaError](err); ok {
		for i := range slices.Backward(fields) { // the second one of a name that is used twice
			if title(fields[i], i) == invalid.Field {
				return nil, nil, locate(data, i, invalid)
			}
		}
	}
	if err != nil {
		return nil, nil, err
	}
	return fields, schema, nil
}

// locate sets the line of an error of the field with that index in an array of fields.
func locate(data []byte, index int, e *SchemaError) *SchemaError {
	d := json.NewDecoder(bytes.NewReader(data))
	_, _ = d.Token() // the array, whose syntax is valid
	var item json.RawMessage
	for range index + 1 {
		if d.Decode(&item) != nil {
			return e
		}
	}
	at := int(d.InputOffset()) - len(item)
	if property := bytes.Index(item, []byte(`"`+e.Property+`"`)); e.Property != "" && property > 0 {
		at += property
	}
	e.Line = bytes.Count(data[:at], []byte("\n")) + 1
	return e
}

func decodeField(data json.RawMessage, f *personal.Field) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(f); err != nil {
		return err
	}
	return checkKeys(json.NewDecoder(bytes.NewReader(data)), false)
}

// checkKeys returns an error for keys that encoding/json tolerates: repeated keys, and
// keys in another case. inText says that the next object is a text by language, such as a
// label: its keys are language tags.
func checkKeys(d *json.Decoder, inText bool) error {
	token, err := d.Token()
	if err != nil {
		return fmt.Errorf("reading the keys: %w", err)
	}
	switch token {
	case json.Delim('{'):
		return checkObject(d, inText)
	case json.Delim('['):
		for d.More() {
			if err := checkKeys(d, inText); err != nil {
				return err
			}
		}
		_, err = d.Token()
	}
	return err
}

func checkObject(d *json.Decoder, isText bool) error {
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return fmt.Errorf("reading a key: %w", err)
		}
		key, _ := token.(string)
		folded := strings.ToLower(key)
		switch {
		case seen[folded]:
			return fmt.Errorf("key %q is given twice", key)
		case !isText && !lowerKey.MatchString(key):
			return fmt.Errorf("unknown key %q", key)
		}
		seen[folded] = true
		if err := checkKeys(d, key != "options"); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}
