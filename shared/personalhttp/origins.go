package personalhttp

import (
	"net/http"
	"slices"
)

// CrossOriginHint is in the log line of each cross_origin.
const CrossOriginHint = "a browser sent this for another site; if it was a page of this site, " +
	"a proxy does not pass the Host header on, with its port, or it adds Referrer-Policy: no-referrer, so that browsers send Origin: null: " +
	"correct the proxy, or list the site's origin in Options.Origins if it is only the Host"

// newOrigins returns the protection against posts that browsers send for other origins
// (HTTP contract, section 1). They would spend the limits of a visitor's address.
func newOrigins(o Options) (*http.CrossOriginProtection, error) {
	p := http.NewCrossOriginProtection()
	for _, origin := range slices.Concat(o.CORSOrigins, o.Origins) {
		if err := p.AddTrustedOrigin(origin); err != nil {
			return nil, err
		}
	}
	return p, nil
}
