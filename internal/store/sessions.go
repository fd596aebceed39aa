package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"

	"github.com/cms-personal/personal/internal/accounts"
)

// lastSignInAccuracy is how much later than the stored last sign-in of an account another one
// is stored: seldom, so that few sign-ins write the account's row.
const lastSignInAccuracy = 24 * time.Hour

// OpenSession implements accounts.SignInStore.
//
// It locks the account's row first. A password change that locked the row before
// has been committed by then, and the row has another credential version; a later
// one waits, and ends the session stored here. The lock also keeps two sign-ins
// from counting the same sessions, and the account from being deleted.
func (s *Store) OpenSession(ctx context.Context, o accounts.OpenSession) (account accounts.Account, err error) {
	err = s.inTx(ctx, "open a session", func(ctx context.Context, tx bun.Tx) error {
		var row signInRow
		const known = "EXISTS (SELECT 1 FROM personal_known_addresses p WHERE p.account_id = a.id AND p.seen > ?1 AND p.seen <= ?5"
		const here = known + " AND p.address = ?0"
		const full = here + " AND NOT p.codes_only AND " + validAddress
		err := raw(tx, `SELECT a.*, `+full+` AND p.seen > ?2) AS fresh, `+here+` AND p.since <= ?3) AS known_for_day,
				`+known+`) AND NOT `+full+`) AS elsewhere
			FROM personal_accounts a WHERE a.id = ?4 ?6`,
			o.Known.Address, at(o.Known.After), at(s.Now().Add(-addressAccuracy)), at(s.Now().Add(-accounts.LongKnownAfter)),
			o.Session.AccountID, s.latest(), s.forUpdate).Scan(ctx, &row)
		if err != nil {
			return staleIfMissing(err)
		}
		if row.CredentialVersion != o.CredentialVersion || row.Disabled {
			return accounts.ErrStale
		}
		// Only now: what the statement above reads besides the row may be older than its lock.
		if err := s.useIdentity(ctx, tx, row.ID, o.Identity); err != nil {
			return err
		}
		account = row.account()
		now := s.Now() // the lock may have taken long
		if err := chargeAll(ctx, tx, o.Charges, now); err != nil {
			return err
		}
		if err := s.useCode(ctx, tx, row.ID, o.Code); err != nil {
			return err
		}
		if err := s.usePasskey(ctx, tx, row.ID, o.Passkey); err != nil {
			return err
		}
		if err := s.useMailedCode(ctx, tx, row.ID, o.MailedCode); err != nil {
			return err
		}
		session := newSessionRow(o.Session)
		if s.fixed == nil && !s.resumed.Load() || s.DeletionHeld() > 0 { // before the first round a jump may be unknown
			o.Lifetimes = accounts.Lifetimes{} // a wrong time would end sessions for good
		}
		writes := []schema.QueryAppender{s.removeSurplus(tx, o), tx.NewInsert().Model(&session).Returning("NULL")}
		if now.Sub(row.LastSignIn.time()) >= lastSignInAccuracy || row.LastSignIn > s.latest() {
			writes = append(writes, tx.NewRaw("UPDATE personal_accounts SET last_sign_in = ? WHERE id = ?", at(now), row.ID))
		}
		if o.Rehash != "" {
			writes = append(writes, tx.NewRaw("UPDATE personal_accounts SET password_hash = ? WHERE id = ?", o.Rehash, row.ID))
		}
		if o.Known.Address != "" && !row.Fresh {
			writes = append(writes, s.addKnownAddress(tx, row.accountRow, o.Known, o.MailedCode == [32]byte{} || o.Code != accounts.CodeUse{}, now)...)
		}
		writes = append(writes, insertJobs(tx, o.Jobs, now)...)
		if o.Known.Address != "" && row.Elsewhere && o.OnNewAddress != nil && row.EmailKey != "" {
			writes = append(writes, insertJobs(tx, o.OnNewAddress(), now)...)
		}
		if (o.Known.Address == "" || row.KnownForDay) && o.Locale != "" && o.Locale != row.Locale {
			writes = append(writes, tx.NewRaw("UPDATE personal_accounts SET locale = ? WHERE id = ?", o.Locale, row.ID))
		}
		return execAll(ctx, tx, writes...)
	})
	return account, err
}

// signInRow is an account, and what the caller's address is to it.
type signInRow struct {
	accountRow
	Fresh       bool // fully known, and stored within addressAccuracy
	KnownForDay bool // known for accounts.LongKnownAfter
	Elsewhere   bool // not fully known, and the account has a known address
}

