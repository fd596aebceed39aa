package system

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func testSchema(t *testing.T, s *system) {
	t.Cleanup(func() { s.putSchema(t, schema) })
	t.Run("is guarded by the admin's token", func(t *testing.T) {
		for _, authorization := range []string{"", "Bearer", "Bearer x", "Basic " + s.adminToken(t), s.adminToken(t)} {
			for _, method := range []string{http.MethodGet, http.MethodPut} {
				if response, body := s.web(t, method, "/admin/api/user-fields", "[]", "Authorization", authorization); response.StatusCode != http.StatusUnauthorized {
					t.Errorf("%s with Authorization %.7q answers %d %s", method, authorization, response.StatusCode, body)
				}
			}
		}
		info, err := os.Stat(filepath.Join(s.data, "admin-token"))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("admin-token: %v, %v", info.Mode(), err)
		}
	})
	t.Run("is kept as it was put, and told apart by its ETag", func(t *testing.T) { testSchemaTag(t, s) })
	t.Run("a faulty one is refused and the last good one stays", func(t *testing.T) { testFaultySchemas(t, s) })
	t.Run("counts from the next request on", func(t *testing.T) { testSchemaChange(t, s) })
	t.Run("required fields", func(t *testing.T) {
		u := s.newUser(t)
		s.putSchema(t, `[{"name":"city","type":"text","required":true}]`)
		s.post(t, "register/", applicant(nil)).wantFaults(t, "validation_failed", faults{"city": "required"})
		s.post(t, "register/", applicant(params{"city": ""})).wantFaults(t, "validation_failed", faults{"city": "required"})
		s.post(t, "register/", applicant(params{"city": "Kazan"})).want(t, "")
		s.postAs(t, u.pair, "profile/", params{"name": "Anna"}).want(t, "")
		s.postAs(t, u.pair, "profile/", params{"city": nil}).wantFaults(t, "validation_failed", faults{"city": "required"})
	})
}

func testSchemaTag(t *testing.T, s *system) {
	put, _ := s.admin(t, http.MethodPut, "user-fields", `[{"name":"city","type":"text"}]`)
	got, body := s.admin(t, http.MethodGet, "user-fields", "")
	tag := got.Header.Get("ETag")
	if tag == "" || put.Header.Get("ETag") != tag || !strings.Contains(body, `"city"`) {
		t.Fatalf("GET answers %s with ETag %q, PUT answered ETag %q", body, tag, put.Header.Get("ETag"))
	}
	kept, err := os.ReadFile(filepath.Join(s.data, "user-fields.json"))
	if err != nil || !strings.Contains(string(kept), `"city"`) {
		t.Errorf("user-fields.json holds %s, %v", kept, err)
	}
	next := `[{"name":"town","type":"text"}]`
	for _, test := range []struct {
		ifMatch string
		want    int
	}{{`"other"`, http.StatusPreconditionFailed}, {tag, http.StatusOK}, {tag, http.StatusPreconditionFailed}} {
		if response, body := s.admin(t, http.MethodPut, "user-fields", next, "If-Match", test.ifMatch); response.StatusCode != test.want {
			t.Errorf("PUT with If-Match %s answers %d %s, want %d", test.ifMatch, response.StatusCode, body, test.want)
		}
	}
}

func testFaultySchemas(t *testing.T, s *system) {
	s.putSchema(t, schema)
	u := s.newUser(t)
	for name, field := range map[string]string{
		"no name":                  `{"type":"text"}`,
		"a name in capitals":       `{"name":"City","type":"text"}`,
		"a name with a hyphen":     `{"name":"home-town","type":"text"}`,
		"a double name":            `{"name":"faulty","type":"text"},{"name":"faulty","type":"integer"}`,
		"a reserved parameter":     `{"name":"login","type":"text"}`,
		"another parameter":        `{"name":"confirm_password","type":"text"}`,
		"a parameter elsewhere":    `{"name":"old_password","type":"text"}`,
		"the name itself":          `{"name":"name","type":"text"}`,
		"a system name":            `{"name":"roles","type":"text"}`,
		"another system name":      `{"name":"user_hash","type":"text"}`,
		"no type":                  `{"name":"faulty"}`,
		"an unknown type":          `{"name":"faulty","type":"blob"}`,
		"enum without options":     `{"name":"faulty","type":"enum"}`,
		"a bad pattern":            `{"name":"faulty","type":"text","pattern":"("}`,
		"a pattern beyond RE2":     `{"name":"faulty","type":"text","pattern":"(?=a)a"}`,
		"required and read-only":   `{"name":"faulty","type":"text","required":true,"read_only":true}`,
		"required and hidden":      `{"name":"faulty","type":"text","required":true,"hidden":true}`,
		"a default not in options": `{"name":"faulty","type":"enum","options":[{"value":"a"}],"default":"b"}`,
		"a default out of range":   `{"name":"faulty","type":"integer","max":5,"default":6}`,
		"a default that is long":   `{"name":"faulty","type":"text","max_length":2,"default":"abc"}`,
		"a default of other type":  `{"name":"faulty","type":"boolean","default":"perhaps"}`,
		"an unknown member":        `{"name":"faulty","type":"text","reqired":true}`,
	} {
		response, body := s.admin(t, http.MethodPut, "user-fields", "["+field+"]")
		if response.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("%s: PUT answers %d %s", name, response.StatusCode, body)
		}
		if strings.Contains(field, "faulty") && !strings.Contains(body, "faulty") {
			t.Errorf("%s: the refusal does not name the field: %s", name, body)
		}
	}
	for _, text := range []string{"", "{", `{"name":"city","type":"text"}`, `"x"`} {
		if response, body := s.admin(t, http.MethodPut, "user-fields", text); response.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("PUT of %q answers %d %s", text, response.StatusCode, body)
		}
	}
	if _, still := s.getAs(t, u.pair, "profile/").profile(t)["colour"]; !still {
		t.Error("the last good schema is no longer in force")
	}
}

func testSchemaChange(t *testing.T, s *system) {
	profile := func(u user) map[string]any { return s.getAs(t, u.pair, "profile/").profile(t) }
	s.putSchema(t, `[]`)
	u := s.newUser(t)
	s.postAs(t, u.pair, "profile/", params{"city": "Kazan"}).wantFaults(t, "validation_failed", faults{"city": "unknown_field"})

	s.putSchema(t, `[{"name":"city","type":"text","default":"Kazan"}]`)
	if city, shown := profile(u)["city"]; !shown || city != nil {
		t.Errorf("an added field is shown to an existing user as %v, %v", city, shown)
	}
	s.postAs(t, u.pair, "profile/", params{"city": "Omsk"}).want(t, "")

	s.putSchema(t, `[]`)
	if _, shown := profile(u)["city"]; shown {
		t.Error("a removed field is still shown")
	}
	s.postAs(t, u.pair, "profile/", params{"name": "Anna"}).want(t, "")
	s.putSchema(t, `[{"name":"city","type":"text","hidden":true}]`)
	if _, shown := profile(u)["city"]; shown {
		t.Error("a hidden field is shown")
	}
	s.putSchema(t, `[{"name":"city","type":"text"}]`)
	if city := profile(u)["city"]; city != "Omsk" {
		t.Errorf("what was stored in a removed field is now %v", city)
	}
}
