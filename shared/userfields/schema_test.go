package userfields

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cms-personal/personal/shared/personal"
)

func ptr[T any](v T) *T { return &v }

func list(items ...string) personal.Input {
	return personal.Input{Kind: personal.InputList, List: items}
}

func repeated(items ...string) personal.Input {
	return personal.Input{Kind: personal.InputRepeated, List: items}
}

func number(literal string) personal.Input {
	return personal.Input{Kind: personal.InputNumber, Text: literal}
}

func boolean(literal string) personal.Input {
	return personal.Input{Kind: personal.InputBoolean, Text: literal}
}

func mustCompile(t rapid.TB, fields ...personal.Field) *Schema {
	t.Helper()
	s, err := Compile(fields)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestCompile_RejectsInvalidField(t *testing.T) {
	option := func(values ...string) (options []personal.Option) {
		for _, v := range values {
			options = append(options, personal.Option{Value: v})
		}
		return options
	}
	tests := map[string]struct {
		field   personal.Field
		problem string
	}{
		"no name":                          {personal.Field{Type: "text"}, "no name"},
		"upper case":                       {personal.Field{Name: "City", Type: "text"}, "snake"},
		"hyphen":                           {personal.Field{Name: "home-city", Type: "text"}, "snake"},
		"digit first":                      {personal.Field{Name: "1st", Type: "text"}, "snake"},
		"trailing newline":                 {personal.Field{Name: "city\n", Type: "text"}, "snake"},
		"other letters":                    {personal.Field{Name: "город", Type: "text"}, "snake"},
		"parameter":                        {personal.Field{Name: "old_password", Type: "text"}, "parameter"},
		"built-in name":                    {personal.Field{Name: "name", Type: "text"}, "parameter"},
		"roles":                            {personal.Field{Name: "roles", Type: "tags"}, "for roles use an enum field \"role\": docs/roles.md"},
		"system name":                      {personal.Field{Name: "groups", Type: "tags"}, "system name"},
		"system name and parameter":        {personal.Field{Name: "token", Type: "text"}, "system name"},
		"no type":                          {personal.Field{Name: "x"}, "no type"},
		"enum without options":             {personal.Field{Name: "x", Type: "enum"}, "options"},
		"doubled option":                   {personal.Field{Name: "x", Type: "enum", Options: option("a", "b", "a")}, "twice"},
		"empty option":                     {personal.Field{Name: "x", Type: "enum", Options: option("")}, "no value"},
		"option of two lines":              {personal.Field{Name: "x", Type: "enum", Options: option("a\nb")}, "plain text"},
		"options of a text":                {personal.Field{Name: "x", Type: "text", Options: option("a")}, "no options"},
		"bad pattern":                      {personal.Field{Name: "x", Type: "text", Pattern: "("}, "pattern"},
		"pattern valid when wrapped":       {personal.Field{Name: "x", Type: "text", Pattern: "a)(b"}, "pattern"},
		"pattern with open quotation":      {personal.Field{Name: "x", Type: "text", Pattern: `\Qa`}, "pattern"},
		"pattern of an integer":            {personal.Field{Name: "x", Type: "integer", Pattern: "4.*"}, "no pattern"},
		"max_length of a date":             {personal.Field{Name: "x", Type: "date", MaxLength: 3}, "no max_length"},
		"negative max_length":              {personal.Field{Name: "x", Type: "text", MaxLength: -1}, "negative"},
		"min of a text":                    {personal.Field{Name: "x", Type: "text", Min: ptr(1.0)}, "no min"},
		"max of a boolean":                 {personal.Field{Name: "x", Type: "boolean", Max: ptr(1.0)}, "no min"},
		"min above max":                    {personal.Field{Name: "x", Type: "number", Min: ptr(2.0), Max: ptr(1.0)}, "above"},
		"infinite max":                     {personal.Field{Name: "x", Type: "number", Max: ptr(math.Inf(1))}, "finite"},
		"min that is not a number":         {personal.Field{Name: "x", Type: "number", Min: ptr(math.NaN())}, "finite"},
		"required and read-only":           {personal.Field{Name: "x", Type: "text", Required: true, ReadOnly: true}, "read_only"},
		"required and hidden":              {personal.Field{Name: "x", Type: "text", Required: true, Hidden: true}, "hidden"},
		"default of another type":          {personal.Field{Name: "x", Type: "integer", Default: personal.Text("many")}, "default"},
		"default out of range":             {personal.Field{Name: "x", Type: "integer", Min: ptr(5.0), Default: number("4")}, "default"},
		"default not in the list":          {personal.Field{Name: "x", Type: "enum", Options: option("a"), Default: personal.Text("b")}, "default"},
		"default list of a scalar":         {personal.Field{Name: "x", Type: "text", Default: list("a")}, "default"},
		"empty default of a required list": {personal.Field{Name: "x", Type: "tags", Required: true, Default: list()}, "default"},
		"bad locale of a label":            {personal.Field{Name: "x", Type: "text", Label: personal.LocalText{"en_GB": "x"}}, `label: "en_GB" is not a language tag`},
		"bad locale of a hint":             {personal.Field{Name: "x", Type: "text", Hint: personal.LocalText{"en_GB": "x"}}, `hint: "en_GB" is not a language tag`},
		"bad locale of a pattern message":  {personal.Field{Name: "x", Type: "text", PatternMessage: personal.LocalText{"": "x"}}, `pattern_message: "" is not a language tag`},
		"bad locale of an option": {personal.Field{Name: "x", Type: "enum",
			Options: []personal.Option{{Value: "a", Label: personal.LocalText{"": "x"}}}}, "language tag"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Compile([]personal.Field{{Name: "good", Type: "text"}, test.field})
			var schemaErr *SchemaError
			if !errors.As(err, &schemaErr) {
				t.Fatalf("got %v, want a *SchemaError", err)
			}
			want := test.field.Name
			if want == "" {
				want = "#2"
			}
			if schemaErr.Field != want || !strings.Contains(schemaErr.Problem, test.problem) {
				t.Errorf("got %+v, want field %s and a problem with %q", *schemaErr, want, test.problem)
			}
		})
	}
}

