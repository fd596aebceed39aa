package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/idna"

	"github.com/cms-personal/personal/shared/personal"
)

// domainName is the form of a domain for e-mails, in ASCII and lower case.
var domainName = regexp.MustCompile(`\A([a-z0-9-]{1,63}\.)+[a-z][a-z0-9-]{0,62}\z`)

// admitDomains returns the admission of --register-domains: only e-mails of these domains
// may be registered, or become those of an account. It returns nil, which admits everyone,
// if the flag is not set. Each text is a list of domains, separated by commas.
func admitDomains(texts []string) (*personal.Admission, error) {
	if texts == nil {
		return nil, nil
	}
	var shown, accepted []string
	for _, domain := range strings.Split(strings.Join(texts, ","), ",") {
		domain = strings.TrimSpace(domain)
		ascii, err := idna.Lookup.ToASCII(domain)
		if err != nil || !domainName.MatchString(ascii) {
			return nil, fmt.Errorf("%q is not a domain such as example.com: separate several by commas", domain)
		}
		if !slices.Contains(accepted, ascii) {
			shown, accepted = append(shown, strings.ToLower(domain)), append(accepted, ascii)
		}
	}
	list := strings.Join(shown, ", ")
	refused := personal.Refuse(personal.LocalText{
		"en": "This site accepts only e-mail addresses of these domains: " + list + ".",
		"ru": "Этот сайт принимает только адреса электронной почты в этих доменах: " + list + ".",
	})
	return &personal.Admission{Judge: func(_ context.Context, r personal.AdmissionRequest) error {
		if !r.Registers() && r.Operation != personal.OpChangeEmail {
			return nil
		}
		if r.Email == "" {
			return nil // the module asks for it, together with all else that is missing
		}
		domain, err := domainOf(r.Email)
		switch {
		case err != nil: // the module must not be asked whether it reads a domain here
			return personal.FieldErrors{"email": personal.FieldErrorInvalidFormat}.Err()
		case !slices.Contains(accepted, domain):
			return refused
		}
		return nil
	}}, nil
}

// domainOf returns the domain of an e-mail as the module reads it: what follows the last @,
// as A-labels (RFC 5891) in lower case.
func domainOf(email string) (string, error) {
	at := strings.LastIndexByte(email, '@')
	if at < 0 {
		return "", errors.New("no domain")
	}
	return idna.Lookup.ToASCII(email[at+1:])
}
