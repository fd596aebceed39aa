package personalhttp_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
)

// arrival is what tells where a request comes from.
type arrival struct{ remote, header, value string }

// through is an arrival by a sender that says who sent to it.
func through(remote string) arrival { return arrival{remote, "X-Forwarded-For", "203.0.113.9"} }

// direct is a visitor without any proxy, who makes a header up.
var direct = through("198.51.100.1:1")

func TestAProxyThatNobodyListedIsFoundAndNotBelieved(t *testing.T) {
	for name, test := range map[string]struct {
		turns []arrival // in turn; a request by the last one is looked at
		found string    // as the log names it; empty if nothing is found
	}{
		"a private address":   {[]arrival{direct, through("192.168.0.7:1"), through("192.168.0.7:2")}, "192.168.0.7"},
		"loopback, over IPv6": {[]arrival{{"[::1]:1", "Forwarded", "for=203.0.113.9"}}, "::1"},
		"link-local":          {[]arrival{through("[fe80::1%eth0]:1")}, "fe80::1"},
		"carrier-grade NAT":   {[]arrival{through("100.127.0.1:1")}, "100.127.0.1"},
		"a unix socket":       {[]arrival{through("@")}, "a unix socket"},
		"a pair in turn":      {[]arrival{through("192.168.0.8:1"), through("192.168.0.7:1")}, "192.168.0.7, 192.168.0.8"},
		"behind another sender that comes first": {
			append([]arrival{through("172.16.0.1:1")}, many(19, through("192.168.0.7:1"))...), "192.168.0.7",
		},
		"behind a listed one":                              {[]arrival{{"10.0.0.1:1", "X-Forwarded-For", "203.0.113.9, 192.168.0.7, 10.0.0.2"}}, "192.168.0.7"},
		"behind one, by Forwarded":                         {[]arrival{{"10.0.0.1:1", "Forwarded", "for=203.0.113.9, for=192.168.0.7"}}, "192.168.0.7"},
		"a private client of a listed one":                 {[]arrival{{"10.0.0.1:1", "X-Forwarded-For", "192.168.0.7"}}, ""},
		"a listed one that cannot tell":                    {[]arrival{{"10.0.0.1:1", "X-Forwarded-For", "203.0.113.9, unknown"}}, ""},
		"a pair of listed ones":                            {[]arrival{{"10.0.0.1:1", "X-Forwarded-For", "203.0.113.9, 203.0.113.7, 10.0.0.2"}}, ""},
		"most of the requests from many that bring little": {everyHostOf("192.168.0."), ""},
		"without a header":                                 {[]arrival{{"192.168.0.7:1", "X-Unrelated", "x"}}, ""},
		"a public address, which may be":                   {[]arrival{through("203.0.113.7:1")}, ""},
		"a trusted proxy":                                  {[]arrival{through("10.0.0.1:1")}, ""},
		"no more than half":                                {[]arrival{direct, through("192.168.0.7:1")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			var got personal.Call
			s := everything()
			s.FieldsFunc = func(ctx context.Context) ([]personal.Field, error) {
				got = personal.CallFrom(ctx)
				return nil, nil
			}
			h, err := personalhttp.New(s, personalhttp.Options{
				TrustedProxies: prefixes("10.0.0.0/8"), Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})),
			})
			if err != nil {
				t.Fatal(err)
			}
			send := func(a arrival) {
				r := httptest.NewRequest(http.MethodGet, prefix+"fields/", nil)
				r.RemoteAddr = a.remote
				r.Header.Set(a.header, a.value)
				h.ServeHTTP(httptest.NewRecorder(), r)
			}
			for i := range 1000 {
				a := test.turns[i%len(test.turns)]
				send(a)
				if a == direct && got.Shared {
					t.Fatal("a client of its own is taken for many")
				}
			}
			found := test.found != ""
			send(test.turns[len(test.turns)-1])
			if h.UnlistedProxy() != found || got.Shared != found {
				t.Errorf("found %v, shared %v, want %v", h.UnlistedProxy(), got.Shared, found)
			}
			if found && got.Address.String() == "203.0.113.9" {
				t.Error("its header is believed")
			}
			if n := strings.Count(log.String(), "not listed"); n != 1 && found || n > 0 && !found {
				t.Errorf("the log tells of it %d times:\n%s", n, log.String())
			}
			if value := "addresses=" + quoted(test.found); found && !strings.Contains(log.String(), value+"\n") {
				t.Errorf("the log lacks %s:\n%s", value, log.String())
			}
			for range 200 {
				send(direct)
			}
			if h.UnlistedProxy() {
				t.Error("found although it is gone")
			}
		})
	}
}

func many(n int, a arrival) (list []arrival) {
	for range n {
		list = append(list, a)
	}
	return list
}

// everyHostOf returns twenty clients of a network who make a header up.
func everyHostOf(network string) (list []arrival) {
	for i := range 20 {
		list = append(list, through(fmt.Sprintf("%s%d:1", network, i)))
	}
	return list
}

// quoted writes a value as the log does.
func quoted(s string) string {
	if strings.Contains(s, " ") {
		return strconv.Quote(s)
	}
	return s
}
