package personalhttp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp/clientip"
)

// apiPath is where the routes live under the host's base path.
const apiPath = "/api/v1/personal"

// Handler serves the personal-account API. It is safe for concurrent use.
type Handler struct {
	service  personal.Service
	prefix   string // base path and apiPath, without a final slash
	routes   []*route
	document func() (*document, error)
	locales  *locales
	clients  *clientip.Resolver
	cors     cors
	alwaysOK bool
	timeout  time.Duration
	log      *slog.Logger
	observe  func(Observation)
}

// New returns the handler for a service, or an error that names every option
// that cannot work.
func New(service personal.Service, o Options) (*Handler, error) {
	if service == nil {
		return nil, errors.New("personalhttp: no service")
	}
	o, err := o.withDefaults()
	locales, errLocale := newLocales(o.DefaultLocale)
	clients, errProxies := clientip.New(o.TrustedProxies, o.ForwardedHeader, o.Log)
	if err := errors.Join(err, errLocale, errProxies); err != nil {
		return nil, errors.Join(errors.New("personalhttp: options"), err)
	}
	h := &Handler{
		service:  service,
		prefix:   o.BasePath + apiPath,
		routes:   newRoutes(),
		locales:  locales,
		clients:  clients,
		cors:     newCORS(o.CORSOrigins),
		alwaysOK: o.AlwaysOK,
		timeout:  o.Timeout,
		log:      o.Log,
		observe:  o.Observe,
	}
	h.document = sync.OnceValues(func() (*document, error) { return newDocument(h.prefix, h.cors.origins(), h.alwaysOK) })
	return h, nil
}

// UntrustedProxy reports whether a request has come from a private sender with
// X-Forwarded-For or Forwarded while [Options.TrustedProxies] is empty. If that is
// a proxy, all clients share its address in sessions and events; limits per
// address are ten times as wide for such requests. The log names the first sender.
func (h *Handler) UntrustedProxy() bool { return h.clients.UntrustedProxy() }

// Matches reports whether the request's path is under the handler's prefix. A
// host asks before any router that cleans paths, and then calls ServeHTTP:
// whatever is wrong with such a path is answered by the handler's envelope.
func (h *Handler) Matches(r *http.Request) bool {
	rest, ok := strings.CutPrefix(r.URL.Path, h.prefix)
	return ok && (rest == "" || rest[0] == '/')
}

// ServeHTTP answers every request with the envelope of the HTTP contract,
// section 2, paths outside the prefix included; only openapi.json is answered by
// itself, and a CORS preflight has no body.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	r = h.withCall(w, r)
	route := h.find(r.URL)
	origin := h.cors.allow(w, r)
	if origin && route != nil && isPreflight(r) {
		h.cors.preflight(w, route)
		h.account(r, route, http.StatusNoContent, "", began)
		return
	}
	a := h.handle(w, r, route)
	status, code := h.write(w, r, a)
	h.account(r, route, status, code, began)
}

// find returns the route of a path, nil if there is none. A path that was
// written in any but its plain form has none: nothing is cleaned here.
func (h *Handler) find(u *url.URL) *route {
	name, ok := strings.CutPrefix(u.Path, h.prefix+"/")
	if !ok || u.RawPath != "" {
		return nil
	}
	return h.named(strings.TrimSuffix(name, "/"))
}

// named returns the route of a name, nil if there is none.
func (h *Handler) named(name string) *route {
	i := slices.IndexFunc(h.routes, func(r *route) bool { return r.name == name })
	if i < 0 {
		return nil
	}
	return h.routes[i]
}

// handle judges the faults that HTTP itself can have, in the contract's order:
// 404, 405, 415, 413, 400. All others are the service's.
func (h *Handler) handle(w http.ResponseWriter, r *http.Request, route *route) (a answer) {
	defer recovered(&a.err)
	release := h.limitReading(w, r)
	if route == nil {
		return failure(personal.CodeNotFound)
	}
	op, ok := route.operation(r.Method)
	if !ok {
		w.Header().Set("Allow", route.allow)
		return failure(personal.CodeMethodNotAllowed)
	}
	params, err := readParams(w, r)
	if err != nil {
		return answer{err: err}
	}
	release()
	ctx, cancel := context.WithTimeout(r.Context(), h.timeout)
	defer cancel()
	data, err := op.call(ctx, h.service, h.newInput(r, params))
	return answer{done: op.done, data: data, bare: op.bare, err: err}
}

func (h *Handler) newInput(r *http.Request, p params) *input {
	credentials, _ := FromHeaders(r) // without a readable pair the service says unauthenticated, in its turn
	return &input{
		credentials: credentials,
		params:      p,
		labels:      h.locales.labels(r),
		document:    h.document,
	}
}

// panicked is the cause of an internal error that was a panic.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return "panic" }

// text tells the panic without what may be a secret: a value that a library
// panicked with can hold its input.
func (p *panicked) text() string {
	if err, ok := p.value.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("%T", p.value)
}

// recovered, deferred, turns a panic into an internal error. The panic of
// [http.ErrAbortHandler] goes on: it is how a handler cuts a connection.
func recovered(err *error) {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler {
		panic(v)
	}
	*err = personal.NewError(personal.CodeInternal, &panicked{value: v, stack: debug.Stack()})
}
