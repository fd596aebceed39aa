package system

import (
	"encoding/hex"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/internal/testkit/testdb"
)

// collector receives spans by OTLP over HTTP, from hosts and plugins.
type collector struct {
	*httptest.Server
	mu    sync.Mutex
	spans []span
	raw   []byte // of all requests
}

// span is a received span.
type span struct {
	*tracev1.Span
	service string
}

func (s span) trace() string  { return hex.EncodeToString(s.GetTraceId()) }
func (s span) id() string     { return hex.EncodeToString(s.GetSpanId()) }
func (s span) parent() string { return hex.EncodeToString(s.GetParentSpanId()) }

func newCollector(t testing.TB) *collector {
	t.Helper()
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var request collectorv1.ExportTraceServiceRequest
		if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &request) != nil {
			t.Errorf("got a request for %s instead of an export of spans (%v)", r.URL.Path, err)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.raw = append(c.raw, body...)
		for _, of := range request.GetResourceSpans() {
			service := ""
			for _, a := range of.GetResource().GetAttributes() {
				if a.GetKey() == "service.name" {
					service = a.GetValue().GetStringValue()
				}
			}
			for _, scope := range of.GetScopeSpans() {
				for _, s := range scope.GetSpans() {
					c.spans = append(c.spans, span{s, service})
				}
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// env returns variables with which spans are exported only when a process ends.
func (c *collector) env() []string {
	return []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL, "OTEL_SERVICE_NAME=cms",
		"OTEL_BSP_SCHEDULE_DELAY=3600000", "OTEL_BSP_MAX_QUEUE_SIZE=100000", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=100000",
	}
}

func (c *collector) all() []span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// children returns the spans below another one.
func (c *collector) children(parent span, service, name string) (found []span) {
	for _, s := range c.all() {
		if s.trace() == parent.trace() && s.parent() == parent.id() && s.service == service && s.GetName() == name {
			found = append(found, s)
		}
	}
	return found
}

// follow returns the span that each step, a service and a name, leads to from a span. One
// of several equal ones is followed.
func (c *collector) follow(t *testing.T, from span, steps ...[2]string) span {
	t.Helper()
	for _, step := range steps {
		found := c.children(from, step[0], step[1])
		if len(found) == 0 {
			t.Fatalf("there is no span %q of %s below %q of %s", step[1], step[0], from.GetName(), from.service)
		}
		from = found[0]
	}
	return from
}

// roots returns the spans that begin a trace and have a name.
func (c *collector) roots(name string) (found []span) {
	for _, s := range c.all() {
		if s.parent() == "" && s.GetName() == name {
			found = append(found, s)
		}
	}
	return found
}

const (
	service  = "personal.v1.PersonalService/"
	callback = "personal.v1.HostService/"
)

func TestTraces_ConnectBothProcessesAndHoldNoValues(t *testing.T) {
	t.Parallel()
	testdb.Database(t, func(t *testing.T, database string) {
		c := newCollector(t)
		hidden := secrets{}
		database = withPassword(t, database, hidden)
		s := start(t, options{database: database, settings: cheap + links + unthrottled + twoFactor, env: c.env()})
		s.putSchema(t, schema)
		hidden.add("the admin's token", s.adminToken(t))
		s.secretive(t, hidden)
		maps.Copy(hidden, s.secretiveTwoFactor(t))

		p := applicant(params{"email": hidden.add("an address of a mail", "SecretBox@mail.example"), "name": hidden.add("a name", "SecretName")})
		hidden.add("a login", p["login"].(string))
		own := s.do(t, call{path: "register/", params: p, header: http.Header{
			"User-Agent":   {hidden.add("a user agent", "SecretAgent/1")},
			"X-Request-Id": {hidden.add("a request id", "SecretRequest")},
			"Traceparent":  {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
			"Tracestate":   {"vendor=" + hidden.add("trace state", "SecretState")},
			"Baggage":      {"login=" + hidden.add("baggage", "SecretBaggage")},
		}}).pair(t)
		s.refresh(t, own)
		s.web(t, http.MethodGet, "/demo/greeting", "", "User-Id", strconv.FormatInt(own.ID, 10), "User-Hash", own.Hash)
		s.post(t, "recover/", params{"login": p["login"]}).want(t, "")
		s.mailTo(t, mailtext.Recovery, "SecretBox@mail.example")
		s.adminPage(t, s.enterAdmin(t), "/admin/users?search="+hidden.add("a search", "SecretSearch"))
		hidden.add("an address", "127.0.0.1")
		hidden.add("SQL", "WHERE")
		eventually(t, "the event of the recovery is published", func() bool { return s.events(t, "recovery_requested", own.ID) == 1 })
		s.stop(t) // which exports all spans

		hidden.wantNone(t, "an export", string(c.raw))
		for _, s := range c.all() { // readable, in case that the binary form hides something
			text, err := protojson.Marshal(s.Span)
			if err != nil {
				t.Fatal(err)
			}
			hidden.wantNone(t, "a span", string(text))
			if regexp.MustCompile(`\bu[a-z2-7]{12}\b|@`).Match(text) {
				t.Errorf("a span has a login or an address: %s", text)
			}
			if s.trace() == "0af7651916cd43dd8448eb211c80319c" {
				t.Error("a visitor's trace context was believed")
			}
		}
		c.wantConnected(t)

		registered := c.roots("POST /api/v1/personal/register/")
		if len(registered) < 3 {
			t.Fatalf("got %d traces of registrations, want that of each", len(registered))
		}
		last := registered[len(registered)-1]
		operation := c.follow(t, last, [2]string{"cms", service + "Register"}, [2]string{"cms-plugin", service + "Register"})
		c.follow(t, operation, [2]string{"cms-plugin", "store: create an account"})
		c.follow(t, operation, [2]string{"cms-plugin", "job event"}, [2]string{"cms-plugin", callback + "PublishEvent"},
			[2]string{"cms", callback + "PublishEvent"})
		refreshed := c.roots("GET /api/v1/personal/auth_refresh/")
		operation = c.follow(t, refreshed[0], [2]string{"cms", service + "Refresh"}, [2]string{"cms-plugin", service + "Refresh"})
		c.follow(t, operation, [2]string{"cms-plugin", "store: find a session"})
		c.follow(t, operation, [2]string{"cms-plugin", "store: rotate a session"})
		c.follow(t, c.roots("GET /demo/greeting")[0], [2]string{"cms", service + "Profile"}, [2]string{"cms-plugin", service + "Profile"})
		c.follow(t, c.roots("GET /admin/users")[0],
			[2]string{"cms", "personal.v1.AdministrationService/FindUsers"}, [2]string{"cms-plugin", "personal.v1.AdministrationService/FindUsers"})
		for _, recovered := range c.roots("POST /api/v1/personal/recover/") {
			c.follow(t, recovered, [2]string{"cms", service + "Recover"}, [2]string{"cms-plugin", service + "Recover"},
				[2]string{"cms-plugin", "job recovery"}, [2]string{"cms-plugin", callback + "SendMail"},
				[2]string{"cms", callback + "SendMail"}, [2]string{"cms", "deliver mail"})
		}
		log := s.log.linesWith("trace_id=" + last.trace())
		if !slices.ContainsFunc(log, func(line string) bool { return strings.Contains(line, `msg="personal-account request"`) }) {
			t.Errorf("no line of the access log has the trace id of its request: %q", log)
		}
		refused := c.roots("POST /api/v1/personal/auth/")[0].trace()
		if len(s.log.linesWith("plugin.trace_id="+refused)) == 0 && len(s.log.linesWith("plugin.trace_id=")) == 0 {
			t.Error("no line of the plugin has a trace id")
		}
	})
}

// wantConnected checks that every span is below another one of its trace, except for
// those of requests.
func (c *collector) wantConnected(t *testing.T) {
	t.Helper()
	known := map[string]bool{}
	for _, s := range c.all() {
		known[s.trace()+s.id()] = true
	}
	for _, s := range c.all() {
		switch {
		case s.parent() == "" && s.service == "cms" && s.GetKind() == tracev1.Span_SPAN_KIND_SERVER:
		case !known[s.trace()+s.parent()]:
			t.Errorf("the span %q of %s is below %q, which is no span of its trace", s.GetName(), s.service, s.parent())
		}
	}
}

// A process that a swap retires exports its spans before it ends.
func TestTraces_SwapLosesNoSpan(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	s := start(t, options{database: testdb.SQLite(t), settings: cheap, env: c.env(), flags: []string{"--bake", "0"}})
	s.newUser(t)
	other, version := testkit.OtherPlugin(t)
	s.install(t, other, version)
	s.use(t, version)
	eventually(t, "the old process exports the spans of the registration", func() bool {
		return slices.ContainsFunc(c.all(), func(s span) bool { return s.GetName() == service+"Register" && s.service == "cms-plugin" })
	})
	u := s.newUser(t)
	s.wantAlive(t, "a session after the swap", u.pair)
	s.stop(t)
	if n := len(c.roots("POST /api/v1/personal/register/")); n != 2 {
		t.Errorf("got %d traces of 2 registrations", n)
	}
	c.wantConnected(t)
}

func TestTraces_CollectorThatIsDownHarmsNothing(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // accepts and never responds
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for name, endpoint := range map[string]string{"refused": "http://127.0.0.1:1", "silent": "http://" + listener.Addr().String()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, options{database: testdb.SQLite(t), settings: cheap, env: []string{
				"OTEL_EXPORTER_OTLP_ENDPOINT=" + endpoint, "OTEL_BSP_SCHEDULE_DELAY=50", "OTEL_EXPORTER_OTLP_TIMEOUT=500",
			}})
			u := s.newUser(t)
			for range 20 {
				u.pair = s.refresh(t, u.pair)
			}
			eventually(t, "both processes log that they cannot export", func() bool {
				lines := s.log.linesWith("spans could not be exported")
				return slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, "plugin.pid=") }) &&
					slices.ContainsFunc(lines, func(line string) bool { return !strings.Contains(line, "plugin.pid=") })
			})
			s.stop(t)
			if n := len(s.log.linesWith(`msg="spans could not be exported"`)); n > 2 { // "the last spans …" is another line
				t.Errorf("got %d lines about the export, want one of each process", n)
			}
		})
	}
}

