package userfields

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
)

func TestRegister_ReadsValuesByType(t *testing.T) {
	text := personal.Text
	field := func(t personal.FieldType) personal.Field { return personal.Field{Type: t} }
	enum := personal.Field{Type: personal.TypeEnum, Options: []personal.Option{{Value: "s"}, {Value: "m"}}}
	tests := []struct {
		field personal.Field
		in    personal.Input
		want  any // a personal.FieldErrorCode, or the value
	}{
		{field("text"), text("Анна 🙂"), "Анна 🙂"},
		{field("text"), text("  padded "), "  padded "},
		{field("text"), text("two\nlines"), personal.FieldErrorInvalidFormat},
		{field("text"), text("tab\there"), personal.FieldErrorInvalidFormat},
		{field("text"), text("nul\x00"), personal.FieldErrorInvalidFormat},
		{field("text"), text("next line\u0085"), personal.FieldErrorInvalidFormat},
		{field("text"), text("\xff"), personal.FieldErrorInvalidFormat},
		{field("text"), number("42"), personal.FieldErrorInvalidType},
		{field("text"), boolean("true"), personal.FieldErrorInvalidType},
		{field("text"), list("a"), personal.FieldErrorInvalidType},
		{field("text"), personal.Input{Kind: personal.InputOther}, personal.FieldErrorInvalidType},
		{personal.Field{Type: "text", MaxLength: 3}, text("жжж"), "жжж"},
		{personal.Field{Type: "text", MaxLength: 3}, text("жжжж"), personal.FieldErrorTooLong},
		{personal.Field{Type: "text", Pattern: "a|bc"}, text("bc"), "bc"},
		{personal.Field{Type: "text", Pattern: "a|bc"}, text("abc"), personal.FieldErrorInvalidFormat},
		{personal.Field{Type: "long_text", Pattern: "(?m)^a$"}, text("a\nb"), personal.FieldErrorInvalidFormat},

		{field("long_text"), text("two\r\nlines\tand a tab"), "two\nlines\tand a tab"},
		{field("long_text"), text("old\rand\r\r\nmixed\n"), "old\nand\n\nmixed\n"},
		{personal.Field{Type: "long_text", MaxLength: 3}, text("a\r\nb"), "a\nb"},
		{personal.Field{Type: "long_text", MaxLength: 2}, text("a\r\nb"), personal.FieldErrorTooLong},
		{personal.Field{Type: "long_text", Pattern: "a\\nb"}, text("a\r\nb"), "a\nb"},
		{field("long_text"), text("bell\a"), personal.FieldErrorInvalidFormat},
		{field("long_text"), text("nul\x00"), personal.FieldErrorInvalidFormat},

		{field("integer"), text("42"), int64(42)},
		{field("integer"), number("42"), int64(42)},
		{field("integer"), number("42.0"), int64(42)},
		{field("integer"), number("1e3"), int64(1000)},
		{field("integer"), number("1.5e1"), int64(15)},
		{field("integer"), number("12300e-2"), int64(123)},
		{field("integer"), number("-0.0"), int64(0)},
		{field("integer"), number("0e999999999999"), int64(0)},
		{field("integer"), number("9007199254740991"), int64(maxInteger)},
		{field("integer"), number("-9007199254740991"), int64(-maxInteger)},
		{field("integer"), number("9007199254740992"), personal.FieldErrorOutOfRange},
		{field("integer"), number("-9007199254740992"), personal.FieldErrorOutOfRange},
		{field("integer"), number("1e999999999999"), personal.FieldErrorOutOfRange},
		{field("integer"), number("1e-999999999999"), personal.FieldErrorInvalidType},
		{field("integer"), number("9007199254740991.5"), personal.FieldErrorInvalidType},
		{field("integer"), number("1.5"), personal.FieldErrorInvalidType},
		{field("integer"), text(" 42"), personal.FieldErrorInvalidType},
		{field("integer"), text("42\n"), personal.FieldErrorInvalidType},
		{field("integer"), text("0x2a"), personal.FieldErrorInvalidType},
		{field("integer"), text("4_2"), personal.FieldErrorInvalidType},
		{field("integer"), text("٤٢"), personal.FieldErrorInvalidType},
		{field("integer"), boolean("true"), personal.FieldErrorInvalidType},
		{personal.Field{Type: "integer", Min: ptr(1.0), Max: ptr(2.5)}, text("0"), personal.FieldErrorOutOfRange},
		{personal.Field{Type: "integer", Min: ptr(1.0), Max: ptr(2.5)}, text("1"), int64(1)},
		{personal.Field{Type: "integer", Min: ptr(1.0), Max: ptr(2.5)}, text("3"), personal.FieldErrorOutOfRange},

		{field("number"), text("1.25"), 1.25},
		{field("number"), number("-1e-3"), -0.001},
		{field("number"), number("5"), 5.0},
		{field("number"), number("1e400"), personal.FieldErrorOutOfRange},
		{field("number"), text("NaN"), personal.FieldErrorInvalidType},
		{field("number"), text("Inf"), personal.FieldErrorInvalidType},
		{field("number"), text("1,5"), personal.FieldErrorInvalidType},
		{personal.Field{Type: "number", Max: ptr(1.5)}, text("1.6"), personal.FieldErrorOutOfRange},

		{field("boolean"), boolean("true"), true},
		{field("boolean"), text("off"), false},
		{field("boolean"), text("1"), true},
		{field("boolean"), number("1"), personal.FieldErrorInvalidType},
		{field("boolean"), text("yes"), personal.FieldErrorInvalidType},

		{field("date"), text("2024-02-29"), "2024-02-29"},
		{field("date"), text("2023-02-29"), personal.FieldErrorInvalidFormat},
		{field("date"), text("2024-2-9"), personal.FieldErrorInvalidFormat},
		{field("date"), text("29.02.2024"), personal.FieldErrorInvalidFormat},
		{field("date"), number("20240229"), personal.FieldErrorInvalidType},

		{field("datetime"), text("2024-02-29T12:00:00.500+03:00"), "2024-02-29T09:00:00.5Z"},
		{field("datetime"), text("2024-02-29T9:00:00Z"), personal.FieldErrorInvalidFormat},
		{field("datetime"), text("2024-02-29T09:00:00,5Z"), personal.FieldErrorInvalidFormat},
		{field("datetime"), text("2024-02-29t09:00:00z"), "2024-02-29T09:00:00Z"},
		{field("datetime"), text("2024-02-29T09:00:00+24:00"), personal.FieldErrorInvalidFormat},
		{field("datetime"), text("2024-02-30T09:00:00Z"), personal.FieldErrorInvalidFormat},
		{field("datetime"), text("2024-02-29"), personal.FieldErrorInvalidFormat},
		{field("datetime"), text("9999-12-31T23:59:59-01:00"), personal.FieldErrorInvalidFormat},
		{field("datetime"), number("1"), personal.FieldErrorInvalidType},

		{enum, text("m"), "m"},
		{enum, text("M"), personal.FieldErrorNotInList},
		{enum, number("1"), personal.FieldErrorInvalidType},

		{field("link"), text("news:42"), "news:42"},
		{field("link"), text("a b"), personal.FieldErrorInvalidFormat},
		{field("link"), text("a\u00a0b"), personal.FieldErrorInvalidFormat},

		{field("tags"), text("one"), []string{"one"}},
		{field("tags"), repeated("b", "", "a", "b"), []string{"b", "a"}},
		{field("tags"), list("b", "a", "b"), []string{"b", "a"}},
		{field("tags"), list(), []string{}},
		{field("tags"), list("a", ""), personal.FieldErrorTooShort},
		{field("tags"), list("a\n"), personal.FieldErrorInvalidFormat},
		{field("tags"), number("1"), personal.FieldErrorInvalidType},
		{field("tags"), personal.Input{Kind: personal.InputOther}, personal.FieldErrorInvalidType},
		{personal.Field{Type: "tags", MaxLength: 1}, list("a", "bb"), personal.FieldErrorTooLong},
		{personal.Field{Type: "tags", Pattern: "[a-z]"}, list("a", "1"), personal.FieldErrorInvalidFormat},
		{personal.Field{Type: "tags", Required: true}, list(), personal.FieldErrorRequired},
		{field("link_set"), list("7", "8"), []string{"7", "8"}},
		{field("link_set"), list("7 8"), personal.FieldErrorInvalidFormat},
	}
	for _, test := range tests {
		t.Run(fmt.Sprintf("%s of %.40v", test.field.Type, test.in), func(t *testing.T) {
			test.field.Name = "x"
			s := mustCompile(t, test.field)
			for kind, read := range map[string]func(map[string]personal.Input, *personal.FieldErrors) Values{
				"register": s.Register, "update": s.Update,
			} {
				var errs personal.FieldErrors
				values := read(map[string]personal.Input{"x": test.in}, &errs)
				var got any = errs["x"]
				if len(errs) == 0 {
					got = values["x"]
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", kind, diff)
				}
			}
		})
	}
}

