package transfer

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/cms-personal/personal/internal/transfer/dump"
	"github.com/cms-personal/personal/shared/userfields"
)

// Move says how the users of another system come from its dump.
type Move struct {
	System string  // as --from names it
	Prefix *string // of the tables; nil: the one that the dump has
	Logins Logins
	NewIDs bool     // the database chooses the ids; else they are those of the dump
	Fields []Mapped // the profile fields that come
	Roles  []Role   // what becomes of roles, the most important first; none: they stay as they are
}

// Mapped is a field of the other system that becomes a user field, or the name.
type Mapped struct{ Theirs, Ours string }

// Staged are the users of a dump, in a temporary database.
type Staged struct {
	move   Move
	system *system
	db     *sql.DB
	lists  map[string]bool // user fields that are lists

	Total int64            // users that are imported, or refused
	Other int64            // rows of the table of users that are none, such as the system's own
	Keys  map[string]int64 // how many values each attribute has, by its key

	Marked bool // the end of the dump is, so that it is not cut off
}

// Check returns an error if the move cannot be done, whatever the dump holds.
func (m Move) Check(schema *userfields.Schema) error {
	if findSystem(m.System) == nil {
		return fmt.Errorf("unknown system %.40q", m.System)
	}
	fields, seen := fieldNames(schema), map[string]bool{}
	for _, f := range m.Fields {
		switch {
		case f.Theirs == roles && !fields[f.Ours]:
			return fmt.Errorf("--role: there is no user field %.40q: give --fields FILE with it (docs/roles.md), or --map roles=FIELD", f.Ours)
		case f.Ours != columnName && !fields[f.Ours]:
			return fmt.Errorf("--map: %.40q is not a user field given with --fields", f.Ours)
		case seen[f.Ours]:
			return fmt.Errorf("--map: %.40q is given twice", f.Ours)
		}
		seen[f.Ours] = true
	}
	return nil
}

