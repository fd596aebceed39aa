package dump_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/transfer/dump"
)

// read returns the rows of the table "users" with the columns id and name, as text.
func read(text string) (rows []string, err error) { return readFrom(strings.NewReader(text)) }

func readFrom(r io.Reader) (rows []string, err error) {
	_, err = dump.ReadSQL(r, func(name string, columns []string) (*dump.Table, error) {
		if name != "users" || !slices.Contains(columns, "id") || !slices.Contains(columns, "name") {
			return nil, nil
		}
		return &dump.Table{Columns: []string{"id", "name"}, Row: func(line int, values []dump.Value) error {
			row := fmt.Sprintf("%d:", line)
			for _, v := range values {
				switch {
				case v.Bad != "":
					row += " bad: " + v.Bad
				case v.Text == nil:
					row += " NULL"
				default:
					row += fmt.Sprintf(" %q", v.Text)
				}
			}
			rows = append(rows, row)
			return nil
		}}, nil
	})
	return rows, err
}

const (
	mysqlHeader = "/*!40101 SET NAMES utf8mb4 */;\n"
	mysqlTable  = "CREATE TABLE `users` (\n  `id` bigint(20) unsigned NOT NULL AUTO_INCREMENT,\n  `name` varchar(60) NOT NULL DEFAULT 'a,b)(',\n  PRIMARY KEY (`id`),\n  KEY `name` (`name`(191),`id`)\n) ENGINE=InnoDB COMMENT='x;y';\n"
	pgHeader    = "--\n-- PostgreSQL database dump\n--\n\n\\restrict abc\n\nSET client_encoding = 'UTF8';\nSET standard_conforming_strings = on;\n"
	pgTable     = "CREATE TABLE public.users (\n    id integer NOT NULL,\n    name character varying(150) DEFAULT ''::character varying NOT NULL,\n    CONSTRAINT c CHECK ((id > 0))\n);\n"
	pgCompleted = "\n--\n-- PostgreSQL database dump complete\n--\n\n\\unrestrict abc\n"
)

