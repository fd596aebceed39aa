package userfields

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
)

func TestChanged_NamesWhatMergeChanges(t *testing.T) {
	stored := Values{"a": "x", "n": 42.0, "i": int64(42), "list": []string{"p", "q"}, "b": true, "raw": json.RawMessage(`{}`),
		"big": json.RawMessage(`100000000000000000000`)}
	for name, test := range map[string]struct {
		change Values
		want   []string
	}{
		"nothing sent":                {nil, nil},
		"the same values":             {Values{"a": "x", "n": 42.0, "i": int64(42), "list": []string{"p", "q"}, "b": true}, nil},
		"numbers in another form":     {Values{"n": int64(42), "i": 42.0, "big": 1e20}, nil},
		"an unset field cleared":      {Values{"none": nil}, nil},
		"each value, sorted":          {Values{"list": []string{"q", "p"}, "a": "y", "n": 42.5, "b": false, "i": int64(1), "new": "z"}, []string{"a", "b", "i", "list", "n", "new"}},
		"cleared":                     {Values{"a": nil, "list": nil}, []string{"a", "list"}},
		"another type":                {Values{"a": int64(1), "b": "true", "i": "42"}, []string{"a", "b", "i"}},
		"a value that was no field's": {Values{"raw": int64(0)}, []string{"raw"}},
	} {
		if got := stored.Changed(test.change); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}

func TestValues_TypesSurviveStorage(t *testing.T) {
	want := Values{
		"null": nil, "yes": true, "integer": int64(maxInteger), "large": int64(math.MaxInt64), "whole": 42.0, "huge": 1e300,
		"tiny": 5e-324, "text": "<b>\u2028\"", "list": []string{"a", ""}, "empty": []string{},
	}
	data, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeValues(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestValues_UnknownJSONIsPreserved(t *testing.T) {
	const stored = `{"list":[1,"a"],"number":123456789012345678901234567890,"object":{"b":1,"a":[2.50]},"out":1e999}`
	values, err := DecodeValues([]byte(stored))
	if err != nil {
		t.Fatal(err)
	}
	got, err := values.Encode()
	if err != nil || string(got) != stored {
		t.Errorf("got %s, %v; want %s", got, err, stored)
	}
}

func TestDecodeValues_ObjectsOnly(t *testing.T) {
	for _, data := range []string{``, `[`, `[]`, `1`, `{"a":1} {}`, `{"a":}`, `{"a":1`} {
		v, err := DecodeValues([]byte(data))
		if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) { // a store takes these for an outage
			t.Errorf("%q: got %v, %v, want an error that is not one of a stream", data, v, err)
		}
	}
	if data, err := Values(nil).Encode(); err != nil || string(data) != "{}" {
		t.Errorf("no values: got %s, %v; want {}", data, err)
	}
	if _, err := (Values{"x": math.NaN()}).Encode(); err == nil {
		t.Error("NaN: got no error, want one")
	}
}

func TestMerge_SetsClearsAndKeeps(t *testing.T) {
	before := Values{"a": "1", "b": "2", "removed_field": json.RawMessage(`{}`)}
	got := before.Merge(Values{"a": nil, "c": int64(3)})
	want := Values{"b": "2", "c": int64(3), "removed_field": json.RawMessage(`{}`)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if before["a"] != "1" {
		t.Errorf("got receiver %v, want it unchanged", before)
	}
	if diff := cmp.Diff(Values{"c": true}, Values(nil).Merge(Values{"c": true})); diff != "" {
		t.Error(diff)
	}
}

func TestProfile_VisibleFieldsInOrder(t *testing.T) {
	s := mustCompile(t,
		personal.Field{Name: "b", Type: "text", Order: 1},
		personal.Field{Name: "a", Type: "integer", ReadOnly: true},
		personal.Field{Name: "secret", Type: "text", Hidden: true},
		personal.Field{Name: "new", Type: "tags", Default: list("x")},
	)
	stored := Values{"b": "text", "a": int64(1), "secret": "x", "gone": "y"}
	want := []personal.ProfileField{{Name: "a", Value: int64(1)}, {Name: "new"}, {Name: "b", Value: "text"}}
	if diff := cmp.Diff(want, s.Profile(stored)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want = slices.Insert(want, 1, personal.ProfileField{Name: "secret", Value: "x"})
	if diff := cmp.Diff(want, s.Record(stored)); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
}

func TestProfile_HidesValuesOfOtherTypes(t *testing.T) {
	tests := []struct {
		field  personal.FieldType
		stored any
		want   any
	}{
		{"text", int64(1), nil},
		{"text", []string{"a"}, nil},
		{"text", "a", "a"},
		{"tags", "a", nil},
		{"tags", []string{"a"}, []string{"a"}},
		{"tags", []string{}, []string{}},
		{"link_set", []string{"a b"}, nil},
		{"boolean", "true", nil},
		{"boolean", int64(1), nil},
		{"boolean", false, false},
		{"integer", "42", nil},
		{"integer", 42.0, int64(42)},
		{"integer", 42.5, nil},
		{"number", int64(42), 42.0},
		{"number", json.RawMessage("1000000000000000000000"), 1e21},
		{"number", json.RawMessage("{}"), nil},
		{"number", true, nil},
		{"date", "soon", nil},
		{"date", "2024-02-29", "2024-02-29"},
		{"file", "javascript:alert(1)", nil},
		{"enum", "gone", nil},
		{"enum", "a", "a"},
	}
	for _, test := range tests {
		field := personal.Field{Name: "x", Type: test.field}
		if test.field == personal.TypeEnum {
			field.Options = []personal.Option{{Value: "a"}}
		}
		got := mustCompile(t, field).Profile(Values{"x": test.stored})
		if diff := cmp.Diff([]personal.ProfileField{{Name: "x", Value: test.want}}, got); diff != "" {
			t.Errorf("%s from %#v (-want +got):\n%s", test.field, test.stored, diff)
		}
	}
}

func TestProfile_ShowsValuesThatBreakNewRules(t *testing.T) {
	s := mustCompile(t, personal.Field{Name: "x", Type: "text", MaxLength: 1, Pattern: "a"})
	if got := s.Profile(Values{"x": "longer"})[0].Value; got != "longer" {
		t.Errorf("got %v, want %q", got, "longer")
	}
}

func TestProfile_ShowsValuesAboveTypeLimit(t *testing.T) {
	long := strings.Repeat("x", 30000)
	for fieldType, stored := range map[personal.FieldType]any{
		"text": long, "long_text": long, "file": long, "link": long, "tags": []string{long}, "link_set": slices.Repeat([]string{"7"}, 300),
	} {
		s := mustCompile(t, personal.Field{Name: "x", Type: fieldType}, personal.Field{Name: "y", Type: "text"})
		if diff := cmp.Diff(stored, s.Profile(Values{"x": stored})[0].Value); diff != "" {
			t.Errorf("%s (-want +got):\n%s", fieldType, diff)
		}
		var errs personal.FieldErrors
		change := s.Update(map[string]personal.Input{"y": personal.Text("new")}, &errs)
		if len(errs) > 0 {
			t.Errorf("%s: change of another field: got errors %v, want none", fieldType, errs)
		}
		if diff := cmp.Diff(Values{"x": stored, "y": "new"}, Values{"x": stored}.Merge(change)); diff != "" {
			t.Errorf("%s: after a change of another field (-want +got):\n%s", fieldType, diff)
		}
	}
}
