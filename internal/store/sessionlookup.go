package store

import (
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/token"
)

// This file holds the queries that requests of signed-in users run: finding, rotating
// and touching a session. Writes run in natural batches (see batcher), and so do lookups
// on PostgreSQL, where most of a query's cost is its round trip and its planning.
//
// Prepared statements (SQLite) and batches (PostgreSQL) bypass bun, which writes values
// into the text and scans by reflection. A single write on PostgreSQL, a write that runs
// alone and a lookup of a whole account use bun.

// sessionWrite is a rotation or a touch.
type sessionWrite struct {
	session accounts.Session // as its caller has read it; of a touch: ID, Current and Marks
	rotated func(now time.Time) accounts.Session
	used    bool // of a touch: the current hash was used
}

// written holds the values that a sessionWrite stores. newest is nil for a touch, and marks for one
// that leaves them.
type written struct {
	before                  []byte // the digest that must still be current, for a rotation, a first use and marks
	newest, marks           []byte
	rotated, used, lastSeen micros // used of a touch: 0 if the hash was not used
	rotations               int64
}

func (w sessionWrite) at(now time.Time) written {
	if w.rotated == nil {
		touch := written{before: w.session.Current[:], lastSeen: at(now)}
		if w.used {
			touch.used = at(now)
		}
		if w.session.Marks != nil {
			touch.marks = encodeMarks(w.session.Marks)
		}
		return touch
	}
	r := newSessionRow(w.rotated(now))
	return written{
		before: w.session.Current[:], newest: r.Current, marks: r.Marks,
		rotated: r.Rotated, used: r.Used, lastSeen: r.LastSeen, rotations: r.Rotations,
	}
}

// result returns the outcome of a write that changed this many rows: ErrStale for a
// rotation that changed none. A touch of a missing session is not an error.
func (w sessionWrite) result(rows int64) error {
	if rows == 0 && w.rotated != nil {
		return accounts.ErrStale
	}
	return nil
}

// RotateSession implements accounts.SessionStore.
//
// The statement's condition decides races. It also makes a repetition safe: if a
// rotation was committed but its response is lost, it runs again and is stale,
// because the digest has changed. The caller then reads the session again and finds
// its hash to be the predecessor of the new one.
func (s *Store) RotateSession(ctx context.Context, session accounts.Session, rotated func(now time.Time) accounts.Session) error {
	return s.writeSession(ctx, "rotate a session", sessionWrite{session: session, rotated: rotated})
}

// TouchSession implements accounts.SessionStore.
func (s *Store) TouchSession(ctx context.Context, t accounts.SessionTouch) error {
	return s.writeSession(ctx, "touch a session", sessionWrite{
		session: accounts.Session{ID: t.ID, Current: t.Current, Marks: t.Marks}, used: t.Used,
	})
}

func (s *Store) writeSession(ctx context.Context, doing string, w sessionWrite) error {
	defer s.observe(WriteSession, time.Now())
	span := s.startSpan(ctx, doing)
	_, err := s.writes.do(ctx, w)
	err = wrap(ctx, doing, err)
	endSpan(span, err)
	return err
}

// postgresBatchTimeout is the time limit of a batch on PostgreSQL, which waits for no
// row lock. It is short because a connection may have died unnoticed, behind a firewall
// for example: the other calls must not wait long for each such connection of the pool.
const postgresBatchTimeout = 2 * time.Second

// newWrites returns the batcher of session writes. A batch holds at most one write per
// session, because the PostgreSQL statement updates a row once. There is one slot:
// SQLite has one writer, and on PostgreSQL more slots make smaller batches, which cost
// more. A batch on SQLite may have to wait for other processes that write.
func (s *Store) newWrites() *batcher[sessionWrite, struct{}] {
	b := &batcher[sessionWrite, struct{}]{
		slots: 1, limit: 256, batchTimeout: operationTimeout, timeout: operationTimeout,
		key:     func(w sessionWrite) int64 { return w.session.ID },
		run:     s.writeSQLite,
		alone:   s.writeAlone,
		observe: func(size int) { s.observer.ObserveBatch(WriteSession, size) },
	}
	if s.pools.Kind == dbconn.PostgreSQL {
		b.batchTimeout, b.run = postgresBatchTimeout, s.writePostgres
	}
	return b
}

