// Command rpcmethods writes the methods of package rpc that convert and pass on one call each:
// rpcmethods FOLDER, the folder of that package. It writes no method that is handwritten there.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "rpcmethods: "+err.Error())
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: rpcmethods FOLDER")
	}
	written, err := read(args[0])
	if err != nil {
		return err
	}
	client, server, err := written.generate(
		side{reflect.TypeFor[personal.Service](), reflect.TypeFor[personalv1.PersonalServiceClient](),
			"Client", "service", "serviceServer", "service()"},
		side{reflect.TypeFor[personal.Administration](), reflect.TypeFor[personalv1.AdministrationServiceClient](),
			"Client", "administration", "administrationServer", "administration()"},
		side{reflect.TypeFor[personal.Host](), reflect.TypeFor[personalv1.HostServiceClient](),
			"hostClient", "client", "hostServer", "host"},
	)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(args[0], "client_generated.go"), client, 0o644),
		os.WriteFile(filepath.Join(args[0], "server_generated.go"), server, 0o644))
}

// side is an interface of the contract, the generated client of its RPCs, and who calls and serves them.
type side struct {
	contract, rpcs                   reflect.Type
	client, caller, server, callable string
}

// handwritten is what package rpc has: its methods, as TYPE.METHOD, and its conversions, by their two types.
type handwritten struct {
	methods     map[string]bool
	conversions map[[2]string]conversion
}

type conversion struct {
	name  string
	fails bool // it has an error, too
}

// read parses the package, which need not compile.
func read(folder string) (handwritten, error) {
	written := handwritten{map[string]bool{}, map[[2]string]conversion{}}
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "_generated.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return written, err
		}
		ast.Inspect(file, written.see)
	}
	return written, err
}

// see takes note of a part of a file, and returns whether to go into it.
func (h handwritten) see(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FuncDecl:
		if n.Recv != nil {
			h.methods[strings.TrimPrefix(types.ExprString(n.Recv.List[0].Type), "*")+"."+n.Name.Name] = true
		} else if strings.HasSuffix(n.Name.Name, "PB") {
			h.add(n.Name.Name, n.Type)
		}
		return false
	case *ast.TypeSpec:
		if converter, ok := n.Type.(*ast.InterfaceType); ok && n.Name.Name == "converter" {
			for _, m := range converter.Methods.List {
				h.add("convert."+m.Names[0].Name, m.Type.(*ast.FuncType))
			}
		}
	}
	return true
}

func (h handwritten) add(name string, f *ast.FuncType) {
	pair := [2]string{types.ExprString(f.Params.List[0].Type), types.ExprString(f.Results.List[0].Type)}
	h.conversions[pair] = conversion{name, len(f.Results.List) > 1}
}

// part is how a message carries a value: as a whole, or in its only field.
type part struct {
	conversion
	field string // or empty
}

func (p part) convert(value string) string {
	if p.name == "" {
		return value
	}
	return p.name + "(" + value + ")"
}

// of returns the value in a message.
func (p part) of(message string) string {
	if p.field != "" {
		message += ".Get" + p.field + "()"
	}
	return p.convert(message)
}

// within returns a message of a type with a value.
func (p part) within(message reflect.Type, value string) string {
	if p.field == "" {
		return p.convert(value)
	}
	return literal(message, p.field+": "+p.convert(value))
}

func literal(message reflect.Type, fields string) string {
	return "&" + message.String()[1:] + "{" + fields + "}"
}

// parts returns how to put a value into a message and how to take it out.
func (h handwritten) parts(value, message reflect.Type) (to, from part, err error) {
	find := func(t reflect.Type, field string) bool {
		to = part{h.conversions[[2]string{value.String(), t.String()}], field}
		from = part{h.conversions[[2]string{t.String(), value.String()}], field}
		return t == value || to.name != "" && from.name != ""
	}
	if find(message, "") {
		return to, from, nil
	}
	var fields []reflect.StructField
	for f := range message.Elem().Fields() {
		if f.IsExported() {
			fields = append(fields, f)
		}
	}
	if len(fields) == 1 && find(fields[0].Type, fields[0].Name) {
		return to, from, nil
	}
	return to, from, fmt.Errorf("add conversions between %s and %s to convert.go, or write the method by hand", value, message)
}

