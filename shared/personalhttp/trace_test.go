package personalhttp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/cms-personal/personal/internal/testkit/race"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personalhttp"
)

const (
	inboundTrace = "0af7651916cd43dd8448eb211c80319c"
	inbound      = "00-" + inboundTrace + "-b7ad6b7169203331-01"
)

// newSpans returns a provider that records every span, or none of the traces that begin
// here, and its recorder.
func newSpans(sampled bool) (trace.TracerProvider, *tracetest.SpanRecorder) {
	recorder := tracetest.NewSpanRecorder()
	root := sdktrace.NeverSample()
	if sampled {
		root = sdktrace.AlwaysSample()
	}
	return sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder), sdktrace.WithSampler(sdktrace.ParentBased(root))), recorder
}

// attributesOf returns the attributes of a span, by key.
func attributesOf(s sdktrace.ReadOnlySpan) map[string]string {
	all := map[string]string{}
	for _, a := range s.Attributes() {
		all[string(a.Key)] = a.Value.String()
	}
	return all
}

// wantSpan checks the only span and returns it.
func wantSpan(t *testing.T, spans *tracetest.SpanRecorder, name string, status string) sdktrace.ReadOnlySpan {
	t.Helper()
	ended := spans.Ended()
	if len(ended) != 1 {
		t.Fatalf("got %d spans, want 1", len(ended))
	}
	got := attributesOf(ended[0])
	if ended[0].Name() != name || got["http.response.status_code"] != status {
		t.Errorf("got span %q with %v, want %q with status %q", ended[0].Name(), got, name, status)
	}
	return ended[0]
}

// profileOf is a service whose Profile calls seen.
func profileOf(seen func(context.Context)) *personaltest.Service {
	return &personaltest.Service{ProfileFunc: func(ctx context.Context, _ personal.Credentials) (personal.Profile, error) {
		seen(ctx)
		return personal.Profile{Login: "anna"}, nil
	}}
}

func TestSpan_HasRouteAndStatus(t *testing.T) {
	for _, tt := range []struct{ method, path, name, status, code string }{
		{"GET", prefix + "profile", "GET " + prefix + "profile/", "404", "not_found"},
		{"GET", prefix + "anna@example.org/", "GET", "404", "not_found"},
		{"ANNA", prefix + "profile/", "other " + prefix + "profile/", "405", "method_not_allowed"},
		{"POST", prefix + "auth/?login=anna", "POST " + prefix + "auth/", "500", "internal"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			provider, spans := newSpans(true)
			service := &personaltest.Service{AuthorizeFunc: func(context.Context, personal.AuthorizeRequest) (personal.SignedIn, error) {
				panic("anna")
			}}
			s := newSite(t, service, personalhttp.Options{TracerProvider: provider, AlwaysOK: true})
			s.do(tt.method, tt.path, "", "", "User-Agent", "anna")
			span := wantSpan(t, spans, tt.name, tt.status)
			got := attributesOf(span)
			if got["personal.code"] != tt.code || span.SpanKind() != trace.SpanKindServer || span.Parent().IsValid() {
				t.Errorf("got %v, kind %s, parent %v, want code %q in a new server span", got, span.SpanKind(), span.Parent(), tt.code)
			}
			if failed := span.Status().Code == codes.Error; failed != (tt.status == "500") || span.Status().Description != "" {
				t.Errorf("got status %+v at HTTP %s", span.Status(), tt.status)
			}
			for key, value := range got {
				if strings.Contains(value, "anna") || strings.Contains(value, "ANNA") {
					t.Errorf("%s has a value of the caller: %q", key, value)
				}
			}
		})
	}
}

func TestSpan_HasNoTextOfAPanic(t *testing.T) {
	provider, spans := newSpans(true)
	h, err := personalhttp.New(noService(), personalhttp.Options{TracerProvider: provider, Log: quiet(),
		Observe: func(personalhttp.Observation) { panic("anna") }})
	if err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic is gone")
			}
		}()
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", prefix+"anna/", nil))
	}()
	if ended := spans.Ended(); len(ended) != 1 || len(ended[0].Events()) != 0 {
		t.Errorf("got spans %v, want one without events", ended)
	}
}