// That of other properties shows TestFields_InvalidFieldIsRefusedAtItsControl of the admin pages.
func TestSchemaError_NamesProperty(t *testing.T) {
	wrong := personal.LocalText{"en_GB": "x"}
	for property, field := range map[string]personal.Field{
		"label":           {Name: "x", Type: "text", Label: wrong},
		"hint":            {Name: "x", Type: "text", Hint: wrong},
		"pattern_message": {Name: "x", Type: "text", PatternMessage: wrong},
	} {
		_, err := Compile([]personal.Field{field})
		var schemaErr *SchemaError
		if !errors.As(err, &schemaErr) || schemaErr.Property != property {
			t.Errorf("got %v (%+v), want an error of property %s", err, schemaErr, property)
		}
	}
}

func TestCompile_RejectsRepeatedName(t *testing.T) {
	_, err := Compile([]personal.Field{{Name: "x", Type: "text"}, {Name: "x", Type: "tags"}})
	var schemaErr *SchemaError
	if !errors.As(err, &schemaErr) || schemaErr.Field != "x" || schemaErr.Property != "name" || !strings.Contains(schemaErr.Problem, "twice") {
		t.Errorf("got %v, want an error of the name of field x", err)
	}
}

func TestCompile_RejectsReservedNames(t *testing.T) {
	for _, name := range slices.Concat(systemNames, personal.ParameterNames()) {
		if _, err := Compile([]personal.Field{{Name: name, Type: "text"}}); err == nil {
			t.Errorf("%s: got no error, want one", name)
		}
	}
}

func TestFields_SortedByOrder(t *testing.T) {
	s := mustCompile(t,
		personal.Field{Name: "c", Type: "text", Order: 2},
		personal.Field{Name: "b", Type: "text", Order: 1, Hidden: true},
		personal.Field{Name: "d", Type: "text", Order: 2},
		personal.Field{Name: "a", Type: "text"},
	)
	if got := names(s.Fields()); got != "a b c d" {
		t.Errorf("got fields %s, want a b c d", got)
	}
	if got := names(s.Visible()); got != "a c d" {
		t.Errorf("got visible fields %s, want a c d", got)
	}
}

func names(fields []personal.Field) string {
	var all []string
	for _, f := range fields {
		all = append(all, f.Name)
	}
	return strings.Join(all, " ")
}

