package personalhttptest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
)

// The checks that a mount may declare as a gap.
const (
	checkCancellation    = "cancellation"
	checkEarlyRefusal    = "early refusal of large bodies"
	checkBodyDeadline    = "deadline of bodies"
	checkRepeatedHeaders = "repeated headers"
	checkUnknownMethods  = "unknown methods"
)

func promises() []check {
	return []check{
		{name: "the API responds", run: apiResponds},
		{name: "operations with and without a final slash", run: operationPaths},
		{name: "unknown paths", run: unknownPaths},
		{name: "methods", run: methods},
		{name: checkUnknownMethods, run: unknownMethods},
		{name: "bodies", run: bodies},
		{name: "limits of bodies", run: bodyLimits},
		{name: checkEarlyRefusal, run: earlyRefusal},
		{name: checkBodyDeadline, run: bodyDeadline},
		{name: "client address", run: clientAddress},
		{name: "request headers", run: requestHeaders},
		{name: checkRepeatedHeaders, run: repeatedHeaders},
		{name: checkCancellation, run: cancellation},
		{name: "values after the request", run: retainedValues},
		{name: "panics", run: panics},
		{name: "errors", run: serviceErrors},
		{name: "cross-origin requests", run: crossOrigin},
		{name: "response headers", run: responseHeaders},
		{name: "response bodies", run: responseBodies},
		{name: "responses for two users", run: twoUsers},
		{name: "guarded page", run: guardedPage},
	}
}

// What to do about a failure. Each text ends the message of the failures that it may
// explain.
const (
	adviceDispatch = "Put the API in front of the router and its middleware, by Front of personalhttp.Handler or personalhost.Module, so that " +
		"it gets the request unchanged. Do not strip the prefix; a base path is the option BasePath of the handler and WithBasePath of the test."
	adviceRedirect = "The API never redirects, because a redirected POST loses its body. Routers redirect to clean paths and final slashes: " +
		adviceDispatch
	adviceMethod = "No middleware may respond to a method, or change it, before the API does."
	adviceBody   = "Pass request and response bodies of the API unchanged: no middleware before it may read, parse, decompress, " +
		"limit, compress or rewrite a body."
	adviceAddress = "The API finds the client itself, by the option TrustedProxies: no middleware before it may change r.RemoteAddr, " +
		"as those named RealIP do. If the mount trusts a proxy on purpose, pass WithTrustedProxies to the test."
	adviceCancel = "Pass the context of the request on: derive it from r.Context(), do not replace it by context.Background() or " +
		"context.WithoutCancel. If the server cannot do it, declare WithoutCancellation."
	adviceDeadline = "The API sets a deadline for the body by http.ResponseController: a ResponseWriter that a middleware wraps needs " +
		"the method Unwrap, or the server a ReadTimeout. If neither is possible, declare WithoutBodyDeadline."
	adviceError = "The API turns panics and errors of the service into envelopes and logs them. Keep them: no recovery and no error page may " +
		"replace a response of the API, and no wrapper of the service may hide them."
	adviceCORS = "The API handles CORS by the option CORSOrigins: put no CORS middleware in front of it. If the mount lists an origin, pass " +
		"WithCORSOrigin to the test."
	adviceOrigin = "The API itself refuses a post that a browser sends for another origin, with an envelope. A guard in front of it must not refuse " +
		"what the API accepts, and must leave the refusal to the API. Nothing may change r.Host."
	adviceCache = "No response of the API, and no page for signed-in users, may be cached: no cache may ignore Cache-Control: no-store, " +
		"and a key of a URL alone shows one user the data of another."
	adviceHeaders = "Keep the headers that the API sends, each once: middleware that sets headers for pages must come after the dispatch to the API, " +
		"or leave its paths out."
	adviceGuard = "Serve a page behind RequireUser that shows Profile.Login of personalhttp.UserFrom. Name its path by WithGuardedPage; " +
		"if RequireUser has an extractor, pass WithCredentials to the test."
	adviceRespond = "The site must respond to every request for the API, and in time."
	adviceCopy    = "The server reuses the memory of a request. Copy the texts of the request (method, URL, headers) before you call the API."
)

// apiResponds is the first check. If it fails, the others are left out.
func apiResponds(p *probe) {
	s := p.open(nil)
	a := s.do(request{method: http.MethodPost, path: "auth/", mediaType: "application/json",
		body: strings.NewReader(`{"login":"a","password":"b"}`)})
	if s.wantSuccess(a, adviceDispatch) {
		s.taken(a, personal.OpAuthorize, adviceDispatch)
	}
}

