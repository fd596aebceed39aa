package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/uptrace/bun"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/shared/personal"
)

// PruneOptions say which rows are removed.
type PruneOptions struct {
	Lifetimes          accounts.Lifetimes // of sessions; expired ones are removed
	MailsBefore        time.Time          // mails counted until then, which count towards no limit any more
	PendingBefore      time.Time          // secrets that have waited for their confirmation since then
	AttemptsBefore     time.Time          // attempts with passkeys that wait since then
	AddressesBefore    time.Time          // known addresses without a sign-in since then
	CodesBefore        time.Time          // refused codes until then, which count no more
	AuditBefore        time.Time          // audit entries written, and events waiting for the host, until then
	MaxAudit           int                // entries of [personal.EventKind].Flood types with so many later entries, and events with so many behind them; 0: none
	MaxAuditPerAccount int                // audit entries with so many later ones of the same account and type; 0: none
	Batch              int                // rows removed in one transaction; 0: 500
}

// Prune removes expired sessions, mailed tokens and codes, pending second factors, mails and attempts
// that no longer count, tokens, factors and attempts whose creation is false, old known addresses and audit entries, and events that
// the host has not taken for too long. It does so in steps, each in short transactions that
// skip locked rows, so others hardly wait for it. A step that has much to do leaves the
// rest to the next call. One that fails does not stop the others; the error holds those of
// all. One node works at a time: Prune ends when it meets another. Nothing is removed
// for an hour after a clock jumped.
//
// At the end it empties SQLite's write-ahead log, which still holds rows deleted recently.
func (s *Store) Prune(ctx context.Context, o PruneOptions) error {
	if may, err := s.mayDelete(ctx); err != nil || !may {
		return err
	}
	o.Batch = cmp.Or(o.Batch, 500)
	errs := []error{s.noteRound(ctx)}
	for _, step := range s.pruneSteps(o) {
		ours, err := s.runStep(ctx, step)
		errs = append(errs, err)
		if !ours || ctx.Err() != nil {
			break
		}
	}
	if err := s.emptyLog(ctx); !errors.Is(err, errLogInUse) { // else the next run empties it
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// pruneStep removes rows of a table in parts.
type pruneStep struct {
	doing    string
	position string // the row of personal_sweeps that keeps how far the step is; "": it always begins anew
	parts    int    // in one round at most
	cycles   bool   // it goes through a whole table again and again, in cycleEvery at the soonest
	part     func(ctx context.Context, tx bun.Tx, position int64) (pruned, error)
	report   func(removed int64) // is told what a round has removed; may be nil
}

// pruned is the result of a part.
type pruned struct {
	position int64 // where the next part begins
	removed  int64
	more     bool // the round goes on with the next part
}

const (
	pruneParts  = 1000
	cycleEvery  = time.Minute
	cycleParts  = 100 // parts of a step that visits a whole table again and again
	pruneWindow = 20  // rows that are only looked at, for each one that may be removed
)

// pruneSteps are all steps, in the order in which they run. Sessions go before what depends
// on them.
func (s *Store) pruneSteps(o PruneOptions) []pruneStep {
	steps := []pruneStep{
		s.pruneCycle(o, "personal_sessions", "last_seen <= ? OR created <= ?", at(o.Lifetimes.SeenAfter), at(o.Lifetimes.CreatedAfter)),
		s.pruneExpired(o, "personal_mail_tokens", "digest", "expires", s.Now()),
		s.pruneFalse(o, "personal_mail_tokens", "digest"),
		s.pruneExpired(o, "personal_mailed_codes", "attempt", "expires", s.Now()),
		s.pruneFalse(o, "personal_mailed_codes", "attempt"),
		s.pruneExpired(o, "personal_pending_factors", "session_id", "created", o.PendingBefore),
		s.pruneFalse(o, "personal_pending_factors", "session_id"),
		s.pruneExpired(o, "personal_repeats", "session_id", "created", s.Now().Add(-accounts.RepeatLifetime)),
		s.pruneFalse(o, "personal_repeats", "session_id"),
		s.pruneExpired(o, "personal_passkey_ceremonies", "digest", "created", o.AttemptsBefore),
		s.pruneFalse(o, "personal_passkey_ceremonies", "digest"),
		s.pruneExpired(o, "personal_used_ceremonies", "digest", "expires", s.Now().Add(-time.Hour)), // whatever the clock of another node says
		s.pruneExpired(o, "personal_sent_mails", "digest, kind, mail_id", "created", o.MailsBefore),
		s.pruneExpired(o, "personal_known_addresses", "account_id, address", "seen", o.AddressesBefore),
		s.pruneExpired(o, "personal_refused_codes", "account_id, refused", "refused", o.CodesBefore),
		s.pruneExpired(o, "personal_audit", "id", "time", o.AuditBefore),
		s.pruneExpired(o, "personal_throttle", "key", "tat", s.Now()),
		s.pruneEvents(o),
	}
	if o.MaxAudit > 0 {
		steps = append(steps, s.pruneFlood(o))
	}
	if o.MaxAuditPerAccount > 0 {
		steps = append(steps, s.pruneAuditByAccount(o))
	}
	return steps
}

// runStep runs the parts of a step. Each is a transaction that holds the lock of Prune; ours
// is false if another node has it.
func (s *Store) runStep(ctx context.Context, step pruneStep) (ours bool, err error) {
	var removed int64
	for range step.parts {
		var done pruned
		err = s.inTx(ctx, step.doing, func(ctx context.Context, tx bun.Tx) error {
			if err := tx.NewRaw(s.pruning).Scan(ctx, &ours); err != nil || !ours {
				return err
			}
			var p sweepRow
			if step.position != "" {
				if p, err = sweepPosition(ctx, tx, step.position); err != nil {
					return err
				}
			}
			if now := s.Now(); step.cycles && p.Position == 0 {
				if now.Sub(p.Began.time()).Abs() < cycleEvery {
					return nil // another node has just done it
				}
				p.Began = at(now)
			}
			if done, err = step.part(ctx, tx, p.Position); err != nil || done.position == p.Position {
				return err
			}
			p.Position = done.position
			return setSweepPosition(ctx, tx, step.position, p)
		})
		if err != nil {
			ours = true // the others are tried
			break
		}
		removed += done.removed
		if !ours || !done.more {
			break
		}
		s.yieldWriteLock(ctx)
	}
	if step.report != nil && removed > 0 {
		step.report(removed)
	}
	return ours, err
}

// sweepRow is a row of personal_sweeps: how far a step is.
type sweepRow struct {
	Position int64
	Began    micros
}

// sweepPosition returns the row of a step, or none.
func sweepPosition(ctx context.Context, db bun.IDB, step string) (sweepRow, error) {
	var rows []sweepRow
	err := db.NewRaw("SELECT position, began FROM personal_sweeps WHERE step = ?", step).Scan(ctx, &rows)
	if err != nil || len(rows) == 0 {
		return sweepRow{}, err
	}
	return rows[0], nil
}

func setSweepPosition(ctx context.Context, tx bun.Tx, step string, row sweepRow) error {
	_, err := exec(ctx, tx, `INSERT INTO personal_sweeps (step, position, began) VALUES (?, ?, ?)
		ON CONFLICT (step) DO UPDATE SET position = excluded.position, began = excluded.began`, step, row.Position, row.Began)
	return err
}

// pruneExpired removes rows whose time has come. An index of the column finds them.
func (s *Store) pruneExpired(o PruneOptions, table, key, column string, until time.Time) pruneStep {
	return s.pruneWhere(o, "prune "+table, table, key, column+" <= ?", at(until))
}

// pruneFalse removes rows that count for nothing because their creation is false. An index of
// created finds them.
func (s *Store) pruneFalse(o PruneOptions, table, key string) pruneStep {
	return s.pruneWhere(o, "prune "+table+" of the future", table, key, "created > ?", s.latest())
}

func (s *Store) pruneWhere(o PruneOptions, doing, table, key, condition string, value micros) pruneStep {
	return pruneStep{doing: doing, parts: pruneParts, part: func(ctx context.Context, tx bun.Tx, _ int64) (pruned, error) {
		n, err := s.remove(ctx, tx, o.Batch, table, key, condition, value)
		return pruned{removed: n, more: n == int64(o.Batch)}, err
	}}
}

// pruneCycle removes rows that fulfil a condition without an index. It goes through the
// table by id; a table of millions of rows takes several rounds.
func (s *Store) pruneCycle(o PruneOptions, table, condition string, args ...any) pruneStep {
	return pruneStep{doing: "prune " + table, position: table, parts: cycleParts, cycles: true,
		part: func(ctx context.Context, tx bun.Tx, position int64) (pruned, error) {
			done, err := s.removeWindow(ctx, tx, o.Batch, table, position, math.MaxInt64, condition, args...)
			if done.position == math.MaxInt64 {
				done.position = 0
			}
			return done, err
		}}
}

// pruneFlood limits the number of audit entries that anyone can cause. It visits each entry
// once, when enough later ones exist.
func (s *Store) pruneFlood(o PruneOptions) pruneStep {
	const table = "personal_audit"
	return pruneStep{doing: "prune flooding audit entries", position: "flood", parts: pruneParts,
		part: func(ctx context.Context, tx bun.Tx, position int64) (pruned, error) {
			latest, err := latestAudit(ctx, tx)
			last := latest - int64(o.MaxAudit)
			if err != nil || last <= position {
				return pruned{position: position}, err
			}
			var floods []personal.EventType
			for _, k := range personal.EventKinds() {
				if k.Flood {
					floods = append(floods, k.Type)
				}
			}
			return s.removeWindow(ctx, tx, o.Batch, table, position, last, "type IN (?)", bun.List(floods))
		}}
}

// pruneAuditByAccount limits what one account can add to the audit log. The limit is by
// type, so that no user can push out the entries of another type. It visits each new entry
// once, and limits those of its account and type. With another limit it begins anew.
func (s *Store) pruneAuditByAccount(o PruneOptions) pruneStep {
	key := fmt.Sprintf("accounts %d", o.MaxAuditPerAccount)
	return pruneStep{doing: "prune the audit log of accounts", position: key, parts: pruneParts,
		part: func(ctx context.Context, tx bun.Tx, position int64) (pruned, error) {
			latest, err := latestAudit(ctx, tx)
			if err != nil || latest <= position {
				return pruned{position: position}, err
			}
			end, more, err := windowEnd(ctx, tx, "personal_audit", position, latest, o.Batch)
			if err != nil {
				return pruned{}, err
			}
			var full []struct {
				AccountID int64
				Type      personal.EventType
				Oldest    int64 // the oldest entry that remains
			}
			// Materialised: PostgreSQL would read the whole table for each window otherwise.
			err = tx.NewRaw(`WITH recent AS MATERIALIZED (SELECT DISTINCT account_id, type FROM personal_audit WHERE id > ? AND id <= ? AND account_id IS NOT NULL)
			SELECT account_id, type, oldest FROM (
				SELECT account_id, type, (SELECT id FROM personal_audit a WHERE a.account_id = recent.account_id AND a.type = recent.type
					ORDER BY id DESC LIMIT 1 OFFSET ?) AS oldest
				FROM recent) AS pairs
			WHERE oldest IS NOT NULL`, position, end, o.MaxAuditPerAccount-1).Scan(ctx, &full)
			if err != nil {
				return pruned{}, err
			}
			done := pruned{position: end, more: more}
			for _, f := range full {
				n, err := s.remove(ctx, tx, o.Batch, "personal_audit", "id", "account_id = ? AND type = ? AND id < ? ORDER BY id", f.AccountID, f.Type,
					f.Oldest)
				if err != nil {
					return pruned{}, err
				}
				if done.removed += n; done.removed >= int64(o.Batch) { // the next part removes the others
					return pruned{position: position, removed: done.removed, more: true}, nil
				}
			}
			return done, nil
		}}
}

func latestAudit(ctx context.Context, tx bun.Tx) (id int64, err error) {
	err = tx.NewRaw("SELECT coalesce(max(id), 0) FROM personal_audit").Scan(ctx, &id)
	return id, err
}

// pruneEvents limits the events that wait while the host takes none, by age and by
// number, as for the audit log. Those that wait are counted only if the ids of jobs are so
// far apart that there may be too many.
func (s *Store) pruneEvents(o PruneOptions) pruneStep {
	most := cmp.Or(o.MaxAudit, math.MaxInt64)
	step := pruneStep{doing: "prune events", parts: pruneParts, part: func(ctx context.Context, tx bun.Tx, _ int64) (pruned, error) {
		n, err := s.remove(ctx, tx, o.Batch, "personal_jobs", "id", `id IN (
				SELECT id FROM personal_jobs WHERE kind = ?0 ORDER BY id LIMIT ?1)
			AND (created <= ?2 OR id <= (SELECT id FROM personal_jobs WHERE kind = ?0
				AND (SELECT max(id) - min(id) FROM personal_jobs) >= ?3 ORDER BY id DESC LIMIT 1 OFFSET ?3)) ORDER BY id`,
			accounts.KindEvent, o.Batch, at(o.AuditBefore), most)
		return pruned{removed: n, more: n == int64(o.Batch)}, err
	}}
	step.report = func(dropped int64) {
		s.log.Error("events that the host has not taken were dropped, the oldest first", slog.Int64("events", dropped))
	}
	return step
}

// removeWindow looks at the next rows of a table after a position, up to the id last, and
// removes those that fulfil a condition, at most a batch.
func (s *Store) removeWindow(ctx context.Context, tx bun.Tx, batch int, table string, position, last int64, condition string,
	args ...any) (pruned, error) {
	end, more, err := windowEnd(ctx, tx, table, position, last, pruneWindow*batch)
	if err != nil {
		return pruned{}, err
	}
	args = append([]any{position, end}, args...)
	n, err := s.remove(ctx, tx, batch, table, "id", "id > ? AND id <= ? AND ("+condition+") ORDER BY id", args...)
	if n == int64(batch) { // there may be more in the window
		end, more = position, true
	}
	return pruned{position: end, removed: n, more: more}, err
}

// windowEnd returns the last id of the next n rows of a table after a position, or last if
// there are fewer up to that id.
func windowEnd(ctx context.Context, tx bun.Tx, table string, position, last int64, n int) (end int64, more bool, err error) {
	var ids []int64
	err = tx.NewRaw("SELECT id FROM ? WHERE id > ? AND id <= ? ORDER BY id LIMIT 1 OFFSET ?", bun.Ident(table), position, last, n-1).Scan(ctx,
		&ids)
	if err != nil || len(ids) == 0 {
		return last, false, err
	}
	return ids[0], ids[0] < last, nil
}

// remove deletes the rows that fulfil a condition, at most a batch.
func (s *Store) remove(ctx context.Context, tx bun.Tx, batch int, table, key, condition string, args ...any) (int64, error) {
	query := fmt.Sprintf("DELETE FROM %[1]s WHERE (%[2]s) IN (SELECT %[2]s FROM %[1]s WHERE %[3]s LIMIT ", table, key, condition)
	return exec(ctx, tx, query+fmt.Sprint(batch)+string(s.skipLocked)+")", args...)
}