// The statements of single writes, with ? as placeholder. Append anyID or unlockedID. A false time
// becomes that of the write, see [accounts.MaxAhead].
const (
	rotateSession = `UPDATE personal_sessions SET newest = ?, rotated = ?, used = ?, last_seen = ?, rotations = ?, marks = ?,
			created = CASE WHEN created > ? THEN ? ELSE created END
		WHERE newest = ? AND id = `
	touchSession = `UPDATE personal_sessions SET last_seen = ?,
			created = CASE WHEN created > ? THEN ? ELSE created END, rotated = CASE WHEN rotated > ? THEN ? ELSE rotated END,
			used = CASE WHEN used > ? THEN ? WHEN ? <> 0 AND newest = ? AND used = 0 THEN ? ELSE used END,
			marks = CASE WHEN newest = ? THEN coalesce(?, marks) ELSE marks END
		WHERE id = `

	anyID      = "?"
	unlockedID = "(SELECT id FROM personal_sessions WHERE id = ? FOR UPDATE SKIP LOCKED)" // of PostgreSQL
)

// statement returns the statement that makes the write, without the id's placeholder,
// and its arguments.
func (w sessionWrite) statement(now time.Time) (query string, args []any) {
	c := w.at(now)
	latest, instead := int64(at(now.Add(accounts.MaxAhead))), int64(at(now))
	if w.rotated == nil {
		var marks any // a nil []byte would be an empty one
		if c.marks != nil {
			marks = c.marks
		}
		return touchSession, []any{int64(c.lastSeen), latest, instead, latest, instead,
			latest, instead, int64(c.used), c.before, int64(c.used), c.before, marks, w.session.ID}
	}
	return rotateSession, []any{c.newest, int64(c.rotated), int64(c.used), int64(c.lastSeen), c.rotations, c.marks, latest, instead, c.before,
		w.session.ID}
}

// writeAlone makes one write in its own transaction, which limits how long it
// waits for a lock.
func (s *Store) writeAlone(ctx context.Context, w sessionWrite) (struct{}, error) {
	err := s.write.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		query, args := w.statement(s.Now())
		n, err := exec(ctx, tx, query+anyID, args...)
		if err != nil {
			return err
		}
		return w.result(n)
	})
	return struct{}{}, err
}

// writeSQLite makes the writes in one transaction, with one flush to the disk.
func (s *Store) writeSQLite(ctx context.Context, writes []sessionWrite) ([]result[struct{}], error) {
	tx, err := s.pools.Write.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	// The driver starts a goroutine for each statement that can be cancelled; these are
	// too short for that.
	short := context.WithoutCancel(ctx)
	results := make([]result[struct{}], len(writes))
	now := s.Now()
	for i, w := range writes {
		query, args := w.statement(now)
		n, err := rowsAffected(tx.ExecContext(short, query+anyID, args...))
		if err != nil {
			return nil, err
		}
		results[i].err = w.result(n)
	}
	return results, tx.Commit()
}

