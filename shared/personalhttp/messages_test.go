package personalhttp

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"github.com/cms-personal/personal/shared/personal"
)

func TestEveryCodeHasATextInEveryLanguageAndAStatus(t *testing.T) {
	codes := constants[personal.Code](t, "../personal/error.go", "Code")
	faults := constants[personal.FieldErrorCode](t, "../personal/error.go", "FieldErrorCode")
	dones := constants[done](t, "messages.go", "done")
	for _, code := range codes {
		if _, ok := statusOf(code); !ok {
			t.Errorf("no status for %s", code)
		}
	}
	l, err := newLocales("en")
	if err != nil {
		t.Fatal(err)
	}
	if len(l.supported) != len(l.texts) {
		t.Errorf("%d languages, %d of texts", len(l.supported), len(l.texts))
	}
	for _, locale := range l.supported {
		x := l.texts[locale]
		complete(t, locale, x.codes, codes)
		complete(t, locale, x.faults, faults)
		complete(t, locale, x.done, dones)
		if x.fault == "" {
			t.Errorf("%s: no text for faults made up later", locale)
		}
	}
}

// complete wants a text for each code, and a different one, and no others.
func complete[C ~string](t *testing.T, locale string, texts map[C]string, codes []C) {
	t.Helper()
	seen := map[string]bool{}
	for _, code := range codes {
		if texts[code] == "" || seen[texts[code]] {
			t.Errorf("%s: no text, or no own one, for %s", locale, code)
		}
		seen[texts[code]] = true
	}
	if len(texts) != len(codes) {
		t.Errorf("%s: %d texts for %d codes", locale, len(texts), len(codes))
	}
}

// constants returns the values of all constants of a type in a file, so that
// a code added there is missed here.
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
		t.Fatalf("%d constants of type %s in %s: the test looks in the wrong place", len(values), typeName, file)
	}
	return values
}
