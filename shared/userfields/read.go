package userfields

import (
	"slices"
	"unicode/utf8"

	"github.com/cms-personal/personal/shared/personal"
)

// read turns a value that is set into one of the field's type, or says what is
// wrong with it.
func (f *field) read(in personal.Input) (any, personal.FieldErrorCode) {
	if f.kind.list {
		return f.readList(in)
	}
	if in.Kind != personal.InputText && in.Kind != f.kind.native {
		return nil, personal.FieldErrorInvalidType
	}
	return f.readOne(in.Text)
}

func (f *field) readList(in personal.Input) (any, personal.FieldErrorCode) {
	texts := in.List
	switch in.Kind {
	case personal.InputText:
		texts = []string{in.Text}
	case personal.InputList, personal.InputRepeated:
	default:
		return nil, personal.FieldErrorInvalidType
	}
	if len(texts) > f.MaxItems() {
		return nil, personal.FieldErrorTooLong
	}
	list := make([]string, 0, len(texts))
	seen := make(map[string]bool, len(texts))
	for _, text := range texts {
		if text == "" {
			return nil, personal.FieldErrorTooShort
		}
		if _, fault := f.readOne(text); fault != "" {
			return nil, fault
		}
		if !seen[text] {
			seen[text] = true
			list = append(list, text)
		}
	}
	if len(list) == 0 && f.Required {
		return nil, personal.FieldErrorRequired
	}
	return list, ""
}

// readOne reads a scalar, or an item of a list, and applies the field's rules.
func (f *field) readOne(text string) (any, personal.FieldErrorCode) {
	v, fault := f.kind.read(text)
	if fault != "" {
		return nil, fault
	}
	switch v := v.(type) {
	case int64:
		fault = f.outOfRange(float64(v)) // exact up to 2^53
	case float64:
		fault = f.outOfRange(v)
	case string:
		fault = f.misshapen(v)
	}
	if fault != "" {
		return nil, fault
	}
	return v, ""
}

func (f *field) outOfRange(n float64) personal.FieldErrorCode {
	if f.Min != nil && n < *f.Min || f.Max != nil && n > *f.Max {
		return personal.FieldErrorOutOfRange
	}
	return ""
}

func (f *field) misshapen(s string) personal.FieldErrorCode {
	if longest := f.EffectiveMaxLength(); longest > 0 && utf8.RuneCountInString(s) > longest {
		return personal.FieldErrorTooLong
	}
	if f.pattern != nil && !f.pattern.MatchString(s) {
		return personal.FieldErrorInvalidFormat
	}
	return ""
}

// normalise drops what a form sends for "not set": empty texts. A repeated name
// with nothing but empty values is not set either.
func normalise(in personal.Input) personal.Input {
	switch in.Kind {
	case personal.InputText:
		return personal.Text(in.Text)
	case personal.InputRepeated:
		items := slices.DeleteFunc(slices.Clone(in.List), func(s string) bool { return s == "" })
		if len(items) == 0 {
			return personal.Input{}
		}
		return personal.Input{Kind: personal.InputRepeated, List: items}
	}
	return in
}
