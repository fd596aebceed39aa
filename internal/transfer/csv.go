package transfer

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

// csvRecords reads CSV (RFC 4180) whose first record names the columns.
type csvRecords struct {
	lines  *lines
	parser *csv.Reader // of what Read returns
	header []string
	lists  map[string]bool // user fields that are lists

	// Of the record that is being read:
	first int    // its line
	size  int    // bytes that the parser was given of it
	rest  []byte // of its latest line: what the parser has not taken yet
	ended bool   // the file has come to its end
}

func newCSV(file io.Reader, schema *userfields.Schema) (*csvRecords, error) {
	c := &csvRecords{lines: newLines(file), lists: map[string]bool{}}
	for _, f := range schema.Fields() {
		c.lists[f.Name] = f.Type == personal.TypeTags || f.Type == personal.TypeLinkSet
	}
	c.parser = csv.NewReader(c)
	c.parser.FieldsPerRecord = -1 // next reports them
	return c, c.readHeader(schema)
}

func (c *csvRecords) readHeader(schema *userfields.Schema) error {
	header, fault, err := c.parse()
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
	values, fault, err := c.parse()
	if err != nil {
		return record{}, err
	}
	r := record{line: c.first, end: c.lines.offset, fault: fault}
	switch {
	case fault != "":
	case len(values) != len(c.header):
		r.fault = fmt.Sprintf("%d columns, the first line has %d", len(values), len(c.header))
	default:
		r.columns = c.name(values)
	}
	return r, nil
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

// parse returns the values of the next record, or why it has none. The error says
// why nothing can be read behind it.
func (c *csvRecords) parse() (values []string, fault string, err error) {
	c.size = 0
	values, err = c.parser.Read()
	var malformed *csv.ParseError
	switch {
	case err == nil && slices.ContainsFunc(values, func(v string) bool { return !utf8.ValidString(v) }):
		return nil, "not UTF-8", nil
	case err == nil || errors.Is(err, io.EOF):
		return values, "", err
	case errors.Is(err, errTooLong) && c.size == 0:
		return nil, err.Error(), nil
	case errors.Is(err, errTooLong):
		return nil, "", fmt.Errorf("line %d: a quote is opened and not closed within %d bytes", c.first, maxRecord)
	case !errors.As(err, &malformed):
		return nil, "", fmt.Errorf("line %d: %w", c.lines.number, err)
	case c.ended:
		return nil, "", fmt.Errorf("line %d: a quote is opened and not closed before the end of the file", c.first)
	case c.lines.number > c.first: // a quote opened by mistake swallows the rows up to the next one
		return nil, fmt.Sprintf("quotes in the wrong place, which made one row of lines %d to %d", c.first, c.lines.number), nil
	}
	return nil, "quotes in the wrong place", nil
}

// Read gives the parser one line at a time, so that it takes no more of the file
// than its record, whose place is known and whose length is bounded.
func (c *csvRecords) Read(p []byte) (n int, err error) {
	for len(c.rest) == 0 {
		line, err := c.lines.next()
		if c.size == 0 {
			c.first = c.lines.number
		}
		c.ended = errors.Is(err, io.EOF)
		switch {
		case err != nil:
			return 0, err
		case c.size+len(line) > maxRecord:
			return 0, errTooLong
		case c.size == 0 && len(bytes.TrimRight(line, "\r\n")) == 0: // before a record
			continue
		}
		c.size += len(line)
		if c.rest = line; line[len(line)-1] != '\n' { // the last: only an open quote asks for more
			c.rest = append(bytes.Clone(line), '\n')
		}
	}
	n = copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}
