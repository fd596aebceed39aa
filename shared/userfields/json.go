package userfields

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/cms-personal/personal/shared/personal"
)

// ParseJSON reads a host's user-fields.json, an array of fields, and compiles
// it. It returns the fields as they stand in the file, and the schema. It is
// strict: unknown and repeated keys and anything behind the array are refused.
// The error is a [*SchemaError].
func ParseJSON(data []byte) ([]personal.Field, *Schema, error) {
	if !utf8.Valid(data) {
		return nil, nil, &SchemaError{Problem: "not UTF-8"}
	}
	var items []json.RawMessage
	if err := json.Unmarshal(data, &items); err != nil {
		var wrongType *json.UnmarshalTypeError
		if errors.As(err, &wrongType) {
			return nil, nil, &SchemaError{Problem: "not a JSON array but of type " + wrongType.Value}
		}
		return nil, nil, &SchemaError{Problem: "not a JSON array: " + err.Error()}
	}
	if items == nil {
		return nil, nil, &SchemaError{Problem: "not a JSON array but null"}
	}
	fields := make([]personal.Field, len(items))
	for i, item := range items {
		if err := decodeField(item, &fields[i]); err != nil {
			return nil, nil, &SchemaError{Field: title(fields[i], i), Problem: err.Error()}
		}
	}
	schema, err := Compile(fields)
	if err != nil {
		return nil, nil, err
	}
	return fields, schema, nil
}

func decodeField(data json.RawMessage, f *personal.Field) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(f); err != nil {
		return err
	}
	return checkKeys(json.NewDecoder(bytes.NewReader(data)), false)
}

var lowerKey = regexp.MustCompile(`\A[a-z_]+\z`)

// checkKeys refuses what encoding/json lets pass: keys given twice, and keys in
// another case. Objects alternate between ours (field, option) and labels, whose
// keys are language tags.
func checkKeys(d *json.Decoder, inLabel bool) error {
	token, err := d.Token()
	if err != nil {
		return fmt.Errorf("reading the keys: %w", err)
	}
	switch token {
	case json.Delim('{'):
		return checkObject(d, inLabel)
	case json.Delim('['):
		for d.More() {
			if err := checkKeys(d, inLabel); err != nil {
				return err
			}
		}
		_, err = d.Token()
	}
	return err
}

func checkObject(d *json.Decoder, isLabel bool) error {
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
		case !isLabel && !lowerKey.MatchString(key):
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
