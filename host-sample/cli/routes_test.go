package cli

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cms-personal/personal/host-sample/admin"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personaladmin"
	"github.com/cms-personal/personal/shared/personalhost/fieldstore"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalhttp/personalhttptest"
	"github.com/cms-personal/personal/shared/plugins/adminapi"
	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/manager"
)

const (
	adminToken = "ADMINTOKENADMINTOKENADMINTOKEN"
	userHash   = "0123456789012345678901234567890123456789012"
)

// testSite is the CMS with a fake service, and a plugin that serves unless down is
// set.
type testSite struct {
	*httptest.Server
	fields *fieldstore.Store
	log    strings.Builder // of access to the admin pages and API
	down   bool

	administration personaltest.Administration
}

func startSite(t *testing.T, service personal.Service, basePath string, proxies ...netip.Prefix) *testSite {
	t.Helper()
	fields, err := fieldstore.Open(filepath.Join(t.TempDir(), "user-fields.json"), sampleFields)
	if err != nil {
		t.Fatal(err)
	}
	return startSiteWith(t, fields, service, basePath, proxies...)
}

func startSiteWith(t *testing.T, fields *fieldstore.Store, service personal.Service, basePath string, proxies ...netip.Prefix) *testSite {
	t.Helper()
	s := &testSite{fields: fields}
	versions, err := catalogue.Open(filepath.Join(t.TempDir(), "personal"))
	if err != nil {
		t.Fatal(err)
	}
	if err := versions.SaveState(catalogue.State{Active: "1.2.3"}); err != nil {
		t.Fatal(err)
	}
	record := personaladmin.NewAccessLog(slog.New(slog.NewTextHandler(&s.log, nil)))
	plugin := adminapi.New(s, versions, adminapi.Options{Log: quietLog()})
	metrics := newMetrics()
	api, err := personalhttp.New(service, personalhttp.Options{
		BasePath: basePath, TrustedProxies: proxies, Observe: metrics.observer(), Log: quietLog(),
	})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := newHandler(handlerOptions{
		api:    api,
		module: connected{api, service, &s.administration},
		plugin: s,
		adminAPI: &adminAPI{
			token: sha256.Sum256([]byte(adminToken)), fields: s.fields, users: &s.administration, plugin: plugin, link: noLink, record: record, log: quietLog(),
		},
		guard:      admin.NewGuard(admin.NewSessions(), api, record),
		adminPages: func(entry *admin.Entry) (http.Handler, error) { return http.HandlerFunc(entry.Refuse), nil },
		metrics:    metrics,
		apiURL:     "http://127.0.0.1:8080" + basePath,
		log:        quietLog(),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Server = httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s
}

// connected is a [personalpages.Module].
type connected struct {
	api            *personalhttp.Handler
	service        personal.Service
	administration personal.Administration
}

func (c connected) API() *personalhttp.Handler              { return c.api }
func (c connected) Service() personal.Service               { return c.service }
func (c connected) Administration() personal.Administration { return c.administration }

func TestHandler_PassesMountTest(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	personalhttptest.Run(t, func(service personal.Service) http.Handler {
		return startSite(t, service, "/base", proxies...).Config.Handler
	},
		personalhttptest.WithBasePath("/base"),
		personalhttptest.WithTrustedProxies(proxies, ""),
		personalhttptest.WithGuardedPage("/demo/greeting"),
	)
}

const oneField = `[{"name":"nickname","type":"text"}]`

func noLink() string { return "http://127.0.0.1:8080/admin/enter#code=x" }

func (s *testSite) Ready(context.Context) error {
	if s.down {
		return errors.New("no process")
	}
	return nil
}

func (s *testSite) Status() manager.Status {
	if s.down {
		return manager.Status{Active: manager.Active{State: manager.StateRestarting, Restarts: 2, LastError: "lost"}}
	}
	return manager.Status{Active: manager.Active{State: manager.StateServing, Version: "1.2.3", Generation: 7, PID: 99}}
}

// Metrics returns metrics of the manager, of a process, and of a defective one.
func (s *testSite) Metrics(context.Context) []manager.Metrics {
	return []manager.Metrics{
		{Text: []byte("# TYPE personal_plugin_up gauge\npersonal_plugin_up 1\n")},
		{Process: 7, Text: []byte(`# HELP personal_plugin_store_batch_size Sizes.
# TYPE personal_plugin_store_batch_size histogram
personal_plugin_store_batch_size_bucket{operation="write_session",le="1"} 1
personal_plugin_store_batch_size_bucket{operation="write_session",le="+Inf"} 4
personal_plugin_store_batch_size_sum{operation="write_session"} 9
personal_plugin_store_batch_size_count{operation="write_session"} 4
`)},
		{Process: 8, Refuse: func(error) {}, Text: []byte("personal_plugin_twice 1\npersonal_plugin_twice 2\npersonal_plugin_other{process=\"1\"} 1\n")},
	}
}

// Use refuses every swap.
func (s *testSite) Use(_ context.Context, version string, _ ...manager.Ignore) error {
	return &manager.SwapError{Step: "find", Version: version, Err: catalogue.ErrNotFound}
}

// Rehearse refuses every rehearsal.
func (s *testSite) Rehearse(ctx context.Context, version string, _ ...manager.Ignore) error {
	return s.Use(ctx, version)
}

// Rollback refuses every swap.
func (s *testSite) Rollback(context.Context) error { return manager.ErrStopped }

// reply is a response and its body.
type reply struct {
	*http.Response
	body string
}

// send sends a request; headers are pairs of name and value.
func (s *testSite) send(t *testing.T, method, path, body string, headers ...string) reply {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{Response: response, body: string(data)}
}

// admin sends a request with the admin token.
func (s *testSite) admin(t *testing.T, method, path, body string, headers ...string) reply {
	t.Helper()
	return s.send(t, method, path, body, append(headers, "Authorization", "Bearer "+adminToken)...)
}

func signedInService() *personaltest.Service {
	return &personaltest.Service{
		ProfileFunc: func(_ context.Context, c personal.Credentials) (personal.Profile, error) {
			if c.UserID != 42 || c.UserHash != userHash {
				return personal.Profile{}, personal.NewError(personal.CodeUnauthenticated, nil)
			}
			name := "Anna"
			return personal.Profile{Login: "anna", Name: &name, Email: "anna@example.com"}, nil
		},
	}
}

func TestRoutes_APIBeforeRedirects(t *testing.T) {
	s := startSite(t, signedInService(), "/cms")
	for _, path := range []string{
		"/cms/api/v1/personal/profile", "/cms/api/v1/personal/profile/",
		"/cms/api/v1/personal", "/cms/api/v1/personal//auth/", "/cms/api/v1/personal/../personal/auth/",
	} {
		a := s.send(t, http.MethodPost, path, "")
		if a.StatusCode/100 == 3 || !strings.Contains(a.body, `"success":`) {
			t.Errorf("POST %s: got %s %s, want an envelope", path, a.Status, a.body)
		}
	}
	if a := s.send(t, http.MethodPost, "/api/v1/personal/auth/", ""); a.StatusCode != http.StatusNotFound {
		t.Errorf("without the base path: got %s, want 404", a.Status)
	}
}

// A proxy that filters paths does not recognise an escaped one.
func TestRoutes_EscapedPathsAreRefused(t *testing.T) {
	s := startSite(t, signedInService(), "/cms")
	for path, want := range map[string]int{
		"/%6detrics": http.StatusBadRequest, "/%61dmin/enter": http.StatusBadRequest, "/admin%2fenter": http.StatusBadRequest, "/%72eadyz": http.StatusBadRequest,
		"/cms/api/v1/personal/%61uth/": http.StatusNotFound, // refused by the API, with an envelope
		"/caf%C3%A9":                   http.StatusNotFound, // the usual form of a name
		"/metrics?a=%6d":               http.StatusOK,
	} {
		if a := s.send(t, http.MethodGet, path, ""); a.StatusCode != want {
			t.Errorf("%s: got %s %s, want %d", path, a.Status, a.body, want)
		}
	}
}

func TestHSTS_SentOverHTTPSOnly(t *testing.T) {
	s := startSite(t, signedInService(), "")
	for origin, want := range map[string]string{"http://cms.example": "", "https://cms.example": "max-age=31536000"} {
		for _, path := range []string{"/", "/nowhere", "//", "/api/v1/personal/profile/", "/api/v1/personal/nowhere", "/admin/plugin",
			"/admin/api/plugin", "/healthz"} {
			w := httptest.NewRecorder()
			s.Config.Handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, origin+path, nil))
			if got := w.Header().Get("Strict-Transport-Security"); got != want {
				t.Errorf("%s%s: got %q, want %q", origin, path, got, want)
			}
		}
	}
}