func operationPaths(p *probe) {
	s := p.open(nil)
	for _, e := range personalhttp.Endpoints() {
		for _, method := range e.Methods {
			for _, slash := range []string{"", "/"} {
				r := request{method: method, path: e.Path + slash, header: credentialHeaders(credentials)}
				if method == http.MethodPost {
					r.mediaType, r.body = "application/json", jsonBody(map[string]any{"login": "a", "password": "b"})
				}
				a := s.do(r)
				if s.wantSuccess(a, adviceDispatch) {
					s.taken(a, e.Operation, adviceDispatch)
				}
				s.take()
			}
		}
	}
	document := s.do(request{path: "openapi.json"})
	if document.status != http.StatusOK || !strings.HasPrefix(document.body, `{"openapi":`) {
		s.Errorf("%s: got %d %s, want 200 and the API document\n%s", document.what, document.status, excerpt(document.body), adviceDispatch)
	}
}

func unknownPaths(p *probe) {
	s := p.open(nil)
	for _, path := range []string{
		"", "unknown", "unknown/", "AUTH/", "/auth", "/auth/", "//auth/", "auth//", "./auth/", "../auth/", "../personal/auth/", "x/../auth/", "..",
		"auth/.", "auth/extra", "auth/extra/", "auth%2F", "%61uth/", "%2e%2e/personal/auth/", "..%2Fpersonal%2Fauth/", "auth;x=1", "auth%00",
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			a := s.do(request{method: method, path: s.basePath + apiPath + path, mediaType: "application/json",
				body: strings.NewReader(`{"login":"a"}`)})
			s.wantError(a, http.StatusNotFound, personal.CodeNotFound, adviceDispatch)
			s.wantNoCall(a, adviceDispatch)
		}
	}
	bare := s.do(request{path: strings.TrimSuffix(s.basePath+apiPath, "/")})
	s.wantError(bare, http.StatusNotFound, personal.CodeNotFound, adviceDispatch)
}

func methods(p *probe) {
	s := p.open(nil)
	for _, want := range []struct{ method, path, allow string }{
		{"GET", "auth/", "POST"}, {"PUT", "auth/", "POST"}, {"DELETE", "auth", "POST"}, {"OPTIONS", "auth/", "POST"},
		{"HEAD", "auth_refresh/", "GET, POST"}, {"HEAD", "profile", "GET, POST"}, {"PATCH", "profile/", "GET, POST"}, {"OPTIONS", "profile/", "GET, POST"},
		{"HEAD", "fields/", "GET"}, {"POST", "fields/", "GET"},
	} {
		a := s.do(request{method: want.method, path: want.path, header: credentialHeaders(credentials)})
		if want.method == http.MethodHead { // its response has no body
			if a.status != http.StatusMethodNotAllowed {
				s.Errorf("%s: got %d, want 405: a HEAD request must not rotate a hash\n%s", a.what, a.status, adviceMethod)
			}
		} else {
			s.wantError(a, http.StatusMethodNotAllowed, personal.CodeMethodNotAllowed, adviceMethod)
		}
		if got := a.header.Values("Allow"); len(got) != 1 || got[0] != want.allow {
			s.Errorf("%s: got Allow %q, want %q once\n%s", a.what, got, want.allow, adviceMethod)
		}
		s.wantNoCall(a, adviceMethod)
	}
	header := http.Header{}
	for _, name := range []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"} {
		header.Set(name, http.MethodDelete)
	}
	a := s.do(request{method: "POST", path: "recover/", header: header, mediaType: "application/x-www-form-urlencoded",
		body: strings.NewReader("login=a&_method=DELETE")})
	s.taken(a, personal.OpRecover, "A header or a parameter must not override the method. "+adviceMethod)
}

func unknownMethods(p *probe) {
	s := p.open(nil)
	a := s.do(request{method: "BREW", path: "auth/"})
	s.wantError(a, http.StatusMethodNotAllowed, personal.CodeMethodNotAllowed,
		adviceMethod+" If the server cannot do it, declare WithoutUnknownMethods.")
	s.wantNoCall(a, adviceMethod)
}