// writePostgres makes the writes with one statement. A row that another transaction has
// locked is skipped, and its write runs alone. So does a write that changes no row,
// which is rare: alone it gets its own result.
//
// It cannot deadlock with batches of other nodes or with changes of accounts, because
// it never waits for a row lock.
func (s *Store) writePostgres(ctx context.Context, writes []sessionWrite) ([]result[struct{}], error) {
	now := s.Now()
	if len(writes) == 1 {
		query, args := writes[0].statement(now)
		n, err := exec(ctx, s.write, query+unlockedID, args...)
		if n == 0 {
			return []result[struct{}]{{err: errAlone}}, err
		}
		return make([]result[struct{}], 1), err
	}
	var id, before, newest, rotated, used, lastSeen, rotations, marks pgArray
	for _, w := range writes {
		c := w.at(now)
		id.int(w.session.ID)
		before.bytes(c.before)
		newest.bytes(c.newest)
		rotated.int(int64(c.rotated))
		used.int(int64(c.used))
		lastSeen.int(int64(c.lastSeen))
		rotations.int(c.rotations)
		marks.bytes(c.marks)
	}
	rows, err := s.pools.Write.QueryContext(ctx, writeSessions, id.literal(), before.literal(), newest.literal(),
		rotated.literal(), used.literal(), lastSeen.literal(), rotations.literal(), marks.literal(),
		int64(at(now.Add(accounts.MaxAhead))), int64(at(now)))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	changed := make(map[int64]struct{}, len(writes))
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		changed[id] = struct{}{}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	results := make([]result[struct{}], len(writes))
	for i, w := range writes {
		if _, ok := changed[w.session.ID]; !ok {
			results[i].err = errAlone
		}
	}
	return results, nil
}

const writeSessions = `WITH locked AS (
		SELECT id FROM personal_sessions WHERE id = ANY ($1::bigint[]) FOR UPDATE SKIP LOCKED)
	UPDATE personal_sessions s SET
		newest = coalesce(n.newest, s.newest),
		created = CASE WHEN s.created > $9 THEN $10 ELSE s.created END,
		rotated = CASE WHEN n.newest IS NOT NULL THEN n.rotated WHEN s.rotated > $9 THEN $10 ELSE s.rotated END,
		used = CASE WHEN n.newest IS NOT NULL OR n.used <> 0 AND s.newest = n.before AND s.used = 0 THEN n.used
			WHEN s.used > $9 THEN $10 ELSE s.used END,
		last_seen = n.last_seen,
		rotations = CASE WHEN n.newest IS NULL THEN s.rotations ELSE n.rotations END,
		marks = CASE WHEN s.newest = n.before THEN coalesce(n.marks, s.marks) ELSE s.marks END
	FROM locked, unnest($1::bigint[], $2::bytea[], $3::bytea[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bytea[])
		AS n (id, before, newest, rotated, used, last_seen, rotations, marks)
	WHERE s.id = locked.id AND n.id = locked.id AND (n.newest IS NULL OR s.newest = n.before)
	RETURNING s.id`

// pgArray builds a PostgreSQL array literal of integers or byte strings.
type pgArray []byte

func (a *pgArray) int(n int64) { *a = append(strconv.AppendInt(*a, n, 10), ',') }

// bytes appends a byte string; nil is NULL.
func (a *pgArray) bytes(b []byte) {
	if b == nil {
		*a = append(*a, "NULL,"...)
		return
	}
	*a = append(hex.AppendEncode(append(*a, `"\\x`...), b), `",`...)
}

func (a *pgArray) literal() string {
	return "{" + strings.TrimSuffix(string(*a), ",") + "}"
}

// foundSession is a session as FindSession returns it.
type foundSession struct {
	session accounts.Session
	account accounts.Account
}

// FindSession implements accounts.SessionStore.
func (s *Store) FindSession(ctx context.Context, selector token.Selector, part accounts.AccountPart) (accounts.Session, accounts.Account,
	error) {
	const doing = "find a session"
	if part == accounts.WholeAccount {
		var row sessionRow
		err := s.scan(ctx, doing, where(s.read, s.read.NewSelect().Model(&row).ColumnExpr("s.*").Relation("Account"),
			"s.selector = ?", selector[:]))
		if err != nil {
			return accounts.Session{}, accounts.Account{}, err
		}
		return row.session(), row.Account.account(), nil
	}
	defer s.observe(FindSession, time.Now())
	span := s.startSpan(ctx, doing)
	var found foundSession
	var err error
	if s.pools.Kind == dbconn.SQLite {
		found, err = s.findSQLite(ctx, selector, part)
	} else {
		found, err = s.finds[part].do(ctx, selector)
	}
	err = wrap(ctx, doing, err)
	endSpan(span, err)
	return found.session, found.account, err
}

