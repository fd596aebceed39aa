package personalpages_test

import (
	"context"
	"log"
	"net/http"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalpages"
)

// inputs are what the registration asks for beside the user fields.
var inputs = []personalpages.Input{
	{
		Name: "terms", Kind: personalpages.InputCheckbox, Required: true,
		Label: personal.LocalText{"en": "I accept the terms of use.", "ru": "Я принимаю условия использования."},
		Link:  "/terms", LinkText: personal.LocalText{"en": "Read the terms", "ru": "Прочитать условия"},
	},
}

// A registration that asks users to accept the terms of use. The admission checks the input, because
// apps register without the pages.
func ExampleInput() {
	// In earnest: personalhost.Config{Admission: …, API: personalhttp.Options{Transient: []string{"terms"}}}
	module := openJudged(&personal.Admission{Judge: terms}, "terms")
	account, err := personalpages.New(module, personalpages.Config{Inputs: inputs})
	if err != nil {
		log.Fatal(err)
	}
	pages := http.NewServeMux()
	pages.Handle("/account", account)
	pages.Handle("/account/", account)
	site := module.Front(pages)

	dora := visit(site)
	const form = "login=dora&email=dora%40example.com&password=correct+horse&confirm_password=correct+horse"
	dora.Post("/account/register", form)
	dora.Post("/account/register", form+"&terms=true")
	// Output:
	// /account/register 422 Error: Register · Your account
	// /account 200 Profile · Your account
}

// terms lets in only those who accept the terms of use, with the parameter terms.
func terms(ctx context.Context, r personal.AdmissionRequest) error {
	if !r.Registers() || personal.TransientFrom(ctx)["terms"] == "true" {
		return nil
	}
	return &personal.AdmissionError{FieldErrors: map[string]personal.AdmissionFieldError{
		"terms": {Code: personal.FieldErrorRequired, Text: personal.LocalText{
			"en": "Please accept the terms of use.",
			"ru": "Примите условия использования.",
		}},
	}}
}
