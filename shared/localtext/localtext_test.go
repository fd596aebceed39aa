package localtext_test

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cms-personal/personal/shared/localtext"
)

// files returns a folder of files by name.
func files(texts map[string]string) fstest.MapFS {
	folder := fstest.MapFS{}
	for name, text := range texts {
		folder[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return folder
}

func TestSource_OwnFilesReplaceAndAdd(t *testing.T) {
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
			want: texts{"de": ab("Ä", "Be"), "de-AT": ab("Äh", "Be")}},
		"a parent lacks it, too": {own: map[string]string{"de.json": `{"a":"Ä"}`, "de-AT.json": `{}`}, fallback: "ru",
			want: texts{"de": ab("Ä", "Б"), "de-AT": ab("Ä", "Б")}, missing: keys{"de": {"b"}, "de-AT": {"b"}}},
		"the default has a part": {own: map[string]string{"de.json": `{"a":"Ä"}`, "it.json": `{}`}, fallback: "de-CH",
			want: texts{"de": ab("Ä", "B"), "it": ab("Ä", "B")}, missing: keys{"de": {"b"}, "it": {"a", "b"}}},
		"parents of other writing systems and countries": {own: map[string]string{"zh-Hant.json": `{"a":"甲","b":"乙"}`, "zh.json": `{"a":"x","b":"x"}`, "zh-TW.json": `{}`,
			"sr.json": `{"a":"Ша","b":"Бе"}`, "sr-Latn.json": `{}`, "en-GB.json": `{}`, "en-001.json": `{"a":"A!"}`, "pt.json": `{"a":"Á","b":"Bê"}`, "pt-BR.json": `{}`}, fallback: "ru",
			want: texts{"zh-Hant": ab("甲", "乙"), "zh": ab("x", "x"), "zh-TW": ab("甲", "乙"), "sr": ab("Ша", "Бе"), "sr-Latn": ab("А", "Б"), "en-GB": ab("A!", "B"), "en-001": ab("A!", "B"),
				"pt": ab("Á", "Bê"), "pt-BR": ab("Á", "Bê")},
			missing: keys{"sr-Latn": {"a", "b"}}},
		"a part of a built-in of the program": {needed: []string{"fr-CA"}, want: texts{"fr-CA": ab("Â", "B")}, missing: keys{"fr-CA": {"b"}}},
		"notes":                               {own: map[string]string{"ru.json": `{"_translation":"by hand","b":"Бэ"}`}, want: texts{"ru": ab("А", "Бэ")}},
		"a language without a file":           {needed: []string{"en", "pl"}, fallback: "en", want: texts{"en": ab("A", "B"), "pl": ab("A", "B")}, missing: keys{"pl": {"a", "b"}}},
	} {
		t.Run(name, func(t *testing.T) {
			l := localtext.Source{Needed: test.needed, Default: test.fallback,
				BuiltIn: []fs.FS{files(map[string]string{"en.json": `{"a":"A","b":"B"}`, "ru.json": `{"a":"А","b":"Б"}`, "fr.json": `{"a":"Â"}`,
					"xx.json": "never read"})}}
			if test.own != nil {
				l.Own = files(test.own)
			}
			got, missing, err := l.Read()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, plain(got), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("texts (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.missing, missing, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("missing keys (-want +got):\n%s", diff)
			}
		})
	}
}

// plain returns the texts as they are for most numbers.
func plain(all map[string]localtext.Texts) map[string]map[string]string {
	texts := map[string]map[string]string{}
	for locale := range all {
		texts[locale] = map[string]string{}
		for key, text := range all[locale] {
			texts[locale][key] = text.String()
		}
	}
	return texts
}

