package adminpages

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"

	"github.com/cms-personal/personal/host-sample/ui"
	"github.com/cms-personal/personal/shared/personal"
)

// readField reads the form of a user field. Of what the schema cannot judge, for
// being no number, it returns what is wrong by the control's name.
func (s *site) readField(r *http.Request, p ui.Posted, rows int, locales []string) (personal.Field, map[string]string) {
	faults := map[string]string{}
	whole := func(name string) int {
		n, err := strconv.Atoi(p.Get(name))
		if err != nil && p.Get(name) != "" {
			faults[name] = s.pages.Text(r, "fields_no_whole_number")
		}
		return n
	}
	limit := func(name string) *float64 {
		n, err := strconv.ParseFloat(p.Get(name), 64)
		if p.Get(name) == "" {
			return nil
		}
		if err != nil || math.IsInf(n, 0) || math.IsNaN(n) {
			faults[name] = s.pages.Text(r, "fields_no_number")
		}
		return &n
	}
	f := personal.Field{
		Name: p.Get("name"), Type: personal.FieldType(p.Get("type")),
		Label:    readLabel(locales, func(locale string) string { return p.Get("label_" + locale) }),
		Required: p.Get("required") == "true", ReadOnly: p.Get("read_only") == "true", Hidden: p.Get("hidden") == "true",
		MaxLength: whole("max_length"), Pattern: p.Get("pattern"),
		Min: limit("min"), Max: limit("max"),
		Options: readOptions(p, rows, locales),
		Order:   whole("order"), Group: p.Get("group"),
	}
	f.Default = readDefault(f, p.Get("default"))
	return f, faults
}

func readLabel(locales []string, text func(locale string) string) personal.LocalText {
	label := personal.LocalText{}
	for _, locale := range locales {
		if t := text(locale); t != "" {
			label[locale] = t
		}
	}
	return label
}

// readOptions leaves out rows that are empty. One with labels alone is for the
// schema to refuse.
func readOptions(p ui.Posted, rows int, locales []string) []personal.Option {
	var options []personal.Option
	for i := range rows {
		o := personal.Option{
			Value: p.Get(optionName(i, "value")),
			Label: readLabel(locales, func(locale string) string { return p.Get(optionName(i, locale)) }),
		}
		if o.Value != "" || len(o.Label) > 0 {
			options = append(options, o)
		}
	}
	return options
}

// readDefault writes numbers and booleans as such into the file. What is none is
// for the schema to refuse.
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
