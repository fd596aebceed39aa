package moving

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cms-personal/personal/shared/userfields"
)

// What encoding/csv writes is read as it was, from the start and from the end of
// each record on, and every record knows its line.
func TestEveryRecordIsReadAndCanBeTakenUpFrom(t *testing.T) {
	schema, err := userfields.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	value := rapid.StringOf(rapid.SampledFrom([]rune("a\",\nЖ ")))
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfN(rapid.SliceOfN(value, 3, 3), 1, 6).Draw(t, "rows")
		var file bytes.Buffer
		w := csv.NewWriter(&file)
		w.UseCRLF = rapid.Bool().Draw(t, "CRLF")
		_ = w.Write([]string{columnLogin, columnName, columnHash})
		var lines []int
		for _, row := range rows {
			w.Flush()
			lines = append(lines, 1+strings.Count(file.String(), "\n"))
			_ = w.Write(row)
		}
		w.Flush()
		all := readAll(t, bytes.NewReader(file.Bytes()), 0, schema)
		if len(all) != len(rows) {
			t.Fatalf("%d records of %d in %q", len(all), len(rows), file.String())
		}
		for i, r := range all {
			got := []string{r.columns[columnLogin].Text, r.columns[columnName].Text, r.columns[columnHash].Text}
			if r.fault != "" || !cmp.Equal(got, rows[i]) || r.line != lines[i] {
				t.Fatalf("record %d of %q: %+v, on line %d", i, file.String(), r, lines[i])
			}
			if rest := readAll(t, bytes.NewReader(file.Bytes()), r.end, schema); !cmp.Equal(rest, all[i+1:], cmp.AllowUnexported(record{})) && len(rest)+len(all[i+1:]) > 0 {
				t.Fatalf("from %d in %q: %+v", r.end, file.String(), rest)
			}
		}
	})
}

func readAll(t *rapid.T, file io.ReadSeeker, offset int64, schema *userfields.Schema) (all []record) {
	from, err := newCSV(file, offset, schema)
	if err != nil {
		t.Fatal(err)
	}
	for {
		r, err := from.next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
}
