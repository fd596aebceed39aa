package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/uptrace/bun"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/token"
)

// OpenSession stores a sign-in, see accounts.SessionStore.
//
// The account's row is locked first. A password change that was first has been
// committed then, and the insert, with a newer view, finds another credential
// version; one that comes later waits, and ends the session stored here. The
// lock also keeps two sign-ins from counting the same sessions.
func (s *Store) OpenSession(ctx context.Context, o accounts.OpenSession) (accounts.Account, error) {
	account := o.Session.AccountID
	var row accountRow
	err := s.inTx(ctx, "open a session", func(ctx context.Context, tx bun.Tx) (err error) {
		if row, err = s.lockAccount(ctx, tx, account); err != nil {
			return staleIfGone(err)
		}
		id, err := insertSession(ctx, tx, o)
		if err != nil {
			return err
		}
		if err := chargeAll(ctx, tx, o.Charges, s.Now()); err != nil {
			return err
		}
		if o.Rehash != "" {
			err := execOne(ctx, tx, accounts.ErrStale, `UPDATE personal_accounts SET password_hash = ?
				WHERE id = ? AND credential_version = ? AND NOT disabled`, o.Rehash, account, o.CredentialVersion)
			if err != nil {
				return err
			}
		}
		if err := removeSurplus(ctx, tx, account, id, o); err != nil {
			return err
		}
		return s.addJobs(ctx, tx, o.Jobs)
	})
	if err != nil {
		return accounts.Account{}, err
	}
	a, err := row.account()
	return a, fault(ctx, "open a session", err)
}

// insertSession inserts the session on the condition that the account is as it
// was when the password was compared.
func insertSession(ctx context.Context, tx bun.Tx, o accounts.OpenSession) (id int64, err error) {
	r := newSessionRow(o.Session)
	err = tx.NewRaw(`INSERT INTO personal_sessions
			(account_id, selector, chain_key, newest, created, rotated, used, last_seen, address, agent, rotations, marks)
		SELECT a.id, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?
		FROM personal_accounts a WHERE a.id = ? AND a.credential_version = ? AND NOT a.disabled
		RETURNING id`,
		r.Selector, r.ChainKey, r.Newest, r.Created, r.Rotated, r.Used, r.LastSeen, r.Address, r.Agent, r.Rotations, r.Marks,
		r.AccountID, o.CredentialVersion).Scan(ctx, &id)
	return id, staleIfGone(err)
}

// removeSurplus removes the account's expired sessions, and of the others the
// longest unused beyond the most it may have. The one just stored stays.
func removeSurplus(ctx context.Context, tx bun.Tx, account, stays int64, o accounts.OpenSession) error {
	_, err := exec(ctx, tx, `DELETE FROM personal_sessions
		WHERE account_id = ? AND id <> ? AND (last_seen <= ? OR created <= ?)`,
		account, stays, at(o.Lifetimes.SeenAfter), at(o.Lifetimes.CreatedAfter))
	if err != nil {
		return err
	}
	_, err = exec(ctx, tx, `DELETE FROM personal_sessions
		WHERE account_id = ? AND id <> ? AND id NOT IN (
			SELECT id FROM personal_sessions WHERE account_id = ? AND id <> ?
			ORDER BY last_seen DESC, id DESC LIMIT ?)`,
		account, stays, account, stays, max(o.Most-1, 0))
	return err
}

// FindSession finds a session and its account, see accounts.SessionStore. Every
// request of a signed-in user begins with it.
func (s *Store) FindSession(ctx context.Context, selector token.Selector) (accounts.Session, accounts.Account, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	var row sessionRow
	err := s.read.NewSelect().Model(&row).Relation("Account").Where("s.selector = ?", selector[:]).Scan(ctx)
	if err != nil {
		return accounts.Session{}, accounts.Account{}, fault(ctx, "find a session", err)
	}
	account, err := row.Account.account()
	return row.session(), account, fault(ctx, "find a session", err)
}

// RotateSession gives a session its next secret, see accounts.SessionStore. The
// condition in the statement decides a race, whatever changed the row meanwhile.
func (s *Store) RotateSession(ctx context.Context, before [32]byte, rotated accounts.Session) error {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	r := newSessionRow(rotated)
	err := execOne(ctx, s.write, accounts.ErrStale, `UPDATE personal_sessions
		SET newest = ?, rotated = ?, used = ?, last_seen = ?, rotations = ?, marks = ? WHERE id = ? AND newest = ?`,
		r.Newest, r.Rotated, r.Used, r.LastSeen, r.Rotations, r.Marks, r.ID, before[:])
	return fault(ctx, "rotate a session", err)
}

// TouchSession notes that a session is in use, see accounts.SessionStore.
func (s *Store) TouchSession(ctx context.Context, id int64, newest [32]byte, used bool, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	_, err := exec(ctx, s.write, `UPDATE personal_sessions
		SET last_seen = ?, used = CASE WHEN ? AND newest = ? AND used = 0 THEN ? ELSE used END WHERE id = ?`,
		at(now), used, newest[:], at(now), id)
	return fault(ctx, "touch a session", err)
}

// Sessions lists the sessions of an account, see accounts.SessionStore.
func (s *Store) Sessions(ctx context.Context, accountID int64, l accounts.Lifetimes) ([]accounts.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	var rows []sessionRow
	err := s.read.NewSelect().Model(&rows).
		Where("s.account_id = ?", accountID).
		Where("s.last_seen > ?", at(l.SeenAfter)).Where("s.created > ?", at(l.CreatedAfter)).
		Where("s.rotations < ?", accounts.MaxRotations).
		Order("s.last_seen DESC", "s.id DESC").Scan(ctx)
	if err != nil {
		return nil, fault(ctx, "list sessions", err)
	}
	sessions := make([]accounts.Session, len(rows))
	for i := range rows {
		sessions[i] = rows[i].session()
	}
	return sessions, nil
}

// EndSession ends one session, see accounts.SessionStore.
func (s *Store) EndSession(ctx context.Context, accountID, id int64) error {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	_, err := exec(ctx, s.write, "DELETE FROM personal_sessions WHERE account_id = ? AND id = ?", accountID, id)
	return fault(ctx, "end a session", err)
}

// EndStolen ends a session as it was judged, see accounts.SessionStore.
func (s *Store) EndStolen(ctx context.Context, stolen accounts.Session, jobs ...accounts.NewJob) error {
	return s.inTx(ctx, "end a stolen session", func(ctx context.Context, tx bun.Tx) error {
		err := execOne(ctx, tx, accounts.ErrStale, "DELETE FROM personal_sessions WHERE id = ? AND newest = ?",
			stolen.ID, stolen.Newest[:])
		if err != nil {
			return err
		}
		return s.addJobs(ctx, tx, jobs)
	})
}

// EndSessions ends every session of an account, see accounts.SessionStore.
func (s *Store) EndSessions(ctx context.Context, accountID int64) error {
	return s.inTx(ctx, "end all sessions", func(ctx context.Context, tx bun.Tx) error {
		// The lock orders it with sign-ins, and with others that delete several
		// of the rows, perhaps the other way round.
		if _, err := s.lockAccount(ctx, tx, accountID); err != nil {
			return ignoreGone(err)
		}
		return endSessions(ctx, tx, accountID)
	})
}

func endSessions(ctx context.Context, tx bun.Tx, accountID int64) error {
	_, err := exec(ctx, tx, "DELETE FROM personal_sessions WHERE account_id = ?", accountID)
	return err
}

// staleIfGone makes a missing row a change that happened meanwhile.
func staleIfGone(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return accounts.ErrStale
	}
	return err
}

func ignoreGone(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}
