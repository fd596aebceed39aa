package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cms-personal/personal/shared/personaloidc"
)

// providers returns those that --oidc names: NAME=ISSUER,CLIENT-ID and, but for public clients, ,SECRET-FILE.
func providers(texts []string) (list []personaloidc.Provider, err error) {
	for _, text := range texts {
		name, rest, found := strings.Cut(text, "=")
		parts := strings.SplitN(rest, ",", 3)
		if !found || name == "" || len(parts) < 2 {
			err = errors.Join(err, fmt.Errorf("%q is not NAME=ISSUER,CLIENT-ID,SECRET-FILE, such as google=https://accounts.google.com,ID,google.secret", text))
			continue
		}
		list = append(list, personaloidc.Provider{Name: name, Issuer: parts[0], ClientID: parts[1], SecretFile: strings.Join(parts[2:], "")})
	}
	return list, err
}
