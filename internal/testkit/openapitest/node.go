package openapitest

import (
	"maps"
	"slices"
	"strings"
)

// node is a part of a document, the zero node one that is not there.
type node struct {
	root    any
	pointer string // RFC 6901
	value   any
}

func (n node) exists() bool { return n.value != nil }

// names are those of an object's members, sorted.
func (n node) names() []string {
	object, _ := n.value.(map[string]any)
	return slices.Sorted(maps.Keys(object))
}

// member returns a member of an object. A reference is followed.
func (n node) member(name string) node {
	object, _ := n.value.(map[string]any)
	value, known := object[name]
	if !known {
		return node{}
	}
	m := node{root: n.root, pointer: n.pointer + "/" + escape.Replace(name), value: value}
	target, _ := value.(map[string]any)
	if ref, ok := target["$ref"].(string); ok {
		return m.follow(ref)
	}
	return m
}

// follow returns what a reference within the document leads to.
func (n node) follow(ref string) node {
	at := node{root: n.root, value: n.root}
	for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		at = at.member(unescape.Replace(name))
	}
	return at
}

var (
	escape   = strings.NewReplacer("~", "~0", "/", "~1")
	unescape = strings.NewReplacer("~1", "/", "~0", "~")
)
