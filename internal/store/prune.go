package store

import (
	"context"
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
	pruneAttempts = `DELETE FROM personal_throttle WHERE key IN (
		SELECT key FROM personal_throttle WHERE tat <= ? LIMIT ? ?)`
)

// PruneOptions say what is no longer of use.
type PruneOptions struct {
	Lifetimes   accounts.Lifetimes // sessions not alive at these go
	MailsBefore time.Time          // mails reserved until then count towards no limit any more
	Batch       int                // rows removed at once; 0: 500
}

// Prune removes sessions and mailed tokens that have ended, and reservations and
// attempts that count no more. It goes in batches, passes over rows in use, and
// so keeps nobody waiting for long. Nothing depends on it but the disk.
func (s *Store) Prune(ctx context.Context, o PruneOptions) error {
	if o.Batch < 1 {
		o.Batch = defaultBatch
	}
	now := at(s.Now())
	for _, p := range []struct {
		query  string
		before micros
	}{
		{pruneUnused, at(o.Lifetimes.SeenAfter)},
		{pruneOld, at(o.Lifetimes.CreatedAfter)},
		{pruneTokens, now},
		{pruneMails, at(o.MailsBefore)},
		{pruneAttempts, now},
	} {
		if err := s.pruneAll(ctx, p.query, p.before, o.Batch); err != nil {
			return fault(ctx, "prune", err)
		}
	}
	return nil
}

func (s *Store) pruneAll(ctx context.Context, query string, before micros, batch int) error {
	for {
		n, err := s.pruneBatch(ctx, query, before, batch)
		if err != nil || n < int64(batch) {
			return err
		}
	}
}

func (s *Store) pruneBatch(ctx context.Context, query string, before micros, batch int) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	return exec(ctx, s.write, query, before, batch, s.skipLocked)
}
