package rpc_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/plugins/rpc"
	"github.com/cms-personal/personal/shared/plugins/rpc/rpctest"
)

// tracedPair is a host and a plugin with recorders of their spans. Recover sends a mail.
type tracedPair struct {
	*rpc.Client
	ofHost, ofPlugin *tracetest.SpanRecorder
	host             trace.TracerProvider
	log              *logBuffer

	mu                sync.Mutex
	atService, atHost context.Context // of the last call
	failure           error           // of the service
}

// contexts returns what the service and the host's mailer got.
func (p *tracedPair) contexts() (atService, atHost context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.atService, p.atHost
}

func startTraced(t *testing.T, pluginTraces bool) *tracedPair {
	t.Helper()
	p := &tracedPair{ofHost: tracetest.NewSpanRecorder(), ofPlugin: tracetest.NewSpanRecorder(), log: new(logBuffer)}
	p.host = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p.ofHost))
	var plugin trace.TracerProvider
	if pluginTraces {
		plugin = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p.ofPlugin))
	}
	host := newFakeHost("1")
	host.onMail = func(ctx context.Context, _ personal.Mail) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.atHost = ctx
		return nil
	}
	build := func(_ context.Context, _ rpc.Configuration, host personal.Host) (rpc.Module, error) {
		return &module{service: personaltest.HandledBy(func(ctx context.Context, operation personal.OperationName, _ any) (any, error) {
			p.mu.Lock()
			p.atService = ctx
			failure := p.failure
			p.mu.Unlock()
			if operation == "Recover" {
				return nil, host.SendMail(ctx, personal.Mail{To: "anna@example.org", Subject: "secret"})
			}
			return results[operation], failure
		})}, nil
	}
	connection := rpctest.StartTraced(t, build, host, p.log.logger(), p.host, plugin)
	if err := connection.Configure(t.Context(), rpc.Configuration{}); err != nil {
		t.Fatal(err)
	}
	p.Client = rpc.NewClient(connection.Conn(), host)
	return p
}

// request begins the span of a request.
func (p *tracedPair) request(t *testing.T) (context.Context, trace.Span) {
	return p.host.Tracer("test").Start(personal.WithCall(t.Context(), personal.Call{RequestID: "r", Agent: "agent of anna"}), "request")
}

// named returns the only span with a name and a kind.
func named(t *testing.T, spans *tracetest.SpanRecorder, name string, kind trace.SpanKind) sdktrace.ReadOnlySpan {
	t.Helper()
	var found []sdktrace.ReadOnlySpan
	for _, s := range spans.Ended() {
		if s.Name() == name && s.SpanKind() == kind {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		t.Fatalf("got %d %s spans %q, want 1", len(found), kind, name)
	}
	return found[0]
}

func TestTrace_ConnectsHopOperationAndCallback(t *testing.T) {
	p := startTraced(t, true)
	ctx, request := p.request(t)
	if err := p.Recover(ctx, personal.RecoverRequest{Login: "anna"}); err != nil {
		t.Fatal(err)
	}
	const recovery, mail = "personal.v1.PersonalService/Recover", "personal.v1.HostService/SendMail"
	parent := request.SpanContext()
	for _, s := range []sdktrace.ReadOnlySpan{
		named(t, p.ofHost, recovery, trace.SpanKindClient), named(t, p.ofPlugin, recovery, trace.SpanKindServer),
		named(t, p.ofPlugin, mail, trace.SpanKindClient), named(t, p.ofHost, mail, trace.SpanKindServer),
	} {
		if s.SpanContext().TraceID() != parent.TraceID() || s.Parent().SpanID() != parent.SpanID() {
			t.Errorf("the %s span %q is below %s in trace %s, want %s in %s", s.SpanKind(), s.Name(),
				s.Parent().SpanID(), s.SpanContext().TraceID(), parent.SpanID(), parent.TraceID())
		}
		for _, a := range s.Attributes() {
			if strings.Contains(a.Value.String(), "anna") || strings.Contains(a.Value.String(), "secret") {
				t.Errorf("%q has the attribute %s=%s", s.Name(), a.Key, a.Value.String())
			}
		}
		parent = s.SpanContext()
	}
	if _, atHost := p.contexts(); !trace.SpanContextFromContext(atHost).Equal(parent) {
		t.Errorf("the host's mailer got span %v, want %v", trace.SpanContextFromContext(atHost), parent)
	}
}

func TestTrace_RefusalHasItsCodeAndIsNoFailure(t *testing.T) {
	for code, failed := range map[personal.Code]bool{personal.CodeInvalidCredentials: false, personal.CodeUnavailable: true} {
		p := startTraced(t, true)
		p.failure = personal.NewError(code, nil)
		ctx, _ := p.request(t)
		if _, err := p.Authorize(ctx, personal.AuthorizeRequest{Login: "anna"}); err == nil {
			t.Fatal("the call succeeded")
		}
		const name = "personal.v1.PersonalService/Authorize"
		for _, s := range []sdktrace.ReadOnlySpan{named(t, p.ofHost, name, trace.SpanKindClient),
			named(t, p.ofPlugin, name, trace.SpanKindServer)} {
			i := slices.IndexFunc(s.Attributes(), func(a attribute.KeyValue) bool { return a.Key == "personal.code" })
			if i < 0 || s.Attributes()[i].Value.AsString() != string(code) || (s.Status().Code == codes.Error) != failed ||
				s.Status().Description != "" {
				t.Errorf("%s: got attributes %v and status %+v of the %s span", code, s.Attributes(), s.Status(), s.SpanKind())
			}
		}
	}
}

// The host's decision is the plugin's. The trace id reaches the log of both in any case.
func TestTrace_UnsampledIsNotRecordedInThePlugin(t *testing.T) {
	p := startTraced(t, true)
	unsampled := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}})
	if err := p.Recover(trace.ContextWithSpanContext(t.Context(), unsampled), personal.RecoverRequest{}); err != nil {
		t.Fatal(err)
	}
	if h, g := len(p.ofHost.Ended()), len(p.ofPlugin.Ended()); h+g > 0 {
		t.Errorf("got %d spans of the host and %d of the plugin, want none", h, g)
	}
	atService, atHost := p.contexts()
	for where, ctx := range map[string]context.Context{"service": atService, "mailer": atHost} {
		if got := trace.SpanContextFromContext(ctx); got.TraceID() != unsampled.TraceID() || got.IsSampled() {
			t.Errorf("the %s got %v, want the unsampled trace", where, got)
		}
	}
}

