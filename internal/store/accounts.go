package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"

	"github.com/uptrace/bun"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/shared/personal"
)

// insertTries bounds how often an insert is repeated when the conflicting row has
// disappeared before it could be read.
const insertTries = 3

// FindAccount implements accounts.SignInStore.
func (s *Store) FindAccount(ctx context.Context, q accounts.AccountQuery) (accounts.Account, error) {
	var row accountRow
	err := s.scan(ctx, "find an account", raw(s.read, `SELECT id, email, email_key, email_verified, password_hash, credential_version,
			disabled, unverified_key, two_factor_secret, two_factor_key, two_factor_step FROM personal_accounts a WHERE `+matches+" LIMIT 1",
		matchedBy(q)...), &row)
	return row.account(), err
}

// matches is the condition for the account that a query finds.
const matches = "(a.login_key = ? OR a.email_key = ? AND (NOT ? OR a.login_key = a.email_key))"

// matchedBy returns the values of matches.
func matchedBy(q accounts.AccountQuery) []any {
	return []any{orNull(q.LoginKey), orNull(q.EmailKey), q.OwnEmail}
}

// CreateAccount implements accounts.RegistrationStore.
func (s *Store) CreateAccount(
	ctx context.Context, a accounts.Account, first accounts.Session, jobs func(id int64) []accounts.NewJob, onTaken ...throttle.Charge,
) (id int64, err error) {
	return s.CreateWithIdentity(ctx, a, personal.Identity{}, &first, jobs, onTaken...)
}

// CreateWithoutSession implements accounts.RegistrationStore.
func (s *Store) CreateWithoutSession(ctx context.Context, a accounts.Account, jobs func(id int64) []accounts.NewJob) (id int64, err error) {
	return s.CreateWithIdentity(ctx, a, personal.Identity{}, nil, jobs)
}

// CreateWithIdentity implements accounts.RegistrationStore, and the methods above with the zero identity.
func (s *Store) CreateWithIdentity(ctx context.Context, a accounts.Account, i personal.Identity, first *accounts.Session,
	jobs func(id int64) []accounts.NewJob, onTaken ...throttle.Charge,
) (id int64, err error) {
	row := newAccountRow(a)
	created := func() *bun.RawQuery { return s.hasHash(row.ID, row.PasswordHash) } // after a failover an id may be given out twice
	if first != nil {
		row.LastSignIn = at(first.Created)
		created = s.hasSession(first.Selector)
	}
	var taken *accounts.TakenError
	if i != (personal.Identity{}) { // accounts without a password have the same hash
		created = func() *bun.RawQuery {
			return raw(s.write, "SELECT EXISTS (SELECT 1 FROM personal_identities WHERE issuer = ? AND subject = ? AND account_id = ?)",
				[]byte(i.Issuer), []byte(i.Subject), row.ID)
		}
	}
	err = s.inTxOrFound(ctx, "create an account", created, func(ctx context.Context, tx bun.Tx) error {
		if i != (personal.Identity{}) { // also for a request that is repeated, whose login is taken by the first one
			var known identityRow
			if err := selectIdentity(tx, i).Scan(ctx, &known); !errors.Is(err, sql.ErrNoRows) {
				return cmp.Or(err, accounts.ErrIdentityTaken)
			}
		}
		err := insertAccount(ctx, tx, &row)
		if errors.As(err, &taken) && taken.Email && len(onTaken) > 0 { // else nothing is to be committed
			return chargeAll(ctx, tx, onTaken, s.Now())
		}
		if err != nil {
			return err
		}
		if i != (personal.Identity{}) {
			stored := accounts.StoredIdentity{Identity: i, AccountID: row.ID, Linked: s.Now()}
			if first != nil {
				stored.LastUsed = stored.Linked // it opens the first session
			}
			n, err := insertIdentity(ctx, tx, stored)
			if err != nil {
				return err
			}
			if n == 0 {
				return accounts.ErrIdentityTaken
			}
		}
		if first != nil {
			session := newSessionRow(*first)
			session.ID, session.AccountID = 0, row.ID
			if _, err := tx.NewInsert().Model(&session).Exec(ctx); err != nil {
				return err
			}
		}
		return execAll(ctx, tx, insertJobs(tx, jobs(row.ID), s.Now())...)
	})
	switch {
	case err != nil:
		return 0, err
	case taken != nil:
		return 0, taken
	}
	return row.ID, nil
}

// insertAccount inserts the row and sets its id, or returns *TakenError. SQLite
// names no constraint in its errors, and PostgreSQL only the first one, so the
// statement inserts nothing on a conflict and the taken column is queried.
func insertAccount(ctx context.Context, tx bun.Tx, row *accountRow) error {
	for range insertTries {
		n, err := rowsAffected(tx.NewInsert().Model(row).On("CONFLICT DO NOTHING").Returning("id").Exec(ctx))
		if err != nil || n == 1 {
			return err
		}
		var taken accounts.TakenError
		err = tx.NewRaw("SELECT EXISTS (SELECT 1 FROM personal_accounts WHERE login_key = ?), "+
			"EXISTS (SELECT 1 FROM personal_accounts WHERE email_key = ?)", row.LoginKey, row.EmailKey).
			Scan(ctx, &taken.Login, &taken.Email)
		if err != nil {
			return err
		}
		if taken.Login || taken.Email {
			taken.Email = taken.Email && !taken.Login
			return &taken
		}
	}
	return errors.New("the conflicting values keep changing")
}

