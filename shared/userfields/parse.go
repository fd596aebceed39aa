package userfields

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/cms-personal/personal/shared/personal"
)

// ParseJSON parses and compiles a host's user-fields.json, an array of fields. It
// returns the fields in the order of the file, and the schema. Unknown keys, repeated
// keys and data after the array are errors. The error is a [*SchemaError]; that of a
// syntax error has the line, the column and what was expected.
func ParseJSON(data []byte) ([]personal.Field, *Schema, error) {
	if i := invalidUTF8(data); i >= 0 {
		return nil, nil, &SchemaError{Problem: position(data, i) + ": not UTF-8"}
	}
	var items []json.RawMessage
	if err := json.Unmarshal(data, &items); err != nil {
		var wrongType *json.UnmarshalTypeError
		if errors.As(err, &wrongType) {
			return nil, nil, &SchemaError{Problem: "not a JSON array but of type " + wrongType.Value}
		}
		return nil, nil, &SchemaError{Problem: syntaxProblem(data)}
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

// checkKeys returns an error for keys that encoding/json tolerates: repeated keys, and
// keys in another case. inLabel says that the next object is a label, whose keys are
// language tags.
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

// syntaxProblem says where the JSON of a file is invalid, what was expected there, and what
// was found.
func syntaxProblem(data []byte) string {
	// NUL is valid nowhere: after it, a file that ends too early has an error that says what
	// was expected instead of the end.
	var wrong *json.SyntaxError
	if err := json.Unmarshal(append(bytes.Clone(data), 0), new(any)); !errors.As(err, &wrong) {
		return fmt.Sprintf("invalid JSON: %v", err)
	}
	at := int(wrong.Offset) - 1 // Offset counts the byte that was not expected
	if at >= len(data) {
		return fmt.Sprintf("%s: expected %s, found the end of the file", position(data, len(bytes.TrimRight(data, " \t\r\n"))), expected(wrong))
	}
	found, _ := utf8.DecodeRune(data[at:])
	problem := fmt.Sprintf("%s: expected %s, found %q", position(data, at), expected(wrong), found)
	if before := bytes.TrimSpace(data[:at]); (found == '}' || found == ']') && bytes.HasSuffix(before, []byte(",")) {
		problem += " after a comma: remove that comma"
	}
	return problem
}

// expected says what would have been valid instead of what a syntax error is about.
// encoding/json has no codes for that; a text that is not known here is shown as it is.
func expected(e *json.SyntaxError) string {
	for _, known := range [][2]string{
		{"beginning of value", `a value, such as "text", 1, true, [ or {`},
		{"beginning of object key", "a key in double quotes"},
		{"after object key:value pair", "a comma or }"},
		{"after object key", "a colon"},
		{"after array element", "a comma or ]"},
		{"after top-level value", "nothing after the array"},
		{"in string literal", "a double quote that ends the text, which must be on one line"},
		{"escape code", `an escape sequence such as \n, \" or \\`},
		{"hexadecimal character escape", "four hexadecimal digits after \\u"},
		{"numeric literal", "a digit"},
		{"in literal", "true, false or null"},
	} {
		if strings.Contains(e.Error(), known[0]) {
			return known[1]
		}
	}
	return "valid JSON (" + e.Error() + ")"
}

// invalidUTF8 returns the position of the first byte that is not UTF-8, -1 for none.
func invalidUTF8(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

// position returns the line and the column of a byte, counted from 1; columns count characters.
func position(data []byte, at int) string {
	before := data[:at]
	line := before[bytes.LastIndexByte(before, '\n')+1:]
	return fmt.Sprintf("line %d, column %d", bytes.Count(before, []byte("\n"))+1, utf8.RuneCount(line)+1)
}
