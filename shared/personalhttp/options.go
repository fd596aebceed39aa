package personalhttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/tracing"
)

// DefaultTimeout bounds a call if [Options.Timeout] is zero.
const DefaultTimeout = 30 * time.Second

// Options configure a [Handler]. The zero value serves the API at the root of the
// site, with English as the default language, to scripts of the same origin, without
// a proxy in front.
type Options struct {
	// BasePath precedes /api/v1/personal/: empty, or a path such as "/x" without a
	// final slash.
	BasePath string

	// Locales are the languages of the site's messages, pages and mails, as BCP 47 tags, the default one first: some of
	// [personal.Languages] and of the languages of Messages. Those of Messages that it does not name are added. If nil, they
	// are English, Russian and that of DefaultLocale.
	Locales []string

	// DefaultLocale is the BCP 47 tag of the language for callers whose
	// Accept-Language names no language of the site; the first one of Locales, or "en", if empty.
	DefaultLocale string

	// Messages has the site's own messages, which end users read: files LOCALE.json such as
	// de.json, each an object of texts by key. The keys are those of messages/en.json in this
	// package's folder. A file of a built-in language replaces some of its texts; one of
	// another language adds it. A text that it lacks is that of a parent, such as de of de-AT, or else of
	// DefaultLocale, or English: New logs how many it lacks. It names every file and key that is
	// wrong. It may be nil.
	Messages fs.FS

	// UserFields returns the schema in force, as personal.Host does, from memory: messages
	// about user fields follow their types and pattern messages. Without it they follow the
	// codes alone. personalhost sets it.
	UserFields func(context.Context) (personal.Schema, error)

	// URL is the public URL of the site, of which scheme and host count; personalhost sets it to
	// that of its Config. If it is https, all visitors count as using HTTPS, also behind a proxy
	// that does not say so, and pages lead those who do not use it there, see
	// [Handler.OverHTTPS] and [Handler.SecureURL]. It may be empty.
	URL string

	// AlwaysHTTPS makes every request count as sent over HTTPS: for a site without an https URL,
	// or behind a proxy that adds no header.
	AlwaysHTTPS bool

	// TrustedProxies are the senders whose ForwardedHeader and X-Forwarded-Proto are
	// believed (HTTP contract, section 5, and [Handler.OverHTTPS]).
	TrustedProxies []netip.Prefix

	// ForwardedHeader is the header in which trusted proxies send the client's
	// address: [clientip.XForwardedFor], which is the default, or
	// [clientip.Forwarded]. The address in the other header is ignored.
	ForwardedHeader string

	// CORSOrigins are the exact origins whose scripts may call the API from another
	// site. Without any, CORS is off. "*" and "null" are invalid.
	CORSOrigins []string

	// Origins are the exact origins of the site itself, such as https://www.example.com. They
	// are needed only behind a proxy that changes the Host header: the API refuses a POST that
	// a browser sends for another origin (HTTP contract, section 1), and without
	// Sec-Fetch-Site it compares Origin with Host. CORSOrigins are trusted as well.
	Origins []string

	// AlwaysOK sends every envelope with HTTP 200, for clients that need it.
	AlwaysOK bool

	// Transient are the names of parameters for the site's [personal.Admission], such as
	// captcha or invite, in lower snake case. The operations that it judges take one text for
	// each, which is in the context of the service's call (see [personal.TransientFrom]) and
	// nowhere else: it is not among the user fields, and no log, trace or event has it.
	// Other operations ignore them. A name must not be that of a parameter of an operation
	// or of a user field; New checks the former, personalhost.Open and
	// fieldstore.Store.Reserve the latter.
	Transient []string

	// Timeout bounds the reading of a body and, separately, the service's
	// call; [DefaultTimeout] if zero.
	Timeout time.Duration

	// Log receives one line per request and the causes of internal failures,
	// but no value that a caller sent except the request id; [slog.Default] if nil.
	// Lines of a request with a span have its trace_id.
	Log *slog.Logger

	// TracerProvider makes an OpenTelemetry span of each request, which also appears in
	// the context of the service's calls and of the host's own pages behind
	// [Handler.WithCall] and [Handler.RequireUser]. The trace context of a request counts
	// only from TrustedProxies; baggage is ignored. A span that the host's own middleware
	// has put into the request's context takes precedence. No spans begin here if nil.
	TracerProvider trace.TracerProvider

	// Observe is called after each response, for example to count it in metrics. It is
	// called concurrently and must not block. It may be nil.
	Observe func(Observation)
}

