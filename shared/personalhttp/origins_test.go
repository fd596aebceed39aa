package personalhttp_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
)

// The service offers nothing, so a request that reaches it is not_found.
func TestCrossOrigin_PostsForOtherOriginsAreRefused(t *testing.T) {
	const own, listed, webView, other = "https://www.example.com", "https://app.example.com:8443", "capacitor://localhost",
		"https://evil.example"
	s := newSite(t, noService(), personalhttp.Options{Origins: []string{own}, CORSOrigins: []string{listed, webView}})
	for name, c := range map[string]struct {
		headers []string
		refused bool
	}{
		"no browser":               {},
		"same origin":              {[]string{"Sec-Fetch-Site", "same-origin", "Origin", "https://changed.example"}, false},
		"typed address":            {[]string{"Sec-Fetch-Site", "none"}, false},
		"other site":               {[]string{"Sec-Fetch-Site", "cross-site"}, true},
		"other site with origin":   {[]string{"Sec-Fetch-Site", "cross-site", "Origin", other}, true},
		"subdomain":                {[]string{"Sec-Fetch-Site", "same-site", "Origin", "https://blog.example.com"}, true},
		"old browser, same origin": {[]string{"Origin", s.URL}, false},
		"old browser, other site":  {[]string{"Origin", other}, true},
		"hidden origin":            {[]string{"Origin", "null"}, true},
		"other port":               {[]string{"Origin", "http://127.0.0.1:1"}, true},
		"proxy changed Host":       {[]string{"Origin", own}, false},
		"CORS origin":              {[]string{"Sec-Fetch-Site", "cross-site", "Origin", listed}, false},
		"WebView":                  {[]string{"Sec-Fetch-Site", "cross-site", "Origin", webView}, false},
	} {
		for path, methods := range personalhttp.Routes() {
			post := strings.Contains(methods, "POST")
			a := s.do("POST", prefix+path, asJSON, `{"login":"a","password":"b"}`, c.headers...)
			if got := a.Result.Code == "cross_origin"; got != (c.refused && post) || got && a.Status != 403 {
				t.Errorf("%s, POST %s: got %d %q, want 403 cross_origin: %t", name, path, a.Status, a.Result.Code, c.refused && post)
			}
			if a := s.do("GET", prefix+path, "", "", c.headers...); a.Result.Code == "cross_origin" {
				t.Errorf("%s, GET %s: got %d %q, want it not refused", name, path, a.Status, a.Result.Code)
			}
		}
	}
}

func TestCrossOrigin_LogNamesUsualCause(t *testing.T) {
	var log bytes.Buffer
	s := newSite(t, everything(), personalhttp.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	s.do("POST", prefix+"auth", "", "", "Sec-Fetch-Site", "same-origin").want(t, 200, "")
	if strings.Contains(log.String(), "Host") {
		t.Errorf("got log %s, want no hint after a success", log.String())
	}
	s.do("POST", prefix+"auth", "", "", "Origin", "https://evil.example").want(t, 403, personal.CodeCrossOrigin)
	s.Close() // all requests are logged now
	for _, want := range []string{"code=cross_origin", "a proxy does not pass the Host header on, with its port", "Referrer-Policy: no-referrer", "Options.Origins"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("got log %s, want %q in it", log.String(), want)
		}
	}
	if strings.Contains(log.String(), "evil") {
		t.Errorf("got a caller's value in the log: %s", log.String())
	}
}
