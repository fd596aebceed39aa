package store

import (
	"context"
	"errors"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/throttle"
)

// insertTries bounds how often an insert is repeated whose conflict was gone
// when it was looked at.
const insertTries = 3

// FindAccount finds an account by its login or e-mail key, see accounts.AccountStore.
func (s *Store) FindAccount(ctx context.Context, q accounts.AccountQuery) (accounts.Account, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	row := accountRow{Fields: "{}"} // the stored ones are not read
	err := s.read.NewSelect().Model(&row).ExcludeColumn("fields").Where("?", meant(q)).Limit(1).Scan(ctx)
	if err != nil {
		return accounts.Account{}, fault(ctx, "find an account", err)
	}
	a, err := row.account()
	return a, fault(ctx, "find an account", err)
}

// meant is the condition for the accounts that a query means.
func meant(q accounts.AccountQuery) schema.QueryWithArgs {
	return bun.SafeQuery("(a.login_key = ? OR a.email_key = ? AND (NOT ? OR a.login_key = a.email_key))",
		bun.NullZero(q.LoginKey), bun.NullZero(q.EmailKey), q.OwnEmail)
}

// CreateAccount stores a new account, see accounts.AccountStore.
func (s *Store) CreateAccount(
	ctx context.Context, a accounts.Account, first accounts.Session, jobs func(id int64) []accounts.NewJob, charges ...throttle.Charge,
) (id int64, err error) {
	row, err := newAccountRow(a)
	if err != nil {
		return 0, fault(ctx, "create an account", err)
	}
	var taken *accounts.TakenError
	err = s.inTx(ctx, "create an account", func(ctx context.Context, tx bun.Tx) error {
		err := insertAccount(ctx, tx, &row)
		if errors.As(err, &taken) && taken.Email {
			return chargeAll(ctx, tx, charges, s.Now())
		}
		if err != nil {
			return err
		}
		session := newSessionRow(first)
		session.ID, session.AccountID = 0, row.ID
		if _, err := tx.NewInsert().Model(&session).Exec(ctx); err != nil {
			return err
		}
		return s.addJobs(ctx, tx, jobs(row.ID))
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
// names no constraint in its errors, and PostgreSQL only the first, so a conflict
// inserts nothing and is looked up.
func insertAccount(ctx context.Context, tx bun.Tx, row *accountRow) error {
	for range insertTries {
		result, err := tx.NewInsert().Model(row).On("CONFLICT DO NOTHING").Returning("id").Exec(ctx)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n == 1 {
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
	return errors.New("the values in conflict keep changing")
}

// UpdateProfile changes name and fields, see accounts.AccountStore. The change
// must not use the store, whose only writer on SQLite it holds.
func (s *Store) UpdateProfile(
	ctx context.Context, id int64, change func(*accounts.Account) error, jobs ...accounts.NewJob,
) (changed accounts.Account, err error) {
	err = s.inTx(ctx, "update a profile", func(ctx context.Context, tx bun.Tx) error {
		row, err := s.lockAccount(ctx, tx, id)
		if err != nil {
			return err
		}
		wish, err := row.account()
		if err != nil {
			return err
		}
		if err := change(&wish); err != nil {
			return err
		}
		fields, err := wish.Fields.Encode()
		if err != nil {
			return err
		}
		row.Name, row.Fields, row.Updated = wish.Name, string(fields), at(wish.Updated)
		if _, err := tx.NewUpdate().Model(&row).Column("name", "fields", "updated").WherePK().Exec(ctx); err != nil {
			return err
		}
		if changed, err = row.account(); err != nil {
			return err
		}
		return s.addJobs(ctx, tx, jobs)
	})
	return changed, err
}

// ReplacePassword sets a new password, see accounts.AccountStore.
//
// Its first statement is the condition and takes the account's row in one. A
// sign-in that was first has been committed then, and the statement that ends
// the sessions, with a newer view, sees its session; one that comes later finds
// another credential version. So no session of the old password survives.
func (s *Store) ReplacePassword(
	ctx context.Context, accountID, credentialVersion int64, hash string, keep accounts.Session, jobs ...accounts.NewJob,
) error {
	return s.inTx(ctx, "replace a password", func(ctx context.Context, tx bun.Tx) error {
		err := execOne(ctx, tx, accounts.ErrStale, `UPDATE personal_accounts
			SET password_hash = ?, credential_version = credential_version + 1, updated = ?
			WHERE id = ? AND credential_version = ? AND NOT disabled`,
			hash, at(s.Now()), accountID, credentialVersion)
		if err != nil {
			return err
		}
		kept := newSessionRow(keep)
		err = execOne(ctx, tx, accounts.ErrStale, `UPDATE personal_sessions
			SET selector = ?, chain_key = ?, newest = ?, rotated = ?, used = ?, last_seen = ?, rotations = ?, marks = ?
			WHERE id = ? AND account_id = ?`,
			kept.Selector, kept.ChainKey, kept.Newest, kept.Rotated, kept.Used, kept.LastSeen, kept.Rotations, kept.Marks, kept.ID, accountID)
		if err != nil {
			return err
		}
		if _, err := exec(ctx, tx, "DELETE FROM personal_sessions WHERE account_id = ? AND id <> ?", accountID, kept.ID); err != nil {
			return err
		}
		if err := voidMailTokens(ctx, tx, accountID); err != nil {
			return err
		}
		return s.addJobs(ctx, tx, jobs)
	})
}

// lockAccount reads an account and keeps others from changing it until the end
// of the transaction. On SQLite the transaction has begun with that lock.
func (s *Store) lockAccount(ctx context.Context, tx bun.Tx, id int64) (row accountRow, err error) {
	err = tx.NewRaw("SELECT * FROM personal_accounts WHERE id = ? ?", id, s.forUpdate).Scan(ctx, &row)
	return row, err
}
