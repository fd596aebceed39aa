package clientip_test

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/cms-personal/personal/shared/personalhttp/internal/clientip"
)

var trusted = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}

func resolver(t testing.TB, trusted []netip.Prefix, header string, log *bytes.Buffer) *clientip.Resolver {
	t.Helper()
	c, err := clientip.New(trusted, header, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// request returns a request with these header lines.
func request(remote string, xff, forwarded []string) *http.Request {
	return &http.Request{RemoteAddr: remote, Header: http.Header{"X-Forwarded-For": xff, "Forwarded": forwarded}}
}

// addressText returns "" for the zero Addr.
func addressText(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

func TestNew_ValidatesArguments(t *testing.T) {
	for name, c := range map[string]struct {
		trusted netip.Prefix
		header  string
		valid   bool
	}{
		"no header":         {trusted[0], "", true},
		"X-Forwarded-For":   {trusted[0], "x-forwarded-for", true},
		"Forwarded":         {trusted[0], "FORWARDED", true},
		"another header":    {trusted[0], "X-Real-IP", false},
		"zero prefix":       {netip.Prefix{}, "", false},
		"mapped prefix":     {netip.MustParsePrefix("::ffff:10.0.0.0/104"), "", false},
		"every IPv6 sender": {netip.MustParsePrefix("::/0"), "", true},
	} {
		if _, err := clientip.New([]netip.Prefix{c.trusted}, c.header, slog.New(slog.DiscardHandler)); (err == nil) != c.valid {
			t.Errorf("%s: got %v, want valid %t", name, err, c.valid)
		}
	}
}

func TestClient_Address(t *testing.T) {
	const proxy = "10.0.0.1:1234"
	for _, c := range []struct {
		name, remote string
		header       string   // the header that is believed
		lines        []string // of that header
		other        []string // of the other header
		want         string
	}{
		{"direct caller", "192.0.2.1:99", "", nil, nil, "192.0.2.1"},
		{"direct caller with invented hops", "192.0.2.1:99", "", []string{"1.1.1.1"}, []string{"for=2.2.2.2"}, "192.0.2.1"},
		{"IPv4 in IPv6", "[::ffff:192.0.2.1]:99", "", nil, nil, "192.0.2.1"},
		{"zone", "[fe80::1%eth0]:99", "", nil, nil, "fe80::1"},
		{"unix socket", "@", "", nil, nil, ""},
		{"proxy without a header", proxy, "", nil, nil, "10.0.0.1"},
		{"mapped proxy", "[::ffff:10.0.0.1]:1", "", []string{"192.0.2.7"}, nil, "192.0.2.7"},

		{"one hop", proxy, "", []string{"192.0.2.7"}, nil, "192.0.2.7"},
		{"rightmost untrusted hop", proxy, "", []string{"6.6.6.6, 192.0.2.7 ,10.0.0.2"}, nil, "192.0.2.7"},
		{"hops over several lines", proxy, "", []string{"6.6.6.6", "192.0.2.7, 10.0.0.2"}, nil, "192.0.2.7"},
		{"trusted hops alone", proxy, "", []string{"10.0.0.3, 10.0.0.2"}, nil, "10.0.0.3"},
		{"unreadable hop ends the walk", proxy, "", []string{"192.0.2.7, what, 10.0.0.2"}, nil, "10.0.0.2"},
		{"empty hop ends the walk", proxy, "", []string{"192.0.2.7,"}, nil, "10.0.0.1"},
		{"hop with a port", proxy, "", []string{"192.0.2.7:4711"}, nil, "192.0.2.7"},
		{"IPv6 hop with a port", proxy, "", []string{"[2001:db8::1]:4711"}, nil, "2001:db8::1"},
		{"IPv6 hop in brackets", proxy, "", []string{"[2001:db8::1]"}, nil, "2001:db8::1"},
		{"hop with a zone", proxy, "", []string{"fe80::1%eth0"}, nil, "fe80::1"},
		{"mapped hop", proxy, "", []string{"::ffff:192.0.2.7, ::ffff:10.0.0.9"}, nil, "192.0.2.7"},

		{"standard hop", proxy, "Forwarded", []string{"for=192.0.2.7"}, nil, "192.0.2.7"},
		{"quoted hop", proxy, "Forwarded", []string{`For="[2001:db8::1]:4711";proto=https;by=10.0.0.1`}, nil, "2001:db8::1"},
		{"escaped hop", proxy, "Forwarded", []string{`for="192.0\.2.7"`}, nil, "192.0.2.7"},
		{"port without quotes", proxy, "Forwarded", []string{"for=192.0.2.7:4711"}, nil, "192.0.2.7"},
		{"several standard hops", proxy, "Forwarded", []string{"for=6.6.6.6, proto=http; for=192.0.2.7,for=10.0.0.2"}, nil, "192.0.2.7"},
		{"unknown hop", proxy, "Forwarded", []string{"for=192.0.2.7, for=unknown, for=10.0.0.2"}, nil, "10.0.0.2"},
		{"obfuscated hop", proxy, "Forwarded", []string{"for=_hidden"}, nil, "10.0.0.1"},
		{"hop without for", proxy, "Forwarded", []string{"for=192.0.2.7, proto=https"}, nil, "10.0.0.1"},
		{"quote left open before a proxy's hop", proxy, "Forwarded", []string{`for=6.6.6.6;x=", for=192.0.2.7`}, nil, "10.0.0.1"},
		{"quote left open on another line", proxy, "Forwarded", []string{`for="6.6.6.6`, "for=192.0.2.7"}, nil, "192.0.2.7"},
		{"unreadable line hides those before it", proxy, "Forwarded", []string{"for=6.6.6.6", `for="192.0.2.7`}, nil, "10.0.0.1"},
		{"hop named twice", proxy, "Forwarded", []string{"for=6.6.6.6;for=192.0.2.7"}, nil, "10.0.0.1"},

		{"invented Forwarded beside X-Forwarded-For", proxy, "", []string{"192.0.2.7"}, []string{"for=6.6.6.6"}, "192.0.2.7"},
		{"invented X-Forwarded-For beside Forwarded", proxy, "Forwarded", []string{"for=192.0.2.7"}, []string{"6.6.6.6"}, "192.0.2.7"},
		{"Forwarded alone, not believed", proxy, "", nil, []string{"for=192.0.2.7"}, "10.0.0.1"},
		{"X-Forwarded-For alone, not believed", proxy, "Forwarded", nil, []string{"192.0.2.7"}, "10.0.0.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			xff, forwarded := c.lines, c.other
			if c.header == clientip.Forwarded {
				xff, forwarded = c.other, c.lines
			}
			address, shared := resolver(t, trusted, c.header, &bytes.Buffer{}).Client(request(c.remote, xff, forwarded))
			if got := addressText(address); got != c.want || shared {
				t.Errorf("got %q, shared %t; want %q, not shared", got, shared, c.want)
			}
		})
	}
}

// Each case sends its request twice and gets one warning.
func TestClient_Warnings(t *testing.T) {
	const (
		untrusted = "no proxy is trusted"
		otherSent = "not believed"
	)
	hop, standard := []string{"203.0.113.9"}, []string{"for=203.0.113.9"}
	for name, c := range map[string]struct {
		trusted        []netip.Prefix
		remote         string
		xff, forwarded []string
		warning, named string // what the log says, and the address in it; empty if nothing
	}{
		"private address":             {nil, "192.168.0.7:1", hop, nil, untrusted, "192.168.0.7"},
		"loopback, Forwarded":         {nil, "[::1]:1", nil, standard, untrusted, "::1"},
		"link-local":                  {nil, "[fe80::1%eth0]:1", hop, nil, untrusted, "fe80::1"},
		"carrier-grade NAT":           {nil, "100.127.0.1:1", hop, nil, untrusted, "100.127.0.1"},
		"unix socket":                 {nil, "@", hop, nil, untrusted, `"a unix socket"`},
		"private address, no header":  {nil, "192.168.0.7:1", nil, nil, "", ""},
		"public address":              {nil, "203.0.113.7:1", hop, standard, "", ""},
		"beyond carrier-grade NAT":    {nil, "100.128.0.1:1", hop, nil, "", ""},
		"another proxy is trusted":    {trusted, "192.168.0.7:1", hop, nil, "", ""},
		"trusted proxy":               {trusted, "10.0.0.1:1", hop, nil, "", ""},
		"trusted proxy, both headers": {trusted, "10.0.0.1:1", hop, standard, "", ""},
		"trusted proxy, no header":    {trusted, "10.0.0.1:1", nil, nil, "", ""},
		"trusted proxy, only other":   {trusted, "10.0.0.1:1", nil, standard, otherSent, "10.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			client := resolver(t, c.trusted, "", &log)
			for range 2 {
				address, shared := client.Client(request(c.remote, c.xff, c.forwarded))
				if want := c.warning == untrusted; shared != want || client.UntrustedProxy() != want {
					t.Errorf("got shared %t, untrusted proxy %t; want %t", shared, client.UntrustedProxy(), want)
				}
				if shared && addressText(address) == "203.0.113.9" {
					t.Error("got the address of the header, want the sender's")
				}
			}
			lines := 0
			if c.warning != "" {
				lines = 1
			}
			if got := log.String(); strings.Count(got, "level=WARN") != lines || !strings.Contains(got, c.warning) ||
				lines > 0 && !strings.Contains(got, "address="+c.named) {
				t.Errorf("got log %q, want %d lines with %q and %s", got, lines, c.warning, c.named)
			}
		})
	}
}

func TestOverHTTPS_TrustedProxiesOnly(t *testing.T) {
	client := resolver(t, trusted, "", &bytes.Buffer{})
	const proxy, stranger = "10.0.0.1:1234", "192.0.2.1:99"
	for name, c := range map[string]struct {
		remote         string
		old, forwarded []string
		want           bool
	}{
		"no header":                             {proxy, nil, nil, false},
		"https":                                 {proxy, []string{"https"}, nil, true},
		"https in capitals, with space":         {proxy, []string{" HTTPS\t"}, nil, true},
		"proxy with IPv4 in IPv6":               {"[::ffff:10.0.0.1]:99", []string{"https"}, nil, true},
		"proxy with a zone":                     {"[fd00::1%eth0]:99", []string{"https"}, nil, true},
		"http":                                  {proxy, []string{"http"}, nil, false},
		"empty value":                           {proxy, []string{""}, nil, false},
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
		"unlisted sender":                       {stranger, []string{"https"}, []string{"proto=https"}, false},
		"unix socket":                           {"@", []string{"https"}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = c.remote
			r.Header = http.Header{"X-Forwarded-Proto": c.old, "Forwarded": c.forwarded}
			if got := client.OverHTTPS(r); got != c.want {
				t.Errorf("got %t, want %t", got, c.want)
			}
			r.TLS = &tls.ConnectionState{}
			if !client.OverHTTPS(r) {
				t.Error("TLS connection: got false, want true")
			}
		})
	}
}