func TestParseJSON_ReadsEveryProperty(t *testing.T) {
	const text = `[{"name":"size","type":"enum","label":{"en":"Size","pt-BR":"Tamanho"},"required":true,"default":"m",
		"hint":{"en":"As on the label.","pt-BR":"Como na etiqueta."},"pattern_message":{"en":"One letter."},
		"options":[{"value":"m","label":{"en":"Medium"}},{"value":"l"}],"order":3,"group":"shop"},
		{"name":"age","type":"integer","min":0,"max":150,"default":18,"hidden":true}]`
	fields, schema, err := ParseJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want := []personal.Field{
		{Name: "size", Type: personal.TypeEnum, Label: personal.LocalText{"en": "Size", "pt-BR": "Tamanho"}, Required: true,
			Hint: personal.LocalText{"en": "As on the label.", "pt-BR": "Como na etiqueta."}, PatternMessage: personal.LocalText{"en": "One letter."},
			Default: personal.Text("m"), Order: 3, Group: "shop",
			Options: []personal.Option{{Value: "m", Label: personal.LocalText{"en": "Medium"}}, {Value: "l"}}},
		{Name: "age", Type: personal.TypeInteger, Min: ptr(0.0), Max: ptr(150.0), Default: number("18"), Hidden: true},
	}
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	if got := names(schema.Fields()); got != "age size" {
		t.Errorf("got fields %s, want age size", got)
	}
}

func TestParseJSON_RejectsInvalidFiles(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":               ``,
		"null":                  `null`,
		"object":                `{}`,
		"trailing data":         `[] []`,
		"unknown key":           `[{"name":"x","type":"text","colour":"red"}]`,
		"key in another case":   `[{"Name":"x","type":"text"}]`,
		"key with a folded k":   `[{"name":"x","type":"text","loo` + "K" + `":1}]`,
		"repeated key":          `[{"name":"x","name":"y","type":"text"}]`,
		"repeated label":        `[{"name":"x","type":"text","label":{"en":"a","EN":"b"}}]`,
		"repeated hint":         `[{"name":"x","type":"text","hint":{"en":"a","EN":"b"}}]`,
		"hint that is a text":   `[{"name":"x","type":"text","hint":"a"}]`,
		"unknown key in option": `[{"name":"x","type":"enum","options":[{"value":"a","order":1}]}]`,
		"option's key in caps":  `[{"name":"x","type":"enum","options":[{"Value":"a"}]}]`,
		"null field":            `[null]`,
		"field that is a text":  `["x"]`,
		"fractional order":      `[{"name":"x","type":"text","order":1.5}]`,
		"object as default":     `[{"name":"x","type":"text","default":{}}]`,
		"not UTF-8":             "[{\"name\":\"x\",\"type\":\"text\",\"group\":\"\xff\"}]",
		"invalid schema":        `[{"name":"x","type":"enum"}]`,
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := ParseJSON([]byte(text))
			var schemaErr *SchemaError
			if !errors.As(err, &schemaErr) {
				t.Errorf("got %v, want a *SchemaError", err)
			}
		})
	}
}

