package personalpages

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/cms-personal/personal/shared/personalweb/ui"
)

// mailedFragment is the fragment of a link in a mail: values in base64url.
var mailedFragment = regexp.MustCompile(`^(token|login)=[A-Za-z0-9_-]+(&(token|login)=[A-Za-z0-9_-]+)*$`)

// maxEncoded bounds how often a path is decoded beyond what the server does: each time costs the length of the path.
const maxEncoded = 3

// mendMailLinks leads a link of a mail whose # became a part of the path to the page that it means: some
// gateways that check mails encode it, some of them twice. Such a path has a secret, which
// nothing behind mendMailLinks sees; what a gateway has added as a query is dropped.
func mendMailLinks(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		for range maxEncoded {
			if decoded, err := url.PathUnescape(path); err == nil && !strings.Contains(path, "#") {
				path = decoded
			}
		}
		page, fragment, found := strings.Cut(path, "#")
		page = strings.TrimSuffix(page, "/")
		ofMails := slices.Contains([]string{recoverPath, confirmPath, verifyPath, undoPath}, page)
		switch {
		case !found:
			next.ServeHTTP(w, r)
		case ofMails && (r.Method == http.MethodGet || r.Method == http.MethodHead) && mailedFragment.MatchString(fragment):
			w.Header().Set("Referrer-Policy", "no-referrer")
			ui.Redirect(w, r, page+"#"+fragment)
		default:
			hidden := r.WithContext(r.Context())
			hidden.URL = &url.URL{Path: page + "/-"} // there is no such page: a 404 that does not name the secret
			next.ServeHTTP(w, hidden)
		}
	})
}
