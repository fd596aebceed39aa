package personalhttp

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// DefaultTimeout bounds a call when [Options.Timeout] is zero.
const DefaultTimeout = 30 * time.Second

// Options are the host's choices. The zero value serves at the root of the
// site, in English, to callers of the same origin, with no proxy in front.
type Options struct {
	// BasePath is put before /api/v1/personal/: empty, or "/x" without a final
	// slash.
	BasePath string

	// DefaultLocale is the BCP 47 tag used for callers whose Accept-Language
	// asks for nothing on offer; "en" if empty. There must be messages in it.
	DefaultLocale string

	// TrustedProxies are the senders whose ForwardedHeader is believed (HTTP
	// contract, section 5), and X-Forwarded-Proto, see [Handler.OverHTTPS].
	TrustedProxies []netip.Prefix

	// ForwardedHeader is the header in which trusted proxies tell the client's
	// address: [clientip.XForwardedFor], also if empty, or [clientip.Forwarded].
	// The other one is not believed.
	ForwardedHeader string

	// CORSOrigins are the exact origins whose scripts may call the API from
	// another site. None: CORS is off. "*" and "null" are refused.
	CORSOrigins []string

	// AlwaysOK sends every envelope with HTTP 200, for clients that expect it.
	AlwaysOK bool

	// Timeout bounds the reading of a body and, separately, the service's
	// call; [DefaultTimeout] if zero.
	Timeout time.Duration

	// Log receives one line per request and the causes of internal failures,
	// never a value that a caller sent; [slog.Default] if nil.
	Log *slog.Logger

	// Observe is told of every request once it is answered, for metrics; nil for
	// nobody. It is called by many goroutines at once and must not block.
	Observe func(Observation)
}

// Observation tells of one answered request.
type Observation struct {
	Operation string        // a path of the contract's section 3 without slashes, "auth" say; empty where there is none
	Status    int           // by the contract's section 2, also where [Options.AlwaysOK] hides it
	Code      personal.Code // empty on success
	Took      time.Duration
}

// withDefaults fills in what was left out and refuses what cannot work.
func (o Options) withDefaults() (Options, error) {
	if o.DefaultLocale == "" {
		o.DefaultLocale = "en"
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Observe == nil {
		o.Observe = func(Observation) {}
	}
	return o, errors.Join(o.checkBasePath(), o.checkOrigins(), o.checkTimeout())
}

func (o Options) checkTimeout() error {
	if o.Timeout < 0 {
		return fmt.Errorf("timeout %s is negative", o.Timeout)
	}
	return nil
}

// checkBasePath admits unreserved characters only: any other may be written in
// two ways in a URL, and paths are compared exactly.
func (o Options) checkBasePath() error {
	clean := regexp.MustCompile(`^(/[A-Za-z0-9_~.-]*[A-Za-z0-9_~-])*$`)
	if !clean.MatchString(o.BasePath) {
		return fmt.Errorf("base path %q is not of the form /x or /x/y", o.BasePath)
	}
	return nil
}

// checkOrigins refuses whatever a browser would never send as Origin, since it
// would never match: a path, capitals, a scheme's own port.
func (o Options) checkOrigins() error {
	for _, origin := range o.CORSOrigins {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme == "" || u.Hostname() == "" || strings.Contains(u.Host, "*") ||
			origin != strings.ToLower(u.Scheme+"://"+u.Host) || isDefaultPort(u) {
			return fmt.Errorf("CORS origin %q is not an exact origin such as https://www.example.com", origin)
		}
	}
	return nil
}

func isDefaultPort(u *url.URL) bool {
	return u.Scheme == "https" && u.Port() == "443" || u.Scheme == "http" && u.Port() == "80"
}
