package personalhttp

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
)

// TestAnOperationReadsTheParametersItIsDescribedWith repeats each parameter that
// is described, or read anywhere, in turn: an operation that reads it can't read
// the request.
func TestAnOperationReadsTheParametersItIsDescribedWith(t *testing.T) {
	names := map[string]bool{}
	source, err := os.ReadFile("operations.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, read := range regexp.MustCompile(`\bp\.[a-z]+\("([a-z_]+)"\)`).FindAllSubmatch(source, -1) {
		names[string(read[1])] = true
	}
	for _, r := range newRoutes() {
		for _, op := range r.operations {
			for _, p := range op.parameters {
				names[p.name] = true
			}
		}
	}
	for _, r := range newRoutes() {
		for _, op := range r.operations {
			for name := range names {
				in := &input{params: params{name: {Kind: personal.InputRepeated}}}
				_, err := op.call(t.Context(), &personaltest.Service{}, in)
				reads := personal.CodeOf(err) == personal.CodeMalformedRequest
				reads = reads || name == "name" && op.userFields != noFields // the service reads it
				described := slices.ContainsFunc(op.parameters, func(p parameter) bool { return p.name == name })
				if reads != described {
					t.Errorf("%s %s: %s is read: %t, is described: %t", op.method, r.name, name, reads, described)
				}
			}
		}
	}
}

func TestEveryOperationIsDescribed(t *testing.T) {
	for _, r := range newRoutes() {
		for _, op := range r.operations {
			if op.summary == "" || op.call == nil || op.bare && op.data == "" {
				t.Errorf("%s %s lacks its description", op.method, r.name)
			}
			for _, name := range op.oneOf {
				if !slices.ContainsFunc(op.parameters, func(p parameter) bool { return p.name == name }) {
					t.Errorf("%s %s: one of %s", op.method, r.name, name)
				}
			}
		}
	}
}

func TestEveryTypeOfUserFieldIsDescribed(t *testing.T) {
	types := constants[personal.FieldType](t, "../personal/schema.go", "FieldType")
	if !slices.Equal(types, fieldTypes()) {
		t.Errorf("there are the types %q, and described are %q", types, fieldTypes())
	}
	for _, fieldType := range types {
		if typeSchema(fieldType).Type == nil {
			t.Errorf("%s is any type", fieldType)
		}
	}
}

func TestAPatternIsToldWhereItMeansTheSameToEverybody(t *testing.T) {
	for re2, want := range map[string]string{
		``:                             ``,
		`[a-z]+`:                       `^(?:[a-z]+)$`,
		`\+?[0-9][0-9 ()-]{4,18}[0-9]`: `^(?:\+?[0-9][0-9 ()-]{4,18}[0-9])$`,
		`a|(?:b|c)d*`:                  `^(?:a|(?:b|c)d*)$`,
		`[^\]]\.\d`:                    `^(?:[^\]]\.\d)$`,
		`\(?x`:                         ``,
		`(?i)a`:                        ``,
		`(?P<year>[0-9]{4})`:           ``,
		`[[:alpha:]]`:                  ``,
		`\pL+`:                         ``,
		`\p{Greek}`:                    ``,
		`\s`:                           ``,
		`\Aa\z`:                        ``,
		`\Qa.b\E`:                      ``,
		`a{,3}`:                        ``,
		`]`:                            ``,
	} {
		if got := wholePattern(re2); got != want {
			t.Errorf("%s is told as %q, want %q", re2, got, want)
		}
	}
}
