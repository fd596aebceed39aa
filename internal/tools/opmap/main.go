// Command opmap writes a page that says for each operation where its code is: opmap PAGE.md. It reads the
// source by names alone: an operation has what its method and the functions that it calls mention, followed
// through the method's own file and one step beyond it.
package main

import (
	"errors"
	"fmt"
	"go/ast"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "opmap:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: opmap PAGE.md")
	}
	m, err := read()
	if err != nil {
		return err
	}
	page, err := m.page()
	if err != nil {
		return err
	}
	return os.WriteFile(args[0], []byte(page), 0o644)
}

// sources are the packages that a row of the map names files of.
type sources struct {
	domain, store, pages, admin, suite *source
	settings                           map[string]string // the key in the settings file by the field of accounts.Settings
	paths                              map[personal.OperationName]string
	mails                              []mailtext.Description
}

func read() (*sources, error) {
	m := &sources{paths: map[personal.OperationName]string{}, mails: mailtext.Descriptions()}
	for _, s := range []struct {
		to     **source
		folder string
	}{
		{&m.domain, "internal/accounts"}, {&m.store, "internal/store"}, {&m.pages, "shared/personalpages"},
		{&m.admin, "shared/personaladmin"}, {&m.suite, "shared/personal/personaltest"},
	} {
		var err error
		if *s.to, err = parse(s.folder); err != nil {
			return nil, err
		}
	}
	plugin, err := parse("plugin")
	if err != nil {
		return nil, err
	}
	if m.settings, err = settingsOf(plugin); err != nil {
		return nil, err
	}
	for _, e := range personalhttp.Endpoints() {
		m.paths[e.Operation] = e.Path
	}
	return m, nil
}

const head = `# Where an operation is

For contributors. After this page you know which files to open for a change of an operation.

Written by ` + "`make generate`" + ` from the source. A rule is in ` + "`internal/accounts`" + `, its statements in ` + "`internal/store`" + `, pages in
` + "`shared/personalpages`" + ` or ` + "`shared/personaladmin`" + `, what it promises in ` + "`shared/personal/personaltest`" + `. The message of an
operation of the API is ` + "`success.PATH`" + ` in ` + "`shared/personalhttp/messages`" + `. [Recipes](recipes.md) say what a change needs.
`

func (m *sources) page() (string, error) {
	var b strings.Builder
	b.WriteString(head)
	for _, part := range []struct {
		title          string
		administration bool
	}{{"Operations of users", false}, {"Operations of administrators and of the CMS", true}} {
		fmt.Fprintf(&b, "\n## %s\n\n| operation | message | rule | store | pages | mails | settings | test |\n|---|---|---|---|---|---|---|---|\n", part.title)
		for _, o := range personal.Operations() {
			if o.Administration != part.administration {
				continue
			}
			row, err := m.row(string(o.Name))
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", o.Name, m.paths[o.Name], strings.Join(row, " | "))
		}
	}
	return b.String(), nil
}

// row returns the cells of an operation: rule, store, pages, mails, settings, test.
func (m *sources) row(operation string) ([]string, error) {
	method := m.domain.method("Service", operation)
	if method == nil {
		return nil, fmt.Errorf("internal/accounts has no Service.%s", operation)
	}
	store, mails, settings := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, d := range m.mails {
		if string(d.Cause) == operation { // a job may write it
			mails[string(d.Kind)] = true
		}
	}
	for f := range m.domain.reach(method) {
		for mention := range mentions(f.decl) {
			// Nearly all operations ask for the time.
			if s := m.store.method("Store", mention.name); mention.of == "store" && mention.name != "Now" && s != nil {
				store[s.file] = true
			}
			if mention.of == "mailtext" && m.isMail(snake(mention.name)) {
				mails[snake(mention.name)] = true
			}
			if key := m.settings[mention.name]; (mention.of == "settings" || mention.of == "Throttle") && key != "" && key != "throttle.enabled" {
				settings[key] = true
			}
		}
	}
	tests := m.suite.callers(operation)
	if len(tests) == 0 {
		return nil, fmt.Errorf("shared/personal/personaltest does not call %s", operation)
	}
	pages := append(m.pages.callers(operation), m.admin.callers(operation)...)
	return []string{
		method.file, list(store), strings.Join(pages, ", "), list(mails), list(settings), tests[0],
	}, nil
}

// isMail reports whether the name is that of a kind: constants of Go have the same ones.
func (m *sources) isMail(name string) bool {
	return slices.ContainsFunc(m.mails, func(d mailtext.Description) bool { return string(d.Kind) == name })
}

func list(set map[string]bool) string { return strings.Join(slices.Sorted(maps.Keys(set)), ", ") }

// settingsOf returns the keys of the settings file by the fields of accounts.Settings, and of its Throttle.
func settingsOf(plugin *source) (map[string]string, error) {
	keys, tags := map[string]string{}, map[string]string{} // tags has section.key by Section.Field
	for f := range plugin.types("settings") {
		section := tag(f)
		fields, ok := f.Type.(*ast.StructType)
		if !ok {
			continue
		}
		for _, field := range fields.Fields.List {
			name := f.Names[0].Name + "." + field.Names[0].Name
			tags[name] = section + "." + tag(field)
			if section == "throttle" {
				keys[field.Names[0].Name] = section + "." + tag(field)
			}
		}
	}
	accounts := plugin.method("settings", "accounts")
	if accounts == nil {
		return nil, errors.New("plugin has no settings.accounts")
	}
	ast.Inspect(accounts.decl, func(n ast.Node) bool {
		pair, ok := n.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		field, ok := pair.Key.(*ast.Ident)
		if !ok {
			return true
		}
		value := ast.Node(pair.Value)
		if call, ok := pair.Value.(*ast.CallExpr); ok {
			if selector, ok := call.Fun.(*ast.SelectorExpr); ok {
				if f := plugin.method("settings", selector.Sel.Name); f != nil {
					value = f.decl
				}
			}
		}
		for m := range mentions(value) {
			if key := tags[m.of+"."+m.name]; key != "" && keys[field.Name] == "" {
				keys[field.Name] = key
			}
		}
		return true
	})
	return keys, nil
}
