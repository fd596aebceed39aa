package userfields

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cms-personal/personal/shared/personal"
)

func TestMissing_JudgesStoredValues(t *testing.T) {
	fields := []personal.Field{
		{Name: "hidden", Type: personal.TypeText, Hidden: true, MaxLength: 1},
		{Name: "fixed", Type: personal.TypeText, ReadOnly: true, MaxLength: 1},
		{Name: "x", Required: true},
	}
	const (
		none     = personal.FieldErrorCode("")
		required = personal.FieldErrorRequired
		kind     = personal.FieldErrorInvalidType
		format   = personal.FieldErrorInvalidFormat
		long     = personal.FieldErrorTooLong
		short    = personal.FieldErrorTooShort
		outside  = personal.FieldErrorOutOfRange
		unlisted = personal.FieldErrorNotInList
	)
	enum := personal.Field{Type: personal.TypeEnum, Options: []personal.Option{{Value: "a"}}}
	tests := []struct {
		field  personal.Field
		stored any
		want   personal.FieldErrorCode
	}{
		{personal.Field{Type: personal.TypeText}, nil, required},
		{personal.Field{Type: personal.TypeText}, "", required},
		{personal.Field{Type: personal.TypeText}, "a", none},
		{personal.Field{Type: personal.TypeText}, "a\n", format},
		{personal.Field{Type: personal.TypeText, MaxLength: 2}, "жжж", long},
		{personal.Field{Type: personal.TypeText, Pattern: "[0-9]+"}, "1a", format},
		{personal.Field{Type: personal.TypeText}, int64(1), kind},
		{personal.Field{Type: personal.TypeText}, true, kind},
		{personal.Field{Type: personal.TypeText}, []string{"a"}, kind},
		{personal.Field{Type: personal.TypeText}, json.RawMessage(`{}`), kind},
		{personal.Field{Type: personal.TypeInteger}, int64(42), none},
		{personal.Field{Type: personal.TypeInteger}, 42.0, none}, // another type before
		{personal.Field{Type: personal.TypeInteger}, 42.5, kind},
		{personal.Field{Type: personal.TypeInteger}, int64(maxInteger + 1), outside},
		{personal.Field{Type: personal.TypeInteger, Max: new(41.0)}, int64(42), outside},
		{personal.Field{Type: personal.TypeInteger}, "42", kind},
		{personal.Field{Type: personal.TypeInteger}, json.RawMessage(`123456789012345678901`), outside},
		{personal.Field{Type: personal.TypeNumber, Min: new(1.0)}, 0.5, outside},
		{personal.Field{Type: personal.TypeNumber}, int64(7), none},
		{personal.Field{Type: personal.TypeBoolean}, false, none},
		{personal.Field{Type: personal.TypeBoolean}, int64(1), kind},
		{personal.Field{Type: personal.TypeDate}, "2026-02-30", format},
		{personal.Field{Type: personal.TypeDateTime}, "2026-02-03T04:05:06Z", none},
		{personal.Field{Type: personal.TypeDateTime}, "yesterday", format},
		{enum, "a", none},
		{enum, "b", unlisted},
		{personal.Field{Type: personal.TypeTags}, []string{"a", "b"}, none},
		{personal.Field{Type: personal.TypeTags}, []string{}, required},
		{personal.Field{Type: personal.TypeTags}, []string{"a", ""}, short},
		{personal.Field{Type: personal.TypeTags, MaxLength: 1}, []string{"a", "bb"}, long},
		{personal.Field{Type: personal.TypeTags}, make([]string, 1001), long},
		{personal.Field{Type: personal.TypeTags}, "a", kind},
		{personal.Field{Type: personal.TypeLink}, "a b", format},
		{personal.Field{Type: personal.TypeFile}, "../x", format},
	}
	for _, tt := range tests {
		for _, required := range []bool{true, false} {
			fields[2] = tt.field
			fields[2].Name, fields[2].Required = "x", required
			s := mustCompile(t, fields...)
			values := Values{"hidden": "too long", "fixed": "too long", "x": tt.stored}
			var want personal.FieldErrors
			var names []string
			if tt.want != "" && (required || tt.want != personal.FieldErrorRequired) {
				want, names = personal.FieldErrors{"x": tt.want}, []string{"x"}
			}
			if got := s.Violations(values); !cmp.Equal(got, want) {
				t.Errorf("%s, required %t, stored %#v: got %v, want %v", tt.field.Type, required, tt.stored, got, want)
			}
			if got := s.Missing(values); !cmp.Equal(got, names) {
				t.Errorf("%s, required %t, stored %#v: got missing %q, want %q", tt.field.Type, required, tt.stored, got, names)
			}
		}
	}
}

