package system

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/testkit"
)

// Every block of commands in the documentation (type sh or console) has an HTML comment in
// the line above it that says who runs it, or one for all blocks of a page that begins with
// "all commands". TestDocs_CommandsRun runs blocks without a mark, on pages in stages only.
//
//	<!-- run by TestName -->             a test with this name runs it
//	<!-- run by .ci/extended: make x --> that script has a line with this text
//	<!-- not run: reason -->             why no test can run it
//	<!-- all commands: run by TestName -->
const howToMark = `if the commands of the page cannot harm a machine, and no other test runs them, add the
page to stages (sandbox_test.go); otherwise put one of these in the line above the block:
	<!-- run by TestName -->                  if another test runs it
	<!-- run by .ci/extended: TEXT -->        if a line of that script (or of .ci/run) contains TEXT and runs it
	<!-- not run: needs a real mail relay --> if no test can run it`

// commandBlock is a block of commands on a page.
type commandBlock struct {
	page   string // its path in the repository
	line   int    // of the block's first command
	kind   string // sh or console
	text   string // without the indentation of the block
	runner string // from the mark: the name of a test, or a script, a colon and text
	reason string // from the mark: why it is not run
}

func (b commandBlock) String() string { return fmt.Sprintf("%s:%d", b.page, b.line) }

var (
	fence    = regexp.MustCompile("^( *)```(\\w*)\n$")
	mark     = regexp.MustCompile(`^ *<!-- (all commands: )?(?:run by (.+?)|not run: (.+?)) -->\n$`)
	badMark  = regexp.MustCompile(`^ *<!-- *(all commands|run by|not run)\b`)
	ciRunner = regexp.MustCompile(`^(\.ci/\w+): (.+)$`)
)

// commandBlocks returns the blocks of commands of a page in their order.
func commandBlocks(t testing.TB, page, text string) []commandBlock {
	t.Helper()
	var (
		blocks      []commandBlock
		inside      *commandBlock // nil outside of any block
		indentation string
		forAll      commandBlock
		next        commandBlock // what the line above says
		n           int
	)
	for line := range strings.Lines(text) {
		n++
		found := fence.FindStringSubmatch(line)
		switch {
		case inside != nil && found != nil:
			if inside.kind == "sh" || inside.kind == "console" {
				blocks = append(blocks, *inside)
			}
			inside, next = nil, commandBlock{}
		case inside != nil:
			inside.text += strings.TrimPrefix(line, indentation)
		case found != nil:
			if next.runner == "" && next.reason == "" {
				next = forAll
			}
			indentation = found[1]
			inside = &commandBlock{page: page, line: n + 1, kind: found[2], runner: next.runner, reason: next.reason}
		default:
			m := mark.FindStringSubmatch(line)
			if m == nil && badMark.MatchString(line) {
				t.Errorf("%s:%d: this comment is no mark of a block: %s\n%s", page, n, strings.TrimSpace(line), howToMark)
			}
			next = commandBlock{}
			if m != nil {
				next = commandBlock{runner: m[2], reason: m[3]}
			}
			if m != nil && m[1] != "" {
				forAll = next
			}
		}
	}
	return blocks
}

// TestDocs_CommandsHaveRunner checks that what marks of blocks name exists, and that
// blocks with commands have the type sh or console.
func TestDocs_CommandsHaveRunner(t *testing.T) {
	declared, extended := declaredTests(t), extendedTests(t)
	var selected []*regexp.Regexp // by the steps of .ci/extended
	for _, found := range regexp.MustCompile(`'(\^[^']+)'`).FindAllStringSubmatch(readFile(t, filepath.Join(repository, ".ci/extended")), -1) {
		selected = append(selected, regexp.MustCompile(found[1]))
	}
	for page, text := range pages(t) {
		for _, block := range codeBlock.FindAllStringSubmatch(text, -1) {
			if block[1] == "" && commandLine.MatchString(block[2]) || block[1] == "bash" || block[1] == "shell" {
				t.Errorf("%s: mark this block as sh (commands) or console (commands after $ and their output):\n%s", page, block[2])
			}
		}
		for _, b := range commandBlocks(t, page, text) {
			if script := ciRunner.FindStringSubmatch(b.runner); script != nil {
				if !slices.ContainsFunc(strings.Split(readFile(t, filepath.Join(repository, script[1])), "\n"), func(line string) bool {
					return !strings.HasPrefix(strings.TrimSpace(line), "#") && strings.Contains(line, script[2])
				}) {
					t.Errorf("%s: no line of %s contains %q", b, script[1], script[2])
				}
			} else if b.runner != "" && !declared[b.runner] {
				t.Errorf("%s: the test %s does not exist", b, b.runner)
			} else if extended[b.runner] && !slices.ContainsFunc(selected, func(p *regexp.Regexp) bool { return p.MatchString(b.runner) }) {
				t.Errorf("%s: no step of .ci/extended selects %s by a pattern in single quotes", b, b.runner)
			}
		}
	}
}

