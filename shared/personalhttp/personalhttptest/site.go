package personalhttptest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
)

// failures returns the failures that f reports.
func failures(f func(reporter)) []string {
	l := &failureLog{}
	ended := make(chan struct{})
	go func() { // Fatalf ends the goroutine
		defer close(ended)
		defer l.cleanUp()
		f(l)
	}()
	<-ended
	return l.failures
}

// failureLog is a reporter that collects failures. It belongs to one goroutine.
type failureLog struct {
	failures []string
	cleanups []func()
}

func (l *failureLog) Helper() {}

func (l *failureLog) Logf(string, ...any) {}

func (l *failureLog) Errorf(format string, args ...any) {
	l.failures = append(l.failures, fmt.Sprintf(format, args...))
}

func (l *failureLog) Fatalf(format string, args ...any) {
	l.Errorf(format, args...)
	runtime.Goexit()
}

func (l *failureLog) Cleanup(f func()) { l.cleanups = append(l.cleanups, f) }

func (l *failureLog) cleanUp() {
	for _, f := range slices.Backward(l.cleanups) {
		f()
	}
}

// site is a mount that serves on a port.
type site struct {
	*probe
	*recorder
	listener *listener
	client   *http.Client
}

// peer is the sender of requests, unless a check says otherwise. It is an address for
// documentation (RFC 5737).
var peer = netip.MustParseAddr("192.0.2.1")

// open serves the mount. behave, which may be nil, decides what every operation of the
// service does: its error is the result.
func (p *probe) open(behave func(context.Context) error) *site { return p.openFor(peer, behave) }

// openFor serves the mount to connections that seem to come from an address.
func (p *probe) openFor(from netip.Addr, behave func(context.Context) error) *site {
	p.Helper()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		p.Fatalf("listening: %v", err)
	}
	l := &listener{Listener: tcp, from: from, awaited: make(chan time.Time, 1)}
	p.Cleanup(l.closeAll)
	r := &recorder{behave: behave}
	serve := p.mount(r.service())
	if serve == nil {
		p.Fatalf("the mount is nil\nReturn the handler that the host gives to its server.")
	}
	go func() { _ = serve(l) }()
	transport := &http.Transport{DisableCompression: true, ExpectContinueTimeout: p.patience}
	p.Cleanup(transport.CloseIdleConnections)
	return &site{probe: p, recorder: r, listener: l, client: &http.Client{
		Transport:     transport,
		Timeout:       p.patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// listener pretends that its connections come from another address, closes them at the
// end, and reports with which deadline the server first waits for more than was sent.
type listener struct {
	net.Listener
	from    netip.Addr
	log     serverLog
	sent    atomic.Int64   // bytes on a connection; 0: nothing is reported
	awaited chan time.Time // zero: without a deadline

	mu     sync.Mutex
	conns  []net.Conn
	closed bool
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = c.Close()
	}
	l.conns = append(l.conns, c)
	return &conn{Conn: c, listener: l}, nil
}

func (l *listener) closeAll() {
	_ = l.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, c := range l.conns {
		_ = c.Close()
	}
}

// peerPort is the port of all senders.
const peerPort = 50000

// serverLog keeps the first panic that a server of net/http reports.
type serverLog struct {
	mu    sync.Mutex
	first string // with its stack
}

// Write receives one message of the server.
func (l *serverLog) Write(message []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, text, isPanic := strings.Cut(string(message), fmt.Sprintf(":%d: ", peerPort))
	if isPanic && l.first == "" && strings.HasPrefix(string(message), "http: panic serving ") {
		l.first = text
	}
	return len(message), nil
}

func (l *serverLog) panic() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first
}

type conn struct {
	net.Conn
	listener *listener

	mu       sync.Mutex
	read     int64 // bytes
	deadline time.Time
}

func (c *conn) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(c.listener.from, peerPort))
}

func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	c.deadline = t
	c.mu.Unlock()
	return c.Conn.SetReadDeadline(t)
}

func (c *conn) Read(p []byte) (int, error) {
	c.mu.Lock()
	read, deadline := c.read, c.deadline
	c.mu.Unlock()
	if sent := c.listener.sent.Load(); sent > 0 && read >= sent {
		select {
		case c.listener.awaited <- deadline:
		default: // a later wait
		}
	}
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	c.read += int64(n)
	c.mu.Unlock()
	return n, err
}

// request is one request to a site. The zero value of a field leaves it out.
type request struct {
	method    string // GET if empty
	path      string // under the prefix of the API; a page if it starts with a slash
	header    http.Header
	mediaType string
	body      io.Reader
}