func TestOverHTTP_NeedsToBeKnown(t *testing.T) {
	const proxy, stranger = "10.0.0.1:1234", "192.0.2.1:99"
	for name, c := range map[string]struct {
		remote  string
		headers []string // pairs of name and value
		want    bool
	}{
		"direct":                                   {stranger, nil, true},
		"direct, in the local network":             {"192.168.1.7:99", nil, true},
		"loopback":                                 {"127.0.0.1:99", nil, false},
		"loopback, IPv6":                           {"[::1]:99", nil, false},
		"Unix socket":                              {"@", nil, false},
		"trusted proxy that sends http":            {proxy, []string{"X-Forwarded-Proto", "http"}, true},
		"trusted proxy, Forwarded":                 {proxy, []string{"Forwarded", "for=192.0.2.7;proto=HTTP"}, true},
		"trusted proxy, both say http":             {proxy, []string{"X-Forwarded-Proto", "http", "Forwarded", "proto=http"}, true},
		"trusted proxy that sends https":           {proxy, []string{"X-Forwarded-Proto", "https"}, false},
		"trusted proxy that sends nothing":         {proxy, nil, false},
		"trusted proxy, the address alone":         {proxy, []string{"X-Forwarded-For", "192.0.2.7"}, false},
		"trusted proxy, an empty scheme":           {proxy, []string{"X-Forwarded-Proto", ""}, false},
		"trusted proxy, several schemes":           {proxy, []string{"X-Forwarded-Proto", "http, http"}, false},
		"trusted proxy, both disagree":             {proxy, []string{"X-Forwarded-Proto", "http", "Forwarded", "proto=https"}, false},
		"trusted proxy and a client on loopback":   {proxy, []string{"X-Forwarded-Proto", "http", "X-Forwarded-For", "127.0.0.1"}, false},
		"untrusted proxy that sends http":          {stranger, []string{"X-Forwarded-Proto", "http"}, false},
		"untrusted proxy that sends https":         {stranger, []string{"X-Forwarded-Proto", "https"}, false},
		"untrusted proxy that sends only its name": {stranger, []string{"Via", "1.1 x"}, false},
		"untrusted proxy on loopback":              {"127.0.0.1:99", []string{"X-Forwarded-For", "192.0.2.7"}, false},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = c.remote
		for i := 0; i < len(c.headers); i += 2 {
			r.Header.Set(c.headers[i], c.headers[i+1])
		}
		client := resolver(t, trusted, "", &bytes.Buffer{})
		if got := client.OverHTTP(r); got != c.want {
			t.Errorf("%s: got %t, want %t", name, got, c.want)
		}
		if r.TLS = (&tls.ConnectionState{}); client.OverHTTP(r) {
			t.Errorf("%s, TLS connection: got true, want false", name)
		}
	}
}

