package personalhttp_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personalhttp"
)

func TestRouting_PathsAcceptOnlyTheirMethods(t *testing.T) {
	for _, base := range []string{"", "/x", "/a/b-c"} {
		s := newSite(t, everything(), personalhttp.Options{BasePath: base})
		for name, allow := range personalhttp.Routes() {
			for _, slash := range []string{"", "/"} {
				path := base + prefix + name + slash
				for _, method := range []string{"GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "FOO"} {
					a := s.do(method, path, "", "")
					if strings.Contains(allow, method) {
						a.want(t, 200, "")
						continue
					}
					if method == "HEAD" {
						a.Result.Code = "method_not_allowed" // a HEAD response has no body
					}
					a.want(t, 405, personal.CodeMethodNotAllowed)
					if got := a.Header.Get("Allow"); got != allow {
						t.Errorf("%s %s: got Allow %q, want %q", method, path, got, allow)
					}
				}
			}
		}
	}
}

// everything is a service whose operations all succeed.
func everything() *personaltest.Service {
	return &personaltest.HandledBy(func(context.Context, personal.OperationName, any) (any, error) { return nil, nil }).Service
}

func TestRouting_UnusualPathIsNotFound(t *testing.T) {
	s := newSite(t, everything(), personalhttp.Options{})
	for _, path := range []string{
		"/api/v1/personal", "/api/v1/personal/", "/api/v1/personal//", "/api/v1/personal//auth/",
		"/api/v1/personal/auth//", "/api/v1/personal/./auth/", "/api/v1/personal/x/../auth/",
		"/api/v1/personal/%61uth/", "/api/v1/personal%2Fauth/", "/api/v1/personal/auth%2F", "/api/v1/personal/auth%2f",
		"/api/v1/personal/..%2fauth", "/api/v1/personal/auth/x", "/api/v1/personal/Auth/", "/api/v1/personal/auth;x",
		"/api/v1/personal/auth%00", "/api/v1/personal/nothing/", "/api/v1/personal/auth%20", "/%61pi/v1/personal/auth/",
		"//api/v1/personal/auth/", "/api/v1/personalauth/", "/elsewhere",
	} {
		a := s.raw(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", path))
		if a.want(t, 404, personal.CodeNotFound); t.Failed() {
			t.Fatalf("path %s", path)
		}
	}
}

func TestMatches_PrefixOnly(t *testing.T) {
	h, err := personalhttp.New(noService(), personalhttp.Options{BasePath: "/x"})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		"/x/api/v1/personal":           true,
		"/x/api/v1/personal/":          true,
		"/x/api/v1/personal//auth":     true,
		"/x/api/v1/personal/../admin":  true,
		"/x/api/v1/personal%2Fauth":    true,
		"/x/api/v1/personal/nothing":   true,
		"/x/api/v1/personality":        false,
		"/x/api/v1/":                   false,
		"/api/v1/personal/auth/":       false,
		"/x/x/api/v1/personal/auth":    false,
		"/?/x/api/v1/personal/auth":    false,
		"/x//api/v1/personal/register": false,
	} {
		if got := h.Matches(httptest.NewRequest(http.MethodGet, path, nil)); got != want {
			t.Errorf("%s: got %t, want %t", path, got, want)
		}
	}
}

func TestFront_PassesOtherPathsUnchanged(t *testing.T) {
	service := &personaltest.Service{FieldsFunc: func(context.Context) ([]personal.Field, error) { return nil, nil }}
	h, err := personalhttp.New(service, personalhttp.Options{Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.URL.Path)
		w.WriteHeader(http.StatusTeapot)
	})
	for _, test := range []struct {
		path       string
		front      http.Handler
		wantStatus int
	}{
		{"/api/v1/personal/fields/", h.Front(next), http.StatusOK},
		{"/api/v1/personal//fields/", h.Front(next), http.StatusNotFound}, // the API's own
		{"/a//../b", h.Front(next), http.StatusTeapot},
		{"/a", h.Front(nil), http.StatusNotFound},
	} {
		w := httptest.NewRecorder()
		test.front.ServeHTTP(w, httptest.NewRequest(http.MethodGet, test.path, nil))
		if w.Code != test.wantStatus {
			t.Errorf("%s: got status %d, want %d", test.path, w.Code, test.wantStatus)
		}
	}
	if !slices.Equal(got, []string{"/a//../b"}) {
		t.Errorf("next got %v, want one path as it was sent", got)
	}
}

