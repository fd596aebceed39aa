// Command opmap writes a page that says for each operation where its code is: opmap PAGE.md. It reads the
// source by names alone: an operation has what its method mentions and what the functions do that it calls, followed
// through the method's file and one file further; for settings, two.
package main

import (
	"errors"
	"fmt"
	"go/ast"
	"maps"
	"os"
	"slices"
	"strings"
	"unicode"

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
	domain, store, pages, admin, web, suite *source

	jobs     map[string][]*function // the handlers by the constants of kinds
	settings map[string]string      // the key in the settings file by the field of accounts.Settings
	paths    map[personal.OperationName]string
	mails    []mailtext.Description
}

func read() (*sources, error) {
	m := &sources{paths: map[personal.OperationName]string{}, mails: mailtext.Descriptions()}
	for _, s := range []struct {
		to     **source
		folder string
	}{
		{&m.domain, "internal/accounts"}, {&m.store, "internal/store"}, {&m.pages, "shared/personalpages"},
		{&m.admin, "shared/personaladmin"}, {&m.web, "shared/personalweb"}, {&m.suite, "shared/personal/personaltest"},
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
	if m.jobs, err = jobsOf(m.domain); err != nil {
		return nil, err
	}
	for _, e := range personalhttp.Endpoints() {
		m.paths[e.Operation] = e.Path
	}
	return m, nil
}

const head = `# Where an operation is

For contributors. After this page you know which files to open for a change.

A rule is in ` + "`internal/accounts`" + `, its statements in ` + "`internal/store`" + `, pages in ` + "`shared/personalpages`" + ` or
another folder of ` + "`shared`" + `. Messages of the API are
` + "`success.PATH`" + ` in ` + "`shared/personalhttp/messages`" + `.

This guide is made from names in the source, by ` + "`make generate`" + `: it follows calls a file or two beyond the operation's own,
so an empty cell does not mean none. It leaves out what nearly all share: ` + "`identify.go`" + ` (who calls), ` + "`attempts.go`" + ` (limits),
` + "`mail.go`" + `, ` + "`mail.notices`" + `, ` + "`throttle.session_writes`" + `. ` + "`throttle.guess…`" + ` stands for ` + "`guess`" + `,
` + "`guess_address`" + ` and ` + "`guess_account`" + `. The column *test* is a file of ` + "`shared/personal/personaltest`" + `.

## Other code

- client addresses: ` + "`shared/personalhttp/internal/clientip`" + `; CORS: ` + "`shared/personalhttp/cors.go`" + `
- bundles, signatures: ` + "`shared/plugins/catalogue`" + `
- swap, bake, health, deadlines: ` + "`swap.go`" + `, ` + "`bake.go`" + `, ` + "`health.go`" + `, ` + "`config.go`" + ` in ` + "`shared/plugins/manager`" + `
- SMTP, captchas, secret keys: ` + "`mailer`" + `, ` + "`captcha`" + `, ` + "`secretkeys`" + ` in ` + "`shared/personalhost`" + `
- values of user fields: ` + "`shared/userfields`" + `
- traces: ` + "`trace.go`" + ` in ` + "`shared/personalhttp`" + ` and ` + "`shared/plugins/rpc`" + `, ` + "`internal/store/spans.go`" + `, ` + "`shared/tracing`" + `
- metrics: ` + "`plugin/metrics.go`" + `, ` + "`host-sample/cli/metrics.go`" + `
- passwords: rules (` + "`policy.go`" + `), hash formats, queue: ` + "`internal/password`" + `
- retries, leases: ` + "`internal/outbox`" + `; of mails: ` + "`mail.go`" + `, ` + "`relay_test.go`" + ` in ` + "`internal/accounts`" + `
- forms sent twice: ` + "`once.go`" + ` in ` + "`shared/personalpages`" + `
- connections: ` + "`internal/store/dbconn`" + `; expiry: ` + "`internal/store/prune.go`" + `
- dumps of other systems: ` + "`internal/transfer/systems.go`" + `, ` + "`internal/transfer/dump`" + `
- systemd, image, Debian packages: ` + "`deploy`" + `
`

func (m *sources) page() (string, error) {
	var b strings.Builder
	b.WriteString(head)
	for _, part := range []struct {
		title          string
		administration bool
	}{{"Operations of users", false}, {"Operations of administrators and of the CMS", true}} {
		columns := []string{"operation", "path", "rule", "store", "pages", "mails", "settings", "test"}
		if part.administration {
			columns = slices.Delete(columns, 1, 2) // only the API has paths
		}
		fmt.Fprintf(&b, "\n## %s\n\n|%s|\n|%s\n", part.title, strings.Join(columns, "|"), strings.Repeat("---|", len(columns)))
		for _, o := range personal.Operations() {
			if o.Administration != part.administration {
				continue
			}
			row, err := m.row(o)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&b, "|%s|%s|\n", o.Name, strings.Join(row[len(row)+1-len(columns):], "|"))
		}
	}
	return b.String(), nil
}