var commandLine = regexp.MustCompile(`(?m)^(?:\$ )?(?:make|curl|go|git|bin/\S+|\./\S+|cd|npm|docker|podman) `)

// extendedTests returns the names of the tests of this package that .ci/extended runs.
func extendedTests(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, file := range files {
		if source := readFile(t, file); strings.HasPrefix(source, "//go:build extended\n") {
			for _, found := range declaredTest.FindAllStringSubmatch(source, -1) {
				names[found[1]] = true
			}
		}
	}
	return names
}

var (
	codeSpan  = regexp.MustCompile("`([^`]+)`")
	mentioned = regexp.MustCompile(`^(?:[A-Z_]+=\S+ )*(bin/host-sample|bin/personal|make) (.+)$`)
	ignored   = regexp.MustCompile(`'[^']*'|"[^"]*"|\s#.*`) // quoted arguments and comments
	plainWord = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
	longFlag  = regexp.MustCompile(`--[a-z][a-z-]+`)
	target    = regexp.MustCompile(`(?m)^([a-z0-9-]+):`)
)

// TestDocs_MentionedCommandsExist checks commands of make and of the programs that no test
// runs, in blocks or in the text: the target, or the command with its flags, exists.
func TestDocs_MentionedCommandsExist(t *testing.T) {
	programs := map[string]string{"bin/host-sample": testkit.Binaries(t).Host, "bin/personal": testkit.Binaries(t).Plugin}
	targets := map[string]bool{}
	for _, found := range target.FindAllStringSubmatch(readFile(t, filepath.Join(repository, "Makefile")), -1) {
		targets[found[1]] = true
	}
	helps := map[string]string{} // by command
	for page, text := range pages(t) {
		var lines []string
		for _, b := range commandBlocks(t, page, text) {
			if b.reason != "" {
				lines = append(lines, strings.Split(b.text, "\n")...)
			}
		}
		for _, span := range codeSpan.FindAllStringSubmatch(prose(text), -1) {
			lines = append(lines, strings.Join(strings.Fields(span[1]), " "))
		}
		for _, line := range lines {
			found := mentioned.FindStringSubmatch(ignored.ReplaceAllString(line, ""))
			if found == nil {
				continue
			}
			var words []string // up to the first argument of another form
			for _, word := range strings.Fields(found[2]) {
				if !plainWord.MatchString(word) {
					break
				}
				words = append(words, word)
			}
			if found[1] == "make" {
				for _, word := range words {
					if !targets[word] {
						t.Errorf("%s: the Makefile has no target %s: %s", page, word, line)
					}
				}
				continue
			}
			command := strings.Join(append([]string{found[1]}, words...), " ")
			if _, known := helps[command]; !known {
				out, err := exec.CommandContext(t.Context(), programs[found[1]], append(words, "--help")...).CombinedOutput()
				if err != nil {
					t.Errorf("%s: %s --help: %v\n%s", page, command, err, out)
				}
				helps[command] = string(out)
			}
			for _, flag := range longFlag.FindAllString(found[2], -1) {
				if !strings.Contains(helps[command], flag) {
					t.Errorf("%s: %s has no flag %s: %s", page, command, flag, line)
				}
			}
		}
	}
}