func TestNew_RejectsInvalidOptions(t *testing.T) {
	for name, o := range map[string]personalhttp.Options{
		"URL without a scheme":       {URL: "www.example.com"},
		"URL without a host":         {URL: "https:///account"},
		"URL of another scheme":      {URL: "ftp://www.example.com"},
		"URL that cannot be read":    {URL: "https://www.example.com/%"},
		"base path without slash":    {BasePath: "x"},
		"base path with final slash": {BasePath: "/x/"},
		"base path of a slash":       {BasePath: "/"},
		"base path with dots":        {BasePath: "/.."},
		"base path with an escape":   {BasePath: "/%78"},
		"base path with a newline":   {BasePath: "/x\n"},
		"no locale":                  {DefaultLocale: "!"},
		"default without messages":   {DefaultLocale: "ja"},
		"locale without messages":    {Locales: []string{"en", "ja"}},
		"default that is no locale":  {Locales: []string{"de"}, DefaultLocale: "en"},
		"any origin":                 {CORSOrigins: []string{"*"}},
		"own origin with a path":     {Origins: []string{"https://example.com/"}},
		"null origin":                {CORSOrigins: []string{"null"}},
		"origin pattern":             {CORSOrigins: []string{"https://*.example.com"}},
		"origin with a path":         {CORSOrigins: []string{"https://example.com/"}},
		"origin with capitals":       {CORSOrigins: []string{"https://Example.com"}},
		"origin with default port":   {CORSOrigins: []string{"https://example.com:443"}},
		"origin with a user":         {CORSOrigins: []string{"https://u@example.com"}},
		"empty origin":               {CORSOrigins: []string{""}},
		"zero prefix":                {TrustedProxies: prefixes("", "")},
		"mapped prefix":              {TrustedProxies: prefixes("::ffff:10.0.0.0/104")},
		"forwarded header":           {ForwardedHeader: "X-Real-IP"},
		"negative timeout":           {Timeout: -1},
	} {
		if _, err := personalhttp.New(noService(), o); err == nil {
			t.Errorf("%s: got no error, want one", name)
		}
	}
	if _, err := personalhttp.New(nil, personalhttp.Options{}); err == nil {
		t.Error("no service: got no error, want one")
	}
	for _, locale := range []string{"", "en", "ru", "en-GB", "ru-RU"} {
		if _, err := personalhttp.New(noService(), personalhttp.Options{DefaultLocale: locale}); err != nil {
			t.Errorf("locale %q: %v", locale, err)
		}
	}
}

func TestCall_ClientAddress(t *testing.T) {
	for name, c := range map[string]struct {
		options   personalhttp.Options
		address   string
		untrusted bool
	}{
		"no trusted proxy":            {personalhttp.Options{}, "10.0.0.1", true},
		"trusted proxy":               {personalhttp.Options{TrustedProxies: prefixes("10.0.0.0/8")}, "192.0.2.7", false},
		"trusted proxy, by Forwarded": {personalhttp.Options{TrustedProxies: prefixes("10.0.0.0/8"), ForwardedHeader: "Forwarded"}, "192.0.2.8", false},
	} {
		t.Run(name, func(t *testing.T) {
			var got personal.Call
			s := everything()
			s.FieldsFunc = func(ctx context.Context) ([]personal.Field, error) {
				got = personal.CallFrom(ctx)
				return nil, nil
			}
			c.options.Log = quiet()
			h, err := personalhttp.New(s, c.options)
			if err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequest(http.MethodGet, prefix+"fields/", nil)
			r.RemoteAddr = "10.0.0.1:1"
			r.Header = http.Header{"X-Forwarded-For": {"192.0.2.7"}, "Forwarded": {"for=192.0.2.8"}}
			h.ServeHTTP(httptest.NewRecorder(), r)
			if got.Address != netip.MustParseAddr(c.address) || got.Shared != c.untrusted || h.UntrustedProxy() != c.untrusted {
				t.Errorf("got %s, shared %t, untrusted proxy %t; want %s, %[5]t, %[5]t", got.Address, got.Shared, h.UntrustedProxy(), c.address,
					c.untrusted)
			}
		})
	}
}