func TestFile_PathOnTheSite(t *testing.T) {
	s := mustCompile(t, personal.Field{Name: "x", Type: "file"})
	for value, good := range map[string]bool{
		"/pictures/2.png":          true,
		"/pictures/my photo.jpg":   true,
		"/pictures/my%20photo.jpg": true,
		"/фото/%D1%84.jpg":         true,
		"/100%25.png":              true,
		"/a:b/...":                 true,
		"/.well-known/a":           true,
		"/":                        false,
		"/a/":                      false,
		"//evil.test/a":            false,
		"///evil.test/a":           false,
		"/\\evil.test/a":           false,
		"\\\\evil.test/a":          false,
		"/a\\b":                    false,
		"/a//b":                    false,
		"/./a":                     false,
		"/a/..":                    false,
		"/../a":                    false,
		"/a?b":                     false,
		"/a#b":                     false,
		"/%2fevil.test/a":          false,
		"/%2Fevil.test/a":          false,
		"/%5cevil.test/a":          false,
		"/%5Cevil.test/a":          false,
		"/%252fevil.test/a":        false,
		"/%255Cevil.test/a":        false,
		"/a%3fb":                   false,
		"/a%23b":                   false,
		"/%2e%2E/a":                false,
		"/.%2e/a":                  false,
		"/a/%2e/b":                 false,
		"/%252e%252E/a":            false,
		"/\t/evil.test/a":          false,
		"/\n/evil.test/a":          false,
		"/\r/evil.test/a":          false,
		"\t//evil.test/a":          false,
		" //evil.test/a":           false,
		"/%09/evil.test/a":         false,
		"/a%00":                    false,
		"/a%0d%0ab":                false,
		"/a\u0085b":                false,
		"/a%c2%85b":                false,
		"/a%85":                    false,
		"/a%":                      false,
		"/a%zz":                    false,
		"/a\xff":                   false,
	} {
		for who, set := range map[string]func(map[string]personal.Input, *personal.FieldErrors) Values{
			"registration": s.Register, "profile": s.Update, "administrator or import": s.Administer, "administrator's new user": s.Create,
		} {
			var errs personal.FieldErrors
			set(map[string]personal.Input{"x": personal.Text(value)}, &errs)
			if got := len(errs) == 0; got != good {
				t.Errorf("%s: %q: valid is %t, want %t", who, value, got, good)
			}
		}
	}
}

