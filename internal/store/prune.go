package store

import (
	"cmp"
	"context"
	"math"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
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
	pruneOldAudit = `DELETE FROM personal_audit WHERE id IN (
		SELECT id FROM personal_audit WHERE time <= ? LIMIT ? ?)`
	pruneMuchAudit = `DELETE FROM personal_audit WHERE id IN (
		SELECT id FROM personal_audit WHERE id <= (SELECT max(id) FROM personal_audit) - ? ORDER BY id LIMIT ? ?)`
	pruneAttempts = `DELETE FROM personal_throttle WHERE key IN (
		SELECT key FROM personal_throttle WHERE tat <= ? LIMIT ? ?)`
)

// PruneOptions say what is no longer of use.
type PruneOptions struct {
	Lifetimes   accounts.Lifetimes // sessions not alive at these go
	MailsBefore time.Time          // mails reserved until then count towards no limit any more
	PlacesSeen  time.Time          // places where nobody has signed in since then go
	AuditBefore time.Time          // audit lines until then go
	AuditMost   int                // and the oldest beyond so many; 0: none
	Batch       int                // rows removed at once; 0: 500
}

// Prune removes sessions and mailed tokens that have ended, reservations and
// attempts that count no more, and places and audit lines of old. It goes in
// batches, passes over rows in use, and so keeps nobody waiting for long. At the
// end it empties SQLite's log of writes, where all that was deleted lately still is.
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
		{pruneOldAudit, int64(at(o.AuditBefore))},
		{pruneMuchAudit, int64(cmp.Or(o.AuditMost, math.MaxInt64))},
		{pruneAttempts, int64(at(s.Now()))},
	} {
		if err := s.pruneAll(ctx, p.query, p.limit, o.Batch); err != nil {
			return fault(ctx, "prune", err)
		}
	}
	return s.emptyLog(ctx)
}

func (s *Store) pruneAll(ctx context.Context, query string, limit int64, batch int) error {
	for {
		n, err := s.pruneBatch(ctx, query, limit, batch)
		if err != nil || n < int64(batch) {
			return err
		}
	}
}

func (s *Store) pruneBatch(ctx context.Context, query string, limit int64, batch int) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	return exec(ctx, s.write, query, limit, batch, s.skipLocked)
}
