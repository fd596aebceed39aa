package personalhttp

import (
	"reflect"
	"strings"
	"unicode"

	"github.com/cms-personal/personal/shared/personal"
)

// newReader returns a function that makes requests of type R, which are the caller's credentials or
// a struct: its fields are the parameters of their names in snake case, but for the Credentials, Fields,
// which are all other parameters, FieldErrors, and what is tagged `parameter:"-"`.
func newReader[R any]() func(*input) R {
	t := reflect.TypeFor[R]()
	if t == reflect.TypeFor[personal.Credentials]() {
		return func(in *input) R { return any(in.credentials).(R) }
	}
	var set []func(*input, reflect.Value)
	var parameters []string
	for f := range t.Fields() {
		name, kind, i := parameterName(f.Name), f.Type.Kind(), f.Index
		if f.Tag.Get("parameter") == "-" {
			continue
		}
		if kind == reflect.String || kind == reflect.Bool {
			parameters = append(parameters, name)
		}
		switch {
		case f.Type == reflect.TypeFor[personal.Credentials]():
			set = append(set, func(in *input, r reflect.Value) { r.FieldByIndex(i).Set(reflect.ValueOf(in.credentials)) })
		case f.Type == reflect.TypeFor[map[string]personal.Input]():
			set = append(set, func(in *input, r reflect.Value) {
				r.FieldByIndex(i).Set(reflect.ValueOf(in.params.without(parameters...)))
			})
		case f.Type == reflect.TypeFor[personal.FieldErrors](): // the last field: the others are read
			set = append(set, func(in *input, r reflect.Value) { r.FieldByIndex(i).Set(reflect.ValueOf(in.fieldErrors)) })
		case name == "credential": // of WebAuthn: JSON, also as a text
			set = append(set, func(in *input, r reflect.Value) { r.FieldByIndex(i).SetString(in.object(name)) })
		case kind == reflect.String:
			set = append(set, func(in *input, r reflect.Value) { r.FieldByIndex(i).SetString(in.text(name)) })
		case kind == reflect.Bool:
			set = append(set, func(in *input, r reflect.Value) { r.FieldByIndex(i).SetBool(in.boolean(name)) })
		default:
			panic("a parameter cannot have the type " + f.Type.String())
		}
	}
	return func(in *input) (r R) {
		v := reflect.ValueOf(&r).Elem()
		for _, set := range set {
			set(in, v)
		}
		return r
	}
}

// parameterName returns the name of a field in snake case: confirm_password of ConfirmPassword, id of ID.
func parameterName(field string) string {
	var b strings.Builder
	previous := 'A'
	for _, r := range field {
		if unicode.IsUpper(r) && unicode.IsLower(previous) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
		previous = r
	}
	return b.String()
}
