package dump

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
)

// formats are files that are no text, by what they begin with, and what to do with them.
var formats = []struct {
	at   int // where the mark is
	mark string
	what string
}{
	{0, "PGDMP", "a dump in PostgreSQL's custom format, or a part of one in its folder format: convert it with pg_restore -f dump.sql FILE"},
	{0, "toc.dat\x00", "a dump in PostgreSQL's tar format: convert it with pg_restore -f dump.sql FILE"},
	{257, "ustar", "a tar archive, as hosting panels make it: take the dump out of it with tar -xf FILE"},
	{0, "PK\x03\x04", "a zip archive: take the dump out of it with unzip FILE"},
	{0, "\x28\xb5\x2f\xfd", "compressed with zstd: uncompress it with zstd -d FILE"},
	{0, "\xfd7zXZ\x00", "compressed with xz: uncompress it with xz -dk FILE"},
	{0, "7z\xbc\xaf\x27\x1c", "a 7-Zip archive: take the dump out of it with 7z x FILE"},
	{0, "Rar!\x1a\x07", "a RAR archive: take the dump out of it with unrar x FILE"},
	{0, "\x04\x22\x4d\x18", "compressed with lz4: uncompress it with lz4 -d FILE"},
	{0, "\x1f\x9d", "compressed with compress: uncompress it with gzip -d FILE"},
	{0, "JPA", "an archive of Akeeba Backup: extract it with Akeeba eXtract Wizard, or make a dump with mysqldump"},
	{0, "JPS", "an archive of Akeeba Backup: extract it with Akeeba eXtract Wizard, or make a dump with mysqldump"},
	{0, "package.json\x00", "an archive of All-in-One WP Migration (.wpress): make a dump with wp db export or mysqldump"},
	{0, "SQLite format 3\x00", "a database of SQLite: export its users as CSV with sqlite3 -header -csv FILE 'SELECT …', and import that without --from"},
	{0, "TAPE", "a backup of SQL Server: export the users as CSV, and import that without --from"},
	{0, "\x03\x00", "a dump of Oracle's tools: export the users as CSV, and import that without --from"},
	{0, "Salted__", "encrypted: decrypt it first"},
	{0, "age-encryption.org/", "encrypted with age: decrypt it first"},
	{0, "-----BEGIN PGP MESSAGE", "encrypted with OpenPGP: decrypt it with gpg -o dump.sql -d FILE"},
}

// Plain returns the text of a file that may be compressed with gzip or bzip2, without a byte order mark,
// or says by name what else the file is.
func Plain(file io.Reader) (io.Reader, error) {
	const compressions = 2 // a browser may have added one
	b := bufio.NewReaderSize(file, 64<<10)
	for range compressions {
		switch magic, _ := b.Peek(10); {
		case bytes.HasPrefix(magic, []byte("\x1f\x8b")):
			z, err := gzip.NewReader(b)
			if err != nil {
				return nil, fmt.Errorf("reading the compressed file: %w", err)
			}
			b = bufio.NewReaderSize(z, 64<<10)
		case bytes.HasPrefix(magic, []byte("BZh")) && bytes.HasSuffix(magic, []byte("1AY&SY")):
			b = bufio.NewReaderSize(bzip2.NewReader(b), 64<<10)
		}
	}
	head, err := b.Peek(512)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading the file: %w", err)
	}
	if reason := noText(head); reason != "" {
		return nil, &Error{1, reason}
	}
	if bytes.HasPrefix(head, []byte("\ufeff")) {
		_, _ = b.Discard(len("\ufeff")) // they are buffered
	}
	return b, nil
}

// noText says what a file is whose first bytes are not those of a dump; "": they may be.
func noText(head []byte) string {
	for _, f := range formats {
		if len(head) >= f.at && bytes.HasPrefix(head[f.at:], []byte(f.mark)) {
			return "the file is " + f.what
		}
	}
	if bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")) {
		return "the file is UTF-16, as PowerShell's > writes it: let the tool write the file itself (--result-file, -f)"
	}
	text := strings.ToLower(strings.TrimSpace(strings.TrimPrefix(string(head), "\ufeff")))
	switch {
	case text == "":
		return "the file is empty: the tool that made it has failed, or has not finished"
	case strings.HasPrefix(text, "<!doctype html"), strings.HasPrefix(text, "<html"), strings.HasPrefix(text, "<br"), strings.HasPrefix(text, "<b>"):
		return "the file is a page of a website, such as an error or a sign-in, and no dump: make the dump again, with mysqldump if you can"
	case strings.ContainsRune(text, 0):
		return "the file is no text. Files of a database server (.ibd, .frm, .MYD) are no dump: start a server with them, and make one with mysqldump or pg_dump"
	}
	return ""
}

// noSQL says what a text is that begins otherwise than SQL does; "": it may be SQL.
func noSQL(head string) string {
	begins := func(text string) bool { return strings.HasPrefix(head, text) }
	const again = ": export it as SQL"
	switch {
	case begins("<?xml") && strings.Contains(head, "<mysqldump"):
		return "the file is XML of mysqldump: make the dump without --xml"
	case begins("<?xml"):
		return "the file is XML, as phpMyAdmin can export" + again
	case begins("<?php"), begins("/**\n * Export to PHP Array"):
		return "the file is PHP, as phpMyAdmin can export" + again
	case begins("[") || begins("{"):
		if strings.Contains(head, `"dumper"`) {
			return "a part of a dump of MySQL Shell: make the dump with mysqldump"
		}
		return "the file is JSON, as phpMyAdmin can export" + again
	case begins("# Started dump at"), begins("Started dump at"):
		return "the file is mydumper's metadata: join the definitions and the rows of the tables, for example cat blog.wp_users-schema.sql blog.wp_users.sql > dump.sql"
	case begins("REM "), begins("SET DEFINE "):
		return "a script of Oracle's tools: export the users as CSV, and import that without --from"
	}
	for _, tool := range []string{"mysqldump", "mariadb-dump", "mysql", "pg_dump", "pg_dumpall", "wp", "bash", "sh"} {
		if begins(tool+": ") || begins(tool+".exe: ") {
			return "a message of " + tool + " is in the file: let the tool write the file itself (--result-file, -f), or leave out 2>&1"
		}
	}
	return ""
}
