package system

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"

	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/plugins/manager/rehearsal"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// plantedPackage is added to the plugin with planted faults. On are those that a file beside the program
// names, so that two processes with one environment can differ.
const plantedPackage = `package planted

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

var on = func() []string {
	program, _ := os.Executable()
	names, _ := os.ReadFile(filepath.Join(filepath.Dir(program), "` + plantedFile + `"))
	return strings.Split(string(names), "\n")
}()

// Is reports whether a fault is on.
func Is(name string) bool { return slices.Contains(on, name) }

// A and B are locks.
var A, B sync.Mutex

var (
	kept  [][]byte
	first any
)

// Keep keeps data for ever.
func Keep(data []byte) {
	A.Lock()
	defer A.Unlock()
	kept = append(kept, data)
}

// First returns the first value that it got.
func First[T any](v T) T {
	A.Lock()
	defer A.Unlock()
	if first == nil {
		first = v
	}
	return first.(T)
}
`

const plantedFile = "faults"

// plantedPlugin builds a plugin that has all planted faults.
func plantedPlugin(t *testing.T) (binary string) {
	t.Helper()
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	write := func(file, text string) {
		replacement := filepath.Join(dir, fmt.Sprint(len(overlay.Replace), ".go"))
		overlay.Replace[filepath.Join(root, file)] = replacement
		if err := os.WriteFile(replacement, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("internal/planted/planted.go", plantedPackage)
	changed := map[string]string{}
	for _, f := range plantedFaults {
		for _, e := range f.edits {
			source, ok := changed[e.file]
			if !ok {
				source = strings.Replace(readFile(t, filepath.Join(root, e.file)), "import (\n",
					"import (\n\t\"github.com/cms-personal/personal/internal/planted\"\n", 1)
			}
			if n := strings.Count(source, e.old); n != 1 {
				t.Fatalf("%s: the text to replace occurs %d times in %s, want once", f.name, n, e.file)
			}
			changed[e.file] = strings.Replace(source, e.old, strings.ReplaceAll(e.faulty, "FAULT", fmt.Sprintf("planted.Is(%q)", f.name)), 1)
		}
	}
	for file, source := range changed {
		write(file, source)
	}
	data, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	binary = filepath.Join(dir, "personal")
	out, err := exec.Command("go", "build", "-trimpath", "-overlay", filepath.Join(dir, "overlay.json"), "-ldflags",
		"-s -w -X main.version=1.1.0", "-o", binary, "github.com/cms-personal/personal/plugin").CombinedOutput()
	if err != nil {
		t.Fatalf("building the plugin with planted faults: %v\n%s", err, out)
	}
	return binary
}

// rehearsed is what a rehearsal has found.
type rehearsed struct {
	checks    []rpc.RehearsalCheck
	refused   bool
	succeeded map[personal.OperationName]bool
}

// finds reports whether a check names a difference, or failed by it.
func (r rehearsed) finds(check, operation, field string) bool {
	return slices.ContainsFunc(r.checks, func(c rpc.RehearsalCheck) bool {
		return c.Name == check && slices.Contains(c.Differences, rpc.Difference{Operation: operation, Field: field})
	})
}

// String lists what was found.
func (r rehearsed) String() string {
	var all []string
	for _, c := range r.checks {
		for _, d := range c.Differences {
			all = append(all, fmt.Sprintf("%s %s: %s %s (%s)", c.Name, c.Outcome, d.Operation, d.Field, c.Reason))
		}
		if len(c.Differences) == 0 && c.Outcome != rpc.RehearsalPassed {
			all = append(all, fmt.Sprintf("%s %s: %s", c.Name, c.Outcome, c.Reason))
		}
	}
	return strings.Join(all, "\n")
}

// rehearse rehearses a plugin in which some faults are on against itself without any.
func rehearse(t *testing.T, binary, settings string, faults ...string) (r rehearsed) {
	t.Helper()
	var manifest rehearsal.Version
	out, err := exec.Command(binary, "manifest").Output()
	if err == nil {
		err = json.Unmarshal(out, &manifest.Manifest)
	}
	if err != nil {
		t.Fatal(err)
	}
	sockets, err := os.MkdirTemp("", "personal-rehearsal-") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(sockets)
	at := func(name string, faults []string) *rehearsal.Version {
		dir := filepath.Join(t.TempDir(), name)
		v := rehearsal.Version{Manifest: manifest.Manifest, Binary: filepath.Join(dir, "personal")}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Link(binary, v.Binary); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, plantedFile), []byte(strings.Join(faults, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		return &v
	}
	result, err := rehearsal.Run(t.Context(), rehearsal.Config{
		Old: at("old", nil), New: *at("new", faults), Dir: t.TempDir(), Sockets: sockets, Settings: []byte(settings),
		AccountURL: "https://www.site.example/account",
	})
	if err != nil {
		t.Fatal(err)
	}
	r.checks, r.succeeded = result.Checks, result.Succeeded
	r.refused = slices.ContainsFunc(r.checks, func(c rpc.RehearsalCheck) bool {
		return c.Outcome == rpc.RehearsalDiffers || c.Outcome == rpc.RehearsalFailed
	})
	return r
}

// strictSettings have no default value. moreSettings differ from them in what is off in these: limits, notices and
// sign-ins by e-mail.
func strictSettings(t *testing.T) string {
	t.Helper()
	mails := filepath.Join(t.TempDir(), "mails")
	if err := os.Mkdir(mails, 0o700); err != nil {
		t.Fatal(err)
	}
	text := "Subject: A new password for {{.Site}}\n\n{{.Link}}\n{{.Token}}\n"
	if err := os.WriteFile(filepath.Join(mails, "recovery.en.txt"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(strict, "MAILS", mails)
}

func moreSettings(t *testing.T) string {
	t.Helper()
	return strings.NewReplacer(
		"notices = false", "notices = true", "with_email = false", "with_email = true", "enabled = false # limits", "enabled = true",
		`email_verification = "required"`, `email_verification = "off"`,
	).Replace(strictSettings(t))
}

const strict = `
[site]
name = "Script"
requires = "0.2.0"
[session]
idle = "6h"
absolute = "240h"
grace = "20s"
verify_cache = "2s"
proof_lifetime = "4m"
[password]
min_length = 10
memory_kib = 64
time = 3
threads = 2
words = ["kazan"]
[login]
with_email = false
reserved = ["chief"]
[sign_in]
mailed_code = true
[recovery]
lifetime = "25m"
invitation_lifetime = "100h"
url = "https://www.site.example/members/new-password#token={token}"
[email]
url = "https://www.site.example/members/address#token={token}"
[registration]
email_verification = "required"
enabled = true
verification_lifetime = "20h"
unverified_lifetime = "50h"
url = "https://www.site.example/members/welcome#token={token}"
[mail]
notices = false
templates = "MAILS"
[deletion]
grace = "100h"
url = "https://www.site.example/members/stay#token={token}"
[two_factor]
enabled = true
issuer = "Script factor"
[passkeys]
rp_id = "site.example"
origins = ["https://www.site.example", "https://app.site.example"]
[throttle]
enabled = false # limits
[throttle.guess]
burst = 6
every = "50s"
[throttle.guess_address]
burst = 40
every = "6s"
[throttle.guess_account]
burst = 20
every = "10m"
[throttle.sign_in_address]
burst = 50
every = "2s"
[throttle.sign_in_account]
burst = 20
every = "6s"
[throttle.session_writes]
burst = 30
every = "2s"
[throttle.register]
burst = 10
every = "20s"
[throttle.register_invalid]
burst = 20
every = "6s"
[throttle.taken_email]
burst = 6
every = "2m"
[throttle.recover]
burst = 20
every = "12s"
[throttle.recover_all]
burst = 5000
every = "2s"
[throttle.confirm]
burst = 20
every = "12s"
[audit]
retention = "1000h"
most = 2000
per_account = 50
`

// The script must find faults on every site, so the tests that plant them have no default value,
// but for what would switch rules off.
func TestRehearsal_SettingsHaveNoDefault(t *testing.T) {
	t.Parallel()
	flat := func(text string) map[string]string {
		var tree map[string]any
		if err := toml.Unmarshal([]byte(text), &tree); err != nil {
			t.Fatal(err)
		}
		all := map[string]string{}
		var walk func(prefix string, v any)
		walk = func(prefix string, v any) {
			if section, ok := v.(map[string]any); ok {
				for name, value := range section {
					walk(strings.TrimPrefix(prefix+"."+name, "."), value)
				}
				return
			}
			all[prefix] = fmt.Sprint(v)
		}
		walk("", tree)
		return all
	}
	out, err := exec.Command(testkit.Binaries(t).Plugin, "settings").Output()
	if err != nil {
		t.Fatal(err)
	}
	defaults := flat(string(out))
	for name, settings := range map[string]string{"strict": strictSettings(t), "more": moreSettings(t)} {
		set := flat(settings)
		for _, key := range slices.Sorted(maps.Keys(defaults)) {
			switchedOff := name == "more" && slices.Contains([]string{"throttle.enabled", "mail.notices", "login.with_email"}, key)
			if value, ok := set[key]; (!ok || value == defaults[key]) && !switchedOff {
				t.Errorf("%s: %s has the default %s", name, key, defaults[key])
			}
		}
	}
}

// A rehearsal names each of several faults that do not hide each other. On the site without limits all
// are found that do not need them. .ci/extended has each fault alone, and TestSwap_RehearsesOnPostgreSQL
// a version without any. Each operation must succeed in a run, or the script does not call it.
func TestRehearsal_NamesPlantedFaults(t *testing.T) {
	t.Parallel()
	binary := plantedPlugin(t)
	together := map[int][]plantedFault{}
	for _, f := range plantedFaults {
		if f.run > 0 {
			together[f.run] = append(together[f.run], f)
		}
	}
	played := 0
	succeeded := map[personal.OperationName]bool{}
	for _, run := range slices.Sorted(maps.Keys(together)) {
		settings := strictSettings(t)
		var names []string
		for _, f := range together[run] {
			names = append(names, f.name)
			if f.more {
				settings = moreSettings(t)
			}
		}
		t.Run(fmt.Sprint("run ", run), func(t *testing.T) {
			r := rehearse(t, binary, settings, names...)
			played++
			maps.Copy(succeeded, r.succeeded)
			for _, f := range together[run] {
				if !r.finds(f.check, f.operation, f.field) && !slices.Contains(unseenFaults, f.name) {
					t.Errorf("%s: want %s: %s %s", f.name, f.check, f.operation, f.field)
				}
			}
			if t.Failed() {
				t.Logf("got\n%v", r)
			}
		})
	}
	for _, o := range personal.Operations() {
		if played == len(together) && !succeeded[o.Name] {
			t.Errorf("the script has no successful call of %s, want one", o.Name)
		}
	}
}