// The hop that a proxy adds counts, whatever a client sends before it. On a line that
// the client made unreadable the proxy itself counts.
func FuzzForwarded(f *testing.F) {
	for _, seed := range []string{"", `for="`, "for=1.1.1.1", `for="[::1]:1";by=x, for=_h`, ",;=\\", `x="\`} {
		f.Add(seed)
	}
	const proxy, client, client6 = "10.0.0.1", "192.0.2.7", "2001:db8::7"
	f.Fuzz(func(t *testing.T, line string) {
		for _, c := range []struct {
			header string
			lines  []string
			want   []string
		}{
			{clientip.XForwardedFor, []string{line, client}, []string{client}},
			{clientip.XForwardedFor, []string{line + ", " + client}, []string{client}},
			{clientip.Forwarded, []string{line, "for=" + client}, []string{client}},
			{clientip.Forwarded, []string{line + ", for=" + client}, []string{client, proxy}},
			{clientip.Forwarded, []string{line + `, for="[` + client6 + `]:1";proto=http`}, []string{client6, proxy}},
		} {
			address, _ := resolver(t, trusted, c.header, &bytes.Buffer{}).Client(&http.Request{RemoteAddr: proxy + ":1",
				Header: http.Header{c.header: c.lines}})
			if !slices.Contains(c.want, addressText(address)) {
				t.Errorf("%s %q: got %s, want one of %v", c.header, c.lines, address, c.want)
			}
		}
	})
}

func TestFromLoopback_ForwardedOnlyByTrustedProxies(t *testing.T) {
	for _, c := range []struct {
		name, remote, header, value string
		trusted                     string // empty: no proxy is trusted
		want                        bool
	}{
		{"direct local caller", "127.0.0.1:9", "", "", "", true},
		{"direct local caller, IPv6", "[::1]:9", "", "", "", true},
		{"direct caller", "192.0.2.1:9", "", "", "", false},
		{"unix socket", "@", "", "", "", false},
		{"a proxy that is not listed", "127.0.0.1:9", "X-Forwarded-For", "127.0.0.1", "", false},
		{"another header of a proxy", "127.0.0.1:9", "X-Real-IP", "127.0.0.1", "", false},
		{"a proxy that names itself", "127.0.0.1:9", "Via", "1.1 proxy", "", false},
		{"scheme only", "127.0.0.1:9", "X-Forwarded-Proto", "https", "", false},
		{"a listed proxy and a visitor", "127.0.0.1:9", "X-Forwarded-For", "192.0.2.7", "127.0.0.1/32", false},
		{"a visitor who invents a hop", "127.0.0.1:9", "X-Forwarded-For", "127.0.0.1, 192.0.2.7", "127.0.0.1/32", false},
		{"a listed proxy and a local caller", "127.0.0.1:9", "X-Forwarded-For", "127.0.0.1", "127.0.0.1/32", true},
		{"a hop that cannot be read", "127.0.0.1:9", "X-Forwarded-For", "unix:", "127.0.0.1/32", false},
		{"an empty hop", "127.0.0.1:9", "X-Forwarded-For", "", "127.0.0.1/32", false},
		{"a listed proxy with the other header", "127.0.0.1:9", "Forwarded", "for=127.0.0.1", "127.0.0.1/32", false},
		{"a local caller past a listed proxy", "127.0.0.1:9", "", "", "127.0.0.1/32", true},
		{"a listed proxy elsewhere", "10.0.0.1:9", "X-Forwarded-For", "127.0.0.1", "10.0.0.0/8", true},
	} {
		var trusted []netip.Prefix
		if c.trusted != "" {
			trusted = append(trusted, netip.MustParsePrefix(c.trusted))
		}
		r := request(c.remote, nil, nil)
		if c.header != "" {
			r.Header.Set(c.header, c.value)
		}
		if got := resolver(t, trusted, "", new(bytes.Buffer)).FromLoopback(r); got != c.want {
			t.Errorf("%s: got %t, want %t", c.name, got, c.want)
		}
	}
}
