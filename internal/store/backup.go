package store

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/transfer"
)

// BackUp copies a SQLite database to a new file, see [dbconn.Pools.CopyTo], whose errors
// it returns. Its time is limited by ctx alone.
func (s *Store) BackUp(ctx context.Context, path string) error {
	return s.pools.CopyTo(ctx, path)
}

// Revoked counts what RevokeAll has removed.
type Revoked struct{ Sessions, Tokens, Mails int64 }

// RevokeAll ends the sessions of all users, voids all mailed tokens and drops the mails
// that wait to be sent, in one transaction. No address is fully known any more. What waits
// for the host remains: events and erasures.
func (s *Store) RevokeAll(ctx context.Context) (r Revoked, err error) {
	// On its own connections, because it may take longer than a request.
	pools, err := dbconn.Open(s.url, dbconn.MigrationLimits)
	if err != nil {
		return Revoked{}, err
	}
	defer func() { _ = pools.Close() }()
	err = s.db(pools.Write).RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) (err error) {
		r.Mails, err = exec(ctx, tx, "DELETE FROM personal_jobs WHERE kind NOT IN (?)", // also the mails of a newer version
			bun.List(append([]outbox.Kind{transfer.KindWrap}, accounts.RetriedWhileStored...)))
		if err == nil {
			r.Tokens, err = exec(ctx, tx, "DELETE FROM personal_mail_tokens")
		}
		if err == nil {
			_, err = exec(ctx, tx, "DELETE FROM personal_mailed_codes")
		}
		if err == nil {
			r.Sessions, err = exec(ctx, tx, "DELETE FROM personal_sessions")
		}
		if err == nil {
			_, err = exec(ctx, tx, "UPDATE personal_known_addresses SET credential_version = NULL")
		}
		return err
	})
	if err != nil {
		return Revoked{}, wrap(ctx, "revoke all sessions and mailed tokens", err)
	}
	return r, nil
}
