package rehearsal

import (
	"math"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/plugins/rpc"
	"github.com/cms-personal/personal/shared/userfields"
)

// plannedField is a user field with values that it accepts.
type plannedField struct {
	personal.Field
	values []value // two different ones, or one; none: no value was found
}

// value is a value as it is sent, and as it must come back.
type value struct {
	in   personal.Input
	want any
}

// first and last are the values that a field gets at first and later.
func (f plannedField) first() value { return f.values[0] }
func (f plannedField) last() value  { return f.values[len(f.values)-1] }

// settable reports whether users may set the field.
func (f plannedField) settable() bool { return !f.Hidden && !f.ReadOnly }

// plan finds values for each field of a schema. A required field without any becomes optional in
// the schema: else no account could be registered.
func plan(s *personal.Schema) (fields []plannedField, err error) {
	given := s.Fields
	s.Fields = make([]personal.Field, 0, len(given))
	for _, f := range given {
		alone, err := userfields.Compile([]personal.Field{f})
		if err != nil {
			return nil, err
		}
		p := plannedField{Field: f}
		for _, v := range candidates(f) {
			var wrong personal.FieldErrors
			alone.Administer(map[string]personal.Input{f.Name: v.in}, &wrong)
			if len(wrong) == 0 && len(p.values) < 2 && (len(p.values) == 0 || !sameInput(p.values[0].in, v.in)) {
				p.values = append(p.values, v)
			}
		}
		if len(p.values) == 0 {
			f.Required, p.Required = false, false
		}
		fields, s.Fields = append(fields, p), append(s.Fields, f)
	}
	return fields, nil
}

func sameInput(a, b personal.Input) bool {
	return a.Kind == b.Kind && a.Text == b.Text && strings.Join(a.List, "\x00") == strings.Join(b.List, "\x00")
}

// candidates returns values that may suit a field.
func candidates(f personal.Field) (all []value) {
	text := func(texts ...string) {
		for _, t := range texts {
			all = append(all, value{personal.Text(t), t})
		}
	}
	kind := f.Type.Kind()
	switch {
	case kind.List:
		items := distinct(texts(f, kind.Samples...))
		for i, item := range items {
			list := []string{item, items[(i+1)%len(items)]}
			for _, l := range [][]string{distinct(list), list[:1]} {
				all = append(all, value{personal.Input{Kind: personal.InputList, List: l}, l})
			}
		}
	case kind.Textual:
		text(texts(f, kind.Samples...)...)
	case f.Type == personal.TypeInteger:
		for _, n := range numbers(f) {
			n = math.Ceil(n)
			all = append(all, value{number(strconv.FormatInt(int64(n), 10)), int64(n)})
		}
	case f.Type == personal.TypeNumber:
		for _, n := range numbers(f) {
			all = append(all, value{number(strconv.FormatFloat(n, 'g', -1, 64)), n})
		}
	case f.Type == personal.TypeBoolean:
		for _, literal := range kind.Samples {
			all = append(all, value{personal.Input{Kind: personal.InputBoolean, Text: literal}, literal == "true"})
		}
	case f.Type == personal.TypeEnum:
		for _, o := range f.Options {
			text(o.Value)
		}
	default:
		text(kind.Samples...)
	}
	return all
}