// UpdateProfile implements accounts.ProfileStore. The change must not use the
// store: on SQLite the transaction holds its only writing connection.
func (s *Store) UpdateProfile(
	ctx context.Context, id int64, change func(*accounts.Account) []accounts.NewJob,
) (changed accounts.Account, err error) {
	err = s.inTx(ctx, "update a profile", func(ctx context.Context, tx bun.Tx) error {
		row, err := s.lockAccount(ctx, tx, id)
		if err != nil {
			return err
		}
		changed = row.account()
		jobs := change(&changed)
		row.Name, row.Fields, row.Updated = changed.Name, fieldValues(changed.Fields), at(changed.Updated)
		changed = row.account() // without any other changes
		row.Search = searched(changed)
		if _, err := tx.NewUpdate().Model(&row).Column("name", "search", "fields", "updated").WherePK().Exec(ctx); err != nil {
			return err
		}
		return s.addJobs(ctx, tx, jobs)
	})
	return changed, err
}

// ReplacePassword implements accounts.PasswordStore.
//
// Its first statement checks the condition and locks the account's row. A sign-in
// that locked the row before has been committed by then, and the statement that
// ends the sessions sees its session; a later sign-in finds another credential
// version. So no session of the old password survives.
func (s *Store) ReplacePassword(
	ctx context.Context, before accounts.Account, hash string, keep accounts.KeptSession, code accounts.CodeUse,
	removeOtherWays bool, jobs func(removed, left accounts.OtherWays) []accounts.NewJob,
) error {
	replaced := func() *bun.RawQuery { return s.hasHash(before.ID, hash) } // the session may have ended with what began it
	return s.inTxOrFound(ctx, "replace a password", replaced, func(ctx context.Context, tx bun.Tx) error {
		err := execOne(ctx, tx, accounts.ErrStale, `UPDATE personal_accounts
			SET password_hash = ?, credential_version = credential_version + 1, updated = ?
			WHERE id = ? AND credential_version = ? AND NOT disabled`,
			hash, at(s.Now()), before.ID, before.CredentialVersion)
		if err != nil {
			return err
		}
		if err := s.useCode(ctx, tx, before.ID, code); err != nil {
			return err
		}
		if err := s.revokeExcept(ctx, tx, before.ID, keep); err != nil {
			return err
		}
		if err := forgetRefusedCodes(ctx, tx, before.ID); err != nil {
			return err
		}
		var removed, left accounts.OtherWays
		if removeOtherWays {
			removed, left, err = removeOtherWaysIn(ctx, tx, before.ID, wayIn{all: true})
		} else {
			left, err = otherWays(ctx, tx, before.ID)
		}
		if err != nil {
			return err
		}
		return s.addJobs(ctx, tx, jobs(removed, left))
	})
}

// revokeExcept replaces the secrets of a session of a locked account whose credential version
// was raised by one, keeps what the caller's address is to it, ends every other
// session, and voids all mailed tokens. ErrStale if the session has ended.
func (s *Store) revokeExcept(ctx context.Context, tx bun.Tx, accountID int64, keep accounts.KeptSession) error {
	kept := newSessionRow(keep.Session)
	err := execOne(ctx, tx, accounts.ErrStale, `UPDATE personal_sessions
		SET selector = ?, chain_key = ?, newest = ?, rotated = ?, used = ?, last_seen = ?, rotations = ?, marks = ?
		WHERE id = ? AND account_id = ?`,
		kept.Selector, kept.ChainKey, kept.Current, kept.Rotated, kept.Used, kept.LastSeen, kept.Rotations, kept.Marks, kept.ID, accountID)
	if err != nil {
		return err
	}
	if err := s.renewAddress(ctx, tx, accountID, keep.Known, false); err != nil {
		return err
	}
	return revokeAll(ctx, tx, accountID, kept.ID)
}

// lockAccount reads an account and locks it against changes until the end of the
// transaction. On SQLite the transaction itself is that lock.
func (s *Store) lockAccount(ctx context.Context, tx bun.Tx, id int64) (row accountRow, err error) {
	err = raw(tx, "SELECT * FROM personal_accounts WHERE id = ? ?", id, s.forUpdate).Scan(ctx, &row)
	return row, err
}

// revokeAll ends every session of the account but one (0: every one) and voids
// all its mailed tokens.
func revokeAll(ctx context.Context, tx bun.Tx, accountID, keptSession int64) error {
	if _, err := exec(ctx, tx, "DELETE FROM personal_sessions WHERE account_id = ? AND id <> ?", accountID, keptSession); err != nil {
		return err
	}
	return voidMailTokens(ctx, tx, accountID)
}
