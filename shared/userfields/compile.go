package userfields

import (
	"fmt"
	"math"
	"regexp"

	"github.com/cms-personal/personal/shared/personal"
)

// languageTag is BCP 47 by its outline; whether a subtag is registered is not
// our business.
var languageTag = regexp.MustCompile(`\A[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*\z`)

// compile checks one field. It returns the reason why the field is refused.
func compile(f personal.Field) (_ *field, problem string) {
	for _, check := range []func(personal.Field) string{
		checkName, checkType, checkRules, checkOptions, checkLabels,
	} {
		if problem := check(f); problem != "" {
			return nil, problem
		}
	}
	k, _ := kindOf(f)
	compiled := &field{Field: f, kind: k}
	var err error
	if compiled.pattern, err = wholeMatch(f.Pattern); err != nil {
		return nil, "bad pattern: " + err.Error()
	}
	preset := normalise(f.Default)
	if preset.IsZero() {
		return compiled, ""
	}
	if _, fault := compiled.read(preset); fault != "" {
		return nil, "its own rules refuse its default: " + string(fault)
	}
	return compiled, ""
}

func checkName(f personal.Field) string {
	switch {
	case f.Name == "":
		return "it has no name"
	case !snakeCase.MatchString(f.Name):
		return "the name is not in lower snake case"
	case isSystem(f.Name):
		return "the name is a system name"
	case isParameter(f.Name):
		return "the name is that of a parameter"
	}
	return ""
}

func checkType(f personal.Field) string {
	if f.Type == "" {
		return "it has no type"
	}
	if _, known := kindOf(f); !known {
		return fmt.Sprintf("unknown type %q", f.Type)
	}
	return ""
}

func checkRules(f personal.Field) string {
	k, _ := kindOf(f)
	switch {
	case f.Required && f.ReadOnly:
		return "required together with read_only: nobody could fill it in"
	case f.Required && f.Hidden:
		return "required together with hidden: nobody could fill it in"
	case !k.ranged && (f.Min != nil || f.Max != nil):
		return fmt.Sprintf("type %s has no min and max", f.Type)
	case !k.textual && f.Pattern != "":
		return fmt.Sprintf("type %s has no pattern", f.Type)
	case !k.textual && f.MaxLength != 0:
		return fmt.Sprintf("type %s has no max_length", f.Type)
	case f.MaxLength < 0:
		return "negative max_length"
	case !finite(f.Min) || !finite(f.Max):
		return "min and max must be finite"
	case f.Min != nil && f.Max != nil && *f.Min > *f.Max:
		return "min is above max"
	}
	return ""
}

func finite(limit *float64) bool {
	return limit == nil || !math.IsNaN(*limit) && !math.IsInf(*limit, 0)
}

func checkOptions(f personal.Field) string {
	isEnum := f.Type == personal.TypeEnum
	switch {
	case isEnum && len(f.Options) == 0:
		return "an enum needs options"
	case !isEnum && len(f.Options) > 0:
		return fmt.Sprintf("type %s has no options", f.Type)
	}
	seen := make(map[string]bool, len(f.Options))
	for _, o := range f.Options {
		switch _, fault := readText(o.Value); {
		case o.Value == "":
			return "an option has no value"
		case fault != "":
			return fmt.Sprintf("option %q is not plain text", o.Value)
		case seen[o.Value]:
			return fmt.Sprintf("option %q is given twice", o.Value)
		}
		seen[o.Value] = true
	}
	return ""
}

func checkLabels(f personal.Field) string {
	labels := []personal.LocalText{f.Label}
	for _, o := range f.Options {
		labels = append(labels, o.Label)
	}
	for _, label := range labels {
		for tag := range label {
			if !languageTag.MatchString(tag) {
				return fmt.Sprintf("label: %q is not a language tag", tag)
			}
		}
	}
	return ""
}

// wholeMatch compiles a pattern so that it must match the whole value. The
// pattern must be right by itself too: "a)(b" would be only when wrapped.
func wholeMatch(pattern string) (*regexp.Regexp, error) {
	if pattern == "" {
		return nil, nil
	}
	if _, err := regexp.Compile(pattern); err != nil {
		return nil, err
	}
	return regexp.Compile(`\A(?:` + pattern + `)\z`)
}