func TestSpan_InboundContextCountsOnlyFromTrustedProxies(t *testing.T) {
	for name, tt := range map[string]struct {
		proxies []string
		parents []string
		joined  bool
	}{
		"trusted proxy":          {proxies: []string{"127.0.0.0/8"}, parents: []string{inbound}, joined: true},
		"nothing trusted":        {parents: []string{inbound}},
		"another proxy":          {proxies: []string{"192.0.2.0/24"}, parents: []string{inbound}},
		"two values":             {proxies: []string{"127.0.0.0/8"}, parents: []string{inbound, inbound}},
		"malformed":              {proxies: []string{"127.0.0.0/8"}, parents: []string{inbound + "-x"}},
		"malformed, not trusted": {parents: []string{"x"}},
	} {
		t.Run(name, func(t *testing.T) {
			provider, spans := newSpans(true)
			var seen context.Context
			s := newSite(t, profileOf(func(ctx context.Context) { seen = ctx }),
				personalhttp.Options{TracerProvider: provider, TrustedProxies: prefixes(tt.proxies...)})
			headers := []string{"User-Id", "7", "User-Hash", hash, "Baggage", "login=anna", "Tracestate", "vendor=1", "Tracestate", "other=2"}
			for _, parent := range tt.parents {
				headers = append(headers, "Traceparent", parent)
			}
			s.do("GET", prefix+"profile/", "", "", headers...).want(t, 200, "")
			span := wantSpan(t, spans, "GET "+prefix+"profile/", "200")
			if joined := span.SpanContext().TraceID().String() == inboundTrace; joined != tt.joined || span.Parent().IsValid() != tt.joined {
				t.Errorf("got trace %s below %s, want the inbound one: %t", span.SpanContext().TraceID(), span.Parent().SpanID(), tt.joined)
			}
			state := ""
			if tt.joined {
				state = "vendor=1,other=2"
			}
			if got := span.SpanContext().TraceState().String(); got != state {
				t.Errorf("got trace state %q, want %q", got, state)
			}
			if got := trace.SpanContextFromContext(seen); !got.Equal(span.SpanContext()) {
				t.Errorf("the service got span %s, want %s", got.SpanID(), span.SpanContext().SpanID())
			}
			if n := baggage.FromContext(seen).Len(); n != 0 {
				t.Errorf("the service got %d members of baggage, want none", n)
			}
		})
	}
}

func TestSpan_OfTheHostsMiddlewareTakesPrecedence(t *testing.T) {
	own, above := newSpans(true)
	other, spans := newSpans(true)
	h, err := personalhttp.New(noService(), personalhttp.Options{
		TracerProvider: other, Log: quiet(), TrustedProxies: prefixes("192.0.2.0/24"),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, span := own.Tracer("host").Start(t.Context(), "above")
	r := httptest.NewRequestWithContext(ctx, "GET", prefix+"profile/", nil)
	r.Header.Set("Traceparent", inbound)
	h.ServeHTTP(httptest.NewRecorder(), r)
	page := h.WithCall(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if got := trace.SpanContextFromContext(r.Context()); !got.Equal(span.SpanContext()) {
			t.Errorf("the page got span %s, want %s", got.SpanID(), span.SpanContext().SpanID())
		}
	}))
	page.ServeHTTP(httptest.NewRecorder(), r)
	if n := len(spans.Ended()); n != 0 {
		t.Errorf("got %d spans of the other provider, want none", n)
	}
	below := wantSpan(t, above, "GET "+prefix+"profile/", "404")
	if below.Parent().SpanID() != span.SpanContext().SpanID() || below.SpanKind() != trace.SpanKindInternal {
		t.Errorf("got a %s span below %s, want an internal one below %s", below.SpanKind(), below.Parent().SpanID(), span.SpanContext().SpanID())
	}
}

// The host's middleware has decided against recording.
func TestSpan_UnsampledOneOfTheHostsMiddlewareTakesPrecedence(t *testing.T) {
	never, _ := newSpans(false)
	recorder := tracetest.NewSpanRecorder()
	h, err := personalhttp.New(noService(), personalhttp.Options{
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder), sdktrace.WithSampler(sdktrace.AlwaysSample())), Log: quiet(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, _ := never.Tracer("host").Start(t.Context(), "above")
	r := httptest.NewRequestWithContext(ctx, "GET", prefix+"profile/", nil)
	h.ServeHTTP(httptest.NewRecorder(), r)
	h.WithCall(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), r)
	if n := len(recorder.Ended()); n != 0 {
		t.Errorf("got %d spans, want none", n)
	}
}