// BenchmarkTracedRefresh measures what tracing adds to a refresh: the processor time of
// host and plugin together, without tracing, with 1 % of the traces sampled, and with
// all. Blocks of requests take turns in random order, so that the load of the machine
// affects all of them. "again" is a second host without tracing: its ratio shows how exact
// the others are.
func BenchmarkTracedRefresh(b *testing.B) {
	const callers, calls = 8, 50
	type side struct {
		name string
		s    *system
		pids []int
		pair [callers]pair
		used time.Duration
		n    int
	}
	var sides []*side
	for _, tt := range []struct{ name, ratio string }{{"off", ""}, {"again", ""}, {"1%", "0.01"}, {"100%", "1"}} {
		var env []string
		if tt.ratio != "" {
			env = []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + newCollector(b).URL, "OTEL_TRACES_SAMPLER=parentbased_traceidratio",
				"OTEL_TRACES_SAMPLER_ARG=" + tt.ratio}
		}
		s := start(b, options{database: testdb.SQLite(b), settings: cheap + unthrottled, env: env, flags: []string{"--log-level", "error"}})
		one := &side{name: tt.name, s: s, pids: []int{s.process.Pid, s.plugin(b).Active.PID}}
		for i := range one.pair {
			one.pair[i] = s.newUser(b).pair
		}
		sides = append(sides, one)
	}
	block := func(one *side) {
		before := threadTime(b, one.pids)
		var group sync.WaitGroup
		for i := range callers {
			group.Go(func() {
				for range calls {
					r := one.s.getAs(b, one.pair[i], "auth_refresh/")
					one.pair[i] = r.pair(b)
				}
			})
		}
		group.Wait()
		one.used += threadTime(b, one.pids) - before
		one.n += callers * calls
	}
	for _, one := range sides {
		block(one) // to warm up
		one.used, one.n = 0, 0
	}
	for b.Loop() {
		for _, i := range rand.Perm(len(sides)) {
			block(sides[i])
		}
	}
	b.ReportMetric(0, "ns/op")
	off := float64(sides[0].used) / float64(sides[0].n)
	for _, one := range sides {
		each := float64(one.used) / float64(one.n)
		b.ReportMetric(each/1e3, "cpu-µs/"+one.name)
		b.ReportMetric(each/off, "ratio/"+one.name)
	}
}
