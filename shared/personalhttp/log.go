package personalhttp

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// logFailure writes the cause of what is nobody's fault but ours. Everything
// else is in the access line, by its code.
func (h *Handler) logFailure(r *http.Request, e *personal.Error) {
	level := slog.LevelError
	switch {
	case e.Code == personal.CodeUnavailable && r.Context().Err() != nil:
		level = slog.LevelDebug // the caller went away
	case e.Code == personal.CodeUnavailable:
		level = slog.LevelWarn
	case e.Code != personal.CodeInternal:
		return
	}
	attrs := []slog.Attr{
		slog.String("request_id", personal.CallFrom(r.Context()).RequestID),
		slog.String("error", e.Error()),
	}
	var p *panicked
	if errors.As(e, &p) {
		attrs = append(attrs, slog.String("panic", p.text()), slog.String("stack", string(p.stack)))
	}
	h.log.LogAttrs(r.Context(), level, "personal-account request failed", attrs...)
}

// account writes one line per request, and tells the observer. The line names the
// route, not the path, and no other value of the caller's but the request id,
// which is clean.
func (h *Handler) account(r *http.Request, route *route, status int, code personal.Code, began time.Time) {
	o := Observation{Status: status, Code: code, Took: time.Since(began)}
	pattern := ""
	if route != nil {
		o.Operation = route.name
		pattern = h.prefix + route.path()
	}
	h.observe(o)
	h.log.LogAttrs(r.Context(), slog.LevelInfo, "personal-account request",
		slog.String("request_id", personal.CallFrom(r.Context()).RequestID),
		slog.String("method", knownMethod(r.Method)),
		slog.String("route", pattern),
		slog.Int("status", status),
		slog.String("code", string(code)),
		slog.Duration("duration", o.Took))
}

// knownMethod keeps methods that callers made up out of the log.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return method
	}
	return "other"
}