// distinct returns the texts without repetitions, in their order.
func distinct(texts []string) (all []string) {
	for _, t := range texts {
		if !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	return all
}

func number(literal string) personal.Input {
	return personal.Input{Kind: personal.InputNumber, Text: literal}
}

// numbers returns numbers that may be within the field's range.
func numbers(f personal.Field) []float64 {
	switch {
	case f.Min != nil && f.Max != nil:
		return []float64{*f.Min, *f.Max, (*f.Min + *f.Max) / 2}
	case f.Min != nil:
		return []float64{*f.Min + 1.5, *f.Min + 2, *f.Min}
	case f.Max != nil:
		return []float64{*f.Max - 1.5, *f.Max - 2, *f.Max}
	}
	return []float64{42.5, -7}
}

// texts returns texts that may match the field's pattern, or else those given.
func texts(f personal.Field, given ...string) []string {
	if f.Pattern == "" {
		return given
	}
	parsed, err := syntax.Parse(f.Pattern, syntax.Perl)
	if err != nil {
		return given
	}
	const tries = 12
	matches := make([]string, 0, tries)
	for variant := range tries {
		var b strings.Builder
		writeMatch(&b, parsed, variant)
		matches = append(matches, b.String())
	}
	return append(matches, given...)
}

// maxRepeat bounds how often a part of a pattern is repeated, if the pattern demands no more.
const maxRepeat = 64

// writeMatch writes a text that matches a pattern, if it has no assertions within. Variants
// differ in characters, alternatives and repetitions.
func writeMatch(b *strings.Builder, p *syntax.Regexp, variant int) {
	repeat := func(low, high int) {
		n := low + variant%3
		if high >= 0 {
			n = min(n, high)
		}
		for range min(n, maxRepeat+low) {
			writeMatch(b, p.Sub[0], variant)
		}
	}
	switch p.Op {
	case syntax.OpLiteral:
		b.WriteString(string(p.Rune))
	case syntax.OpCharClass:
		b.WriteRune(runeOf(p.Rune, variant))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		b.WriteByte(byte('a' + variant))
	case syntax.OpCapture:
		writeMatch(b, p.Sub[0], variant)
	case syntax.OpStar:
		repeat(0, -1)
	case syntax.OpPlus:
		repeat(1, -1)
	case syntax.OpQuest:
		repeat(0, 1)
	case syntax.OpRepeat:
		repeat(p.Min, p.Max)
	case syntax.OpConcat:
		for _, sub := range p.Sub {
			writeMatch(b, sub, variant)
		}
	case syntax.OpAlternate:
		writeMatch(b, p.Sub[variant%len(p.Sub)], variant)
	}
}

// runeOf returns a character of a class, which is a list of ranges: a printable one if there is
// one.
func runeOf(class []rune, variant int) rune {
	for _, usual := range []func(rune) bool{isASCIILetterOrDigit, unicode.IsGraphic} {
		var found []rune
		for i := 0; i+1 < len(class); i += 2 {
			for r := class[i]; r <= min(class[i+1], class[i]+1000) && len(found) < 16; r++ {
				if usual(r) {
					found = append(found, r)
				}
			}
		}
		if len(found) > 0 {
			return found[variant%len(found)]
		}
	}
	if len(class) == 0 {
		return 'a'
	}
	return class[0]
}

func isASCIILetterOrDigit(r rune) bool {
	return '0' <= r && r <= '9' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z'
}

// unplanned is the check of the fields for which no value was found; the zero value without any.
func (r *run) unplanned() (c rpc.RehearsalCheck) {
	for _, f := range r.fields {
		if len(f.values) > 0 {
			continue
		}
		c.Name, c.Outcome = "user_fields", rpc.RehearsalSkipped
		c.Reason = "no value was found that these user fields accept"
		if len(c.Differences) < rpc.MaxDifferences {
			c.Differences = append(c.Differences, rpc.Difference{Operation: string(personal.OpUpdateProfile), Field: f.Name})
		}
	}
	return c
}

// expect sets what the user fields of a new account must be, after these were sent.
func (r *run) expect(u *user, sent map[string]personal.Input) error {
	compiled, err := userfields.Compile(r.sink.schema.Fields)
	if err != nil {
		return err
	}
	var wrong personal.FieldErrors
	for _, f := range compiled.Record(compiled.Register(sent, &wrong)) { // the defaults
		u.values[f.Name] = f.Value
	}
	for _, f := range r.fields {
		if _, ok := sent[f.Name]; ok {
			u.values[f.Name] = f.first().want
		}
	}
	return wrong.Err()
}
