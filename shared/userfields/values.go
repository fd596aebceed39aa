package userfields

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/cms-personal/personal/shared/personal"
)

// Values are an account's user fields by name: nil, bool, int64, float64, string
// or []string. Values from storage may also be a [json.RawMessage], which is any other
// JSON and is preserved. Fields that the schema no longer has are preserved too.
type Values map[string]any

// Merge returns a copy of v with the change that [Schema.Update] returned. Cleared
// fields are removed.
func (v Values) Merge(change Values) Values {
	merged := maps.Clone(v)
	if merged == nil {
		merged = Values{}
	}
	for name, value := range change {
		if value == nil {
			delete(merged, name)
			continue
		}
		merged[name] = value
	}
	return merged
}

// Changed returns the names of the fields whose value [Values.Merge] with this change
// changes, sorted.
func (v Values) Changed(change Values) []string {
	var names []string
	for name, value := range change {
		if !same(v[name], value) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// same reports whether two values are equal. A number is equal in any notation: a database
// may have rewritten it.
func same(a, b any) bool {
	x, kind, scalar := literal(a)
	y, other, ok := literal(b)
	switch {
	case !scalar || !ok:
		return reflect.DeepEqual(a, b)
	case kind != other || kind != personal.InputNumber:
		return kind == other && x == y
	}
	n, err := strconv.ParseFloat(x, 64)
	m, err2 := strconv.ParseFloat(y, 64)
	return x == y || err == nil && err2 == nil && n == m
}

// Encode returns the values as a JSON object with sorted names. A float64 always has a
// point or an exponent, which distinguishes it from an int64. Encode returns an error
// for a float64 that is not finite.
func (v Values) Encode() ([]byte, error) {
	object := make(map[string]any, len(v))
	for name, value := range v {
		if n, ok := value.(float64); ok {
			literal, err := floatLiteral(n)
			if err != nil {
				return nil, fmt.Errorf("encoding user field %s: %w", name, err)
			}
			value = literal
		}
		object[name] = value
	}
	data, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encoding user fields: %w", err)
	}
	return data, nil
}

func floatLiteral(n float64) (json.Number, error) {
	if math.IsNaN(n) || math.IsInf(n, 0) {
		return "", errors.New("the number is not finite")
	}
	s := strconv.FormatFloat(n, 'g', -1, 64)
	if !isFloat(s) {
		s += ".0"
	}
	return json.Number(s), nil
}

func isFloat(literal string) bool { return strings.ContainsAny(literal, ".eE") }

// DecodeValues decodes the result of [Values.Encode], or any other JSON object.
func DecodeValues(data []byte) (Values, error) {
	if string(data) == "{}" { // of most users, if the site needs no field
		return Values{}, nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var values map[string]any
	if d.Decode(&values) != nil || d.InputOffset() != int64(len(data)) {
		return decodeRaw(data) // which says what is wrong, with no error of a stream: that means a lost connection
	}
	for name, v := range values {
		value, ok := decoded(v)
		if !ok {
			return decodeRaw(data)
		}
		values[name] = value
	}
	if values == nil {
		values = Values{}
	}
	return values, nil
}

// decodeRaw is DecodeValues for objects with values of no user field and for invalid JSON,
// and slower.
func decodeRaw(data []byte) (Values, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(data, &object); err != nil {
		return nil, fmt.Errorf("decoding user fields: %w", err)
	}
	values := make(Values, len(object))
	for name, raw := range object {
		values[name] = DecodeValue(raw)
	}
	return values, nil
}

// DecodeValue decodes one value from valid JSON. It returns raw for JSON that is not a
// value of a user field.
func DecodeValue(raw json.RawMessage) any {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return raw
	}
	if value, ok := decoded(v); ok {
		return value
	}
	return raw
}

// decoded returns the value of a user field that JSON was decoded to, or false.
func decoded(v any) (any, bool) {
	switch v := v.(type) {
	case nil, bool, string:
		return v, true
	case json.Number:
		return decodeNumber(v)
	case []any:
		return decodeList(v)
	}
	return nil, false
}

func decodeNumber(n json.Number) (any, bool) {
	if !isFloat(n.String()) {
		i, err := n.Int64()
		return i, err == nil
	}
	f, err := n.Float64()
	return f, err == nil
}

func decodeList(items []any) (any, bool) {
	list := make([]string, 0, len(items))
	for _, item := range items {
		text, ok := item.(string)
		if !ok {
			return nil, false
		}
		list = append(list, text)
	}
	return list, true
}

// literal returns a stored scalar as a client would send it, and the native kind of
// the types that store such values. A database may rewrite 42.0 as 42, so integers and
// numbers are read alike.
func literal(stored any) (text string, native personal.InputKind, ok bool) {
	switch v := stored.(type) {
	case string:
		return v, personal.InputUnset, true
	case bool:
		return strconv.FormatBool(v), personal.InputBoolean, true
	case int64:
		return strconv.FormatInt(v, 10), personal.InputNumber, true
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), personal.InputNumber, true
	case json.RawMessage: // an integer that is too large for an int64
		return string(v), personal.InputNumber, true
	}
	return "", personal.InputUnset, false
}