func TestHSTS_FollowsTrustedProxy(t *testing.T) {
	s := startSite(t, signedInService(), "", netip.MustParsePrefix("10.0.0.0/8"))
	for name, c := range map[string]struct{ remote, header, value, want string }{
		"a trusted proxy":             {"10.0.0.1:99", "X-Forwarded-Proto", "https", "max-age=31536000"},
		"a trusted proxy, Forwarded":  {"10.0.0.1:99", "Forwarded", "for=203.0.113.9;proto=https", "max-age=31536000"},
		"a trusted proxy without TLS": {"10.0.0.1:99", "X-Forwarded-Proto", "http", ""},
		"another sender":              {"192.0.2.1:99", "X-Forwarded-Proto", "https", ""},
	} {
		for _, path := range []string{"/", "/api/v1/personal/profile/", "/admin/plugin"} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.RemoteAddr = c.remote
			r.Header.Set(c.header, c.value)
			w := httptest.NewRecorder()
			s.Config.Handler.ServeHTTP(w, r)
			if got := w.Header().Get("Strict-Transport-Security"); got != c.want {
				t.Errorf("%s, %s: got %q, want %q", name, path, got, c.want)
			}
		}
	}
}

func TestGreeting_NeedsSignIn(t *testing.T) {
	s := startSite(t, signedInService(), "")
	a := s.send(t, http.MethodGet, "/demo/greeting", "", "User-Id", "42", "User-Hash", userHash, "X-Request-Id", "r-1")
	if a.StatusCode != http.StatusOK || !strings.Contains(a.body, "Hello, Anna!") || a.Header.Get("X-Request-Id") != "r-1" {
		t.Errorf("signed in: got %s %s, want 200 and the name", a.Status, a.body)
	}
	a = s.send(t, http.MethodGet, "/demo/greeting", "", "User-Id", "42", "User-Hash", userHash, "Accept-Language", "ru")
	if !strings.Contains(a.body, "Здравствуйте, Anna!") {
		t.Errorf("in Russian: got %s", a.body)
	}
	a = s.send(t, http.MethodGet, "/demo/greeting", "", "User-Id", "43", "User-Hash", userHash)
	if a.StatusCode != http.StatusUnauthorized || !strings.Contains(a.body, "unauthenticated") {
		t.Errorf("signed out: got %s %s, want 401", a.Status, a.body)
	}
}

