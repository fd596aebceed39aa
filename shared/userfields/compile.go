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

// fault says which property of a field is at fault, and why.
type fault struct{ property, problem string }

func at(property, format string, args ...any) *fault {
	return &fault{property: property, problem: fmt.Sprintf(format, args...)}
}

// compile checks one field, or returns the reason why the field is refused.
func compile(f personal.Field) (*field, *fault) {
	for _, check := range []func(personal.Field) *fault{
		checkName, checkType, checkRules, checkOptions, checkLabels,
	} {
		if fault := check(f); fault != nil {
			return nil, fault
		}
	}
	k, _ := kindOf(f)
	compiled := &field{Field: f, kind: k}
	var err error
	if compiled.pattern, err = wholeMatch(f.Pattern); err != nil {
		return nil, at("pattern", "bad pattern: %v", err)
	}
	preset := normalise(f.Default)
	if preset.IsZero() {
		return compiled, nil
	}
	if _, code := compiled.read(preset); code != "" {
		return nil, at("default", "its own rules refuse its default: %s", code)
	}
	return compiled, nil
}

func checkName(f personal.Field) *fault {
	switch {
	case f.Name == "":
		return at("name", "it has no name")
	case !snakeCase.MatchString(f.Name):
		return at("name", "the name is not in lower snake case")
	case isSystem(f.Name):
		return at("name", "the name is a system name")
	case isParameter(f.Name):
		return at("name", "the name is that of a parameter")
	}
	return nil
}

func checkType(f personal.Field) *fault {
	if f.Type == "" {
		return at("type", "it has no type")
	}
	if _, known := kindOf(f); !known {
		return at("type", "unknown type %q", f.Type)
	}
	return nil
}

func checkRules(f personal.Field) *fault {
	k, _ := kindOf(f)
	switch {
	case f.Required && f.ReadOnly:
		return at("required", "required together with read_only: nobody could fill it in")
	case f.Required && f.Hidden:
		return at("required", "required together with hidden: nobody could fill it in")
	case !k.ranged && f.Min != nil:
		return at("min", "type %s has no min and max", f.Type)
	case !k.ranged && f.Max != nil:
		return at("max", "type %s has no min and max", f.Type)
	case !k.textual && f.Pattern != "":
		return at("pattern", "type %s has no pattern", f.Type)
	case !k.textual && f.MaxLength != 0:
		return at("max_length", "type %s has no max_length", f.Type)
	case f.MaxLength < 0:
		return at("max_length", "negative max_length")
	case !finite(f.Min):
		return at("min", "min and max must be finite")
	case !finite(f.Max):
		return at("max", "min and max must be finite")
	case f.Min != nil && f.Max != nil && *f.Min > *f.Max:
		return at("min", "min is above max")
	}
	return nil
}

func finite(limit *float64) bool {
	return limit == nil || !math.IsNaN(*limit) && !math.IsInf(*limit, 0)
}

func checkOptions(f personal.Field) *fault {
	isEnum := f.Type == personal.TypeEnum
	switch {
	case isEnum && len(f.Options) == 0:
		return at("options", "an enum needs options")
	case !isEnum && len(f.Options) > 0:
		return at("options", "type %s has no options", f.Type)
	}
	seen := make(map[string]bool, len(f.Options))
	for _, o := range f.Options {
		switch _, code := readText(o.Value); {
		case o.Value == "":
			return at("options", "an option has no value")
		case code != "":
			return at("options", "option %q is not plain text", o.Value)
		case seen[o.Value]:
			return at("options", "option %q is given twice", o.Value)
		}
		seen[o.Value] = true
	}
	return nil
}

func checkLabels(f personal.Field) *fault {
	if tag, ok := strangeTag(f.Label); !ok {
		return at("label", "label: %q is not a language tag", tag)
	}
	for _, o := range f.Options {
		if tag, ok := strangeTag(o.Label); !ok {
			return at("options", "label: %q is not a language tag", tag)
		}
	}
	return nil
}

// strangeTag returns a label's key that is no language tag, or true.
func strangeTag(label personal.LocalText) (string, bool) {
	for tag := range label {
		if !languageTag.MatchString(tag) {
			return tag, false
		}
	}
	return "", true
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