func TestOverHTTPS_URLOrConnection(t *testing.T) {
	const proxy, stranger, local = "10.0.0.1:1", "192.0.2.1:1", "127.0.0.1:1"
	const page = "https://www.example.com:8443/a%2Fb?c=d"
	for name, tt := range map[string]struct {
		url    string
		always bool
		sender string
		scheme string // that the sender says; "" for nothing
		https  bool
		secure string
	}{
		"no URL, trusted proxy, https":    {"", false, proxy, "https", true, ""},
		"no URL, trusted proxy, http":     {"", false, proxy, "http", false, ""},
		"no URL, trusted proxy, silent":   {"", false, proxy, "", false, ""},
		"no URL, another sender, https":   {"", false, stranger, "https", false, ""},
		"no URL, direct":                  {"", false, stranger, "", false, ""},
		"no URL, always":                  {"", true, stranger, "", true, ""},
		"http URL, trusted proxy, https":  {"http://localhost:8080/account", false, proxy, "https", true, ""},
		"http URL, loopback":              {"http://localhost:8080/account", false, local, "", false, ""},
		"https URL, trusted proxy, https": {"HTTPS://www.example.com:8443/account", false, proxy, "https", true, ""},
		"https URL, trusted proxy, http":  {"https://www.example.com:8443/account", false, proxy, "http", true, page},
		"https URL, silent proxy":         {"https://www.example.com:8443/account", false, proxy, "", true, ""},
		"https URL, unnamed proxy, https": {"https://www.example.com:8443/account", false, stranger, "https", true, ""},
		"https URL, unnamed proxy, http":  {"https://www.example.com:8443/account", false, stranger, "http", true, ""},
		"https URL, direct":               {"https://www.example.com:8443", false, stranger, "", true, page},
		"https URL, direct, always":       {"https://www.example.com:8443", true, stranger, "", true, ""},
		"https URL, loopback":             {"https://www.example.com:8443", false, local, "", true, ""},
	} {
		h, err := personalhttp.New(noService(), personalhttp.Options{URL: tt.url, AlwaysHTTPS: tt.always, TrustedProxies: prefixes("10.0.0.0/8"), Log: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodGet, "http://other.example/a%2Fb?c=d", nil)
		r.RemoteAddr = tt.sender
		if tt.scheme != "" {
			r.Header.Set("X-Forwarded-Proto", tt.scheme)
		}
		if got, secure := h.OverHTTPS(r), h.SecureURL(r); got != tt.https || secure != tt.secure {
			t.Errorf("%s: got HTTPS %t and %q, want %t and %q", name, got, secure, tt.https, tt.secure)
		}
		if r.TLS = (&tls.ConnectionState{}); !h.OverHTTPS(r) || h.SecureURL(r) != "" {
			t.Errorf("%s, TLS connection: want HTTPS", name)
		}
	}
}

// A request line can have a URL that is no path: a browser is not led to another host by it.
func TestSecureURL_IsOfTheSite(t *testing.T) {
	h, err := personalhttp.New(noService(), personalhttp.Options{URL: "https://www.example.com", Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]string{
		"http:.evil.example": "https://www.example.com", "http://evil.example/a": "https://www.example.com/a",
		"//evil.example/a": "https://www.example.com//evil.example/a", "*": "https://www.example.com/*",
	} {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + target + " HTTP/1.1\r\nHost: evil.example\r\n\r\n")))
		if err != nil {
			t.Fatal(err)
		}
		r.RemoteAddr = "192.0.2.1:1"
		if got := h.SecureURL(r); got != want {
			t.Errorf("%s: got %q, want %q", target, got, want)
		}
	}
}

func TestObserve_ReportsContractStatusAndCode(t *testing.T) {
	for name, alwaysOK := range map[string]bool{"statuses": false, "always 200": true} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var got []personalhttp.Observation
			s := newSite(t, failing(personal.NewError(personal.CodeUnavailable, nil)), personalhttp.Options{
				AlwaysOK: alwaysOK,
				Observe: func(o personalhttp.Observation) {
					mu.Lock()
					defer mu.Unlock()
					if o.Took <= 0 {
						t.Errorf("got %+v, want a positive duration", o)
					}
					o.Took = 0
					got = append(got, o)
				},
			})
			s.do("GET", prefix+"fields/", "", "")
			s.do("GET", prefix+"auth", "", "")
			s.do("GET", prefix+"made-up", "", "")
			s.Close() // the last request has finished
			want := []personalhttp.Observation{
				{Operation: "fields", Status: 503, Code: personal.CodeUnavailable},
				{Operation: "auth", Status: 405, Code: personal.CodeMethodNotAllowed},
				{Status: 404, Code: personal.CodeNotFound},
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}
