// Package page writes generated parts of a page that is otherwise written by hand. A part is the text
// between the markers <!-- generated: NAME --> and <!-- end -->, each on a line of its own.
package page

import (
	"bytes"
	"fmt"
	"os"
)

// Rewrite replaces parts of the page at path, by their names.
func Rewrite(path string, parts map[string]string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for name, text := range parts {
		if page, err = replace(page, name, text); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return os.WriteFile(path, page, 0o644)
}

// replace puts text between the markers of one part.
func replace(page []byte, name, text string) ([]byte, error) {
	begin, end := []byte("<!-- generated: "+name+" -->\n"), []byte("<!-- end -->\n")
	before, rest, ok := bytes.Cut(page, begin)
	_, after, ended := bytes.Cut(rest, end)
	if !ok || !ended {
		return nil, fmt.Errorf("no part %q between %q and %q", name, begin, end)
	}
	return bytes.Join([][]byte{before, begin, []byte(text), end, after}, nil), nil
}
