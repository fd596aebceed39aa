package system

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/cms-personal/personal/internal/testkit/testdb"
)

// TestTypeScriptClient_KeepsItsUserSignedIn runs the tests of the npm package against real hosts. None of their clients is
// taken for a thief.
func TestTypeScriptClient_KeepsItsUserSignedIn(t *testing.T) {
	t.Parallel()
	patient := start(t, options{database: testdb.SQLite(t), settings: cheap + unthrottled})
	short := start(t, options{database: testdb.SQLite(t), settings: cheap + unthrottled + "\n[session]\ngrace = \"1s\"\n"})
	tests := exec.Command("node", "--test", "--test-reporter=tap", "test/client.test.js")
	tests.Dir = filepath.Join(repository, "shared", "personalclient", "typescript")
	tests.Env = append(os.Environ(), "PERSONAL_URL="+patient.api, "PERSONAL_SHORT_URL="+short.api)
	out, err := tests.CombinedOutput()
	if err != nil || !regexp.MustCompile(`(?m)^# pass [1-9]\d+$`).Match(out) || !bytes.Contains(out, []byte("\n# skipped 0\n")) {
		t.Fatalf("the tests of the client: %v\n%s", err, out)
	}
	for _, s := range []*system{patient, short} {
		if thefts := s.log.linesWith("type=session_theft"); len(thefts) > 0 {
			t.Errorf("a client was taken for a thief: %q", thefts)
		}
	}
}
