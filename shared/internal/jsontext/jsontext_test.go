package jsontext_test

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

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

// files returns a folder of files by name.
func files(texts map[string]string) fstest.MapFS {
	folder := fstest.MapFS{}
	for name, text := range texts {
		folder[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return folder
}

func TestLanguages_OwnFilesReplaceAndAdd(t *testing.T) {
	builtIn := files(map[string]string{"en.json": `{"a":"A","b":"B"}`, "ru.json": `{"a":"А","b":"Б"}`})
	for name, test := range map[string]struct {
		own  map[string]string
		want map[string]map[string]string
	}{
		"none":               {nil, map[string]map[string]string{"en": {"a": "A", "b": "B"}, "ru": {"a": "А", "b": "Б"}}},
		"part of a built-in": {map[string]string{"ru.json": "\ufeff" + `{"b":"Бэ"}`, ".keep": ""}, map[string]map[string]string{"en": {"a": "A", "b": "B"}, "ru": {"a": "А", "b": "Бэ"}}},
		"another language": {map[string]string{"pt-BR.json": `{"a":"Á","b":"Bê"}`}, map[string]map[string]string{
			"en": {"a": "A", "b": "B"}, "ru": {"a": "А", "b": "Б"}, "pt-BR": {"a": "Á", "b": "Bê"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := jsontext.Languages(files(test.own), builtIn)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("texts (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := jsontext.Languages(nil, builtIn); err != nil {
		t.Errorf("no folder: got %v, want no error", err)
	}
}

func TestLanguages_ErrorNamesFileAndKey(t *testing.T) {
	builtIn := files(map[string]string{"en.json": `{"a":"A","b":"B","c":"C"}`})
	for name, test := range map[string]struct {
		own  map[string]string
		want string
	}{
		"unknown key":          {map[string]string{"en.json": `{"a":"A","x":"X"}`}, `en.json: there is no text with the key "x"`},
		"missing keys":         {map[string]string{"de.json": `{"b":"B"}`}, "de.json: texts are missing: a, c"},
		"syntax":               {map[string]string{"de.json": "{\n  \"a\": \"A\"\n  \"b\": \"B\"\n}"}, `de.json: line 3, column 3: expected a comma or }, found '"'`},
		"not an object":        {map[string]string{"en.json": `["a"]`}, "en.json: not a JSON object"},
		"not a text":           {map[string]string{"en.json": `{"a":["A"]}`}, `en.json: the value of "a" is not a text`},
		"empty text":           {map[string]string{"en.json": `{"a":""}`}, `en.json: the text "a" is empty`},
		"repeated key":         {map[string]string{"en.json": `{"a":"A","a":"B"}`}, `en.json: the key "a" is given twice`},
		"no language":          {map[string]string{"german.json": "{}"}, "german.json: the name is not a BCP 47 tag with .json, such as de.json or pt-BR.json"},
		"undetermined":         {map[string]string{"und.json": "{}"}, "und.json: the name is not a BCP 47 tag with .json, such as de.json or pt-BR.json"},
		"another kind of file": {map[string]string{"README.md": ""}, "README.md: the name is not a BCP 47 tag with .json, such as de.json or pt-BR.json"},
		"folder":               {map[string]string{"de.json/x": ""}, "de.json: the name is not a BCP 47 tag with .json, such as de.json or pt-BR.json"},
		"other spelling":       {map[string]string{"pt_br.json": "{}"}, "pt_br.json: name it pt-BR.json"},
		"everything": {map[string]string{"de.json": `{"a":"","x":1}`, "en.json": "{", "x.txt": ""}, `de.json: the text "a" is empty
de.json: the value of "x" is not a text
en.json: line 1, column 2: expected a key in double quotes, found the end of the file
x.txt: the name is not a BCP 47 tag with .json, such as de.json or pt-BR.json
de.json: there is no text with the key "x"
de.json: texts are missing: b, c`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := jsontext.Languages(files(test.own), builtIn)
			if err == nil {
				t.Fatalf("got no error, want %s", test.want)
			}
			if diff := cmp.Diff(test.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLanguages_BuiltInsHaveTheSameKeys(t *testing.T) {
	_, err := jsontext.Languages(nil, files(map[string]string{"en.json": `{"a":"A"}`, "ru.json": `{"b":"Б"}`}))
	if err == nil {
		t.Error("got no error, want one for a and b")
	}
}