func bodies(p *probe) {
	s := p.open(nil)
	text := "é 漢 + % & = ; \" \\ < > \u2028 😀\t" + strings.Repeat("x", 40<<10)
	want := personal.RegisterRequest{
		Login: "a+b@example.com", Password: " two  spaces ", ConfirmPassword: " two  spaces ", Email: "a+b@example.com",
		Fields: map[string]personal.Input{"note": personal.Text(text), "tags": {Kind: personal.InputList, List: []string{"1", "2,3"}}},
	}
	values := map[string]any{
		"login": want.Login, "password": want.Password, "confirm_password": want.ConfirmPassword, "email": want.Email, "note": text, "tags": []string{"1", "2,3"},
	}
	form := url.Values{}
	var parts strings.Builder
	multi := multipart.NewWriter(&parts)
	for name, value := range values {
		switch value := value.(type) {
		case string:
			form.Add(name, value)
			_ = multi.WriteField(name, value)
		case []string:
			for _, item := range value {
				form.Add(name+"[]", item)
				_ = multi.WriteField(name+"[]", item)
			}
		}
	}
	_ = multi.Close()
	chunked := func(r io.Reader) io.Reader { return struct{ io.Reader }{r} } // without a known length
	for _, r := range []request{
		{mediaType: "application/json", body: jsonBody(values)},
		{mediaType: "application/json; charset=utf-8", body: chunked(jsonBody(values))},
		{mediaType: "application/json", body: jsonBody(values), header: http.Header{"Expect": {"100-continue"}}},
		{mediaType: "application/x-www-form-urlencoded", body: strings.NewReader(form.Encode())},
		{mediaType: "application/x-www-form-urlencoded", body: chunked(strings.NewReader(form.Encode()))},
		{mediaType: multi.FormDataContentType(), body: strings.NewReader(parts.String())},
	} {
		r.method, r.path = http.MethodPost, "register/?login=from-the-query&note=from-the-query"
		a := s.do(r)
		a.what += " with " + r.mediaType
		c, ok := s.taken(a, personal.OpRegister, adviceBody)
		if got, isRegister := c.input.(personal.RegisterRequest); ok && (!isRegister || !reflect.DeepEqual(got, want)) {
			s.Errorf("%s: the service got %s, want %s\n%s", a.what, excerpt(fmt.Sprintf("%+v", c.input)), excerpt(fmt.Sprintf("%+v", want)),
				adviceBody)
		}
	}

	none := s.do(request{method: http.MethodPost, path: "auth/?login=a&password=b"})
	if c, ok := s.taken(none, personal.OpAuthorize, adviceBody); ok && c.input.(personal.AuthorizeRequest).Login != "" {
		s.Errorf("%s: the service got the login from the query, want none: passwords in URLs end up in logs\n%s", none.what, adviceBody)
	}
	for _, wrong := range []struct {
		r      request
		status int
		code   personal.Code
	}{
		{request{mediaType: "application/json", body: strings.NewReader(`{"login":"a"} {}`)}, http.StatusBadRequest, personal.CodeMalformedRequest},
		{request{mediaType: "application/json", body: strings.NewReader(`{"login":"a","LOGIN":"b"}`)}, http.StatusBadRequest, personal.CodeMalformedRequest},
		{request{mediaType: "application/x-www-form-urlencoded", body: strings.NewReader("login=%ff")}, http.StatusBadRequest, personal.CodeMalformedRequest},
		{request{mediaType: "text/plain", body: strings.NewReader(`{"login":"a"}`)}, http.StatusUnsupportedMediaType, personal.CodeUnsupportedMediaType},
		{request{mediaType: "application/json", body: strings.NewReader(`{}`), header: http.Header{"Content-Encoding": {"gzip"}}},
			http.StatusUnsupportedMediaType, personal.CodeUnsupportedMediaType},
	} {
		wrong.r.method, wrong.r.path = http.MethodPost, "auth/"
		a := s.do(wrong.r)
		s.wantError(a, wrong.status, wrong.code, adviceBody)
		s.wantNoCall(a, adviceBody)
	}
}

// maxBody is the longest body of the contract, section 1.
const maxBody = 64 << 10

func bodyLimits(p *probe) {
	s := p.open(nil)
	sized := func(size int) string { return "login=" + strings.Repeat("a", size-len("login=")) }
	const form = "application/x-www-form-urlencoded"
	a := s.do(request{method: http.MethodPost, path: "recover/", mediaType: form, body: strings.NewReader(sized(maxBody))})
	if c, ok := s.taken(a, personal.OpRecover, adviceBody); ok && len(c.input.(personal.RecoverRequest).Login) != maxBody-len("login=") {
		s.Errorf("%s: the service got %d bytes, want %d\n%s", a.what, len(c.input.(personal.RecoverRequest).Login), maxBody-len("login="),
			adviceBody)
	}
	for _, body := range []io.Reader{strings.NewReader(sized(maxBody + 1)), struct{ io.Reader }{strings.NewReader(sized(maxBody + 1))}} {
		a := s.do(request{method: http.MethodPost, path: "recover/", mediaType: form, body: body})
		s.wantError(a, http.StatusRequestEntityTooLarge, personal.CodeTooLarge, adviceBody)
		s.wantNoCall(a, adviceBody)
	}
}

