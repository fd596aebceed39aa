// Package dump reads the tables of SQL dumps and the users of Keycloak's exports, without a
// database server. It recognises what mysqldump, mariadb-dump, phpMyAdmin and pg_dump write, and
// nothing of a dump is ever executed: rows are values, everything else is skipped.
//
// The memory is bounded whatever the file contains: rows are handed over one by one, and a row
// that is wanted has a maximum length.
package dump

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
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

// space skips white space and comments, and reads what these say.
func (p *parser) space() error {
	for p.more() {
		switch c := p.peek(); {
		case c == ' ' || '\t' <= c && c <= '\r':
			p.take()
		case c == '#' && !p.postgres:
			p.skipTo('\n', nil)
		case p.follows('-', '-'):
			p.pos += 2
			p.lineComment()
		case p.follows('/', '*'):
			line := p.line
			p.pos += 2
			if err := p.blockComment(line); err != nil {
				return err
			}
		default:
			return nil
		}
	}
	return nil
}

// lineComment reads the rest of a comment.
func (p *parser) lineComment() {
	head, _ := p.skipTo('\n', make([]byte, 0, 64))
	switch text := strings.TrimSpace(string(head)); {
	case strings.HasPrefix(text, "PostgreSQL database") && strings.HasSuffix(text, "dump complete"), strings.HasPrefix(text, "Dump completed"):
		p.completed = true
	case strings.HasPrefix(text, "PostgreSQL database") && strings.HasSuffix(text, "dump"):
		p.postgres, p.begun, p.completed = true, true, false
	case strings.HasPrefix(text, "MySQL dump"), strings.HasPrefix(text, "MariaDB dump"):
		p.begun, p.completed = true, false
	}
}

