package store

import (
	"context"

	"github.com/cms-personal/personal/internal/transfer"
)

// Traces implements transfer.PersonSource. The lists are short: sign-ins and
// requests for mails are limited.
func (s *Store) Traces(ctx context.Context, accountID int64) (t transfer.Traces, err error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	read := func(query string) (rows []traceRow) {
		if err == nil {
			err = s.scan(ctx, "read known addresses and new e-mails", s.read.NewRaw(query, accountID), &rows)
		}
		return rows
	}
	places := read("SELECT place AS text, seen AS time FROM personal_places WHERE account_id = ? ORDER BY seen, place")
	tokens := read("SELECT email AS text, expires AS time FROM personal_mail_tokens WHERE account_id = ? AND purpose = 'email' ORDER BY expires, digest")
	return transfer.Traces{
		KnownAddresses: convert(places, func(r *traceRow) transfer.KnownAddress {
			return transfer.KnownAddress{Address: r.Text, LastSeen: r.Time.time()}
		}),
		NewEmails: convert(tokens, func(r *traceRow) transfer.NewEmail { return transfer.NewEmail{Email: r.Text, Expires: r.Time.time()} }),
	}, err
}

type traceRow struct {
	Text string
	Time micros
}