func TestRegister_FileIsWebURLOrCleanPath(t *testing.T) {
	s := mustCompile(t, personal.Field{Name: "x", Type: "file"})
	for value, good := range map[string]bool{
		"https://example.com/a.png?v=1#top": true,
		"HTTP://example.com":                true,
		"https://[::1]:8080/a":              true,
		"upload/2024/my photo.jpg":          true,
		"100% real.jpg":                     true,
		"фото.jpg":                          true,
		"a/b:c":                             true,
		"https://user:pw@example.com/":      false,
		"https://user@example.com/":         false,
		"https:///a":                        false,
		"https:a":                           false,
		"https://:80/":                      false,
		"https://example.com/a b":           false,
		"https://example.com\\@evil.test/":  false,
		"ftp://example.com/a":               false,
		"javascript:alert(1)":               false,
		"data:text/html,x":                  false,
		"C:a.txt":                           false,
		"//example.com/a":                   false,
		"../a":                              false,
		"..":                                false,
		".":                                 false,
		"a/../b":                            false,
		"./a":                               false,
		"a//b":                              false,
		"a/":                                false,
		"a\\b":                              false,
		"a\nb":                              false,
		"%2e%2e/a":                          false,
		"a/%2e%2E/%2e%2e/b":                 false,
		"%2Fetc":                            false,
		"javascript%3Aalert(1)":             false,
		"a%00b":                             false,
		"\xff":                              false,
	} {
		var errs personal.FieldErrors
		s.Register(map[string]personal.Input{"x": personal.Text(value)}, &errs)
		if got := len(errs) == 0; got != good {
			t.Errorf("%q: got accepted %t, errors %v; want accepted %t", value, got, errs, good)
		}
	}
}

