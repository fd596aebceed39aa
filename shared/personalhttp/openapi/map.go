package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Map is a JSON object whose members keep their order.
type Map[T any] []Member[T]

// Member is a member of a [Map].
type Member[T any] struct {
	Name  string
	Value T
}

// Add appends a member. The name must be new.
func (m *Map[T]) Add(name string, value T) {
	*m = append(*m, Member[T]{name, value})
}

// MarshalJSON writes the object.
func (m Map[T]) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, member := range m {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(member.Name)
		if err != nil {
			return nil, fmt.Errorf("writing the name %q: %w", member.Name, err)
		}
		value, err := json.Marshal(member.Value)
		if err != nil {
			return nil, fmt.Errorf("writing %s: %w", member.Name, err)
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
