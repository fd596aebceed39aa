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

func TestANewPasswordIsJudgedAfterPreparation(t *testing.T) {
	long := strings.Repeat("ab", 512) // 1024 bytes
	tests := map[string]struct {
		password, prepared string
		fault              personal.FieldErrorCode
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
		"case stays":                        {"ZvWkQmXp", "ZvWkQmXp", ""},
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
			prepared, fault := policy.Check(test.password, "grigori.z", "gz@example.com", "")
			if prepared != test.prepared || fault != test.fault {
				t.Errorf("got %q, %q", prepared, fault)
			}
		})
	}
}

func TestWhatWasAcceptedCanBeEnteredAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		password := rapid.OneOf(rapid.String(), rapid.StringOfN(rapid.SampledFrom([]rune("aé\u0301\u3000 가\u1100\u1161\u11a8")), 0, 700, -1)).Draw(t, "password")
		prepared, fault := policy.Check(password)
		if fault != "" {
			return
		}
		for _, entered := range []string{password, prepared, norm.NFD.String(prepared)} {
			if got, ok := Canonical(entered); !ok || got != prepared {
				t.Fatalf("%q was prepared as %q and now as %q, %v", password, prepared, got, ok)
			}
		}
	})
}

// The bound on what is prepared at all rests on this.
func TestPreparationShortensToAThirdAtMost(t *testing.T) {
	for r := rune(1); r <= 0x3ffff; r++ {
		decomposed := norm.NFD.String(string(r))
		if prepared := norm.NFC.String(decomposed); 3*len(prepared) < len(decomposed) {
			t.Errorf("%U: %d bytes become %d", r, len(decomposed), len(prepared))
		}
	}
}

func TestWhatNobodyCanHaveIsNotPrepared(t *testing.T) {
	for name, entered := range map[string]string{
		"empty":     "",
		"too long":  strings.Repeat("a", 1025),
		"megabytes": strings.Repeat("e\u0301", 1<<20),
		"a NUL":     "a\x00",
		"not UTF-8": "\xff",
	} {
		if got, ok := Canonical(entered); ok || got != "" {
			t.Errorf("%s: %.20q, %v", name, got, ok)
		}
	}
	megabyte := strings.Repeat("a", 1<<20)
	if allocs := testing.AllocsPerRun(10, func() { Canonical(megabyte) }); allocs > 0 {
		t.Errorf("%v allocations for what is refused by its length", allocs)
	}
}

func TestTheCommonListIsLargeSortedAndInLowerCase(t *testing.T) {
	list := commonList()
	if len(list) < 30000 || !slices.IsSorted(list) {
		t.Errorf("%d entries, sorted: %v", len(list), slices.IsSorted(list))
	}
	if len(slices.Compact(slices.Clone(list))) != len(list) || slices.Contains(list, "") {
		t.Error("an entry is doubled or empty")
	}
	if commonText != strings.ToLower(commonText) {
		t.Error("an entry is not in lower case, so it would never be found")
	}
	for _, word := range []string{list[0], list[len(list)-1], "password", "12345678", "PASSWORD1", "chocolate"} {
		if !isCommon(word) {
			t.Errorf("%q is not found", word)
		}
	}
	for _, word := range []string{"", "zvwkqmxp", "password\n12345678", "пароль"} {
		if isCommon(word) {
			t.Errorf("%q is found", word)
		}
	}
}

func BenchmarkCommon(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		isCommon("zvwkqmxp")
	}
}
