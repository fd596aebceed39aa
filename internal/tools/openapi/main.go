// Command openapi converts the OpenAPI document from YAML to JSON: openapi
// FROM.yaml TO.json. Members keep their order, anchors and merge keys are
// resolved, and top-level members named x-… are left out.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "openapi: "+err.Error())
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: openapi FROM.yaml TO.json")
	}
	source, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	converted, err := convert(source)
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	return os.WriteFile(args[1], converted, 0o644)
}

// convert returns a YAML document as indented JSON.
func convert(source []byte) ([]byte, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(source, &document); err != nil {
		return nil, err
	}
	if document.Kind != yaml.DocumentNode || document.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("not a mapping")
	}
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

// members returns the members of a mapping in their order, merge keys being
// replaced by what they merge. A mapping's own members win over merged ones.
func members(mapping *yaml.Node) ([]member, error) {
	var list []member
	place := map[string]int{} // of a name in list
	own := map[string]bool{}
	add := func(m member) {
		if i, known := place[m.name]; known {
			list[i] = m
			return
		}
		place[m.name] = len(list)
		list = append(list, m)
	}
	for i := 0; i < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], resolve(mapping.Content[i+1])
		if key.Tag != "!!merge" {
			if own[key.Value] {
				return nil, fmt.Errorf("line %d: a second %s", key.Line, key.Value)
			}
			own[key.Value] = true
			add(member{key.Value, value})
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
			if !own[m.name] {
				add(m)
			}
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

func write(b *bytes.Buffer, n *yaml.Node) error {
	switch n = resolve(n); n.Kind {
	case yaml.MappingNode:
		list, err := members(n)
		if err != nil {
			return err
		}
		return writeObject(b, list)
	case yaml.SequenceNode:
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
	return e.Encode(v) // the line break it adds is not kept by json.Indent
}