func TestReadSQL_Rows(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"mysqldump": {
			"-- MySQL dump 10.13\n/*!40101 SET NAMES utf8mb4 */;\n" + mysqlTable + "LOCK TABLES `users` WRITE;\n" +
				`INSERT INTO ` + "`users`" + ` VALUES (1,'a\'b\"c\\d\ne'),(-2,NULL);` + "\nUNLOCK TABLES;\n-- Dump completed on 2024\n",
			[]string{`10: "1" "a'b\"c\\d\ne"`, `10: "-2" NULL`},
		},
		"mariadb-dump, a row in each line": {
			"/*M!999999\\- enable the sandbox mode */ \n-- MariaDB dump 10.19\n" + mysqlTable +
				"INSERT INTO `users` VALUES\n(1,'a\\'b''c\\\\d\\ne'),\n(-2,NULL);\n-- Dump completed\n",
			[]string{`10: "1" "a'b'c\\d\ne"`, `11: "-2" NULL`},
		},
		"a statement that is cut off": {
			"INSERT IGNORE INTO `db`.`users` (`x`,`name`,`id`) VALUES ('(',_binary 'a',0x3132), (0x, X'6162', b'1');REPLACE INTO users (name,id) VALUES (_utf8mb4'\\\"',1.5e+3)",
			nil,
		},
		"hexadecimal": {
			"INSERT IGNORE INTO `db`.`users` (`x`,`name`,`id`) VALUES ('(',_binary 'a',0x3132), (0x, X'6162', b'1');REPLACE INTO users (name,id) VALUES (_utf8mb4'\\\"',1.5e+3);",
			[]string{`1: "12" "a"`, `1: "1" "ab"`, `1: "1.5e+3" "\""`},
		},
		"what looks like rows is none": {
			mysqlTable + "-- INSERT INTO users VALUES (1,'a');\n# INSERT INTO users VALUES (1,'a');\n/* INSERT INTO users VALUES (1,'a'); */\n" +
				"/*!50003 SET sql_mode = '' */ ;\nDELIMITER ;;\nCREATE TRIGGER t AFTER INSERT ON x FOR EACH ROW BEGIN\nINSERT INTO users VALUES (1,'a');\nEND ;;\nDELIMITER ;\n" +
				"INSERT INTO other VALUES ('''; INSERT INTO users VALUES (1,\\'b\\');', f(1,'('), 2),('\n');\n" +
				"CREATE VIEW v AS SELECT 1 - 2 / 3, '; INSERT INTO users VALUES (1,''c'');';\nINSERT INTO users VALUES (7,'; DROP TABLE users; --');",
			[]string{`19: "7" "; DROP TABLE users; --"`},
		},
		"pg_dump": {
			pgHeader + pgTable + "COPY public.other (a) FROM stdin;\n1\tx\n\\N\nINSERT INTO users VALUES (1,'a');\n\\.\n\n\n" +
				"COPY public.users (x, name, id) FROM stdin;\n\\N\ta\\tb\\\\\\x41\\101\\n'\t1\na'b\t\\N\t2\n\\.\n" + pgCompleted,
			[]string{`22: "1" "a\tb\\AA\n'"`, `23: "2" NULL`},
		},
		"pg_dump --inserts": {
			pgHeader + pgTable + "INSERT INTO public.users VALUES (1, 'a\\''b'),\n\t(2, E'\\\\x');\nINSERT INTO public.users OVERRIDING SYSTEM VALUE VALUES (3, NULL) ON CONFLICT DO NOTHING;\n" + pgCompleted,
			[]string{`14: "1" "a\\'b"`, `15: "2" "\\x"`, `16: "3" NULL`},
		},
		"bodies of functions": {
			pgHeader + "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $_$BEGIN INSERT INTO users (id, name) VALUES (1, '$$'); END$_$;\n" +
				"CREATE FUNCTION g() RETURNS integer\n LANGUAGE sql\n BEGIN ATOMIC\n INSERT INTO users (id, name) VALUES (2, 'x');\nEND;\n" +
				"CREATE RULE r AS ON INSERT TO x DO ( INSERT INTO users (id, name) VALUES (3, 'x'); SELECT 1; );\n" +
				"INSERT INTO users (id, name) VALUES (4, 'y');" + pgCompleted,
			[]string{`16: "4" "y"`},
		},
		"\\r\\n": {
			strings.ReplaceAll(pgHeader+"COPY public.users (id, name) FROM stdin;\n1\ta\n\\.\n"+pgCompleted, "\n", "\r\n"),
			[]string{`10: "1" "a"`},
		},
		"an empty file": {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := read(test.text)
			if test.want == nil && test.text != "" {
				if err == nil {
					t.Errorf("got %q, want an error", got)
				}
				return
			}
			if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
				t.Errorf("got %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestReadSQL_BadValueLeavesTheOthers(t *testing.T) {
	const table = "INSERT INTO `users` (id,x,name) VALUES "
	long := strings.Repeat("a", dump.MaxRow)
	mysql := func(values string) string { return mysqlHeader + table + values + ",(2,'','b');" }
	copied := func(row string) string {
		return pgHeader + "COPY users (id, x, name) FROM stdin;" + row + "\n2\t\tb\n\\.\n" + pgCompleted
	}
	for name, test := range map[string]struct {
		text string
		want string // of the first row
	}{
		"a NUL":                           {mysql(`(1,'','a\0b')`), `"1" bad: has a NUL`},
		"a raw NUL":                       {mysql("(1,'','a\x00b')"), `"1" bad: has a NUL`},
		"a NUL in hexadecimal digits":     {mysql("(1,'',0x6100)"), `"1" bad: has a NUL`},
		"a binary id":                     {mysql(`(_binary '\0\xff','','a')`), `bad: has a NUL "a"`},
		"latin1":                          {mysql("(1,'','J\xfcrgen')"), `"1" bad: not UTF-8`},
		"latin1 as a string of digits":    {mysql("(1,'',X'4afc')"), `"1" bad: not UTF-8`},
		"an overlong slash":               {mysql("(1,'','\xc0\xaf')"), `"1" bad: not UTF-8`},
		"half a surrogate pair":           {mysql("(1,'','\xed\xa0\xbd')"), `"1" bad: not UTF-8`},
		"a pair, each in three bytes":     {mysql("(1,'','\xed\xa0\xbd\xed\xb8\x80')"), `"1" bad: not UTF-8`},
		"a character cut off":             {mysql("(1,'','ab\xe2\x82')"), `"1" bad: not UTF-8`},
		"what is beyond Unicode":          {mysql("(1,'','\xf4\x90\x80\x80')"), `"1" bad: not UTF-8`},
		"digits that are odd":             {mysql("(1,'',0x123)"), `"1" bad: not hexadecimal digits`},
		"an expression":                   {mysql("(1,'',concat('a','b'))"), `"1" bad: not a value`},
		"a sum":                           {mysql("(1,'',1 + 2)"), `"1" bad: not a value`},
		"a number of the bits of Adminer": {mysql("(1,CONV('1', 2, 10) + 0,'a')"), `"1" "a"`},
		"what are no digits":              {mysql("(1,'',X'zz')"), `"1" bad: not hexadecimal digits`},
		"a long text":                     {mysql("(1,'','" + long + "')"), `"1" bad: longer than 1 MiB`},
		"a long text with escapes":        {mysql("(1,'','" + strings.Repeat(`\'`, dump.MaxRow) + "')"), `"1" bad: longer than 1 MiB`},
		"a long number":                   {mysql("(" + strings.Repeat("1", dump.MaxRow) + ",'','a')"), `bad: longer than 1 MiB "a"`},
		"long digits":                     {mysql("(1,'',0x" + strings.Repeat("61", dump.MaxRow) + ")"), `"1" bad: longer than 1 MiB`},
		"two long texts":                  {mysql("('" + long + "','','" + long + "')"), `bad: longer than 1 MiB bad: longer than 1 MiB`},
		"bad ones that are not wanted":    {mysql("(1,'" + long + `\0` + "\xff','a')"), `"1" "a"`},
		"digits that are not wanted":      {mysql("(1,0x00ff1,'a')"), `"1" "a"`},
		"a name that is not UTF-8":        {mysqlHeader + "CREATE TABLE `\xe9` (`\xff` int);INSERT INTO `\xe9` VALUES (1);" + table + "(1,'','a'),(2,'','b');", `"1" "a"`},
		"latin1 of COPY":                  {copied("\n1\t\ta\\351"), `"1" bad: not UTF-8`},
		"a NUL of COPY":                   {copied("\n1\t\ta\x00"), `"1" bad: has a NUL`},
		"a long text of COPY":             {copied("\n1\t\t" + long + `\N`), `"1" bad: longer than 1 MiB`},
		"a long bytea that is not wanted": {copied("\n1\t" + long + "\\000\xff\ta"), `"1" "a"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := read(test.text)
			if err != nil || len(got) != 2 || !strings.HasSuffix(got[0], ": "+test.want) || !strings.HasSuffix(got[1], `: "2" "b"`) {
				t.Errorf("got %.200q, %v, want %s and the next row", got, err, test.want)
			}
		})
	}
}

func TestReadSQL_HostileDumpEndsWithItsLine(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want string
	}{
		"a quote that is not closed":    {mysqlTable + "INSERT INTO `users` VALUES (1,'a),\n(2,b);\n", "line 7: a quote is opened here and not closed"},
		"a quote too many":              {mysqlTable + "INSERT INTO `users` VALUES (1,'a'b'),\n(2,'c');\n", "line 7: a ',' or a ')'"},
		"a missing quote in another":    {mysqlTable + "INSERT INTO x VALUES (1,'a);\nINSERT INTO `users` VALUES (1,'b');\n", "line 8: a ',' or a ')'"},
		"a long variable":               {"SET @x = '" + strings.Repeat("a", dump.MaxRow) + "';", "line 1: a variable is longer"},
		"a long name":                   {"CREATE TABLE `" + strings.Repeat("a", 1000) + "` (a int);", "line 1: the name of a table"},
		"latin1":                        {"\n/*!40101 SET NAMES latin1 */;\n", "line 2: the dump is not in UTF-8"},
		"latin1, as a statement":        {"\nSET NAMES 'latin1';\n", "line 2: the dump is not in UTF-8"},
		"a set, as a variable":          {"\nSET character_set_client = gbk;\n", "line 2: the dump is not in UTF-8"},
		"a set of the session":          {"\nSET @@session.character_set_connection := \"sjis\";\n", "line 2: the dump is not in UTF-8"},
		"a set, in full":                {"\nSET CHARACTER SET gbk;\n", "line 2: the dump is not in UTF-8"},
		"a set after white space":       {"\n/*!40101 SET  NAMES\n gbk */;\n", "line 2: the dump is not in UTF-8"},
		"a set after a variable":        {"\n/*!40101 SET @OLD='a*/', NAMES gbk */;\n", "line 2: the dump is not in UTF-8"},
		"a set after a variable, too":   {"\nSET @OLD=(1), NAMES gbk;\n", "line 2: the dump is not in UTF-8"},
		"latin1 of PostgreSQL":          {pgHeader + "SET client_encoding = 'LATIN1';\n", "line 9: the dump is not in UTF-8"},
		"NULs between statements":       {mysqlTable + "\x00\x00", "line 7: this is not SQL"},
		"more values than columns":      {mysqlTable + "INSERT INTO `users` VALUES (1,'a'),\n(2,'b',3);", "line 8: a row of users has more values than columns"},
		"fewer values than columns":     {mysqlTable + "INSERT INTO `users` VALUES (1,'a'),\n(2);", "line 8: a row of users has fewer values than columns"},
		"columns that change":           {"INSERT INTO users (id,name) VALUES (1,'a');\nINSERT INTO users (id,nick) VALUES (1,'a');", "line 2: rows of users without the column name"},
		"columns that change in COPY":   {pgHeader + "COPY users (id, name) FROM stdin;\n1\ta\n2\n\\.\n", "line 11: a row of users has fewer values"},
		"a table that is created again": {mysqlTable + "INSERT INTO `users` VALUES (1,'a');\n" + mysqlTable, "line 8: the table users is in line 1 already"},
		"rows before the definition":    {"INSERT INTO users (id,name) VALUES (1,'a');\n" + mysqlTable, "line 2: the table users is in line 1 already"},
		"a query":                       {mysqlTable + "INSERT INTO `users` SELECT * FROM x;", "line 7: VALUES is expected"},
		"cut off in a statement":        {mysqlTable + "INSERT INTO `users` VALUES (1,'a'),", "line 7: a '(' is expected"},
		"cut off after a statement":     {"-- MySQL dump 10.13\n" + mysqlTable + "INSERT INTO `users` VALUES (1,'a');\n", "line 9: the dump is cut off"},
		"cut off in COPY":               {pgHeader + "COPY users (id, name) FROM stdin;\n1\ta\n", "line 9: the rows that begin here are cut off"},
		"cut off in a row of COPY":      {pgHeader + "COPY users (id, name) FROM stdin;\n1\ta", "line 10: the row of users that begins here is cut off"},
		"a comment that is not closed":  {"\n/* x", "line 2: a comment begins here"},
		"a delimiter that is not set":   {"DELIMITER ;;\nx", "line 1: a DELIMITER"},
		"a dollar that is not closed":   {pgHeader + "DO $x$ $$ $y$", "line 9: a text in $"},
		"a function that is not closed": {pgHeader + "CREATE FUNCTION f() BEGIN ATOMIC\n SELECT 1;\n", "line 9: a function begins here"},
		"a CSV":                         {"1,ada\n", "line 1:"},
		"half a definition":             {"CREATE TABLE users (id int, name text; INSERT INTO users VALUES (1,'a');", "line 1: a ')' is expected"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := read(test.text)
			var at *dump.Error
			if !errors.As(err, &at) || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

// noComments is what pg_dump writes before the tables, without its comments.
const noComments = "\n\nSET statement_timeout = 0;\nSET client_encoding = 'UTF8';\nSET standard_conforming_strings = on;\n"

func TestReadSQL_DialectIsNeverGuessed(t *testing.T) {
	// What PostgreSQL reads as one row, MySQL reads as two.
	const forging = "INSERT INTO users (name, id, x) VALUES ('\\', 1, ', 7, 0x61), (0x6d616c, 2, 3); -- ');\n"
	const mode = "NO_AUTO_VALUE_ON_ZERO,NO_BACKSLASH_ESCAPES"
	insert := "INSERT INTO users (id,name) VALUES (1,'a');\n"
	for name, test := range map[string]struct {
		text string
		want string // the rows, or the error
	}{
		"no sign of one":                   {insert + forging, "line 2: MySQL and PostgreSQL read this differently"},
		"a double quoted name":             {"CREATE TABLE \"users\" (id int, name text, x text);" + forging, "line 1: MySQL and PostgreSQL read this differently"},
		"no difference":                    {insert, `[1: "1" "a"]`},
		"pg_dump without its comments":     {noComments + forging, `[6: "1" "\\"]`},
		"a command of psql":                {"\\restrict abc\n" + forging, `[2: "1" "\\"]`},
		"COPY":                             {"COPY x (a) FROM stdin;\n\\.\n" + forging, `[3: "1" "\\"]`},
		"a string of PostgreSQL":           {"INSERT INTO x VALUES (E'\\x');" + forging, `[1: "1" "\\"]`},
		"a comment of pg_dump":             {pgHeader[:strings.Index(pgHeader, "SET")] + forging + pgCompleted, `[7: "1" "\\"]`},
		"backticks":                        {"CREATE TABLE `x` (a int);" + forging, `[1: "7" "', 1, " 1: "2" "mal"]`},
		"a conditional comment":            {"/*!40101 SET NAMES utf8 */;" + forging, `[1: "7" "', 1, " 1: "2" "mal"]`},
		"a comment of phpMyAdmin":          {"-- phpMyAdmin SQL Dump\n" + insert + "INSERT INTO users (id,name) VALUES (2,'\\'');", `[2: "1" "a" 3: "2" "'"]`},
		"both":                             {mysqlTable + "SET standard_conforming_strings = on;\n", "line 7: the dump is one of MySQL, and this one of PostgreSQL"},
		"both, the other way round":        {pgHeader + "CREATE TABLE `x` (a int);", "line 9: the dump is one of PostgreSQL, and this one of MySQL"},
		"a second comment":                 {mysqlTable + "-- PostgreSQL database dump\n", "line 7: the dump is one of MySQL"},
		"a session's strings":              {"SET SESSION standard_conforming_strings = off;", "line 1: the dump has standard_conforming_strings off"},
		"a string in double quotes":        {"INSERT INTO users (id,name) VALUES (1,\"a\");", "line 1: MySQL and PostgreSQL read this differently"},
		"hexadecimal":                      {"INSERT INTO users (id,name) VALUES (1,0x61);", "line 1: MySQL and PostgreSQL read this differently"},
		"a string of digits":               {"INSERT INTO users (id,name) VALUES (1,X'61');", "line 1: MySQL and PostgreSQL read this differently"},
		"a number sign":                    {"INSERT INTO users (id,name) VALUES (1, # x\n'a');", "line 1: MySQL and PostgreSQL read this differently"},
		"a number sign between statements": {"# x\n" + forging, `[2: "7" "', 1, " 2: "2" "mal"]`},
		"dollars":                          {"DO $$;" + insert + "$$;", "line 1: MySQL and PostgreSQL read this differently"},
		"a comment in one":                 {"/* /* */ " + insert + " */ " + insert, "line 1: MySQL and PostgreSQL read this differently"},
		"a comment in one of PostgreSQL":   {noComments + "/* /* */ " + insert + " */ " + insert, `[7: "1" "a"]`},
		"SQLite":                           {"PRAGMA foreign_keys=OFF;\n" + insert, "line 1: a dump of SQLite"},
		"strings without escapes":          {mysqlTable + "SET sql_mode = '" + mode + "';\n", "line 7: the dump has the SQL mode NO_BACKSLASH_ESCAPES"},
		"strings without escapes, bare":    {mysqlTable + "SET SESSION sql_mode = NO_BACKSLASH_ESCAPES;\n", "line 7: the dump has the SQL mode NO_BACKSLASH_ESCAPES"},
		"strings without escapes, too":     {"/*!40101 SET @OLD=@@SQL_MODE, SQL_MODE='" + mode + "' */;\n", "line 1: the dump has the SQL mode NO_BACKSLASH_ESCAPES"},
		"a default with an escape":         {noComments + "CREATE TABLE x (a text DEFAULT E'\\'', b text DEFAULT '), (');" + insert, `[6: "1" "a"]`},
		"two databases":                    {"USE `a`;" + insert + "USE `b`;" + insert, "line 2: rows of another table users"},
		"two schemas":                      {noComments + "COPY a.users (id, name) FROM stdin;\n1\ta\n\\.\nCOPY b.users (id, name) FROM stdin;\n1\tb\n\\.\n", "line 9: rows of another table users"},
		"two search paths":                 {"SET search_path = a, pg_catalog;" + insert + "SET search_path = b, pg_catalog;" + insert, "line 2: rows of another table users"},
		"two databases of PostgreSQL":      {"\\connect a\n" + insert + "\\connect b\n" + insert, "line 4: rows of another table users"},
		"a database that is named":         {"USE `a`;INSERT INTO `a`.`users` (id,name) VALUES (1,'a');" + insert, `[1: "1" "a" 1: "1" "a"]`},
	} {
		t.Run(name, func(t *testing.T) { wantRead(t, test.text, test.want) })
	}
}

// wantRead reads a dump and expects its rows, or the beginning of the error.
func wantRead(t *testing.T, text, want string) {
	t.Helper()
	rows, err := read(text)
	got := fmt.Sprint(rows)
	if err != nil {
		got = err.Error()
	}
	if !strings.HasPrefix(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestReadSQL_BackslashMayBeHalfACharacter(t *testing.T) {
	// What MySQL reads as one row in GBK, it reads as two in UTF-8.
	const forging = "(2,'eve\x95\\',',0x61),(1,0x61646d696e);-- -');\n"
	const wanted, skipped = "INSERT INTO `users` (id,name,x,y) VALUES (2,'eve','\x95\\',',0),(1,0x61646d696e,0,0);-- -');\n", "INSERT INTO `x` VALUES " + forging
	const around = "/*!40101 SET @saved_cs_client = @@character_set_client */;\n/*!50503 SET character_set_client = utf8mb4 */;\n" +
		"CREATE TABLE `x` (a text);\n/*!40101 SET character_set_client = @saved_cs_client */;\n"
	const refused = "a backslash after a letter, in a dump that does not name its character set"
	const good = "INSERT INTO `users` (id,name) VALUES (1,'\u00e9\\'s');"
	for name, test := range map[string]struct {
		text string
		want string // the rows, or the error
	}{
		"a row":                      {mysqlTable + wanted, "line 7: " + refused},
		"a row of another table":     {mysqlTable + skipped, "line 7: " + refused},
		"a statement":                {mysqlTable + "UPDATE x SET a = '\x95\\', b = '; " + skipped, "line 7: " + refused},
		"a definition with a set":    {around + skipped, "line 5: " + refused},
		"a mysqldump --compact":      {around + good, "line 5: " + refused},
		"a letter and no backslash":  {mysqlTable + "INSERT INTO `users` VALUES (1,'\\'\u00e9');", "[7: \"1\" \"'\u00e9\"]"},
		"a dump after another":       {"SET NAMES utf8;/*!40101 SET CHARACTER_SET_CLIENT=@OLD_CHARACTER_SET_CLIENT */;" + good, "line 1: " + refused},
		"UTF-8":                      {"SET NAMES utf8mb4;" + around + good, "[5: \"1\" \"\u00e9's\"]"},
		"UTF-8, in a comment":        {"/*!40101 SET\tNAMES 'utf8' */;" + around + good, "[5: \"1\" \"\u00e9's\"]"},
		"a trigger of latin1":        {"SET NAMES utf8mb4;/*!50003 SET character_set_client  = latin1 */ ;" + good, "[1: \"1\" \"\u00e9's\"]"},
		"a trigger of GBK":           {"SET NAMES utf8mb4;/*!50003 SET character_set_client  = gbk */ ;" + good, "line 1: the dump is not in UTF-8"},
		"PostgreSQL has no such set": {pgHeader + "INSERT INTO users (id,name) VALUES (1,'\u00e9\\');" + pgCompleted, "[9: \"1\" \"\u00e9\\\\\"]"},
	} {
		t.Run(name, func(t *testing.T) { wantRead(t, test.text, test.want) })
	}
}

// repeated reads a text between two others, so often that it has a size.
func repeated(begin, text, end string, size int) io.Reader {
	parts := []io.Reader{strings.NewReader(begin)}
	for ; size > 0; size -= len(text) {
		parts = append(parts, strings.NewReader(text))
	}
	return io.MultiReader(append(parts, strings.NewReader(end))...)
}

func FuzzReadSQL(f *testing.F) {
	f.Add(mysqlTable + "INSERT INTO `users` VALUES (1,'a\\'b''c'),(0x31,_binary 'x'),(NULL,\"y\");\nDELIMITER ;;\nx;;\nDELIMITER ;\n")
	f.Add(pgHeader + pgTable + "COPY public.users (name, id) FROM stdin;\na\\tb\t\\N\n\\.\nINSERT INTO users VALUES (1, E'\\x41');DO $x$;$x$;" + pgCompleted)
	f.Add("/*!40101 SET NAMES utf8 */; # x\n-- y\nCREATE RULE r AS (a;b);")
	f.Fuzz(func(t *testing.T, text string) {
		rows, err := read(text)
		again, errAgain := readFrom(io.MultiReader(strings.NewReader(text[:len(text)/2]), strings.NewReader(text[len(text)/2:])))
		if !slices.Equal(rows, again) || (err == nil) != (errAgain == nil) {
			t.Errorf("got %q, %v in one piece and %q, %v in two", rows, err, again, errAgain)
		}
		var at *dump.Error
		if err != nil && (!errors.As(err, &at) || at.Line < 1 || at.Line > 1+strings.Count(text, "\n")) {
			t.Errorf("got %v, want an error with a line of the file", err)
		}
	})
}
