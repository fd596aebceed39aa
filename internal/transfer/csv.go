package transfer

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cms-personal/personal/internal/transfer/dump"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

// records reads a file, one record after another, to io.EOF. Any other error ends the
// import.
type records interface {
	next() (record, error)
	close() error
}

// record is one row of a file.
type record struct {
	line             int   // its first line, from 1
	end              int64 // offset of the next record
	columns          map[string]personal.Input
	fields           map[string]personal.Input // user fields of an export that are checked
	stored           userfields.Values         // user fields of an export that are imported unchecked
	factor           json.RawMessage           // the column two_factor of an export; nil: none
	keys             json.RawMessage           // the column passkeys of an export; nil: none
	identities       json.RawMessage           // likewise
	bad              map[string]string         // why columns or user fields have no value, which are in none of the above
	doubled, escaped string                    // a text of it, and what was meant, see undoubled and unescaped; "": none
	changed          bool                      // the login or the e-mail is not that of the file
	invalid          string                    // why the row is refused; "": it can be read

	// Of a dump:
	left    map[string]string // see origin
	label   string            // see origin
	renamed string            // see origin
	logins  []string          // see origin
}

// maxRecord is the maximum length of a record in bytes. It bounds the memory.
const maxRecord = 1 << 20

// lines reads a file line by line and keeps its position.
type lines struct {
	r      *bufio.Reader
	number int   // of the last line, from 1
	offset int64 // of the next line
	quotes int   // in the last line, if it was too long
}

func newLines(file io.Reader) *lines {
	l := &lines{r: bufio.NewReaderSize(file, maxRecord)}
	if mark, _ := l.r.Peek(3); string(mark) == "\ufeff" { // Excel writes it
		n, _ := l.r.Discard(len(mark))
		l.offset = int64(n)
	}
	return l
}

// errTooLong means that a line is longer than maxRecord. The line has been skipped.
var errTooLong = fmt.Errorf("longer than %d bytes", maxRecord)

// next returns the next line with its line break, valid until the next call, or
// io.EOF, or errTooLong.
func (l *lines) next() ([]byte, error) {
	line, err := l.r.ReadSlice('\n')
	l.offset += int64(len(line))
	tooLong := false
	l.quotes = 0
	for errors.Is(err, bufio.ErrBufferFull) {
		tooLong = true
		l.quotes += bytes.Count(line, quote)
		line, err = l.r.ReadSlice('\n')
		l.offset += int64(len(line))
	}
	switch {
	case errors.Is(err, io.EOF) && len(line) == 0 && !tooLong:
		return nil, io.EOF
	case err != nil && !errors.Is(err, io.EOF):
		return nil, fmt.Errorf("reading the file: %w", err)
	}
	l.number++
	if tooLong {
		l.quotes += bytes.Count(line, quote)
		return nil, errTooLong
	}
	return line, nil
}

var quote = []byte{'"'}

// csvRecords reads CSV (RFC 4180) whose first record names the columns. It may have semicolons or tabs in place
// of commas, as spreadsheets write it.
type csvRecords struct {
	lines  *lines
	parser *csv.Reader // of what Read returns
	header []string
	width  int             // columns in the file: those at the end may have no name
	lists  map[string]bool // user fields that are lists

	// Of the current record:
	first  int    // its line
	size   int    // bytes passed to the parser
	quotes int    // among them
	rest   []byte // of the current line: bytes not yet passed to the parser
	ended  bool   // the end of the file has been read
}

func newCSV(file io.Reader, schema *userfields.Schema) (*csvRecords, error) {
	c := &csvRecords{lines: newLines(file), lists: map[string]bool{}}
	for _, f := range schema.Fields() {
		c.lists[f.Name] = f.Type.Kind().List
	}
	c.parser = csv.NewReader(c)
	c.parser.FieldsPerRecord = -1 // next checks the number
	return c, c.readHeader(schema)
}

// separators are those that spreadsheets write.
const separators = ",;\t"

// readSeparator finds the separator of the first line, which [csvRecords.Read] gets again. Excel may name it in a
// line of its own, sep=;.
func (c *csvRecords) readSeparator() error {
	line, err := c.lines.next()
	for err == nil && len(bytes.TrimSpace(line)) == 0 {
		line, err = c.lines.next()
	}
	if err != nil {
		return err
	}
	if at := bytes.IndexByte(line, '\r'); at >= 0 && at+1 < len(line) && line[at+1] != '\n' {
		return errors.New("the lines of the file end in CR alone: save it as CSV UTF-8")
	}
	if named, ok := bytes.CutPrefix(bytes.TrimRight(line, "\r\n"), []byte("sep=")); ok && len(named) == 1 && strings.Contains(separators, string(named)) {
		c.parser.Comma = rune(named[0])
		return nil
	}
	quoted, count := false, map[byte]int{}
	for _, b := range line {
		quoted = quoted != (b == '"')
		if !quoted {
			count[b]++
		}
	}
	for _, separator := range separators {
		if count[byte(separator)] > count[byte(c.parser.Comma)] {
			c.parser.Comma = separator
		}
	}
	c.first, c.rest = c.lines.number, append(bytes.TrimRight(bytes.Clone(line), "\n"), '\n')
	return nil
}

