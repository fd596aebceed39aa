package transfer

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

// What encoding/csv writes is read unchanged, with the line and the end of every
// record.
func TestCSV_ReadsRecordsWithPositions(t *testing.T) {
	schema, err := userfields.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	value := rapid.StringOf(rapid.SampledFrom([]rune("a\",\nЖ ")))
	rapid.Check(t, func(t *rapid.T) {
		some := func(row []string) bool { return strings.Join(row, "") != "" }
		rows := rapid.SliceOfN(rapid.SliceOfN(value, 3, 3).Filter(some), 1, 6).Draw(t, "rows")
		var file bytes.Buffer
		w := csv.NewWriter(&file)
		w.UseCRLF = rapid.Bool().Draw(t, "CRLF")
		_ = w.Write([]string{columnLogin, columnName, columnHash})
		w.Flush()
		var lines []int
		var ends []int64
		for _, row := range rows {
			file.WriteString(rapid.SampledFrom([]string{"", "\n", "\r\n\n"}).Draw(t, "empty lines"))
			lines = append(lines, 1+strings.Count(file.String(), "\n"))
			_ = w.Write(row)
			w.Flush()
			ends = append(ends, int64(file.Len()))
		}
		text := file.String()
		if rapid.Bool().Draw(t, "last line without a line break") {
			text = strings.TrimRight(text, "\r\n")
			ends[len(ends)-1] = int64(len(text))
		}
		all := readAll(t, text, schema)
		if len(all) != len(rows) {
			t.Fatalf("got %d records of %q, want %d", len(all), text, len(rows))
		}
		for i, r := range all {
			got := []string{r.columns[columnLogin].Text, r.columns[columnName].Text, r.columns[columnHash].Text}
			if r.invalid != "" || !cmp.Equal(got, rows[i]) || r.line != lines[i] || r.end != ends[i] {
				t.Fatalf("record %d of %q: got %+v, want %q on line %d, to byte %d", i, text, r, rows[i], lines[i], ends[i])
			}
		}
	})
}

// Spreadsheets separate by semicolons where the comma is in numbers, and by tabs what is copied.
func TestCSV_SeparatorOfTheFirstLine(t *testing.T) {
	schema, err := userfields.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	for separator, file := range map[string]string{
		"; quoted":  "\"login\";\"name\";\"password_hash\"\r\n\"anna\";\"Anna, A;\";\"!\"\r\n",
		"\t quoted": "\ufeff\"login\"\t\"name\"\t\"password_hash\"\nanna\tAnna, A;\t!\n",
		"named":     "sep=;\r\nlogin;name;password_hash\r\nanna;\"Anna, A;\";!\r\n",
		"spaced":    "\nlogin ; name ; password_hash\nanna;\"Anna, A;\";!",
		",":         "login,name,password_hash\nanna,\"Anna, A;\",!\n",
		";":         "login;name;password_hash\r\nanna;\"Anna, A;\";!\r\n",
		"\t":        "\ufefflogin\tname\tpassword_hash\nanna\tAnna, A;\t!\n",
	} {
		from, err := newCSV(strings.NewReader(file), schema)
		if err != nil {
			t.Errorf("%q: %v", separator, err)
			continue
		}
		r, err := from.next()
		if err != nil || r.invalid != "" || r.columns[columnLogin].Text != "anna" || r.columns[columnName].Text != "Anna, A;" {
			t.Errorf("%q: got %+v, error %v", separator, r, err)
		}
	}
}

func readAll(t *rapid.T, file string, schema *userfields.Schema) (all []record) {
	from, err := newCSV(strings.NewReader(file), schema)
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
