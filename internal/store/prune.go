package store

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/shared/personal"
)

const defaultBatch = 500

const (
	pruneUnused = `DELETE FROM personal_sessions WHERE id IN (
		SELECT id FROM personal_sessions WHERE last_seen <= ? LIMIT ? ?)`
	pruneOld = `DELETE FROM personal_sessions WHERE id IN (
		SELECT id FROM personal_sessions WHERE created <= ? LIMIT ? ?)`
	pruneTokens = `DELETE FROM personal_mail_tokens WHERE digest IN (
		SELECT digest FROM personal_mail_tokens WHERE expires <= ? LIMIT ? ?)`
	pruneMails = `DELETE FROM personal_mails WHERE (account_id, purpose, mail_id) IN (
		SELECT account_id, purpose, mail_id FROM personal_mails WHERE created <= ? LIMIT ? ?)`
	prunePlaces = `DELETE FROM personal_places WHERE (account_id, place) IN (
		SELECT account_id, place FROM personal_places WHERE seen <= ? LIMIT ? ?)`
	// How far imports were, as earlier releases noted it in the list of jobs.
	pruneNotes = `DELETE FROM personal_jobs WHERE id IN (
		SELECT id FROM personal_jobs WHERE kind LIKE 'import %' AND created <= ? LIMIT ? ?)`
	pruneOldAudit = `DELETE FROM personal_audit WHERE id IN (
		SELECT id FROM personal_audit WHERE time <= ? LIMIT ? ?)`
	// Only what anybody can cause as often as he likes: nobody is to push out of the
	// log what tells of changes and thefts.
	pruneMuchAudit = `DELETE FROM personal_audit WHERE id IN (
		SELECT id FROM personal_audit WHERE id <= (SELECT max(id) FROM personal_audit) - ?
			AND type IN ('sign_in_failed', 'throttled', 'signed_in', 'email_taken') ORDER BY id LIMIT ? ?)`
	pruneAccountAudit = `DELETE FROM personal_audit WHERE id IN (
		SELECT id FROM personal_audit WHERE account_id = ? AND type = ? AND id < ? ORDER BY id LIMIT ? ?)`
	pruneWaiting = `DELETE FROM personal_jobs WHERE id IN (
		SELECT id FROM personal_jobs WHERE kind = 'event' AND id <= ? ORDER BY id LIMIT ? ?)`
	pruneAttempts = `DELETE FROM personal_throttle WHERE key IN (
		SELECT key FROM personal_throttle WHERE tat <= ? LIMIT ? ?)`
)

// PruneOptions say what is no longer of use.
type PruneOptions struct {
	Lifetimes   accounts.Lifetimes // sessions not alive at these go
	MailsBefore time.Time          // mails reserved until then count towards no limit any more
	PlacesSeen  time.Time          // places where nobody has signed in since then go
	AuditBefore time.Time          // audit lines until then go, and events that wait for the host since
	AuditMost   int                // sign-ins, right or wrong, refused attempts and taken e-mails with so many newer lines go, and events with so many that wait; 0: none
	AuditEach   int                // audit lines with so many newer ones of the same account and type go; 0: none
	Batch       int                // rows removed at once; 0: 500
}

// Prune removes sessions and mailed tokens that have ended, reservations and
// attempts that count no more, places and audit lines of old, and events that the
// host has refused for as long. It goes in batches, passes over rows in use, and so
// keeps nobody waiting for long. At the end it empties SQLite's log of writes, where
// all that was deleted lately still is.
func (s *Store) Prune(ctx context.Context, o PruneOptions) error {
	if o.Batch < 1 {
		o.Batch = defaultBatch
	}
	for _, p := range []struct {
		query string
		limit int64
	}{
		{pruneUnused, int64(at(o.Lifetimes.SeenAfter))},
		{pruneOld, int64(at(o.Lifetimes.CreatedAfter))},
		{pruneTokens, int64(at(s.Now()))},
		{pruneMails, int64(at(o.MailsBefore))},
		{prunePlaces, int64(at(o.PlacesSeen))},
		{pruneNotes, int64(at(s.Now()))},
		{pruneOldAudit, int64(at(o.AuditBefore))},
		{pruneMuchAudit, int64(cmp.Or(o.AuditMost, math.MaxInt64))},
		{pruneAttempts, int64(at(s.Now()))},
	} {
		if _, err := s.pruneAll(ctx, o.Batch, p.query, p.limit); err != nil {
			return fault(ctx, "prune", err)
		}
	}
	if err := s.pruneAccounts(ctx, o); err != nil {
		return fault(ctx, "prune the audit log of accounts", err)
	}
	if err := s.pruneEvents(ctx, o); err != nil {
		return fault(ctx, "prune events", err)
	}
	if err := s.emptyLog(ctx); !errors.Is(err, errLogInUse) { // by then the next time
		return err
	}
	return nil
}

