// Command asvs writes the part "rules" (package page) of docs/security-asvs.md: asvs RULES.yaml PAGE.md,
// in the root of the work tree. It fails if a test or file that RULES.yaml gives as proof does not exist,
// a rule is listed twice or out of order, or a state is unknown.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"golang.org/x/mod/semver"

	"github.com/cms-personal/personal/internal/tools/lint"
	"github.com/cms-personal/personal/internal/tools/page"
)

// suite is the folder of the contract suite, whose parts are proof like tests.
const suite = "shared/personal/personaltest"

// states are those that a rule may have.
var states = []string{"met", "in part", "not met", "the CMS's", "not applicable"}

// table is one table of the page. RULES.yaml says what its members are.
type table struct {
	Title, Text string
	Rows        []row
}

type row struct {
	Rules       []string
	Level       int
	Asks        string
	State, Note string
	Proof, Read []string
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "asvs: "+err.Error())
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: asvs RULES.yaml PAGE.md")
	}
	rules, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	sources, err := lint.Files(".", "*_test.go", suite+"/*.go")
	if err != nil {
		return err
	}
	text, err := tables(rules, declared(sources))
	if err != nil {
		return fmt.Errorf("%s:\n%w", args[0], err)
	}
	return page.Rewrite(args[1], map[string]string{"rules": text})
}

var declaration = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|test)[A-Z]\w*)\(`)

// declared returns the files that declare each test, or part of the contract suite, by its name.
func declared(sources map[string]string) map[string][]string {
	files := map[string][]string{}
	for _, path := range slices.Sorted(maps.Keys(sources)) {
		for _, found := range declaration.FindAllStringSubmatch(sources[path], -1) {
			if found[1][0] != 't' || filepath.Dir(path) == suite {
				files[found[1]] = append(files[found[1]], path)
			}
		}
	}
	return files
}

// tables returns the rules in Markdown, or all errors in them.
func tables(rules []byte, declared map[string][]string) (string, error) {
	var list []table
	decoder := yaml.NewDecoder(bytes.NewReader(rules))
	decoder.KnownFields(true)
	if err := decoder.Decode(&list); err != nil {
		return "", err
	}
	var errs []error
	var b strings.Builder
	listed := map[string]bool{}
	for _, t := range list {
		fmt.Fprintf(&b, "## %s\n\n", t.Title)
		if t.Text != "" {
			b.WriteString(t.Text + "\n\n")
		}
		b.WriteString("|rule|asks for|here|proof|\n|---|---|---|---|\n")
		last := ""
		for _, r := range t.Rows {
			if len(r.Rules) == 0 {
				errs = append(errs, fmt.Errorf("%s: a row has no rules: %s", t.Title, r.Asks))
				continue
			}
			errs = append(errs, checkRules(r.Rules, last, listed))
			last = r.Rules[0]
			proof, err := proofs(r.Proof, declared)
			if !slices.Contains(states, r.State) {
				err = errors.Join(err, fmt.Errorf("the state %q is none of %q", r.State, states))
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", last, err))
			}
			asks := r.Asks
			if r.Level != 0 {
				asks = fmt.Sprintf("(level %d) %s", r.Level, asks)
			}
			fmt.Fprintf(&b, "|%s|%s|%s|%s|\n", strings.Join(r.Rules, ", "), asks, r.here(), proof)
		}
		b.WriteByte('\n')
	}
	return b.String(), errors.Join(errs...)
}

// checkRules checks the numbers of a row, of which the first follows last, the first of the row above.
func checkRules(rules []string, last string, listed map[string]bool) error {
	var errs []error
	for _, rule := range rules {
		switch {
		case semver.Canonical("v"+rule) != "v"+rule:
			errs = append(errs, fmt.Errorf("%s: not the number of a rule", rule))
		case listed[rule]:
			errs = append(errs, fmt.Errorf("%s: listed twice", rule))
		case last != "" && semver.Compare("v"+rule, "v"+last) < 0:
			errs = append(errs, fmt.Errorf("%s: out of order, after %s", rule, last))
		}
		listed[rule], last = true, rule
	}
	return errors.Join(errs...)
}

// here returns the state with what readers must know and where they read more.
func (r row) here() string {
	text := r.State
	if r.Note != "" {
		text += ": " + r.Note
	}
	for i, target := range r.Read {
		name, heading, ok := strings.Cut(target, "#")
		if !ok {
			heading = strings.TrimSuffix(name, ".md")
		}
		text += [...]string{"; see ", ", "}[min(i, 1)] + fmt.Sprintf("[%s](%s)", strings.ReplaceAll(heading, "-", " "), target)
	}
	return text
}

// proofs returns links to tests and files, from a page in docs.
func proofs(names []string, declared map[string][]string) (string, error) {
	var links []string
	var errs []error
	for _, name := range names {
		path := name
		if !strings.Contains(name, "/") {
			switch files := declared[name]; len(files) {
			case 0:
				errs = append(errs, fmt.Errorf("the test %s does not exist", name))
				continue
			case 1:
				path = files[0]
			default:
				errs = append(errs, fmt.Errorf("the test %s exists more than once: %s", name, strings.Join(files, ", ")))
				continue
			}
		} else if _, err := os.Stat(path); err != nil {
			errs = append(errs, err)
			continue
		}
		links = append(links, fmt.Sprintf("[`%s`](../%s)", name, path))
	}
	return strings.Join(links, "<br>"), errors.Join(errs...)
}
