package personal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// InputKind is the form in which a value was sent.
type InputKind int

// The kinds of input. The zero value is "not set".
const (
	InputUnset    InputKind = iota // JSON null or an empty text
	InputText                      // a text from a form or from JSON
	InputNumber                    // a JSON number; Text is its literal
	InputBoolean                   // a JSON boolean; Text is "true" or "false"
	InputList                      // a JSON list of texts, or name[] in a form
	InputRepeated                  // a name that a form has more than once: a list, or a malformed scalar
	InputOther                     // a JSON object, or a list of anything but texts
)

// Input is a value as the caller sent it. Package userfields converts it to the type
// that the schema defines.
type Input struct {
	Kind InputKind
	Text string   // InputText, InputNumber, InputBoolean
	List []string // InputList, InputRepeated
}

// Text returns the input for one text, which is unset if the text is empty.
func Text(s string) Input {
	if s == "" {
		return Input{}
	}
	return Input{Kind: InputText, Text: s}
}

// IsZero reports whether the value is unset.
func (in Input) IsZero() bool { return in.Kind == InputUnset }

// UnmarshalJSON decodes any JSON value.
func (in *Input) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return fmt.Errorf("decoding a value: %w", err)
	}
	*in = Input{Kind: InputOther}
	switch v := v.(type) {
	case nil:
		*in = Input{}
	case string:
		*in = Text(v)
	case json.Number:
		*in = Input{Kind: InputNumber, Text: v.String()}
	case bool:
		*in = Input{Kind: InputBoolean, Text: strconv.FormatBool(v)}
	case []any:
		list := make([]string, len(v))
		for i, item := range v {
			var ok bool
			if list[i], ok = item.(string); !ok {
				return nil
			}
		}
		*in = Input{Kind: InputList, List: list}
	}
	return nil
}

// MarshalJSON encodes the value so that UnmarshalJSON decodes an equal one. It returns
// an error for InputOther. A repeated name becomes a list.
func (in Input) MarshalJSON() ([]byte, error) {
	switch in.Kind {
	case InputUnset:
		return []byte("null"), nil
	case InputText:
		return json.Marshal(in.Text)
	case InputNumber, InputBoolean:
		return []byte(in.Text), nil
	case InputList, InputRepeated:
		if in.List == nil {
			return []byte("[]"), nil
		}
		return json.Marshal(in.List)
	}
	return nil, fmt.Errorf("input of kind %d has no JSON form", in.Kind)
}