// pruneAccounts bounds what one account can fill the audit log with. It is by
// type, so that no user can push out what tells of something else. It looks only at
// accounts with entries since the last time, and after a start at all.
func (s *Store) pruneAccounts(ctx context.Context, o PruneOptions) error {
	if o.AuditEach == 0 {
		return nil
	}
	full, newest, err := s.fullAudits(ctx, o.AuditEach, s.auditPruned.Load())
	if err != nil {
		return err
	}
	for _, f := range full {
		if _, err := s.pruneAll(ctx, o.Batch, pruneAccountAudit, f.AccountID, f.Type, f.Oldest); err != nil {
			return err
		}
	}
	s.auditPruned.Store(newest)
	return nil
}

// fullAudit is an account that has more entries of a type than it may.
type fullAudit struct {
	AccountID int64
	Type      personal.EventType
	Oldest    int64 // the oldest entry that stays
}

// fullAudits returns those among the accounts with entries behind the given one,
// and the newest entry there is.
func (s *Store) fullAudits(ctx context.Context, most int, behind int64) (full []fullAudit, newest int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	if err := s.read.NewRaw("SELECT coalesce(max(id), 0) FROM personal_audit").Scan(ctx, &newest); err != nil {
		return nil, 0, err
	}
	err = s.read.NewRaw(`SELECT account_id, type, oldest FROM (
			SELECT account_id, type, (SELECT id FROM personal_audit a WHERE a.account_id = recent.account_id AND a.type = recent.type
				ORDER BY id DESC LIMIT 1 OFFSET ?) AS oldest
			FROM (SELECT DISTINCT account_id, type FROM personal_audit WHERE id > ? AND account_id IS NOT NULL) recent) AS pairs
		WHERE oldest IS NOT NULL`, most-1, behind).Scan(ctx, &full)
	return full, newest, err
}

// pruneEvents bounds what waits while the host takes no events: no longer than
// the audit log keeps them, and no more. Which those are is read without keeping
// anybody from writing.
func (s *Store) pruneEvents(ctx context.Context, o PruneOptions) error {
	last, err := s.lastOverdue(ctx, o)
	if err != nil || last == 0 {
		return err
	}
	dropped, err := s.pruneAll(ctx, o.Batch, pruneWaiting, last)
	if dropped > 0 {
		s.log.ErrorContext(ctx, "events that the host has not taken were dropped, the oldest first", slog.Int64("events", dropped))
	}
	return err
}

// lastOverdue returns the id of the last event that has waited for too long, or
// has too many behind it; 0 if none has.
func (s *Store) lastOverdue(ctx context.Context, o PruneOptions) (id int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	err = s.read.NewRaw(`SELECT coalesce(max(id), 0) FROM personal_jobs WHERE kind = 'event' AND (created <= ?
			OR id <= (SELECT id FROM personal_jobs WHERE kind = 'event' ORDER BY id DESC LIMIT 1 OFFSET ?))`,
		at(o.AuditBefore), cmp.Or(o.AuditMost, math.MaxInt64)).Scan(ctx, &id)
	return id, err
}

// pruneAll runs a query, whose last two arguments it adds, until a batch is not full.
func (s *Store) pruneAll(ctx context.Context, batch int, query string, args ...any) (removed int64, err error) {
	args = append(args, batch, s.skipLocked)
	for {
		n, err := s.pruneBatch(ctx, query, args)
		removed += n
		if err != nil || n < int64(batch) {
			return removed, err
		}
	}
}

func (s *Store) pruneBatch(ctx context.Context, query string, args []any) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	return exec(ctx, s.write, query, args...)
}
