//go:build !race

// The race detector needs memory of its own.

package dump_test

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/transfer/dump"
)

func TestReadRealm_MemoryDoesNotGrowWithItsLevels(t *testing.T) {
	const size = 16 << 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := readRealm(repeated("{\"x\":", strings.Repeat("[", 8<<10), "", size))
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; err == nil || allocated > size/4 {
		t.Errorf("got %v and %d bytes allocated, want an error and less than %d", err, allocated, size/4)
	}
}

func TestReadSQL_DefinitionsAreBounded(t *testing.T) {
	columns := "(" + strings.Repeat(strings.Repeat("a", 250)+" int,", 1000) + "z int);"
	tables := 0
	var all strings.Builder
	for n := range 100 {
		fmt.Fprintf(&all, "CREATE TABLE users%d %s", n, columns)
	}
	_, err := dump.ReadSQL(strings.NewReader(all.String()), func(string, []string) (*dump.Table, error) {
		tables++
		return &dump.Table{}, nil
	})
	if err == nil || tables*len(columns) > 8<<20 {
		t.Errorf("got %v after %d tables, want a refusal after 8 MiB", err, tables)
	}
}

func TestReadSQL_MemoryDoesNotGrowWithALine(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // make test sets another
	const size = 16 << 20
	for name, test := range map[string]struct {
		r    io.Reader
		want string // the error
	}{
		"a value of another table": {repeated("INSERT INTO x VALUES ('", strings.Repeat("a", 8<<10), "');INSERT INTO users (id,name) VALUES (1,'a');", size), ""},
		"a value":                  {repeated("INSERT INTO users (id,name) VALUES (1,'", strings.Repeat("a", 8<<10), "');", size), ""},
		"a number":                 {repeated("INSERT INTO users (id,name) VALUES (1", strings.Repeat("1", 8<<10), ",'a');", size), ""},
		"a value of COPY":          {repeated(pgHeader+"COPY users (id, name) FROM stdin;\n1\t", strings.Repeat("a", 8<<10), "\n\\.\n"+pgCompleted, size), ""},
		"rows of another table":    {repeated("INSERT INTO x VALUES (1)", strings.Repeat(",(1,'a',NULL)", 500), ";INSERT INTO users (id,name) VALUES (1,'a');", size), ""},
		"a line of COPY":           {repeated(pgHeader+"COPY x (a) FROM stdin;\n", strings.Repeat("a", 8<<10), "\n\\.\nINSERT INTO users (id,name) VALUES (1,'a');"+pgCompleted, size), ""},
		"a comment":                {repeated("--", strings.Repeat("a", 8<<10), "\nINSERT INTO users (id,name) VALUES (1,'a');", size), ""},
		"a word":                   {repeated("", strings.Repeat("a", 8<<10), "", size), "line 1: a statement"},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			rows, err := readFrom(test.r)
			runtime.ReadMemStats(&after)
			if test.want == "" && (err != nil || len(rows) != 1) || test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)) {
				t.Errorf("got %q, %v, want %q", rows, err, test.want)
			}
			if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > size/2 {
				t.Errorf("the heap has grown by %d bytes", grown)
			}
		})
	}
}