// head returns the head of a POST request to an operation with a body of that length.
func (s *site) head(operation string, length int) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n",
		s.pathOf(operation), length)
}

func earlyRefusal(p *probe) {
	s := p.open(nil)
	const size, advice = 100 << 20, "A body that is too large must be refused before it arrives. " + adviceBody +
		" If the server cannot do it, declare WithoutEarlyRefusal."
	a := s.raw(fmt.Sprintf("POST auth/ with a Content-Length of %d bytes", size), s.head("auth/", size), advice)
	s.wantError(a, http.StatusRequestEntityTooLarge, personal.CodeTooLarge, advice)
}

func bodyDeadline(p *probe) {
	s := p.open(nil)
	c, err := net.Dial("tcp", s.listener.Addr().String())
	if err != nil {
		s.Fatalf("%v", err)
	}
	defer c.Close()
	text := s.head("auth/", 100) + "login="
	s.listener.sent.Store(int64(len(text)))
	if _, err := io.WriteString(c, text); err != nil {
		s.Fatalf("%v", err)
	}
	select {
	case deadline := <-s.listener.awaited:
		if deadline.IsZero() {
			s.Errorf("POST auth/ with a body that does not arrive: the server waits for the rest without a deadline, want one\n%s", adviceDeadline)
		}
	case <-time.After(s.patience):
		s.Errorf("POST auth/ with a body that does not arrive: the server did not read it within %s\n%s", s.patience, adviceDeadline)
	}
}

func clientAddress(p *probe) {
	const claimed = "203.0.113.9"
	forged := http.Header{
		"X-Forwarded-For": {claimed}, "Forwarded": {"for=" + claimed}, "X-Real-Ip": {claimed}, "True-Client-Ip": {claimed},
		"Cf-Connecting-Ip": {claimed}, "X-Client-Ip": {claimed}, "X-Forwarded-Host": {"evil.example"}, "X-Original-Url": {"/"}, "X-Rewrite-Url": {"/"},
	}
	senders := []netip.Addr{peer, netip.MustParseAddr("2001:db8::1")}
	for _, private := range []string{"10.1.2.3", "127.0.0.1", "::1"} {
		if a := netip.MustParseAddr(private); !slices.ContainsFunc(p.proxies, func(trusted netip.Prefix) bool { return trusted.Contains(a) }) {
			senders = append(senders, a)
		}
	}
	for _, from := range senders {
		s := p.openFor(from, nil)
		api := s.do(request{method: http.MethodPost, path: "auth", header: forged})
		api.what += " from " + from.String() + " with forwarded headers"
		if c, ok := s.taken(api, personal.OpAuthorize, adviceDispatch); ok {
			s.wantAddress(api, c, from)
		}
		page := s.visit(forged, credentials)
		page.what += " from " + from.String() + " with forwarded headers"
		for _, c := range s.take() { // another check tells if the page is not guarded
			s.wantAddress(page, c, from)
		}
	}
	client := netip.MustParseAddr("198.51.100.7")
	value := claimed + ", " + client.String()
	if strings.EqualFold(p.forwardedHeader, "Forwarded") {
		value = "for=" + claimed + ", for=" + client.String()
	}
	for _, trusted := range p.proxies {
		proxy := trusted.Masked().Addr()
		s := p.openFor(proxy, nil)
		a := s.do(request{method: http.MethodPost, path: "auth", header: http.Header{http.CanonicalHeaderKey(p.forwardedHeader): {value}}})
		a.what += " from the proxy " + proxy.String() + " with " + p.forwardedHeader + ": " + value
		if c, ok := s.taken(a, personal.OpAuthorize, adviceDispatch); ok && c.call.Address != client {
			s.Errorf("%s: the service got the address %s, want %s\n%s", a.what, c.call.Address, client,
				"Give the API the proxies of the site as the option TrustedProxies, and the name of their header as ForwardedHeader.")
		}
	}
}

