package jsontext_test

import (
	"testing"

	"github.com/cms-personal/personal/shared/internal/jsontext"
)

func TestCheck_SaysWhereAndWhatWasExpected(t *testing.T) {
	for text, want := range map[string]string{
		"":                         `line 1, column 1: expected a value, such as "text", 1, true, [ or {, found the end of the file`,
		"[\n  {\"name\": \"a\"}\n": "line 2, column 16: expected a comma or ], found the end of the file",
		"[{\"name\": \"a":          "line 1, column 13: expected a double quote that ends the text, which must be on one line, found the end of the file",
		"[\n{\"name\": \"город\" \"type\": \"text\"}]": `line 2, column 18: expected a comma or }, found '"'`,
		"[\n{\"name\": \"a\",}\n]":                     "line 2, column 14: expected a key in double quotes, found '}' after a comma: remove that comma",
		"[{},\n]":                                      `line 2, column 1: expected a value, such as "text", 1, true, [ or {, found ']' after a comma: remove that comma`,
		"[{name: 1}]":                                  "line 1, column 3: expected a key in double quotes, found 'n'",
		"[{\"name\" 1}]":                               "line 1, column 10: expected a colon, found '1'",
		"[{\"name\": }]":                               `line 1, column 11: expected a value, such as "text", 1, true, [ or {, found '}'`,
		"[{\"name\": “a”}]":                            `line 1, column 11: expected a value, such as "text", 1, true, [ or {, found '“'`,
		"[{\"name\": \"a\n\"}]":                        `line 1, column 13: expected a double quote that ends the text, which must be on one line, found '\n'`,
		"[{\"pattern\": \"\\d\"}]":                     `line 1, column 16: expected an escape sequence such as \n, \" or \\, found 'd'`,
		"[{\"name\": \"\\u12\"}]":                      `line 1, column 16: expected four hexadecimal digits after \u, found '"'`,
		"[{\"required\": tru}]":                        "line 1, column 18: expected true, false or null, found '}'",
		"[{\"min\": -}]":                               "line 1, column 11: expected a digit, found '}'",
		"[{}] []":                                      "line 1, column 6: expected the end of the file, found '['",
		"[{\"name\":\"a\",\n\"group\":\"дом\xff\"}]":   "line 2, column 13: not UTF-8",
	} {
		if err := jsontext.Check([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q:\n got %v\nwant %s", text, err, want)
		}
	}
}

func TestCheck_AcceptsJSON(t *testing.T) {
	for _, text := range []string{"[]", ` {"a": [1, "é", null]} `, "1"} {
		if err := jsontext.Check([]byte(text)); err != nil {
			t.Errorf("%s: got %v, want no error", text, err)
		}
	}
}
