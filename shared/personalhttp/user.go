package personalhttp

import (
	"context"
	"net/http"

	"github.com/cms-personal/personal/shared/personal"
)

// User is who is signed in.
type User struct {
	ID      int64 // 1 … 2^53−1
	Profile personal.Profile
}

type userKey struct{}

// UserFrom returns the user that [Handler.RequireUser] found; false outside of
// it.
func UserFrom(ctx context.Context) (User, bool) {
	u, ok := ctx.Value(userKey{}).(User)
	return u, ok
}

// Extractor takes the identity from a request; false if there is none.
type Extractor func(*http.Request) (personal.Credentials, bool)

// RequireOption changes how [Handler.RequireUser] works.
type RequireOption func(*guard)

// WithExtractor takes the identity from elsewhere than [FromHeaders], from a
// cookie say. A host that uses cookies guards against forged requests itself.
func WithExtractor(e Extractor) RequireOption {
	return func(g *guard) { g.extract = e }
}

// ErrorHandler answers a request that RequireUser does not let through; the error is
// for [Handler.Explain].
type ErrorHandler func(w http.ResponseWriter, r *http.Request, err error)

// WithErrorHandler answers otherwise than by the envelope, by a page say.
func WithErrorHandler(refuse ErrorHandler) RequireOption {
	return func(g *guard) { g.refuse = refuse }
}

// guard is the middleware of RequireUser.
type guard struct {
	handler *Handler
	extract Extractor
	refuse  ErrorHandler
	next    http.Handler
}

// RequireUser lets only signed-in users through to next, which finds them by
// [UserFrom]. Each request is verified with the service, so that a revoked
// session ends at once. All others get the envelope, or what [WithErrorHandler] makes
// of it: 401 unauthenticated, or whatever else the service answers, 503 say. The request carries a
// [personal.Call] as by [Handler.WithCall]. The verification may take as long as
// [Options].Timeout; next is not bound by that.
func (h *Handler) RequireUser(next http.Handler, options ...RequireOption) http.Handler {
	g := &guard{handler: h, extract: FromHeaders, refuse: h.refuse, next: next}
	for _, option := range options {
		option(g)
	}
	return g
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = g.handler.withCall(w, r)
	user, err := g.verify(r)
	if err != nil {
		g.refuse(w, r, err)
		return
	}
	g.next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, user)))
}

// refuse is the refusal of the API itself.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	h.write(w, r, answer{err: err})
}

func (g *guard) verify(r *http.Request) (user User, err error) {
	defer recovered(&err)
	c, ok := g.extract(r)
	if !ok || !wellFormed(c) {
		return User{}, personal.NewError(personal.CodeUnauthenticated, nil)
	}
	ctx, cancel := context.WithTimeout(r.Context(), g.handler.timeout)
	defer cancel()
	p, err := g.handler.service.Profile(ctx, c)
	if err != nil {
		return User{}, err
	}
	return User{ID: c.UserID, Profile: p}, nil
}
