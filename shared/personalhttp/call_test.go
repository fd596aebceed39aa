package personalhttp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
)

func TestCall_ClientAddress(t *testing.T) {
	for name, c := range map[string]struct {
		options   personalhttp.Options
		address   string
		untrusted bool
	}{
		"no trusted proxy":              {personalhttp.Options{}, "10.0.0.1", true},
		"a trusted proxy":               {personalhttp.Options{TrustedProxies: prefixes("10.0.0.0/8")}, "192.0.2.7", false},
		"a trusted proxy, by Forwarded": {personalhttp.Options{TrustedProxies: prefixes("10.0.0.0/8"), ForwardedHeader: "Forwarded"}, "192.0.2.8", false},
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
				t.Errorf("got %s, shared %t, untrusted proxy %t; want %s, %[5]t, %[5]t", got.Address, got.Shared, h.UntrustedProxy(), c.address, c.untrusted)
			}
		})
	}
}
