package system

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/testkit/testdb"
)

// TestContract checks the parts of the contract that HTTP, the plugin process and the
// host make up together, on one running system for each database. The rest is tested
// closer to the code: the rules of the operations by personaltest, which plugin runs
// against the plugin process, and routing, bodies, headers and languages in
// personalhttp. It also checks what needs no host of its own, such as the admin link, the pages and
// the log.
func TestContract(t *testing.T) {
	t.Parallel()
	// With this key of the last section in links, the plugin looks every second for accounts
	// to erase.
	const eager = "unverified_lifetime = \"1s\"\n"
	themes := []struct {
		name string
		test func(*testing.T, *system)
	}{
		{"paths", testPaths},
		{"order of errors", testErrorOrder},
		{"fields by JSON, form and multipart", testEncodings},
		{"limits in the document", testDocumentLimits},
		{"mails", testMails},
		{"verification", testVerification},
		{"notices", testNotices},
		{"export", testExport},
		{"deletion", testDeletion},
		{"second factor", testTwoFactor},
		{"commands about users", testUserCommands},
		{"parallel requests of one session", testTabs},
		{"host's own pages", testHostPages},
		{"ids of requests are logged", testRequestIDs},
		{"disabled account", testDisabledAccount},
		{"link to the admin pages", testAdminLink},
		{"client address of X-Forwarded-For", func(t *testing.T, s *system) {
			testClientAddress(t, s, [4]string{"127.0.0.1", "203.0.113.9", "127.0.0.1", "203.0.113.9"})
		}},
		{"cookies by the scheme of a trusted proxy", func(t *testing.T, s *system) { testProxyScheme(t, s, true) }},
		{"pages of a visitor", testVisitorPages}, // with its own schema
		{"changed schema", testSchemaChange},     // last: it ends with another schema
	}
	testdb.Database(t, func(t *testing.T, database string) {
		s := start(t, options{database: database, settings: cheap + unthrottled + twoFactor + links + eager,
			flags: []string{"--trusted-proxy", "127.0.0.0/8", "--trusted-proxy", "10.0.0.0/8", "--log-level", "debug"}})
		s.putSchema(t, schema)
		for _, theme := range themes {
			t.Run(theme.name, func(t *testing.T) { theme.test(t, s) })
		}
	})
}

// testPaths sends paths that a ServeMux before the handler would clean or redirect.
func testPaths(t *testing.T, s *system) {
	prefix := strings.TrimSuffix(strings.TrimPrefix(s.api, s.url), "/")
	for _, path := range []string{
		"", "/", "/nope", "/nope/", "/auth/x", "/AUTH/", "//auth/", "/auth//", "/./auth/", "/../personal/auth/", "/x/../auth/", "/auth/.",
		"/%2e%2e/auth/", "/auth;x=1/", "/auth%20/", "/admin/",
	} {
		for _, method := range []string{http.MethodPost, http.MethodGet} {
			s.do(t, call{method: method, path: prefix + path}).want(t, "not_found")
		}
	}
	u := s.newUser(t)
	for _, path := range []string{"auth", "auth/"} {
		s.post(t, path, params{"login": u.login, "password": u.password}).wantData(t, "user_id", "user_hash", "user_profile", "email_verified",
			"two_factor", "has_password", "proof", "proved_until")
	}
}

