package password

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"github.com/cms-personal/personal/shared/personal"
)

var policy = Policy{MinLength: 8}

func TestPolicy_ChecksPreparedPassword(t *testing.T) {
	long := strings.Repeat("ab", 512) // 1024 bytes
	tests := map[string]struct {
		password, prepared string
		code               personal.FieldErrorCode
	}{
		"empty":                             {"", "", personal.FieldErrorRequired},
		"a phrase":                          {"correct horse battery staple", "correct horse battery staple", ""},
		"no rules of composition":           {"zvwkqmxp", "zvwkqmxp", ""},
		"eight characters of two bytes":     {"ёжикчъщы", "ёжикчъщы", ""},
		"seven characters":                  {"zvwkqmx", "", personal.FieldErrorTooShort},
		"seven characters of two bytes":     {"ёжикчъщ", "", personal.FieldErrorTooShort},
		"short only once composed":          {"e\u0301e\u0301e\u0301e\u0301", "", personal.FieldErrorTooShort},
		"composed":                          {"xqe\u0301kwvzpm", "xq\u00e9kwvzpm", ""},
		"other spaces":                      {"zv\u00a0w\u3000qm", "", personal.FieldErrorTooShort},
		"other spaces, long enough":         {"zvx\u00a0wk\u3000qm", "zvx wk qm", ""},
		"case is kept":                      {"ZvWkQmXp", "ZvWkQmXp", ""},
		"the longest":                       {long, long, ""},
		"one byte too long":                 {long + "c", "", personal.FieldErrorTooLong},
		"long before but not after":         {strings.Repeat("\u3000a", 400), strings.Repeat(" a", 400), ""},
		"a megabyte":                        {strings.Repeat("e\u0301", 1<<20), "", personal.FieldErrorTooLong},
		"a tab":                             {"zvwk\tqmxp", "", personal.FieldErrorInvalidFormat},
		"a NUL":                             {"zvwk\x00qmxp", "", personal.FieldErrorInvalidFormat},
		"not UTF-8":                         {"zvwk\xffqmxp", "", personal.FieldErrorInvalidFormat},
		"common":                            {"iloveyou", "", personal.FieldErrorTooCommon},
		"common in other case":              {"QwertyUiop", "", personal.FieldErrorTooCommon},
		"common, also a name":               {"Jennifer", "", personal.FieldErrorTooCommon},
		"the login":                         {"Grigori.Z", "", personal.FieldErrorTooCommon},
		"the e-mail":                        {"GZ@example.com", "", personal.FieldErrorTooCommon},
		"the login with something after it": {"grigori.z7", "grigori.z7", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			prepared, code := policy.Check(test.password, "grigori.z", "gz@example.com", "")
			if prepared != test.prepared || code != test.code {
				t.Errorf("got %q, %q, want %q, %q", prepared, code, test.prepared, test.code)
			}
		})
	}
}

func TestCanonical_AcceptsWhatPolicyAccepted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		password := rapid.OneOf(rapid.String(), rapid.StringOfN(rapid.SampledFrom([]rune("aé\u0301\u3000 가\u1100\u1161\u11a8")), 0, 700,
			-1)).Draw(t, "password")
		prepared, code := policy.Check(password)
		if code != "" {
			return
		}
		for _, entered := range []string{password, prepared, norm.NFD.String(prepared)} {
			if got, ok := Canonical(entered); !ok || got != prepared {
				t.Fatalf("%q: got %q, %v, want %q", password, got, ok, prepared)
			}
		}
	})
}

// maxRawBytes relies on this.
func TestPrepare_ShortensToAThirdAtMost(t *testing.T) {
	for r := rune(1); r <= 0x3ffff; r++ {
		decomposed := norm.NFD.String(string(r))
		if prepared := norm.NFC.String(decomposed); 3*len(prepared) < len(decomposed) {
			t.Errorf("%U: got %d bytes of %d, want at least a third", r, len(prepared), len(decomposed))
		}
	}
}

func TestCanonical_RefusesImpossiblePasswords(t *testing.T) {
	for name, entered := range map[string]string{
		"empty":     "",
		"too long":  strings.Repeat("a", 1025),
		"megabytes": strings.Repeat("e\u0301", 1<<20),
		"a NUL":     "a\x00",
		"not UTF-8": "\xff",
	} {
		if got, ok := Canonical(entered); ok || got != "" {
			t.Errorf("%s: got %.20q, %v, want none", name, got, ok)
		}
	}
	megabyte := strings.Repeat("a", 1<<20)
	if allocs := testing.AllocsPerRun(10, func() { Canonical(megabyte) }); allocs > 0 {
		t.Errorf("got %v allocations for a password that is too long, want 0", allocs)
	}
}

func TestCommonList_IsLargeSortedAndLowerCase(t *testing.T) {
	list := commonList()
	if len(list) < 30000 || !slices.IsSorted(list) {
		t.Errorf("got %d entries, sorted: %v, want 30000 sorted ones", len(list), slices.IsSorted(list))
	}
	if len(slices.Compact(slices.Clone(list))) != len(list) || slices.Contains(list, "") {
		t.Error("an entry is repeated or empty")
	}
	if commonText != strings.ToLower(commonText) {
		t.Error("an entry is not in lower case, so it would never be found")
	}
	for _, word := range []string{list[0], list[len(list)-1], "password", "12345678", "PASSWORD1", "chocolate"} {
		if !isCommon(word) {
			t.Errorf("%q: got not common", word)
		}
	}
	for _, word := range []string{"", "zvwkqmxp", "password\n12345678", "пароль"} {
		if isCommon(word) {
			t.Errorf("%q: got common", word)
		}
	}
}
