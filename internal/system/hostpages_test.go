package system

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
)

func testHost(t *testing.T, s *system) {
	for path, want := range map[string]string{"/healthz": "", "/readyz": "", "/metrics": "# HELP"} {
		if response, body := s.web(t, http.MethodGet, path, ""); response.StatusCode != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("GET %s answers %d %.200s", path, response.StatusCode, body)
		}
	}
	t.Run("a page behind RequireUser", func(t *testing.T) {
		u := s.newUser(t)
		a := s.do(t, call{method: http.MethodGet, path: "/demo/greeting", header: http.Header{"Accept-Language": {"ru"}}}).want(t, "unauthenticated")
		if !isCyrillic(a.Result.Message) {
			t.Errorf("in Russian it says %q", a.Result.Message)
		}
		s.do(t, call{method: http.MethodGet, path: "/demo/greeting", as: pair{u.ID, flip(u.Hash, 40)}}).want(t, "unauthenticated")
		response, body := s.web(t, http.MethodGet, "/demo/greeting", "", "User-Id", strconv.FormatInt(u.ID, 10), "User-Hash", u.Hash)
		if response.StatusCode != http.StatusOK || !strings.Contains(body, u.login) {
			t.Errorf("to its user it answers %d %s", response.StatusCode, body)
		}
	})
	t.Run("the admin's report on the plugin", func(t *testing.T) {
		status := s.plugin(t)
		if status.Active.PID == 0 || status.Active.Version == "" || status.Active.State != "serving" ||
			len(status.Versions) != 1 || len(status.Versions[0].SHA256) != 64 {
			t.Errorf("GET plugin answers %+v", status)
		}
		if response, _ := s.web(t, http.MethodGet, "/admin/api/plugin", ""); response.StatusCode != http.StatusUnauthorized {
			t.Errorf("without a token it answers %d", response.StatusCode)
		}
	})
}
