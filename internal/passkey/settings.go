package passkey

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

var domain = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)

// maxDomain is the length of a domain (RFC 1035).
const maxDomain = 253

// ValidateID returns an error unless a text can be an RP ID, or is empty: browsers take no IP
// addresses and no other letters.
func ValidateID(id string) error {
	last := id[strings.LastIndexByte(id, '.')+1:]
	if id != "" && (len(id) > maxDomain || !domain.MatchString(id) ||
		strings.Trim(last, "0123456789") == "") { // an address, also a short one such as 127.1
		return fmt.Errorf("rp_id: %q must be empty or a domain like site.example or localhost, in lower case and as A-labels, without port", id)
	}
	return nil
}

// maxOrigins bounds the origins of a site.
const maxOrigins = 20

// apps are the origins of Android apps.
const apps = "android:apk-key-hash:"

// ValidateOrigins returns an error unless each origin is written as browsers write it, and there
// are some if there is an RP ID, and none otherwise.
func ValidateOrigins(id string, origins []string) error {
	switch {
	case (id == "") != (len(origins) == 0):
		return errors.New("origins: rp_id and origins are set together, or neither")
	case len(origins) > maxOrigins:
		return fmt.Errorf("origins: must have at most %d", maxOrigins)
	}
	for _, o := range origins {
		if !validOrigin(o) {
			return fmt.Errorf("origins: %q must be like https://www.site.example or https://site.example:8443; http is for localhost only", o)
		}
	}
	return nil
}

func validOrigin(o string) bool {
	if hash, ok := strings.CutPrefix(o, apps); ok {
		return hash != ""
	}
	u, err := url.Parse(o)
	if err != nil || u.Hostname() == "" || o != u.Scheme+"://"+u.Host || ValidateID(u.Hostname()) != nil {
		return false
	}
	local := u.Hostname() == "localhost" || strings.HasSuffix(u.Hostname(), ".localhost")
	standard := u.Scheme == "https" && u.Port() == "443" || u.Scheme == "http" && u.Port() == "80" // browsers leave it out
	return (u.Scheme == "https" || u.Scheme == "http" && local) && !standard && !strings.HasSuffix(u.Host, ":")
}
