package personalweb_test

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalweb"
)

// behind returns the API of a site behind a proxy, to which request comes with a scheme.
func behind(t *testing.T, url string) *personalhttp.Handler {
	return newAPI(t, personalhttp.Options{URL: url, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}})
}

func request(scheme, cookies string) *http.Request {
	r := httptest.NewRequest("GET", "http://site.example/", nil)
	r.Header.Set("X-Forwarded-Proto", scheme)
	r.Header.Set("Cookie", cookies)
	return r
}

func TestCookies_SecureWithHostPrefixOverHTTPS(t *testing.T) {
	for name, tt := range map[string]struct{ url, scheme, prefix, secure string }{
		"a proxy sends http":          {"", "http", "", ""},
		"a proxy sends nothing":       {"", "", "", ""},
		"a proxy sends https":         {"", "https", "__Host-", "; Secure"},
		"http URL":                    {"http://site.example", "", "", ""},
		"https URL, a silent proxy":   {"https://site.example", "", "__Host-", "; Secure"},
		"https URL, it is plain HTTP": {"https://site.example", "http", "__Host-", "; Secure"},
	} {
		api := behind(t, tt.url)
		w, r := httptest.NewRecorder(), request(tt.scheme, "")
		personalweb.SetCookie(api, w, r, http.Cookie{Name: "a", Value: "new", MaxAge: 5})
		personalweb.SetCookie(api, w, r, http.Cookie{Name: "b", MaxAge: -1, SameSite: http.SameSiteStrictMode})
		want := []string{
			tt.prefix + "a=new; Path=/; Max-Age=5; HttpOnly" + tt.secure + "; SameSite=Lax",
			tt.prefix + "b=; Path=/; Max-Age=0; HttpOnly" + tt.secure + "; SameSite=Strict",
		}
		if diff := cmp.Diff(want, w.Header().Values("Set-Cookie")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestCookies_SchemeMayChange(t *testing.T) {
	const (
		own, plain = "__Host-a=own", "a=plain"
		secure     = "__Host-a=new; Path=/; Max-Age=5; HttpOnly; Secure; SameSite=Lax"
		bare       = "a=new; Path=/; Max-Age=5; HttpOnly; SameSite=Lax"
		noSecure   = "__Host-a=; Path=/; Max-Age=0; HttpOnly; Secure; SameSite=Lax"
		noBare     = "a=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax"
	)
	for name, tt := range map[string]struct {
		url, scheme, sent string
		value             string
		set               []string
	}{
		"detected HTTPS, both":         {"", "https", plain + "; " + own, "own", []string{secure, noBare}},
		"detected HTTPS, plain":        {"", "https", plain, "", []string{secure, noBare}},
		"detected HTTPS, prefixed":     {"", "https", own, "own", []string{secure}},
		"no longer detected, both":     {"", "http", plain + "; " + own, "own", []string{bare, noSecure}},
		"no longer detected, prefixed": {"", "", own, "own", []string{bare, noSecure}},
		"no longer detected, plain":    {"", "", plain, "plain", []string{bare}},
		"https URL, both":              {"https://site.example", "", plain + "; " + own, "own", []string{secure, noBare}},
		"https URL, plain":             {"https://site.example", "", plain, "", []string{secure, noBare}},
	} {
		t.Run(name, func(t *testing.T) {
			api, r := behind(t, tt.url), request(tt.scheme, tt.sent)
			if got := personalweb.CookieValue(api, r, "a"); got != tt.value {
				t.Errorf("got value %q, want %q", got, tt.value)
			}
			w := httptest.NewRecorder()
			personalweb.SetCookie(api, w, r, http.Cookie{Name: "a", Value: "new", MaxAge: 5})
			if diff := cmp.Diff(tt.set, w.Header().Values("Set-Cookie")); diff != "" {
				t.Errorf("Set-Cookie (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStayWithHTTPS_FollowsTheSite(t *testing.T) {
	for name, tt := range map[string]struct{ url, scheme, want string }{
		"https":                     {"", "https", "max-age=31536000"},
		"http":                      {"", "http", ""},
		"https URL, a silent proxy": {"https://site.example", "", "max-age=31536000"},
	} {
		w := httptest.NewRecorder()
		personalweb.StayWithHTTPS(behind(t, tt.url), http.NotFoundHandler()).ServeHTTP(w, request(tt.scheme, ""))
		if got := w.Header().Get("Strict-Transport-Security"); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

// One function decides whether a cookie is Secure and which one counts: nothing else may send or
// read one.
func TestCookies_NothingElseSendsOrReadsThem(t *testing.T) {
	forbidden := regexp.MustCompile(`http\.SetCookie\(|"(Set-)?Cookie"|\.Cookies?\(|\.CookiesNamed\(|\.AddCookie\(`)
	root := filepath.Join("..", "..")
	for _, folder := range []string{"shared", "host-sample", "docs/examples"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || filepath.Base(path) == "https.go" {
				return err
			}
			source, err := os.ReadFile(path)
			if found := forbidden.FindString(string(source)); found != "" {
				t.Errorf("%s: got %s, want SetCookie and CookieValue of personalweb", path, found)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
