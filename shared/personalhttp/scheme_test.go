package personalhttp_test

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/cms-personal/personal/shared/personalhttp"
)

func TestOverHTTPS_TrustedProxiesOnly(t *testing.T) {
	h, err := personalhttp.New(everything(), personalhttp.Options{TrustedProxies: prefixes("10.0.0.0/8", "fd00::/8"), Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	const proxy, stranger = "10.0.0.1:1234", "192.0.2.1:99"
	for name, c := range map[string]struct {
		remote         string
		old, forwarded []string
		want           bool
	}{
		"no header":                             {proxy, nil, nil, false},
		"https":                                 {proxy, []string{"https"}, nil, true},
		"https in capitals, with space":         {proxy, []string{" HTTPS\t"}, nil, true},
		"a proxy with IPv4 in IPv6":             {"[::ffff:10.0.0.1]:99", []string{"https"}, nil, true},
		"a proxy with a zone":                   {"[fd00::1%eth0]:99", []string{"https"}, nil, true},
		"http":                                  {proxy, []string{"http"}, nil, false},
		"an empty value":                        {proxy, []string{""}, nil, false},
		"another scheme":                        {proxy, []string{"wss"}, nil, false},
		"two values":                            {proxy, []string{"https, http"}, nil, false},
		"two equal values":                      {proxy, []string{"https,https"}, nil, false},
		"two lines":                             {proxy, []string{"https", "https"}, nil, false},
		"Forwarded":                             {proxy, nil, []string{"for=203.0.113.9;proto=https"}, true},
		"Forwarded, quoted":                     {proxy, nil, []string{`Proto="HTTPS";by=_x`}, true},
		"Forwarded with http":                   {proxy, nil, []string{"for=203.0.113.9;proto=http"}, false},
		"Forwarded without a scheme":            {proxy, nil, []string{"for=203.0.113.9"}, false},
		"Forwarded with two elements":           {proxy, nil, []string{"proto=https, proto=https"}, false},
		"Forwarded, only the first has one":     {proxy, nil, []string{"for=192.0.2.9;proto=https, for=203.0.113.9"}, false},
		"Forwarded in two lines":                {proxy, nil, []string{"proto=https", "for=203.0.113.9"}, false},
		"Forwarded within another's quotes":     {proxy, nil, []string{`for="_x;proto=https"`}, false},
		"Forwarded that breaks the grammar":     {proxy, nil, []string{`proto=https;for="`}, false},
		"both agree":                            {proxy, []string{"https"}, []string{"proto=https"}, true},
		"both disagree":                         {proxy, []string{"https"}, []string{"proto=http"}, false},
		"both disagree the other way":           {proxy, []string{"http"}, []string{"proto=https"}, false},
		"https beside Forwarded without scheme": {proxy, []string{"https"}, []string{"for=203.0.113.9"}, true},
		"https beside an unreadable Forwarded":  {proxy, []string{"https"}, []string{`for="`}, false},
		"an unlisted sender":                    {stranger, []string{"https"}, []string{"proto=https"}, false},
		"a unix socket":                         {"@", []string{"https"}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = c.remote
			r.Header = http.Header{"X-Forwarded-Proto": c.old, "Forwarded": c.forwarded}
			if got := h.OverHTTPS(r); got != c.want {
				t.Errorf("OverHTTPS = %t, want %t", got, c.want)
			}
			r.TLS = &tls.ConnectionState{}
			if !h.OverHTTPS(r) {
				t.Error("a TLS connection counts as plain")
			}
		})
	}
}
