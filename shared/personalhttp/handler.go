// Package personalhttp connects a content management system to its personal-account
// module: an [http.Handler] serves {base_url}/api/v1/personal/ with any
// [personal.Service], as the HTTP contract describes, and [Handler.RequireUser]
// protects the host's own routes.
//
// The handler matches paths itself, with and without their final slash, and never
// redirects, because a redirected POST loses its body. Routers such as
// [http.ServeMux] redirect before a handler sees the request: call
// [Handler.Matches] first, and pass only the other requests to the router.
//
// The handler serves its own description, openapi.yaml completed with the host's
// user fields and options, as openapi.json. [Handler.Document] returns it for pages.
//
// This package decodes requests, calls the service and encodes responses. Only this
// package knows HTTP, and what the operations do is decided by the service alone.
package personalhttp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"
	"unicode"

	"go.opentelemetry.io/otel/trace"

	"github.com/cms-personal/personal/shared/localtext"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp/internal/clientip"
	"github.com/cms-personal/personal/shared/tracing"
)

// apiPath is the path of the API under the host's base path.
const apiPath = "/api/v1/personal"

const headerRequestID = "X-Request-Id"

// The limits of texts that callers send and that logs and sessions store.
const (
	maxRequestID = 64  // bytes
	maxAgent     = 255 // characters
)

// Handler serves the personal-account API. It is safe for concurrent use.
type Handler struct {
	service  personal.Service
	options  Options           // with defaults
	prefix   string            // base path and apiPath, without a final slash
	routes   map[string]*route // by name
	document func() (*document, error)
	locales  *locales
	clients  *clientip.Resolver
	cors     cors
	origins  *http.CrossOriginProtection
	secure   *url.URL        // of the site; nil unless it is https
	tracer   trace.Tracer    // nil: none
	ended    context.Context // one that has ended
}

// New returns the handler for a service. The error names every invalid option.
func New(service personal.Service, o Options) (*Handler, error) {
	if service == nil {
		return nil, errors.New("personalhttp: no service")
	}
	o = o.withDefaults()
	locales, missing, errLocale := newLocales(o)
	clients, errProxies := clientip.New(o.TrustedProxies, o.ForwardedHeader, o.Log)
	if err := errors.Join(o.check(), errLocale, errProxies); err != nil {
		return nil, fmt.Errorf("personalhttp: options: %w", err)
	}
	origins, err := newOrigins(o)
	if err != nil {
		return nil, fmt.Errorf("personalhttp: options: %w", err)
	}
	localtext.LogMissing(o.Log, "messages of the API", missing)
	h := &Handler{
		service: service,
		options: o,
		prefix:  o.BasePath + apiPath,
		routes:  newRoutes(),
		locales: locales,
		clients: clients,
		cors:    newCORS(o.CORSOrigins),
		origins: origins,
	}
	if site, _ := url.Parse(o.URL); site.Scheme == "https" {
		h.secure = site
	}
	var end context.CancelFunc
	h.ended, end = context.WithCancel(context.Background())
	end()
	if o.TracerProvider != nil {
		h.tracer = o.TracerProvider.Tracer(tracing.Scope)
	}
	h.document = sync.OnceValues(func() (*document, error) { return newDocument(h.prefix, h.cors, o) })
	return h, nil
}

// UntrustedProxy reports whether a request has come from a private address with
// X-Forwarded-For or Forwarded while [Options.TrustedProxies] is empty. If the sender
// is a proxy, all its clients share its address in sessions and events; limits per
// address are ten times as wide for such requests. The log names the first sender.
func (h *Handler) UntrustedProxy() bool { return h.clients.UntrustedProxy() }

// OverHTTPS reports whether the visitor uses HTTPS: the site's URL is https (see
// [Options.URL]), TLS terminates here, or a trusted proxy (see [Options.TrustedProxies])
// sends X-Forwarded-Proto: https or the proto parameter of Forwarded. Each of the
// two headers that is present must have exactly one value: of several values the
// first may come from a client. Headers of other senders are ignored.
//
// It decides about every cookie and link of pages, and about Strict-Transport-Security.
// The API is the same over both schemes.
func (h *Handler) OverHTTPS(r *http.Request) bool {
	return h.options.AlwaysHTTPS || h.secure != nil || h.clients.OverHTTPS(r)
}

