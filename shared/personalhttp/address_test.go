package personalhttp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"testing"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
)

// prefixes parses CIDRs; what cannot be parsed becomes the zero prefix.
func prefixes(cidrs ...string) []netip.Prefix {
	var list []netip.Prefix
	for _, cidr := range cidrs {
		p, _ := netip.ParsePrefix(cidr)
		list = append(list, p)
	}
	return list
}

// addressTeller returns a function that tells a client's address as the service
// is told it.
func addressTeller(t testing.TB) func(remote string, header http.Header) string {
	t.Helper()
	var got personal.Call
	s := everything()
	s.FieldsFunc = func(ctx context.Context) ([]personal.Field, error) {
		got = personal.CallFrom(ctx)
		return nil, nil
	}
	h, err := personalhttp.New(s, personalhttp.Options{TrustedProxies: prefixes("10.0.0.0/8", "fd00::/8"), Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	return func(remote string, header http.Header) string {
		r := httptest.NewRequest(http.MethodGet, prefix+"fields/", nil)
		r.RemoteAddr, r.Header = remote, header
		h.ServeHTTP(httptest.NewRecorder(), r)
		if !got.Address.IsValid() {
			return ""
		}
		return got.Address.String()
	}
}

func TestTheClientAddressComesFromTrustedProxiesOnly(t *testing.T) {
	const proxy = "10.0.0.1:1234"
	for _, c := range []struct {
		name, remote   string
		xff, forwarded []string
		want           string
	}{
		{"a direct caller", "192.0.2.1:99", nil, nil, "192.0.2.1"},
		{"a direct caller that makes up hops", "192.0.2.1:99", []string{"1.1.1.1"}, []string{"for=2.2.2.2"}, "192.0.2.1"},
		{"IPv4 in IPv6", "[::ffff:192.0.2.1]:99", nil, nil, "192.0.2.1"},
		{"a zone", "[fe80::1%eth0]:99", nil, nil, "fe80::1"},
		{"a unix socket", "@", nil, nil, ""},
		{"a proxy that says nothing", proxy, nil, nil, "10.0.0.1"},
		{"a mapped proxy", "[::ffff:10.0.0.1]:1", []string{"192.0.2.7"}, nil, "192.0.2.7"},

		{"one hop", proxy, []string{"192.0.2.7"}, nil, "192.0.2.7"},
		{"the rightmost untrusted hop", proxy, []string{"6.6.6.6, 192.0.2.7 ,10.0.0.2"}, nil, "192.0.2.7"},
		{"hops over several lines", proxy, []string{"6.6.6.6", "192.0.2.7, 10.0.0.2"}, nil, "192.0.2.7"},
		{"trusted hops alone", proxy, []string{"10.0.0.3, 10.0.0.2"}, nil, "10.0.0.3"},
		{"an unreadable hop ends the walk", proxy, []string{"192.0.2.7, what, 10.0.0.2"}, nil, "10.0.0.2"},
		{"an empty hop ends the walk", proxy, []string{"192.0.2.7,"}, nil, "10.0.0.1"},
		{"a hop with a port", proxy, []string{"192.0.2.7:4711"}, nil, "192.0.2.7"},
		{"an IPv6 hop with a port", proxy, []string{"[2001:db8::1]:4711"}, nil, "2001:db8::1"},
		{"an IPv6 hop in brackets", proxy, []string{"[2001:db8::1]"}, nil, "2001:db8::1"},
		{"a hop with a zone", proxy, []string{"fe80::1%eth0"}, nil, "fe80::1"},
		{"a mapped hop", proxy, []string{"::ffff:192.0.2.7, ::ffff:10.0.0.9"}, nil, "192.0.2.7"},

		{"a standard hop", proxy, nil, []string{"for=192.0.2.7"}, "192.0.2.7"},
		{"a quoted hop", proxy, nil, []string{`For="[2001:db8::1]:4711";proto=https;by=10.0.0.1`}, "2001:db8::1"},
		{"an escaped hop", proxy, nil, []string{`for="192.0\.2.7"`}, "192.0.2.7"},
		{"several standard hops", proxy, nil, []string{"for=6.6.6.6, proto=http; for=192.0.2.7,for=10.0.0.2"}, "192.0.2.7"},
		{"an unknown hop", proxy, nil, []string{"for=192.0.2.7, for=unknown, for=10.0.0.2"}, "10.0.0.2"},
		{"an obfuscated hop", proxy, nil, []string{"for=_hidden"}, "10.0.0.1"},
		{"a hop without for", proxy, nil, []string{"for=192.0.2.7, proto=https"}, "10.0.0.1"},
		{"a quote left open before a proxy's hop", proxy, nil, []string{`for=6.6.6.6;x=", for=192.0.2.7`}, "10.0.0.1"},
		{"a quote left open on another line", proxy, nil, []string{`for="6.6.6.6`, "for=192.0.2.7"}, "192.0.2.7"},
		{"a line that cannot be read hides what is before it", proxy, nil, []string{"for=6.6.6.6", `for="192.0.2.7`}, "10.0.0.1"},
		{"a hop named twice", proxy, nil, []string{"for=6.6.6.6;for=192.0.2.7"}, "10.0.0.1"},

		{"both headers of one mind", proxy, []string{"192.0.2.7"}, []string{"for=192.0.2.7"}, "192.0.2.7"},
		{"a standard header that a client made up", proxy, []string{"192.0.2.7"}, []string{"for=6.6.6.6"}, "10.0.0.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			header := http.Header{}
			for _, line := range c.xff {
				header.Add("X-Forwarded-For", line)
			}
			for _, line := range c.forwarded {
				header.Add("Forwarded", line)
			}
			if got := addressTeller(t)(c.remote, header); got != c.want {
				t.Errorf("address %q, want %q", got, c.want)
			}
		})
	}
}

// A client can add the header that its proxy does not set, but not take away the
// one that it sets.
func TestOfTwoHeadersThatDisagreeTheOneThatCameAloneIsBelieved(t *testing.T) {
	const proxy, old, standard = "10.0.0.1", "192.0.2.7", "203.0.113.9"
	onlyOld := http.Header{"X-Forwarded-For": {old}}
	onlyStandard := http.Header{"Forwarded": {"for=" + standard}}
	both := http.Header{"X-Forwarded-For": {old}, "Forwarded": {"for=" + standard}}
	type request struct {
		remote string
		header http.Header
	}
	for name, test := range map[string]struct {
		before []request
		want   string
	}{
		"neither came alone":             {nil, proxy},
		"X-Forwarded-For did":            {[]request{{proxy, both}, {proxy, onlyOld}, {proxy, both}}, old},
		"Forwarded did":                  {[]request{{proxy, both}, {proxy, onlyStandard}, {proxy, both}}, standard},
		"each did once":                  {[]request{{proxy, onlyOld}, {proxy, onlyStandard}}, proxy},
		"a request without either":       {[]request{{proxy, nil}}, proxy},
		"one that leads nowhere":         {[]request{{proxy, http.Header{"Forwarded": {"for=unknown"}}}}, proxy},
		"it came from who is not listed": {[]request{{"198.51.100.1", onlyStandard}}, proxy},
	} {
		t.Run(name, func(t *testing.T) {
			addressOf := addressTeller(t)
			for _, r := range test.before {
				addressOf(r.remote+":1", r.header)
			}
			if got := addressOf(proxy+":1", both); got != test.want {
				t.Errorf("address %q, want %q", got, test.want)
			}
		})
	}
}

// Whatever a client writes in front of it, the hop that a proxy adds is the one
// that counts; at worst, on a line that the client spoilt, the proxy itself.
func FuzzForwarded(f *testing.F) {
	for _, seed := range []string{"", `for="`, "for=1.1.1.1", `for="[::1]:1";by=x, for=_h`, ",;=\\", `x="\`} {
		f.Add(seed)
	}
	addressOf := addressTeller(f)
	const proxy, client, client6 = "10.0.0.1", "192.0.2.7", "2001:db8::7"
	f.Fuzz(func(t *testing.T, line string) {
		for _, c := range []struct {
			name  string
			lines []string
			want  []string
		}{
			{"X-Forwarded-For", []string{line, client}, []string{client}},
			{"X-Forwarded-For", []string{line + ", " + client}, []string{client}},
			{"Forwarded", []string{line, "for=" + client}, []string{client}},
			{"Forwarded", []string{line + ", for=" + client}, []string{client, proxy}},
			{"Forwarded", []string{line + `, for="[` + client6 + `]:1";proto=http`}, []string{client6, proxy}},
		} {
			if got := addressOf(proxy+":1", http.Header{c.name: c.lines}); !slices.Contains(c.want, got) {
				t.Errorf("%s %q led to %q", c.name, c.lines, got)
			}
		}
	})
}
