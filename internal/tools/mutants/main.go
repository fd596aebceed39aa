// Command mutants checks that the tests find small faults in the source, each for itself:
//
//	mutants [PART OF A FILE'S NAME]
//
// For each it runs the tests of the level that is to find it: those of its own package, and for what the domain
// builds on those of the domain. Run it with PostgreSQL, by .ci/mutants. The files of the source stay as
// they are: the compiler reads a faulty copy in place of one. It prints a line for each, and fails if one survives.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

func main() {
	if err := run(strings.Join(os.Args[1:], "")); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(part string) error {
	work, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	var survivors []string
	sound := map[string]bool{} // the packages whose tests pass without a fault
	for i, m := range mutants {
		if !strings.Contains(m.file, part) {
			continue
		}
		if err := m.pass(sound); err != nil {
			return err
		}
		overlay, err := m.plant(work)
		if err != nil {
			return err
		}
		began := time.Now()
		by, err := m.caught(overlay)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("%2d %s: %s", i+1, m.file, strings.TrimSpace(strings.SplitN(m.faulty+"\n(removed)", "\n", 2)[0]))
		if by == "" {
			survivors = append(survivors, name)
			by = "SURVIVES"
		}
		fmt.Printf("%s\n	%s (%.0fs)\n", name, by, time.Since(began).Seconds())
	}
	if len(survivors) > 0 {
		return fmt.Errorf("no test finds\n%s", strings.Join(survivors, "\n"))
	}
	return nil
}

// plant writes a faulty copy of the file, and the overlay that has the compiler read it.
func (m mutant) plant(work string) (overlay string, err error) {
	source, err := os.ReadFile(m.file)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		return "", fmt.Errorf("%s has %d times, not once: %s", m.file, n, m.old)
	}
	file, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	faulty := filepath.Join(work, "faulty.go")
	overlay = filepath.Join(work, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {file: faulty}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(faulty, []byte(strings.Replace(string(source), m.old, m.faulty, 1)), 0o600); err != nil {
		return "", err
	}
	return overlay, os.WriteFile(overlay, replace, 0o600)
}

// caught runs the tests of the mutant's level, and returns the first that fails; "" if none does.
// A mutant that does not compile is an error.
func (m mutant) caught(overlay string) (by string, err error) {
	module, packages := m.tests()
	for _, tests := range packages {
		output, err := goTest(module, tests, "-overlay="+overlay)
		if err == nil {
			continue
		}
		if found := failedTest.FindSubmatch(output); found != nil {
			return string(found[1]), nil
		}
		if slices.Contains(strings.Fields(string(output)), "panic:") {
			return "a panic in " + tests, nil
		}
		return "", fmt.Errorf("%s: %w\n%s", m.file, err, output)
	}
	return "", nil
}

// pass returns an error if tests of the mutant's level fail without it, and remembers those that do not.
func (m mutant) pass(sound map[string]bool) error {
	module, packages := m.tests()
	for _, tests := range packages {
		if sound[module+tests] {
			continue
		}
		if output, err := goTest(module, tests); err != nil {
			return fmt.Errorf("without a fault, too: %w\n%s", err, output)
		}
		sound[module+tests] = true
	}
	return nil
}

func goTest(module, tests string, flags ...string) ([]byte, error) {
	args := append([]string{"test", "-C", module, "-vet=off", "-failfast", "-timeout=15m"}, flags...)
	return exec.Command("go", append(args, tests)...).CombinedOutput()
}

var failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// tests returns the packages whose tests are to find the mutant, and their module.
func (m mutant) tests() (module string, packages []string) {
	folder := filepath.Dir(m.file)
	switch {
	case folder == "shared/personaloidc":
		return folder, []string{"."}
	case folder == "internal/store":
		return ".", []string{"./internal/store", "./internal/accounts"}
	case strings.HasPrefix(folder, "internal/"), folder == "shared/userfields":
		return ".", slices.Compact([]string{"./" + folder, "./internal/accounts"})
	}
	return ".", []string{"./" + folder}
}