func (s *site) wantAddress(a reply, c call, want netip.Addr) {
	s.Helper()
	if c.call.Address != want {
		s.Errorf("%s: the service got the address %s, want %s: only a trusted proxy may name another\n%s", a.what, c.call.Address, want,
			adviceAddress)
	}
}

func requestHeaders(p *probe) {
	s := p.open(nil)
	header := credentialHeaders(credentials)
	header.Set("User-Agent", "mount test/1.0 (a browser)")
	header.Set("Accept-Language", "ru-RU,ru;q=0.9,en;q=0.5")
	header.Set("X-Request-Id", "mount-test.1")
	a := s.do(request{path: "profile/", header: header})
	c, ok := s.taken(a, personal.OpProfile, adviceDispatch)
	if !ok {
		return
	}
	want := personal.Call{RequestID: "mount-test.1", Locale: "ru", Address: peer, Agent: "mount test/1.0 (a browser)"}
	if c.call != want {
		s.Errorf("%s: the service got the call %+v, want %+v\n%s", a.what, c.call, want,
			"Pass the headers of the request on unchanged. "+adviceAddress)
	}
	if c.input != credentials {
		s.Errorf("%s: the service got %+v, want the credentials of the headers User-Id and User-Hash\n%s", a.what, c.input,
			"Pass the headers of the request on unchanged.")
	}
	if got := a.header.Values("X-Request-Id"); len(got) != 1 || got[0] != want.RequestID {
		s.Errorf("%s: got X-Request-Id %q, want that of the request, once\n%s", a.what, got, adviceHeaders)
	}
}

func repeatedHeaders(p *probe) {
	s := p.open(nil)
	header := credentialHeaders(credentials)
	header["User-Id"] = append([]string{"1"}, header["User-Id"]...)
	a := s.do(request{path: "profile/", header: header})
	if c, ok := s.taken(a, personal.OpProfile, adviceDispatch); ok && c.input != (personal.Credentials{}) {
		s.Errorf("%s with two headers User-Id: the service got %+v, want no credentials\n%s", a.what, c.input,
			"Keep all values of a header. If the server cannot do it, declare WithoutRepeatedHeaders.")
	}
}

func cancellation(p *probe) {
	called, done := make(chan struct{}, 1), make(chan error, 1)
	ended := make(chan struct{})
	p.Cleanup(func() { close(ended) })
	s := p.open(func(ctx context.Context) error {
		called <- struct{}{}
		select {
		case <-ctx.Done():
			done <- context.Cause(ctx)
		case <-ended:
		}
		return personal.NewError(personal.CodeUnavailable, ctx.Err())
	})
	ctx, hangUp := context.WithCancel(context.Background())
	defer hangUp()
	r := s.build(request{method: http.MethodPost, path: "auth/", mediaType: "application/json", body: strings.NewReader(`{"login":"a"}`)})
	response := make(chan error, 1)
	go func() {
		res, err := s.client.Do(r.WithContext(ctx))
		if err == nil {
			_ = res.Body.Close()
			err = fmt.Errorf("got %s", res.Status)
		}
		response <- err
	}()
	select {
	case <-called:
	case err := <-response:
		s.noResponse("POST auth/", fmt.Errorf("the service got no call: %w", err), adviceDispatch)
	}
	hangUp()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			s.Errorf("POST auth/: after the client had hung up, the context of the call ended with %q, want it to be cancelled\n%s", err,
				adviceCancel)
		}
	case <-time.After(s.patience):
		s.Errorf("POST auth/: the call went on for %s after the client had hung up, want its context to be cancelled\n%s", s.patience,
			adviceCancel)
	}
}

func retainedValues(p *probe) {
	s := p.open(nil)
	do := func(letter string) {
		header := http.Header{"User-Agent": {strings.Repeat(letter, 50)}, "X-Request-Id": {strings.Repeat(letter, 30)}, "User-Id": {"1"},
			"User-Hash": {strings.Repeat(letter, 43)}}
		s.do(request{method: http.MethodPost, path: "password/", header: header, mediaType: "application/json",
			body: jsonBody(map[string]string{"password": strings.Repeat(letter, 40)})})
	}
	do("a")
	first := s.take()
	for range 20 {
		do("b")
	}
	for _, c := range first {
		if now := c.describe(); now != c.text {
			s.Errorf("POST password/: the service got %s, but after other requests the same values are %s\n%s", excerpt(c.text), excerpt(now),
				adviceCopy)
		}
	}
}

