package system

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/testkit"
)

// embeddingPage is the page that continues from the README.
const embeddingPage = repository + "/docs/embedding.md"

// blocksOf returns the code blocks of one type below a heading of a page.
func blocksOf(t *testing.T, page, title, kind string) []string {
	t.Helper()
	_, section, ok := strings.Cut(page, "\n## "+title+"\n")
	if !ok {
		t.Fatalf("the page has no heading %q", title)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var blocks []string
	for _, block := range codeBlock.FindAllStringSubmatch(section, -1) {
		if block[1] == kind {
			blocks = append(blocks, block[2])
		}
	}
	return blocks
}

// blockOf returns the only such block.
func blockOf(t *testing.T, page, title, kind string) string {
	t.Helper()
	blocks := blocksOf(t, page, title, kind)
	if len(blocks) != 1 {
		t.Fatalf("%s: got %d blocks of type %s, want 1", title, len(blocks), kind)
	}
	return blocks[0]
}

// cms is a program that embeds the module, made in its own folder by the commands
// of the README, and started by the last of them.
type cms struct {
	dir, url string
	log      *journal
	shell    *exec.Cmd
	ended    chan error
}

// startCMS makes a program of the source and files, and starts it with further
// environment variables. The address of the pages becomes a free one. The commands build the
// plugin: go build finds that of make build up to date.
func startCMS(t *testing.T, source string, files map[string]string, env ...string) *cms {
	t.Helper()
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	parent := t.TempDir()
	c := &cms{dir: filepath.Join(parent, "cms"), log: &journal{}, ended: make(chan error, 1)}
	if err := os.Symlink(root, filepath.Join(parent, "personal")); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	c.url = "http://" + address
	if !strings.Contains(source, `"127.0.0.1:8080"`) {
		t.Fatalf("the program does not listen at the address of the page:\n%s", source)
	}
	write := map[string]string{"main.go": strings.ReplaceAll(source, "127.0.0.1:8080", address)}
	for name, text := range files {
		write[name] = text
	}
	if err := os.Mkdir(c.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range write {
		if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	script := blockOf(t, readFile(t, repository+"/README.md"), "Embed it", "sh")
	const build = "go -C ../personal build -o \"$PWD/bin/personal\" ./plugin\n"
	if !strings.Contains(script, build) {
		t.Fatalf("the commands of the README do not build the plugin with %s", build)
	}
	script = "mkdir bin\ncp '" + testkit.Binaries(t).Plugin + "' bin/personal\n" + script
	c.shell = exec.Command("bash", "-e", "-c", script)
	c.shell.Dir, c.shell.Stdout, c.shell.Stderr = c.dir, c.log, c.log
	c.shell.Env = append(append(os.Environ(), goFlags), env...)
	c.shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.shell.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { c.ended <- c.shell.Wait() }()
	t.Cleanup(func() {
		_ = syscall.Kill(-c.shell.Process.Pid, syscall.SIGKILL)
		if t.Failed() {
			t.Log(c.log)
		}
	})
	c.awaitListening(t)
	return c
}

// goFlags lets builds share their parts with those of make build, and link as it does.
const goFlags = "GOFLAGS=-trimpath -buildvcs=false '-ldflags=-s -w'"

// awaitListening waits longer than for other things: the commands compile the plugin.
func (c *cms) awaitListening(t *testing.T) {
	t.Helper()
	limit := time.After(5 * time.Minute)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(c.log.String(), "listening address=") {
		select {
		case err := <-c.ended:
			t.Fatalf("the commands ended early: %v\n%s", err, c.log)
		case <-limit:
			t.Fatalf("the program does not listen:\n%s", c.log)
		case <-tick.C:
		}
	}
}

// stop sends SIGTERM to the program alone, and waits for the commands, which succeed
// only if the program ends with code 0.
func (c *cms) stop(t *testing.T) {
	t.Helper()
	wantPlugins(t, filepath.Join(c.dir, "data"), 1)
	found := false
	processes, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	for _, process := range processes {
		folder, _ := os.Readlink(process)
		program, _ := os.Readlink(filepath.Join(filepath.Dir(process), "exe"))
		if folder != c.dir || filepath.Base(program) != "cms" {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(process, "/proc/%d/", &pid); err != nil {
			t.Fatal(err)
		}
		found = true
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	if !found {
		t.Fatal("the program does not run")
	}
	select {
	case err := <-c.ended:
		if err != nil {
			t.Errorf("after SIGTERM the program ended with %v, want code 0", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the program does not end after SIGTERM")
	}
	wantPlugins(t, filepath.Join(c.dir, "data"), 0)
}

// freeAddress returns a loopback address at which nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// TestREADME_ProgramServesARegistration does what the README says, from an empty folder:
// it writes the program, runs the commands, compares what the requests return, signs in,
// and stops the program.
func TestREADME_ProgramServesARegistration(t *testing.T) {
	t.Parallel()
	page := readFile(t, repository+"/README.md")
	source := blockOf(t, page, "Embed it", "go")
	c := startCMS(t, source, nil)
	post(t, c.url+"/api/v1/personal/register/", "login=anna&email=anna@example.com&password=correct+horse&confirm_password=correct+horse") // the page says: in a browser
	_, section, _ := strings.Cut(page, "\n## Embed it\n")
	section, _, _ = strings.Cut(section, "\n## ")
	got := (&tour{url: c.url, dir: c.dir}).play(t, section)
	if diff := cmp.Diff(strings.Split(maskTour(section), "\n"), strings.Split(maskTour(got), "\n")); diff != "" {
		t.Errorf("the README differs from what its commands print (-page +got):\n%s", diff)
	}
	if status, body := post(t, c.url+"/api/v1/personal/auth/", "login=boris&password=correct+horse"); status != http.StatusOK {
		t.Errorf("sign-in: got %d %s, want 200", status, body)
	}
	c.stop(t)
}

func TestREADME_ProgramIsShort(t *testing.T) {
	const maxLines = 30
	source := blockOf(t, readFile(t, repository+"/README.md"), "Embed it", "go")
	_, body, ok := strings.Cut(source, "\n)\n")
	if n := strings.Count(strings.TrimSpace(body), "\n") + 1; !ok || n > maxLines {
		t.Errorf("got %d lines after the imports, want at most %d", n, maxLines)
	}
}

// TestEmbedding_FullProgramWorks runs the full program of docs/embedding.md with its
// files and its test.
func TestEmbedding_FullProgramWorks(t *testing.T) {
	t.Parallel()
	const title = "The full program"
	page := readFile(t, embeddingPage)
	c := startCMS(t, blockOf(t, page, title, "go"),
		map[string]string{
			"user-fields.json": blockOf(t, page, title, "json"), "personal.toml": blockOf(t, page, title, "toml"),
			"layout.html": blockOf(t, page, "The short program", "html"), "main_test.go": blockOf(t, page, "Test your CMS", "go"),
		},
		"ADMIN_TOKEN=0123456789", "SMTP_URL=smtp://127.0.0.1:1025")
	status, body := post(t, c.url+"/api/v1/personal/register/", registration+"&city=Rome")
	found := regexp.MustCompile(`"user_hash":"([^"]+)"`).FindStringSubmatch(body)
	if status != http.StatusOK || found == nil {
		t.Fatalf("register: got %d %s, want 200", status, body)
	}
	for _, test := range []struct {
		path   string
		header []string
		status int
		want   string
	}{
		{"/app/hello", []string{"User-Id", "1", "User-Hash", found[1]}, http.StatusOK, "Hello, anna!"},
		{"/app/hello", nil, http.StatusUnauthorized, "You are not signed in"},
		{"/hello", []string{"Cookie", "__Host-account=1." + found[1] + ".1"}, http.StatusOK, "Hello, anna!"},
		{"/hello", nil, http.StatusOK, "<title>Sign in – My CMS</title>"}, // after a redirect
		{"/account/register", nil, http.StatusOK, "City"},
		{"/admin/users", []string{"Authorization", "Bearer 0123456789"}, http.StatusOK, "1 anna"},
		{"/admin/users", nil, http.StatusForbidden, ""},
		{"/admin/plugin/", []string{"Authorization", "Bearer 0123456789"}, http.StatusOK, `"state":"serving"`},
		{"/admin/plugin/", []string{"Authorization", "Bearer 012345678"}, http.StatusForbidden, ""},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url+test.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for pair := range slices.Chunk(test.header, 2) {
			r.Header.Set(pair[0], pair[1])
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != test.status || !strings.Contains(string(body), test.want) {
			t.Errorf("%s with %v: got %d %s, %v, want %d with %q", test.path, test.header, response.StatusCode, body, err, test.status, test.want)
		}
	}
	eventually(t, "the program's own line for the event", func() bool {
		return strings.Contains(c.log.String(), "welcome anna, user 1")
	})
	test := exec.CommandContext(t.Context(), "go", "test", ".")
	test.Dir, test.Env = c.dir, append(os.Environ(), goFlags)
	if out, err := test.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "ok") {
		t.Errorf("the test of the program: %v\n%s", err, out)
	}
	c.stop(t)
}

// TestDependencies_OfACMSExcludeThePluginsLibraries lists what is linked into a CMS: without
// pages, with its own pages, with the account pages, and with the admin pages.
func TestDependencies_OfACMSExcludeThePluginsLibraries(t *testing.T) {
	t.Parallel()
	const (
		module    = "github.com/cms-personal/personal/"
		shared    = module + "shared/"
		qrLibrary = "github.com/boombuler/barcode"
	)
	ofThePlugin := []string{
		"github.com/uptrace/", "modernc.org/", "database/sql", "github.com/prometheus/",
		"go.opentelemetry.io/otel/sdk", "go.opentelemetry.io/otel/exporters", "go.opentelemetry.io/proto",
		"github.com/alecthomas/kong", "github.com/pelletier/",
		module + "internal/", module + "plugin", module + "host-sample",
	}
	for name, tt := range map[string]struct {
		packages []string
		links    string // so that the list is complete
		not      []string
	}{
		"without pages": {
			[]string{shared + "personalhost", shared + "personalhttp", shared + "plugins/manager"}, "github.com/hashicorp/go-plugin",
			[]string{qrLibrary, shared + "personalweb", shared + "personalpages", shared + "personaladmin", "golang.org/x/text/language/display"},
		},
		"its own pages": {[]string{shared + "personalweb"}, shared + "personalhttp", []string{
			qrLibrary, shared + "personalweb/", shared + "personalpages", "html/template", "golang.org/x/text/language/display",
			"github.com/hashicorp/", "google.golang.org/", shared + "personalhost", shared + "plugin",
		}},
		"account pages": {[]string{shared + "personalpages"}, qrLibrary, []string{
			"github.com/hashicorp/", "google.golang.org/", shared + "personalhost", shared + "plugin", shared + "personaladmin",
		}},
		"admin pages": {[]string{shared + "personaladmin"}, shared + "personaladmin/internal/users", []string{
			qrLibrary, shared + "personalpages", shared + "personalhost/mailer",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps"}, tt.packages...)...).Output()
			if err != nil {
				t.Fatal(err)
			}
			packages := strings.Fields(string(out))
			if !slices.Contains(packages, tt.links) {
				t.Fatalf("got %d packages without %s: the list is not complete", len(packages), tt.links)
			}
			for _, p := range packages {
				for _, banned := range append(tt.not, ofThePlugin...) {
					if strings.HasPrefix(p, banned) && !slices.Contains(tt.packages, p) {
						t.Errorf("a CMS links %s, want none of %s", p, banned)
					}
				}
			}
		})
	}
}