var account = []personal.Field{
	{Name: "city", Type: "text", Required: true},
	{Name: "plan", Type: "text", Default: personal.Text("free"), ReadOnly: true},
	{Name: "score", Type: "integer", Default: number("1.0"), Hidden: true},
	{Name: "age", Type: "integer"},
	{Name: "interests", Type: "tags", Required: true, Default: list("news")},
}

func TestRegister_ReportsAllErrors(t *testing.T) {
	s := mustCompile(t, account...)
	var errs personal.FieldErrors
	s.Register(map[string]personal.Input{
		"age": personal.Text("old"), "plan": personal.Text("gold"), "score": {}, "groups": list("admin"), "token": {},
		"password": personal.Text("x"), "City": personal.Text("x"),
	}, &errs)
	want := personal.FieldErrors{
		"city": personal.FieldErrorRequired, "age": personal.FieldErrorInvalidType, "plan": personal.FieldErrorReadOnly,
		"score": personal.FieldErrorReadOnly, "groups": personal.FieldErrorReadOnly, "token": personal.FieldErrorReadOnly,
		"password": personal.FieldErrorUnknownField, "City": personal.FieldErrorUnknownField,
	}
	if diff := cmp.Diff(want, errs); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

func TestRegister_AppliesDefaults(t *testing.T) {
	s := mustCompile(t, account...)
	var errs personal.FieldErrors
	got := s.Register(map[string]personal.Input{"city": personal.Text("Riga"), "age": {}, "interests": repeated("", "")}, &errs)
	want := Values{"city": "Riga", "plan": "free", "score": int64(1), "interests": []string{"news"}}
	if diff := cmp.Diff(want, got); diff != "" || errs != nil {
		t.Errorf("got errors %v, want none; values (-want +got):\n%s", errs, diff)
	}
}

func TestCreate_SetsEveryFieldAndMayLeaveRequiredOnes(t *testing.T) {
	s := mustCompile(t, account...)
	var errs personal.FieldErrors
	got := s.Create(map[string]personal.Input{"plan": personal.Text("gold"), "score": {}, "age": number("7"), "city": {}}, &errs)
	want := Values{"plan": "gold", "score": int64(1), "age": int64(7), "interests": []string{"news"}}
	if diff := cmp.Diff(want, got); diff != "" || errs != nil {
		t.Errorf("got errors %v, want none; values (-want +got):\n%s", errs, diff)
	}
	s.Create(map[string]personal.Input{"score": personal.Text("high"), "groups": list("admin"), "x": {}}, &errs)
	wantErrs := personal.FieldErrors{
		"score": personal.FieldErrorInvalidType, "groups": personal.FieldErrorReadOnly, "x": personal.FieldErrorUnknownField,
	}
	if diff := cmp.Diff(wantErrs, errs); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

func TestUpdate_ChangesOnlySentFields(t *testing.T) {
	s := mustCompile(t, account...)
	tests := map[string]struct {
		in   map[string]personal.Input
		want Values
		errs personal.FieldErrors
	}{
		"nothing":                          {nil, Values{}, nil},
		"one value":                        {map[string]personal.Input{"age": number("7")}, Values{"age": int64(7)}, nil},
		"null clears a value":              {map[string]personal.Input{"age": {}}, Values{"age": nil}, nil},
		"empty text clears a value":        {map[string]personal.Input{"age": {Kind: personal.InputText}}, Values{"age": nil}, nil},
		"required value cannot be cleared": {map[string]personal.Input{"city": {}}, Values{}, personal.FieldErrors{"city": personal.FieldErrorRequired}},
		"required list cannot be cleared": {map[string]personal.Input{"interests": repeated("")}, Values{},
			personal.FieldErrors{"interests": personal.FieldErrorRequired}},
		"read-only names": {map[string]personal.Input{"login": personal.Text("a"), "email": {}, "plan": {}, "id": number("1")}, Values{},
			personal.FieldErrors{"login": personal.FieldErrorReadOnly, "email": personal.FieldErrorReadOnly, "plan": personal.FieldErrorReadOnly, "id": personal.FieldErrorReadOnly}},
		"unknown names": {map[string]personal.Input{"password": personal.Text("a"), "old_password": {}, "x": {}}, Values{},
			personal.FieldErrors{"password": personal.FieldErrorUnknownField, "old_password": personal.FieldErrorUnknownField, "x": personal.FieldErrorUnknownField}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var errs personal.FieldErrors
			got := s.Update(test.in, &errs)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.errs, errs); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAdminister_SetsEveryField(t *testing.T) {
	s := mustCompile(t, account...)
	var errs personal.FieldErrors
	got := s.Administer(map[string]personal.Input{"plan": personal.Text("gold"), "score": number("7"), "age": {}}, &errs)
	want := Values{"plan": "gold", "score": int64(7), "age": nil}
	if diff := cmp.Diff(want, got); diff != "" || errs != nil {
		t.Errorf("got errors %v, want none; values (-want +got):\n%s", errs, diff)
	}
	s.Administer(map[string]personal.Input{
		"score": personal.Text("high"), "city": {}, "login": personal.Text("a"), "groups": list("admin"), "x": {},
	}, &errs)
	wantErrs := personal.FieldErrors{
		"score": personal.FieldErrorInvalidType, "city": personal.FieldErrorRequired, "login": personal.FieldErrorReadOnly,
		"groups": personal.FieldErrorReadOnly, "x": personal.FieldErrorUnknownField,
	}
	if diff := cmp.Diff(wantErrs, errs); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

func TestRegister_KeepsEarlierErrors(t *testing.T) {
	s := mustCompile(t, account...)
	errs := personal.FieldErrors{"city": personal.FieldErrorTooLong, "password": personal.FieldErrorTooShort}
	s.Register(nil, &errs)
	want := personal.FieldErrors{"city": personal.FieldErrorTooLong, "password": personal.FieldErrorTooShort}
	if !maps.Equal(errs, want) {
		t.Errorf("got %v, want %v", errs, want)
	}
}

func TestCheck_RefusesTheWholeRequest(t *testing.T) {
	long := strings.Repeat("ж", 64)
	field := personal.Field{Name: strings.Repeat("long_", 20) + "name", Type: personal.TypeText}
	s := mustCompile(t, append(slices.Clone(account), field)...)
	for _, test := range []struct {
		names string
		kind  personal.InputKind
		want  personal.Code
	}{
		{"city interests unknown " + field.Name + " " + long, personal.InputText, ""},
		{"interests unknown", personal.InputRepeated, ""},
		{"score", personal.InputRepeated, personal.CodeMalformedRequest},
		{"age", personal.InputRepeated, personal.CodeMalformedRequest},
		{"name", personal.InputRepeated, personal.CodeMalformedRequest},
		{long + "x", personal.InputText, personal.CodeTooLarge},
		{"age " + long + "x", personal.InputRepeated, personal.CodeTooLarge},
	} {
		in := map[string]personal.Input{}
		for name := range strings.FieldsSeq(test.names) {
			in[name] = personal.Input{Kind: test.kind, Text: "1", List: []string{"1", "2"}}
		}
		if got := personal.CodeOf(s.Check(in)); got != test.want {
			t.Errorf("kind %d of %s: got %q, want %q", test.kind, test.names, got, test.want)
		}
	}
}

func TestUpdate_ReportsFewUnknownNames(t *testing.T) {
	s := mustCompile(t, account...)
	for _, test := range []struct {
		name  string // of each, followed by two digits
		count int
		want  int
	}{
		{"n", 50, 50},
		{"n", 99, 50},
		{strings.Repeat("x", 62), 99, 50},
		{strings.Repeat("\x01", 62), 99, 10}, // six bytes each in JSON
		{strings.Repeat("🙂", 62), 1, 1},
	} {
		in := map[string]personal.Input{"groups": personal.Text("a"), "age": personal.Text("old")}
		for i := range test.count {
			in[fmt.Sprintf("%s%02d", test.name, i)] = personal.Text("a")
		}
		var errs personal.FieldErrors
		s.Update(in, &errs)
		if got := len(errs) - 2; got != test.want {
			t.Errorf("%d names like %q: got %d errors of unknown names, want %d", test.count, test.name, got, test.want)
		}
		if errs["groups"] != personal.FieldErrorReadOnly || errs["age"] != personal.FieldErrorInvalidType ||
			errs[test.name+"00"] != personal.FieldErrorUnknownField {
			t.Errorf("got %v, want every known name and the first unknown one", errs)
		}
	}
}

func TestParseName_OneLineOf200Characters(t *testing.T) {
	longest := strings.Repeat("ж", 200)
	tests := map[string]struct {
		in   personal.Input
		want *string
		code personal.FieldErrorCode
	}{
		"unset":     {personal.Input{}, nil, ""},
		"empty":     {personal.Input{Kind: personal.InputText}, nil, ""},
		"plain":     {personal.Text("Zoë"), ptr("Zoë"), ""},
		"longest":   {personal.Text(longest), &longest, ""},
		"too long":  {personal.Text(longest + "ж"), nil, personal.FieldErrorTooLong},
		"two lines": {personal.Text("a\nb"), nil, personal.FieldErrorInvalidFormat},
		"not UTF-8": {personal.Text("\xff"), nil, personal.FieldErrorInvalidFormat},
		"number":    {number("1"), nil, personal.FieldErrorInvalidType},
		"list":      {list("a"), nil, personal.FieldErrorInvalidType},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var errs personal.FieldErrors
			got := ParseName(test.in, &errs)
			if diff := cmp.Diff(test.want, got); diff != "" || errs["name"] != test.code {
				t.Errorf("got error %q, want %q; name (-want +got):\n%s", errs["name"], test.code, diff)
			}
		})
	}
}

func TestLimits_FieldWithoutMaxLength(t *testing.T) {
	for fieldType, limit := range map[personal.FieldType]int{
		personal.TypeText: 1000, personal.TypeLongText: 20000, personal.TypeFile: 2048, personal.TypeLink: 255,
		personal.TypeTags: 255, personal.TypeLinkSet: 255,
	} {
		t.Run(string(fieldType), func(t *testing.T) {
			own := mustCompile(t, personal.Field{Name: "x", Type: fieldType})
			longer := mustCompile(t, personal.Field{Name: "x", Type: fieldType, MaxLength: limit + 1})
			shorter := mustCompile(t, personal.Field{Name: "x", Type: fieldType, MaxLength: 1})
			for _, test := range []struct {
				name   string
				schema *Schema
				length int
				want   personal.FieldErrorCode
			}{
				{"at the limit", own, limit, ""},
				{"above the limit", own, limit + 1, personal.FieldErrorTooLong},
				{"larger max_length applies", longer, limit + 1, ""},
				{"above a larger max_length", longer, limit + 2, personal.FieldErrorTooLong},
				{"smaller max_length applies", shorter, 2, personal.FieldErrorTooLong},
			} {
				value := strings.Repeat("ж", test.length)
				for name, in := range map[string]personal.Input{"text": personal.Text(value), "list": list("a", value)} {
					if _, code := setEach(test.schema, in); (name == "text" || test.schema.fields[0].kind.List) && code != test.want {
						t.Errorf("%s as %s: got error %q, want %q", test.name, name, code, test.want)
					}
				}
			}
		})
	}
}

// setEach sets a value by each operation. It returns the value, or the first error.
func setEach(s *Schema, in personal.Input) (value any, code personal.FieldErrorCode) {
	for _, read := range []func(map[string]personal.Input, *personal.FieldErrors) Values{s.Register, s.Update, s.Administer} {
		var errs personal.FieldErrors
		value, code = read(map[string]personal.Input{"x": in}, &errs)["x"], errs["x"]
		if code != "" {
			return nil, code
		}
	}
	return value, ""
}

func TestLimits_ListItems(t *testing.T) {
	items := make([]string, 1001)
	for i := range items {
		items[i] = fmt.Sprint(i)
	}
	for _, fieldType := range []personal.FieldType{personal.TypeTags, personal.TypeLinkSet} {
		s := mustCompile(t, personal.Field{Name: "x", Type: fieldType, MaxLength: 500}) // of an item, not of the list
		if _, code := setEach(s, list(items[:1000]...)); code != "" {
			t.Errorf("%s: 1000 items: got error %q, want none", fieldType, code)
		}
		if _, code := setEach(s, list(items...)); code != personal.FieldErrorTooLong {
			t.Errorf("%s: 1001 items: got error %q, want %q", fieldType, code, personal.FieldErrorTooLong)
		}
	}
}