func panics(p *probe) {
	s := p.open(func(context.Context) error { panic("the secret of a panic") })
	for _, r := range []request{
		{method: http.MethodPost, path: "auth/", mediaType: "application/json", body: strings.NewReader(`{"login":"a"}`)},
		{path: "profile", header: credentialHeaders(credentials)},
	} {
		a := s.do(r)
		s.wantError(a, http.StatusInternalServerError, personal.CodeInternal, adviceError)
		if strings.Contains(a.body, "secret of a panic") {
			s.Errorf("%s: the response shows the value of a panic: %s\n%s", a.what, excerpt(a.body), adviceError)
		}
	}
	reused := false
	next := s.build(request{path: "unknown/"})
	next = next.WithContext(httptrace.WithClientTrace(next.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }}))
	a := s.send(s.client, next)
	if !reused {
		s.Errorf("%s after a panic of the service: the connection was closed, want it to stay usable\n%s", a.what, adviceError)
	}
}

func serviceErrors(p *probe) {
	for _, want := range []struct {
		err        *personal.Error
		status     int
		retryAfter string
	}{
		{personal.NewError(personal.CodeInvalidCredentials, nil), http.StatusUnauthorized, ""},
		{personal.NewError(personal.CodeAccountDisabled, nil), http.StatusForbidden, ""},
		{personal.NewError(personal.CodeNotFound, nil), http.StatusNotFound, ""},
		{personal.NewError(personal.CodeAlreadyExists, nil), http.StatusConflict, ""},
		{personal.NewError(personal.CodeValidationFailed, nil), http.StatusUnprocessableEntity, ""},
		{&personal.Error{Code: personal.CodeTooManyAttempts, RetryAfter: 90 * time.Second}, http.StatusTooManyRequests, "90"},
		{personal.NewError(personal.CodeInternal, errors.New("the secret of an error")), http.StatusInternalServerError, ""},
		{&personal.Error{Code: personal.CodeUnavailable, RetryAfter: 7 * time.Second}, http.StatusServiceUnavailable, "7"},
	} {
		s := p.open(func(context.Context) error { return want.err })
		a := s.do(request{method: http.MethodPost, path: "auth/"})
		s.taken(a, personal.OpAuthorize, "The service must get a call once: nothing may repeat it.")
		s.wantError(a, want.status, want.err.Code, adviceError)
		if got := strings.Join(a.header.Values("Retry-After"), " and "); got != want.retryAfter {
			s.Errorf("%s: got Retry-After %q, want %q\n%s", a.what, got, want.retryAfter, adviceHeaders)
		}
		if strings.Contains(a.body, "secret of an error") {
			s.Errorf("%s: the response shows the cause of an error: %s\n%s", a.what, excerpt(a.body), adviceError)
		}
	}
}

func crossOrigin(p *probe) {
	s := p.open(nil)
	const unlisted = "https://unlisted.example"
	preflight := func(origin string) reply {
		a := s.do(request{method: http.MethodOptions, path: "auth/", header: http.Header{
			"Origin": {origin}, "Access-Control-Request-Method": {"POST"}, "Access-Control-Request-Headers": {"user-id,user-hash"},
		}})
		a.what = "preflight of POST auth/ from " + origin
		return a
	}
	simple := func(origin string) reply {
		a := s.do(request{method: http.MethodPost, path: "auth/", header: http.Header{"Origin": {origin}}})
		a.what += " from " + origin
		return a
	}
	refused := preflight(unlisted)
	s.wantError(refused, http.StatusMethodNotAllowed, personal.CodeMethodNotAllowed, adviceCORS)
	for _, a := range []reply{refused, simple(unlisted)} {
		for name, values := range a.header {
			if strings.HasPrefix(name, "Access-Control-") {
				s.Errorf("%s: got %s %q, want no header of CORS for an origin that is not listed\n%s", a.what, name, values, adviceCORS)
			}
		}
	}
	foreignPosts(s, simple)
	if s.origin == "" {
		return
	}
	allowed := preflight(s.origin)
	if allowed.status != http.StatusNoContent || allowed.body != "" {
		s.Errorf("%s: got %d %s, want 204 without a body\n%s", allowed.what, allowed.status, excerpt(allowed.body), adviceCORS)
	}
	for _, want := range []struct {
		a           reply
		name, value string
	}{
		{allowed, "Access-Control-Allow-Origin", s.origin},
		{allowed, "Access-Control-Allow-Methods", "POST"},
		{allowed, "Access-Control-Allow-Headers", "Content-Type, User-Id, User-Hash, X-Request-Id, Accept-Language, traceparent, tracestate, baggage, sentry-trace, X-Requested-With"},
		{allowed, "Access-Control-Allow-Credentials", ""},
		{simple(s.origin), "Access-Control-Allow-Origin", s.origin},
		{simple(s.origin), "Access-Control-Expose-Headers", "X-Request-Id, Retry-After"},
		{simple(s.origin), "Access-Control-Allow-Credentials", ""},
	} {
		if got := strings.Join(want.a.header.Values(want.name), " and "); got != want.value {
			s.Errorf("%s: got %s %q, want %q\n%s", want.a.what, want.name, got, want.value, adviceCORS)
		}
	}
}

