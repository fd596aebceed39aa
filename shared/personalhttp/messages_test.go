package personalhttp

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
)

func TestMessages_CompleteForEveryCode(t *testing.T) {
	codes := constants[personal.Code](t, "../personal/error.go", "Code")
	fieldErrors := constants[personal.FieldErrorCode](t, "../personal/error.go", "FieldErrorCode")
	for _, code := range codes {
		if statuses[code] == 0 {
			t.Errorf("%s: no HTTP status", code)
		}
	}
	l, err := newLocales("en")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := l.supported.keys, slices.Sorted(maps.Keys(l.texts)); !slices.Equal(got, want) {
		t.Errorf("got supported languages %q, want %q", got, want)
	}
	for locale, x := range l.texts {
		wantTexts(t, locale, x.codes, codes)
		wantTexts(t, locale, x.fieldErrors, fieldErrors)
		if diff := cmp.Diff(slices.Sorted(maps.Keys(english().success)), slices.Sorted(maps.Keys(x.success))); diff != "" {
			t.Errorf("%s: operations with a success message (-english +got):\n%s", locale, diff)
		}
		for operation, text := range x.success {
			if text == "" || newRoutes()[operation].operations[http.MethodPost] == nil {
				t.Errorf("%s: got message %q for POST %s", locale, text, operation)
			}
		}
		if x.otherFieldError == "" {
			t.Errorf("%s: no text for unknown codes of field errors", locale)
		}
	}
}

// wantTexts checks that each code has a text of its own and that there are no others.
func wantTexts[C ~string](t *testing.T, locale string, texts map[C]string, codes []C) {
	t.Helper()
	seen := map[string]bool{}
	for _, code := range codes {
		if texts[code] == "" || seen[texts[code]] {
			t.Errorf("%s: %s: got text %q, want one that no other code has", locale, code, texts[code])
		}
		seen[texts[code]] = true
	}
	if len(texts) != len(codes) {
		t.Errorf("%s: got %d texts, want %d", locale, len(texts), len(codes))
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