func TestSpan_OfPagesHasPatternAndStatus(t *testing.T) {
	provider, spans := newSpans(true)
	var seen context.Context
	h, err := personalhttp.New(profileOf(func(ctx context.Context) { seen = ctx }),
		personalhttp.Options{TracerProvider: provider, Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	teapot := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got, want := trace.SpanContextFromContext(r.Context()),
			trace.SpanContextFromContext(seen); !got.Equal(want) && r.URL.Path == "/mine/7" {
			t.Errorf("the page got span %s, the service %s", got.SpanID(), want.SpanID())
		}
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusTeapot)
	})
	mux := http.NewServeMux()
	mux.Handle("GET /mine/{id}", h.RequireUser(teapot))
	mux.Handle("/open/", teapot)
	mux.HandleFunc("/empty", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/hints", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusEarlyHints) })
	mux.HandleFunc("/broken", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	inside, outside := http.Handler(mux), h.WithCall(mux)
	for _, tt := range []struct {
		path, name, status string
		handler            http.Handler
		signedIn           bool
	}{
		{"/mine/7", "GET /mine/{id}", "418", inside, true},
		{"/mine/7", "GET /mine/{id}", "401", inside, false},
		{"/mine/7", "GET /mine/{id}", "418", outside, true},
		{"/open/anna", "GET /open/", "418", outside, false},
		{"/empty", "GET /empty", "200", outside, false},
		{"/hints", "GET /hints", "200", outside, false},
		{"/anna", "GET", "404", outside, false},
		{"/broken", "GET /broken", "", outside, false},
	} {
		t.Run(tt.name+" "+tt.status, func(t *testing.T) {
			spans.Reset()
			r := httptest.NewRequest("GET", tt.path, nil)
			if tt.signedIn {
				r.Header.Set("User-Id", "7")
				r.Header.Set("User-Hash", hash)
			}
			defer func() {
				if v := recover(); (v == http.ErrAbortHandler) != (tt.status == "") {
					t.Errorf("got panic %v", v)
				}
				span := wantSpan(t, spans, tt.name, tt.status)
				if failed := span.Status().Code == codes.Error; failed != (tt.status == "") {
					t.Errorf("got status %+v", span.Status())
				}
			}()
			tt.handler.ServeHTTP(httptest.NewRecorder(), r)
		})
	}
}

// Handlers look for these methods in the writer. They must not be missing in the few
// requests that are sampled.
func TestSpan_OfPagesKeepsTheWritersMethods(t *testing.T) {
	provider, _ := newSpans(true)
	h, err := personalhttp.New(noService(), personalhttp.Options{TracerProvider: provider, Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h.WithCall(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hijack" {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
			_ = conn.Close()
			return
		}
		w.(http.Flusher).Flush()
		if _, err := w.(io.ReaderFrom).ReadFrom(strings.NewReader("text")); err != nil {
			t.Error(err)
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
	})))
	defer server.Close()
	for path, status := range map[string]int{"/": http.StatusOK, "/hijack": http.StatusNoContent} {
		res, err := server.Client().Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != status || path == "/" && string(body) != "text" {
			t.Errorf("%s: got %d %q, want %d", path, res.StatusCode, body, status)
		}
	}
}

func TestSpan_OfPagesKeepsErrorsOfFlush(t *testing.T) {
	provider, _ := newSpans(true)
	h, err := personalhttp.New(noService(), personalhttp.Options{TracerProvider: provider, Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	plain := struct{ http.ResponseWriter }{httptest.NewRecorder()} // cannot flush
	h.WithCall(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := http.NewResponseController(w).Flush(); !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("got %v, want that it is not supported", err)
		}
	})).ServeHTTP(plain, httptest.NewRequest("GET", "/", nil))
}

func TestAccessLog_HasTraceID(t *testing.T) {
	for _, sampled := range []bool{true, false} {
		var log bytes.Buffer
		provider, spans := newSpans(sampled)
		s := newSite(t, noService(), personalhttp.Options{
			TracerProvider: provider, Log: slog.New(slog.NewTextHandler(&log, nil)), TrustedProxies: prefixes("127.0.0.0/8"),
		})
		s.do("GET", prefix+"profile/", "", "").want(t, 404, "not_found")
		s.do("GET", prefix+"profile/", "", "", "Traceparent", inbound).want(t, 404, "not_found")
		s.Close()
		if n := strings.Count(log.String(), " trace_id="); n != 2 || strings.Count(log.String(), " trace_id="+inboundTrace) != 1 {
			t.Errorf("sampled %t: got %d lines with a trace id, want 2, one of them %s:\n%s", sampled, n, inboundTrace, log.String())
		}
		want := 1 // the proxy's decision counts
		if sampled {
			want = 2
		}
		if got := len(spans.Ended()); got != want {
			t.Errorf("sampled %t: got %d recorded spans, want %d", sampled, got, want)
		}
	}
}

// A request without tracing costs nothing more, and one that is not sampled little.
func TestSpan_AllocatesNothingWhenOff(t *testing.T) {
	never, _ := newSpans(false)
	count := func(o personalhttp.Options) (api, page float64) {
		o.Log = quiet()
		h, err := personalhttp.New(noService(), o)
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", prefix+"profile/", nil)
		empty := h.WithCall(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		return testing.AllocsPerRun(200, func() { w.Body.Reset(); h.ServeHTTP(w, r) }),
			testing.AllocsPerRun(200, func() { empty.ServeHTTP(w, r) })
	}
	api, page := count(personalhttp.Options{})
	if page > maxPage && !race.Enabled {
		t.Errorf("got %v allocations for a page without tracing, want at most %d", page, maxPage)
	}
	unsampledAPI, unsampledPage := count(personalhttp.Options{TracerProvider: never})
	if unsampledAPI-api > maxUnsampled || unsampledPage-page > maxUnsampled {
		t.Errorf("got %v more allocations for an API request that is not sampled and %v for a page, want at most %d",
			unsampledAPI-api, unsampledPage-page, maxUnsampled)
	}
}

const (
	maxPage      = 6 // of WithCall: the request's copy, its context, its request id and the header
	maxUnsampled = 9 // of the SDK's span, the request's copy and the name
)