func (c *csvRecords) readHeader(schema *userfields.Schema) error {
	var header []string
	var invalid string
	err := c.readSeparator()
	if err == nil {
		header, invalid, err = c.parse()
	}
	if errors.Is(err, io.EOF) {
		return errors.New("the file is empty; its first line must name the columns")
	}
	if err != nil {
		return err
	}
	if invalid == "" && slices.ContainsFunc(header, func(name string) bool { return !utf8.ValidString(name) }) {
		invalid = "not UTF-8"
	}
	if invalid != "" {
		return fmt.Errorf("the first line, which must name the columns, in UTF-8: %s", invalid)
	}
	for i, name := range header {
		header[i] = strings.TrimSpace(name)
	}
	c.width = len(header)
	for len(header) > 0 && header[len(header)-1] == "" { // a spreadsheet writes columns without a name
		header = header[:len(header)-1]
	}
	seen, fields := map[string]bool{}, fieldNames(schema)
	for _, name := range header {
		switch {
		case seen[name]:
			return fmt.Errorf("column %q is repeated", name)
		case name == columnFactor && !fields[name]:
			return errors.New("column two_factor: CSV cannot hold second factors: import NDJSON, as export writes it")
		case name == columnPasskeys && !fields[name]:
			return errors.New("column passkeys: CSV cannot hold passkeys: import NDJSON, as export writes it")
		case name == columnIdentity && !fields[name]:
			return errors.New("column identities: CSV cannot hold identities: import NDJSON, as export writes it")
		case !isColumn(name) && !fields[name]:
			return fmt.Errorf("unknown column %.40q: the columns are %s, and the user fields given with --fields", name, columnNames)
		case isColumn(name) && fields[name]:
			return fmt.Errorf("column %q: a user field has this name, too: "+inFields, name)
		}
		seen[name] = true
	}
	for _, name := range []string{columnLogin, columnHash} {
		if !seen[name] {
			return fmt.Errorf("the column %q is missing", name)
		}
	}
	c.header = header
	return nil
}

func (*csvRecords) close() error { return nil }

func (c *csvRecords) next() (record, error) {
	values, invalid, err := c.parse()
	for err == nil && invalid == "" && !slices.ContainsFunc(values, func(v string) bool { return v != "" }) {
		values, invalid, err = c.parse() // spreadsheets write rows without a value
	}
	if err != nil {
		return record{}, err
	}
	r := record{line: c.first, end: c.lines.offset, invalid: invalid, columns: map[string]personal.Input{}}
	if invalid == "" && len(values) != c.width {
		r.invalid = fmt.Sprintf("%d columns, the first line has %d", len(values), c.width)
	}
	if r.invalid != "" {
		return r, nil
	}
	for i, name := range c.header {
		if values[i] == `\N` || values[i] == "NULL" && name != columnName { // as databases export it
			values[i] = ""
		}
		value := personal.Text(values[i])
		if c.lists[name] && values[i] != "" {
			value = parseList(values[i])
		}
		r.set(r.columns, name, value, dump.Judge([]byte(values[i])).Bad)
	}
	return r, nil
}

// parseList parses a list, which is written as JSON: ["a","b"]. Other text is invalid:
// it is more likely a mistake than a list of one item.
func parseList(text string) personal.Input {
	var list personal.Input
	if dump.TooDeep([]byte(text)) || json.Unmarshal([]byte(text), &list) != nil || list.Kind != personal.InputList {
		return personal.Input{Kind: personal.InputOther}
	}
	return list
}

// parse returns the values of the next record, or why it is invalid. An error means
// that no further record can be read.
func (c *csvRecords) parse() (values []string, invalid string, err error) {
	c.size, c.quotes = 0, 0
	values, err = c.parser.Read()
	var malformed *csv.ParseError
	switch tooLong := errors.Is(err, errTooLong); {
	case err == nil || errors.Is(err, io.EOF):
		return values, "", err
	case !tooLong && !errors.As(err, &malformed):
		return nil, "", fmt.Errorf("line %d: %w", c.lines.number, err)
	case c.ended:
		return nil, "", fmt.Errorf("line %d: a quote is opened and not closed before the end of the file", c.first)
	case tooLong && c.lines.number > c.first:
		return nil, fmt.Sprintf("%v, in lines %d to %d", err, c.first, c.lines.number), nil
	case tooLong:
		return nil, err.Error(), nil
	case c.lines.number > c.first: // a quote opened by mistake swallows the rows up to the next quote
		return nil, fmt.Sprintf("misplaced quotes, which joined lines %d to %d into one row", c.first, c.lines.number), nil
	}
	return nil, "misplaced quotes", nil
}

// skip skips the rest of a record that is too long. It ends where its quotes do: what follows within a
// value would be rows that a user has chosen.
func (c *csvRecords) skip() error {
	for c.quotes%2 == 1 {
		line, err := c.lines.next()
		if c.ended = errors.Is(err, io.EOF); c.ended {
			break
		}
		if err != nil && !errors.Is(err, errTooLong) {
			return err
		}
		c.quotes += c.lines.quotes + bytes.Count(line, quote)
	}
	return errTooLong
}

// Read passes one line at a time to the parser, so that the parser never reads beyond
// the current record. This gives the position of every record and bounds its length.
func (c *csvRecords) Read(p []byte) (n int, err error) {
	for len(c.rest) == 0 {
		line, err := c.lines.next()
		if c.size == 0 {
			c.first = c.lines.number
		}
		c.ended = errors.Is(err, io.EOF)
		c.quotes += c.lines.quotes + bytes.Count(line, quote)
		switch {
		case errors.Is(err, errTooLong), c.size+len(line) > maxRecord:
			return 0, c.skip()
		case err != nil:
			return 0, err
		case c.size == 0 && len(bytes.TrimRight(line, "\r\n")) == 0: // an empty line before a record
			continue
		}
		c.size += len(line)
		if c.rest = line; line[len(line)-1] != '\n' { // the last line: only an open quote reads beyond it
			c.rest = append(bytes.Clone(line), '\n')
		}
	}
	n = copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}
