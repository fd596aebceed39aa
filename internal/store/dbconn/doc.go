// Package dbconn opens the databases that the store works on, from a URL:
//
//	sqlite://data/personal.db              a file, relative to the working folder
//	sqlite:///var/lib/cms/personal.db      a file
//	postgres://user:password@host/database PostgreSQL over TCP
//	postgres://user@/database?host=/run/postgresql
//
// It knows drivers and connections, and nothing of tables.
package dbconn

import (
	"database/sql"
	"strings"
)

// URLError says what is wrong with a database URL. It never holds a part of the
// URL, because any part may be a piece of a password that was not escaped.
type URLError struct{ Reason string }

// Error says what is wrong.
func (e *URLError) Error() string { return "database URL: " + e.Reason }

func wrong(reason string) error { return &URLError{Reason: reason} }

// Kind is a kind of database.
type Kind string

// The kinds of databases there are.
const (
	SQLite     Kind = "sqlite"
	PostgreSQL Kind = "postgres"
)

// Pools are the connections to one database.
type Pools struct {
	Kind        Kind
	Write, Read *sql.DB // the same one on PostgreSQL
}

// Close closes both pools.
func (p Pools) Close() error {
	err := p.Write.Close()
	if p.Read != p.Write {
		if readErr := p.Read.Close(); err == nil {
			err = readErr
		}
	}
	return err
}

// Open makes the pools for a URL. On PostgreSQL it does not connect yet. A URL
// that is no good gives *URLError.
func Open(url string, l Limits) (Pools, error) {
	scheme, rest, _ := strings.Cut(url, "://")
	switch scheme {
	case "sqlite":
		path, err := sqlitePath(rest)
		if err != nil {
			return Pools{}, err
		}
		return openSQLite(path)
	case "postgres", "postgresql":
		conf, err := parsePostgres(url)
		if err != nil {
			return Pools{}, err
		}
		db := openPostgres(conf, l)
		return Pools{Kind: PostgreSQL, Write: db, Read: db}, nil
	}
	return Pools{}, wrong("it must begin with sqlite:// or postgres://")
}
