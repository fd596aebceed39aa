package personal

// Schema is the host's set of user fields.
type Schema struct {
	Revision string  // changes whenever the fields change; opaque, not empty, at most 256 characters
	Fields   []Field // in the order in which they are shown; valid, see package userfields
}

// LocalText is a text in several languages: BCP 47 tag -> text.
type LocalText map[string]string

// Field describes one user field. Its JSON form is that of the host's
// user-fields.json, where a missing property is false or none, and a missing
// max_length is the limit of the type (HTTP contract, section 4).
type Field struct {
	Name      string    `json:"name"` // lower snake case; not the name of a parameter and not a system name
	Type      FieldType `json:"type"`
	Label     LocalText `json:"label,omitempty"`
	Hint      LocalText `json:"hint,omitempty"` // what forms show under the label
	Required  bool      `json:"required,omitempty"`
	Default   Input     `json:"default,omitzero"`     // applied at registration
	MaxLength int       `json:"max_length,omitempty"` // in characters, for a list of each item; 0: see EffectiveMaxLength
	Min       *float64  `json:"min,omitempty"`        // integer and number only
	Max       *float64  `json:"max,omitempty"`
	Pattern   string    `json:"pattern,omitempty"` // RE2, must match the whole value, for a list each item

	// PatternMessage says what a value must look like: users read it instead of the usual
	// message for invalid_format.
	PatternMessage LocalText `json:"pattern_message,omitempty"`

	Options  []Option `json:"options,omitempty"` // enum only
	Hidden   bool     `json:"hidden,omitempty"`  // not in profiles and forms
	ReadOnly bool     `json:"read_only,omitempty"`
	Order    int      `json:"order,omitempty"` // fields are shown in ascending order; fields with equal values keep the schema's order
	Group    string   `json:"group,omitempty"`
}

// EffectiveMaxLength returns the maximum length of a value, for a list of each item,
// in characters: MaxLength, or the limit of the type if the schema sets none (HTTP
// contract, section 4). It returns 0 for types whose values are bounded anyway.
func (f Field) EffectiveMaxLength() int {
	if f.MaxLength != 0 {
		return f.MaxLength
	}
	return f.Type.Kind().MaxLength
}

const maxItems = 1000 // of a list

// MaxItems returns how many items a list may have, or 0 for a type that is not a list.
func (f Field) MaxItems() int {
	if f.Type.Kind().List {
		return maxItems
	}
	return 0
}

// Option is one possible value of an enum.
type Option struct {
	Value string    `json:"value"`
	Label LocalText `json:"label,omitempty"`
}
