package personalhttp

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// The headers that identify a session.
const (
	headerUserID   = "User-Id"
	headerUserHash = "User-Hash"
)

// maxUserID is the largest integer that every JSON reader represents exactly.
const maxUserID = 1<<53 - 1

// hashLength is the length of 32 bytes in unpadded base64url.
const hashLength = 43

// User is the user of a request. Requests may share the values behind its pointers,
// slices and maps: they must not be modified.
type User struct {
	ID      int64 // 1 … 2^53−1
	Profile personal.Profile
}

type userKey struct{}

// UserFrom returns the user of a request that passed [Handler.RequireUser] or
// [Handler.OptionalUser], or false. An [ErrorHandler] gets the user as well if there is one:
// who may not see the page, but is signed in.
func UserFrom(ctx context.Context) (User, bool) {
	u, ok := ctx.Value(userKey{}).(User)
	return u, ok
}

// Extractor returns the credentials of a request, or false if it has none.
type Extractor func(*http.Request) (personal.Credentials, bool)

// ErrorHandler responds to a request that RequireUser or OptionalUser rejects. Pass the
// error to [Handler.ErrorResponse] to get the status and the message.
type ErrorHandler func(w http.ResponseWriter, r *http.Request, err error)

// RequireOption changes how [Handler.RequireUser] and [Handler.OptionalUser] work.
type RequireOption func(*requireOptions)

type requireOptions struct {
	extract  Extractor
	reject   ErrorHandler
	verified bool
	complete bool
	demands  []func(context.Context, *Handler, User) error
}

// WithExtractor takes the credentials from elsewhere than [FromHeaders] does, for
// example from a cookie. A host that uses cookies must itself prevent cross-site
// request forgery.
func WithExtractor(e Extractor) RequireOption {
	return func(o *requireOptions) { o.extract = e }
}

// WithErrorHandler responds to rejected requests in another way than with the
// envelope, for example with a page.
func WithErrorHandler(reject ErrorHandler) RequireOption {
	return func(o *requireOptions) { o.reject = reject }
}

// VerifiedEmail also rejects users whose e-mail is not confirmed, with 403
// email_unverified.
func VerifiedEmail() RequireOption {
	return func(o *requireOptions) { o.verified = true }
}

// Complete also rejects users of whom the site needs more user fields ([personal.Profile].Missing
// is not empty), with 403 profile_incomplete. The pages with which they fill them in must do
// without it.
func Complete() RequireOption {
	return func(o *requireOptions) { o.complete = true }
}

// Demand also rejects users for whom demand returns an error, with that error. Demands are
// made after those of [VerifiedEmail] and [Complete], in the order of the options. The handler
// is that of RequireUser, whose [Handler.Options] have the user fields in force, for example.
func Demand(demand func(ctx context.Context, h *Handler, u User) error) RequireOption {
	return func(o *requireOptions) { o.demands = append(o.demands, demand) }
}

// RequireUser passes requests of authenticated users to next, which gets the user
// from [UserFrom]. Other requests get the envelope, or the response of
// [WithErrorHandler]: 401 unauthenticated, or the service's error, such as 503.
//
// It verifies each request by the service's Profile, in a context of
// [personal.AllowRemembered]: rpc.Client then relies on a remembered profile for
// the time of the setting session.verify_cache. A session that is revoked through the same
// client ends with the next request. A service that wraps the client keeps that as long as
// it passes the context on, and its own Profile, which may refuse users, is called for each
// request.
//
// The request's context has a [personal.Call] and a span as with [Handler.WithCall]. The
// call may take as long as [Options].Timeout, which does not bound next.
func (h *Handler) RequireUser(next http.Handler, options ...RequireOption) http.Handler {
	return h.withUser(next, false, options)
}

// OptionalUser passes requests with and without a user to next, for pages that greet a user
// and are public otherwise. It verifies requests as RequireUser does, with the same memory:
// next gets the user from [UserFrom], or is called without one if the request has no valid
// session. Other errors are rejected, with the envelope or by [WithErrorHandler]: while the
// service is unavailable it is unknown whether there is a user. The options [VerifiedEmail]
// and [Complete] reject users as usual, and no visitors without a session.
//
// The page differs by user, so no cache may store it: next sends Cache-Control: no-store,
// for example.
func (h *Handler) OptionalUser(next http.Handler, options ...RequireOption) http.Handler {
	return h.withUser(next, true, options)
}