// testErrorOrder sends requests with two errors. The response has the one that comes
// first in 404, 405, 415, 413, 400, 429, 401, 403, 422, 409. The 429 is in TestThrottling.
func testErrorOrder(t *testing.T, s *system) {
	u, other := s.newUser(t), s.newUser(t)
	text := http.Header{"Content-Type": {"text/plain"}}
	asJSON := http.Header{"Content-Type": {jsonType}}
	large := strings.Repeat("x", 70_000)
	for name, test := range map[string]struct {
		call call
		want string
	}{
		"404 before 405 and 415":  {call{method: http.MethodPut, path: "nope/", header: text, body: strings.NewReader("x")}, "not_found"},
		"405 before 415":          {call{method: http.MethodPut, path: "auth/", header: text, body: strings.NewReader("x")}, "method_not_allowed"},
		"415 before 413":          {call{path: "auth/", header: text, body: strings.NewReader(large)}, "unsupported_media_type"},
		"415 before 401":          {call{path: "profile/", header: text, body: strings.NewReader("x")}, "unsupported_media_type"},
		"413 before 400":          {call{path: "auth/", header: asJSON, body: strings.NewReader(large)}, "too_large"},
		"400 before 401":          {call{path: "profile/", header: asJSON, body: strings.NewReader("{")}, "malformed_request"},
		"400 before 422":          {call{path: "auth/", header: asJSON, body: strings.NewReader(`{"x":1,"x":1}`)}, "malformed_request"},
		"400 of a field, 422":     {call{path: "register/", form: map[string][]string{"age": {"1", "2"}}}, "malformed_request"},
		"400 of a field, 401":     {call{path: "profile/", form: map[string][]string{"age": {"1", "2"}}}, "malformed_request"},
		"401 before 422, email":   {call{path: "email/", params: params{"email": 5}}, "unauthenticated"},
		"401 before 422, profile": {call{path: "profile/", params: params{"nonsense": 1}}, "unauthenticated"},
		"401 before 422, logout":  {call{path: "logout/", params: params{"all": "x"}}, "unauthenticated"},
		"401 before 422, delete":  {call{path: "delete/", params: params{"password": 5}}, "unauthenticated"},
		"401 before 422, export":  {call{path: "export/", params: params{"password": 5}}, "unauthenticated"},
		"401 before 422, factor":  {call{path: "two_factor/", params: params{"password": 5}}, "unauthenticated"},
		"401 before 422, code":    {call{path: "two_factor_confirm/", params: params{"code": 5}}, "unauthenticated"},
		"422 before 409, register": {call{path: "register/", params: applicant(params{"login": u.login, "name": "a\x00b"})},
			"validation_failed"},
		"422 before 409, email": {call{path: "email/", as: u.pair, params: params{"email": other.email, "password": "wrong wrong"}},
			"validation_failed"},
	} {
		t.Run(name, func(t *testing.T) { s.do(t, test.call).want(t, test.want) })
	}
	t.Run("all field errors at once", func(t *testing.T) {
		s.post(t, "register/", params{"login": "a", "password": "short", "email": "x", "name": strings.Repeat("n", 201), "age": "x",
			"nonsense": 1, "roles": "admin"}).
			wantFields(t, "validation_failed", fieldErrors{"login": "too_short", "password": "too_short", "confirm_password": "required",
				"email": "invalid_format", "name": "too_long", "age": "invalid_type", "nonsense": "unknown_field", "roles": "read_only"})
	})
}

// schema has a field of every type, not in the order in which they are shown.
const schema = `[
 {"name":"interests","type":"tags","order":9,"max_length":10},
 {"name":"phone","type":"text","label":{"en":"Phone","ru":"Телефон"},"hint":{"en":"Abroad too.","ru":"И за границей."},
  "pattern":"\\+[0-9]{5,15}","pattern_message":{"en":"Begin with +.","ru":"Начните с +."},"group":"contact","order":1},
 {"name":"about","type":"long_text","max_length":10,"order":2},
 {"name":"age","type":"integer","min":0,"max":150,"order":3},
 {"name":"height","type":"number","max":3,"order":4},
 {"name":"newsletter","type":"boolean","default":false,"order":5},
 {"name":"birthday","type":"date","order":6},
 {"name":"visited","type":"datetime","order":6},
 {"name":"colour","type":"enum","options":[{"value":"red","label":{"en":"Red","ru":"Красный"}},{"value":"blue"}],"order":7},
 {"name":"avatar","type":"file","order":8},
 {"name":"company","type":"link","order":8},
 {"name":"friends","type":"link_set","order":8},
 {"name":"secret_note","type":"text","hidden":true,"order":8},
 {"name":"customer_number","type":"text","read_only":true,"order":10}
]`

// testEncodings registers with the same values by JSON, form and multipart.
func testEncodings(t *testing.T, s *system) {
	fields := params{"name": "Анна", "phone": "+74951234567", "age": 42, "height": 1.5, "newsletter": true,
		"birthday": "1999-12-31", "colour": "blue", "friends": []string{"7"}, "interests": []string{"go", "cms"}}
	inForm := url.Values{"name": {"Анна"}, "phone": {"+74951234567"}, "age": {"42"}, "height": {"1.5"}, "newsletter": {"on"},
		"birthday": {"1999-12-31"}, "colour": {"blue"}, "friends[]": {"7"}, "interests[]": {"go", "cms"}, "about": {""}}
	form := func() url.Values {
		values := maps.Clone(inForm)
		for name, value := range applicant(nil) {
			values.Set(name, value.(string))
		}
		return values
	}
	body, mediaType := multipartOf(t, form())
	want := map[string]any{"name": "Анна", "phone": "+74951234567", "about": nil, "age": 42.0, "height": 1.5, "newsletter": true,
		"birthday": "1999-12-31", "visited": nil, "colour": "blue", "avatar": nil, "company": nil, "friends": []any{"7"},
		"interests": []any{"go", "cms"}, "customer_number": nil}
	for encoding, register := range map[string]call{
		"JSON":      {path: "register/", params: applicant(fields)},
		"form":      {path: "register/", form: form()},
		"multipart": {path: "register/", body: strings.NewReader(body), header: http.Header{"Content-Type": {mediaType}}},
	} {
		t.Run(encoding, func(t *testing.T) {
			got := s.do(t, register).profile(t)
			delete(got, "login")
			delete(got, "email")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("profile (-want +got):\n%s", diff)
			}
		})
	}
}

