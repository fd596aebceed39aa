package userfields

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
)

// Values are an account's user fields by name: nil, bool, int64, float64, string
// or []string. As read from storage they may also hold a [json.RawMessage]: a
// value that is none of these, which is kept as it is. Names that the schema no
// longer has are kept too.
type Values map[string]any

// Merge returns v with a change of [Schema.Update] applied; v stays as it is.
// Cleared fields are left out.
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

// Encode writes the values as a JSON object with sorted names. A float64 is
// written with a point or an exponent, which tells it from an int64. The error
// is for a float64 that is not finite.
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
		return "", errors.New("number is not finite")
	}
	s := strconv.FormatFloat(n, 'g', -1, 64)
	if !isFloat(s) {
		s += ".0"
	}
	return json.Number(s), nil
}

func isFloat(literal string) bool { return strings.ContainsAny(literal, ".eE") }

// DecodeValues reads what [Values.Encode] wrote, and any other JSON object.
func DecodeValues(data []byte) (Values, error) {
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

// DecodeValue reads one value, which is valid JSON, or keeps it raw.
func DecodeValue(raw json.RawMessage) any {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return raw
	}
	switch v := v.(type) {
	case nil, bool, string:
		return v
	case json.Number:
		if n, ok := decodeNumber(v); ok {
			return n
		}
	case []any:
		if list, ok := decodeList(v); ok {
			return list
		}
	}
	return raw
}

func decodeNumber(n json.Number) (any, bool) {
	if !isFloat(n.String()) {
		i, err := n.Int64()
		return i, err == nil
	}
	f, err := n.Float64()
	return f, err == nil
}

func decodeList(items []any) ([]string, bool) {
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