func TestSource_ErrorNamesFileAndKey(t *testing.T) {
	builtIn := files(map[string]string{"en.json": `{"a":"A","b":"B","c":"C","n":"%d of %s"}`})
	for name, test := range map[string]struct {
		own  map[string]string
		want string
	}{
		"unknown key":   {map[string]string{"en.json": `{"a":"A","x":"X"}`}, `en.json: there is no text with the key "x"`},
		"syntax":        {map[string]string{"de.json": "{\n  \"a\": \"A\"\n  \"b\": \"B\"\n}"}, `de.json: line 3, column 3: expected a comma or }, found '"'`},
		"not an object": {map[string]string{"en.json": `["a"]`}, "en.json: not a JSON object"},
		"not a text":    {map[string]string{"en.json": `{"a":["A"]}`}, `en.json: the text "a" is not a text`},
		"empty text":    {map[string]string{"en.json": `{"a":""}`}, `en.json: the text "a" is empty`},
		"an unknown form": {map[string]string{"de.json": `{"n":{"singular":"%d %s","other":"%d %s"}}`},
			`de.json: the text "n" has a form "singular": the forms are few, many, one, other, two, zero`},
		"a position that is not there": {map[string]string{"de.json": `{"n":"%[3]d"}`}, `de.json: the text "n" must have the placeholders %d %s`},
		"another verb":                 {map[string]string{"de.json": `{"n":"%x %s"}`}, `de.json: the text "n" must have the placeholders %d %s`},
		"verbs in another order":       {map[string]string{"de.json": `{"n":"%s %d"}`}, `de.json: the text "n" must have the placeholders %d %s`},
		"no form for most numbers":     {map[string]string{"de.json": `{"n":{"one":"%d %s"}}`}, `de.json: the text "n" has no form "other"`},
		"an empty form":                {map[string]string{"de.json": `{"n":{"one":"","other":"%d %s"}}`}, `de.json: the text "n" has no text in its form "one"`},
		"forms without a number":       {map[string]string{"de.json": `{"a":{"one":"A","other":"As"}}`}, `de.json: the text "a" has forms for numbers, but no number is in it`},
		"a form without its placeholder": {map[string]string{"de.json": `{"n":{"one":"ein %s","other":"%d %s"}}`},
			`de.json: the text "n" must have the placeholders %d %s`},
		"other placeholders":   {map[string]string{"de.json": `{"n":"%d"}`}, `de.json: the text "n" must have the placeholders %d %s`},
		"repeated key":         {map[string]string{"en.json": `{"a":"A","a":"B"}`}, `en.json: the key "a" is given twice`},
		"no language":          {map[string]string{"german.json": "{}"}, "german.json: the name is not a BCP 47 tag with .json, such as de.json or pt-BR.json"},
		"undetermined":         {map[string]string{"und.json": "{}"}, "und.json: the name is not a BCP 47 tag with .json, such as de.json or pt-BR.json"},
		"another kind of file": {map[string]string{"README.md": ""}, "README.md: the name is not a BCP 47 tag with .json, such as de.json or pt-BR.json"},
		"folder":               {map[string]string{"de.json/x": ""}, "de.json: the name is not a BCP 47 tag with .json, such as de.json or pt-BR.json"},
		"other spelling":       {map[string]string{"pt_br.json": "{}"}, "pt_br.json: name it pt-BR.json"},
		"everything": {map[string]string{"de.json": `{"a":"","x":1}`, "en.json": "{", "x.txt": ""}, `de.json: the text "a" is empty
de.json: the text "x" is not a text
en.json: line 1, column 2: expected a key in double quotes, found the end of the file
x.txt: the name is not a BCP 47 tag with .json, such as de.json or pt-BR.json
de.json: there is no text with the key "x"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := localtext.Source{BuiltIn: []fs.FS{builtIn}, Own: files(test.own)}.Read()
			if err == nil {
				t.Fatalf("got no error, want %s", test.want)
			}
			if diff := cmp.Diff(test.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

// The numbers are those of the examples in CLDR's table of plural rules.
func TestText_FormFitsTheNumber(t *testing.T) {
	read := func(t *testing.T, locale, text string) localtext.Text {
		t.Helper()
		all, _, err := localtext.Source{BuiltIn: []fs.FS{files(map[string]string{"en.json": `{"n":"%d of %s"}`})},
			Own: files(map[string]string{locale + ".json": `{"n":` + text + `}`})}.Read()
		if err != nil {
			t.Fatal(err)
		}
		return all[locale]["n"]
	}
	for locale, test := range map[string]struct {
		text string
		want map[int]string
	}{
		"en": {`{"one":"%d row of %s","other":"%d rows of %s"}`, map[int]string{0: "0 rows of x", 1: "1 row of x", 2: "2 rows of x", 21: "21 rows of x"}},
		"fr": {`{"one":"%d ligne de %s","other":"%d lignes de %s"}`, map[int]string{0: "0 ligne de x", 1: "1 ligne de x", 2: "2 lignes de x"}},
		"uk": {`{"one":"%d рядок %s","few":"%d рядки %s","many":"%d рядків %s","other":"%d рядка %s"}`, map[int]string{
			0: "0 рядків x", 1: "1 рядок x", 2: "2 рядки x", 5: "5 рядків x", 11: "11 рядків x", 21: "21 рядок x", 24: "24 рядки x", 112: "112 рядків x", -1: "-1 рядок x"}},
		"pl": {`{"one":"%d wiersz %s","few":"%d wiersze %s","many":"%d wierszy %s","other":"%d wiersza %s"}`, map[int]string{
			1: "1 wiersz x", 3: "3 wiersze x", 5: "5 wierszy x", 21: "21 wierszy x", 22: "22 wiersze x"}},
		"ar": {`{"two":"%d سطران %s","other":"%d سطر %s"}`, map[int]string{2: "2 سطران x", 1: "1 سطر x", 3: "3 سطر x"}},
		"ja": {`{"other":"%[2]sの%[1]d行"}`, map[int]string{1: "xの1行", 2: "xの2行"}},
		"it": {`"Righe: %[1]d"`, map[int]string{1: "Righe: 1"}}, // a site leaves one out
		"de": {`"Zeilen: %d von %s"`, map[int]string{1: "Zeilen: 1 von x"}},
	} {
		t.Run(locale, func(t *testing.T) {
			text := read(t, locale, test.text)
			for n, want := range test.want {
				if got := text.Format(n, "x"); got != want {
					t.Errorf("%d: got %q, want %q", n, got, want)
				}
			}
		})
	}
}

func TestText_OfAnotherLanguageKeepsItsForms(t *testing.T) {
	all, missing, err := localtext.Source{Needed: []string{"pl"}, BuiltIn: []fs.FS{files(map[string]string{
		"en.json": `{"n":{"one":"%d row","other":"%d rows"}}`})}}.Read()
	if got := all["pl"]["n"]; err != nil || got.Format(1) != "1 row" || got.Format(22) != "22 rows" || len(missing["pl"]) != 1 {
		t.Errorf("got %q and %q, missing %q, %v; want the English text by English rules", got.Format(1), got.Format(22), missing["pl"], err)
	}
}

func TestDirection(t *testing.T) {
	for locale, want := range map[string]string{
		"ar": "rtl", "ar-EG": "rtl", "he": "rtl", "fa": "rtl", "ur": "rtl", "ku-Arab": "rtl", "az-Arab": "rtl", "yi": "rtl",
		"en": "ltr", "ru": "ltr", "ku": "ltr", "zh-Hant": "ltr", "": "ltr", "nonsense": "ltr",
	} {
		if got := localtext.Direction(locale); got != want {
			t.Errorf("%s: got %s, want %s", locale, got, want)
		}
	}
}

func TestValidLanguages_KeepsWhatIsValidAndFits(t *testing.T) {
	for list, want := range map[string]string{
		"":                     "",
		"de-CH, de;q=0.9":      "de-CH, de;q=0.9",
		"ru,gar bage":          "ru",
		"gar bage, ru":         "ru",
		"gar bage":             "",
		"de-CH,de,fr-CH,fr,en": "de-CH,de,fr-CH",
	} {
		if got := localtext.ValidLanguages(list, 15); got != want {
			t.Errorf("%q: got %q, want %q", list, got, want)
		}
	}
}
