package personalhttp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// object is a JSON object that keeps the order of its members. A value is an
// *object, an []any, or what encoding/json can write.
type object struct {
	names  []string
	values map[string]any
}

func newObject() *object { return &object{values: map[string]any{}} }

// parseObject reads an object, and those in it.
func parseObject(data []byte) (*object, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := parseValue(d)
	if o, ok := v.(*object); ok || err != nil {
		return o, err
	}
	return nil, fmt.Errorf("not an object but %T", v)
}

func parseValue(d *json.Decoder) (any, error) {
	token, err := d.Token()
	switch token {
	case json.Delim('{'):
		o := newObject()
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			value, err := parseValue(d)
			if err != nil {
				return nil, err
			}
			o.set(name.(string), value)
		}
		_, err = d.Token()
		return o, err
	case json.Delim('['):
		list := []any{}
		for d.More() {
			value, err := parseValue(d)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		_, err = d.Token()
		return list, err
	}
	return token, err
}

// at returns the object at a path of names, which must be there.
func (o *object) at(names ...string) *object {
	for _, name := range names {
		o = o.values[name].(*object)
	}
	return o
}

// text returns a member that is a string.
func (o *object) text(name string) string { return o.values[name].(string) }

// set replaces a member, or adds it as the last.
func (o *object) set(name string, value any) {
	if _, known := o.values[name]; !known {
		o.names = append(o.names, name)
	}
	o.values[name] = value
}

// remove takes a member that is an object out and returns it.
func (o *object) remove(name string) *object {
	removed := o.at(name)
	delete(o.values, name)
	o.names = slices.DeleteFunc(o.names, func(n string) bool { return n == name })
	return removed
}

// removePrefixed removes every member whose name has the prefix, here and in the
// objects below.
func (o *object) removePrefixed(prefix string) {
	for _, name := range slices.Clone(o.names) {
		below, ok := o.values[name].(*object)
		switch {
		case ok && strings.HasPrefix(name, prefix):
			o.remove(name)
		case ok:
			below.removePrefixed(prefix)
		}
	}
}

// clone returns a copy that shares its values.
func (o *object) clone() *object {
	return &object{names: slices.Clone(o.names), values: maps.Clone(o.values)}
}

// MarshalJSON writes the members in their order.
func (o *object) MarshalJSON() ([]byte, error) {
	b := []byte("{")
	for i, name := range o.names {
		if i > 0 {
			b = append(b, ',')
		}
		for j, part := range []any{name, o.values[name]} {
			if j > 0 {
				b = append(b, ':')
			}
			text, err := marshal(part)
			if err != nil {
				return nil, err
			}
			b = append(b, text...)
		}
	}
	return append(b, '}'), nil
}