// generate returns the sources of the clients and of the servers.
func (h handwritten) generate(sides ...side) (client, server []byte, err error) {
	var clients, servers bytes.Buffer
	const start = "// Code generated by internal/tools/rpcmethods. DO NOT EDIT.\n\npackage rpc\n\nimport (\n\t\"context\"\n%s\n" +
		"\tpersonalv1 \"github.com/cms-personal/personal/proto/personal/v1\"\n%s)\n"
	fmt.Fprintf(&clients, start, "\t\"time\"\n", "\t\"github.com/cms-personal/personal/shared/personal\"\n")
	fmt.Fprintf(&servers, start, "", "")
	for _, s := range sides {
		for m := range s.contract.Methods() {
			inClient, inServer := h.methods[s.client+"."+m.Name], h.methods[s.server+"."+m.Name]
			if inClient && inServer {
				continue
			}
			call, serve, err := h.method(s, m)
			if err != nil {
				return nil, nil, fmt.Errorf("%s.%s: %w", s.contract, m.Name, err)
			}
			if !inClient {
				clients.WriteString(call)
			}
			if !inServer {
				servers.WriteString(serve)
			}
		}
	}
	client, err = format.Source(clients.Bytes())
	if err != nil {
		return nil, nil, err
	}
	server, err = format.Source(servers.Bytes())
	return client, server, err
}

// method returns the method of the client and that of the server.
func (h handwritten) method(s side, m reflect.Method) (call, serve string, err error) {
	rpc, ok := s.rpcs.MethodByName(m.Name)
	if !ok {
		return "", "", errors.New("add an RPC of this name to the .proto files")
	}
	request, response := rpc.Type.In(1), rpc.Type.Out(0)
	parameter, message, in, argument := "", literal(request, ""), "_", ""
	if m.Type.NumIn() == 2 {
		to, from, err := h.parts(m.Type.In(1), request)
		if err != nil {
			return "", "", err
		}
		parameter, message = ", in "+m.Type.In(1).String(), to.within(request, "in")
		in, argument = "in", ", "+from.of("in")
	}
	called := fmt.Sprintf("(c.%s.%s(ctx, %s))", s.caller, m.Name, message)
	served := fmt.Sprintf("s.%s.%s(ctx%s)", s.callable, m.Name, argument)
	results := "error"
	if m.Type.NumOut() == 1 {
		called, served = "failure"+called, "return "+literal(response, "")+", "+served
	} else {
		result := m.Type.Out(0)
		to, from, err := h.parts(result, response)
		if err != nil {
			return "", "", err
		}
		results = "(" + result.String() + ", error)"
		convert := from.name
		if from.field != "" {
			convert = fmt.Sprintf("func(r %s) %s {\nreturn %s\n}", response, result, from.of("r"))
		}
		called = "result(ctx, " + convert + ")" + called
		if to.fails {
			served = "respond(" + to.name + ")(" + served + ")"
			to.name = ""
		}
		if answer := to.within(response, "result"); answer == "result" {
			served = "return " + served
		} else {
			served = "result, err := " + served + "\nreturn " + answer + ", err"
		}
	}
	call = fmt.Sprintf("\n// %s calls [%s.%[1]s] in the other process.\nfunc (c *%[3]s) %[1]s(ctx context.Context%[4]s) %[5]s {\nreturn %[6]s\n}\n",
		m.Name, s.contract, s.client, parameter, results, called)
	serve = fmt.Sprintf("\nfunc (s *%s) %s(ctx context.Context, %s %s) (%s, error) {\n%s\n}\n", s.server, m.Name, in, request, response, served)
	return call, serve, nil
}
