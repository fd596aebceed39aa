package system

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// adminToken reads the token for the admin's API.
func (s *system) adminToken(t testing.TB) string {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(s.data, "admin-token"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(token))
}

// admin calls the admin's API with its token and with headers, as name, value.
func (s *system) admin(t testing.TB, method, path, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	return s.web(t, method, "/admin/api/"+path, body, append([]string{"Authorization", "Bearer " + s.adminToken(t)}, headers...)...)
}

// web calls a page of the host's, or a preflight of the API.
func (s *system) web(t testing.TB, method, path, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(context.Background(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := s.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := &answer{Status: response.StatusCode, Header: response.Header, Raw: text}
	if err := s.described(a.asDescribed(request)); err != nil {
		t.Fatalf("%s %s answers %d %s:\n%v", method, path, response.StatusCode, text, err)
	}
	return response, string(text)
}

// putSchema brings a schema of user fields into force.
func (s *system) putSchema(t testing.TB, schema string) {
	t.Helper()
	if response, body := s.admin(t, http.MethodPut, "user-fields", schema); response.StatusCode/100 != 2 {
		t.Fatalf("PUT user-fields answers %d %s", response.StatusCode, body)
	}
}

// pluginStatus is what the tests read of /admin/api/plugin.
type pluginStatus struct {
	Active struct {
		Version    string `json:"version"`
		Generation int    `json:"generation"`
		PID        int    `json:"pid"`
		State      string `json:"state"`
	} `json:"active"`
	Versions []struct {
		Version string `json:"version"`
		SHA256  string `json:"sha256"`
	} `json:"versions"`
}

func (s *system) plugin(t testing.TB) pluginStatus {
	t.Helper()
	response, body := s.admin(t, http.MethodGet, "plugin", "")
	var status pluginStatus
	if err := json.Unmarshal([]byte(body), &status); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("GET plugin answers %d %s", response.StatusCode, body)
	}
	return status
}

// events returns how many events of a type the host was told of an account.
func (s *system) events(t testing.TB, kind string, userID int64) int {
	t.Helper()
	return len(s.log.linesWith(fmt.Sprintf(`msg="account event" type=%s user_id=%d `, kind, userID)))
}
