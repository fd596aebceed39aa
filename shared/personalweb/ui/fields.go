package ui

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// Labels returns a label in the visitor's language, or the fallback if it has no
// text at all.
type Labels func(label personal.LocalText, fallback string) string

// FieldControl returns the control that fits the type of a user field. value is
// what it shows, see [FieldText]. The control of a read-only field shows its value
// as text.
func (p *Pages) FieldControl(r *http.Request, f personal.Field, labels Labels, value string) Control {
	text := func(key string, args ...any) string { return p.Text(r, key, args...) }
	kind := f.Type.Kind()
	c := Control{
		Name: f.Name, Label: labels(f.Label, f.Name), Value: value, Required: f.Required, Type: kind.Input, InputMode: kind.InputMode,
		Step: kind.Step, Autocomplete: autocomplete(f.Name), MaxLength: f.EffectiveMaxLength(), MaxLines: f.MaxItems(),
	}
	switch {
	case kind.List:
		c.Kind, c.Hint = KindLongText, text("hint_list")
	case kind.Ranged:
		c.limit(f, text)
	}
	switch f.Type {
	case personal.TypeText, personal.TypeLink:
		if c.Autocomplete == "tel" {
			c.Type = "tel"
		}
	case personal.TypeLongText:
		c.Kind = KindLongText
	case personal.TypeBoolean:
		c.Kind = KindCheckbox
		if f.Required { // a checkbox cannot distinguish "no" from no choice
			c.Kind = KindRadios
			c.Options = []Choice{{Value: "true", Label: text("yes")}, {Value: "false", Label: text("no")}}
		}
	case personal.TypeDateTime:
		c.Hint = text("hint_utc")
	case personal.TypeEnum:
		c.Kind, c.Options = KindSelect, []Choice{{Label: text("choose")}}
		for _, o := range f.Options {
			c.Options = append(c.Options, Choice{Value: o.Value, Label: labels(o.Label, o.Value)})
		}
	case personal.TypeFile:
		c.Hint = text("hint_file")
	}
	c.Hint = strings.TrimSpace(labels(f.Hint, "") + " " + c.Hint)
	if !f.ReadOnly {
		return c
	}
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
	return Control{Kind: KindText, Name: c.Name, Label: c.Label, Hint: labels(f.Hint, ""), Value: value}
}

// limit sets the bounds of a number, and the hint that names them.
func (c *Control) limit(f personal.Field, text func(key string, args ...any) string) {
	if f.Min != nil {
		c.Min = number(*f.Min)
		c.Hint = text("hint_min", c.Min)
	}
	if f.Max != nil {
		c.Max = number(*f.Max)
		c.Hint = text("hint_max", c.Max)
	}
	if f.Min != nil && f.Max != nil {
		c.Hint = text("hint_range", c.Min, c.Max)
	}
}

func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// autocomplete returns the HTML autocomplete value of a common field, by which
// browsers fill it in; empty for other fields.
func autocomplete(name string) string {
	return map[string]string{
		"phone":          "tel",
		"mobile":         "tel",
		"telephone":      "tel",
		"birth_date":     "bday",
		"birthday":       "bday",
		"city":           "address-level2",
		"company":        "organization",
		"organization":   "organization",
		"country":        "country-name",
		"postal_code":    "postal-code",
		"street_address": "street-address",
		"website":        "url",
	}[name]
}

// localTime is the format of HTML's datetime-local, which has no time zone. Here it
// is in UTC.
const localTime = "2006-01-02T15:04:05"

// FieldText returns what a field's control shows for a value of a profile.
func FieldText(f personal.Field, value any) string {
	switch value := value.(type) {
	case nil:
		return unsetText(f)
	case []string:
		return strings.Join(value, "\n")
	case float64:
		return number(value)
	case string:
		if at, err := time.Parse(time.RFC3339, value); f.Type == personal.TypeDateTime && err == nil {
			return at.UTC().Format(localTime)
		}
		return value
	}
	return fmt.Sprint(value)
}

// FieldDefault returns what a field's control shows in an empty form.
func FieldDefault(f personal.Field) string {
	switch f.Default.Kind {
	case personal.InputUnset:
		return unsetText(f)
	case personal.InputList, personal.InputRepeated:
		return FieldText(f, f.Default.List)
	}
	return FieldText(f, f.Default.Text)
}

// unsetText is what a control shows for no value. A checkbox shows "false".
func unsetText(f personal.Field) string {
	if f.Type == personal.TypeBoolean && !f.Required {
		return "false"
	}
	return ""
}

// FieldInput returns the input for the text of a field's control. Lists have one
// item per line. Invalid texts are passed on: the schema rejects them.
func FieldInput(f personal.Field, text string) personal.Input {
	switch {
	case f.Type.Kind().List:
		var items []string
		for line := range strings.Lines(text) {
			if item := strings.TrimSpace(line); item != "" {
				items = append(items, item)
			}
		}
		if items == nil {
			return personal.Input{}
		}
		return personal.Input{Kind: personal.InputList, List: items}
	case f.Type == personal.TypeDateTime:
		for _, layout := range []string{localTime, "2006-01-02T15:04"} { // browsers leave out seconds that are zero
			if at, err := time.Parse(layout, text); err == nil {
				return personal.Text(at.Format(time.RFC3339))
			}
		}
	}
	return personal.Text(text)
}
