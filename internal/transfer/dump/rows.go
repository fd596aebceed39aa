package dump

import (
	"bytes"
	"encoding/hex"
	"slices"
	"strings"
	"unicode/utf8"
)

// target reads the name of the table of an INSERT or a COPY, and the columns if it names them. It
// returns the table with the positions of the wanted columns; nil if none is.
func (p *parser) target(line int) (t *found, places []int, err error) {
	name, _, err := p.name()
	of := p.place()
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
		if t, err = p.find(line, name, of, columns); err != nil {
			return nil, nil, err
		}
	}
	if t == nil {
		return nil, nil, nil
	}
	if of.differs(t.of) {
		return nil, nil, p.fail(line, "rows of another table %s than that in line %d: make a dump of one database, and of one schema", shown(name), t.line)
	}
	if columns == nil {
		columns = t.columns
	}
	if columns == nil {
		return nil, nil, p.fail(line, "rows of %s whose columns are not named: make the dump with the tables' definitions", shown(name))
	}
	t.rows, p.marked = true, false
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
		p.ends, p.values = make([]int, 2*len(t.Columns)), make([]Value, len(t.Columns))
	}
	p.ends, p.values = p.ends[:2*len(t.Columns)], p.values[:len(t.Columns)]
}

// finish hands a row over.
func (p *parser) finish(t *found, line int) error {
	if t == nil {
		return nil
	}
	for i := range p.values {
		v := &p.values[i]
		if v.Text = nil; p.ends[2*i+1] < 0 {
			continue
		}
		text := p.row[p.ends[2*i]:p.ends[2*i+1]:p.ends[2*i+1]]
		if len(bytes.TrimRight(text, "\x00")) == 0 { // which fills a BINARY column
			text = text[:0]
		}
		*v = Judge(text)
	}
	return t.Row(line, p.values)
}

// Judge returns a value that is bad unless the text is UTF-8 without NUL.
func Judge(text []byte) Value {
	switch {
	case bytes.IndexByte(text, 0) >= 0:
		return Value{Bad: "has a NUL"}
	case !utf8.Valid(text):
		return Value{Bad: "not UTF-8"}
	}
	return Value{Text: text}
}

// ended ends a value in row that begins at from, of a place among the wanted ones.
func (p *parser) ended(place, from int, null bool, bad string) {
	if p.long {
		bad = "longer than 1 MiB" // or the row is, up to the end of the value
	}
	p.ends[2*place], p.ends[2*place+1], p.values[place].Bad = from, len(p.row), bad
	if null || bad != "" {
		p.row, p.ends[2*place+1] = p.row[:from], -1
	}
}

// value reads a value after white space, and keeps it if it has a place among the wanted ones.
func (p *parser) value(place int) error {
	if err := p.space(); err != nil {
		return err
	}
	line, from, keep := p.line, len(p.row), place >= 0
	null, bad := false, ""
	p.long = false
	switch c := p.peek(); {
	case c == '\'' || c == '"' && p.dialect != postgres:
		if c == '"' {
			if err := p.decided(line); err != nil {
				return err
			}
		}
		if _, err := p.prefixed(line, "", keep); err != nil {
			return err
		}
	case isDigit(c) || c == '-' || c == '+' || c == '.':
		var err error
		if bad, err = p.number(line, keep); err != nil {
			return err
		}
	case isWord(c):
		text := p.text()
		word := strings.ToUpper(text)
		if err := p.space(); err != nil {
			return err
		}
		switch null = word == "NULL"; {
		case isDigit(p.peek()) && word[0] == '_' && p.dialect == mysql: // _binary 0x00ff
			var err error
			if bad, err = p.number(line, keep); err != nil {
				return err
			}
		case p.peek() == '\'' && (word == "E" || word == "X" || word == "B" || word == "N" || word[0] == '_' && p.dialect != postgres):
			var err error
			if bad, err = p.prefixed(line, word, keep); err != nil {
				return err
			}
		case p.peek() == '(':
			if err := p.skipCall(line); err != nil {
				return err
			}
			bad = notValue
		case keep:
			p.row = append(p.row, text...)
		}
	default:
		return p.fail(line, "a value is expected here")
	}
	if c := p.peek(); c != ',' && c != ')' {
		expression, err := p.skipCast()
		if err != nil {
			return err
		}
		if expression {
			bad = notValue
		}
	}
	if keep {
		p.ended(place, from, null, bad)
	}
	return nil
}