// removeSurplus returns the statement that removes the account's expired sessions and,
// of the others, those unused for longest, so that one more fits. Those whose last use is false come
// first.
func (s *Store) removeSurplus(tx bun.Tx, o accounts.OpenSession) schema.QueryAppender {
	return tx.NewRaw(`DELETE FROM personal_sessions WHERE account_id = ?0 AND id NOT IN (
			SELECT id FROM personal_sessions WHERE account_id = ?0 AND last_seen > ?1 AND created > ?2
			ORDER BY CASE WHEN last_seen > ?4 THEN 0 ELSE last_seen END DESC, id DESC LIMIT ?3)`,
		o.Session.AccountID, at(o.Lifetimes.SeenAfter), at(o.Lifetimes.CreatedAfter), max(o.MaxSessions-1, 0), s.latest())
}

// Sessions implements accounts.SessionStore.
func (s *Store) Sessions(ctx context.Context, accountID int64, l accounts.Lifetimes) ([]accounts.Session, error) {
	var rows []sessionRow
	err := s.scan(ctx, "list sessions", s.read.NewSelect().Model(&rows).
		Where("s.account_id = ?", accountID).
		Where("s.last_seen > ?", at(l.SeenAfter)).Where("s.created > ?", at(l.CreatedAfter)).
		Where("s.rotations < ?", accounts.MaxRotations).
		Order("s.last_seen DESC", "s.id DESC"))
	return convert(rows, (*sessionRow).session), err
}

// RevokeSession implements accounts.SessionStore.
func (s *Store) RevokeSession(ctx context.Context, accountID, id int64, jobs ...accounts.NewJob) error {
	const remove = "DELETE FROM personal_sessions WHERE account_id = ? AND id = ?"
	if len(jobs) == 0 {
		_, err := s.exec(ctx, "revoke a session", remove, accountID, id)
		return err
	}
	return s.inTx(ctx, "revoke a session", func(ctx context.Context, tx bun.Tx) error {
		ended, err := exec(ctx, tx, remove, accountID, id)
		if err != nil || ended == 0 {
			return err
		}
		return s.addJobs(ctx, tx, jobs)
	})
}

// RevokeOtherSessions implements accounts.SessionStore. The lock orders it with other
// operations that revoke sessions: of two callers that revoke each other's, one succeeds.
func (s *Store) RevokeOtherSessions(ctx context.Context, accountID, keep int64, jobs ...accounts.NewJob) error {
	return s.inTx(ctx, "revoke all other sessions", func(ctx context.Context, tx bun.Tx) error {
		if _, err := s.lockAccount(ctx, tx, accountID); err != nil {
			return err
		}
		if err := tx.NewRaw("SELECT id FROM personal_sessions WHERE id = ? AND account_id = ?", keep, accountID).Scan(ctx,
			new(int64)); err != nil {
			return err
		}
		ended, err := exec(ctx, tx, "DELETE FROM personal_sessions WHERE account_id = ? AND id <> ?", accountID, keep)
		if err != nil || ended == 0 {
			return err
		}
		return s.addJobs(ctx, tx, jobs)
	})
}

// RevokeStolenSession implements accounts.SessionStore.
func (s *Store) RevokeStolenSession(ctx context.Context, stolen accounts.Session, jobs ...accounts.NewJob) error {
	return s.inTx(ctx, "revoke a stolen session", func(ctx context.Context, tx bun.Tx) error {
		// The account first: operations with a proof lock them in this order, too.
		if _, err := s.lockAccount(ctx, tx, stolen.AccountID); err != nil {
			return staleIfMissing(err)
		}
		err := execOne(ctx, tx, accounts.ErrStale, "DELETE FROM personal_sessions WHERE id = ? AND newest = ?",
			stolen.ID, stolen.Current[:])
		if err != nil {
			return err
		}
		return s.addJobs(ctx, tx, jobs)
	})
}

// RevokeSessions implements accounts.SessionStore. The lock orders it with
// sign-ins, and with others that delete the same rows in another order.
func (s *Store) RevokeSessions(ctx context.Context, accountID int64, void bool, jobs ...accounts.NewJob) error {
	return s.inTx(ctx, "revoke all sessions", func(ctx context.Context, tx bun.Tx) error {
		if _, err := s.lockAccount(ctx, tx, accountID); err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if void {
			if err := execAll(ctx, tx, voidAddresses(tx, accountID)); err != nil {
				return err
			}
		}
		ended, err := exec(ctx, tx, "DELETE FROM personal_sessions WHERE account_id = ?", accountID)
		if err != nil || ended == 0 {
			return err
		}
		return s.addJobs(ctx, tx, jobs)
	})
}

// staleIfMissing turns a missing row into ErrStale.
func staleIfMissing(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return accounts.ErrStale
	}
	return err
}