// blockComment reads the rest of a comment. MySQL executes one that begins with !, where
// mysqldump names the character set.
func (p *parser) blockComment(line int) error {
	if !p.postgres && (p.accept('!') || p.accept('M') && p.accept('!')) {
		for p.more() && (p.peek() == ' ' || isDigit(p.peek())) {
			p.take()
		}
		if p.word() == "SET" && p.accept(' ') && p.word() == "NAMES" && p.accept(' ') {
			if err := p.charset(line, p.word()); err != nil {
				return err
			}
		}
	}
	for {
		if _, ok := p.skipTo('*', nil); !ok {
			return p.fail(line, "a comment begins here and has no end")
		}
		for p.accept('*') {
		}
		if p.accept('/') {
			return nil
		}
	}
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

// skipStatement skips the rest of a statement.
func (p *parser) skipStatement(line int) error {
	previous := ""
	for depth := 0; ; {
		if err := p.space(); err != nil {
			return err
		}
		if !p.more() {
			return p.fail(line, "a statement begins here and has no end")
		}
		switch c := p.peek(); {
		case isWord(c):
			word := p.word()
			if p.postgres && previous == "BEGIN" && word == "ATOMIC" { // a function whose body is not quoted
				if err := p.skipBody(line); err != nil {
					return err
				}
			}
			previous = word
		case c == '\'' || c == '"' || c == '`' || c == '$':
			if err := p.skipQuoted(previous); err != nil {
				return err
			}
			previous = ""
		default:
			p.take()
			switch c {
			case '(':
				depth++
			case ')':
				depth--
			case ';':
				if depth <= 0 {
					return nil
				}
			}
			previous = ""
		}
	}
}

// skipBody skips the body of a function up to its line END; which pg_dump does not indent.
func (p *parser) skipBody(line int) error {
	for p.more() {
		p.skipTo('\n', nil)
		if p.word() == "END" && p.peek() == ';' {
			return nil
		}
	}
	return p.fail(line, "a function begins here and has no end")
}

// skipQuoted skips a string or a quoted name. prefix is the word before it.
func (p *parser) skipQuoted(prefix string) error {
	line, quote := p.line, p.take()
	if quote == '$' {
		return p.skipDollar(line)
	}
	return p.quoted(line, quote, p.escapes(quote, prefix), false)
}

// escapes reports whether a backslash escapes in a string.
func (p *parser) escapes(quote byte, prefix string) bool {
	if p.postgres {
		return quote == '\'' && prefix == "E"
	}
	return quote != '`'
}

// skipDollar skips a text between $TAG$ and $TAG$ of PostgreSQL, of which the first $ is taken.
func (p *parser) skipDollar(line int) error {
	tag := p.text()
	if !p.postgres || !p.accept('$') { // a parameter, or part of a name
		return nil
	}
	for {
		if _, ok := p.skipTo('$', nil); !ok {
			return p.fail(line, "a text in $ begins here and has no end")
		}
		if p.text() == tag && p.accept('$') {
			return nil
		}
	}
}

// quoted reads the rest of a string or a quoted name. If keep is set, it appends the content to
// row.
func (p *parser) quoted(line int, quote byte, escapes, keep bool) error {
	for p.more() {
		chunk := p.buf[p.pos:p.end]
		n := 0
		for n < len(chunk) && chunk[n] != quote && chunk[n] != '\n' && (chunk[n] != '\\' || !escapes) {
			n++
		}
		if keep {
			if len(p.row)+n >= MaxRow {
				return p.fail(line, "a value, or a row, is longer than %d bytes", MaxRow)
			}
			p.row = append(p.row, chunk[:n]...)
		}
		p.pos += n
		if n == len(chunk) {
			continue
		}
		c := p.take()
		switch {
		case c == quote && !p.accept(quote):
			return nil
		case c == '\\' && escapes:
			c = p.unescape()
		}
		if keep {
			p.row = append(p.row, c)
		}
	}
	return p.fail(line, "a quote is opened here and not closed")
}

// unescape takes what follows a backslash and returns the byte that it stands for: a letter, of
// PostgreSQL also \123 and \x41.
func (p *parser) unescape() byte {
	if !p.more() {
		return 0
	}
	c := p.take()
	if p.postgres && '0' <= c && c <= '7' {
		return p.digits(c-'0', 8, 2)
	}
	if p.postgres && c == 'x' && unhex(p.peek()) < 16 {
		return p.digits(0, 16, 2)
	}
	letters, controls := "0bnrtZ", "\x00\b\n\r\t\x1a"
	if p.postgres {
		letters, controls = "bfnrtv", "\b\f\n\r\t\v"
	}
	if i := strings.IndexByte(letters, c); i >= 0 {
		return controls[i]
	}
	return c
}

// digits takes up to n more digits of a number.
func (p *parser) digits(number, base byte, n int) byte {
	for ; n > 0 && p.more() && unhex(p.peek()) < base; n-- {
		number = number*base + unhex(p.take())
	}
	return number
}

// unhex returns the value of a hexadecimal digit; 16 if c is none.
func unhex(c byte) byte {
	switch {
	case isDigit(c):
		return c - '0'
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10
	}
	return 16
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isWord reports whether c can be in a word that is not quoted.
func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || isDigit(c) || c == '_' || c >= 0x80
}

// text takes a word as it is written; "" if there is none. Of a word that is too long it returns
// the begin.
func (p *parser) text() string {
	var text [maxName]byte
	n := 0
	for p.more() && isWord(p.peek()) {
		c := p.take()
		if n < len(text) {
			text[n] = c
			n++
		}
	}
	return string(text[:n])
}

// word takes a word in upper case.
func (p *parser) word() string { return strings.ToUpper(p.text()) }

// nextWord takes the word after white space.
func (p *parser) nextWord() (string, error) {
	err := p.space()
	return p.word(), err
}

// name takes a name after white space, quoted or not. It returns its last part: of public.users
// that is users. bare means that it was not quoted.
func (p *parser) name() (name string, bare bool, err error) {
	for {
		if err := p.space(); err != nil {
			return "", false, err
		}
		line, c := p.line, p.peek()
		bare = c != '"' && c != '`'
		if bare {
			name = p.text()
		} else {
			p.take()
			p.row = p.row[:0]
			if err := p.quoted(line, c, false, true); err != nil {
				return "", false, err
			}
			name = string(p.row)
		}
		if name == "" || len(name) >= maxName || !utf8.ValidString(name) {
			return "", false, p.fail(line, "the name of a table or a column is expected here")
		}
		if !p.accept('.') {
			return name, bare, nil
		}
	}
}

// expect takes c after white space.
func (p *parser) expect(c byte) error {
	if err := p.space(); err != nil {
		return err
	}
	if !p.accept(c) {
		return p.fail(p.line, "a %q is expected here", c)
	}
	return nil
}

// names takes a list of names after its parenthesis.
func (p *parser) names() (names []string, err error) {
	for {
		name, _, err := p.name()
		if err != nil {
			return nil, err
		}
		if names = append(names, name); len(names) > maxColumns {
			return nil, p.fail(p.line, "a table with more than %d columns", maxColumns)
		}
		if err := p.space(); err != nil {
			return nil, err
		}
		if p.accept(')') {
			return names, nil
		}
		if err := p.expect(','); err != nil {
			return nil, err
		}
	}
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

// target reads the name of the table of an INSERT or a COPY, and the columns if it names them. It
// returns the table with the positions of the wanted columns; nil if none is.
func (p *parser) target(line int) (t *found, places []int, err error) {
	name, _, err := p.name()
	if err == nil {
		err = p.space()
	}
	if err != nil {
		return nil, nil, err
	}
	var columns []string
	if p.accept('(') {
		if columns, err = p.names(); err != nil {
			return nil, nil, err
		}
	}
	t = p.tables[name]
	if t == nil && columns != nil { // there may have been no CREATE TABLE
		if t, err = p.find(line, name, columns); err != nil {
			return nil, nil, err
		}
	}
	if t == nil {
		return nil, nil, nil
	}
	if columns == nil {
		columns = t.columns
	}
	if columns == nil {
		return nil, nil, p.fail(line, "rows of %s whose columns are not named: make the dump with the tables' definitions", shown(name))
	}
	places = make([]int, len(columns))
	for i := range places {
		places[i] = slices.Index(t.Columns, columns[i])
	}
	for i, column := range t.Columns {
		if !slices.Contains(places, i) {
			return nil, nil, p.fail(line, "rows of %s without the column %s, which earlier rows or the table's definition have", shown(name), column)
		}
	}
	return t, places, nil
}

// shown quotes a name of the dump if it could forge a line.
func shown(name string) string {
	if quoted := fmt.Sprintf("%.64q", name); quoted != `"`+name+`"` {
		return quoted
	}
	return name
}

// insert reads the rest of an INSERT.
func (p *parser) insert(line int) error {
	for word := ""; word != "INTO"; {
		var err error
		if word, err = p.nextWord(); err != nil {
			return err
		}
		if word == "" {
			return p.fail(p.line, "INTO is expected here")
		}
	}
	t, places, err := p.target(line)
	if err != nil {
		return err
	}
	for word := ""; word != "VALUES"; {
		if word, err = p.nextWord(); err != nil {
			return err
		}
		if word != "VALUES" && word != "OVERRIDING" && word != "SYSTEM" && word != "USER" && word != "VALUE" {
			if t == nil { // INSERT … SELECT, for example
				return p.skipStatement(line)
			}
			return p.fail(p.line, "VALUES is expected here")
		}
	}
	for {
		if err := p.expect('('); err != nil {
			return err
		}
		if err := p.insertedRow(t, places); err != nil {
			return err
		}
		if err := p.space(); err != nil {
			return err
		}
		switch {
		case p.accept(','):
		case p.accept(';'):
			return nil
		case p.peek() == 'O' || p.peek() == 'A': // ON CONFLICT, AS new ON DUPLICATE KEY
			return p.skipStatement(line)
		default:
			return p.fail(p.line, "a %q or a %q is expected here", ',', ';')
		}
	}
}

// insertedRow reads the values of a row after its parenthesis.
func (p *parser) insertedRow(t *found, places []int) error {
	line := p.line
	p.begin(t)
	for i := 0; ; i++ {
		place := -1
		if t != nil {
			if i == len(places) {
				return p.fail(line, "a row of %s has more values than columns", shown(t.name))
			}
			place = places[i]
		}
		if err := p.value(place); err != nil {
			return err
		}
		if err := p.space(); err != nil {
			return err
		}
		if p.accept(')') {
			if t != nil && i+1 != len(places) {
				return p.fail(line, "a row of %s has fewer values than columns", shown(t.name))
			}
			return p.finish(t, line)
		}
		if !p.accept(',') {
			return p.fail(p.line, "a %q or a %q is expected here: a quote before it is missing, or one too many", ',', ')')
		}
	}
}

// begin begins a row.
func (p *parser) begin(t *found) {
	if t == nil {
		return
	}
	p.row = p.row[:0]
	if cap(p.ends) < 2*len(t.Columns) {
		p.ends, p.values = make([]int, 2*len(t.Columns)), make([][]byte, len(t.Columns))
	}
	p.ends, p.values = p.ends[:2*len(t.Columns)], p.values[:len(t.Columns)]
}

// finish hands a row over.
func (p *parser) finish(t *found, line int) error {
	if t == nil {
		return nil
	}
	for i := range p.values {
		from, to := p.ends[2*i], p.ends[2*i+1]
		if p.values[i] = nil; to < 0 {
			continue
		}
		p.values[i] = p.row[from:to:to]
		if bytes.IndexByte(p.values[i], 0) >= 0 {
			return p.fail(line, "a NUL in the column %s of %s, which no account can have", t.Columns[i], shown(t.name))
		}
		if !utf8.Valid(p.values[i]) {
			return p.fail(line, "the column %s of %s is not UTF-8: make the dump with --default-character-set=utf8mb4, or pg_dump --encoding=UTF8",
				t.Columns[i], shown(t.name))
		}
	}
	return t.Row(line, p.values)
}

// value reads a value after white space, and keeps it if it has a place among the wanted ones.
func (p *parser) value(place int) error {
	if err := p.space(); err != nil {
		return err
	}
	line, from, keep := p.line, len(p.row), place >= 0
	null := false
	switch c := p.peek(); {
	case c == '\'' || c == '"' && !p.postgres:
		p.take()
		if err := p.quoted(line, c, p.escapes(c, ""), keep); err != nil {
			return err
		}
	case isDigit(c) || c == '-' || c == '+' || c == '.':
		if err := p.number(line, keep); err != nil {
			return err
		}
	case isWord(c):
		text := p.text()
		word := strings.ToUpper(text)
		if err := p.space(); err != nil {
			return err
		}
		switch null = word == "NULL"; {
		case p.peek() == '\'' && (word == "E" || word == "X" || word == "B" || word == "N" || word[0] == '_' && !p.postgres):
			if err := p.prefixed(line, word, keep); err != nil {
				return err
			}
		case p.peek() == '(' && !keep:
			if err := p.skipCall(line); err != nil {
				return err
			}
		case keep:
			p.row = append(p.row, text...)
		}
	default:
		return p.fail(line, "a value is expected here")
	}
	if !keep {
		return nil
	}
	if len(p.row) >= MaxRow {
		return p.fail(line, "a value, or a row, is longer than %d bytes", MaxRow)
	}
	p.ends[2*place], p.ends[2*place+1] = from, len(p.row)
	if null {
		p.row, p.ends[2*place+1] = p.row[:from], -1
	}
	return nil
}

// prefixed reads a string with a prefix.
func (p *parser) prefixed(line int, prefix string, keep bool) error {
	from := len(p.row)
	p.take()
	if err := p.quoted(line, '\'', p.escapes('\'', prefix), keep); err != nil || !keep || prefix != "X" {
		return err
	}
	digits := string(p.row[from:])
	p.row = p.row[:from]
	return p.appendHex(line, digits)
}

func (p *parser) appendHex(line int, digits string) error {
	value, err := hex.DecodeString(digits)
	if err != nil {
		return p.fail(line, "hexadecimal digits are expected here")
	}
	p.row = append(p.row, value...)
	return nil
}

// number takes a number. That of MySQL may be a text in hexadecimal digits.
func (p *parser) number(line int, keep bool) error {
	from := len(p.row)
	for p.more() && len(p.row) < MaxRow {
		c := p.peek()
		if !isWord(c) && c != '.' && c != '-' && c != '+' {
			break
		}
		if p.take(); keep {
			p.row = append(p.row, c)
		}
	}
	if digits, ok := cutFold(string(p.row[from:]), "0x"); ok && !p.postgres {
		p.row = p.row[:from]
		return p.appendHex(line, digits)
	}
	return nil
}

// skipCall skips the arguments of a function.
func (p *parser) skipCall(line int) error {
	p.take()
	for more := true; more; {
		var err error
		if more, err = p.skipDefinition(line); err != nil {
			return err
		}
	}
	return nil
}

// copy reads the rest of a COPY … FROM stdin and its lines.
func (p *parser) copy(line int) error {
	t, places, err := p.target(line)
	if err != nil {
		return err
	}
	from, err := p.nextWord()
	if err != nil {
		return err
	}
	what, err := p.nextWord()
	if err != nil {
		return err
	}
	if from != "FROM" || what != "STDIN" || !p.accept(';') {
		return p.fail(line, "a COPY that pg_dump does not write")
	}
	p.skipTo('\n', nil)
	for p.more() {
		escaped := p.accept('\\')
		switch {
		case escaped && p.accept('.'):
			p.skipTo('\n', nil)
			return nil
		case t == nil:
			p.skipTo('\n', nil)
			continue
		}
		if err := p.copiedRow(t, places, escaped); err != nil {
			return err
		}
	}
	return p.fail(line, `the rows that begin here are cut off: their last line, "\.", is missing`)
}

// copiedRow reads a line of COPY's text format. escaped means that its first backslash was taken.
func (p *parser) copiedRow(t *found, places []int, escaped bool) error {
	line := p.line
	p.begin(t)
	for i, last := 0, false; !last; i++ {
		if i == len(places) {
			return p.fail(line, "a row of %s has more values than columns", shown(t.name))
		}
		from, null := len(p.row), false
		for {
			if !p.more() {
				return p.fail(line, "the row of %s that begins here is cut off", shown(t.name))
			}
			var c byte
			if escaped || p.accept('\\') {
				escaped = false
				if null = p.peek() == 'N' && len(p.row) == from; null {
					p.take()
					continue
				}
				c = p.unescape()
			} else {
				c = p.take()
				last = c == '\n' || c == '\r' && p.accept('\n')
				if last || c == '\t' {
					break
				}
			}
			if places[i] < 0 {
				continue
			}
			if p.row = append(p.row, c); len(p.row) >= MaxRow {
				return p.fail(line, "a value, or a row, is longer than %d bytes", MaxRow)
			}
		}
		if place := places[i]; place >= 0 {
			p.ends[2*place], p.ends[2*place+1] = from, len(p.row)
			if null {
				p.ends[2*place+1] = -1
			}
		}
		if last && i+1 != len(places) {
			return p.fail(line, "a row of %s has fewer values than columns", shown(t.name))
		}
	}
	return p.finish(t, line)
}