const notValue = "not a value"

// skipCast skips what may follow a value: + 0 of Adminer, which makes it an expression, and ::type of
// DBeaver.
func (p *parser) skipCast() (expression bool, err error) {
	if err := p.space(); err != nil {
		return false, err
	}
	if p.accept('+') {
		_, err := p.nextWord()
		return true, err
	}
	if p.dialect == mysql || !p.accept(':') || !p.accept(':') {
		return false, nil
	}
	if err := p.decide(p.line, postgres); err != nil {
		return false, err
	}
	for word := "x"; word != ""; {
		if word, err = p.nextWord(); err != nil {
			return false, err
		}
	}
	if p.peek() == '(' {
		err = p.skipCall(p.line)
	}
	for p.accept('[') || p.accept(']') {
	}
	return false, err
}

// prefixed reads a string after its prefix. bad is why it is no value.
func (p *parser) prefixed(line int, prefix string, keep bool) (bad string, err error) {
	from, quote := len(p.row), p.take()
	escapes, err := p.escapes(line, quote, prefix)
	if err == nil && (prefix == "X" || strings.HasPrefix(prefix, "_")) {
		err = p.decided(line)
	}
	if err == nil {
		err = p.quoted(line, quote, escapes, keep)
	}
	if err != nil || !keep || prefix != "X" {
		return "", err
	}
	return p.decodeHex(from, from), nil
}

// decodeHex puts what the digits of row from a place on stand for in the place of row[to:].
func (p *parser) decodeHex(to, digits int) (bad string) {
	n, err := hex.Decode(p.row[to:], p.row[digits:])
	if p.row = p.row[:to+n]; err != nil {
		return "not hexadecimal digits"
	}
	return ""
}

// number takes a number. That of MySQL may be a text in hexadecimal digits. bad is why it is no value.
func (p *parser) number(line int, keep bool) (bad string, err error) {
	from, previous := len(p.row), byte(0)
	for p.more() {
		c := p.peek()
		if isSign := c == '-' || c == '+'; !isWord(c) && c != '.' && !(isSign && (previous == 0 || previous|0x20 == 'e')) {
			break
		}
		previous = c
		if p.take(); keep {
			p.keep(from, c)
		}
	}
	if text := p.row[from:]; len(text) >= 2 && text[0] == '0' && text[1]|0x20 == 'x' && p.dialect != postgres {
		if err := p.decided(line); err != nil {
			return "", err
		}
		return p.decodeHex(from, from+2), nil
	}
	return "", nil
}

// keep adds a byte to the value in row that begins at from, unless that is too long.
func (p *parser) keep(from int, c byte) {
	if !p.long {
		p.row = append(p.row, c)
	}
	if len(p.row) >= MaxRow {
		p.row, p.long = p.row[:from], true
	}
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
	if err := p.decide(line, postgres); err != nil {
		return err
	}
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
		p.long = false
		for {
			if !p.more() {
				return p.fail(line, "the row of %s that begins here is cut off", shown(t.name))
			}
			var c byte
			if escaped || p.accept('\\') {
				escaped = false
				if null = p.peek() == 'N' && len(p.row) == from && !p.long; null {
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
			if places[i] >= 0 {
				p.keep(from, c)
			}
		}
		if places[i] >= 0 {
			p.ended(places[i], from, null, "")
		}
		if last && i+1 != len(places) {
			return p.fail(line, "a row of %s has fewer values than columns", shown(t.name))
		}
	}
	return p.finish(t, line)
}