func TestParseJSON_SyntaxErrorSaysWhere(t *testing.T) {
	_, _, err := ParseJSON([]byte("[\n{\"name\": \"a\",}\n]"))
	const want = "user fields: line 2, column 14: expected a key in double quotes, found '}' after a comma: remove that comma"
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

func TestParseJSON_EmptySchemaIsValid(t *testing.T) {
	fields, schema, err := ParseJSON([]byte(" [] "))
	if err != nil || len(fields) != 0 || len(schema.Fields()) != 0 {
		t.Errorf("got %v, %v, %v; want no fields", fields, schema, err)
	}
}

func TestSchemaError_Text(t *testing.T) {
	for want, err := range map[string]error{
		"user field size: it has no type": &SchemaError{Field: "size", Problem: "it has no type"},
		"user field #2: it has no name":   &SchemaError{Field: "#2", Problem: "it has no name"},
		"user fields: not a JSON array":   &SchemaError{Problem: "not a JSON array"},
	} {
		if got := err.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// version030 is a schema of a made-up 0.3.0, which has a type of texts with a unit.
const version030 = `[{"name":"city","type":"text"},
	{"name":"height","type":"measure","min":"0 m","unit":{"si":"m"},"required":true,"default":"1 m","order":-1}]`

func TestParseJSON_TypeOfALaterVersion(t *testing.T) {
	fields, schema, err := ParseInForce([]byte(version030))
	if err != nil || len(fields) != 2 || fields[1].Type != "measure" || names(schema.Fields()) != "city" {
		t.Fatalf("in force: got %v, %v; want both, and only city known", fields, err)
	}
	if _, _, err := ParseJSON([]byte(version030), fields...); err != nil {
		t.Errorf("again: got %v, want it to be accepted", err)
	}
	for _, inForce := range [][]personal.Field{nil, {{Name: "height", Type: "weight"}}, {{Name: "width", Type: "measure"}}} {
		_, _, err := ParseJSON([]byte(version030), inForce...)
		want := SchemaError{Field: "height", Property: "type", Line: 2}
		var invalid *SchemaError
		if !errors.As(err, &invalid) || !strings.HasPrefix(invalid.Problem, `unknown type "measure": the types are boolean, `) {
			t.Fatalf("new beside %v: got %v, want an unknown type", inForce, err)
		}
		if invalid.Problem = ""; *invalid != want {
			t.Errorf("got %+v, want %+v", *invalid, want)
		}
	}
	for _, text := range []string{`[{"name":"Height","type":"measure"}]`, `[{"type":"measure"}]`, `[{"name":["x"],"type":"measure"}]`,
		`[{"name":"login","type":"measure"}]`, `[{"name":"a","type":"text"},{"name":"a","type":"measure"}]`, `[{"name":"a","type":"text","unit":"m"}]`} {
		if _, _, err := ParseInForce([]byte(text)); err == nil {
			t.Errorf("%s: got no error, want one", text)
		}
	}
}

func TestSchema_FieldOfALaterVersionIsKeptAndNotSet(t *testing.T) {
	_, s, err := ParseInForce([]byte(version030))
	if err != nil {
		t.Fatal(err)
	}
	const stored = `{"city":"Riga","height":"2 m"}`
	values, err := DecodeValues([]byte(stored))
	if err != nil {
		t.Fatal(err)
	}
	sent := map[string]personal.Input{"city": personal.Text("Omsk"), "height": personal.Text("3 m")}
	repeated := map[string]personal.Input{"height": {Kind: personal.InputRepeated, List: []string{"1 m", "2 m"}}}
	if err := s.Check(repeated); err != nil {
		t.Errorf("got %v, want no judgement of a type that may be a list", err)
	}
	for name, set := range map[string]func(map[string]personal.Input, *personal.FieldErrors) Values{
		"register": s.Register, "create": s.Create, "update": s.Update, "administer": s.Administer,
	} {
		var errs personal.FieldErrors
		got := values.Merge(set(sent, &errs))
		want := Values{"city": "Omsk", "height": "2 m"}
		if !cmp.Equal(got, want) || !cmp.Equal(errs, personal.FieldErrors{"height": personal.FieldErrorReadOnly}) {
			t.Errorf("%s: got %v, %v; want %v and height to be read-only", name, got, errs, want)
		}
	}
	filled, changed := s.Fill(Values{})
	if missing := s.Missing(Values{"city": "Riga"}); missing != nil || changed || names(s.Visible()) != "city" {
		t.Errorf("got missing %q, filled in %v, visible %v; want nothing of height", missing, filled, s.Visible())
	}
	if got := s.Profile(values); !cmp.Equal(got, []personal.ProfileField{{Name: "city", Value: "Riga"}}) {
		t.Errorf("got the profile %v, want city alone", got)
	}
	for stored, want := range map[string]any{
		`"2 m"`: "2 m", `2`: "2", `2.5`: "2.5", `true`: "true", `["1 m","2 m"]`: `["1 m","2 m"]`, `{"m":2}`: `{"m":2}`, `null`: nil,
	} {
		record := s.Record(Values{"height": DecodeValue(json.RawMessage(stored))})
		if got := record[len(record)-1]; got.Name != "height" || got.Value != want {
			t.Errorf("%s: got %v in the record, want %v", stored, got, want)
		}
	}
}
