package store

import (
	"context"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/transfer"
)

// Traces returns what the use of an account has left, see transfer.PersonSource. Of
// each kind there is little: sign-ins and mails are limited.
func (s *Store) Traces(ctx context.Context, accountID int64) (transfer.Traces, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	var places, mails, tokens []traceRow
	for _, q := range []struct {
		rows  *[]traceRow
		query string
	}{
		{&places, "SELECT place AS text, seen AS time FROM personal_places WHERE account_id = ? ORDER BY seen, place"},
		{&mails, "SELECT purpose AS text, created AS time FROM personal_mails WHERE account_id = ? ORDER BY created, mail_id"},
		{&tokens, "SELECT email AS text, expires AS time FROM personal_mail_tokens WHERE account_id = ? AND email <> '' ORDER BY expires, digest"},
	} {
		if err := s.read.NewRaw(q.query, accountID).Scan(ctx, q.rows); err != nil {
			return transfer.Traces{}, fault(ctx, "read places and mails", err)
		}
	}
	return transfer.Traces{
		KnownAddresses: traces(places, func(r traceRow) transfer.KnownAddress {
			return transfer.KnownAddress{Address: r.Text, LastSeen: r.Time.time()}
		}),
		Mails: traces(mails, func(r traceRow) transfer.SentMail {
			return transfer.SentMail{Purpose: accounts.MailPurpose(r.Text), Sent: r.Time.time()}
		}),
		NewEmails: traces(tokens, func(r traceRow) transfer.NewEmail { return transfer.NewEmail{Email: r.Text, Expires: r.Time.time()} }),
	}, nil
}

type traceRow struct {
	Text string
	Time micros
}

// traces is never nil: an empty list says that nothing is kept.
func traces[T any](rows []traceRow, as func(traceRow) T) []T {
	all := make([]T, len(rows))
	for i, r := range rows {
		all[i] = as(r)
	}
	return all
}
