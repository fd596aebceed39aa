package personalhttp_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
)

func TestAProxyThatNobodyListedIsFoundAndNotBelieved(t *testing.T) {
	for name, test := range map[string]struct {
		remote, header string // what most requests look like
		of             int    // every so manieth does not
		found          bool
	}{
		"a private address":              {"192.168.0.7:1", "X-Forwarded-For", 3, true},
		"loopback, over IPv6":            {"[::1]:1", "Forwarded", 3, true},
		"without a header":               {"192.168.0.7:1", "X-Unrelated", 100, false},
		"a public address, which may be": {"203.0.113.7:1", "X-Forwarded-For", 100, false},
		"a trusted proxy":                {"10.0.0.1:1", "X-Forwarded-For", 100, false},
		"less than half":                 {"192.168.0.7:1", "X-Forwarded-For", 2, false},
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
			send := func(remote, header string) {
				r := httptest.NewRequest(http.MethodGet, prefix+"fields/", nil)
				r.RemoteAddr = remote
				r.Header.Set(header, "203.0.113.9")
				h.ServeHTTP(httptest.NewRecorder(), r)
			}
			for i := range 1000 {
				if i%test.of == 1 {
					send("198.51.100.1:1", "X-Forwarded-For")
					if got.Shared {
						t.Fatal("a client of its own is taken for many")
					}
					continue
				}
				send(test.remote, test.header)
			}
			if h.UnlistedProxy() != test.found || got.Shared != test.found {
				t.Errorf("found %v, shared %v, want %v", h.UnlistedProxy(), got.Shared, test.found)
			}
			if test.found && got.Address.String() == "203.0.113.9" {
				t.Error("its header is believed")
			}
			if n := strings.Count(log.String(), "not listed"); n != 1 && test.found || n > 0 && !test.found {
				t.Errorf("the log tells of it %d times:\n%s", n, log.String())
			}
			for range 200 {
				send("198.51.100.1:1", "X-Unrelated")
			}
			if h.UnlistedProxy() {
				t.Error("found although it is gone")
			}
		})
	}
}