func TestAdminAPI_NeedsToken(t *testing.T) {
	s := startSite(t, signedInService(), "")
	host := strings.TrimPrefix(s.URL, "http://")
	tests := map[string]struct {
		headers []string
		want    int
	}{
		"no token":                  {want: http.StatusUnauthorized},
		"another token":             {headers: []string{"Authorization", "Bearer " + adminToken + "x"}, want: http.StatusUnauthorized},
		"an empty token":            {headers: []string{"Authorization", "Bearer "}, want: http.StatusUnauthorized},
		"the token as a password":   {headers: []string{"Authorization", "Basic " + adminToken}, want: http.StatusUnauthorized},
		"the token":                 {headers: []string{"Authorization", "Bearer " + adminToken}, want: http.StatusOK},
		"the token, in lower case":  {headers: []string{"Authorization", "bearer " + adminToken}, want: http.StatusOK},
		"a page of this site":       {headers: []string{"Authorization", "Bearer " + adminToken, "Origin", "http://" + host}, want: http.StatusOK},
		"a page of another site":    {headers: []string{"Authorization", "Bearer " + adminToken, "Origin", "https://evil.example"}, want: http.StatusForbidden},
		"a page without an origin":  {headers: []string{"Authorization", "Bearer " + adminToken, "Origin", "null"}, want: http.StatusForbidden},
		"another port of this site": {headers: []string{"Authorization", "Bearer " + adminToken, "Origin", "http://127.0.0.1:1"}, want: http.StatusForbidden},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for _, path := range []string{"/admin/api/user-fields", "/admin/api/plugin", "/admin/api/plugin/events"} {
				a := s.send(t, http.MethodGet, path, "", tt.headers...)
				if a.StatusCode != tt.want || !json.Valid([]byte(a.body)) {
					t.Errorf("%s: got %s %s, want %d and JSON", path, a.Status, a.body, tt.want)
				}
			}
		})
	}
}

