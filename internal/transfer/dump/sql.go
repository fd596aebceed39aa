// Package dump reads the tables of SQL dumps and the users of Keycloak's exports, without a
// database server. It knows many tools that write dumps (tools.go), and says what other files are
// (formats.go). Nothing of a dump is ever executed: rows are values, everything else is skipped.
//
// The memory is bounded whatever the file contains: rows are handed over one by one, and a row
// that is wanted has a maximum length.
package dump

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// MaxRow is the maximum length in bytes of what is wanted of a row, and so of a value.
const MaxRow = 1 << 20

const (
	maxName    = 256  // bytes; both systems allow less
	maxColumns = 4096 // of a table, as in MySQL

	maxDefinitions = 4 << 20 // bytes that are kept of the definitions of tables
)

// Table is a table of which rows are wanted.
type Table struct {
	Columns []string // that are wanted; all exist in the table
	// Row takes the values of these columns, which are valid until it returns. line is that of the
	// row's begin.
	Row func(line int, values []Value) error
}

// Value is a value of a row. One that no account can have is bad; it never ends the dump, and says
// nothing about the other values of its row.
type Value struct {
	Text []byte // UTF-8 without NUL; nil: NULL, or bad
	Bad  string // why it is bad, such as "not UTF-8"; "": it is good
}

// Open returns what is wanted of a table of the dump; nil: nothing. The name has no schema. Open
// is called before the rows of a table, and not again once it has wanted something.
type Open func(name string, columns []string) (*Table, error)

// ReadSQL reads a dump in SQL and reports whether its end was marked: a dump that its tool marks at the
// end, and that has no such mark, is an error. Its errors are those of open, of [Table.Row], and *[Error].
func ReadSQL(r io.Reader, open Open) (marked bool, err error) {
	p := parser{source: newSource(r), open: open, tables: map[string]*found{}}
	if reason := noSQL(string(p.head(512))); reason != "" {
		return false, p.fail(1, "%s", reason)
	}
	for {
		p.between = true
		err := p.space()
		if p.between = false; err != nil {
			return false, err
		}
		if !p.more() {
			break
		}
		if err := p.statement(); err != nil {
			return false, err
		}
	}
	if err := p.failed(); err != nil {
		return false, err
	}
	return p.whole()
}

// parser reads the statements of a dump.
type parser struct {
	*source
	open             Open
	tables           map[string]*found // those of which rows are wanted, by name
	dialect          dialect
	tool             *tool  // whose last comment is missing; nil: none's
	saved            int    // the line that saves the character set, until that is set back
	transaction      int    // the line that begins one, until that has an end
	marked           bool   // the end was seen, and no rows since then
	server           string // one of otherSystems that a comment has named
	between          bool   // statements, in space
	database, schema string // that \connect, USE or search_path chose last; "": none
	qualifier        string // of the name that was read last; "": none
	named            bool   // SET NAMES has named a character set
	keepQuoted       bool   // skipped strings are kept in row
	definitions      int    // bytes of the names of columns that are kept

	row    []byte  // the wanted values of a row, unescaped
	long   bool    // what is read is too long to be kept
	ends   []int   // of the values in row; -1: NULL, or bad
	values []Value // of row, by the order in Table.Columns
}

// found is a table of which rows are wanted.
type found struct {
	*Table
	name    string
	of      place
	line    int      // where it was found
	columns []string // of rows that name none; nil: there was no CREATE TABLE
	rows    bool     // there were some, or they were announced
}

// place is where a table is. What a dump does not say is empty.
type place struct{ database, schema string }

// place returns that of the name that was read last.
func (p *parser) place() place { return place{p.database, cmp.Or(p.qualifier, p.schema)} }

// differs reports whether the dump says that two places are not the same.
func (a place) differs(b place) bool {
	return a.database != b.database || a.schema != b.schema && a.schema != "" && b.schema != ""
}

// dialect says how a dump is read. It is decided by what only one system writes, and never guessed:
// where the systems read a text differently, one who chose a value of a row could forge the next row.
type dialect string

const (
	mysql    dialect = "MySQL"
	postgres dialect = "PostgreSQL"
)

