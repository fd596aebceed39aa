package personalhttp

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cms-personal/personal/shared/personal"
)

func TestMessages_CompleteForEveryCode(t *testing.T) {
	codes := constants[personal.Code](t, "../personal/error.go", "Code")
	fieldErrors := constants[personal.FieldErrorCode](t, "../personal/error.go", "FieldErrorCode")
	types := constants[personal.FieldType](t, "../personal/fieldtypes.go", "FieldType")
	l, _, err := newLocales(Options{Locales: personal.Languages()}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	var required []string
	parameters := documentedParameters(t)
	allowed := map[string]bool{"success.unverified": true}
	for _, code := range codes {
		required = append(required, "code."+string(code))
		if statuses[code] == 0 {
			t.Errorf("%s: no HTTP status", code)
		}
	}
	for _, code := range fieldErrors {
		required = append(required, "field."+string(code))
		for _, parameter := range parameters {
			allowed["field."+parameter+"."+string(code)] = true
		}
		for _, fieldType := range types {
			allowed["type."+string(fieldType)+"."+string(code)] = true
		}
	}
	for name, route := range newRoutes() {
		allowed["success."+name] = route.operations[http.MethodPost] != nil
		for _, code := range codes {
			allowed["code."+name+"."+string(code)] = true
		}
		for _, code := range fieldErrors {
			for _, parameter := range parameters {
				allowed["field."+name+"."+parameter+"."+string(code)] = true
			}
		}
	}
	for locale, x := range l.texts {
		seen := map[string]string{}
		for _, key := range append(required, "refused.plain_http", "field.other") {
			if other, repeated := seen[x[key]]; x[key] == "" || repeated {
				t.Errorf("%s: %s: got text %q, want one that no other code has, such as %s", locale, key, x[key], other)
			}
			seen[x[key]] = key
			allowed[key] = true
		}
		for key, text := range x {
			if !allowed[key] || strings.TrimSpace(text) != text {
				t.Errorf("%s: got text %q for %s, which names no operation, code, parameter or type", locale, text, key)
			}
		}
	}
}

// documentedParameters returns the parameters of all operations.
func documentedParameters(t *testing.T) []string {
	t.Helper()
	names, err := parameterNames()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(names))
}

// What is often wrong has its own text, which says what to do.
func TestMessages_SayWhatToDoByFieldAndCode(t *testing.T) {
	own := map[string][]string{
		"field.login":            {"too_short", "too_long", "invalid_format", "mismatch", "taken"},
		"field.email":            {"too_long", "invalid_format", "taken"},
		"field.name":             {"too_long", "invalid_format"},
		"field.password":         {"too_short", "too_long", "invalid_format", "mismatch", "too_common"},
		"field.old_password":     {"mismatch"},
		"field.confirm_password": {"mismatch"},
		"field.code":             {"required", "mismatch"},
		"field.proof":            {"mismatch"},
		"field.token":            {"required"},
		"field.attempt":          {"required"},
		"field.credential":       {"required", "mismatch"},
		"type.date":              {"invalid_type", "invalid_format"},
		"type.datetime":          {"invalid_type", "invalid_format"},
		"type.integer":           {"invalid_type", "out_of_range"},
		"type.number":            {"invalid_type", "out_of_range"},
		"type.boolean":           {"invalid_type"},
		"type.file":              {"invalid_format"},
		"type.link":              {"invalid_format"},
		"type.link_set":          {"too_short", "too_long", "invalid_type", "invalid_format"},
		"type.tags":              {"too_short", "too_long", "invalid_type", "invalid_format"},
	}
	l, _, err := newLocales(Options{Locales: personal.Languages()}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	parameters := documentedParameters(t)
	for _, locale := range l.supported.keys {
		texts := l.texts[locale]
		for _, name := range parameters {
			for _, code := range constants[personal.FieldErrorCode](t, "../personal/error.go", "FieldErrorCode") {
				wantOwn(t, texts, "field."+name, code, own, texts.fieldError("", name, code, nil, nil))
			}
		}
		for _, fieldType := range constants[personal.FieldType](t, "../personal/fieldtypes.go", "FieldType") {
			for _, code := range constants[personal.FieldErrorCode](t, "../personal/error.go", "FieldErrorCode") {
				fields := []personal.Field{{Name: "x", Type: personal.TypeText}, {Name: "y", Type: fieldType}}
				wantOwn(t, texts, "type."+string(fieldType), code, own, texts.fieldError("", "y", code, fields, l.labels(nil)))
			}
		}
		if got, want := texts.fieldError("", "made_up", "made_up", nil, nil), texts["field.other"]; got != want {
			t.Errorf("unknown code: got %q, want %q", got, want)
		}
	}
}

// wantOwn checks that a message is that of the code, or another one if own lists it.
func wantOwn(t *testing.T, x texts, subject string, code personal.FieldErrorCode, own map[string][]string, got string) {
	t.Helper()
	common := x["field."+string(code)]
	if listed := slices.Contains(own[subject], string(code)); got == "" || (got != common) != listed {
		t.Errorf("%s %s: got %q, want a text other than %q: %t", subject, code, got, common, listed)
	}
}

// constants returns the values of all constants of a type in a file, so that the test
// fails for a code that is added there only.
func constants[C ~string](t *testing.T, file, typeName string) []C {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var values []C
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if name, ok := spec.Type.(*ast.Ident); ok && name.Name == typeName {
			for _, value := range spec.Values {
				text, err := strconv.Unquote(value.(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				values = append(values, C(text))
			}
		}
		return true
	})
	if len(values) < 9 {
		t.Fatalf("got %d constants of type %s in %s, want at least 9", len(values), typeName, file)
	}
	return values
}