// foreignPosts checks that posts of other origins are refused by the API, and that nothing
// refuses what it accepts.
func foreignPosts(s *site, from func(origin string) reply) {
	s.Helper()
	s.take()
	send := func(method, path string, header http.Header) reply {
		a := s.do(request{method: method, path: path, header: header})
		a.what += fmt.Sprintf(" with Sec-Fetch-Site %q and Origin %q", header.Get("Sec-Fetch-Site"), header.Get("Origin"))
		return a
	}
	const other = "https://unlisted.example"
	for _, a := range []reply{
		from(other),
		send(http.MethodPost, "auth/", http.Header{"Sec-Fetch-Site": {"cross-site"}}),
		send(http.MethodPost, "auth/", http.Header{"Sec-Fetch-Site": {"same-site"}, "Origin": {other}}),
	} {
		s.wantError(a, http.StatusForbidden, personal.CodeCrossOrigin, adviceOrigin)
		s.wantNoCall(a, adviceOrigin)
	}
	s.wantSuccess(send(http.MethodGet, "fields/", http.Header{"Sec-Fetch-Site": {"cross-site"}}), adviceOrigin)
	accepted := []http.Header{
		{}, {"Sec-Fetch-Site": {"same-origin"}}, {"Sec-Fetch-Site": {"none"}}, {"Origin": {"http://" + s.listener.Addr().String()}},
	}
	if s.origin != "" {
		accepted = append(accepted, http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {s.origin}})
	}
	for _, header := range accepted {
		s.wantSuccess(send(http.MethodPost, "auth/", header), adviceOrigin)
	}
}

func responseHeaders(p *probe) {
	s := p.open(nil)
	for _, a := range []reply{
		s.do(request{method: http.MethodPost, path: "auth/"}),
		s.do(request{path: "profile", header: credentialHeaders(credentials)}),
		s.do(request{path: "auth/"}),
		s.do(request{path: "unknown/"}),
		s.do(request{method: http.MethodPost, path: "auth/", mediaType: "text/plain", body: strings.NewReader("a")}),
		s.do(request{path: "openapi.json"}),
	} {
		for name, want := range map[string]string{
			"Content-Type":            "application/json; charset=utf-8",
			"Cache-Control":           "no-store",
			"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
			"X-Content-Type-Options":  "nosniff",
		} {
			if got := a.header.Values(name); len(got) != 1 || got[0] != want {
				s.Errorf("%s: got %s %q, want %q once\n%s", a.what, name, got, want, adviceHeaders)
			}
		}
		if got := a.header.Values("X-Request-Id"); len(got) != 1 || got[0] == "" {
			s.Errorf("%s: got X-Request-Id %q, want one\n%s", a.what, got, adviceHeaders)
		}
		if vary := strings.Join(a.header.Values("Vary"), ","); !strings.Contains(vary, "Accept-Language") {
			s.Errorf("%s: got Vary %q, want Accept-Language in it\n%s", a.what, vary, adviceHeaders)
		}
	}
	ids := map[string]bool{}
	for range 3 {
		ids[s.do(request{path: "unknown/", header: http.Header{"X-Request-Id": {"not valid!"}}}).header.Get("X-Request-Id")] = true
	}
	if len(ids) != 3 || ids["not valid!"] {
		s.Errorf("GET unknown/ with an invalid X-Request-Id: got the ids %q for 3 requests, want a new one for each\n%s",
			slices.Sorted(maps.Keys(ids)), adviceHeaders)
	}
}

