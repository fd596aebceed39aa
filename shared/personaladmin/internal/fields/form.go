package fields

import (
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

const (
	spareOptions = 3    // empty rows below the options of a choice
	maxOptions   = 1000 // rows in a form
)

// fieldForm is the form of all properties of a user field.
type fieldForm struct {
	ui.Form
	Rows     int // for options
	Sections []section
	Options  []section // one for each row
}

// section is a part of a form: a range of its controls.
type section struct {
	Legend   string
	Class    string // the types that it applies to, see admin.css; empty: all
	form     *ui.Form
	from, to int
}

// Controls returns the controls of the section.
func (s section) Controls() []ui.Control { return s.form.Controls[s.from:s.to] }

// newForm returns the form of a field, with a number of rows for options.
func (p *Pages) newForm(r *http.Request, f personal.Field, rows int, locales []string) *fieldForm {
	form := &fieldForm{Rows: rows}
	text := func(name string) string { return p.site.Text(r, "fields_"+name) }
	plain := func(name, value string) ui.Control { return ui.Control{Name: name, Label: text(name), Value: value} }
	hinted := func(name, value string) ui.Control {
		c := plain(name, value)
		c.Hint = text(name + "_hint")
		return c
	}
	checkbox := func(name string, on bool) ui.Control {
		c := hinted(name, strconv.FormatBool(on))
		c.Kind = ui.KindCheckbox
		return c
	}
	integer := func(name string, value int) ui.Control {
		c := hinted(name, "")
		c.Type, c.Step, c.InputMode = "number", "1", "numeric"
		if value != 0 {
			c.Value = strconv.Itoa(value)
		}
		return c
	}
	limit := func(name string, value *float64) ui.Control {
		c := plain(name, "")
		c.Type, c.Step, c.InputMode = "number", "any", "decimal"
		if value != nil {
			c.Value = strconv.FormatFloat(*value, 'f', -1, 64)
		}
		return c
	}
	add := func(legend, class string, controls ...ui.Control) section {
		from := len(form.Controls)
		form.Controls = append(form.Controls, controls...)
		return section{Legend: legend, Class: class, form: &form.Form, from: from, to: len(form.Controls)}
	}

	name, pattern := hinted("name", f.Name), hinted("pattern", f.Pattern)
	name.Required, name.Autocomplete, pattern.Autocomplete = true, "off", "off"
	types := plain("type", string(f.Type))
	types.Kind, types.Required = ui.KindSelect, true
	for _, t := range personal.FieldTypes() {
		types.Options = append(types.Options, ui.Choice{Value: string(t), Label: p.typeText(r, t)})
	}
	localized := func(name string, text personal.LocalText) (controls []ui.Control) {
		for _, locale := range locales {
			label := p.site.Text(r, "fields_"+name+"_in", p.site.LanguageName(locale))
			controls = append(controls, ui.Control{Name: name + "_" + locale, Label: label, Value: text[locale]})
		}
		return controls
	}
	basics := slices.Concat(localized("label", f.Label), []ui.Control{name, types}, localized("hint", f.Hint))
	texts := slices.Concat([]ui.Control{integer("max_length", f.MaxLength), pattern}, localized("pattern_message", f.PatternMessage))
	preset := hinted("default", "")
	preset.Kind = ui.KindLongText
	if !f.Default.IsZero() {
		preset.Value = ui.FieldDefault(f)
	}
	form.Sections = []section{
		add(text("basics"), "", basics...),
		add(text("rules"), "", checkbox("required", f.Required), checkbox("read_only", f.ReadOnly), checkbox("hidden", f.Hidden), preset),
		add(text("text_limits"), "for-text", texts...),
		add(text("number_limits"), "for-number", limit("min", f.Min), limit("max", f.Max)),
		add(text("place"), "", integer("order", f.Order), hinted("group", f.Group)),
	}
	for i := range rows {
		form.Options = append(form.Options, add("", "", p.optionControls(r, f, i, locales)...))
	}
	return form
}

func (p *Pages) optionControls(r *http.Request, f personal.Field, i int, locales []string) []ui.Control {
	var o personal.Option
	if i < len(f.Options) {
		o = f.Options[i]
	}
	controls := []ui.Control{{Name: optionName(i, "value"), Label: p.site.Text(r, "fields_option_value", i+1), Value: o.Value,
		Autocomplete: "off"}}
	for _, locale := range locales {
		controls = append(controls, ui.Control{
			Name: optionName(i, locale), Label: p.site.Text(r, "fields_option_label", i+1, p.site.LanguageName(locale)), Value: o.Label[locale],
		})
	}
	return controls
}

// optionName names a control of an option: of its value, or of its label in a
// language.
func optionName(i int, part string) string { return "option_" + strconv.Itoa(i) + "_" + part }

// textLocales returns the languages of the site, then all others in which the schema has
// texts.
func (p *Pages) textLocales(fields []personal.Field) []string {
	used := map[string]bool{}
	add := func(texts ...personal.LocalText) {
		for _, text := range texts {
			for tag := range text {
				used[tag] = true
			}
		}
	}
	for _, f := range fields {
		add(f.Label, f.Hint, f.PatternMessage)
		for _, o := range f.Options {
			add(o.Label)
		}
	}
	locales := slices.Clone(p.site.VisitorLocales())
	for _, tag := range slices.Sorted(maps.Keys(used)) {
		if !slices.Contains(locales, tag) {
			locales = append(locales, tag)
		}
	}
	return locales
}

// readForm reads the posted field. It returns an error text by control for input
// that is not a number; all other rules are those of the schema.
func (p *Pages) readForm(r *http.Request, posted ui.Posted, rows int, locales []string) (personal.Field, map[string]string) {
	fieldErrors := map[string]string{}
	integer := func(name string) int {
		n, err := strconv.Atoi(posted.Get(name))
		if err != nil && posted.Get(name) != "" {
			fieldErrors[name] = p.site.Text(r, "fields_no_whole_number")
		}
		return n
	}
	limit := func(name string) *float64 {
		if posted.Get(name) == "" {
			return nil
		}
		n, err := strconv.ParseFloat(posted.Get(name), 64)
		if err != nil || math.IsInf(n, 0) || math.IsNaN(n) {
			fieldErrors[name] = p.site.Text(r, "fields_no_number")
		}
		return &n
	}
	localized := func(control func(locale string) string) personal.LocalText {
		texts := personal.LocalText{}
		for _, locale := range locales {
			if text := posted.Get(control(locale)); text != "" {
				texts[locale] = text
			}
		}
		return texts
	}
	named := func(name string) personal.LocalText {
		return localized(func(locale string) string { return name + "_" + locale })
	}
	f := personal.Field{
		Name: posted.Get("name"), Type: personal.FieldType(posted.Get("type")),
		Label: named("label"), Hint: named("hint"), PatternMessage: named("pattern_message"),
		Required: posted.Get("required") == "true", ReadOnly: posted.Get("read_only") == "true", Hidden: posted.Get("hidden") == "true",
		MaxLength: integer("max_length"), Pattern: posted.Get("pattern"),
		Min: limit("min"), Max: limit("max"),
		Order: integer("order"), Group: posted.Get("group"),
	}
	for i := range rows {
		o := personal.Option{Value: posted.Get(optionName(i, "value")),
			Label: localized(func(locale string) string { return optionName(i, locale) })}
		if o.Value != "" || len(o.Label) > 0 { // the schema refuses an option with labels only
			f.Options = append(f.Options, o)
		}
	}
	f.Default = readDefault(f, posted.Get("default"))
	return f, fieldErrors
}

// readDefault returns a default value, so that the file of the schema has numbers
// and booleans as such. The schema refuses a text that is neither.
func readDefault(f personal.Field, text string) personal.Input {
	switch f.Type {
	case personal.TypeBoolean:
		if text == "true" || text == "false" {
			return personal.Input{Kind: personal.InputBoolean, Text: text}
		}
	case personal.TypeInteger, personal.TypeNumber:
		var n json.Number
		if json.Unmarshal([]byte(text), &n) == nil && n.String() == text {
			return personal.Input{Kind: personal.InputNumber, Text: text}
		}
	}
	return ui.FieldInput(f, text)
}
