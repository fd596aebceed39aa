package rehearsal

import "testing"

func TestSame_RandomTextsStandForEachOther(t *testing.T) {
	const a, b, c = "tokenA-0123456789", "tokenB-0123456789", "tokenC-0123456789"
	type pair struct{ old, new string }
	for name, test := range map[string]struct {
		before pair
		pair
		want bool
	}{
		"equal":                            {pair: pair{"x", "x"}, want: true},
		"different":                        {pair: pair{"x", "y"}},
		"another random text":              {pair: pair{"see " + a, "see " + b}, want: true},
		"another text around it":           {pair: pair{"see " + a, "now " + b}},
		"of another length":                {pair: pair{a, b + "0"}},
		"two of them changed places":       {pair: pair{a + " " + b, b + " " + a}, want: true},
		"one stood for another":            {before: pair{a, b}, pair: pair{a, c}},
		"another stood for it":             {before: pair{a, b}, pair: pair{c, b}},
		"one that both have":               {before: pair{a, a}, pair: pair{a, b}},
		"a word of the same length":        {pair: pair{"two_factor_enabled", "two_factor_removed"}},
		"a random text in place of a word": {pair: pair{"two_factor_enabled", "Ab34567890abcdefgh"}},
	} {
		t.Run(name, func(t *testing.T) {
			compared := newComparison()
			compared.same(test.before.old, test.before.new)
			if got := compared.same(test.old, test.new); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}
