package personal

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
	TypeFile     FieldType = "file"     // an http(s) URL, a clean relative path, or a path on the site such as /pictures/2.png
	TypeLink     FieldType = "link"     // the id of another object of the CMS
	TypeLinkSet  FieldType = "link_set" // a list of ids as in link
	TypeTags     FieldType = "tags"     // a list of texts
)

// FieldKind is what all fields of a type have in common. How a value is read is in package
// userfields.
type FieldKind struct {
	Type      FieldType
	List      bool // has several items; what follows is said of each
	Textual   bool // may have max_length and pattern
	Ranged    bool // may have min and max
	MaxLength int  // in characters, of a field that sets none; 0: its values are bounded anyway

	JSON   string // the type of a value in JSON
	Format string // as in JSON Schema; "" if none

	Input     string // the type of an HTML input; "" for text, and where the control is not an input
	InputMode string // of the keyboard on a touch screen; "": as the type has it
	Step      string // of an HTML input
}

// fieldKinds has a row for each type, in the order in which editors list them. Readers of values,
// the API document, forms, imports and the rehearsal of a version read it.
var fieldKinds = []FieldKind{
	{Type: TypeText, Textual: true, MaxLength: 1000, JSON: "string"},
	{Type: TypeLongText, Textual: true, MaxLength: 20_000, JSON: "string"},
	{Type: TypeInteger, Ranged: true, JSON: "integer", Format: "int64", Input: "number", InputMode: "numeric", Step: "1"},
	{Type: TypeNumber, Ranged: true, JSON: "number", Input: "number", InputMode: "decimal", Step: "any"},
	{Type: TypeBoolean, JSON: "boolean"},
	{Type: TypeDate, JSON: "string", Format: "date", Input: "date"},
	{Type: TypeDateTime, JSON: "string", Format: "date-time", Input: "datetime-local", Step: "1"},
	{Type: TypeEnum, JSON: "string"},
	{Type: TypeFile, Textual: true, MaxLength: 2048, JSON: "string", InputMode: "url"},
	{Type: TypeLink, Textual: true, MaxLength: 255, JSON: "string"},
	{Type: TypeLinkSet, List: true, Textual: true, MaxLength: 255, JSON: "string"},
	{Type: TypeTags, List: true, Textual: true, MaxLength: 255, JSON: "string"},
}

// FieldTypes returns all types, in the order in which editors list them.
func FieldTypes() []FieldType {
	types := make([]FieldType, len(fieldKinds))
	for i, k := range fieldKinds {
		types[i] = k.Type
	}
	return types
}

// Known reports whether this version knows the type. A later version may know more.
func (t FieldType) Known() bool { return t.Kind().Type != "" }

// Kind returns what fields of the type have in common. It is zero for a type that this version does
// not know.
func (t FieldType) Kind() FieldKind {
	for i := range fieldKinds {
		if fieldKinds[i].Type == t {
			return fieldKinds[i]
		}
	}
	return FieldKind{}
}
