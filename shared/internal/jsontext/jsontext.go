// Package jsontext says where JSON that people write is invalid.
package jsontext

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Check returns an error for data that is not one JSON value in UTF-8. The error says the
// line, the column, what was expected there, and what was found.
func Check(data []byte) error {
	for i, r := range string(data) {
		if r == utf8.RuneError && !bytes.HasPrefix(data[i:], []byte("\ufffd")) {
			return fmt.Errorf("%s: not UTF-8", position(data, i))
		}
	}
	if json.Valid(data) {
		return nil
	}
	// NUL is valid nowhere: after it, a file that ends too early has an error that says what
	// was expected instead of the end.
	var wrong *json.SyntaxError
	if err := json.Unmarshal(append(bytes.Clone(data), 0), new(any)); !errors.As(err, &wrong) {
		return fmt.Errorf("invalid JSON: %w", err)
	}
	at := int(wrong.Offset) - 1 // Offset counts the byte that was not expected
	if at >= len(data) {
		return fmt.Errorf("%s: expected %s, found the end of the file", position(data, len(bytes.TrimRight(data, " \t\r\n"))), expected(wrong))
	}
	found, _ := utf8.DecodeRune(data[at:])
	hint := ""
	if before := bytes.TrimSpace(data[:at]); (found == '}' || found == ']') && bytes.HasSuffix(before, []byte(",")) {
		hint = " after a comma: remove that comma"
	}
	return fmt.Errorf("%s: expected %s, found %q%s", position(data, at), expected(wrong), found, hint)
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
		{"after top-level value", "the end of the file"},
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

// position returns the line and the column of a byte, counted from 1; columns count characters.
func position(data []byte, at int) string {
	before := data[:at]
	line := before[bytes.LastIndexByte(before, '\n')+1:]
	return fmt.Sprintf("line %d, column %d", bytes.Count(before, []byte("\n"))+1, utf8.RuneCount(line)+1)
}
