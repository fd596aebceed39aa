package personalhttp

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/tracing"
)

// startSpan begins the span of a request to the API: below the one of the host's own
// middleware, or as the first one of this process. It returns nil twice if there is none.
func (h *Handler) startSpan(r *http.Request, route *route) (context.Context, trace.Span) {
	ctx := r.Context()
	outer := trace.SpanFromContext(ctx)
	switch {
	case outer.IsRecording():
		return tracing.Start(ctx, h.spanName(r, route), trace.SpanKindInternal)
	case h.tracer == nil || isLocal(outer):
		return nil, nil
	}
	return h.tracer.Start(h.joined(r), h.spanName(r, route), trace.WithSpanKind(trace.SpanKindServer))
}

func (h *Handler) spanName(r *http.Request, route *route) string {
	return spanName(r.Method, h.pattern(route))
}

// isLocal reports whether a span was started in this process, even if it is not recorded.
func isLocal(span trace.Span) bool {
	c := span.SpanContext()
	return c.IsValid() && !c.IsRemote()
}

// joined returns the request's context, in the trace that a trusted proxy sent. A trace
// that the host's own middleware has joined takes precedence. Anyone else could choose
// what is sampled, and mix their requests into the traces of others.
func (h *Handler) joined(r *http.Request) context.Context {
	ctx := r.Context()
	parents := r.Header.Values(tracing.ParentKey)
	if len(parents) != 1 || trace.SpanContextFromContext(ctx).IsValid() || !h.clients.FromTrustedProxy(r) {
		return ctx
	}
	return tracing.Context{Parent: parents[0], State: strings.Join(r.Header.Values(tracing.StateKey), ",")}.Join(ctx)
}

// spanName returns the name of a request's span: its method and the pattern of its
// route, which may be empty or begin with the method.
func spanName(method, pattern string) string {
	switch {
	case pattern == "":
		return knownMethod(method)
	case strings.Contains(pattern, " "):
		return pattern
	}
	return knownMethod(method) + " " + pattern
}

// annotate sets the attributes of a request's span, if it is recorded. Status 0 means
// that there was no response.
func annotate(ctx context.Context, method, pattern string, status int, code personal.Code) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	_, path, found := strings.Cut(pattern, " ")
	if !found {
		path = pattern
	}
	span.SetAttributes(attribute.String("http.request.method", knownMethod(method)))
	if status != 0 {
		span.SetAttributes(attribute.Int("http.response.status_code", status))
	}
	if path != "" {
		span.SetAttributes(attribute.String("http.route", path))
	}
	if code != "" {
		span.SetAttributes(attribute.String("personal.code", string(code)))
	}
	if status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, "")
	}
}

// page is a request to one of the host's own pages. Its span is nil if there is none, or
// if it belongs to the host's own middleware.
type page struct {
	w      http.ResponseWriter
	r      *http.Request // the one that the host's handler gets: a ServeMux notes the pattern in it
	span   trace.Span
	status *statusWriter // nil unless the span is recorded
	served bool
}

// startPage begins the span of a request and gives it a call.
func (h *Handler) startPage(w http.ResponseWriter, r *http.Request) page {
	p := page{w: w}
	var ctx context.Context
	if h.tracer != nil && !isLocal(trace.SpanFromContext(r.Context())) {
		ctx, p.span = h.tracer.Start(h.joined(r), spanName(r.Method, r.Pattern), trace.WithSpanKind(trace.SpanKindServer))
		if p.span.IsRecording() {
			p.status = &statusWriter{ResponseWriter: w}
			p.w = p.status
		}
	}
	p.r = h.withCall(ctx, p.w, r)
	if c := personal.CallFrom(p.r.Context()); IsPoll(r) && !c.Poll {
		c.Poll = true
		p.r = p.r.WithContext(personal.WithCall(p.r.Context(), c))
	}
	return p
}

// IsPoll reports whether the script of an open page sends a request to keep the page up to date, and
// not a person: a GET with the header Personal-Poll: true. Sessions that end without use do not
// count it as one.
func IsPoll(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Personal-Poll") == "true"
}

// serve passes the request on.
func (p *page) serve(next http.Handler) {
	next.ServeHTTP(p.w, p.r)
	p.served = true
}

// end ends the span. It is deferred: a handler may panic, and the connection is then cut.
func (p *page) end() {
	if p.span == nil {
		return
	}
	if p.status != nil {
		switch {
		case !p.served:
			p.span.SetStatus(codes.Error, "")
		case p.status.status == 0:
			p.status.status = http.StatusOK // the server's default
		}
		p.span.SetName(spanName(p.r.Method, p.r.Pattern))
		annotate(p.r.Context(), p.r.Method, p.r.Pattern, p.status.status, "")
	}
	p.span.End()
}

// statusWriter remembers the status of a response. It has the methods that handlers look
// for in the server's own writer, because few handlers use [http.ResponseController].
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader remembers the status and sends it.
func (w *statusWriter) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols { // others precede the response
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Flush implements [http.Flusher].
func (w *statusWriter) Flush() { _ = w.FlushError() }

// FlushError is what [http.ResponseController] prefers to Flush.
func (w *statusWriter) FlushError() error {
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Hijack implements [http.Hijacker].
func (w *statusWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

// ReadFrom implements [io.ReaderFrom], by which the server sends files.
func (w *statusWriter) ReadFrom(r io.Reader) (int64, error) { return io.Copy(w.ResponseWriter, r) }

// Unwrap lets [http.ResponseController] find the underlying writer.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