// Stage reads a dump to its end into a database, which is new and the caller's to remove. So nothing
// is imported of a file that cannot be read as a whole. Errors name a line.
func (m Move) Stage(ctx context.Context, db *sql.DB, file io.Reader, schema *userfields.Schema) (*Staged, error) {
	if err := m.Check(schema); err != nil {
		return nil, err
	}
	s := &Staged{move: m, system: findSystem(m.System), db: db, lists: map[string]bool{}}
	for _, f := range schema.Fields() {
		s.lists[f.Name] = f.Type.Kind().List
	}
	plain, err := dump.Plain(file)
	if err != nil {
		return nil, err
	}
	work, working := errgroup.WithContext(ctx)
	w := &stager{Staged: s, ctx: working, batches: make(chan stagedRows, 2), wanted: s.wantedKeys(), prefixes: map[string]*staging{}}
	work.Go(func() error {
		defer close(w.batches)
		return w.read(plain)
	})
	work.Go(func() error { return w.write(working) })
	if err := work.Wait(); err != nil {
		return nil, err
	}
	if err := w.choose(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// stager writes what is wanted of a dump to the temporary database. Reading and writing run at
// the same time.
type stager struct {
	*Staged
	ctx      context.Context
	batches  chan stagedRows
	wanted   map[string]bool // attributes
	prefixes map[string]*staging
	keys     int // that are counted, of all prefixes
	tables   []*stagedTable
	pending  int // bytes of rows in all tables
}

// staging is what was found of the tables with a prefix.
type staging struct {
	number     int
	users      *stagedTable // nil: not found
	attributes *stagedTable
	keys       map[string]*int64
}

// The limits of what is staged.
const (
	stagedBatch = 64   // rows in a statement
	maxPrefixes = 100  // with tables of the system's names
	maxKeys     = 2000 // that are counted of a prefix
	maxAllKeys  = 10_000
	maxKey      = 255     // bytes of a key that is counted; MySQL's systems allow no more
	maxPending  = 2 << 20 // bytes of rows that are not sent yet
)

// wantedKeys returns the attributes that become columns of the import.
func (s *Staged) wantedKeys() map[string]bool {
	wanted := map[string]bool{}
	for _, f := range s.move.Fields {
		wanted[f.Theirs] = true
	}
	for _, c := range s.system.columns {
		if key, ok := attributeOf(c.theirs); ok {
			wanted[key] = true
		}
	}
	return wanted
}

// choose decides which prefix is that of the system, and prepares its tables for the query.
func (w *stager) choose(ctx context.Context) error {
	var found []string
	for prefix, p := range w.prefixes {
		if p.users != nil {
			found = append(found, prefix)
		}
	}
	slices.Sort(found)
	switch {
	case len(found) == 0 && w.move.Prefix != nil:
		return fmt.Errorf("--prefix: the dump has no table %s%s of %s", *w.move.Prefix, w.system.users[0], w.system.name)
	case len(found) == 0:
		return fmt.Errorf("the dump has no table of %s's users, whose name ends in %s, with the columns %s; correct --from, or dump this table with its definition",
			w.system.name, w.system.users[0], strings.Join(w.system.required, ", "))
	case len(found) > 1:
		return fmt.Errorf("the dump has the users of %s with several prefixes: choose one with --prefix=%.200q", w.system.name, found)
	}
	p := w.prefixes[found[0]]
	w.Keys = make(map[string]int64, len(p.keys))
	for key, n := range p.keys {
		w.Keys[key] = *n
	}
	statements := []string{fmt.Sprintf("ALTER TABLE users_%d RENAME TO users", p.number)}
	if p.attributes != nil {
		statements = append(statements, fmt.Sprintf("ALTER TABLE %s RENAME TO attributes", p.attributes.name))
	} else {
		statements = append(statements, "CREATE TABLE attributes (line, user, key, value)")
	}
	statements = append(statements, "CREATE INDEX attributes_of ON attributes (user, key)")
	for _, text := range statements {
		if _, err := w.db.ExecContext(ctx, text); err != nil {
			return fmt.Errorf("preparing the temporary database: %w", err)
		}
	}
	if err := w.distinct(ctx); err != nil {
		return err
	}
	if err := w.numbered(ctx); err != nil {
		return err
	}
	all := int64(0)
	query := "SELECT count(*), count(CASE WHEN " + w.system.isUser() + " THEN 1 END) FROM users"
	if err := w.db.QueryRowContext(ctx, query).Scan(&all, &w.Total); err != nil {
		return fmt.Errorf("counting the users of the dump: %w", err)
	}
	w.Other += all - w.Total
	for _, f := range w.move.Fields {
		if !slices.Contains(w.system.staged(), f.Theirs) && w.Keys[f.Theirs] == 0 {
			if f.Theirs == roles && !w.system.realm {
				return fmt.Errorf("--role: the dump has no roles: add the table %s, with its prefix", w.system.rolesTable())
			}
			return fmt.Errorf("--map: no user in the dump has a field %.40q; fields are %s", f.Theirs, strings.Join(w.sources(), ", "))
		}
	}
	return nil
}

// distinct returns an error if two users have the same id: each would get what the other has, and a
// file of them would take time by their product. A bad id is that of none.
func (w *stager) distinct(ctx context.Context) error {
	id := w.system.required[0]
	var line int
	err := w.db.QueryRowContext(ctx, "SELECT line FROM (SELECT line, rowid AS place, row_number() OVER (PARTITION BY "+id+" ORDER BY rowid) AS n"+
		" FROM users WHERE "+w.system.isUser()+" AND typeof("+id+") = 'text') WHERE n = 2 ORDER BY place LIMIT 1").Scan(&line)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("comparing the ids of the dump: %w", err)
	}
	return &dump.Error{Line: line, Reason: "an earlier user has the same id: import the dump as the system's own tool writes it"}
}

// numbered returns an error if no user has an id that an account can keep.
func (w *stager) numbered(ctx context.Context) error {
	if w.move.NewIDs || w.system.realm {
		return nil
	}
	id := w.system.required[0]
	var some, numbers bool
	query := "SELECT count(*) > 0, count(CASE WHEN " + id + " NOT GLOB '*[^0-9]*' THEN 1 END) > 0 FROM (SELECT " + id + " FROM users WHERE " + w.system.isUser() + " LIMIT 1000)"
	if err := w.db.QueryRowContext(ctx, query).Scan(&some, &numbers); err != nil {
		return fmt.Errorf("reading the ids of the dump: %w", err)
	}
	if some && !numbers {
		return fmt.Errorf("the ids of the users are no numbers, which accounts have: give --ids new, and keep theirs in a user field with --map %s=FIELD", id)
	}
	return nil
}

// isUser is the condition for rows that are users.
func (s *system) isUser() string {
	if s.without == "" {
		return "1"
	}
	return "(" + s.without + ") IS NOT TRUE"
}

// sources returns the names that --map can have, for a message: at most a hundred attributes, of
// those that most users have.
func (s *Staged) sources() []string {
	keys := slices.SortedFunc(maps.Keys(s.Keys), func(a, b string) int {
		return compareCounts(s.Keys[a], s.Keys[b], a, b)
	})
	list := s.system.staged()
	for _, key := range keys[:min(len(keys), 100)] {
		list = append(list, theirName(key))
	}
	return list
}
