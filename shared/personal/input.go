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

// UnmarshalJSON decodes any JSON value. Of an object, and of a list of anything but texts,
// it keeps nothing; of a list, it reads one item more than a field may have.
func (in *Input) UnmarshalJSON(data []byte) error {
	if data = bytes.TrimLeft(data, " \t\r\n"); len(data) > 0 && (data[0] == '[' || data[0] == '{') {
		return in.unmarshalList(data)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return fmt.Errorf("decoding a value: %w", err)
	}
	switch v := v.(type) {
	case nil:
		*in = Input{}
	case string:
		*in = Text(v)
	case json.Number:
		*in = Input{Kind: InputNumber, Text: v.String()}
	case bool:
		*in = Input{Kind: InputBoolean, Text: strconv.FormatBool(v)}
	}
	return nil
}

// unmarshalList decodes a list or an object.
func (in *Input) unmarshalList(data []byte) error {
	*in = Input{Kind: InputOther}
	d := json.NewDecoder(bytes.NewReader(data))
	if first, err := d.Token(); err != nil || first != json.Delim('[') {
		return err
	}
	list := []string{}
	for d.More() && len(list) <= maxItems {
		item, err := d.Token()
		if err != nil {
			return fmt.Errorf("decoding a value: %w", err)
		}
		text, ok := item.(string)
		if !ok {
			return nil
		}
		list = append(list, text)
	}
	*in = Input{Kind: InputList, List: list}
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
