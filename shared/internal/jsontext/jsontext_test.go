package jsontext_test

import (
	"io/fs"
	"maps"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

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
	type texts = map[string]map[string]string
	type keys = map[string][]string
	ab := func(a, b string) map[string]string { return map[string]string{"a": a, "b": b} }
	for name, test := range map[string]struct {
		own      map[string]string
		needed   []string
		fallback string
		want     texts
		missing  keys
	}{
		"none":               {want: texts{}},
		"part of a built-in": {own: map[string]string{"ru.json": "\ufeff" + `{"b":"Бэ"}`, ".keep": ""}, want: texts{"ru": ab("А", "Бэ")}},
		"another language":   {own: map[string]string{"pt-BR.json": `{"a":"Á","b":"Bê"}`}, want: texts{"pt-BR": ab("Á", "Bê")}},
		"a part of another":  {own: map[string]string{"de.json": `{"a":"Ä"}`}, want: texts{"de": ab("Ä", "B")}, missing: keys{"de": {"b"}}},
		"that, with a default": {own: map[string]string{"de.json": `{"a":"Ä"}`}, fallback: "ru", want: texts{"de": ab("Ä", "Б")},
			missing: keys{"de": {"b"}}},
		"a parent has the text": {own: map[string]string{"de.json": `{"a":"Ä","b":"Be"}`, "de-AT.json": `{"a":"Äh"}`}, fallback: "ru",
			want: texts{"de": ab("Ä", "Be"), "de-AT": ab("Äh", "Be")}, missing: keys{"de-AT": {"b"}}},
		"a parent lacks it, too": {own: map[string]string{"de.json": `{"a":"Ä"}`, "de-AT.json": `{}`}, fallback: "ru",
			want: texts{"de": ab("Ä", "Б"), "de-AT": ab("Ä", "Б")}, missing: keys{"de": {"b"}, "de-AT": {"a", "b"}}},
		"the default has a part": {own: map[string]string{"de.json": `{"a":"Ä"}`, "fr.json": `{}`}, fallback: "de-CH",
			want: texts{"de": ab("Ä", "B"), "fr": ab("Ä", "B")}, missing: keys{"de": {"b"}, "fr": {"a", "b"}}},
		"parents of other writing systems and countries": {own: map[string]string{"zh-Hant.json": `{"a":"甲","b":"乙"}`, "zh.json": `{"a":"x","b":"x"}`, "zh-TW.json": `{}`,
			"sr.json": `{"a":"Ша","b":"Бе"}`, "sr-Latn.json": `{}`, "en-GB.json": `{}`, "en-001.json": `{"a":"A!"}`, "pt.json": `{"a":"Á","b":"Bê"}`, "pt-BR.json": `{}`}, fallback: "ru",
			want: texts{"zh-Hant": ab("甲", "乙"), "zh": ab("x", "x"), "zh-TW": ab("甲", "乙"), "sr": ab("Ша", "Бе"), "sr-Latn": ab("А", "Б"), "en-GB": ab("A!", "B"), "en-001": ab("A!", "B"),
				"pt": ab("Á", "Bê"), "pt-BR": ab("Á", "Bê")},
			missing: keys{"zh-TW": {"a", "b"}, "sr-Latn": {"a", "b"}, "en-GB": {"a", "b"}, "en-001": {"b"}, "pt-BR": {"a", "b"}}},
		"a language without a file": {needed: []string{"en", "pl"}, fallback: "en", want: texts{"pl": ab("A", "B")}, missing: keys{"pl": {"a", "b"}}},
	} {
		t.Run(name, func(t *testing.T) {
			l := jsontext.Languages{Needed: test.needed, Default: test.fallback,
				BuiltIn: []fs.FS{files(map[string]string{"en.json": `{"a":"A","b":"B"}`, "ru.json": `{"a":"А","b":"Б"}`})}}
			if test.own != nil {
				l.Own = files(test.own)
			}
			got, missing, err := l.Read()
			if err != nil {
				t.Fatal(err)
			}
			want := texts{"en": ab("A", "B"), "ru": ab("А", "Б")}
			maps.Copy(want, test.want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("texts (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.missing, missing, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("missing keys (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLanguages_ErrorNamesFileAndKey(t *testing.T) {
	builtIn := files(map[string]string{"en.json": `{"a":"A","b":"B","c":"C"}`})
	for name, test := range map[string]struct {
		own  map[string]string
		want string
	}{
		"unknown key":          {map[string]string{"en.json": `{"a":"A","x":"X"}`}, `en.json: there is no text with the key "x"`},
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
de.json: there is no text with the key "x"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := jsontext.Languages{BuiltIn: []fs.FS{builtIn}, Own: files(test.own)}.Read()
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
	_, _, err := jsontext.Languages{BuiltIn: []fs.FS{files(map[string]string{"en.json": `{"a":"A"}`, "ru.json": `{"b":"Б"}`})}}.Read()
	if err == nil {
		t.Error("got no error, want one for a and b")
	}
}