// Observation describes one response.
type Observation struct {
	Operation string        // a path of the contract's section 3 without slashes, such as "auth"; empty for any other path
	Status    int           // of the contract's section 2, even if [Options.AlwaysOK] sends 200
	Code      personal.Code // empty on success
	Took      time.Duration
}

// Options returns the handler's options with their defaults, for pages beside the API. They must
// not be modified.
func (h *Handler) Options() Options { return h.options }

func (o Options) withDefaults() Options {
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	if o.DefaultLocale == "" {
		o.DefaultLocale = append(slices.Clone(o.Locales), "en")[0]
	}
	o.Log = tracing.WithTraceID(cmp.Or(o.Log, slog.Default()))
	if o.UserFields == nil {
		o.UserFields = func(context.Context) (personal.Schema, error) { return personal.Schema{}, nil }
	}
	if o.Observe == nil {
		o.Observe = func(Observation) {}
	}
	return o
}

// validBasePath admits unreserved characters only: any other character has two
// spellings in a URL, and paths are compared exactly.
var validBasePath = regexp.MustCompile(`^(/[A-Za-z0-9_~.-]*[A-Za-z0-9_~-])*$`)

// check returns an error for every invalid option, except those that [newLocales] and
// [clientip.New] check.
func (o Options) check() error {
	var errs []error
	if !validBasePath.MatchString(o.BasePath) {
		errs = append(errs, fmt.Errorf("base path %q is not of the form /x or /x/y", o.BasePath))
	}
	errs = append(errs, checkOrigins("CORS origin", o.CORSOrigins), checkOrigins("origin", o.Origins))
	errs = append(errs, checkTransient(o.Transient))
	if u, err := url.Parse(o.URL); err != nil || o.URL != "" && (u.Scheme != "https" && u.Scheme != "http" || u.Host == "") {
		errs = append(errs, fmt.Errorf("URL %q is not an http(s) URL such as https://www.example.com", o.URL))
	}
	if o.Timeout < 0 {
		errs = append(errs, fmt.Errorf("timeout %s is negative", o.Timeout))
	}
	return errors.Join(errs...)
}

// transientName has the form of a user field's name.
var transientName = regexp.MustCompile(`\A[a-z][a-z0-9]*(_[a-z0-9]+)*\z`)

// checkTransient returns an error for every name that cannot be that of a transient
// parameter.
func checkTransient(names []string) error {
	if len(names) == 0 {
		return nil
	}
	taken, err := parameterNames()
	if err != nil {
		return err
	}
	var errs []error
	for i, name := range names {
		switch {
		case !transientName.MatchString(name):
			errs = append(errs, fmt.Errorf("transient parameter %q is not in lower snake case", name))
		case taken[name]:
			errs = append(errs, fmt.Errorf("transient parameter %q is a parameter of an operation: choose another name", name))
		case slices.Contains(names[:i], name):
			errs = append(errs, fmt.Errorf("transient parameter %q is named twice", name))
		}
	}
	return errors.Join(errs...)
}

func checkOrigins(kind string, origins []string) error {
	var errs []error
	for _, origin := range origins {
		if !isOrigin(origin) {
			errs = append(errs, fmt.Errorf("%s %q is not an exact origin such as https://www.example.com", kind, origin))
		}
	}
	return errors.Join(errs...)
}

// isOrigin reports whether a browser can send the text as Origin: without a path,
// capital letters or the scheme's default port. Any other text would never match.
func isOrigin(origin string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme == "" || u.Hostname() == "" || strings.Contains(u.Host, "*") {
		return false
	}
	defaultPort := u.Scheme == "https" && u.Port() == "443" || u.Scheme == "http" && u.Port() == "80"
	return origin == strings.ToLower(u.Scheme+"://"+u.Host) && !defaultPort
}
