package store

import (
	"errors"
	"io/fs"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/cms-personal/personal/internal/store/dbconn"
)

// SetupProblem returns what an administrator must change before the database of an error can be
// used, and "" for an error that may pass, such as one of a server that is down. It goes by what package
// dbconn has recognised, the SQLSTATE of PostgreSQL, the result code of SQLite and the error of the file system.
func SetupProblem(err error) string {
	var setup *dbconn.SetupError
	var lite *sqlite.Error
	var file *fs.PathError // not of a socket: the server that makes it may only be down
	state := stateOf(err)
	switch {
	case errors.As(err, &setup):
		return setup.Problem
	case state != "":
		return stateProblem(state)
	case errors.As(err, &lite):
		return resultProblem(lite.Code())
	case !errors.As(err, &file):
	case errors.Is(file, fs.ErrNotExist), errors.Is(file, syscall.ENOTDIR):
		return "the folder of the database file does not exist: create it, or correct the path in the database URL"
	case errors.Is(file, fs.ErrPermission):
		return "this process may not create or open the database file: correct the owner of its folder, or the path in the database URL"
	case errors.Is(file, syscall.EROFS):
		return readOnlyFile
	}
	return ""
}

const readOnlyFile = "the database file cannot be written: mount its file system for writing, correct the owner and mode of the file and its folder, " +
	"or correct the path in the database URL"

// stateProblem is SetupProblem for a SQLSTATE (PostgreSQL, appendix A).
func stateProblem(state string) string {
	switch state {
	case "42501", "3F000": // insufficient_privilege; invalid_schema_name: no schema that the role may use
		return "the role of the database URL lacks rights: as an administrator run GRANT CONNECT ON DATABASE …, and GRANT USAGE, CREATE ON SCHEMA … TO the role; " +
			"if its search_path names no schema that exists, run ALTER ROLE … RESET search_path; " +
			"if another role has created the tables, run `personal migrate` as that role and GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA … TO this one " +
			"(docs/postgresql.md, Rights in PostgreSQL)"
	}
	return ""
}

// resultProblem is SetupProblem for a result code of SQLite.
func resultProblem(code int) string {
	switch code & 0xff { // the higher bits are the extended code
	case sqlite3.SQLITE_NOTADB:
		return "the file is not a SQLite database: correct the path in the database URL, or restore a backup"
	case sqlite3.SQLITE_CORRUPT:
		return "the database file is damaged: restore a backup (docs/backup.md), or correct the path in the database URL"
	case sqlite3.SQLITE_READONLY:
		return readOnlyFile
	}
	return ""
}
