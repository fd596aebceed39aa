package site

import (
	"net/http"

	"github.com/cms-personal/personal/host-sample/ui"
)

// The controls that several forms have. Their names are those of the contract's
// parameters.

func (s *site) loginControl(r *http.Request, key string) ui.Control {
	return ui.Control{Name: "login", Label: s.pages.Text(r, key), Autocomplete: "username"}
}

func (s *site) emailControl(r *http.Request, key string) ui.Control {
	return ui.Control{Name: "email", Label: s.pages.Text(r, key), Type: "email", Autocomplete: "email"}
}

func (s *site) passwordControl(r *http.Request, name, key string) ui.Control {
	return ui.Control{
		Name: name, Label: s.pages.Text(r, key), Required: true,
		Type: "password", Autocomplete: "current-password",
	}
}

// newPasswordControls are a new password and its repetition.
func (s *site) newPasswordControls(r *http.Request, key string) []ui.Control {
	first := s.passwordControl(r, "password", key)
	first.Hint = s.pages.Text(r, "hint_password")
	second := s.passwordControl(r, "confirm_password", "confirm_password")
	first.Autocomplete, second.Autocomplete = "new-password", "new-password"
	return []ui.Control{first, second}
}

// tokenControl takes the code of a mail. A script fills it in from the address
// that the mail leads to; without one the visitor does.
func (s *site) tokenControl(r *http.Request) ui.Control {
	return ui.Control{
		Name: "token", Label: s.pages.Text(r, "code"), Hint: s.pages.Text(r, "hint_code"), Required: true,
		Autocomplete: "off", Script: "token",
	}
}

func required(c ui.Control) ui.Control {
	c.Required = true
	return c
}

func (s *site) aside(r *http.Request, text, link, path string) aside {
	return aside{Text: s.pages.Text(r, text), Link: ui.Link{Text: s.pages.Text(r, link), Path: path}}
}
