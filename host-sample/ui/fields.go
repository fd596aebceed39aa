package ui

import (
	"net/http"
	"strconv"

	"github.com/cms-personal/personal/shared/personal"
)

// Labels returns a label in the visitor's language, or the fallback if it has no
// text at all.
type Labels func(label personal.LocalText, fallback string) string

// textFunc returns a text in the visitor's language.
type textFunc func(key string, args ...any) string

// FieldControl returns the control of a user field: the one that fits its type.
// value is what stands in it, see [FieldText].
func (p *Pages) FieldControl(r *http.Request, f personal.Field, labels Labels, value string) Control {
	text := func(key string, args ...any) string { return p.Text(r, key, args...) }
	c := Control{
		Name: f.Name, Label: labels(f.Label, f.Name), Value: value, Required: f.Required,
		Autocomplete: purpose(f.Name),
	}
	switch f.Type {
	case personal.TypeText, personal.TypeLink:
		if c.Autocomplete == "tel" {
			c.Type = "tel"
		}
	case personal.TypeLongText:
		c.Kind = KindLongText
	case personal.TypeInteger, personal.TypeNumber:
		c.number(f)
		c.Hint = rangeHint(text, c)
	case personal.TypeBoolean:
		c.boolean(text)
	case personal.TypeDate:
		c.Type = "date"
	case personal.TypeDateTime:
		c.Type, c.Step, c.Hint = "datetime-local", "1", text("hint_utc")
	case personal.TypeEnum:
		c.choices(f, labels, text("choose"))
	case personal.TypeFile:
		c.InputMode, c.Hint = "url", text("hint_file")
	case personal.TypeTags, personal.TypeLinkSet:
		c.Kind, c.Hint = KindLongText, text("hint_list")
	}
	if f.ReadOnly {
		return c.shown(text)
	}
	return c
}

// shown returns the control of a value that is not to be changed.
func (c Control) shown(text textFunc) Control {
	value := c.Value
	switch {
	case c.Kind == KindCheckbox && c.Checked():
		value = text("yes")
	case c.Kind == KindCheckbox:
		value = text("no")
	}
	for _, o := range c.Options {
		if value != "" && o.Value == value {
			value = o.Label
		}
	}
	return Control{Kind: KindText, Name: c.Name, Label: c.Label, Value: value}
}

func (c *Control) number(f personal.Field) {
	c.Type, c.Step, c.InputMode = "number", "any", "decimal"
	if f.Type == personal.TypeInteger {
		c.Step, c.InputMode = "1", "numeric"
	}
	if f.Min != nil {
		c.Min = number(*f.Min)
	}
	if f.Max != nil {
		c.Max = number(*f.Max)
	}
}

func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

func rangeHint(text textFunc, c Control) string {
	switch {
	case c.Min != "" && c.Max != "":
		return text("hint_range", c.Min, c.Max)
	case c.Min != "":
		return text("hint_min", c.Min)
	case c.Max != "":
		return text("hint_max", c.Max)
	}
	return ""
}

// boolean is a checkbox, but two radio buttons where an answer is required: a
// checkbox cannot tell "no" from none.
func (c *Control) boolean(text textFunc) {
	if !c.Required {
		c.Kind = KindCheckbox
		return
	}
	c.Kind = KindRadios
	c.Options = []Choice{{Value: "true", Label: text("yes")}, {Value: "false", Label: text("no")}}
}

func (c *Control) choices(f personal.Field, labels Labels, none string) {
	c.Kind = KindSelect
	c.Options = []Choice{{Label: none}}
	for _, o := range f.Options {
		c.Options = append(c.Options, Choice{Value: o.Value, Label: labels(o.Label, o.Value)})
	}
}

// purpose returns what HTML's autocomplete calls the usual fields, so that
// browsers can fill them in.
func purpose(name string) string {
	switch name {
	case "phone", "mobile", "telephone":
		return "tel"
	case "birth_date", "birthday":
		return "bday"
	case "city":
		return "address-level2"
	case "company", "organization":
		return "organization"
	case "country":
		return "country-name"
	case "postal_code":
		return "postal-code"
	case "street_address":
		return "street-address"
	case "website":
		return "url"
	}
	return ""
}
