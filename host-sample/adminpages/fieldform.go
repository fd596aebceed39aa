package adminpages

import (
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/cms-personal/personal/host-sample/ui"
	"github.com/cms-personal/personal/shared/personal"
)

// spareOptions are the empty rows below the options of an enum.
const spareOptions = 3

// mostOptions bounds the rows of a form.
const mostOptions = 1000

// fieldForm is the form of one user field: every property there is.
type fieldForm struct {
	ui.Form
	Sections []section
	Options  []section // a row of controls for each
	locales  []string  // that labels are in
}

// section is a part of the form: controls of its Form.
type section struct {
	Legend   string
	Class    string // which types it is for, see admin.css; empty: all
	Controls []ui.Control
}

// newFieldForm returns the form of a field, with a number of rows for options.
func (s *site) newFieldForm(r *http.Request, f personal.Field, rows int, locales []string) *fieldForm {
	form := &fieldForm{locales: locales}
	add := func(legend, class string, controls ...ui.Control) {
		form.Sections = append(form.Sections, section{Legend: s.pages.Text(r, legend), Class: class, Controls: controls})
	}
	add("fields_basics", "", s.basicControls(r, f, locales)...)
	add("fields_rules", "", s.ruleControls(r, f)...)
	add("fields_text_limits", "for-text", s.textControls(r, f)...)
	add("fields_number_limits", "for-number", s.numberControls(r, f)...)
	add("fields_place", "", s.placeControls(r, f)...)
	for i := range rows {
		form.Options = append(form.Options, section{Controls: s.optionControls(r, f, i, locales)})
	}
	form.share()
	return form
}

// share gathers the controls of all sections in Form, which fills and faults
// them where the sections see it.
func (f *fieldForm) share() {
	for _, list := range [][]section{f.Sections, f.Options} {
		for _, s := range list {
			f.Controls = append(f.Controls, s.Controls...)
		}
	}
	rest := f.Controls
	for _, list := range [][]section{f.Sections, f.Options} {
		for i := range list {
			n := len(list[i].Controls)
			list[i].Controls, rest = rest[:n:n], rest[n:]
		}
	}
}

func (s *site) basicControls(r *http.Request, f personal.Field, locales []string) []ui.Control {
	kinds := ui.Control{Kind: ui.KindSelect, Name: "type", Label: s.pages.Text(r, "fields_type"), Value: string(f.Type), Required: true}
	for _, t := range fieldTypes() {
		kinds.Options = append(kinds.Options, ui.Choice{Value: string(t), Label: s.typeText(r, t)})
	}
	controls := []ui.Control{
		{Name: "name", Label: s.pages.Text(r, "fields_name"), Hint: s.pages.Text(r, "fields_name_hint"), Value: f.Name, Required: true, Autocomplete: "off"},
		kinds,
	}
	for _, locale := range locales {
		controls = append(controls, ui.Control{
			Name: "label_" + locale, Label: s.pages.Text(r, "fields_label_in", languageName(locale)), Value: f.Label[locale],
		})
	}
	return controls
}

func (s *site) ruleControls(r *http.Request, f personal.Field) []ui.Control {
	preset := ""
	if !f.Default.IsZero() {
		preset = ui.FieldDefault(f)
	}
	tick := func(name string, on bool) ui.Control {
		return ui.Control{
			Kind: ui.KindCheckbox, Name: name, Value: strconv.FormatBool(on),
			Label: s.pages.Text(r, "fields_"+name), Hint: s.pages.Text(r, "fields_"+name+"_hint"),
		}
	}
	return []ui.Control{
		tick("required", f.Required),
		tick("read_only", f.ReadOnly),
		tick("hidden", f.Hidden),
		{Kind: ui.KindLongText, Name: "default", Label: s.pages.Text(r, "fields_default"), Hint: s.pages.Text(r, "fields_default_hint"), Value: preset},
	}
}

func (s *site) textControls(r *http.Request, f personal.Field) []ui.Control {
	return []ui.Control{
		s.wholeControl(r, "max_length", f.MaxLength),
		{Name: "pattern", Label: s.pages.Text(r, "fields_pattern"), Hint: s.pages.Text(r, "fields_pattern_hint"), Value: f.Pattern, Autocomplete: "off"},
	}
}

func (s *site) numberControls(r *http.Request, f personal.Field) []ui.Control {
	limit := func(name string, value *float64) ui.Control {
		c := ui.Control{Name: name, Label: s.pages.Text(r, "fields_"+name), Type: "number", Step: "any", InputMode: "decimal"}
		if value != nil {
			c.Value = strconv.FormatFloat(*value, 'f', -1, 64)
		}
		return c
	}
	return []ui.Control{limit("min", f.Min), limit("max", f.Max)}
}

func (s *site) placeControls(r *http.Request, f personal.Field) []ui.Control {
	group := ui.Control{Name: "group", Label: s.pages.Text(r, "fields_group"), Hint: s.pages.Text(r, "fields_group_hint"), Value: f.Group}
	return []ui.Control{s.wholeControl(r, "order", f.Order), group}
}

func (s *site) wholeControl(r *http.Request, name string, value int) ui.Control {
	c := ui.Control{
		Name: name, Label: s.pages.Text(r, "fields_"+name), Hint: s.pages.Text(r, "fields_"+name+"_hint"),
		Type: "number", Step: "1", InputMode: "numeric",
	}
	if value != 0 {
		c.Value = strconv.Itoa(value)
	}
	return c
}

func (s *site) optionControls(r *http.Request, f personal.Field, i int, locales []string) []ui.Control {
	var o personal.Option
	if i < len(f.Options) {
		o = f.Options[i]
	}
	controls := []ui.Control{{Name: optionName(i, "value"), Label: s.pages.Text(r, "fields_option_value", i+1), Value: o.Value, Autocomplete: "off"}}
	for _, locale := range locales {
		controls = append(controls, ui.Control{
			Name: optionName(i, locale), Label: s.pages.Text(r, "fields_option_label", i+1, languageName(locale)), Value: o.Label[locale],
		})
	}
	return controls
}

// optionName names a control of an option: its value, or its label in a language.
func optionName(i int, part string) string { return "option_" + strconv.Itoa(i) + "_" + part }

// labelLocales returns the languages of this site, and whatever others labels of
// the schema are in.
func labelLocales(fields []personal.Field) []string {
	others := map[string]bool{}
	note := func(label personal.LocalText) {
		for tag := range label {
			others[tag] = !slices.Contains(ui.Locales(), tag)
		}
	}
	for _, f := range fields {
		note(f.Label)
		for _, o := range f.Options {
			note(o.Label)
		}
	}
	maps.DeleteFunc(others, func(_ string, other bool) bool { return !other })
	return append(ui.Locales(), slices.Sorted(maps.Keys(others))...)
}

// fieldTypes are the types of the HTTP contract, section 4.
func fieldTypes() []personal.FieldType {
	return []personal.FieldType{
		personal.TypeText, personal.TypeLongText, personal.TypeInteger, personal.TypeNumber, personal.TypeBoolean, personal.TypeDate,
		personal.TypeDateTime, personal.TypeEnum, personal.TypeFile, personal.TypeLink, personal.TypeLinkSet, personal.TypeTags,
	}
}
