// Package personalhttptest checks how a host mounts the personal-account API. A
// router or a middleware around the handler of package personalhttp can break what
// the HTTP contract promises: it redirects, reads the body first, hides the client's
// address or replaces responses. [Run] finds that in a test of the host:
//
//	func TestMount(t *testing.T) {
//		personalhttptest.Run(t, func(s personal.Service) http.Handler {
//			api, err := personalhttp.New(s, personalhttp.Options{Log: slog.New(slog.DiscardHandler)})
//			if err != nil {
//				t.Fatal(err)
//			}
//			return site(api) // the handler that the host gives to its http.Server
//		})
//	}
package personalhttptest

import (
	"cmp"
	"log"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// DefaultGuardedPage is the path that a mount must serve behind RequireUser, unless
// [WithGuardedPage] names another.
const DefaultGuardedPage = "/account"

// Run checks the handler that mount returns for a service, with a subtest for each
// promise of the HTTP contract that a host can break. mount is called for each
// subtest. Its handler must be the whole site as the host serves it, with every
// middleware, and is served on a port of the loopback address by an [http.Server].
//
// Besides the API, the handler must serve one page for GET behind RequireUser. The page
// contains the login of the user, see [WithGuardedPage].
//
// The handler must not set the options AlwaysOK, or Timeout to less than 20 s, of package
// personalhttp. Connections seem to come from addresses for documentation such as
// 192.0.2.1, so the test does not depend on the network of the machine.
func Run(t *testing.T, mount func(personal.Service) http.Handler, options ...Option) {
	t.Helper()
	RunServer(t, func(s personal.Service) func(net.Listener) error { return serveHTTP(mount(s)) }, options...)
}

// serveHTTP serves a handler by a server without its own limits: a check observes
// the limits that the handler sets. The listener gets the server's log.
func serveHTTP(h http.Handler) func(net.Listener) error {
	return func(l net.Listener) error {
		server := &http.Server{Handler: h, ErrorLog: log.New(&l.(*listener).log, "", 0)}
		return server.Serve(l)
	}
}

// RunServer is [Run] for hosts whose server is not an [http.Server]. mount builds a
// site for a service and returns the function that serves it on a listener. The
// function returns when the listener is closed.
func RunServer(t *testing.T, mount func(personal.Service) (serve func(net.Listener) error), options ...Option) {
	t.Helper()
	whole := runChecks(newChecks(options), func(c check) bool {
		return t.Run(c.name, func(t *testing.T) { c.evaluate(t, mount) })
	})
	if !whole {
		t.Log("the other checks are left out: they would fail for the same reason")
	}
}

// runChecks runs the checks. It leaves out all others if the first fails, and returns
// false then.
func runChecks(checks []check, run func(check) (passed bool)) bool {
	if !run(checks[0]) {
		return false
	}
	for _, c := range checks[1:] {
		run(c)
	}
	return true
}

// Option describes the mount to [Run].
type Option func(*config)

type config struct {
	basePath        string
	page            string
	sign            func(*http.Request, personal.Credentials)
	proxies         []netip.Prefix
	forwardedHeader string
	origin          string
	gaps            map[string]string // by the name of the check: the reason
	patience        time.Duration     // bounds every wait; a check that passes waits for an event instead
}

// WithBasePath is for a mount whose handler has the option BasePath.
func WithBasePath(path string) Option { return func(c *config) { c.basePath = path } }

// WithGuardedPage names the path of a page behind RequireUser: [DefaultGuardedPage] if
// the option is missing. To a signed-in user the page responds with a status from 200
// to 299 and with a body that contains Profile.Login. RequireUser may reject others in
// any way, but not with such a status.
func WithGuardedPage(path string) Option { return func(c *config) { c.page = path } }

// WithCredentials is for a mount whose RequireUser has an extractor: the function adds
// credentials to a request for the guarded page as the extractor expects them, for
// example as a cookie. Without the option they are the headers User-Id and User-Hash.
func WithCredentials(sign func(*http.Request, personal.Credentials)) Option {
	return func(c *config) { c.sign = sign }
}

// WithTrustedProxies is for a mount whose handler has the options TrustedProxies and
// ForwardedHeader. Without the option no proxy may be trusted. Addresses for
// documentation, such as 192.0.2.1 and 2001:db8::1, must not be trusted.
func WithTrustedProxies(proxies []netip.Prefix, forwardedHeader string) Option {
	return func(c *config) { c.proxies, c.forwardedHeader = proxies, cmp.Or(forwardedHeader, "X-Forwarded-For") }
}

// WithCORSOrigin is for a mount that lists the origin in the option CORSOrigins.
// Without the option CORS must be off.
func WithCORSOrigin(origin string) Option { return func(c *config) { c.origin = origin } }

// WithoutCancellation declares that a client that hangs up does not cancel the calls of
// the service: they go on until they are done or time out. As with every declared gap,
// the log names the reason, and Run fails if the mount does not have the gap.
func WithoutCancellation(why string) Option { return withGap(checkCancellation, why) }

// WithoutEarlyRefusal declares that a body which is much too large is not refused with
// an envelope before it arrives.
func WithoutEarlyRefusal(why string) Option { return withGap(checkEarlyRefusal, why) }

// WithoutBodyDeadline declares that a body may take as long as it likes to arrive.
func WithoutBodyDeadline(why string) Option { return withGap(checkBodyDeadline, why) }

// WithoutRepeatedHeaders declares that of several headers with the same name the API
// sees only one.
func WithoutRepeatedHeaders(why string) Option { return withGap(checkRepeatedHeaders, why) }

// WithoutUnknownMethods declares that a request with a method that HTTP does not define
// is not refused with an envelope.
func WithoutUnknownMethods(why string) Option { return withGap(checkUnknownMethods, why) }

func withGap(check, why string) Option { return func(c *config) { c.gaps[check] = why } }

// check is one promise.
type check struct {
	name   string
	run    func(*probe)
	config *config
	gap    string            // why the mount does not keep the promise
	panics map[string]string // those that were told, and by which check; shared by all checks
}

func newChecks(options []Option) []check {
	c := &config{patience: 30 * time.Second, page: DefaultGuardedPage, gaps: map[string]string{},
		sign: func(r *http.Request, c personal.Credentials) {
			for name, values := range credentialHeaders(c) {
				r.Header[name] = values
			}
		}}
	for _, option := range options {
		option(c)
	}
	checks, panics := promises(), map[string]string{}
	for i := range checks {
		checks[i].config, checks[i].panics = c, panics
		checks[i].gap = c.gaps[checks[i].name]
	}
	return checks
}

// evaluate runs a check, or makes sure that a declared gap exists.
func (c check) evaluate(r reporter, mount mount) {
	r.Helper()
	if c.gap == "" {
		c.run(&probe{reporter: r, config: c.config, mount: mount, check: c})
		return
	}
	r.Logf("declared gap: %s", c.gap)
	c.panics = map[string]string{} // they are not shown
	if len(failures(func(r reporter) { c.run(&probe{reporter: r, config: c.config, mount: mount, check: c}) })) == 0 {
		r.Errorf("%s: the mount does it, but the test declares that it cannot\nRemove the option whose reason is %q.", c.name, c.gap)
	}
}

// mount builds a site for a service and returns the function that serves it.
type mount = func(personal.Service) (serve func(net.Listener) error)

// reporter is what the checks need of [testing.T].
type reporter interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Cleanup(func())
}

// probe runs one check on a mount.
type probe struct {
	reporter
	*config
	mount mount
	check check
}
