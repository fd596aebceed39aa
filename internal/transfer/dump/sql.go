// Package dump reads the tables of SQL dumps and the users of Keycloak's exports, without a
// database server. It recognises what mysqldump, mariadb-dump, phpMyAdmin and pg_dump write, and
// nothing of a dump is ever executed: rows are values, everything else is skipped.
//
// The memory is bounded whatever the file contains: rows are handed over one by one, and a row
// that is wanted has a maximum length.
package dump

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
)

// MaxRow is the maximum length in bytes of what is wanted of a row.
const MaxRow = 1 << 20

const (
	maxName    = 256  // bytes; both systems allow less
	maxColumns = 4096 // of a table, as in MySQL
)

// Table is a table of which rows are wanted.
type Table struct {
	Columns []string // that are wanted; all exist in the table
	// Row takes the values of these columns; nil is NULL. The values are valid UTF-8 without NUL,
	// and valid until it returns. line is that of the row's begin.
	Row func(line int, values [][]byte) error
}

// Open returns what is wanted of a table of the dump; nil: nothing. The name has no schema. Open
// is called before the rows of a table, and not again once it has wanted something.
type Open func(name string, columns []string) (*Table, error)

// ReadSQL reads a dump in SQL. Its errors are those of open, of [Table.Row], and *[Error].
func ReadSQL(r io.Reader, open Open) error {
	p := parser{source: newSource(r), open: open, tables: map[string]*found{}}
	if err := p.start(); err != nil {
		return err
	}
	for {
		if err := p.space(); err != nil {
			return err
		}
		if !p.more() {
			break
		}
		if err := p.statement(); err != nil {
			return err
		}
	}
	if err := p.failed(); err != nil {
		return err
	}
	if p.begun && !p.completed {
		return p.fail(p.line, `the dump is cut off: its last line, "… dump complete" or "Dump completed", is missing`)
	}
	return nil
}

// parser reads the statements of a dump.
type parser struct {
	*source
	open             Open
	tables           map[string]*found // those of which rows are wanted, by name
	postgres         bool              // written by pg_dump
	begun, completed bool              // the first and the last comment that the tools write

	row    []byte   // the wanted values of a row, unescaped
	ends   []int    // of the values in row; -1: NULL
	values [][]byte // of row, by the order in Table.Columns
}

// found is a table of which rows are wanted.
type found struct {
	*Table
	name    string
	line    int      // where it was found
	columns []string // of rows that name none; nil: there was no CREATE TABLE
}

// start looks at the first bytes, to explain what else a file may be.
func (p *parser) start() error {
	p.more()
	head := p.buf[p.pos:p.end]
	switch {
	case bytes.HasPrefix(head, []byte("\xef\xbb\xbf")):
		p.pos += 3
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")):
		return p.fail(1, "the file is UTF-16, as PowerShell's > writes it: let the tool write the file itself (--result-file, -f)")
	case bytes.HasPrefix(head, []byte("PGDMP")):
		return p.fail(1, "a dump in PostgreSQL's custom format: make a plain one with pg_dump, or convert it with pg_restore -f FILE")
	}
	return nil
}

// statement reads one statement.
func (p *parser) statement() error {
	line, c := p.line, p.peek()
	switch {
	case c == ';':
		p.take()
		return nil
	case c == '\\' && p.postgres: // a command of psql
		p.skipTo('\n', nil)
		return nil
	}
	switch word := p.word(); {
	case word == "":
		return p.fail(line, "this is not SQL")
	case word == "CREATE":
		return p.create(line)
	case word == "INSERT" || word == "REPLACE":
		return p.insert(line)
	case word == "COPY" && p.postgres:
		return p.copy(line)
	case word == "SET":
		return p.set(line)
	case word == "DELIMITER" && !p.postgres:
		return p.delimited(line)
	}
	return p.skipStatement(line)
}

// charset checks the character set of a dump.
func (p *parser) charset(line int, name string) error {
	switch strings.ToUpper(name) {
	case "UTF8", "UTF8MB3", "UTF8MB4", "BINARY":
		return nil
	}
	return p.fail(line, "the dump is not in UTF-8: make it with --default-character-set=utf8mb4, or pg_dump --encoding=UTF8")
}

// set reads the rest of a statement that sets a variable.
func (p *parser) set(line int) error {
	name, err := p.nextWord()
	if err != nil {
		return err
	}
	if name == "NAMES" || name == "CLIENT_ENCODING" || name == "STANDARD_CONFORMING_STRINGS" {
		if err := p.space(); err != nil {
			return err
		}
		p.accept('=')
		if err := p.space(); err != nil {
			return err
		}
		p.accept('\'')
		value := p.word()
		p.accept('\'')
		if name == "STANDARD_CONFORMING_STRINGS" && value != "ON" {
			return p.fail(line, "the dump has standard_conforming_strings off: make it with pg_dump of PostgreSQL 9.1 or later")
		}
		if name != "STANDARD_CONFORMING_STRINGS" {
			if err := p.charset(line, value); err != nil {
				return err
			}
		}
	}
	return p.skipStatement(line)
}

