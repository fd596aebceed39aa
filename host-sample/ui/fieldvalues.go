package ui

import (
	"fmt"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// localTime is how HTML writes the time of a control, which knows no zone: here
// it is in UTC.
const localTime = "2006-01-02T15:04:05"

// FieldText returns what stands in a field's control for a value of a profile.
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

// FieldDefault returns what stands in a field's control at first.
func FieldDefault(f personal.Field) string {
	switch f.Default.Kind {
	case personal.InputUnset:
		return unsetText(f)
	case personal.InputList, personal.InputRepeated:
		return FieldText(f, f.Default.List)
	}
	return FieldText(f, f.Default.Text)
}

// unsetText stands for no value: a checkbox can only be ticked or not.
func unsetText(f personal.Field) string {
	if f.Type == personal.TypeBoolean && !f.Required {
		return "false"
	}
	return ""
}

// FieldInput returns the value that was typed into a field's control.
func FieldInput(f personal.Field, text string) personal.Input {
	switch f.Type {
	case personal.TypeTags, personal.TypeLinkSet:
		return listInput(text)
	case personal.TypeDateTime:
		return personal.Text(inUTC(text))
	}
	return personal.Text(text)
}

// listInput reads one item a line.
func listInput(text string) personal.Input {
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
}

// inUTC turns what a control sends into RFC 3339. Browsers leave seconds out
// that are zero. All else is for the schema to judge.
func inUTC(text string) string {
	for _, layout := range []string{localTime, "2006-01-02T15:04"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.Format(time.RFC3339)
		}
	}
	return text
}
