// Package dbconn opens the store's database from a URL:
//
//	sqlite://data/personal.db              a file, relative to the working directory
//	sqlite:///var/lib/cms/personal.db      a file
//	postgres://user:password@host/database PostgreSQL over TCP
//	postgres://user@/database?host=/run/postgresql
//	postgres://user@host1:5432,host2:5433/database?target_session_attrs=read-write
//
// It handles drivers and connections; tables are the store's.
package dbconn

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
)

// URLError says why a database URL is refused. It never holds a part of the URL,
// because any part may be a piece of a password that was not escaped.
type URLError struct{ Reason string }

// Error returns the reason.
func (e *URLError) Error() string { return "database URL: " + e.Reason }

func wrong(reason string) error { return &URLError{Reason: reason} }

// Kind is a database system.
type Kind string

// The supported database systems.
const (
	SQLite     Kind = "sqlite"
	PostgreSQL Kind = "postgres"
)

// Pools are the connections to one database.
type Pools struct {
	Kind        Kind
	Write, Read *sql.DB // on PostgreSQL the same pool
}

// Close closes both pools.
func (p Pools) Close() error {
	if p.Read == p.Write {
		return p.Write.Close()
	}
	return errors.Join(p.Write.Close(), p.Read.Close())
}

// Wrap wraps what opens the connections of a pool. Tests count statements with it.
type Wrap func(driver.Connector) driver.Connector

// Open makes the pools for a URL. On PostgreSQL it does not connect yet. The error
// is a *[URLError] if the URL is invalid.
func Open(url string, l Limits, wraps ...Wrap) (Pools, error) {
	open := func(c driver.Connector) *sql.DB {
		for _, wrap := range wraps {
			c = wrap(c)
		}
		return sql.OpenDB(c)
	}
	scheme, rest, _ := strings.Cut(url, "://")
	switch scheme {
	case "sqlite":
		return openSQLite(rest, open)
	case "postgres", "postgresql":
		servers, err := parsePostgres(url)
		if err != nil {
			return Pools{}, err
		}
		db := openPostgres(servers, l, open)
		return Pools{Kind: PostgreSQL, Write: db, Read: db}, nil
	}
	return Pools{}, wrong("it must begin with sqlite:// or postgres://")
}
