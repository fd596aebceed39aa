package dump

import "strings"

// space skips white space and comments, and reads what these say.
func (p *parser) space() error {
	for p.more() {
		switch c := p.peek(); {
		case isBlank(c):
			p.take()
		case c == '#' && p.dialect != postgres:
			if p.between { // where PostgreSQL has no operator
				if err := p.decide(p.line, mysql); err != nil {
					return err
				}
			}
			if err := p.decided(p.line); err != nil {
				return err
			}
			p.take()
			if err := p.lineComment(); err != nil {
				return err
			}
		case p.follows('-', '-'):
			p.pos += 2
			if err := p.lineComment(); err != nil {
				return err
			}
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

func isBlank(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

// blank skips white space. It never fails.
func (p *parser) blank() error {
	for p.more() && isBlank(p.peek()) {
		p.take()
	}
	return nil
}

// lineComment reads the rest of a comment.
func (p *parser) lineComment() error {
	line := p.line
	head, _ := p.skipTo('\n', make([]byte, 0, 128))
	return p.comment(line, strings.TrimSpace(string(head)))
}

// blockComment reads the rest of a comment. MySQL executes one that begins with !, where
// mysqldump names the character set.
func (p *parser) blockComment(line int) error {
	conditional := p.dialect != postgres && (p.accept('!') || p.accept('M') && p.accept('!'))
	if conditional {
		if err := p.decide(line, mysql); err != nil {
			return err
		}
		for p.more() && isDigit(p.peek()) {
			p.take()
		}
		if _ = p.blank(); p.word() == "SET" {
			return p.set(line, true)
		}
	}
	head := make([]byte, 0, 512)
	for depth := 1; p.more(); {
		c := p.take()
		switch {
		case c == '*' && p.accept('/'):
			if depth--; depth > 0 {
				continue
			}
			if conditional {
				return p.escaping(line, head)
			}
			return p.comment(line, strings.TrimSpace(string(head)))
		case c == '/' && p.dialect != mysql && p.accept('*'): // PostgreSQL nests comments
			if err := p.decided(line); err != nil {
				return err
			}
			depth++
		case len(head) < cap(head):
			head = append(head, c)
		}
	}
	return p.fail(line, "a comment begins here and has no end")
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
			if p.dialect != mysql && previous == "BEGIN" && word == "ATOMIC" { // a function whose body is not quoted
				if err := p.decide(line, postgres); err != nil {
					return err
				}
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
	escapes, err := p.escapes(line, quote, prefix)
	if err != nil {
		return err
	}
	return p.quoted(line, quote, escapes, p.keepQuoted)
}

// escapes reports whether a backslash escapes in a string.
func (p *parser) escapes(line int, quote byte, prefix string) (escapes bool, err error) {
	switch {
	case quote == '`':
		return false, p.decide(line, mysql)
	case quote == '\'' && prefix == "E":
		return true, p.decide(line, postgres)
	}
	return p.dialect != postgres, nil // if it is not decided, a backslash is refused
}

// skipDollar skips a text between $TAG$ and $TAG$ of PostgreSQL, of which the first $ is taken.
func (p *parser) skipDollar(line int) error {
	tag := p.text()
	if p.dialect == mysql || !p.accept('$') { // a parameter, or part of a name
		return nil
	}
	if err := p.decided(line); err != nil {
		return err
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
// row, or sets long.
func (p *parser) quoted(line int, quote byte, escapes, keep bool) error {
	from := len(p.row)
	for last := byte(0); p.more(); {
		chunk := p.buf[p.pos:p.end]
		n := 0
		for n < len(chunk) && chunk[n] != quote && chunk[n] != '\n' && (chunk[n] != '\\' || !escapes) {
			n++
		}
		if keep && len(p.row)+n >= MaxRow {
			p.row, p.long, keep = p.row[:from], true, false
		}
		if keep {
			p.row = append(p.row, chunk[:n]...)
		}
		if p.pos += n; n > 0 {
			last = chunk[n-1]
		}
		if n == len(chunk) {
			continue
		}
		c := p.take()
		switch {
		case c == quote && !p.accept(quote):
			return nil
		case c == '\\' && escapes:
			if err := p.decided(p.line); err != nil {
				return err
			}
			if last >= 0x80 && p.dialect == mysql && !p.named { // in GBK, for example, it may be half a character
				return p.fail(p.line, "a backslash after a letter, in a dump that does not name its character set: "+
					"make it with --default-character-set=utf8mb4, and without --compact and --skip-set-charset")
			}
			c = p.unescape()
		}
		if last = c; keep {
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
	if p.dialect == postgres && '0' <= c && c <= '7' {
		return p.digits(c-'0', 8, 2)
	}
	if p.dialect == postgres && c == 'x' && unhex(p.peek()) < 16 {
		return p.digits(0, 16, 2)
	}
	letters, controls := "0bnrtZ", "\x00\b\n\r\t\x1a"
	if p.dialect == postgres {
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
// that is users, and sets qualifier to the part before it. bare means that it was not quoted.
func (p *parser) name() (name string, bare bool, err error) {
	for p.qualifier = ""; ; p.qualifier = name {
		if err := p.space(); err != nil {
			return "", false, err
		}
		line, c := p.line, p.peek()
		bare = c != '"' && c != '`'
		if c == '"' && p.dialect == mysql { // another system, or strings in which a quote is doubled only
			return "", false, p.fail(line, "a name in double quotes, which MySQL does not write: make the dump with mysqldump, without --compatible, or pg_dump")
		}
		if bare {
			name = p.text()
		} else {
			p.take()
			p.row = p.row[:0]
			if c == '`' {
				if err := p.decide(line, mysql); err != nil {
					return "", false, err
				}
			}
			if err := p.quoted(line, c, false, true); err != nil {
				return "", false, err
			}
			name = string(p.row)
		}
		if name == "" || len(name) >= maxName {
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