func TestMissing_NamesFieldsInOrder(t *testing.T) {
	s := mustCompile(t, personal.Field{Name: "b", Type: personal.TypeText, Required: true, Order: 2},
		personal.Field{Name: "a", Type: personal.TypeText, Required: true, Order: 3},
		personal.Field{Name: "c", Type: personal.TypeText, Required: true})
	if got, want := s.Missing(Values{"a": int64(1)}), []string{"c", "b", "a"}; !cmp.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestMissing_AllocatesNothingForValidValues(t *testing.T) {
	s := mustCompile(t, personal.Field{Name: "city", Type: personal.TypeText, Required: true, Pattern: "[A-Za-z]+"},
		personal.Field{Name: "age", Type: personal.TypeInteger, Max: new(150.0)}, personal.Field{Name: "born", Type: personal.TypeDateTime},
		personal.Field{Name: "tags", Type: personal.TypeTags}, personal.Field{Name: "news", Type: personal.TypeBoolean},
		personal.Field{Name: "size", Type: personal.TypeEnum, Options: []personal.Option{{Value: "s"}, {Value: "m"}}})
	values := Values{"city": "Omsk", "age": int64(42), "born": "2026-02-03T04:05:06Z", "tags": []string{"a"}, "news": true, "size": "m"}
	if got := testing.AllocsPerRun(100, func() { s.Missing(values) }); got != 0 {
		t.Errorf("got %v allocations, want none", got)
	}
}

func TestFill_SetsDefaultsOfUnsetRequiredFields(t *testing.T) {
	s := mustCompile(t, personal.Field{Name: "city", Type: personal.TypeText, Required: true, Default: personal.Text("Riga")},
		personal.Field{Name: "tags", Type: personal.TypeTags, Required: true, Default: personal.Text("new")},
		personal.Field{Name: "age", Type: personal.TypeInteger, Required: true},
		personal.Field{Name: "news", Type: personal.TypeBoolean, Default: personal.Text("true")},
		personal.Field{Name: "group", Type: personal.TypeText, ReadOnly: true, Default: personal.Text("users")})
	for _, tt := range []struct{ stored, want Values }{
		{nil, Values{"city": "Riga", "tags": []string{"new"}}},
		{Values{"city": nil, "gone": "kept"}, Values{"city": "Riga", "tags": []string{"new"}, "gone": "kept"}},
		{Values{"city": int64(7), "tags": []string{}}, nil},
		{Values{"city": "", "tags": "x"}, nil},
	} {
		before := maps.Clone(tt.stored)
		got, changed := s.Fill(tt.stored)
		want := tt.want
		if want == nil {
			want = tt.stored
		}
		if !cmp.Equal(got, want) || changed != (tt.want != nil) {
			t.Errorf("%v: got %v, %t; want %v, %t", tt.stored, got, changed, want, tt.want != nil)
		}
		if !cmp.Equal(tt.stored, before) {
			t.Errorf("got the stored values changed to %v, want %v", tt.stored, before)
		}
	}
}

// anyField draws a field of any type, with rules that it may have.
func anyField(t *rapid.T, name string) personal.Field {
	f := fieldOf(rapid.SampledFrom(allTypes).Draw(t, "type of "+name))
	f.Name, f.Required = name, rapid.Bool().Draw(t, "required")
	k, _ := kindOf(f)
	if k.Textual && rapid.Bool().Draw(t, "with rules") {
		f.MaxLength = rapid.IntRange(1, 4).Draw(t, "max_length")
		f.Pattern = rapid.SampledFrom([]string{"", "[a-z]*", `[^/]+`}).Draw(t, "pattern")
	}
	if k.Ranged && rapid.Bool().Draw(t, "with rules") {
		f.Min, f.Max = new(0.0), new(rapid.Float64Range(0, 100).Draw(t, "max"))
	}
	return f
}

// compileDrawn compiles a field with a drawn default, or without one if that is invalid.
func compileDrawn(t *rapid.T, f personal.Field) *Schema {
	f.Default = inputs().Draw(t, "default")
	if s, err := Compile([]personal.Field{f}); err == nil {
		return s
	}
	f.Default = personal.Input{}
	return mustCompile(t, f)
}

func TestMissing_AcceptedValuesAreNeverMissing(t *testing.T) {
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		s := compileDrawn(t, anyField(t, "x"))
		var errs personal.FieldErrors
		values := s.Register(map[string]personal.Input{"x": inputs().Draw(t, "registered")}, &errs)
		if len(errs) > 0 {
			return
		}
		check := func(when string) {
			data, err := values.Encode()
			if err != nil {
				t.Fatal(err)
			}
			stored, err := DecodeValues(data)
			if missing := s.Missing(stored); err != nil || missing != nil {
				t.Fatalf("%s %s: got missing %q, %v; want none", when, data, missing, err)
			}
			if _, changed := s.Fill(stored); changed {
				t.Fatalf("%s %s: got it filled in, want it left", when, data)
			}
		}
		check("registered")
		accepted++
		if change := s.Update(map[string]personal.Input{"x": inputs().Draw(t, "updated")}, &errs); len(errs) == 0 {
			values = values.Merge(change)
			check("updated")
		}
	})
	if accepted == 0 {
		t.Error("got no accepted input, want some")
	}
}

