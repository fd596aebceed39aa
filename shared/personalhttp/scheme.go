package personalhttp

import (
	"net/http"
	"slices"
	"strings"

	"github.com/cms-personal/personal/shared/personalhttp/clientip"
)

// OverHTTPS reports whether the browser's connection to the site is encrypted: it
// ends here with TLS, or a trusted proxy says so (see [Options.TrustedProxies]) by
// X-Forwarded-Proto: https or the proto parameter of Forwarded. Each of the two
// that is present must hold exactly one value: where there are several, the
// first is another hop's word. Other senders' headers are ignored.
//
// It is for the host's own pages, their cookies and Strict-Transport-Security;
// the API is the same over both schemes.
func (h *Handler) OverHTTPS(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	if !h.clients.Trusts(r) {
		return false
	}
	old, standard := forwardedSchemes(r.Header)
	switch {
	case len(old) == 0:
		return isHTTPS(standard)
	case len(standard) == 0:
		return isHTTPS(old)
	}
	return isHTTPS(old) && isHTTPS(standard)
}

func isHTTPS(schemes []string) bool {
	return len(schemes) == 1 && strings.EqualFold(schemes[0], "https")
}

// forwardedSchemes returns the values of X-Forwarded-Proto, and the proto of
// every element of Forwarded: none if no element has one, and an empty text for a
// line or an element that tells no scheme beside one that does.
func forwardedSchemes(header http.Header) (old, standard []string) {
	for _, line := range header.Values("X-Forwarded-Proto") {
		for scheme := range strings.SplitSeq(line, ",") {
			old = append(old, strings.Trim(scheme, " \t"))
		}
	}
	for _, line := range header.Values(clientip.Forwarded) {
		schemes, ok := clientip.ForwardedValues(line, "proto")
		if !ok {
			schemes = []string{unreadable}
		}
		standard = append(standard, schemes...)
	}
	if !slices.ContainsFunc(standard, func(scheme string) bool { return scheme != "" }) {
		standard = nil
	}
	return old, standard
}

// unreadable stands for a line that breaks the grammar: no scheme.
const unreadable = "?"