func TestAdminAPI_LogsRefusalsWithoutToken(t *testing.T) {
	s := startSite(t, signedInService(), "")
	for _, headers := range [][2]string{
		{}, {"Authorization", "Bearer " + adminToken + "x"}, {"Origin", "https://evil.example"}, {"Authorization", "Bearer " + adminToken},
	} {
		r := httptest.NewRequest(http.MethodPost, "/admin/api/link", nil)
		r.RemoteAddr = "192.0.2.7:1"
		r.Header.Set(headers[0], headers[1])
		s.Config.Handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	lines := strings.Split(strings.TrimSpace(s.log.String()), "\n")
	for i, want := range []string{
		`level=WARN msg="admin request refused" address=192.0.2.7 `, `reason="no admin token, or a wrong one"`,
		`reason="a page of another origin"`, `level=INFO msg="a link to the admin pages was given out" address=192.0.2.7 `,
	} {
		if len(lines) != 4 || !strings.Contains(lines[i], want) {
			t.Fatalf("line %d of the log: want %s in\n%s", i, want, &s.log)
		}
	}
	if strings.Contains(s.log.String(), adminToken) {
		t.Errorf("the log contains the token:\n%s", &s.log)
	}
}

func TestUserFields_IfMatch(t *testing.T) {
	s := startSite(t, signedInService(), "")
	first := s.admin(t, http.MethodGet, "/admin/api/user-fields", "")
	tag := first.Header.Get("ETag")
	if first.body != string(s.fields.Get().Source) || len(tag) < 10 {
		t.Fatalf("GET: got ETag %q, body %s", tag, first.body)
	}
	a := s.admin(t, http.MethodPut, "/admin/api/user-fields", oneField, "If-Match", `"another"`)
	if a.StatusCode != http.StatusPreconditionFailed {
		t.Errorf("PUT over another revision: got %s, want 412", a.Status)
	}
	a = s.admin(t, http.MethodPut, "/admin/api/user-fields", oneField, "If-Match", `"another", `+tag)
	if a.StatusCode != http.StatusOK || a.body != oneField || a.Header.Get("ETag") == tag {
		t.Errorf("PUT over the current revision: got %s %s, want 200", a.Status, a.body)
	}
	if got := s.fields.Get().Schema; len(got.Fields) != 1 || etag(got.Revision) != a.Header.Get("ETag") {
		t.Errorf("got schema %v, want the new one", got)
	}
	if a = s.admin(t, http.MethodPut, "/admin/api/user-fields", `[]`, "If-Match", tag); a.StatusCode != http.StatusPreconditionFailed {
		t.Errorf("PUT over a superseded revision: got %s, want 412", a.Status)
	}
	for _, headers := range [][]string{nil, {"If-Match", "*"}} {
		if a = s.admin(t, http.MethodPut, "/admin/api/user-fields", `[]`, headers...); a.StatusCode != http.StatusOK {
			t.Errorf("PUT over any revision: got %s, want 200", a.Status)
		}
	}
}

func TestUserFields_InvalidSchemaIsRefused(t *testing.T) {
	s := startSite(t, signedInService(), "")
	a := s.admin(t, http.MethodPut, "/admin/api/user-fields", `[{"name":"city","type":"enum"}]`)
	var invalid adminError
	if err := json.Unmarshal([]byte(a.body), &invalid); err != nil {
		t.Fatal(err)
	}
	if a.StatusCode != http.StatusUnprocessableEntity || invalid.Field != "city" || !strings.Contains(invalid.Reason, "options") {
		t.Errorf("got %s %s, want 422 with field and reason", a.Status, a.body)
	}
	large := `[` + strings.Repeat(" ", maxFieldsBody) + `]`
	if a := s.admin(t, http.MethodPut, "/admin/api/user-fields", large); a.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("large schema: got %s, want 413", a.Status)
	}
	if a := s.admin(t, http.MethodGet, "/admin/api/user-fields", ""); a.body != string(s.fields.Get().Source) {
		t.Errorf("got schema %s, want the old one", a.body)
	}
}