func multipartOf(t testing.TB, form url.Values) (body, mediaType string) {
	t.Helper()
	var b strings.Builder
	w := multipart.NewWriter(&b)
	for name, values := range form {
		for _, value := range values {
			if err := w.WriteField(name, value); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String(), w.FormDataContentType()
}

// testDocumentLimits checks that the limits in the handler's document are those that
// the plugin applies.
func testDocumentLimits(t *testing.T, s *system) {
	parameters := s.registerParameters(t)
	for _, name := range []string{"login", "name", "password", "about"} {
		p := parameters[name]
		if p.MaxLength == 0 || (name == "login" || name == "password") && p.MinLength < 2 {
			t.Fatalf("got limits %+v of %s", p, name)
		}
		lengths := map[int]string{p.MaxLength: "", p.MaxLength + 1: "too_long"}
		if p.MinLength > 1 {
			lengths[p.MinLength-1], lengths[p.MinLength] = "too_short", ""
		}
		for length, want := range lengths {
			value := applicant(params{name: strings.Repeat("qwzx", length)[:length]})
			value["confirm_password"] = value["password"]
			delete(value, "email") // so that nothing is stored: the shortest login may be taken
			if got := s.post(t, "register/", value).Result.Fields[name].Code; got != want {
				t.Errorf("%s of %d characters: got %q, want %q", name, length, got, want)
			}
		}
	}
}

type parameterSchema struct {
	MinLength int `json:"minLength"`
	MaxLength int `json:"maxLength"`
}

// registerParameters returns the parameters of register in the document.
func (s *system) registerParameters(t *testing.T) map[string]parameterSchema {
	t.Helper()
	var d struct {
		Components struct {
			Schemas struct {
				Register struct {
					Properties map[string]parameterSchema `json:"properties"`
				} `json:"register_parameters"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(s.getAs(t, pair{}, "openapi.json").Raw, &d); err != nil {
		t.Fatal(err)
	}
	return d.Components.Schemas.Register.Properties
}

// testMails reads the mails that a user gets when they recover the account and when
// they change the e-mail address.
func testMails(t *testing.T, s *system) {
	t.Run("recovery mail", func(t *testing.T) {
		login := "Quirky-" + unique()
		u := applicant(params{"login": login, "email": unique() + "@mail.example", "name": "Zebra Zanzibar"})
		s.post(t, "register/", u).want(t, "")
		s.do(t, call{path: "recover/", params: params{"login": strings.ToLower(login)},
			header: http.Header{"Accept-Language": {"ru"}, "Host": {"evil.example"}, "X-Forwarded-Host": {"evil.example"}}}).want(t, "")
		m := s.mailTo(t, mailtext.Recovery, u["email"].(string))
		m.wantLink(t, "https://site.example/recover#token="+m.token(t))
		if !isCyrillic(m.text) || !isCyrillic(m.html) || !isCyrillic(m.subject) {
			t.Errorf("the mail is not in the caller's language: %q\n%s", m.subject, m.text)
		}
		all := strings.ToLower(m.subject + m.text + m.html + m.header.Get("From") + m.header.Get("Reply-To"))
		for _, text := range []string{login, "zebra", "evil.example"} {
			if strings.Contains(all, strings.ToLower(text)) {
				t.Errorf("the mail repeats %q, which a caller sent", text)
			}
		}
		for _, name := range []string{"Message-Id", "Date", "From"} {
			if m.header.Get(name) == "" {
				t.Errorf("the mail has no header %s", name)
			}
		}
		s.post(t, "recover_confirm/", confirm(m.token(t), recovered)).wantData(t)
		s.post(t, "auth/", params{"login": login, "password": recovered}).want(t, "")
	})
	t.Run("mails of an e-mail change", func(t *testing.T) {
		u := s.newUser(t)
		local := "Next." + unique()
		address := local + "@mail.example"
		s.postAs(t, u.pair, "email/", params{"password": u.password, "email": address}).wantData(t)
		m := s.mailTo(t, mailtext.EmailChange, address)
		m.wantLink(t, "https://site.example/email#token="+m.token(t))
		s.post(t, "email_confirm/", params{"token": m.token(t)}).wantData(t)
		if got := s.getAs(t, u.pair, "profile/").profile(t)["email"]; got != address {
			t.Errorf("got address %v, want %s", got, address)
		}
		notice := s.mailTo(t, mailtext.EmailChanged, u.email)
		if strings.Contains(notice.text+notice.html, local) || tokenLine.MatchString(notice.text) {
			t.Errorf("the notice to the old address has the new address or a token:\n%s", notice.text)
		}
	})
}

func isCyrillic(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r >= 'А' && r <= 'я' })
}

// testTabs refreshes one session from several tabs of a browser, each with the hash
// that the browser stored last.
func testTabs(t *testing.T, s *system) {
	u := s.newUser(t)
	var stored atomic.Pointer[pair]
	stored.Store(&u.pair)
	errs := make([]error, 8)
	var tabs sync.WaitGroup
	for tab := range errs {
		tabs.Go(func() {
			for range 10 {
				r, err := s.exchange(call{method: http.MethodGet, path: "auth_refresh/", as: *stored.Load()})
				if err != nil || r.Success != 1 {
					errs[tab] = errors.Join(err, fmt.Errorf("got %+v", r))
					return
				}
				next := r.pair(t)
				stored.Store(&next)
			}
		})
	}
	tabs.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	s.wantAlive(t, "the session", *stored.Load())
}

func testHostPages(t *testing.T, s *system) {
	for path, want := range map[string]string{"/healthz": "", "/readyz": "", "/metrics": "# HELP"} {
		if got, body := s.web(t, http.MethodGet, path, ""); got.StatusCode != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("GET %s: got %d %.200s", path, got.StatusCode, body)
		}
	}
	t.Run("page behind RequireUser", func(t *testing.T) {
		u := s.newUser(t)
		russian := http.Header{"Accept-Language": {"ru"}}
		r := s.do(t, call{method: http.MethodGet, path: "/demo/greeting", header: russian}).want(t, "unauthenticated")
		if !isCyrillic(r.Result.Message) {
			t.Errorf("got message %q, want it in Russian", r.Result.Message)
		}
		s.do(t, call{method: http.MethodGet, path: "/demo/greeting", as: pair{u.ID, flip(u.Hash, 40)}}).want(t, "unauthenticated")
		got, body := s.web(t, http.MethodGet, "/demo/greeting", "", "User-Id", strconv.FormatInt(u.ID, 10), "User-Hash", u.Hash)
		if got.StatusCode != http.StatusOK || !strings.Contains(body, u.login) {
			t.Errorf("got %d %s, want a greeting of the user", got.StatusCode, body)
		}
	})
	t.Run("status of the plugin", func(t *testing.T) {
		status := s.plugin(t)
		if status.Active.PID == 0 || status.Active.Version == "" || status.Active.State != "serving" ||
			len(status.Versions) != 1 || len(status.Versions[0].SHA256) != 64 {
			t.Errorf("got %+v", status)
		}
	})
}

// testSchemaChange changes the schema of user fields, which the host stores and the
// plugin caches by revision. A change counts from the next request on.
func testSchemaChange(t *testing.T, s *system) {
	profile := func(u user) map[string]any { return s.getAs(t, u.pair, "profile/").profile(t) }
	s.putSchema(t, `[]`)
	u := s.newUser(t)
	s.postAs(t, u.pair, "profile/", params{"city": "Kazan"}).wantFields(t, "validation_failed", fieldErrors{"city": "unknown_field"})

	s.putSchema(t, `[{"name":"city","type":"text","default":"Kazan"}]`)
	if city, shown := profile(u)["city"]; !shown || city != nil {
		t.Errorf("added field of an existing user: got %v (shown: %t), want null", city, shown)
	}
	if city := s.post(t, "register/", applicant(nil)).profile(t)["city"]; city != "Kazan" {
		t.Errorf("added field of a new user: got %v, want the default", city)
	}
	s.postAs(t, u.pair, "profile/", params{"city": "Omsk"}).want(t, "")

	s.putSchema(t, `[]`)
	if _, shown := profile(u)["city"]; shown {
		t.Error("a removed field is shown")
	}
	s.postAs(t, u.pair, "profile/", params{"name": "Anna"}).want(t, "")
	s.putSchema(t, `[{"name":"city","type":"text","hidden":true}]`)
	if _, shown := profile(u)["city"]; shown {
		t.Error("a hidden field is shown")
	}

	if got, body := s.admin(t, http.MethodPut, "user-fields", `[{"name":"city","type":"blob"}]`); got.StatusCode != http.StatusUnprocessableEntity ||
		!strings.Contains(body, "city") {
		t.Errorf("PUT of an invalid schema: got %d %s, want 422 that names the field", got.StatusCode, body)
	}
	s.putSchema(t, `[{"name":"city","type":"text","required":true}]`)
	if city := profile(u)["city"]; city != "Omsk" {
		t.Errorf("value of a field that was removed and added again: got %v, want Omsk", city)
	}
	s.post(t, "register/", applicant(nil)).wantFields(t, "validation_failed", fieldErrors{"city": "required"})
}
