// Command configdoc writes parts of docs/configuration.md and docs/api.md: configdoc SETTINGS.toml
// CONFIGURATION.md API.md, with the output of "host-sample serve --help" on standard input. The parts
// (package page) are flags, settings and mails.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/tools/page"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
)

func main() {
	if err := run(os.Args[1:], os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "configdoc: "+err.Error())
		os.Exit(1)
	}
}

func run(args []string, help io.Reader) error {
	if len(args) != 3 {
		return errors.New("usage: host-sample serve --help | configdoc SETTINGS.toml CONFIGURATION.md API.md")
	}
	settings, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	helpText, err := io.ReadAll(help)
	if err != nil {
		return err
	}
	flags, err := flagTable(string(helpText))
	if err != nil {
		return err
	}
	return errors.Join(
		page.Rewrite(args[1], map[string]string{"flags": flags, "settings": settingsBlocks(string(settings))}),
		page.Rewrite(args[2], map[string]string{"mails": mailTable()}),
	)
}

// mailTable returns the kinds of mails as a Markdown table.
func mailTable() string {
	paths := map[personal.OperationName]string{}
	for _, e := range personalhttp.Endpoints() {
		paths[e.Operation] = fmt.Sprintf(" (token for %s/)", e.Path)
	}
	var b strings.Builder
	b.WriteString("| kind | sent |\n|---|---|\n")
	for _, d := range mailtext.Descriptions() {
		fmt.Fprintf(&b, "| `%s` | %s%s |\n", d.Kind, d.Sent, paths[d.Confirms])
	}
	return b.String()
}

var (
	flagLine = regexp.MustCompile(`^ +--([a-z0-9-]+)(?:=(\S+))?(?: {2,}(.*))?$`)
	variable = regexp.MustCompile(`^(.*?) ?\(\$([A-Z0-9_]+)\)\.?$`)
)

// flagTable returns the flags of a command's help as a Markdown table. The help of
// a flag may go on in the lines below it. The page says how environment variables are called.
func flagTable(help string) (string, error) {
	type flag struct{ name, value, help string }
	var flags []flag
	for line := range strings.Lines(help) {
		line = strings.TrimRight(line, "\n")
		switch m := flagLine.FindStringSubmatch(line); {
		case m != nil:
			flags = append(flags, flag{name: m[1], value: m[2], help: m[3]})
		case len(flags) > 0 && strings.HasPrefix(line, strings.Repeat(" ", 20)):
			last := &flags[len(flags)-1]
			last.help = strings.TrimSpace(last.help + " " + strings.TrimSpace(line))
		}
	}
	if len(flags) == 0 {
		return "", errors.New("standard input shows no flags")
	}
	var b strings.Builder
	b.WriteString("| flag | meaning |\n|---|---|\n")
	for _, f := range flags {
		m := variable.FindStringSubmatch(f.help)
		if m == nil {
			return "", fmt.Errorf("flag --%s: no environment variable in %q", f.name, f.help)
		}
		if want := "PERSONAL_" + strings.ToUpper(strings.ReplaceAll(f.name, "-", "_")); m[2] != want {
			return "", fmt.Errorf("flag --%s: the environment variable is %s, want %s", f.name, m[2], want)
		}
		name := "--" + f.name
		if f.value != "" {
			name += "=" + strings.Trim(f.value, `"`)
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, strings.ReplaceAll(strings.TrimSuffix(m[1], "."), "|", `\|`)+".")
	}
	return b.String(), nil
}

var section = regexp.MustCompile(`(?m)^\[([a-z_]+)\]`)

// settingsBlocks returns the settings file in code blocks, one for each top-level
// section, each with a heading to link to.
func settingsBlocks(file string) string {
	var b strings.Builder
	starts := section.FindAllStringSubmatchIndex(file, -1)
	for i, at := range starts {
		end := len(file)
		if i+1 < len(starts) {
			end = commentStart(file, starts[i+1][0])
		}
		fmt.Fprintf(&b, "### %s\n\n```toml\n%s\n```\n\n", file[at[2]:at[3]], strings.TrimSpace(file[commentStart(file, at[0]):end]))
	}
	return b.String()
}

// commentStart returns where the comment directly above a line begins, or the line
// if there is none.
func commentStart(file string, line int) int {
	for line > 0 {
		above := strings.LastIndexByte(file[:line-1], '\n') + 1
		if file[above] != '#' {
			break
		}
		line = above
	}
	return line
}
