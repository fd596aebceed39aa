package transfer

import (
	"bufio"
	"compress/gzip"
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/text/language"

	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/transfer/dump"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

// Move says how the users of another system come from its dump.
type Move struct {
	System string  // as --from names it
	Prefix *string // of the tables; nil: the one that the dump has
	Logins Logins
	NewIDs bool     // the database chooses the ids; else they are those of the dump
	Fields []Mapped // the profile fields that come
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
}

// Check returns an error if the move cannot be done, whatever the dump holds.
func (m Move) Check(schema *userfields.Schema) error {
	if findSystem(m.System) == nil {
		return fmt.Errorf("unknown system %.40q", m.System)
	}
	fields, seen := fieldNames(schema), map[string]bool{}
	for _, f := range m.Fields {
		switch {
		case f.Ours != columnName && !fields[f.Ours]:
			return fmt.Errorf("%.40q is not a user field given with --fields", f.Ours)
		case seen[f.Ours]:
			return fmt.Errorf("%.40q is given twice", f.Ours)
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
		s.lists[f.Name] = f.Type == personal.TypeTags || f.Type == personal.TypeLinkSet
	}
	plain, err := uncompressed(file)
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

// uncompressed returns the content of a file that may be compressed with gzip.
func uncompressed(file io.Reader) (io.Reader, error) {
	b := bufio.NewReaderSize(file, 64<<10)
	if magic, _ := b.Peek(2); string(magic) != "\x1f\x8b" {
		return b, nil
	}
	z, err := gzip.NewReader(b)
	if err != nil {
		return nil, fmt.Errorf("reading the compressed file: %w", err)
	}
	return z, nil
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

// stagedTable is a table of the temporary database.
type stagedTable struct {
	name    string
	columns int // and before them the line
	rows    []any
}

// stagedRows are rows to insert.
type stagedRows struct {
	table  *stagedTable
	create []string // statements that come first
	values []any
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

// read reads the dump and sends the rows.
func (w *stager) read(file io.Reader) error {
	var err error
	if w.system.realm {
		err = w.readRealm(file)
	} else {
		err = dump.ReadSQL(file, w.open)
	}
	if err == nil {
		err = w.flushAll()
	}
	return err
}

// prefix returns what was found of the tables with a prefix, nil if it is not wanted.
func (w *stager) prefix(prefix string) (*staging, error) {
	if w.move.Prefix != nil && *w.move.Prefix != prefix {
		return nil, nil
	}
	p := w.prefixes[prefix]
	if p == nil {
		if len(w.prefixes) == maxPrefixes {
			return nil, fmt.Errorf("the dump has tables of %s with more than %d prefixes: give --prefix", w.system.name, maxPrefixes)
		}
		p = &staging{number: len(w.prefixes), keys: map[string]*int64{}}
		w.prefixes[prefix] = p
	}
	return p, nil
}

// table begins a table of the temporary database.
func (w *stager) table(name string, columns []string) (*stagedTable, error) {
	t := &stagedTable{name: name, columns: len(columns)}
	w.tables = append(w.tables, t)
	text := "CREATE TABLE " + name + " (line INTEGER"
	for _, c := range columns {
		text += ", " + c + " TEXT"
	}
	return t, w.send(stagedRows{create: []string{text + ")"}})
}

func (w *stager) send(rows stagedRows) error {
	select {
	case w.batches <- rows:
		return nil
	case <-w.ctx.Done():
		return context.Cause(w.ctx)
	}
}

// add adds a row to a table.
func (w *stager) add(t *stagedTable, line int, values ...any) error {
	if t.rows == nil {
		t.rows = make([]any, 0, stagedBatch*(1+t.columns))
	}
	t.rows = append(append(t.rows, line), values...)
	for _, v := range values {
		text, _ := v.(string)
		w.pending += len(text)
	}
	if w.pending > maxPending {
		return w.flushAll()
	}
	if len(t.rows) == cap(t.rows) {
		return w.flush(t)
	}
	return nil
}

func (w *stager) flushAll() error {
	for _, t := range w.tables {
		if err := w.flush(t); err != nil {
			return err
		}
	}
	return nil
}

func (w *stager) flush(t *stagedTable) error {
	rows := t.rows
	if t.rows = nil; len(rows) == 0 {
		return nil
	}
	for _, v := range rows {
		text, _ := v.(string)
		w.pending -= len(text)
	}
	return w.send(stagedRows{table: t, values: rows})
}

// open implements [dump.Open].
func (w *stager) open(name string, columns []string) (*dump.Table, error) {
	has := func(names ...string) bool {
		return !slices.ContainsFunc(names, func(n string) bool { return !slices.Contains(columns, n) })
	}
	if prefix, ok := strings.CutSuffix(name, w.system.users); ok && has(w.system.required...) {
		return w.openUsers(prefix, columns)
	}
	for _, a := range w.system.attributes {
		prefix, key, ok := a.match(name)
		a.value = strings.ReplaceAll(a.value, "*", key)
		wanted := slices.DeleteFunc([]string{a.user, a.value, a.key, a.only[0]}, func(c string) bool { return c == "" })
		if ok && has(wanted...) {
			return w.openAttributes(prefix, key, a, wanted)
		}
	}
	return nil, nil
}

func (w *stager) openUsers(prefix string, columns []string) (*dump.Table, error) {
	p, err := w.prefix(prefix)
	if p == nil || err != nil {
		return nil, err
	}
	if p.users, err = w.table(fmt.Sprintf("users_%d", p.number), w.system.staged()); err != nil {
		return nil, err
	}
	staged := w.system.staged()
	wanted := slices.DeleteFunc(slices.Clone(staged), func(c string) bool { return !slices.Contains(columns, c) })
	places := make([]int, len(wanted))
	for i, c := range wanted {
		places[i] = slices.Index(staged, c)
	}
	row := make([]any, len(staged))
	return &dump.Table{Columns: wanted, Row: func(line int, values [][]byte) error {
		for i, v := range values {
			if row[places[i]] = nil; v != nil {
				row[places[i]] = string(v)
			}
		}
		return w.add(p.users, line, row...)
	}}, nil
}

func (w *stager) openAttributes(prefix, key string, a attributes, wanted []string) (*dump.Table, error) {
	p, err := w.prefix(prefix)
	if p == nil || err != nil {
		return nil, err
	}
	return &dump.Table{Columns: wanted, Row: func(line int, values [][]byte) error {
		if a.only[0] != "" && string(values[len(values)-1]) != a.only[1] {
			return nil
		}
		name := []byte(key)
		if a.key != "" {
			name = values[2]
		}
		if a.before != "" {
			name = append([]byte(a.before), name...)
		}
		return w.attribute(p, line, values[0], name, values[1], a.json)
	}}, nil
}

// decoded returns the value of an attribute.
func decoded(value []byte, isJSON bool) string {
	var text string
	if isJSON && !dump.TooDeep(value) && json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}

// attribute counts a value of a user, and stages it if it is wanted.
func (w *stager) attribute(p *staging, line int, user, key, value []byte, isJSON bool) error {
	if len(value) == 0 {
		return nil
	}
	n := p.keys[string(key)]
	if n == nil && (w.wanted[string(key)] || w.keys < maxAllKeys && len(p.keys) < maxKeys && len(key) <= maxKey) {
		w.keys++
		n = new(int64)
		p.keys[string(key)] = n
	}
	if n != nil {
		*n++
	}
	if !w.wanted[string(key)] {
		return nil
	}
	if p.attributes == nil {
		var err error
		if p.attributes, err = w.table(fmt.Sprintf("attributes_%d", p.number), []string{"user", "key", "value"}); err != nil {
			return err
		}
	}
	return w.add(p.attributes, line, string(user), string(key), decoded(value, isJSON))
}

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

// readRealm reads an export of Keycloak.
func (w *stager) readRealm(file io.Reader) error {
	p, err := w.prefix("")
	if err != nil {
		return err
	}
	if p == nil {
		return errors.New("--prefix: an export of Keycloak has no tables")
	}
	if p.users, err = w.table("users_0", w.system.staged()); err != nil {
		return err
	}
	return dump.ReadRealm(file, func(line int, u dump.User) error {
		if u.ServiceAccount != "" {
			w.Other++
			return nil
		}
		row := []any{u.ID, u.Username, u.Email, u.FirstName, u.LastName, strconv.FormatBool(u.Enabled == nil || *u.Enabled),
			strconv.FormatBool(u.EmailVerified), nil, realmHash(u)}
		if u.CreatedTimestamp > 0 {
			row[7] = time.UnixMilli(u.CreatedTimestamp).UTC().Format(time.RFC3339Nano)
		}
		for key, values := range u.Attributes {
			for _, value := range values {
				if err := noNUL(line, key, value); err != nil {
					return err
				}
				if err := w.attribute(p, line, []byte(u.ID), []byte(key), []byte(value), false); err != nil {
					return err
				}
			}
		}
		for i := range row {
			if text, ok := row[i].(string); ok {
				if err := noNUL(line, text); err != nil {
					return err
				}
			}
		}
		return w.add(p.users, line, row...)
	})
}

func noNUL(line int, texts ...string) error {
	if slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(s, "\x00") }) {
		return &dump.Error{Line: line, Reason: "a NUL in a value, which no account can have"}
	}
	return nil
}

// realmHash returns the hash of a user's password in the PHC string format; "" if the user has
// none.
func realmHash(u dump.User) string {
	for _, c := range u.Credentials {
		if c.Type != "password" {
			continue
		}
		var secret struct{ Value, Salt string }
		data := struct {
			HashIterations       int
			Algorithm            string
			AdditionalParameters map[string][]string
		}{c.Iterations, c.Algorithm, nil}
		if json.Unmarshal([]byte(c.SecretData), &secret) != nil || json.Unmarshal([]byte(c.CredentialData), &data) != nil {
			secret.Value, secret.Salt = c.Value, c.Salt
		}
		raw := func(text string) string {
			bytes, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return "?" // is refused as no hash
			}
			return base64.RawStdEncoding.EncodeToString(bytes)
		}
		first := func(name string) string { return strings.Join(data.AdditionalParameters[name], "") }
		switch name := data.Algorithm; name {
		case "argon2":
			return fmt.Sprintf("$argon2%s$v=19$m=%s,t=%d,p=%s$%s$%s",
				first("type"), first("memory"), data.HashIterations, first("parallelism"), raw(secret.Salt), raw(secret.Value))
		case "pbkdf2", "pbkdf2-sha256", "pbkdf2-sha512":
			if name == "pbkdf2" {
				name = "pbkdf2-sha1"
			}
			return fmt.Sprintf("$%s$i=%d$%s$%s", name, data.HashIterations, raw(secret.Salt), raw(secret.Value))
		default:
			return "keycloak:" + name
		}
	}
	return ""
}

// write stores the rows.
func (w *stager) write(ctx context.Context) error {
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("creating a temporary database: %w", err)
	}
	defer tx.Rollback()
	full := map[*stagedTable]*sql.Stmt{}
	for rows := range w.batches {
		for _, text := range rows.create {
			if _, err := tx.ExecContext(ctx, text); err != nil {
				return fmt.Errorf("creating a temporary table: %w", err)
			}
		}
		if rows.table == nil {
			continue
		}
		statement, n := full[rows.table], len(rows.values)/(1+rows.table.columns)
		one := "(?" + strings.Repeat(",?", rows.table.columns) + ")"
		text := "INSERT INTO " + rows.table.name + " VALUES " + one + strings.Repeat(","+one, n-1)
		if n == stagedBatch && statement == nil {
			if statement, err = tx.PrepareContext(ctx, text); err == nil {
				full[rows.table] = statement
			}
		}
		switch {
		case err != nil:
		case n == stagedBatch:
			_, err = statement.ExecContext(ctx, rows.values...)
		default:
			_, err = tx.ExecContext(ctx, text, rows.values...)
		}
		if err != nil {
			return fmt.Errorf("storing rows of the dump in a temporary file: %w", err)
		}
	}
	if err := ctx.Err(); err != nil { // the reader has failed
		return err
	}
	return tx.Commit()
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
		return fmt.Errorf("--prefix: the dump has no table %s%s of %s", *w.move.Prefix, w.system.users, w.system.name)
	case len(found) == 0:
		return fmt.Errorf("the dump has no table of %s's users, whose name ends in %s, with the columns %s",
			w.system.name, w.system.users, strings.Join(w.system.required, ", "))
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
		statements = append(statements, fmt.Sprintf("ALTER TABLE attributes_%d RENAME TO attributes", p.number))
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
	all := int64(0)
	query := "SELECT count(*), count(CASE WHEN " + w.system.isUser() + " THEN 1 END) FROM users"
	if err := w.db.QueryRowContext(ctx, query).Scan(&all, &w.Total); err != nil {
		return fmt.Errorf("counting the users of the dump: %w", err)
	}
	w.Other += all - w.Total
	for _, f := range w.move.Fields {
		if !slices.Contains(w.system.staged(), f.Theirs) && w.Keys[f.Theirs] == 0 {
			return fmt.Errorf("--map: no user in the dump has a field %.40q; fields are %s", f.Theirs, strings.Join(w.sources(), ", "))
		}
	}
	return nil
}

// distinct returns an error if two users have the same id: each would get what the other has, and a
// file of them would take time by their product.
func (w *stager) distinct(ctx context.Context) error {
	id := w.system.required[0]
	var line int
	err := w.db.QueryRowContext(ctx, "SELECT line FROM (SELECT line, rowid AS place, row_number() OVER (PARTITION BY "+id+" ORDER BY rowid) AS n"+
		" FROM users WHERE "+w.system.isUser()+" AND "+id+" IS NOT NULL) WHERE n = 2 ORDER BY place LIMIT 1").Scan(&line)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("comparing the ids of the dump: %w", err)
	}
	return &dump.Error{Line: line, Reason: "an earlier user has the same id: import the dump as the system's own tool writes it"}
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
		list = append(list, shown(key))
	}
	return list
}

