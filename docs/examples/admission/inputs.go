package admission

import (
	"context"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalpages"
)

// Inputs are what the registration asks for beside the fields.
func Inputs() []personalpages.Input {
	return []personalpages.Input{
		{
			Name: "invite", Required: true,
			Label: personal.LocalText{"en": "Invite code", "ru": "Код приглашения"},
			Hint:  personal.LocalText{"en": "It is in the mail that invited you.", "ru": "Он есть в письме с приглашением."},
		},
		{
			Name: "terms", Kind: personalpages.InputCheckbox, Required: true,
			Label: personal.LocalText{"en": "I accept the terms of use.", "ru": "Я принимаю условия использования."},
			Link:  "/terms", LinkText: personal.LocalText{"en": "Read the terms", "ru": "Прочитать условия"},
		},
	}
}

// Terms lets in only those who accept the terms of use, with the parameter terms.
func Terms(ctx context.Context, r personal.AdmissionRequest) error {
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
