package personalhttp

import (
	"crypto/rand"
	"net/http"
	"strings"
	"unicode"

	"github.com/cms-personal/personal/shared/personal"
)

const headerRequestID = "X-Request-Id"

// The bounds of what callers may have written into logs and sessions.
const (
	maxRequestID = 64  // bytes
	maxAgent     = 255 // characters
)

// WithCall gives the host's own routes what the API's have: a [personal.Call]
// in the request's context, and its request id as X-Request-Id on the answer.
// A call that is already there is kept.
func (h *Handler) WithCall(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, h.withCall(w, r))
	})
}

// withCall is the one place where a request's Call is made.
func (h *Handler) withCall(w http.ResponseWriter, r *http.Request) *http.Request {
	c := personal.CallFrom(r.Context())
	if c.RequestID == "" {
		address, shared := h.clients.Client(r)
		c = personal.Call{
			RequestID: requestID(r),
			Locale:    h.locales.choose(r),
			Address:   address,
			Shared:    shared,
			Agent:     cleanAgent(r.UserAgent()),
		}
		r = r.WithContext(personal.WithCall(r.Context(), c))
	}
	w.Header().Set(headerRequestID, c.RequestID)
	return r
}

// requestID returns the caller's id if it is short and clean, else a new one.
func requestID(r *http.Request) string {
	ids := r.Header.Values(headerRequestID)
	if len(ids) == 1 && ids[0] != "" && len(ids[0]) <= maxRequestID && strings.IndexFunc(ids[0], notInRequestID) < 0 {
		return ids[0]
	}
	return rand.Text()
}

func notInRequestID(r rune) bool { return !isAlphanumeric(r) && !strings.ContainsRune("._-", r) }

// cleanAgent cuts a User-Agent to what may be shown in a list of sessions.
func cleanAgent(agent string) string {
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
