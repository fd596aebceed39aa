// Command openapi converts the OpenAPI document from YAML to JSON, and writes the table of its
// operations to the part "operations" (package page) of a page: openapi FROM.yaml TO.json PAGE.md. It keeps the order of members, resolves
// anchors and merge keys, and leaves out top-level members named x-…. The list !field-types [] becomes
// the types of user fields.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cms-personal/personal/internal/tools/page"
	"github.com/cms-personal/personal/shared/personal"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "openapi: "+err.Error())
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return errors.New("usage: openapi FROM.yaml TO.json PAGE.md")
	}
	source, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	document, err := parse(source)
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	converted, err := convert(document)
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	table, err := newTable(document)
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	return errors.Join(os.WriteFile(args[1], converted, 0o644), page.Rewrite(args[2], map[string]string{"operations": table}))
}

func parse(source []byte) (*yaml.Node, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(source, &document); err != nil {
		return nil, err
	}
	// This finds what a Node accepts: repeated members, and a document of another type.
	if err := document.Decode(&map[string]any{}); err != nil || document.IsZero() {
		return nil, cmp.Or(err, errors.New("the document is empty"))
	}
	return &document, nil
}

// convert returns a document as indented JSON.
func convert(document *yaml.Node) ([]byte, error) {
	list, err := members(document.Content[0])
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(m member) bool { return strings.HasPrefix(m.name, "x-") })
	var plain, indented bytes.Buffer
	if err := writeObject(&plain, list); err != nil {
		return nil, err
	}
	if err := json.Indent(&indented, plain.Bytes(), "", "\t"); err != nil {
		return nil, err
	}
	indented.WriteByte('\n')
	return indented.Bytes(), nil
}

// member is one member of a mapping.
type member struct {
	name  string
	value *yaml.Node
}

// members returns the members of a mapping in their order, with the members of a
// merged mapping in place of the merge key. A mapping's own members win over merged
// ones.
func members(mapping *yaml.Node) ([]member, error) {
	var list []member
	add := func(m member, replace bool) {
		i := slices.IndexFunc(list, func(other member) bool { return other.name == m.name })
		switch {
		case i < 0:
			list = append(list, m)
		case replace:
			list[i] = m
		}
	}
	for pair := range slices.Chunk(mapping.Content, 2) {
		key, value := pair[0], resolve(pair[1])
		if key.Tag != "!!merge" {
			add(member{key.Value, value}, true)
			continue
		}
		if value.Kind != yaml.MappingNode {
			return nil, fmt.Errorf("line %d: only a mapping can be merged", key.Line)
		}
		merged, err := members(value)
		if err != nil {
			return nil, err
		}
		for _, m := range merged {
			add(m, false)
		}
	}
	return list, nil
}

func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return resolve(n.Alias)
	}
	return n
}

// typesTag marks an empty list in whose place the types of user fields are written.
const typesTag = "!field-types"

func write(b *bytes.Buffer, n *yaml.Node) error {
	switch n = resolve(n); n.Kind {
	case yaml.MappingNode:
		list, err := members(n)
		if err != nil {
			return err
		}
		return writeObject(b, list)
	case yaml.SequenceNode:
		if n.Tag == typesTag {
			types, err := json.Marshal(personal.FieldTypes())
			b.Write(types)
			return err
		}
		b.WriteByte('[')
		for i, item := range n.Content {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := write(b, item); err != nil {
				return err
			}
		}
		b.WriteByte(']')
		return nil
	}
	var scalar any
	if err := n.Decode(&scalar); err != nil {
		return err
	}
	return writeScalar(b, scalar)
}

func writeObject(b *bytes.Buffer, list []member) error {
	b.WriteByte('{')
	for i, m := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := writeScalar(b, m.name); err != nil {
			return err
		}
		b.WriteByte(':')
		if err := write(b, m.value); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

func writeScalar(b *bytes.Buffer, v any) error {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	return e.Encode(v) // json.Indent removes the line break that it adds
}
