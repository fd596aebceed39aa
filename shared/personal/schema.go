package personal

// Schema is the host's set of user fields, in the order they are shown.
type Schema struct {
	Revision string  // changes whenever the fields do; opaque, not empty, 256 characters at most
	Fields   []Field // already valid, see package userfields
}

// FieldType is the type of a user field's value.
type FieldType string

// The types of the HTTP contract, section 4.
const (
	TypeText     FieldType = "text"
	TypeLongText FieldType = "long_text"
	TypeInteger  FieldType = "integer" // −(2^53−1) … 2^53−1
	TypeNumber   FieldType = "number"
	TypeBoolean  FieldType = "boolean"
	TypeDate     FieldType = "date"     // YYYY-MM-DD
	TypeDateTime FieldType = "datetime" // RFC 3339
	TypeEnum     FieldType = "enum"
	TypeFile     FieldType = "file"     // an http(s) URL or a clean relative path
	TypeLink     FieldType = "link"     // the id of another object of the CMS
	TypeLinkSet  FieldType = "link_set" // a list of such ids
	TypeTags     FieldType = "tags"     // a list of texts
)

// LocalText is a text in several languages: BCP 47 tag -> text.
type LocalText map[string]string

// Field describes one user field. Its JSON form is that of the host's
// user-fields.json; what is left out is false or none, and max_length the limit
// of the type (HTTP contract, section 4).
type Field struct {
	Name      string    `json:"name"` // lower snake case; no parameter's or system name
	Type      FieldType `json:"type"`
	Label     LocalText `json:"label,omitempty"`
	Required  bool      `json:"required,omitempty"`
	Default   Input     `json:"default,omitzero"`     // applied at registration
	MaxLength int       `json:"max_length,omitempty"` // in characters; of each item of a list; 0: see EffectiveMaxLength
	Min       *float64  `json:"min,omitempty"`        // integer and number only
	Max       *float64  `json:"max,omitempty"`
	Pattern   string    `json:"pattern,omitempty"` // RE2, matched against the whole value, each item of a list
	Options   []Option  `json:"options,omitempty"` // enum only
	Hidden    bool      `json:"hidden,omitempty"`  // neither in profiles nor in forms
	ReadOnly  bool      `json:"read_only,omitempty"`
	Order     int       `json:"order,omitempty"` // fields are shown by it; equal ones as they stand
	Group     string    `json:"group,omitempty"`
}

// EffectiveMaxLength returns the limit of a value's length in characters, of a list
// that of each item: MaxLength, or the limit of the type where the schema sets
// none (HTTP contract, section 4). 0: there is none, because the type bounds its
// values by itself.
func (f Field) EffectiveMaxLength() int {
	if f.MaxLength != 0 {
		return f.MaxLength
	}
	switch f.Type {
	case TypeText:
		return 1000
	case TypeLongText:
		return 20_000
	case TypeFile:
		return 2048
	case TypeLink, TypeLinkSet, TypeTags:
		return 255
	}
	return 0
}

// MaxItems returns how many items a list may have, 0 for a field that is no list.
func (f Field) MaxItems() int {
	if f.Type == TypeLinkSet || f.Type == TypeTags {
		return 1000
	}
	return 0
}

// Option is one value that an enum may have.
type Option struct {
	Value string    `json:"value"`
	Label LocalText `json:"label,omitempty"`
}