func responseBodies(p *probe) {
	s := p.open(nil)
	header := http.Header{"Accept-Encoding": {"gzip, deflate, br, zstd"}, "Accept": {"text/html"}, "Accept-Language": {"en"}}
	a := s.do(request{path: "fields/", header: header})
	if encoding := a.header.Get("Content-Encoding"); encoding != "" {
		s.Errorf("%s: got a response with Content-Encoding %q, want it as the API writes it: the length of compressed responses can give away secrets\n%s", a.what, encoding, adviceBody)
		return
	}
	s.wantSuccess(a, adviceBody)
	fields, _ := a.envelope.Data["fields"].([]any)
	if len(fields) != len(manyFields) {
		s.Errorf("%s: got %d of %d fields in a response of %d bytes\n%s", a.what, len(fields), len(manyFields), len(a.body), adviceBody)
	}
	small := s.do(request{method: http.MethodPost, path: "auth/", header: header})
	want := fmt.Sprintf(`"data":{"user_id":%d,"user_hash":"%s","user_profile":{"login":"%s","name":null,"email":"%s"},"email_verified":false,"two_factor":false,"has_password":true}}`,
		credentials.UserID, credentials.UserHash, login, profile.Email)
	if !strings.HasPrefix(small.body, `{"success":1,"result":{"TYPE":"OK"`) || !strings.HasSuffix(small.body, want) {
		s.Errorf("%s: got the body %s, want an envelope that ends with %s\n%s", small.what, small.body, want, adviceBody)
	}
}

// twoUsers calls each GET twice: what is cached for one user would be shown to the other.
func twoUsers(p *probe) {
	s := p.open(nil)
	for _, e := range personalhttp.Endpoints() {
		if !slices.Contains(e.Methods, http.MethodGet) {
			continue
		}
		for _, user := range users {
			a := s.do(request{path: e.Path + "/", header: credentialHeaders(user.Credentials)})
			a.what += fmt.Sprintf(" of user %d", user.UserID)
			c, ok := s.taken(a, e.Operation, adviceCache)
			if got, identified := c.input.(personal.Credentials); ok && identified && got != user.Credentials {
				s.Errorf("%s: the service got %+v, want the credentials of the request\n%s", a.what, got, adviceCache)
			}
			if e.Operation == personal.OpProfile && !strings.Contains(a.body, user.login) {
				s.Errorf("%s: got %s, want the login %q\n%s", a.what, excerpt(a.body), user.login, adviceCache)
			}
		}
	}
}

// visit requests the guarded page with credentials, unless they are zero.
func (s *site) visit(header http.Header, c personal.Credentials) reply {
	s.Helper()
	r := s.build(request{path: s.page, header: header})
	if c != (personal.Credentials{}) {
		s.sign(r, c)
	}
	return s.send(s.client, r)
}

func isSuccess(status int) bool { return 200 <= status && status < 300 }

func guardedPage(p *probe) {
	s := p.open(nil)
	for _, user := range users {
		a := s.visit(nil, user.Credentials)
		if !isSuccess(a.status) || !strings.Contains(a.body, user.login) {
			s.Fatalf("%s of a signed-in user: got %d %s, want success and a page with the login %q\n%s %s", a.what, a.status, excerpt(a.body),
				user.login, adviceGuard, adviceCache)
		}
		if c, ok := s.taken(a, personal.OpProfile, "RequireUser must verify each request. "+adviceGuard); ok && c.input != user.Credentials {
			s.Errorf("%s: RequireUser verified %+v, want the credentials of the request\n%s", a.what, c.input, adviceGuard)
		}
		if a.header.Get("X-Request-Id") == "" {
			s.Errorf("%s: got no X-Request-Id, want one\n%s", a.what, adviceHeaders)
		}
	}
	strangers := []personal.Credentials{{}, {UserID: credentials.UserID, UserHash: "malformed"}}
	for _, c := range strangers {
		a := s.visit(nil, c)
		s.wantRejected(a, fmt.Sprintf("with the credentials %+v", c))
		s.wantNoCall(a, adviceGuard)
	}
	for _, code := range []personal.Code{personal.CodeUnauthenticated, personal.CodeUnavailable, personal.CodeInternal} {
		s := p.open(func(context.Context) error { return personal.NewError(code, nil) })
		s.wantRejected(s.visit(nil, credentials), fmt.Sprintf("whose verification ends with %q", code))
	}
	s = p.open(func(context.Context) error { panic("the secret of a panic") })
	s.wantRejected(s.visit(nil, credentials), "whose verification panics")
}

func (s *site) wantRejected(a reply, who string) {
	s.Helper()
	if isSuccess(a.status) || strings.Contains(a.body, login) {
		s.Errorf("%s of a user %s: got %d %s, want it to be rejected\n%s", a.what, who, a.status, excerpt(a.body),
			"The page is not behind RequireUser. "+adviceGuard)
	}
}
