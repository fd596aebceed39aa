package moving

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

// csvRecords reads CSV (RFC 4180) whose first record names the columns. A record
// is cut out here, so that its length is bounded and its place known, and taken
// apart by encoding/csv.
type csvRecords struct {
	lines  *lines
	header []string
	lists  map[string]bool // user fields that are lists
	buffer []byte
	parser *bufio.Reader
}

func newCSV(file io.ReadSeeker, offset int64, schema *userfields.Schema) (*csvRecords, error) {
	c := &csvRecords{lists: map[string]bool{}, parser: bufio.NewReader(nil)}
	for _, f := range schema.Fields() {
		c.lists[f.Name] = f.Type == personal.TypeTags || f.Type == personal.TypeLinkSet
	}
	var err error
	if c.lines, err = linesFrom(file, 0); err != nil {
		return nil, err
	}
	if err := c.readHeader(schema); err != nil {
		return nil, err
	}
	if offset > c.lines.offset {
		c.lines, err = linesFrom(file, offset)
	}
	return c, err
}

func (c *csvRecords) readHeader(schema *userfields.Schema) error {
	header, fault, err := c.split()
	if errors.Is(err, io.EOF) {
		return errors.New("the file is empty; its first line must name the columns")
	}
	if err != nil {
		return err
	}
	if fault != "" {
		return fmt.Errorf("the first line, which must name the columns: %s", fault)
	}
	seen, fields := map[string]bool{}, fieldNames(schema)
	for _, name := range header {
		switch {
		case seen[name]:
			return fmt.Errorf("column %q is there twice", name)
		case !isColumn(name) && !fields[name]:
			return fmt.Errorf("unknown column %.40q: the columns are %s, and the user fields given with --fields", name, columnNames)
		}
		seen[name] = true
	}
	for _, name := range []string{columnLogin, columnHash} {
		if !seen[name] {
			return fmt.Errorf("there is no column %q", name)
		}
	}
	c.header = header
	return nil
}

func (c *csvRecords) next() (record, error) {
	for {
		r := record{line: c.lines.number + 1}
		values, fault, err := c.split()
		if err != nil {
			return record{}, err
		}
		r.end, r.fault = c.lines.offset, fault
		switch {
		case fault != "":
		case len(values) == 0: // an empty line
			continue
		case len(values) != len(c.header):
			r.fault = fmt.Sprintf("%d columns, the first line has %d", len(values), len(c.header))
		default:
			r.columns = c.name(values)
		}
		return r, nil
	}
}

// name makes columns of a record. A list is written as JSON, ["a","b"]: another
// text is a mistake more likely than the only item.
func (c *csvRecords) name(values []string) map[string]personal.Input {
	named := make(map[string]personal.Input, len(values))
	for i, name := range c.header {
		named[name] = personal.Text(values[i])
		if c.lists[name] && values[i] != "" {
			named[name] = readList(values[i])
		}
	}
	return named
}

func readList(text string) personal.Input {
	var list personal.Input
	if json.Unmarshal([]byte(text), &list) != nil || list.Kind != personal.InputList {
		return personal.Input{Kind: personal.InputOther}
	}
	return list
}

// split returns the values of the next record, or why it has none.
func (c *csvRecords) split() (values []string, fault string, err error) {
	first := c.lines.number + 1
	c.buffer = c.buffer[:0]
	for quoted, more := false, true; more; more = quoted {
		line, err := c.lines.next()
		switch {
		case errors.Is(err, io.EOF) && quoted:
			return nil, "", fmt.Errorf("line %d: a quote is opened and not closed before the end of the file", first)
		case err == nil && len(c.buffer)+len(line) > maxRecord:
			return nil, "", fmt.Errorf("line %d: a quote is opened and not closed within %d bytes", first, maxRecord)
		case errors.Is(err, errTooLong) && !quoted:
			return nil, err.Error(), nil
		case err != nil:
			return nil, "", fmt.Errorf("line %d: %w", c.lines.number, err)
		}
		c.buffer = append(c.buffer, line...)
		quoted = endsQuoted(line, quoted)
	}
	if len(bytes.TrimRight(c.buffer, "\r\n")) == 0 {
		return nil, "", nil
	}
	if !utf8.Valid(c.buffer) {
		return nil, "not UTF-8", nil
	}
	c.parser.Reset(bytes.NewReader(c.buffer))
	r := csv.NewReader(c.parser)
	r.FieldsPerRecord = -1
	values, err = r.Read()
	if err != nil {
		return nil, c.misquoted(first), nil
	}
	return values, "", nil
}

// misquoted says how far a record was taken to go: a quote that is opened by
// mistake swallows the rows up to the next one. The parser's own text counts lines
// from this record.
func (c *csvRecords) misquoted(first int) string {
	if last := c.lines.number; last > first {
		return fmt.Sprintf("quotes in the wrong place, which made one row of lines %d to %d", first, last)
	}
	return "quotes in the wrong place"
}

// endsQuoted reports whether a line ends within quotes. They are opened at the
// start of a value only, and doubled inside.
func endsQuoted(line []byte, quoted bool) bool {
	start := !quoted
	for i := 0; i < len(line); i++ {
		switch b := line[i]; {
		case quoted && b == '"' && i+1 < len(line) && line[i+1] == '"':
			i++
		case quoted && b == '"':
			quoted = false
		case start && b == '"':
			quoted = true
			start = false
		default:
			start = !quoted && b == ','
		}
	}
	return quoted
}
