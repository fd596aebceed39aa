package userfields

import (
	"bytes"
	"encoding/json"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/cms-personal/personal/shared/personal"
)

var allTypes = personal.FieldTypes()

func TestReaders_OfEveryType(t *testing.T) {
	if len(readers) != len(allTypes) {
		t.Errorf("got readers of %d types, want %d", len(readers), len(allTypes))
	}
	for _, fieldType := range allTypes {
		if _, known := kindOf(fieldOf(fieldType)); !known {
			t.Errorf("%s: got no reader in types.go", fieldType)
		}
	}
}

func fieldOf(t personal.FieldType) personal.Field {
	f := personal.Field{Name: "x", Type: t}
	if t == personal.TypeEnum {
		f.Options = []personal.Option{{Value: "a"}, {Value: "42"}, {Value: "true"}}
	}
	return f
}

// again returns a value as a client would send it.
func again(v any) personal.Input {
	switch v := v.(type) {
	case bool:
		return boolean(strconv.FormatBool(v))
	case int64:
		return number(strconv.FormatInt(v, 10))
	case float64:
		return number(strconv.FormatFloat(v, 'g', -1, 64))
	case string:
		return personal.Text(v)
	case []string:
		return list(v...)
	}
	return personal.Input{}
}

// checkStable checks that a value that the schema accepts is unchanged by storage, is
// shown in a profile, and is accepted again. It returns whether the input was accepted.
func checkStable(t rapid.TB, s *Schema, in personal.Input) bool {
	t.Helper()
	var errs personal.FieldErrors
	values := s.Register(map[string]personal.Input{"x": in}, &errs)
	if len(errs) > 0 {
		return false
	}
	data, err := values.Encode()
	if err != nil {
		t.Fatal(err)
	}
	stored, err := DecodeValues(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(values, stored); diff != "" {
		t.Fatalf("stored value (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(values["x"], s.Profile(stored)[0].Value); diff != "" {
		t.Fatalf("value in the profile (-want +got):\n%s", diff)
	}
	repeated := s.Register(map[string]personal.Input{"x": again(values["x"])}, &errs)
	if len(errs) > 0 {
		t.Fatalf("accepted value sent again: got errors %v, want none", errs)
	}
	if diff := cmp.Diff(values, repeated); diff != "" {
		t.Fatalf("value sent again (-want +got):\n%s", diff)
	}
	return true
}

func inputs() *rapid.Generator[personal.Input] {
	texts := rapid.OneOf(
		rapid.String(),
		rapid.SampledFrom([]string{"a", "on", "2024-02-29", "0000-01-01", "2024-02-29T01:02:03.000000001+14:00", "https://example.com/x",
			"a/b", "9007199254740991", "1e22", "-0", "4.9e-324", "0.1", "true"}),
		rapid.StringMatching(`-?[0-9]{1,4}(\.[0-9]{1,3})?(e-?[0-9]{1,2})?`),
	)
	return rapid.Custom(func(t *rapid.T) personal.Input {
		kind := personal.InputKind(rapid.IntRange(int(personal.InputUnset), int(personal.InputOther)).Draw(t, "kind"))
		return personal.Input{Kind: kind, Text: texts.Draw(t, "text"), List: rapid.SliceOfN(texts, 0, 4).Draw(t, "list")}
	})
}

func TestRegister_AcceptedValuesAreStable(t *testing.T) {
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		s := mustCompile(t, fieldOf(rapid.SampledFrom(allTypes).Draw(t, "type")))
		if checkStable(t, s, inputs().Draw(t, "input")) {
			accepted++
		}
	})
	if accepted == 0 {
		t.Error("got no accepted input, want some")
	}
}

func FuzzRegister(f *testing.F) {
	for i := range allTypes {
		f.Add(uint8(i), uint8(1), "42", 0, "")
	}
	f.Add(uint8(6), uint8(1), "2024-02-29T01:02:03.5+01:00", 0, "")
	f.Add(uint8(8), uint8(1), "a/%2e%2e/b", 0, "")
	f.Add(uint8(11), uint8(5), "a\x01b\x01a", 3, `\w+`)
	f.Fuzz(func(t *testing.T, fieldType, kind uint8, text string, maxLength int, pattern string) {
		field := fieldOf(allTypes[int(fieldType)%len(allTypes)])
		if k, _ := kindOf(field); k.Textual {
			field.MaxLength, field.Pattern = maxLength, pattern
		}
		s, err := Compile([]personal.Field{field})
		if err != nil {
			return // not a valid schema
		}
		in := personal.Input{Kind: personal.InputKind(kind % 7), Text: text}
		for _, item := range bytes.Split([]byte(text), []byte{1}) {
			in.List = append(in.List, string(item))
		}
		checkStable(t, s, in)
	})
}

func FuzzParseJSON(f *testing.F) {
	f.Add([]byte(`[{"name":"x","type":"enum","options":[{"value":"a","label":{"en":"A"}}],"default":"a"}]`))
	f.Add([]byte(`[{"name":"x","type":"integer","min":1,"max":2e1,"default":1.0,"order":-1}]`))
	f.Add([]byte(`[{"name":"x","type":"enum","label":{},"options":[{"value":"0","label":{}}]},{"name":"y","type":"bool","options":[]}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		fields, _, err := ParseJSON(data)
		if err != nil {
			return
		}
		written, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		again, _, err := ParseJSON(written)
		if err != nil {
			t.Fatalf("%s: %v", written, err)
		}
		// An empty label or list of options is equal to a missing one.
		if diff := cmp.Diff(fields, again, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}