// SecureURL returns the address of a page at the site's URL if that is https and the visitor has
// requested the page over plain HTTP, else "". It is plain HTTP if a trusted proxy sends http in
// the headers of [Handler.OverHTTPS], or if the request comes from no proxy and not from this
// machine (see [Handler.FromLoopback]), without TLS. A missing header proves nothing: behind a
// proxy that does not send the scheme, or is not trusted, it is "", as with [Options.AlwaysHTTPS].
//
// A proxy that adds no header at all cannot be distinguished from a visitor. Redirect a
// browser there only once, as personalweb.Guard does.
func (h *Handler) SecureURL(r *http.Request) string {
	if h.secure == nil || h.options.AlwaysHTTPS || !h.clients.OverHTTP(r) {
		return ""
	}
	page := url.URL{Scheme: "https", Host: h.secure.Host, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
	return page.String()
}

// RefusePlain returns the decision that refuses a request over plain HTTP: 403 refused, with a
// message that names the address of [Handler.SecureURL].
func (h *Handler) RefusePlain(to string) error {
	message := personal.LocalText{}
	for locale, t := range h.locales.texts {
		message[locale] = t["refused.plain_http"] + " " + to
	}
	return personal.Refuse(message)
}

// FromLoopback reports whether the client is on this machine. A request with a header of a
// proxy, such as X-Forwarded-For or X-Real-IP, counts only if its sender is a trusted proxy
// (see [Options.TrustedProxies]) that names a loopback address as the client. A proxy that
// sends no such header cannot be distinguished from a local client.
func (h *Handler) FromLoopback(r *http.Request) bool { return h.clients.FromLoopback(r) }

// Matches reports whether the request's path is under the handler's prefix. Call it
// before any router that cleans paths, and pass matching requests to ServeHTTP, which
// responds to invalid paths with an envelope as well.
func (h *Handler) Matches(r *http.Request) bool {
	rest, ok := strings.CutPrefix(r.URL.Path, h.prefix)
	return ok && (rest == "" || rest[0] == '/')
}

// ServeHTTP responds to every request with the envelope of the HTTP contract,
// section 2, including paths outside the prefix. The exceptions are openapi.json and
// CORS preflights, which have no body.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	started := time.Now()
	route := h.findRoute(r.URL)
	ctx, span := h.startSpan(r, route)
	if span != nil {
		defer func() { span.End() }() // deferred directly, an End of the SDK would record the text of a panic
	}
	r = h.withCall(ctx, w, r)
	allowed := h.cors.allow(w, r)
	if allowed && route != nil && isPreflight(r) {
		writePreflight(w, route)
		h.logRequest(r, route, http.StatusNoContent, "", started)
		return
	}
	data, err := h.handle(w, r, route)
	status, code := h.write(w, r, h.requestSuccess(r, route), data, err)
	h.logRequest(r, route, status, code, started)
}

// setSecurityHeaders sets the headers of every response, preflights included: it is
// not cached, its type is not guessed, and a browser that shows it as a page loads
// nothing and shows it in no frame.
func setSecurityHeaders(header http.Header) {
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	header.Set("X-Content-Type-Options", "nosniff")
}

// findRoute returns the route of a path, or nil. Paths are compared exactly: one with
// an unusual encoding has no route.
func (h *Handler) findRoute(u *url.URL) *route {
	name, ok := strings.CutPrefix(u.Path, h.prefix+"/")
	if !ok || u.RawPath != "" {
		return nil
	}
	return h.routes[strings.TrimSuffix(name, "/")]
}

// handle returns the data of a successful response. It checks for the errors of HTTP
// itself in the order of the contract: 404, 405, 403 cross_origin, 415, 413, 400. The
// service checks for all others.
func (h *Handler) handle(w http.ResponseWriter, r *http.Request, route *route) (data any, err error) {
	defer recoverPanic(&err)
	release := h.limitReading(w, r)
	if route == nil {
		return nil, personal.NewError(personal.CodeNotFound, nil)
	}
	call, ok := route.operations[r.Method]
	if !ok {
		w.Header().Set("Allow", route.allow)
		return nil, personal.NewError(personal.CodeMethodNotAllowed, nil)
	}
	if err := h.origins.Check(r); err != nil {
		return nil, personal.NewError(personal.CodeCrossOrigin, err)
	}
	params, body, err := readParams(w, r)
	if err != nil {
		return nil, err
	}
	release()
	transient, err := params.takeTexts(h.options.Transient)
	if !route.judged { // other operations ignore them
		transient, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), h.options.Timeout)
	defer cancel()
	if len(transient) > 0 {
		ctx = personal.WithTransient(ctx, transient)
	}
	credentials, _ := FromHeaders(r) // the service rejects the zero pair, after other checks
	return call(ctx, h.service, &input{
		credentials: credentials,
		params:      params,
		body:        body,
		labels:      h.locales.labels(r),
		document:    h.document,
	})
}