// records implements [Input]: the users of the dump, in its order. form is that of hashes for which
// the system states none; "": the system does.
func (s *Staged) records(ctx context.Context, _ *userfields.Schema, form string) (records, error) {
	of := func(select1 string) string {
		return "(SELECT " + select1 + " FROM attributes WHERE user = users." + s.system.required[0] + " AND key = ?)"
	}
	const one = "value" // the first, because SQLite takes the first row
	text, args := "SELECT line, "+s.system.required[0], []any(nil)
	for _, c := range s.system.columns {
		theirs := c.theirs
		if key, ok := attributeOf(theirs); ok {
			theirs, args = of(one), append(args, key)
		}
		text += ", " + theirs
	}
	for _, f := range s.move.Fields {
		switch {
		case slices.Contains(s.system.staged(), f.Theirs):
			text += ", users." + f.Theirs
		case s.lists[f.Ours]:
			text += ", CASE WHEN coalesce(" + of("sum(length(value))") + ", 0) > " + strconv.Itoa(maxRecord) + " THEN '[' ELSE " +
				of("nullif(json_group_array(value), '[]')") + " END" // SQLite would build a list of any length; [ is refused
			args = append(args, f.Theirs, f.Theirs)
		default:
			text, args = text+", "+of(one), append(args, f.Theirs)
		}
	}
	rows, err := s.db.QueryContext(ctx, text+" FROM users WHERE "+s.system.isUser()+" ORDER BY users.rowid", args...)
	if err != nil {
		return nil, fmt.Errorf("reading the users of the dump: %w", err)
	}
	if form == "" {
		form = s.system.form
	}
	r := &stagedRecords{Staged: s, form: form, rows: rows, values: make([]sql.NullString, 1+len(s.system.columns)+len(s.move.Fields))}
	r.into = []any{&r.line}
	for i := range r.values {
		r.into = append(r.into, &r.values[i])
	}
	return r, nil
}