func TestAdminAPI_ReportWhilePluginIsDown(t *testing.T) {
	s := startSite(t, signedInService(), "")
	a := s.admin(t, http.MethodGet, "/admin/api/plugin", "")
	want := `{"active":{"version":"1.2.3","generation":7,"pid":99,"state":"serving","restarts":0},"previous":null,"versions":[],"swap":null}` + "\n"
	if a.body != want {
		t.Errorf("serving: got\n%swant\n%s", a.body, want)
	}
	s.down = true
	a = s.admin(t, http.MethodGet, "/admin/api/plugin", "")
	if !strings.Contains(a.body, `"version":"1.2.3"`) || !strings.Contains(a.body, `"state":"restarting"`) {
		t.Errorf("restarting: got %s, want version and state", a.body)
	}
}

func TestReadyz_WarnsOfUntrustedProxy(t *testing.T) {
	s := startSite(t, signedInService(), "")
	s.send(t, http.MethodGet, "/healthz", "", "X-Forwarded-For", "203.0.113.9")
	a := s.send(t, http.MethodGet, "/readyz", "")
	if a.StatusCode != http.StatusOK || !strings.Contains(a.body, `"warning":"`+untrustedProxyWarning) ||
		strings.Contains(a.body, "127.0.0.1") {
		t.Errorf("readyz: got %s %s, want 200 with the warning and without an address", a.Status, a.body)
	}
}

func TestReadyz_FollowsPluginAndHealthzDoesNot(t *testing.T) {
	s := startSite(t, signedInService(), "")
	want := `{"ready":true,"state":"serving","version":"1.2.3","generation":7,"pid":99}` + "\n"
	if a := s.send(t, http.MethodGet, "/readyz", ""); a.StatusCode != http.StatusOK || a.body != want {
		t.Errorf("readyz: got %s %s, want 200 and %s", a.Status, a.body, want)
	}
	s.down = true
	if a := s.send(t, http.MethodGet, "/readyz", ""); a.StatusCode != http.StatusServiceUnavailable || strings.Contains(a.body, "lost") {
		t.Errorf("readyz without a plugin: got %s %s, want 503 without the reason", a.Status, a.body)
	}
	if a := s.send(t, http.MethodGet, "/healthz", ""); a.StatusCode != http.StatusOK || a.body != "ok\n" {
		t.Errorf("healthz: got %s %s, want 200 ok", a.Status, a.body)
	}
}