// Front serves the API and passes all other requests to next; nil responds to them with
// 404. It belongs in front of a router, because routers may redirect requests: a
// [http.ServeMux], for example, redirects paths such as // and .., and clients turn a
// redirected POST into a GET.
func (h *Handler) Front(next http.Handler) http.Handler {
	if next == nil {
		next = http.NotFoundHandler()
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.Matches(r) {
			h.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// WithCall gives the host's own routes the same call as the API's: a [personal.Call]
// in the request's context, and its request id in the response header X-Request-Id.
// It keeps a call that the context already has. With [Options.TracerProvider], the
// context also has a span, named by the route if next is an [http.ServeMux] or a handler
// of one.
func (h *Handler) WithCall(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := h.startPage(w, r)
		defer p.end()
		p.serve(next)
	})
}

// withCall is the one place where a request's Call is made. It gives the request a
// context with its span, unless that is nil.
func (h *Handler) withCall(ctx context.Context, w http.ResponseWriter, r *http.Request) *http.Request {
	changed := ctx != nil
	if !changed {
		ctx = r.Context()
	}
	c := personal.CallFrom(ctx)
	if c.RequestID == "" {
		address, shared := h.clients.Client(r)
		language := h.locales.choose(r)
		c = personal.Call{
			RequestID: requestID(r),
			Locale:    language.locale,
			Languages: language.languages,
			Address:   address,
			Shared:    shared,
			Agent:     cleanAgent(r.UserAgent()),
		}
		ctx, changed = personal.WithCall(ctx, c), true
	}
	w.Header().Set(headerRequestID, c.RequestID)
	if changed { // a copy of the request is costly
		r = r.WithContext(ctx)
	}
	return r
}

// requestID returns the caller's id if it is valid, or a new one.
func requestID(r *http.Request) string {
	ids := r.Header.Values(headerRequestID)
	if len(ids) == 1 && ids[0] != "" && len(ids[0]) <= maxRequestID && strings.IndexFunc(ids[0], notInRequestID) < 0 {
		return ids[0]
	}
	return rand.Text()
}

func notInRequestID(r rune) bool { return !isAlphanumeric(r) && !strings.ContainsRune("._-", r) }

// cleanAgent returns a User-Agent as a list of sessions may show it: without control
// characters and invalid UTF-8, at most maxAgent characters.
func cleanAgent(agent string) string {
	if len(agent) <= maxAgent && strings.IndexFunc(agent, notPrintableASCII) < 0 {
		return agent // as almost all are
	}
	var b strings.Builder
	kept := 0
	for i, r := range agent {
		if kept == maxAgent {
			break
		}
		if unicode.IsControl(r) || r == unicode.ReplacementChar && !strings.HasPrefix(agent[i:], "\uFFFD") {
			continue
		}
		b.WriteRune(r)
		kept++
	}
	return b.String()
}

func notPrintableASCII(r rune) bool { return r < ' ' || r > '~' }

// logFailure logs the cause of an error of the server. The codes of all other errors
// are in the access log.
func (h *Handler) logFailure(r *http.Request, e *personal.Error) {
	level := slog.LevelError
	switch {
	case e.Code == personal.CodeUnavailable && errors.Is(r.Context().Err(), context.Canceled):
		level = slog.LevelDebug // the caller hung up
	case e.Code == personal.CodeUnavailable:
		level = slog.LevelWarn
	case e.Code != personal.CodeInternal:
		return
	}
	attrs := []slog.Attr{
		slog.String("request_id", personal.CallFrom(r.Context()).RequestID),
		slog.String("error", e.Error()),
	}
	if p, ok := errors.AsType[*panicError](e); ok {
		attrs = append(attrs, slog.String("panic", p.text()))
	}
	var stacked interface{ Stack() []byte } // a panic here, or of an admission's Judge
	if errors.As(e, &stacked) {
		attrs = append(attrs, slog.String("stack", string(stacked.Stack())))
	}
	h.options.Log.LogAttrs(r.Context(), level, "personal-account request failed", attrs...)
}

// logRequest writes the access log's line of a request and calls Observe. The line has
// the route instead of the path. The request id, which is clean, is its only value
// that the caller chose.
func (h *Handler) logRequest(r *http.Request, route *route, status int, code personal.Code, started time.Time) {
	o := Observation{Status: status, Code: code, Took: time.Since(started)}
	if route != nil {
		o.Operation = route.name
	}
	pattern := h.pattern(route)
	annotate(r.Context(), r.Method, pattern, status, code)
	h.options.Observe(o)
	attrs := []slog.Attr{
		slog.String("request_id", personal.CallFrom(r.Context()).RequestID),
		slog.String("method", knownMethod(r.Method)),
		slog.String("route", pattern),
		slog.Int("status", status),
		slog.String("code", string(code)),
		slog.Duration("duration", o.Took),
	}
	if code == personal.CodeCrossOrigin {
		attrs = append(attrs, slog.String("hint", CrossOriginHint))
	}
	h.options.Log.LogAttrs(r.Context(), slog.LevelInfo, "personal-account request", attrs...)
}

// pattern returns the path of a route, or "" for nil.
func (h *Handler) pattern(route *route) string {
	if route == nil {
		return ""
	}
	return h.prefix + route.path()
}

// knownMethod returns "other" for a method that HTTP does not define, because callers
// can choose any text.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return method
	}
	return "other"
}

// panicError is the cause of an internal error that was a panic.
type panicError struct {
	value any
	stack []byte
}

func (p *panicError) Error() string { return "panic" }

// Stack returns the stack of the panic.
func (p *panicError) Stack() []byte { return p.stack }

// text describes the panic without secrets: except for runtime errors only the type
// is shown, because the value may contain a library's input.
func (p *panicError) text() string {
	if err, ok := p.value.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("%T", p.value)
}

// recoverPanic is deferred and turns a panic into an internal error. It repeats the
// panic of [http.ErrAbortHandler], with which a handler closes a connection.
func recoverPanic(err *error) {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler {
		panic(v)
	}
	*err = personal.NewError(personal.CodeInternal, &panicError{value: v, stack: debug.Stack()})
}
