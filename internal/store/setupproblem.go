package store

import (
	"errors"
	"io/fs"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// SetupProblem returns what an administrator must change before the database of an error can be
// used, and "" for an error that may pass, such as one of a server that is down. It goes by the
// SQLSTATE of PostgreSQL, the result code of SQLite and the error of the file system.
func SetupProblem(err error) string {
	var lite *sqlite.Error
	var file *fs.PathError // not of a socket: the server that makes it may only be down
	state := stateOf(err)
	switch {
	case state != "":
		return stateProblem(state)
	case errors.As(err, &lite):
		if lite.Code()&0xff == sqlite3.SQLITE_NOTADB {
			return "the file is not a SQLite database: correct the path in the database URL, or restore a backup"
		}
	case !errors.As(err, &file):
	case errors.Is(file, fs.ErrNotExist):
		return "the folder of the database file does not exist: create it, or correct the path in the database URL"
	case errors.Is(file, fs.ErrPermission):
		return "this process may not create or open the database file: correct the owner of its folder, or the path in the database URL"
	}
	return ""
}

// stateProblem is SetupProblem for a SQLSTATE (PostgreSQL, appendix A).
func stateProblem(state string) string {
	switch state {
	case "3D000": // invalid_catalog_name
		return "the PostgreSQL server has no such database: create it, or correct the name in the database URL"
	case "28000", "28P01": // invalid_authorization_specification, invalid_password
		return "the PostgreSQL server does not let the role of the database URL in: create the role, correct its name or password in the URL, or correct pg_hba.conf"
	case "42501", "3F000": // insufficient_privilege; invalid_schema_name: no schema that the role may use
		return "the role of the database URL lacks rights: as an administrator run GRANT CONNECT ON DATABASE …, and GRANT USAGE, CREATE ON SCHEMA … TO the role; " +
			"if another role has created the tables, run `personal migrate` as that role and GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA … TO this one " +
			"(docs/postgresql.md, Rights in PostgreSQL)"
	}
	return ""
}
