package password

import (
	"slices"
	"strings"
	"testing"

	"github.com/cms-personal/personal/shared/personal"
)

func TestPolicy_RefusesPasswordsMainlyOfSiteWords(t *testing.T) {
	p := Policy{MinLength: 8, SiteWords: []string{"Acme", "acmecorp", "Казань", "Straße", "Caf\u0065\u0301 Noir"}}
	for name, test := range map[string]struct {
		password string
		code     personal.FieldErrorCode
	}{
		"a word":                             {"acmecorp", personal.FieldErrorTooCommon},
		"a word in capitals":                 {"ACMECORP", personal.FieldErrorTooCommon},
		"a word and a year":                  {"Acme2026!", personal.FieldErrorTooCommon},
		"a word within":                      {"123acme4567", personal.FieldErrorTooCommon},
		"a word twice":                       {"acme-7-acme-zq", personal.FieldErrorTooCommon},
		"two words":                          {"acmecorp Казань 1", personal.FieldErrorTooCommon},
		"a word and a longer one it begins":  {"acmecorp2026", personal.FieldErrorTooCommon},
		"another script, in other case":      {"кАЗАНЬ12", personal.FieldErrorTooCommon},
		"letters that only grow by folding":  {"STRASSE2026", personal.FieldErrorTooCommon},
		"a word that was composed by typing": {"CAFÉ\u00a0NOIR99", personal.FieldErrorTooCommon},
		"seven characters besides":           {"acme zvwkqm", personal.FieldErrorTooCommon},
		"eight characters besides":           {"acme zvwkqmx", ""},
		"a phrase with a word":               {"correct horse acme staple", ""},
		"a password of eight without a word": {"zvwkqmxp", ""},
		"a part of a word":                   {"acm zvwk", ""},
		"a word that is too short":           {"acme", personal.FieldErrorTooShort},
	} {
		t.Run(name, func(t *testing.T) {
			if _, code := p.Check(test.password); code != test.code {
				t.Errorf("%q: got %q, want %q", test.password, code, test.code)
			}
		})
	}
}

func TestValidateWords_Limits(t *testing.T) {
	many := slices.Repeat([]string{"example"}, 100)
	for name, test := range map[string]struct {
		words []string
		good  bool
	}{
		"none":                    {nil, true},
		"the shortest":            {[]string{"абв"}, true},
		"the longest":             {[]string{strings.Repeat("я", 64)}, true},
		"the most":                {many, true},
		"one too many":            {append(many, "another"), false},
		"too short":               {[]string{"example", "ab"}, false},
		"too short once composed": {[]string{"ae\u0301"}, false},
		"too long":                {[]string{strings.Repeat("a", 65)}, false},
		"empty":                   {[]string{""}, false},
		"with a line break":       {[]string{"exam\nple"}, false},
	} {
		if err := ValidateWords(test.words); (err == nil) != test.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}
