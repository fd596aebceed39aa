package userfields

import (
	"net/url"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cms-personal/personal/shared/personal"
)

// readFile reads an http or https URL, or a clean relative path. Whatever else a
// browser or a file system might follow (other schemes, "//host", "..", drives)
// is refused: pages will show this value as a link.
func readFile(s string) (any, personal.FieldErrorCode) {
	if !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) || strings.Contains(s, `\`) {
		return nil, personal.FieldErrorInvalidFormat
	}
	if !isWebURL(s) && !isCleanPath(s) {
		return nil, personal.FieldErrorInvalidFormat
	}
	return s, ""
}

func isWebURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" &&
		u.User == nil && !strings.ContainsFunc(s, unicode.IsSpace)
}

// isCleanPath also looks at the path as a browser would read it, where "%2e%2e"
// is "..".
func isCleanPath(s string) bool {
	if !staysBelow(s) {
		return false
	}
	decoded, err := url.PathUnescape(s)
	return err != nil || staysBelow(decoded)
}

func staysBelow(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	return path.Clean(p) == p && p != "." && first != "" && first != ".." &&
		!strings.Contains(first, ":") && !strings.ContainsFunc(p, unicode.IsControl) && !strings.Contains(p, `\`)
}
