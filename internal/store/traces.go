package store

import (
	"context"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/moving"
)

// Traces returns what the use of an account has left, see moving.PersonSource. Of
// each kind there is little: sign-ins and mails are limited.
func (s *Store) Traces(ctx context.Context, accountID int64) (moving.Traces, error) {
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
			return moving.Traces{}, fault(ctx, "read places and mails", err)
		}
	}
	return moving.Traces{
		Places: traces(places, func(r traceRow) moving.Place { return moving.Place{Place: r.Text, LastSeen: r.Time.time()} }),
		Mails: traces(mails, func(r traceRow) moving.SentMail {
			return moving.SentMail{Purpose: accounts.MailPurpose(r.Text), Sent: r.Time.time()}
		}),
		NewEmails: traces(tokens, func(r traceRow) moving.NewEmail { return moving.NewEmail{Email: r.Text, Expires: r.Time.time()} }),
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
