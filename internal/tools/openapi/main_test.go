package main

import (
	"strings"
	"testing"
)

func TestConvert_ResolvesAnchorsAndKeepsOrder(t *testing.T) {
	got, err := convert([]byte(`
openapi: "3.1.1"
x-shared:
  errors: &errors {"404": missing, "200": default}
  more: &more {<<: *errors, "401": "<unknown>"}
paths:
  z: {"404": own, <<: *more, "200": fine}
  a: [*errors, 1, -9007199254740991, 0.5, true, null]
`))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"openapi":"3.1.1","paths":{"z":{"404":"own","200":"fine","401":"<unknown>"},` +
		`"a":[{"404":"missing","200":"default"},1,-9007199254740991,0.5,true,null]}}`
	if plain := strings.NewReplacer("\n", "", "\t", "", ": ", ":").Replace(string(got)); plain != want {
		t.Errorf("got %s\nwant %s", plain, want)
	}
}

func TestConvert_RefusesWhatIsNoDocument(t *testing.T) {
	for _, source := range []string{"", "text", "[1]", "a: 1\na: 2", "a: *missing", "a: &a [1]\nb: {<<: *a}"} {
		if got, err := convert([]byte(source)); err == nil {
			t.Errorf("%q became %s", source, got)
		}
	}
}