func attributeOf(theirs string) (key string, ok bool) {
	key, ok = strings.CutPrefix(theirs, "{")
	return strings.TrimSuffix(key, "}"), ok
}

// stagedRecords are the users of a dump as the records of an import. Their offsets are numbers
// of users.
type stagedRecords struct {
	*Staged
	form   string // of hashes that are digits and a salt
	rows   *sql.Rows
	n      int64
	line   int
	values []sql.NullString // the id, the columns, the fields
	into   []any
}

func (r *stagedRecords) next() (record, error) {
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return record{}, fmt.Errorf("reading the users of the dump: %w", err)
		}
		return record{}, io.EOF
	}
	if err := r.rows.Scan(r.into...); err != nil {
		return record{}, fmt.Errorf("reading the users of the dump: %w", err)
	}
	r.n++
	rec := record{line: r.line, end: r.n, label: "user " + shown(r.values[0].String),
		columns: make(map[string]personal.Input, len(r.values)), fields: map[string]personal.Input{}}
	for i, c := range r.system.columns {
		rec.columns[c.ours] = personal.Text(r.values[1+i].String)
	}
	if rec.columns[columnHash].IsZero() {
		rec.columns[columnHash] = personal.Text(password.Unusable)
	}
	if strings.Contains(rec.columns[columnHash].Text, ":") {
		rec.columns[columnForm] = personal.Text(r.form)
	}
	rec.columns[columnLocale] = personal.Text(localeTag(rec.columns[columnLocale].Text))
	if r.move.NewIDs {
		delete(rec.columns, columnID)
	}
	for i, f := range r.move.Fields {
		value := r.values[1+len(r.system.columns)+i].String
		input := personal.Text(value)
		if r.lists[f.Ours] && strings.HasPrefix(value, "[") {
			input = parseList(value)
		}
		if f.Ours == columnName {
			rec.columns[columnName] = input
		} else {
			rec.fields[f.Ours] = input
		}
	}
	login := rec.columns[columnLogin].Text
	if chosen := r.move.Logins.choose(login, rec.columns[columnEmail].Text, r.values[0].String); chosen != login {
		rec.columns[columnLogin], rec.renamed = personal.Text(chosen), login
	}
	return rec, nil
}

func (r *stagedRecords) close() error { return r.rows.Close() }

// localeTag returns the BCP 47 tag of a locale such as de_DE_formal or pt-br, or of its language;
// "" if it is none.
func localeTag(locale string) string {
	parts := strings.FieldsFunc(locale, func(r rune) bool { return r == '_' || r == '-' || r == '@' || r == '.' })
	for n := min(len(parts), 3); n > 0; n-- {
		if tag, err := language.Parse(strings.Join(parts[:n], "-")); err == nil && tag != language.Und {
			return tag.String()
		}
	}
	return ""
}
