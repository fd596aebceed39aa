package system

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/testkit/testdb"
)

var profilesAt = regexp.MustCompile(`(?m)^profiles at (\S+)$`)

// profile returns the status and the body of a profile that the host serves.
func (s *system) profile(ctx context.Context, path string) (status int, body []byte, err error) {
	found := profilesAt.FindStringSubmatch(s.log.String())
	if found == nil {
		return 0, nil, fmt.Errorf("the host does not print where it serves profiles")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, found[1]+path, nil)
	if err != nil {
		return 0, nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body)
	return response.StatusCode, body, err
}

func (s *system) wantProfile(t *testing.T, path string) []byte {
	t.Helper()
	status, body, err := s.profile(t.Context(), path)
	if err != nil || status != http.StatusOK {
		t.Fatalf("%s: got %d %s, error %v, want 200", path, status, body, err)
	}
	return body
}

// readProfile returns what Go's pprof reads in a profile.
func readProfile(t *testing.T, data []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "profile")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "tool", "pprof", "-raw", file).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

func TestProfiles_OfHostAndPluginAreReadable(t *testing.T) {
	t.Parallel()
	s := start(t, options{database: testdb.SQLite(t), settings: cheap, flags: []string{"--pprof", "127.0.0.1:0", "--bake", "1h"}})
	for path, want := range map[string]string{
		"goroutine":                "cli.(*host).run",
		"plugin/goroutine":         "plugins/rpc.Serve",
		"profile?seconds=1":        "cpu/nanoseconds",
		"plugin/profile?seconds=1": "cpu/nanoseconds",
	} {
		if got := readProfile(t, s.wantProfile(t, path)); !strings.Contains(got, want) {
			t.Errorf("%s: got\n%s\nwant %s in it", path, got, want)
		}
	}
	if status := s.status("/debug/pprof/"); status != http.StatusNotFound {
		t.Errorf("the site's own listener: got %d, want 404", status)
	}
	if got := s.wantProfile(t, "plugin/"); !bytes.Contains(got, []byte("href='heap?debug=1'")) {
		t.Errorf("got index %s, want links relative to it", got)
	}

	newer := s.installAnother(t)
	s.use(t, newer) // the old process is warm
	want, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", s.plugin(t).Active.PID))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.wantProfile(t, "plugin/cmdline"); string(got) != strings.TrimSuffix(string(want), "\x00") {
		t.Errorf("got a profile of %q during a swap, want one of the live process %q", got, want)
	}
	sockets, err := filepath.Glob(filepath.Join(s.data, "run", "sockets", "profiles-*"))
	if err != nil || len(sockets) != 2 {
		t.Fatalf("got sockets %q, error %v, want one of each process", sockets, err)
	}
	for _, socket := range sockets {
		if info, err := os.Stat(socket); err != nil || info.Mode() != os.ModeSocket|0o600 {
			t.Errorf("got %v, error %v, want a socket for its owner only", info.Mode(), err)
		}
	}

	ended := make(chan int, 1)
	go func() {
		status, _, _ := s.profile(context.Background(), "plugin/profile?seconds=600")
		ended <- status
	}()
	eventually(t, "a profile is recorded", func() bool {
		return bytes.Contains(s.wantProfile(t, "plugin/goroutine?debug=2"), []byte("net/http/pprof.Profile"))
	})
	s.stop(t)
	if status := <-ended; status == http.StatusOK {
		t.Error("got a profile of a stopped process, want none")
	}
}

// testNoProfiles checks that no profiles can be read without --pprof.
func testNoProfiles(t *testing.T, s *system) {
	if sockets, err := filepath.Glob(filepath.Join(s.data, "run", "sockets", "profiles-*")); err != nil || len(sockets) != 0 {
		t.Errorf("got sockets %q, error %v, want none", sockets, err)
	}
}