func TestMissing_AgreesWithReadingAnew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyField(t, "x"), anyField(t, "x")
		var errs personal.FieldErrors
		a.Required = false
		values := mustCompile(t, a).Register(map[string]personal.Input{"x": inputs().Draw(t, "input")}, &errs)
		if len(errs) > 0 || values["x"] == nil {
			return
		}
		s := mustCompile(t, b)
		valid := s.Missing(values) == nil
		// A value that is shown, and accepted when it is sent again, is valid, and no other.
		shown := s.Record(values)[0].Value
		s.Register(map[string]personal.Input{"x": again(shown)}, &errs)
		if list, ok := shown.([]string); ok && len(list) == 0 {
			return // an empty list is also unset
		}
		if want := shown != nil && len(errs) == 0; valid != want {
			t.Fatalf("value %#v: got valid %t, want %t (%v)", values["x"], valid, want, errs)
		}
	})
}

func checkFill(t rapid.TB, s *Schema, stored Values) {
	t.Helper()
	filled, changed := s.Fill(stored)
	for name, value := range stored {
		if value != nil && !cmp.Equal(filled[name], value) {
			t.Fatalf("got %s=%v, want %v as before", name, filled[name], value)
		}
	}
	if changed == cmp.Equal(filled, stored) {
		t.Fatalf("got changed %t for %v from %v", changed, filled, stored)
	}
	for _, name := range s.Missing(filled) {
		if !slices.Contains(s.Missing(stored), name) {
			t.Fatalf("got %s missing after filling in, want no new one", name)
		}
	}
	if twice, again := s.Fill(filled); again || !cmp.Equal(twice, filled) {
		t.Fatalf("again: got %v, want no change of %v", twice, filled)
	}
}

func TestFill_ReplacesNothingAndIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := compileDrawn(t, anyField(t, "x"))
		var errs personal.FieldErrors
		checkFill(t, s, mustCompile(t, anyField(t, "x")).Register(map[string]personal.Input{"x": inputs().Draw(t, "input")}, &errs))
	})
}

// FuzzStored takes any JSON that a database may hold.
func FuzzStored(f *testing.F) {
	for _, stored := range []string{`{"x":"a"}`, `{"x":[]}`, `{"x":["a",1]}`, `{"x":1e999}`, `{"x":{}}`, `{"x":null}`,
		`{"x":12345678901234567890}`, `{"x":42.0}`} {
		for i := range allTypes {
			f.Add(uint8(i), true, []byte(stored))
		}
	}
	f.Fuzz(func(t *testing.T, fieldType uint8, required bool, data []byte) {
		field := fieldOf(allTypes[int(fieldType)%len(allTypes)])
		field.Required = required
		s := mustCompile(t, field)
		stored, err := DecodeValues(data)
		if slow, failed := decodeRaw(data); (err == nil) != (failed == nil) || !cmp.Equal(stored, slow) {
			t.Fatalf("got %v, %v; read value by value %v, %v", stored, err, slow, failed)
		}
		if err != nil {
			return
		}
		checkFill(t, s, stored)
		if names, codes := s.Missing(stored), s.Violations(stored); len(names) != len(codes) {
			t.Fatalf("got %q and %v, want the same fields", names, codes)
		}
	})
}