func (h *Handler) withUser(next http.Handler, optional bool, options []RequireOption) http.Handler {
	o := requireOptions{
		extract: FromHeaders,
		reject:  func(w http.ResponseWriter, r *http.Request, err error) { h.write(w, r, "", nil, err) },
	}
	for _, option := range options {
		option(&o)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := h.startPage(w, r)
		defer p.end()
		user, err := h.verify(p.r, o.extract)
		switch {
		case err == nil:
			p.r = p.r.WithContext(context.WithValue(p.r.Context(), userKey{}, user))
			err = o.demand(p.r.Context(), h, user)
		case optional && personal.CodeOf(err) == personal.CodeUnauthenticated:
			err = nil
		}
		if err != nil {
			p.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { o.reject(w, r, err) }))
			return
		}
		p.serve(next)
	})
}

// demand returns an error for a user who may not see the page.
func (o *requireOptions) demand(ctx context.Context, h *Handler, u User) error {
	switch {
	case o.verified && !u.Profile.EmailVerified:
		return personal.NewError(personal.CodeEmailUnverified, nil)
	case o.complete && len(u.Profile.Missing) > 0:
		return personal.NewError(personal.CodeProfileIncomplete, nil)
	}
	for _, demand := range o.demands {
		if err := demand(ctx, h, u); err != nil {
			return err
		}
	}
	return nil
}

func (h *Handler) verify(r *http.Request, extract Extractor) (user User, err error) {
	defer recoverPanic(&err)
	c, ok := extract(r)
	if !ok || !wellFormed(c) {
		return User{}, personal.NewError(personal.CodeUnauthenticated, nil)
	}
	ctx := &lazyDeadline{Context: r.Context(), ended: h.ended, deadline: time.Now().Add(h.options.Timeout)}
	defer ctx.release()
	p, err := h.service.Profile(personal.AllowRemembered(ctx), c)
	if err != nil {
		return User{}, err
	}
	return User{ID: c.UserID, Profile: p}, nil
}

// lazyDeadline is a context with a deadline whose timer is made when it is first asked
// whether the context is done. Without that it is cheap.
type lazyDeadline struct {
	context.Context // which it is derived from
	deadline        time.Time
	ended           context.Context // what it is after release, if it has no timer

	once   sync.Once
	timed  context.Context
	cancel context.CancelFunc
}

func (c *lazyDeadline) start() context.Context {
	c.once.Do(func() { c.timed, c.cancel = context.WithDeadline(c.Context, c.deadline) })
	return c.timed
}

// Deadline implements [context.Context].
func (c *lazyDeadline) Deadline() (time.Time, bool) {
	if d, ok := c.Context.Deadline(); ok && d.Before(c.deadline) {
		return d, true
	}
	return c.deadline, true
}

// Done implements [context.Context].
func (c *lazyDeadline) Done() <-chan struct{} { return c.start().Done() }

// Err implements [context.Context].
func (c *lazyDeadline) Err() error { return c.start().Err() }

// release ends the context, and stops the timer if there is one.
func (c *lazyDeadline) release() {
	c.once.Do(func() { c.timed, c.cancel = c.ended, func() {} })
	c.cancel()
}

// FromHeaders is the [Extractor] of the API: it returns User-Id and User-Hash if each
// is sent once and well formed.
func FromHeaders(r *http.Request) (personal.Credentials, bool) {
	ids, hashes := r.Header.Values(headerUserID), r.Header.Values(headerUserHash)
	if len(ids) != 1 || len(hashes) != 1 {
		return personal.Credentials{}, false
	}
	id, _ := ParseUserID(ids[0])
	c := personal.Credentials{UserID: id, UserHash: hashes[0]}
	if !wellFormed(c) {
		return personal.Credentials{}, false
	}
	return c, true
}

// ParseUserID parses a user id from 1 to 2^53−1 in canonical decimal: digits only,
// without a leading zero.
func ParseUserID(s string) (int64, bool) {
	if s == "" || s[0] < '1' || s[0] > '9' { // ParseInt admits signs and leading zeros
		return 0, false
	}
	id, err := strconv.ParseInt(s, 10, 64)
	if err != nil || id > maxUserID {
		return 0, false
	}
	return id, true
}

// wellFormed reports whether the pair has the form of credentials. The service never
// sees any other pair.
func wellFormed(c personal.Credentials) bool {
	return 0 < c.UserID && c.UserID <= maxUserID &&
		len(c.UserHash) == hashLength && strings.IndexFunc(c.UserHash, notBase64URL) < 0
}

func notBase64URL(r rune) bool { return !isAlphanumeric(r) && r != '-' && r != '_' }

func isAlphanumeric(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
}