// delimited skips the statements of triggers and routines, between DELIMITER ;; and DELIMITER ;
func (p *parser) delimited(line int) error {
	head, ok := p.skipTo('\n', make([]byte, 0, 32))
	for delimiter := strings.TrimSpace(string(head)); delimiter != ";"; {
		if !ok {
			return p.fail(line, "a DELIMITER that is not set back")
		}
		head, ok = p.skipTo('\n', head)
		if rest, set := cutFold(string(head), "DELIMITER "); set {
			delimiter = strings.TrimSpace(rest)
		}
	}
	return nil
}

func cutFold(text, prefix string) (rest string, ok bool) {
	if len(text) < len(prefix) || !strings.EqualFold(text[:len(prefix)], prefix) {
		return text, false
	}
	return text[len(prefix):], true
}

// constraints begin what is no column in the parentheses of CREATE TABLE.
var constraints = []string{
	"PRIMARY", "KEY", "UNIQUE", "CONSTRAINT", "FULLTEXT", "SPATIAL", "INDEX", "FOREIGN", "CHECK", "EXCLUDE", "LIKE", "PERIOD",
}

// create reads the rest of CREATE TABLE, and skips what creates something else.
func (p *parser) create(line int) error {
	word, err := p.nextWord()
	if word == "TEMPORARY" || word == "UNLOGGED" {
		word, err = p.nextWord()
	}
	if err != nil {
		return err
	}
	if word != "TABLE" {
		return p.skipStatement(line)
	}
	name, bare, err := p.name()
	if err == nil && bare && strings.EqualFold(name, "IF") { // NOT EXISTS
		if _, err = p.nextWord(); err == nil {
			_, err = p.nextWord()
		}
		if err == nil {
			name, _, err = p.name()
		}
	}
	if err == nil {
		err = p.space()
	}
	if err != nil {
		return err
	}
	if !p.accept('(') { // the columns of another table, or of a query
		return p.skipStatement(line)
	}
	var columns []string
	for more := true; more; {
		column, bare, err := p.name()
		if err != nil {
			return err
		}
		if !bare || !slices.Contains(constraints, strings.ToUpper(column)) {
			if columns = append(columns, column); len(columns) > maxColumns {
				return p.fail(line, "a table with more than %d columns", maxColumns)
			}
		}
		if more, err = p.skipDefinition(line); err != nil {
			return err
		}
	}
	if t := p.tables[name]; t != nil {
		return p.fail(line, "the table %s is in line %d already: make a dump of one database", shown(name), t.line)
	}
	t, err := p.find(line, name, columns)
	if err != nil {
		return err
	}
	if t != nil {
		t.columns = columns
	}
	return p.skipStatement(line)
}

// skipDefinition skips the rest of a column's definition. It returns false if it was the last.
func (p *parser) skipDefinition(line int) (more bool, err error) {
	for depth := 0; ; {
		if err := p.space(); err != nil {
			return false, err
		}
		if !p.more() {
			return false, p.fail(line, "a statement begins here and has no end")
		}
		switch c := p.peek(); {
		case isWord(c):
			p.word()
		case c == '\'' || c == '"' || c == '`':
			if err := p.skipQuoted(""); err != nil {
				return false, err
			}
			if isWord(p.peek()) { // else a missing quote could swallow rows
				return false, p.fail(p.line, "a quote before here is missing, or one too many")
			}
		case c == ';':
			return false, p.fail(p.line, "a %q is expected here", ')')
		default:
			p.take()
			switch {
			case c == '(':
				depth++
			case c == ')' && depth == 0:
				return false, nil
			case c == ')':
				depth--
			case c == ',' && depth == 0:
				return true, nil
			}
		}
	}
}

// find asks what is wanted of a table. It returns nil for nothing.
func (p *parser) find(line int, name string, columns []string) (*found, error) {
	table, err := p.open(name, columns)
	if err != nil || table == nil {
		return nil, err
	}
	t := &found{Table: table, name: name, line: line}
	p.tables[name] = t
	return t, nil
}

// shown quotes a name of the dump if it could forge a line.
func shown(name string) string {
	if quoted := fmt.Sprintf("%.64q", name); quoted != `"`+name+`"` {
		return quoted
	}
	return name
}