// unsent are mails that an operation leads to by names, and never sends.
var unsent = map[personal.OperationName][]mailtext.Kind{
	personal.OpBeginTwoFactor:     {mailtext.CodeRefused, mailtext.RecoveryCodeUsed}, // there is no second factor yet
	personal.OpConfirmTwoFactor:   {mailtext.RecoveryCodeUsed},                       // a recovery code confirms nothing
	personal.OpLinkIdentity:       {mailtext.CodeRefused},                            // it takes a proof alone
	personal.OpUnlinkIdentity:     {mailtext.CodeRefused, mailtext.PasskeyRemoved},   // likewise; waysRemoved reports both
	personal.OpRemovePasskey:      {mailtext.IdentityUnlinked},                       // likewise
	personal.OpResendVerification: {mailtext.RegistrationAttempt},                    // only a registration sends it
	personal.OpSetEmail:           {mailtext.RegistrationAttempt},                    // likewise
	personal.OpResetAccess:        {mailtext.Invitation},                             // it sends the same job as a recovery
}

// general are settings that many operations depend on; the head names them.
var general = map[string]bool{"throttle.enabled": true, "throttle.session_writes": true, "mail.notices": true}

// row returns the cells of an operation: message, rule, store, pages, mails, settings, test.
func (m *sources) row(o personal.Operation) ([]string, error) {
	operation := string(o.Name)
	method := m.domain.method("Service", operation)
	if method == nil {
		return nil, fmt.Errorf("internal/accounts has no Service.%s", operation)
	}
	store, mails, settings := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, f := range m.domain.reach(method, 1, m.jobs) {
		for mention := range mentions(f.decl) {
			// Nearly all operations ask for the time, and charge a limit.
			s := m.store.method("Store", mention.name)
			if mention.of == "store" && mention.name != "Now" && s != nil && s.file != "attempts.go" {
				store[s.file] = true
			}
			if kind := snake(mention.name); mention.of == "mailtext" && m.isMail(kind) && !slices.Contains(unsent[o.Name], mailtext.Kind(kind)) {
				mails[kind] = true
			}
		}
	}
	if o.Administration && o.Repeatable && o.Changes == personal.ChangesNothing { // it only asks about mails
		clear(mails)
	}
	for _, f := range m.domain.reach(method, 2, m.jobs) {
		for mention := range mentions(f.decl) {
			of := mention.of == "settings" || mention.of == "Throttle" || mention.of == "s" && f.receiver() == "Settings"
			if key := m.settings[mention.name]; of && key != "" && !general[key] {
				settings[key] = true
			}
		}
	}
	const guess = "throttle.guess"
	if settings[guess] && settings[guess+"_account"] && settings[guess+"_address"] {
		delete(settings, guess)
		delete(settings, guess+"_account")
		delete(settings, guess+"_address")
		settings[guess+"…"] = true
	}
	test, err := m.test(operation)
	if err != nil {
		return nil, err
	}
	pages := slices.DeleteFunc(m.pages.callers(operation), func(file string) bool { return file == "once.go" }) // the head names it
	for _, file := range m.admin.callers(operation, "a", "Recovery", "Mails") {
		pages = append(pages, "personaladmin/"+file)
	}
	for _, file := range m.web.callers(operation) {
		pages = append(pages, "personalweb/"+file)
	}
	return []string{m.paths[o.Name], method.file, list(store), strings.Join(pages, ", "), list(mails), list(settings), test}, nil
}

// test returns the file of the contract suite that calls the operation and has the function test, followed by the
// operation or by its last words, or one that ends with its name; else the one that calls it most.
func (m *sources) test(operation string) (string, error) {
	files := m.suite.callers(operation)
	if len(files) == 0 {
		return "", fmt.Errorf("shared/personal/personaltest does not call %s", operation)
	}
	for at, letter := range operation {
		for _, f := range m.suite.functions["test"+operation[at:]] {
			if unicode.IsUpper(letter) && slices.Contains(files, f.file) {
				return f.file, nil
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.suite.functions)) {
		for _, f := range m.suite.functions[name] {
			if strings.HasPrefix(name, "test") && strings.HasSuffix(name, operation) && slices.Contains(files, f.file) {
				return f.file, nil
			}
		}
	}
	return files[0], nil
}

// isMail reports whether the name is that of a kind: constants of Go have the same ones.
func (m *sources) isMail(name string) bool {
	return slices.ContainsFunc(m.mails, func(d mailtext.Description) bool { return string(d.Kind) == name })
}

func list(set map[string]bool) string { return strings.Join(slices.Sorted(maps.Keys(set)), ", ") }

// jobsOf returns the functions that handle a job, by the constant of its kind.
func jobsOf(domain *source) (map[string][]*function, error) {
	list := domain.method("Service", "Jobs")
	if list == nil {
		return nil, errors.New("internal/accounts has no Service.Jobs")
	}
	jobs := map[string][]*function{}
	ast.Inspect(list.decl, func(n ast.Node) bool {
		if pair, ok := n.(*ast.KeyValueExpr); ok {
			if kind, ok := pair.Key.(*ast.Ident); ok {
				for m := range mentions(pair.Value) {
					jobs[kind.Name] = append(jobs[kind.Name], domain.called(m)...)
				}
			}
		}
		return true
	})
	return jobs, nil
}

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
