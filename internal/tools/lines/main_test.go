package main

import (
	"strings"
	"testing"
)

func TestFindBreaks_LongLines(t *testing.T) {
	long := strings.Repeat("x", 70)
	for name, tt := range map[string]struct {
		code string // in a function
		want string // the end of the line before the break; "" if it is allowed
	}{
		"a short line":               {`f(a, b)`, ""},
		"the outermost comma":        {`f(g(` + long + `, a), b, g(c, ` + long + `))`, "b,"},
		"a condition":                {`if ` + long + ` && f(a, b) || ` + long + ` {}`, "||"},
		"&& binds more strongly":     {`if ` + long + ` || f(a) && ` + long + ` {}`, "||"},
		"a function on one line":     {`f(` + long + `, func() bool { return g(a, ` + long + `) })`, "{"},
		"the left side":              {long + `, a := f(b), g(` + long + `)`, "),"},
		"a text with commas":         {`f("` + long + `, ` + long + `")`, ""},
		"a raw string":               {"f(`" + long + "\n" + long + `, ` + long + `, ` + long + "`)", ""},
		"a row of a table":           {"_ = []s{\n" + `{"` + long + `", "` + long + `", 1},` + "\n}", ""},
		"a key of a table":           {"_ = map[string]s{\n" + `"` + long + `": {"` + long + `", 1},` + "\n}", ""},
		"a literal in a call":        {`f(s{` + long + `, 1}, "` + long + `")`, "},"},
		"a comment":                  {`// ` + long + `, ` + long + `, a`, ""},
		"a comment at the end":       {`f(a) // ` + long + `, ` + long + `, a`, ""},
		"140 characters of any kind": {`f("` + strings.Repeat("ы", 130) + `", 1)`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			source := "package p\n\nfunc _() {\n" + tt.code + "\n}\n"
			breaks, err := findBreaks("p.go", []byte(source))
			if err != nil {
				t.Fatal(err)
			}
			if tt.want == "" && len(breaks) == 0 {
				return
			}
			if len(breaks) != 1 {
				t.Fatalf("got %d breaks, want 1", len(breaks))
			}
			line := source[strings.LastIndex(source[:breaks[0].offset], "\n")+1 : breaks[0].offset]
			if tt.want == "" || !strings.HasSuffix(line, tt.want) {
				t.Errorf("got a break after %q, want one after %q", line, tt.want)
			}
		})
	}
}
