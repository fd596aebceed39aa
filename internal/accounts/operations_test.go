package accounts_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cms-personal/personal/shared/personal"
)

// silent are the kinds of jobs that mail nothing, and notices, which go to the account's own
// e-mail after something happened.
var silent = []string{"KindEvent", "KindErasure", "KindFill", "KindNotice"}

// unjudgedMails are operations that mail although no admission judges them.
var unjudgedMails = map[string]string{
	"Delete":      "the caller has proved to be the user, and the mail goes to the user's own e-mail",
	"CreateUser":  "an administrator invites",
	"SetEmail":    "an administrator sets the e-mail",
	"ResetAccess": "an administrator resets the access",
}

// A new operation that stores a job which mails must be in the list as one that mails: then an
// admission judges it.
func TestOperations_MailsAreThoseOfTheList(t *testing.T) {
	mails := mailingFunctions(t)
	for _, o := range personal.Operations() {
		name := string(o.Name)
		if _, known := unjudgedMails[name]; mails[name] != (o.Mails || known) {
			t.Errorf("%s: it mails: %t; got Mails %t in shared/personal/operations.go: correct its row", name, mails[name], o.Mails)
		}
	}
}

// Every operation whose request has something that people type cuts the white space around it before
// anything else.
func TestOperations_ReadIdentifiersAsTyped(t *testing.T) {
	typed := map[string]bool{}
	for _, of := range []reflect.Type{reflect.TypeFor[personal.Service](), reflect.TypeFor[personal.Administration]()} {
		for method := range of.Methods() {
			for in := range method.Type.Ins() {
				typed[method.Name] = typed[method.Name] || isTyped(in)
			}
		}
	}
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	const first = "\n\tr = personal.AsTyped(r)\n"
	for _, name := range sources {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range regexp.MustCompile(`(?s)\nfunc \(s \*Service\) ([A-Z]\w*)\(.*?\{(\n.*?\n)\}\n`).FindAllSubmatch(source, -1) {
			method, body := string(f[1]), string(f[2])
			if typed[method] && !strings.HasPrefix(body, first) {
				t.Errorf("%s in %s does not begin with%s", method, name, first)
			}
			delete(typed, method)
		}
	}
	for method, is := range typed {
		if is {
			t.Errorf("%s: got no such method", method)
		}
	}
}

// isTyped reports whether requests of a type have what [personal.AsTyped] changes.
func isTyped(request reflect.Type) bool {
	if request.Kind() != reflect.Struct {
		return false
	}
	for f := range request.Fields() {
		if f.Type.Kind() == reflect.String && slices.Contains([]string{"Login", "Email", "Token", "Code"}, f.Name) {
			return true
		}
	}
	return false
}

// mailingFunctions returns which functions of this package store a job that mails, by name,
// themselves or by what they call.
func mailingFunctions(t *testing.T) map[string]bool {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	mails, uses := map[string]bool{}, map[string][]string{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.Ident:
					if !n.IsExported() { // else it may be a method of another type, too
						uses[f.Name.Name] = append(uses[f.Name.Name], n.Name)
					}
				case *ast.CallExpr: // such as jobOf
					for _, arg := range n.Args {
						kind, ok := arg.(*ast.Ident)
						mails[f.Name.Name] = mails[f.Name.Name] ||
							ok && strings.HasPrefix(kind.Name, "Kind") && !slices.Contains(silent, kind.Name)
					}
				}
				return true
			})
		}
	}
	for changed := true; changed; {
		changed = false
		for f, names := range uses {
			if !mails[f] && slices.ContainsFunc(names, func(name string) bool { return mails[name] }) {
				mails[f], changed = true, true
			}
		}
	}
	return mails
}