// decide notes what only a dump of d has.
func (p *parser) decide(line int, d dialect) error {
	if p.dialect != "" && p.dialect != d {
		return p.fail(line, "the dump is one of %s, and this one of %s: make it with mysqldump, mariadb-dump or pg_dump alone", p.dialect, d)
	}
	p.dialect = d
	return nil
}

// decided returns an error if nothing has shown the dialect.
func (p *parser) decided(line int) error {
	if p.dialect == "" {
		return p.fail(line, "MySQL and PostgreSQL read this differently, and nothing before it shows which of them wrote the dump: "+
			"make it with mysqldump or pg_dump, without --compact and --skip-comments, and import the whole file")
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
	case c == '\\': // a command of psql
		head, _ := p.skipTo('\n', make([]byte, 0, maxName))
		if name, ok := strings.CutPrefix(string(head), `\connect `); ok {
			p.database = strings.TrimSpace(name)
		}
		return p.decide(line, postgres)
	}
	switch word := p.word(); {
	case word == "" || isDigit(word[0]):
		return p.fail(line, "this is not SQL, as mysqldump and pg_dump write it; CSV is imported without --from")
	case word == "CREATE":
		return p.create(line)
	case word == "INSERT" || word == "REPLACE":
		return p.insert(line)
	case word == "COPY":
		return p.copy(line)
	case word == "SET":
		return p.set(line, false)
	case word == "DELIMITER":
		return p.delimited(line)
	case word == "USE":
		return p.use(line)
	case word == "PRAGMA":
		return p.fail(line, "a dump of SQLite: export the users as CSV with sqlite3 -header -csv FILE 'SELECT …', and import that without --from")
	case word == "START":
		if next, err := p.nextWord(); err != nil {
			return err
		} else if next == "TRANSACTION" {
			p.transaction = line
		}
	case word == "COMMIT":
		p.transaction = 0
	case p.peek() == ':':
		return p.fail(line, "a message of a tool is in the dump: correct what it says, and make the dump again")
	}
	return p.skipStatement(line)
}

// use reads the rest of a statement that chooses a database.
func (p *parser) use(line int) error {
	if err := p.space(); err != nil {
		return err
	}
	if p.peek() == '[' {
		return p.fail(line, "a script of SQL Server: export the users as CSV, and import that without --from")
	}
	name, _, err := p.name()
	if err != nil {
		return err
	}
	p.schema = name
	return p.skipStatement(line)
}

// charset checks the character set of a dump.
func (p *parser) charset(line int, name string) error {
	switch strings.ToUpper(name) {
	case "UTF8", "UTF8MB3", "UTF8MB4", "BINARY":
		return nil
	}
	return p.fail(line, "the dump is not in UTF-8: make it with --default-character-set=utf8mb4, and with --skip-triggers if a trigger has another, or pg_dump --encoding=UTF8")
}

// savedSet is the variable in which most tools save the character set at the begin of a dump.
const savedSet = "OLD_CHARACTER_SET_CLIENT"

// set reads the rest of a statement that sets variables, or of a conditional comment that does.
func (p *parser) set(line int, comment bool) error {
	space := p.space
	if comment {
		space = p.blank // comments in comments would nest without an end
	}
	previous := ""
	for begin, depth := true, 0; ; {
		if err := space(); err != nil {
			return err
		}
		if !p.more() {
			return p.fail(line, "a statement begins here and has no end")
		}
		c, prefix := p.peek(), previous
		previous = ""
		var err error
		switch {
		case begin:
			begin = false
			err = p.assign(line, space)
		case isWord(c):
			previous = p.word()
			err = p.escaping(line, []byte(previous))
		case c == '\'' || c == '"' || c == '`' || c == '$':
			p.row, p.long, p.keepQuoted = p.row[:0], false, true
			err = p.skipQuoted(prefix)
			p.keepQuoted = false
			switch {
			case err == nil && p.long:
				err = p.fail(line, "a variable is longer than %d bytes", MaxRow)
			case err == nil:
				err = p.escaping(line, p.row)
			}
		default:
			p.take()
			switch {
			case c == '(':
				depth++
			case c == ')':
				depth--
			case comment && c == '*' && p.accept('/'), !comment && c == ';' && depth <= 0:
				return nil
			}
			begin = c == ',' && depth <= 0
		}
		if err != nil {
			return err
		}
	}
}

