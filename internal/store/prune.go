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
	Lifetimes       accounts.Lifetimes // of sessions; expired ones are removed
	MailsBefore     time.Time          // mails counted until then, which count towards no limit any more
	PendingBefore   time.Time          // secrets that have waited for their confirmation since then
	AddressesBefore time.Time          // known addresses without a sign-in since then
	CodesBefore     time.Time          // refused codes until then, which count no more
	AuditBefore     time.Time          // audit entries written, and events waiting for the host, until then
	MaxAudit        int                // entries of accounts.FloodEvents with so many later entries, and events with so many behind them; 0: none
	MaxPerAccount   int                // audit entries with so many later ones of the same account and type; 0: none
	Batch           int                // rows removed in one statement; 0: 500
}

// Prune removes expired sessions, mailed tokens and pending second factors, mails and attempts
// that no longer count, old known addresses and audit entries, and events that
// the host has not taken for too long. It works in short batches and skips locked
// rows, so others hardly wait for it. At the end it empties SQLite's write-ahead
// log, which still holds the rows deleted lately.
func (s *Store) Prune(ctx context.Context, o PruneOptions) error {
	o.Batch = cmp.Or(o.Batch, 500)
	for _, p := range []struct {
		table, key, condition string
		args                  []any
	}{
		{"personal_sessions", "id", "last_seen <= ?", []any{at(o.Lifetimes.SeenAfter)}},
		{"personal_sessions", "id", "created <= ?", []any{at(o.Lifetimes.CreatedAfter)}},
		{"personal_mail_tokens", "digest", "expires <= ?", []any{at(s.Now())}},
		{"personal_pending_factors", "session_id", "created <= ?", []any{at(o.PendingBefore)}},
		{"personal_sent_mails", "digest, kind, mail_id", "created <= ?", []any{at(o.MailsBefore)}},
		// Earlier releases counted mails by account.
		{"personal_mails", "account_id, purpose, mail_id", "created <= ?", []any{at(o.MailsBefore)}},
		{"personal_places", "account_id, place", "seen <= ?", []any{at(o.AddressesBefore)}},
		{"personal_refused_codes", "account_id, refused", "refused <= ?", []any{at(o.CodesBefore)}},
		// Earlier releases stored the progress of imports among the jobs.
		{"personal_jobs", "id", "kind LIKE 'import %' AND created <= ?", []any{at(s.Now())}},
		{"personal_audit", "id", "time <= ?", []any{at(o.AuditBefore)}},
		{"personal_audit", "id", "id <= (SELECT max(id) FROM personal_audit) - ? AND type IN (?) ORDER BY id",
			[]any{cmp.Or(o.MaxAudit, math.MaxInt64), bun.List(accounts.FloodEvents)}},
		{"personal_throttle", "key", "tat <= ?", []any{at(s.Now())}},
	} {
		if _, err := s.prune(ctx, o.Batch, p.table, p.key, p.condition, p.args...); err != nil {
			return err
		}
	}
	if err := s.pruneAccounts(ctx, o); err != nil {
		return err
	}
	if err := s.pruneEvents(ctx, o); err != nil {
		return err
	}
	if err := s.emptyLog(ctx); !errors.Is(err, errLogInUse) { // else the next run empties it
		return err
	}
	return nil
}

// pruneAccounts limits what one account can add to the audit log. The limit is by
// type, so that no user can push out the entries of another type. It visits only
// accounts with entries since its last run, or all after a start.
func (s *Store) pruneAccounts(ctx context.Context, o PruneOptions) error {
	if o.MaxPerAccount == 0 {
		return nil
	}
	const doing = "prune the audit log of accounts"
	var latest int64
	err := s.scan(ctx, doing, s.read.NewRaw("SELECT coalesce(max(id), 0) FROM personal_audit"), &latest)
	if err != nil {
		return err
	}
	var full []struct {
		AccountID int64
		Type      personal.EventType
		Oldest    int64 // the oldest entry that remains
	}
	err = s.scan(ctx, doing, s.read.NewRaw(`SELECT account_id, type, oldest FROM (
			SELECT account_id, type, (SELECT id FROM personal_audit a WHERE a.account_id = recent.account_id AND a.type = recent.type
				ORDER BY id DESC LIMIT 1 OFFSET ?) AS oldest
			FROM (SELECT DISTINCT account_id, type FROM personal_audit WHERE id > ? AND account_id IS NOT NULL) recent) AS pairs
		WHERE oldest IS NOT NULL`, o.MaxPerAccount-1, s.auditPruned.Load()), &full)
	if err != nil {
		return err
	}
	for _, f := range full {
		_, err := s.prune(ctx, o.Batch, "personal_audit", "id", "account_id = ? AND type = ? AND id < ? ORDER BY id", f.AccountID, f.Type, f.Oldest)
		if err != nil {
			return err
		}
	}
	s.auditPruned.Store(latest)
	return nil
}

// pruneEvents limits the events that wait while the host takes none, by age and by
// number, as for the audit log. It finds the last one to be dropped without a lock.
func (s *Store) pruneEvents(ctx context.Context, o PruneOptions) error {
	var last int64
	err := s.scan(ctx, "prune events", s.read.NewRaw(`SELECT coalesce(max(id), 0) FROM personal_jobs WHERE kind = ?0 AND (created <= ?1
			OR id <= (SELECT id FROM personal_jobs WHERE kind = ?0 ORDER BY id DESC LIMIT 1 OFFSET ?2))`,
		accounts.KindEvent, at(o.AuditBefore), cmp.Or(o.MaxAudit, math.MaxInt64)), &last)
	if err != nil || last == 0 {
		return err
	}
	dropped, err := s.prune(ctx, o.Batch, "personal_jobs", "id", "kind = ? AND id <= ? ORDER BY id", accounts.KindEvent, last)
	if dropped > 0 {
		s.log.ErrorContext(ctx, "events that the host has not taken were dropped, the oldest first", slog.Int64("events", dropped))
	}
	return err
}

// prune removes the rows that fulfil a condition, batch by batch, until a batch is
// not full.
func (s *Store) prune(ctx context.Context, batch int, table, key, condition string, args ...any) (removed int64, err error) {
	query := fmt.Sprintf("DELETE FROM %[1]s WHERE (%[2]s) IN (SELECT %[2]s FROM %[1]s WHERE %[3]s LIMIT ? ?)", table, key, condition)
	args = append(args, batch, s.skipLocked)
	for {
		n, err := s.exec(ctx, "prune "+table, query, args...)
		removed += n
		if err != nil || n < int64(batch) {
			return removed, err
		}
	}
}
