package store

import (
	"context"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/shared/personal"
)

// RecoveryCodesLeft implements accounts.ExplainStore.
func (s *Store) RecoveryCodesLeft(ctx context.Context, accountID int64) (n int, err error) {
	err = s.scan(ctx, "count recovery codes", s.read.NewRaw("SELECT count(*) FROM personal_recovery_codes WHERE account_id = ?", accountID),
		&n)
	return n, err
}

// WaitingRequests implements accounts.ExplainStore. The index of accounts and kinds has
// this order within a kind.
func (s *Store) WaitingRequests(ctx context.Context, kind outbox.Kind, limit int) ([]outbox.Job, error) {
	var rows []jobRow
	err := s.scan(ctx, "read waiting requests", s.read.NewSelect().Model(&rows).
		Where("account_id IS NULL").Where("kind = ?", kind).Order("id DESC").Limit(limit))
	return convert(rows, (*jobRow).job), err
}

// MailRefusal implements accounts.ExplainStore.
func (s *Store) MailRefusal(ctx context.Context, accountID int64) (accounts.MailRefusal, error) {
	r := accounts.MailRefusal{AccountID: accountID}
	var when micros
	err := s.scan(ctx, "find the refusal of a mail", s.read.NewRaw(
		"SELECT email_key, kind, reply, time FROM personal_mail_refusals WHERE account_id = ?", accountID), &r.EmailKey, &r.Kind, &r.Reply, &when)
	r.Time = when.time()
	return r, err
}

// SentMails implements accounts.ExplainStore.
func (s *Store) SentMails(ctx context.Context, digests [][32]byte, after time.Time) ([]accounts.SentMail, error) {
	if len(digests) == 0 {
		return nil, nil
	}
	var rows []sentMailRow
	err := s.scan(ctx, "read sent mails", s.selectSentMails(s.read, digests, after), &rows)
	return convert(rows, (*sentMailRow).mail), err
}

// LastEvent implements accounts.ExplainStore. An index finds the latest entry of each
// type.
func (s *Store) LastEvent(ctx context.Context, accountID int64, types ...personal.EventType) (time.Time, error) {
	var last micros
	for _, t := range types {
		var when micros
		err := s.scan(ctx, "find the last event", s.read.NewRaw(`SELECT coalesce(max(time), 0) FROM (
			SELECT time FROM personal_audit WHERE account_id = ? AND type = ? ORDER BY id DESC LIMIT 1) AS last`, accountID, t), &when)
		if err != nil {
			return time.Time{}, err
		}
		if when <= s.latest() {
			last = max(last, when)
		}
	}
	return last.time(), nil
}