// findColumns are the columns that FindSession reads, except with WholeAccount.
var findColumns = [...]string{
	accounts.AccountState:   stateColumns,
	accounts.AccountProfile: stateColumns + ", a.login, a.name, a.email, a.fields, a.email_verified, a.two_factor_key, a.password_hash",
}

const stateColumns = "s.selector, s.id, s.account_id, s.chain_key, s.newest, s.created, s.rotated, s.used, s.last_seen, s.rotations, s.marks, a.disabled"

func findQuery(part accounts.AccountPart, condition string) string {
	return "SELECT " + findColumns[part] +
		" FROM personal_sessions s JOIN personal_accounts a ON a.id = s.account_id WHERE s.selector " + condition
}

// findSQLite finds one session.
func (s *Store) findSQLite(ctx context.Context, selector token.Selector, part accounts.AccountPart) (found foundSession, err error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	rows, err := s.pools.Read.QueryContext(ctx, findQuery(part, "= ?"), selector[:])
	if err != nil {
		return found, err
	}
	err = scanSessions(rows, part, func(_ token.Selector, f foundSession) { found = f })
	if err == nil && found.session.ID == 0 {
		err = sql.ErrNoRows
	}
	return found, err
}

// newFinds returns the batcher of lookups that read a part of the account.
func (s *Store) newFinds(part accounts.AccountPart) *batcher[token.Selector, foundSession] {
	query := findQuery(part, "= ANY ($1::bytea[])")
	find := func(ctx context.Context, selectors []token.Selector) ([]result[foundSession], error) {
		var list pgArray
		for i := range selectors {
			list.bytes(selectors[i][:])
		}
		rows, err := s.pools.Read.QueryContext(ctx, query, list.literal())
		if err != nil {
			return nil, err
		}
		found := make(map[token.Selector]foundSession, len(selectors))
		err = scanSessions(rows, part, func(selector token.Selector, f foundSession) { found[selector] = f })
		if err != nil {
			return nil, err
		}
		results := make([]result[foundSession], len(selectors))
		for i, selector := range selectors {
			f, ok := found[selector]
			results[i].value = f
			if !ok {
				results[i].err = sql.ErrNoRows
			}
		}
		return results, nil
	}
	return &batcher[token.Selector, foundSession]{
		slots: 2, limit: 256, batchTimeout: postgresBatchTimeout, timeout: operationTimeout, run: find,
		alone: func(ctx context.Context, selector token.Selector) (foundSession, error) {
			results, err := find(ctx, []token.Selector{selector})
			if err != nil {
				return foundSession{}, err
			}
			return results[0].value, results[0].err
		},
		observe: func(size int) { s.observer.ObserveBatch(FindSession, size) },
	}
}

// scanSessions calls f with each row of findColumns.
func scanSessions(rows *sql.Rows, part accounts.AccountPart, f func(token.Selector, foundSession)) error {
	defer rows.Close()
	var row sessionRow
	var account accountRow
	var selector token.Selector
	var chainKey token.ChainKey
	var current [32]byte
	into := []any{
		fixed(selector[:]), &row.ID, &row.AccountID, fixed(chainKey[:]), fixed(current[:]),
		(*int64)(&row.Created), (*int64)(&row.Rotated), (*int64)(&row.Used), (*int64)(&row.LastSeen), &row.Rotations, &row.Marks,
		&account.Disabled, &account.Login, &account.Name, &account.Email, &account.Fields, &account.EmailVerified, &account.TwoFactorKey, &account.PasswordHash,
	}
	if part == accounts.AccountState {
		into = into[:12]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		account.ID = row.AccountID
		session := row.session()
		session.Selector, session.ChainKey, session.Current = selector, chainKey, current
		f(selector, foundSession{session, account.account()})
	}
	return rows.Err()
}

// fixed scans a byte string of a fixed length without allocating.
type fixed []byte

// Scan implements [database/sql.Scanner].
func (f fixed) Scan(column any) error {
	b, ok := column.([]byte)
	if !ok || len(b) != len(f) {
		return fmt.Errorf("the column holds a %T, want %d bytes", column, len(f))
	}
	copy(f, b)
	return nil
}
