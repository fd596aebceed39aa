package main

import (
	"strings"
	"testing"
)

func TestConvert_ResolvesAnchorsAndKeepsOrder(t *testing.T) {
	document, err := parse([]byte(`
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
	got, err := convert(document)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"openapi":"3.1.1","paths":{"z":{"404":"own","200":"fine","401":"<unknown>"},` +
		`"a":[{"404":"missing","200":"default"},1,-9007199254740991,0.5,true,null]}}`
	if plain := strings.NewReplacer("\n", "", "\t", "", ": ", ":").Replace(string(got)); plain != want {
		t.Errorf("got %s\nwant %s", plain, want)
	}
}

func TestConvert_RefusesInvalidDocuments(t *testing.T) {
	for _, source := range []string{"", "text", "[1]", "a: 1\na: 2", "a: *missing", "a: &a [1]\nb: {<<: *a}"} {
		document, err := parse([]byte(source))
		if err == nil {
			_, err = convert(document)
		}
		if err == nil {
			t.Errorf("%q: got no error, want one", source)
		}
	}
}

func TestTable_RowsFollowTheDocument(t *testing.T) {
	document, err := parse([]byte(`
openapi: "3.1.1"
paths:
  /items/:
    get: &read
      security: [{User-Id: [], User-Hash: []}]
      responses: {"200": {content: {application/json: {schema: {$ref: "#/components/schemas/items_response"}}}}}
    post:
      <<: *read
      requestBody: {content: {application/json: {schema: {$ref: "#/components/schemas/parameters"}}}}
      responses:
        "200": {content: {application/json: {schema: {properties: {success: {type: integer}}}}}}
        "422": {$ref: "#/components/responses/unauthenticated"}
        "401": {$ref: "#/components/responses/wrong"}
  /both/:
    get: &both
      security: [{}, {User-Id: []}]
      responses: {"200": {content: {application/json: {schema: {$ref: "#/components/schemas/items_response"}}}}}
    post: *both
  /long/: &long
    get: {responses: {"200": {content: {application/json: {schema: {required: [data], properties: {success: {type: integer}, data: {$ref: "#/components/schemas/long"}}}}}}}}
  /same/: *long
  /plain.json: {get: {responses: {"200": {content: {application/json: {schema: {type: object}}}}}}}
components:
  responses:
    unauthenticated: {content: {application/json: {schema: {properties: {result: {properties: {CODE: {const: unauthenticated}}}}}}}}
    wrong: {content: {application/json: {schema: {properties: {result: {properties: {CODE: {enum: [one, two, three]}}}}}}}}
  schemas:
    parameters:
      required: [name]
      additionalProperties: false
      properties: {name: {type: string}, all: {type: [boolean, "null"]}, kind: {enum: [x, y]}, proof: {type: string}}
      x-required-any: [[kind, all], [proof]]
    items_response:
      properties: {success: {type: integer}, data: {$ref: "#/components/schemas/items"}}
    items: {required: [list], properties: {list: {type: array, items: {$ref: "#/components/schemas/item"}}, more: {type: boolean}}}
    long: {required: [a, b, c, d], properties: {a: {type: string}, b: {type: string}, c: {type: string}, d: {type: string}}}
    item: {required: [id], properties: {id: {type: integer}, note: {type: string}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := withTable("before\n"+blockBegin+"old\n"+blockEnd+"after\n", document)
	if err != nil {
		t.Fatal(err)
	}
	want := "before\n" + blockBegin + `| Method, path | Headers | Parameters (* required) | ` + "`data`" + ` on success (? may be absent, [] lists) | Codes |
|---|---|---|---|---|
| GET items/ | yes | | list [id, note?], more?; or none | |
| POST items/ | yes | name*, all (boolean), kind (` + "`x`, `y`" + `), proof, user fields; *kind and all, or proof* | none | one, two, three |
| GET or POST both/ | optional | | list [id, note?], more?; or none | |
| GET long/ | | | a, b, c, d | |
| GET same/ | | | as long/ | |
| GET plain.json | | | no envelope | |
` + blockEnd + "after\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if _, err := withTable("no marks", document); err == nil {
		t.Error("a page without marks: got no error, want one")
	}
}
