//go:build extended

package system

import (
	"path/filepath"
	"slices"
	"testing"
)

// blocksRunBy returns the blocks of a page that a mark assigns to a test.
func blocksRunBy(t testing.TB, page, test string) []commandBlock {
	t.Helper()
	blocks := commandBlocks(t, page, readFile(t, filepath.Join(repository, page)))
	return slices.DeleteFunc(blocks, func(b commandBlock) bool { return b.runner != test })
}