// assign reads a variable that is set, and the value if it matters here.
func (p *parser) assign(line int, space func() error) error {
	if line := p.line; p.accept('@') && !p.accept('@') { // a variable of a user
		if p.word() == savedSet {
			p.saved = line
		}
		return nil
	}
	name := p.word()
	if name == "SESSION" || name == "LOCAL" {
		if err := space(); err != nil {
			return err
		}
		p.accept('.')
		name = p.word()
	}
	if name == "CHARACTER" { // SET CHARACTER SET
		if err := space(); err != nil {
			return err
		}
		p.word()
		name = "CHARSET"
	}
	switch name {
	case "NAMES", "CHARSET", "CHARACTER_SET_CLIENT", "CHARACTER_SET_CONNECTION", "CLIENT_ENCODING", "STANDARD_CONFORMING_STRINGS", "SEARCH_PATH":
	default:
		return nil
	}
	if err := space(); err != nil {
		return err
	}
	p.accept(':')
	p.accept('=')
	if err := space(); err != nil {
		return err
	}
	quote := byte(0)
	if c := p.peek(); name != "SEARCH_PATH" && (c == '\'' || c == '"') {
		quote = p.take()
	}
	value := p.word()
	if quote != 0 && !p.accept(quote) {
		return p.fail(line, "the value of %s is not that of a dump", strings.ToLower(name))
	}
	switch {
	case name == "SEARCH_PATH":
		p.schema = strings.ToLower(value)
	case strings.HasPrefix(name, "CHARACTER_SET_"):
		// Around definitions and triggers, so it names no set for the rows. The tools save that of the
		// rows as @saved_cs_client, and at the end of a dump set back one that is not known.
		if value == "" && p.accept('@') {
			variable := p.word()
			p.named = p.named && strings.HasPrefix(variable, "SAVED_")
			if variable == savedSet {
				p.saved, p.marked = 0, true
			}
			return nil
		}
		if value == "LATIN1" || value == "ASCII" {
			return nil
		}
		return p.charset(line, value)
	case name != "STANDARD_CONFORMING_STRINGS":
		p.named = p.named || name == "NAMES"
		return p.charset(line, value)
	case value != "ON":
		return p.fail(line, "the dump has standard_conforming_strings off: make it with pg_dump of PostgreSQL 9.1 or later")
	default:
		return p.decide(line, postgres)
	}
	return nil
}

// escaping refuses a mode of MySQL in which backslashes do not escape.
func (p *parser) escaping(line int, text []byte) error {
	if bytes.Contains(bytes.ToUpper(text), []byte("NO_BACKSLASH_ESCAPES")) {
		return p.fail(line, "the dump has the SQL mode NO_BACKSLASH_ESCAPES: make it without this mode, and with --skip-triggers if a trigger has it")
	}
	return nil
}

// delimited skips the statements of triggers and routines, between DELIMITER ;; and DELIMITER ;
func (p *parser) delimited(line int) error {
	if err := p.decide(line, mysql); err != nil {
		return err
	}
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
	of := p.place()
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
	if t := p.tables[name]; t != nil && !t.rows && !of.differs(t.of) && slices.Equal(t.columns, columns) {
		return p.skipStatement(line) // UpdraftPlus may try twice
	} else if t != nil {
		return p.fail(line, "the table %s is in line %d already: make a dump of one database", shown(name), t.line)
	}
	t, err := p.find(line, name, of, columns)
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
	previous := ""
	for depth := 0; ; {
		if err := p.space(); err != nil {
			return false, err
		}
		if !p.more() {
			return false, p.fail(line, "a statement begins here and has no end")
		}
		c, prefix := p.peek(), previous
		switch previous = ""; {
		case isWord(c):
			previous = p.word()
		case c == '\'' || c == '"' || c == '`':
			if err := p.skipQuoted(prefix); err != nil {
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
func (p *parser) find(line int, name string, of place, columns []string) (*found, error) {
	table, err := p.open(name, columns)
	if err != nil || table == nil {
		return nil, err
	}
	p.definitions += 256
	for _, column := range columns {
		p.definitions += 16 + len(column)
	}
	if p.definitions > maxDefinitions {
		return nil, p.fail(line, "the tables up to here have too many columns for a dump of one system")
	}
	t := &found{Table: table, name: name, of: of, line: line}
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
