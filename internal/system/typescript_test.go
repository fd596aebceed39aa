package system

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/testkit/testdb"
)

// TestTypeScriptClient_KeepsItsUserSignedIn runs the tests of the npm package against real hosts. None of their clients is
// taken for a thief.
func TestTypeScriptClient_KeepsItsUserSignedIn(t *testing.T) {
	t.Parallel()
	patient := start(t, options{database: testdb.SQLite(t), settings: cheap + unthrottled + unverified + twoFactor})
	short := start(t, options{database: testdb.SQLite(t), settings: cheap + unthrottled + "\n[session]\ngrace = \"1s\"\n"})
	tests := inClient("--test", "--test-reporter=tap", "--test-timeout=120000", "test/client.test.js")
	tests.Env = append(tests.Env, "PERSONAL_URL="+patient.api, "PERSONAL_SHORT_URL="+short.api)
	out, err := tests.CombinedOutput()
	if err != nil || !regexp.MustCompile(`(?m)^# pass [1-9]\d+$`).Match(out) || !bytes.Contains(out, []byte("\n# skipped 0\n")) {
		t.Fatalf("the tests of the client: %v\n%s", err, out)
	}
	wantNoThefts(t, patient, short)
}

// inClient returns a command of Node in the folder of the npm package.
func inClient(args ...string) *exec.Cmd {
	cmd := exec.Command("node", args...)
	cmd.Dir = filepath.Join(repository, "shared", "personalclient", "typescript")
	cmd.Env = os.Environ()
	return cmd
}

func wantNoThefts(t *testing.T, hosts ...*system) {
	t.Helper()
	for _, s := range hosts {
		if thefts := s.log.linesWith("type=session_theft"); len(thefts) > 0 {
			t.Errorf("a client was taken for a thief: %q", thefts)
		}
	}
}

// TestTypeScriptClient_LivesThroughSwapAndRestart swaps the plugin and restarts the host under two tabs that refresh all the time.
// While the host is down their calls fail; they stay signed in.
func TestTypeScriptClient_LivesThroughSwapAndRestart(t *testing.T) {
	t.Parallel()
	o := options{database: testdb.SQLite(t), settings: cheap + unthrottled, data: filepath.Join(t.TempDir(), "data")}
	s := start(t, o)
	out := &journal{}
	app := inClient("test/underway.js")
	app.Env = append(app.Env, "PERSONAL_URL="+s.api)
	app.Stdout, app.Stderr = out, out
	end, err := app.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := app.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = app.Process.Kill() }) // it has ended by then, unless the test fails
	answers := func() int { return strings.Count(out.String(), "underway\n") }
	wantAnswers := func(when string) {
		t.Helper()
		before := answers()
		eventually(t, "both tabs get answers "+when, func() bool { return answers() > before+20 })
	}

	wantAnswers("at first")
	s.use(t, s.installAnother(t))
	wantAnswers("after a swap")
	s.stop(t)
	eventually(t, "calls of both tabs fail, several times", func() bool { return strings.Count(out.String(), "network\n") >= 8 })
	o.flags = []string{"--addr", strings.TrimPrefix(s.url, "http://")}
	restarted := start(t, o)
	wantAnswers("after a restart")

	_ = end.Close()
	if err := app.Wait(); err != nil {
		t.Fatalf("the app: %v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var got struct {
		Failed    map[string]string
		SignedOut []string
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &got); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	delete(got.Failed, "network")
	delete(got.Failed, "unavailable")
	if len(got.Failed) > 0 || len(got.SignedOut) > 0 {
		t.Errorf("got errors %v, and sign-outs %q, want none but of a host that is down", got.Failed, got.SignedOut)
	}
	wantNoThefts(t, s, restarted)
}
