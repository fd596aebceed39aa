package personalhttp_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/testkit/openapitest"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personalhttp"
)

const (
	prefix = "/api/v1/personal/"
	form   = "application/x-www-form-urlencoded"
	asJSON = "application/json"
)

var hash = strings.Repeat("aB3_-", 8) + "xyz" // 43 characters

// site is a server with a handler and a service.
type site struct {
	*httptest.Server
	t         *testing.T
	described *openapitest.Document // if not nil, every response must conform to it
	alwaysOK  bool
}

func newSite(t *testing.T, s personal.Service, o personalhttp.Options) *site {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	h, err := personalhttp.New(s, o)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return &site{Server: server, t: t, alwaysOK: o.AlwaysOK}
}

// reply is a response with its decoded envelope.
type reply struct {
	Status int
	Header http.Header
	Body   string
	Close  bool // the server closes the connection

	Success int
	Result  struct {
		Type    string `json:"TYPE"`
		Message string `json:"MESSAGE"`
		Code    string `json:"CODE"`
		Fields  map[string]struct {
			Code    string `json:"CODE"`
			Message string `json:"MESSAGE"`
		} `json:"FIELDS"`
	}
	Data json.RawMessage
}

func (s *site) do(method, path, mediaType, body string, headers ...string) reply {
	s.t.Helper()
	r, err := http.NewRequest(method, s.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if mediaType != "" {
		r.Header.Set("Content-Type", mediaType)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(r)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	a := s.read(res)
	if s.described != nil {
		described := a.asDescribed(r)
		if status, known := personalhttp.Statuses[personal.Code(a.Result.Code)]; known && s.alwaysOK {
			described.Status = status
		}
		if err := s.described.Check(described); err != nil {
			s.t.Errorf("%s %s: got %d %s, which the document does not describe:\n%v", method, path, a.Status, a.Body, err)
		}
	}
	return a
}

func (a reply) asDescribed(r *http.Request) openapitest.Response {
	return openapitest.Response{Method: r.Method, Path: r.URL.EscapedPath(), Status: a.Status, Header: a.Header, Body: []byte(a.Body)}
}

// raw sends a request that an HTTP client could not send.
func (s *site) raw(request string) reply {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		s.t.Fatal(err)
	}
	method, _, _ := strings.Cut(request, " ")
	res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		s.t.Fatalf("%q: %v", request, err)
	}
	return s.read(res)
}

func (s *site) read(res *http.Response) reply {
	s.t.Helper()
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	a := reply{Status: res.StatusCode, Header: res.Header, Body: string(body), Close: res.Close}
	if len(body) > 0 && !a.isDocument() {
		d := json.NewDecoder(bytes.NewReader(body))
		d.DisallowUnknownFields()
		envelope := struct {
			Success *int            `json:"success"`
			Result  any             `json:"result"`
			Data    json.RawMessage `json:"data"`
		}{Success: &a.Success, Result: &a.Result}
		if err := d.Decode(&envelope); err != nil {
			s.t.Fatalf("got no envelope: %v: %s", err, body)
		}
		a.Data = envelope.Data
	}
	checkHeaders(s.t, a)
	return a
}

// isDocument reports whether the response is openapi.json, the only one without envelope.
func (a reply) isDocument() bool { return strings.HasPrefix(a.Body, `{"openapi":`) }

// checkHeaders checks what every response must have.
func checkHeaders(t *testing.T, a reply) {
	t.Helper()
	want := map[string]string{
		"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
	}
	if a.Status != http.StatusNoContent {
		want["Content-Type"] = "application/json; charset=utf-8"
	}
	for name, value := range want {
		if got := a.Header.Values(name); len(got) != 1 || got[0] != value {
			t.Errorf("got %s %q, want %q", name, got, value)
		}
	}
	if a.Header.Get("X-Request-Id") == "" {
		t.Error("got no X-Request-Id, want one")
	}
	retry := a.Result.Code == "too_many_attempts" || a.Result.Code == "unavailable"
	if (a.Header.Get("Retry-After") != "") != retry {
		t.Errorf("got Retry-After %q with code %q, want it: %t", a.Header.Get("Retry-After"), a.Result.Code, retry)
	}
	if a.Result.Type == "ERROR" && (a.Success != 0 || a.Data != nil || a.Result.Message == "" || a.Result.Code == "") {
		t.Errorf("got %s, want an error envelope", a.Body)
	}
	if a.Result.Type == "OK" && (a.Success != 1 || a.Result.Code != "" || a.Result.Fields != nil) {
		t.Errorf("got %s, want a success envelope", a.Body)
	}
}

func (a reply) want(t *testing.T, status int, code personal.Code) {
	t.Helper()
	if a.Status != status || a.Result.Code != string(code) {
		t.Errorf("got %d %q, want %d %q: %s", a.Status, a.Result.Code, status, code, a.Body)
	}
}

// noService is a service that offers no operation.
func noService() *personaltest.Service { return &personaltest.Service{} }

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// prefixes parses CIDRs. An invalid one becomes the zero prefix.
func prefixes(cidrs ...string) []netip.Prefix {
	var list []netip.Prefix
	for _, cidr := range cidrs {
		p, _ := netip.ParsePrefix(cidr)
		list = append(list, p)
	}
	return list
}