// apiPath is the path of the API under the base path.
const apiPath = "/api/v1/personal/"

func (c *config) pathOf(path string) string {
	if strings.HasPrefix(path, "/") {
		return path
	}
	return c.basePath + apiPath + path
}

// reply is a response with its decoded envelope.
type reply struct {
	what   string // the request, for messages
	status int
	header http.Header
	body   string

	envelope struct {
		Success *int `json:"success"`
		Result  struct {
			Code personal.Code `json:"CODE"`
		} `json:"result"`
		Data map[string]any `json:"data"`
	}
}

func (s *site) do(r request) reply {
	s.Helper()
	return s.send(s.client, s.build(r))
}

func (s *site) build(r request) *http.Request {
	s.Helper()
	if r.method == "" {
		r.method = http.MethodGet
	}
	out, err := http.NewRequest(r.method, "http://"+s.listener.Addr().String()+s.pathOf(r.path), r.body)
	if err != nil {
		s.Fatalf("%s %s: %v", r.method, r.path, err)
	}
	for name, values := range r.header {
		out.Header[http.CanonicalHeaderKey(name)] = values
	}
	if r.mediaType != "" {
		out.Header.Set("Content-Type", r.mediaType)
	}
	return out
}

func (s *site) send(client *http.Client, r *http.Request) reply {
	s.Helper()
	what := r.Method + " " + r.URL.RequestURI()
	res, err := client.Do(r)
	if err != nil {
		s.noResponse(what, err, adviceRespond)
	}
	return s.read(what, res)
}

// varying are the parts of a stack that differ each time.
var varying = regexp.MustCompile(`0x[0-9a-f]+|goroutine [0-9]+`)

// noResponse ends the check of a request that got no response, or only a part of one.
// It shows a panic of the site with its stack once in all checks.
func (s *site) noResponse(what string, err error, advice string) {
	s.Helper()
	text := s.listener.log.panic()
	if text == "" {
		s.Fatalf("%s: got no response: %v\n%s", what, err, advice)
	}
	cause := varying.ReplaceAllString(text, "")
	if other, told := s.check.panics[cause]; told {
		s.Fatalf("%s: got no response: the site panicked\nIt is the panic that the check %q shows.", what, other)
	}
	s.check.panics[cause] = s.check.name
	s.Fatalf("%s: got no response: the site panicked: %s\n%s", what, text, advice)
}

func (s *site) read(what string, res *http.Response) reply {
	s.Helper()
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		s.noResponse(what, fmt.Errorf("it ends after %d bytes: %w", len(body), err), adviceBody)
	}
	a := reply{what: what, status: res.StatusCode, header: res.Header, body: string(body)}
	_ = json.Unmarshal(body, &a.envelope) // the checks report what is missing
	return a
}

// raw sends a text as it is and reads one response.
func (s *site) raw(what, text, advice string) reply {
	s.Helper()
	c, err := net.Dial("tcp", s.listener.Addr().String())
	if err != nil {
		s.Fatalf("%s: %v", what, err)
	}
	s.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(s.patience))
	if _, err := io.WriteString(c, text); err != nil {
		s.Fatalf("%s: %v", what, err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		s.noResponse(what, err, advice)
	}
	return s.read(what, res)
}

// wantError reports a response that is not the envelope of an error of the API.
func (s *site) wantError(a reply, status int, code personal.Code, advice string) {
	s.Helper()
	if isRedirect(a.status) {
		s.Errorf("%s: got a redirect, %d to %q, want %d %q\n%s", a.what, a.status, a.header.Get("Location"), status, code, adviceRedirect)
		return
	}
	if a.status != status || a.envelope.Success == nil || a.envelope.Result.Code != code {
		s.Errorf("%s: got %d %s, want %d and the envelope of the API with the code %q\n%s", a.what, a.status, excerpt(a.body), status, code,
			advice)
	}
}

// wantSuccess returns whether a response is the envelope of a success, after it has
// reported one that is not.
func (s *site) wantSuccess(a reply, advice string) bool {
	s.Helper()
	if isRedirect(a.status) {
		s.Errorf("%s: got a redirect, %d to %q, want 200\n%s", a.what, a.status, a.header.Get("Location"), adviceRedirect)
		return false
	}
	if a.status != http.StatusOK || a.envelope.Success == nil || *a.envelope.Success != 1 {
		s.Errorf("%s: got %d %s, want 200 and the envelope of a success\n%s", a.what, a.status, excerpt(a.body), advice)
		return false
	}
	return true
}

