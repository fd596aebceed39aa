package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestCheck has one package for each file, whose functions are called TestX.
func TestCheck(t *testing.T) {
	const compares, ends = "compares real time with less than 30 s", " ends in less than 30 s"
	const long = "if time.Since(began) > time.Minute { t.Error() }"
	root := t.TempDir()
	var want []string
	for path, file := range map[string]struct {
		top, body string
		want      string
	}{
		"since_test.go":      {"", "if time.Since(began) > 2*time.Second { t.Error() }", compares},
		"sub_test.go":        {"", "if 2*time.Second <= time.Now().Sub(began) { t.Error() }", compares},
		"median_test.go":     {"", "if all := []time.Duration{}; all[0] < time.Second/2 { t.Error() }", compares},
		"named_test.go":      {"", "const a, b = 2*time.Second, 3; if took := time.Since(began); took >= a*b { t.Error() }", compares},
		"loop_test.go":       {"", "for time.Since(began) < time.Second {}", compares},
		"storetest/suite.go": {"", "if time.Since(began) > time.Second { t.Error() }", compares},
		"timeout_test.go":    {"", "context.WithTimeout(t.Context(), 29*time.Second)", "context.WithTimeout" + ends},
		"after_test.go":      {"", "<-time.After(time.Second)", "time.After" + ends},
		"timer_test.go":      {"", "time.NewTimer(20*time.Second)", "time.NewTimer" + ends},

		"cause_test.go":    {"", "context.WithTimeoutCause(t.Context(), time.Second, nil)", "context.WithTimeoutCause" + ends},
		"deadline_test.go": {"", "context.WithDeadline(t.Context(), time.Now().Add(time.Second))", "context.WithDeadline" + ends},
		"conn_test.go":     {"", "a.conn.SetReadDeadline(time.Now().Add(2*time.Second))", "SetReadDeadline" + ends},
		"client_test.go":   {"", "c := &http.Client{Jar: jar, Timeout: 5*time.Second}; c.Get(url)", "http.Client ends calls in less than 30 s"},
		"func_test.go":     {"", "time.AfterFunc(time.Second, f)", "time.AfterFunc" + ends},
		"min_test.go":      {"", "<-time.After(min(time.Since(began), 2*time.Second))", "time.After" + ends},
		"least_test.go":    {"", "if limit := time.Minute; time.Since(began) > min(limit, time.Second) { t.Error() }", compares},

		"pair_test.go":     {"", "context.WithTimeout(pair()); <-time.After(); a.SetDeadline(time.Time{}); SetDeadline(time.Now().Add(time.Second))", ""},
		"far_test.go":      {"", "a.SetDeadline(time.Now().Add(time.Minute)); context.WithDeadline(t.Context(), time.Now().Add(-time.Second))", ""},
		"server_test.go":   {"", "s := &http.Server{ReadTimeout: time.Second}; c := http.Client{Timeout: time.Minute}; f(s, c, []any{{}})", ""},
		"max_test.go":      {"", "if limit := time.Minute; time.Since(began) > max(limit, time.Second) { t.Error() }", ""},
		"outside_test.go":  {"", "if time.Since(began) > time.Second { t.Error() }; synctest.Test(t, f)", ""},
		"long_test.go":     {"", long + "; context.WithTimeout(t.Context(), 30*time.Second); <-time.After(time.Minute)", ""},
		"ratio_test.go":    {"", "if one, all := time.Since(began), time.Since(began); all > 5*one { t.Error() }", ""},
		"other_test.go":    {"", "if limit := time.Second; limit > 0 && time.Second > 5 && len(t.Name()) > 3 { t.Error() }", ""},
		"pause_test.go":    {"", "<-time.After(20*time.Millisecond)", ""},
		"program.go":       {"", "if time.Since(began) > time.Second { t.Error() }", ""},
		"bubble_test.go":   {"", "synctest.Test(t, func(t *testing.T) { if time.Since(began) > time.Second { t.Error() } })", ""},
		"excused_test.go":  {"", "context.WithTimeout(t.Context(), time.Second) // real time: it is to expire", ""},
		"unsaid_test.go":   {"", "context.WithTimeout(t.Context(), time.Second) // real time:", "context.WithTimeout" + ends},
		"listed_test.go":   {"//go:build soak\n", "if time.Since(began) > time.Second { t.Error() } // TestListed", ""},
		"beside_test.go":   {"", "if time.Since(began) > time.Second { t.Error() } // TestBeside", "TestBeside does not run alone: the file needs the build tag soak or extended"},
		"unlisted_test.go": {"//go:build soak\n", "if time.Since(began) > time.Second { t.Error() }", compares},
	} {
		name := "TestX"
		if _, listed, ok := strings.Cut(file.body, " // Test"); ok {
			name = "Test" + listed
		}
		if filepath.Base(path) == path {
			path = strings.NewReplacer("_test", "", ".go", "").Replace(path) + "/" + path
		}
		write(t, root, path, file.top+"package p; import \"time\"; func "+name+"(t *testing.T) { began := time.Now()\n"+file.body+"\n}\n")
		if file.want != "" {
			want = append(want, fmt.Sprintf("%s:%d: %s", path, 2+strings.Count(file.top, "\n"), file.want))
		}
	}
	write(t, root, "docs/developing.md", "# Tests\n\n`TestX`\n\n### Real time\n\n`TestX`\n\n| `TestListed`, `TestBeside` of TestX | a |\n| `TestStale` | `TestX` |\n\n## More\n\n| `TestX` | a |\n")
	want = append(want, "docs/developing.md: nothing in TestStale needs real time")
	slices.Sort(want)
	if out, err := exec.Command("git", "init", "-q", root).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
	got, err := check(root)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func write(t *testing.T, root, path, content string) {
	t.Helper()
	path = filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
