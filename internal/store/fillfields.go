package store

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

// AccountFields implements accounts.FieldsStore. It bypasses bun, because a rehearsal
// reads all accounts.
func (s *Store) AccountFields(ctx context.Context, after int64, n int) ([]accounts.AccountFields, error) {
	const doing = "read user fields"
	defer s.observe(Query, time.Now())
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	page, err := s.accountFields(ctx, after, n)
	return page, wrap(ctx, doing, err)
}

func (s *Store) accountFields(ctx context.Context, after int64, n int) ([]accounts.AccountFields, error) {
	rows, err := s.pools.Read.QueryContext(ctx,
		"SELECT id, login, fields FROM personal_accounts WHERE id > $1 ORDER BY id LIMIT $2", after, n)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	page := make([]accounts.AccountFields, 0, n)
	for rows.Next() {
		var a accounts.AccountFields
		if err := rows.Scan(&a.ID, &a.Login, &a.Fields); err != nil {
			return nil, err
		}
		page = append(page, a)
	}
	return page, rows.Err()
}

type fillRow struct {
	bun.BaseModel `bun:"table:personal_fill"`

	ID                     int64 `bun:",pk"`
	Revision               string
	State                  personal.FillState
	AfterID                int64
	Checked, Total, Filled int64
	Started, Ended         micros
}

// StartFill implements accounts.FieldsStore. The row is written first: it orders runs that
// are started at the same time.
func (s *Store) StartFill(ctx context.Context, revision string, jobs func(started time.Time) []accounts.NewJob) error {
	const doing = "start to fill in user fields"
	var total int64
	if err := s.scan(ctx, doing, s.read.NewRaw("SELECT count(*) FROM personal_accounts"), &total); err != nil {
		return err
	}
	return s.inTx(ctx, doing, func(ctx context.Context, tx bun.Tx) error {
		var started micros
		err := tx.NewRaw(`INSERT INTO personal_fill (id, revision, state, after_id, checked, total, filled, started, ended)
			VALUES (1, ?, ?, 0, 0, ?, 0, ?, 0)
			ON CONFLICT (id) DO UPDATE SET revision = excluded.revision, state = excluded.state, after_id = 0, checked = 0,
				total = excluded.total, filled = 0, ended = 0,
				started = CASE WHEN excluded.started > personal_fill.started THEN excluded.started ELSE personal_fill.started + 1 END
			RETURNING started`, revision, personal.FillRunning, total, at(s.Now())).Scan(ctx, &started)
		if err != nil {
			return err
		}
		if _, err := exec(ctx, tx, "DELETE FROM personal_jobs WHERE kind = ?", accounts.KindFill); err != nil {
			return err
		}
		return s.addJobs(ctx, tx, jobs(started.time()))
	})
}

// LastFill implements accounts.FieldsStore.
func (s *Store) LastFill(ctx context.Context) (personal.FieldsFill, error) {
	var row fillRow
	err := s.scan(ctx, "read the progress of filling in user fields", s.read.NewSelect().Model(&row).Where("id = 1"))
	if errors.Is(err, accounts.ErrNotFound) {
		return personal.FieldsFill{}, nil
	}
	return personal.FieldsFill{
		Revision: row.Revision, State: row.State, Checked: row.Checked, Total: row.Total, Filled: row.Filled,
		Started: row.Started.time(), Ended: row.Ended.time(),
	}, err
}

// FillBatch implements accounts.FieldsStore. It reads the accounts without locks and then
// locks only those to be changed, in the order of their ids, for two round trips: others
// that lock an account do so one at a time, so they cannot deadlock with it.
func (s *Store) FillBatch(
	ctx context.Context, started time.Time, n int, fill func(userfields.Values) (userfields.Values, bool),
) (left bool, err error) {
	const doing = "fill in user fields"
	var run fillRow
	err = s.scan(ctx, doing, s.read.NewSelect().Model(&run).Where("id = 1"))
	if errors.Is(err, accounts.ErrNotFound) {
		return false, nil
	}
	if err != nil || run.Started != at(started) || run.State != personal.FillRunning {
		return false, err
	}
	page, err := s.AccountFields(ctx, run.AfterID, n)
	if err != nil {
		return false, err
	}
	var unset, damaged []int64
	for _, a := range page {
		values, err := userfields.DecodeValues(a.Fields)
		if err != nil { // a write from outside; one account must not stop the others
			damaged = append(damaged, a.ID)
			continue
		}
		if _, changed := fill(values); changed {
			unset = append(unset, a.ID)
		}
	}
	left = len(page) == n
	err = s.inTx(ctx, doing, func(ctx context.Context, tx bun.Tx) error {
		var now fillRow
		err := tx.NewRaw("SELECT * FROM personal_fill WHERE id = 1 ?", s.forUpdate).Scan(ctx, &now)
		if err != nil {
			return err
		}
		if now.Started != run.Started || now.State != run.State {
			left = false
			return nil
		}
		if now.AfterID != run.AfterID {
			left = true
			return nil
		}
		writes, err := s.fillLocked(ctx, tx, unset, fill)
		if err != nil {
			return err
		}
		run.Checked += int64(len(page))
		run.Filled += int64(len(writes))
		if len(page) > 0 {
			run.AfterID = page[len(page)-1].ID
		}
		if !left {
			run.State, run.Ended = personal.FillDone, at(s.Now())
		}
		return execAll(ctx, tx, append(writes, tx.NewRaw(
			"UPDATE personal_fill SET state = ?, after_id = ?, checked = ?, filled = ?, ended = ? WHERE id = 1",
			run.State, run.AfterID, run.Checked, run.Filled, run.Ended))...)
	})
	if err == nil && len(damaged) > 0 {
		s.log.WarnContext(ctx, "accounts whose user fields cannot be read were left out", slog.Int("accounts", len(damaged)),
			slog.Int64("first", damaged[0]))
	}
	if left {
		s.yieldWriteLock(ctx)
	}
	return left, err
}

// fillLocked locks accounts and returns the statements that store what fill changes.
func (s *Store) fillLocked(
	ctx context.Context, tx bun.Tx, ids []int64, fill func(userfields.Values) (userfields.Values, bool),
) (writes []schema.QueryAppender, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var rows []struct {
		ID     int64
		Fields fieldValues
	}
	err = tx.NewRaw("SELECT id, fields FROM personal_accounts WHERE id IN (?) ORDER BY id ?", bun.List(ids), s.forUpdate).Scan(ctx, &rows)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	for _, row := range rows {
		if filled, changed := fill(userfields.Values(row.Fields)); changed {
			writes = append(writes, tx.NewRaw("UPDATE personal_accounts SET fields = ? WHERE id = ?", fieldValues(filled), row.ID))
		}
	}
	return writes, nil
}

// SupersedeFill implements accounts.FieldsStore.
func (s *Store) SupersedeFill(ctx context.Context, started time.Time) error {
	_, err := s.exec(ctx, "end the filling in of user fields",
		"UPDATE personal_fill SET state = ?, ended = ? WHERE id = 1 AND started = ? AND state = ?",
		personal.FillSuperseded, at(s.Now()), at(started), personal.FillRunning)
	return err
}