func isRedirect(status int) bool { return 300 <= status && status < 400 }

func excerpt(body string) string {
	const most = 200
	if len(body) > most {
		body = body[:most] + "…"
	}
	return strconv.Quote(body)
}

// call is one call of the service.
type call struct {
	operation personal.OperationName
	input     any
	call      personal.Call
	text      string // what the call said when it was made
}

func (c call) describe() string { return fmt.Sprintf("%s %+v %+v", c.operation, c.input, c.call) }

// recorder is a service that records its calls and succeeds, unless behave decides
// otherwise.
type recorder struct {
	behave func(context.Context) error

	mu    sync.Mutex
	calls []call
}

// The results of the recorder.
var (
	login       = "user-of-the-mount-test"
	credentials = personal.Credentials{UserID: 4_503_599_627_370_497, UserHash: strings.Repeat("aB3_-", 8) + "xyz"}
	profile     = personal.Profile{Login: login, Email: "user@example.com"}
	users       = []user{{credentials, login}, {personal.Credentials{UserID: 2, UserHash: strings.Repeat("Cd5-_", 8) + "uvw"},
		"another-person"}}
	signedIn   = personal.SignedIn{Credentials: credentials, Profile: profile}
	manyFields = newManyFields()
)

// user is a user whom the recorder knows.
type user struct {
	personal.Credentials
	login string
}

// newManyFields returns user fields whose JSON is longer than the buffers of servers.
func newManyFields() []personal.Field {
	fields := make([]personal.Field, 500)
	for i := range fields {
		label := strings.Repeat("Имя поля — a label. ", 20)
		fields[i] = personal.Field{Name: fmt.Sprintf("field_%03d", i), Type: personal.TypeText, Label: personal.LocalText{"en": label}}
	}
	return fields
}

func (r *recorder) service() personal.Service {
	results := map[personal.OperationName]any{
		personal.OpAuthorize: signedIn, personal.OpRegister: signedIn,
		personal.OpRefresh: credentials, personal.OpChangePassword: credentials,
		personal.OpUpdateProfile: profile,
		personal.OpFields:        manyFields,
	}
	return personaltest.HandledBy(func(ctx context.Context, operation personal.OperationName, in any) (any, error) {
		c := call{operation: operation, input: in, call: personal.CallFrom(ctx)}
		c.text = c.describe()
		r.mu.Lock()
		r.calls = append(r.calls, c)
		r.mu.Unlock()
		if r.behave != nil {
			if err := r.behave(ctx); err != nil {
				return nil, err
			}
		}
		if operation == personal.OpProfile {
			return profileOf(in.(personal.Credentials)), nil
		}
		return results[operation], nil
	})
}

// profileOf returns the profile of each of two users.
func profileOf(c personal.Credentials) personal.Profile {
	p := profile
	for _, u := range users {
		if u.Credentials == c {
			p.Login = u.login
		}
	}
	return p
}

// take returns the calls since the last take.
func (r *recorder) take() []call {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls
	r.calls = nil
	return calls
}

// taken returns the single call of an operation since the last take, or false after it
// has reported that there is another number of calls.
func (s *site) taken(a reply, operation personal.OperationName, advice string) (call, bool) {
	s.Helper()
	calls := s.take()
	if len(calls) != 1 || calls[0].operation != operation {
		s.Errorf("%s: the service got %d calls %s, want one call of %s; the response is %d %s\n%s",
			a.what, len(calls), operations(calls), operation, a.status, excerpt(a.body), advice)
		return call{}, false
	}
	return calls[0], true
}

// wantNoCall reports calls of the service.
func (s *site) wantNoCall(a reply, advice string) {
	s.Helper()
	if calls := s.take(); len(calls) > 0 {
		s.Errorf("%s: the service got the calls %s, want none\n%s", a.what, operations(calls), advice)
	}
}

func operations(calls []call) string {
	var names []string
	for _, c := range calls {
		names = append(names, string(c.operation))
	}
	return "[" + strings.Join(names, " ") + "]"
}

func credentialHeaders(c personal.Credentials) http.Header {
	return http.Header{"User-Id": {strconv.FormatInt(c.UserID, 10)}, "User-Hash": {c.UserHash}}
}

func jsonBody(v any) io.Reader {
	data, _ := json.Marshal(v) // texts and lists only: it cannot fail
	return bytes.NewReader(data)
}
