package dump

import (
	"slices"
	"strings"
)

// tool is one that writes dumps in SQL. It is known by a comment.
type tool struct {
	name    string
	head    string  // how a comment at the begin of its dumps begins
	dialect dialect // "": the comment names the system
	system  string  // what stands before it: a word, and the system
	end     string  // how the comment at the end begins; "": there is none
}

// tools are those that are known. Most of those that write no comment at the end set back there what they
// have saved at the begin.
var tools = []tool{
	{name: "mysqldump", head: "MySQL dump", dialect: mysql, end: "Dump completed"},
	{name: "mariadb-dump", head: "MariaDB dump", dialect: mysql, end: "Dump completed"},
	{name: "mysqldump-php", head: "mysqldump-php ", dialect: mysql, end: "Dump completed"},
	{name: "pg_dump", head: "PostgreSQL database dump", dialect: postgres, end: "PostgreSQL database dump complete"},
	{name: "pg_dumpall", head: "PostgreSQL database cluster dump", dialect: postgres, end: "PostgreSQL database cluster dump complete"},
	{name: "phpMyAdmin", head: "phpMyAdmin SQL Dump", dialect: mysql},
	{name: "Adminer", head: "Adminer ", system: "Adminer", end: "20"}, // the time
	{name: "HeidiSQL", head: "HeidiSQL ", dialect: mysql},
	{name: "MySQLDumper", head: "Dump by MySQLDumper", dialect: mysql, end: "EOB"},
	{name: "BackWPup", head: "Backup with BackWPup", dialect: mysql, end: "Backup completed on"},
	{name: "UpdraftPlus", head: "WordPress MySQL database backup", dialect: mysql},
	{name: "Duplicator", head: "DUPLICATOR-", dialect: mysql, end: "DUPLICATOR_"},
	{name: "All-in-One WP Migration", head: "All-in-One WP Migration SQL Dump", dialect: mysql},
	{name: "Sequel", head: "Sequel ", dialect: mysql}, // Pro, Ace
	{name: "Navicat", head: "Navicat ", system: "Source Server Type"},
	{name: "Sypex Dumper", head: "SKD101|", dialect: mysql},
}

// otherSystems are those to which tools for several systems can be connected.
var otherSystems = []string{"PostgreSQL", "Microsoft SQL Server", "SQLite", "Firebird", "Interbase"}

// comment notes what a comment says about the dump.
func (p *parser) comment(line int, text string) error {
	if p.tool != nil && strings.HasPrefix(text, p.tool.end) {
		p.tool, p.marked = nil, true
		return nil
	}
	if _, value, ok := strings.Cut(text, ":"); ok { // HeidiSQL names the server, in many languages
		value = strings.TrimSpace(value)
		if i := slices.IndexFunc(otherSystems, func(s string) bool { return strings.HasPrefix(value, s) }); i >= 0 {
			p.server = otherSystems[i]
		}
	}
	for i := range tools {
		t := &tools[i]
		if !strings.HasPrefix(text, t.head) || t.end != "" && strings.HasPrefix(text, t.end) {
			continue
		}
		d := t.dialect
		if t.system != "" {
			_, after, _ := strings.Cut(text, t.system)
			words := strings.Fields(after)
			switch {
			case len(words) > 1 && (words[1] == "MySQL" || words[1] == "MariaDB"):
				d = mysql
			case len(words) > 1 && words[1] == "PostgreSQL":
				d = postgres
			}
		}
		if d == "" || t.name == "HeidiSQL" && p.server != "" {
			return p.fail(line, "a dump of %s of another system than MySQL: make it with pg_dump, or export the users as CSV and import that without --from", t.name)
		}
		switch {
		case p.tool != nil && p.tool.name == "pg_dumpall": // which holds dumps of pg_dump
			return p.decide(line, d)
		case p.tool != nil:
			return p.fail(line, "the dump before here is cut off: the last line that %s writes is missing", p.tool.name)
		case t.end != "":
			p.tool = t
		}
		p.marked = false
		return p.decide(line, d)
	}
	return nil
}

// whole returns an error if the end of the dump is missing, and whether it was marked.
func (p *parser) whole() (marked bool, err error) {
	switch {
	case p.tool != nil:
		err = p.fail(p.line, "the dump is cut off: the last line that %s writes is missing", p.tool.name)
	case p.saved != 0:
		err = p.fail(p.line, "the dump is cut off: the character set that line %d saves is not set back", p.saved)
	case p.transaction != 0:
		err = p.fail(p.line, "the dump is cut off: the transaction that line %d begins has no end", p.transaction)
	}
	return p.marked, err
}
