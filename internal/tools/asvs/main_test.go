package main

import (
	"strings"
	"testing"
)

func TestTables_RefusesWhatDoesNotHold(t *testing.T) {
	declared := declared(map[string]string{
		"a/a_test.go":                       "\nfunc TestA_Works(t *testing.T) {\nfunc FuzzA(f *testing.F) {\nfunc testHelper(t *testing.T) {\n",
		"nested/b_test.go":                  "func TestTwice(t *testing.T) {\n",
		"c_test.go":                         "func TestTwice(t *testing.T) {\n",
		"shared/personal/personaltest/s.go": "func testRecovery(t *testing.T, s *suite) {\n",
	})
	const (
		above = "- title: V1\n  rows:\n  - {rules: [1.1.1], asks: a, state: met}\n- title: V6\n  rows:\n  - {rules: [6.9.1], asks: a, state: met}\n  - "
		rule  = "{rules: [6.10.1, 6.10.2], asks: b, "
	)
	for condition, test := range map[string]struct{ row, want string }{
		"valid": {rule + "state: the CMS's, note: a limit, level: 3, proof: [TestA_Works, FuzzA, testRecovery, ../asvs/main.go], read: [a-b.md, a.md#c-d]}",
			"|6.10.1, 6.10.2|(level 3) b|the CMS's: a limit; see [a b](a-b.md), [c d](a.md#c-d)|[`TestA_Works`](../a/a_test.go)<br>[`FuzzA`]"},
		"no such test":            {rule + "state: met, proof: [TestGone]}", "6.10.1: the test TestGone does not exist"},
		"an ambiguous test":       {rule + "state: met, proof: [TestTwice]}", "6.10.1: the test TestTwice exists more than once: c_test.go, nested/b_test.go"},
		"a helper of tests":       {rule + "state: met, proof: [testHelper]}", "6.10.1: the test testHelper does not exist"},
		"no such file":            {rule + "state: met, proof: [internal/gone.go]}", "6.10.1: stat internal/gone.go: no such file"},
		"an unknown state":        {rule + "state: almost}", `6.10.1: the state "almost" is none of`},
		"a rule of a table above": {"{rules: [1.1.1], asks: b, state: met}", "1.1.1: listed twice"},
		"a rule twice in a row":   {"{rules: [6.9.2, 6.9.2], asks: b, state: met}", "6.9.2: listed twice"},
		"rows out of order":       {"{rules: [6.8.10], asks: b, state: met}", "6.8.10: out of order, after 6.9.1"},
		"a row out of order":      {"{rules: [6.9.3, 6.9.2], asks: b, state: met}", "6.9.2: out of order, after 6.9.3"},
		"no number":               {"{rules: [6.9], asks: b, state: met}", "6.9: not the number of a rule"},
		"no rule":                 {"{asks: b, state: met}", "V6: a row has no rules: b"},
		"an unknown member":       {rule + "state: met, prof: [TestA_Works]}", "field prof not found"},
	} {
		got, err := tables([]byte(above+test.row+"\n"), declared)
		if err != nil {
			got = err.Error()
		}
		if (err == nil) != (condition == "valid") || !strings.Contains(got, test.want) {
			t.Errorf("%s: got %q, error %t, want %q", condition, got, err != nil, test.want)
		}
	}
}