func TestTrace_OffInThePluginKeepsTheTrace(t *testing.T) {
	p := startTraced(t, false)
	ctx, request := p.request(t)
	if err := p.Recover(ctx, personal.RecoverRequest{}); err != nil {
		t.Fatal(err)
	}
	hop := named(t, p.ofHost, "personal.v1.PersonalService/Recover", trace.SpanKindClient)
	mail := named(t, p.ofHost, "personal.v1.HostService/SendMail", trace.SpanKindServer)
	if mail.Parent().SpanID() != hop.SpanContext().SpanID() || mail.SpanContext().TraceID() != request.SpanContext().TraceID() {
		t.Errorf("the callback is below %s in trace %s, want the hop's %s", mail.Parent().SpanID(), mail.SpanContext().TraceID(),
			hop.SpanContext().SpanID())
	}
}

func TestTrace_OffMakesNoSpans(t *testing.T) {
	p := startTraced(t, true)
	if err := p.Recover(t.Context(), personal.RecoverRequest{}); err != nil {
		t.Fatal(err)
	}
	if h, g := len(p.ofHost.Ended()), len(p.ofPlugin.Ended()); h+g > 0 {
		t.Errorf("got %d spans of the host and %d of the plugin, want none", h, g)
	}
}

func TestTrace_BaggageDoesNotCross(t *testing.T) {
	p := startTraced(t, true)
	member, err := baggage.NewMember("login", "anna")
	if err != nil {
		t.Fatal(err)
	}
	bag, err := baggage.New(member)
	if err != nil {
		t.Fatal(err)
	}
	ctx, _ := p.request(t)
	if err := p.Recover(baggage.ContextWithBaggage(ctx, bag), personal.RecoverRequest{}); err != nil {
		t.Fatal(err)
	}
	atService, atHost := p.contexts()
	for where, ctx := range map[string]context.Context{"service": atService, "mailer": atHost} {
		if n := baggage.FromContext(ctx).Len(); n > 0 {
			t.Errorf("the %s got %d members of baggage, want none", where, n)
		}
	}
}

// TestClient_TransientParametersStayInTheHost searches what the plugin gets of a call, with
// and without an admission.
func TestClient_TransientParametersStayInTheHost(t *testing.T) {
	p := startTraced(t, true)
	const token = "SecretCaptcha"
	judged := 0
	admission := &personal.Admission{Judge: func(ctx context.Context, _ personal.AdmissionRequest) error {
		judged += strings.Count(personal.TransientFrom(ctx)["captcha"], token)
		return nil
	}}
	for _, s := range []personal.Service{p.Client, admission.Wrap(p.Client)} {
		ctx, span := p.request(t)
		if _, err := s.Register(personal.WithTransient(ctx, map[string]string{"captcha": token}),
			personal.RegisterRequest{Login: "anna"}); err != nil {
			t.Fatal(err)
		}
		span.End()
		at, _ := p.contexts()
		md, ok := metadata.FromIncomingContext(at)
		if !ok || len(md["personal-request-id-bin"]) != 1 {
			t.Fatalf("got metadata %v, want that of the call", md)
		}
		if personal.TransientFrom(at) != nil || strings.Contains(fmt.Sprintf("%q %#v", md, personal.CallFrom(at)), token) {
			t.Errorf("the plugin gets %v, %v", personal.TransientFrom(at), md)
		}
	}
	if judged != 1 {
		t.Errorf("the Judge got the token %d times, want once", judged)
	}
	if strings.Contains(p.log.String(), token) {
		t.Errorf("the log has the token: %s", p.log)
	}
	for _, recorder := range []*tracetest.SpanRecorder{p.ofHost, p.ofPlugin} {
		if len(recorder.Ended()) == 0 {
			t.Error("there are no spans")
		}
		for _, s := range recorder.Ended() {
			if strings.Contains(fmt.Sprint(s.Name(), s.Attributes(), s.Events()), token) {
				t.Errorf("span %s has the token", s.Name())
			}
		}
	}
}