func TestMetrics_CountByOperationAndStatus(t *testing.T) {
	s := startSite(t, signedInService(), "/cms")
	s.send(t, http.MethodGet, "/cms/api/v1/personal/profile/", "", "User-Id", "42", "User-Hash", userHash)
	s.send(t, http.MethodGet, "/cms/api/v1/personal/profile", "")
	s.send(t, http.MethodGet, "/cms/api/v1/personal/made-up", "")
	s.send(t, http.MethodGet, "/made-up", "")
	s.send(t, http.MethodGet, "/admin/api/plugin", "")
	body := s.send(t, http.MethodGet, "/metrics", "").body
	for _, want := range []string{
		`personal_http_requests_total{code="200",operation="profile"} 1`,
		`personal_http_requests_total{code="401",operation="profile"} 1`,
		`personal_http_requests_total{code="404",operation="other"} 2`,
		`personal_http_requests_total{code="401",operation="/admin/api/"} 1`,
		`personal_http_request_duration_seconds_count{operation="profile"} 2`,
		"personal_plugin_up 1",
		"# HELP personal_plugin_store_batch_size Sizes.", "# TYPE personal_plugin_store_batch_size histogram",
		`personal_plugin_store_batch_size_bucket{operation="write_session",process="7",le="1"} 1`,
		`personal_plugin_store_batch_size_bucket{operation="write_session",process="7",le="+Inf"} 4`,
		`personal_plugin_store_batch_size_sum{operation="write_session",process="7"} 9`,
		`personal_plugin_store_batch_size_count{operation="write_session",process="7"} 4`,
	} {
		if !strings.Contains(body, want+"\n") {
			t.Errorf("got no metric %s", want)
		}
	}
	if strings.Contains(body, "made-up") {
		t.Error("a path without a route is a label")
	}
}

func TestFrontPage_ShowsFirstCall(t *testing.T) {
	s := startSite(t, signedInService(), "/cms")
	a := s.send(t, http.MethodGet, "/", "")
	if a.StatusCode != http.StatusOK || !strings.Contains(a.body, "-d login=anna") ||
		!strings.Contains(a.body, "http://127.0.0.1:8080/cms/api/v1/personal/register/") {
		t.Errorf("got %s %s, want 200 and a first call", a.Status, a.body)
	}
}

func TestNamed_LeadsBrowsersAloneToTheName(t *testing.T) {
	const name = "http://localhost:8080"
	navigation := []string{"Sec-Fetch-Dest", "document", "Accept", "text/html,*/*"}
	for condition, tt := range map[string]struct {
		siteURL, method, url string
		headers              []string
		want                 string // where it leads; empty: the page itself
	}{
		"a browser":                      {name, "GET", "http://127.0.0.1:8080/account?next=/demo", navigation, name + "/account?next=/demo"},
		"an older browser":               {name, "GET", "http://127.0.0.1:8080/", []string{"Accept", "text/html"}, name + "/"},
		"a browser at the name":          {name, "GET", "http://localhost:8080/", navigation, ""},
		"a form":                         {name, "POST", "http://127.0.0.1:8080/account", navigation, ""},
		"a script":                       {name, "GET", "http://127.0.0.1:8080/", []string{"Sec-Fetch-Dest", "empty", "Accept", "text/html"}, ""},
		"curl":                           {name, "GET", "http://127.0.0.1:8080/", []string{"Accept", "*/*"}, ""},
		"another port, by a tunnel":      {name, "GET", "http://127.0.0.1:9000/", navigation, ""},
		"a site with a URL":              {"http://127.0.0.1:8080", "GET", "http://127.0.0.1:8080/", navigation, ""},
		"a visitor of the site":          {name, "GET", "http://www.example.com/", navigation, ""},
		"a name that is like an address": {name, "GET", "http://127.0.0.1.example:8080/", navigation, ""},
	} {
		t.Run(condition, func(t *testing.T) {
			r := httptest.NewRequest(tt.method, tt.url, nil)
			for i := 0; i < len(tt.headers); i += 2 {
				r.Header.Set(tt.headers[i], tt.headers[i+1])
			}
			w := httptest.NewRecorder()
			named(tt.siteURL, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })).ServeHTTP(w, r)
			if got := w.Header().Get("Location"); got != tt.want || (w.Code == http.StatusSeeOther) != (tt.want != "") {
				t.Errorf("got %d to %q, want %q", w.Code, got, tt.want)
			}
		})
	}
}
