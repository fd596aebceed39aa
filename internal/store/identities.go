package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"

	"github.com/uptrace/bun"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/shared/personal"
)

type identityRow struct {
	Issuer, Subject []byte
	AccountID       int64
	Linked          micros
	LastUsed        micros
}

func (r *identityRow) identity() accounts.StoredIdentity {
	return accounts.StoredIdentity{
		Identity:  personal.Identity{Issuer: string(r.Issuer), Subject: string(r.Subject)},
		AccountID: r.AccountID, Linked: r.Linked.time(), LastUsed: r.LastUsed.time(),
	}
}

// LinkIdentity implements accounts.IdentityStore. The account is locked, so that its identities
// stay as they are counted. Of two accounts that link an identity at once, one waits for the
// other's insert.
func (s *Store) LinkIdentity(ctx context.Context, l accounts.LinkIdentity) error {
	return s.inTx(ctx, "link an identity", func(ctx context.Context, tx bun.Tx) error {
		account, err := s.lockLinking(ctx, tx, l)
		if err != nil {
			return err
		}
		ways := accounts.WaysIn{Used: account.LastSignIn != 0}
		if ways.OtherWays, err = otherWays(ctx, tx, account.ID); err != nil {
			return err
		}
		for range insertTries {
			n, err := insertIdentity(ctx, tx, accounts.StoredIdentity{Identity: l.Identity, AccountID: account.ID, Linked: s.Now()})
			if err != nil {
				return err
			}
			var known identityRow
			if n == 0 {
				err := selectIdentity(tx, l.Identity).Scan(ctx, &known)
				if errors.Is(err, sql.ErrNoRows) {
					continue // it was removed since
				}
				if err != nil {
					return err
				}
			}
			switch {
			case n == 0 && known.AccountID != account.ID:
				return accounts.ErrIdentityTaken
			case n == 0:
				return nil
			case ways.Identities >= personal.MaxIdentities:
				return accounts.ErrTooManyIdentities
			}
			if err := l.May(account.account(), ways); err != nil {
				return err
			}
			return s.addJobs(ctx, tx, l.Jobs(account.account()))
		}
		return errors.New("the identity keeps changing")
	})
}

// insertIdentity stores an identity unless an account has it, and returns the number of rows.
func insertIdentity(ctx context.Context, tx bun.Tx, i accounts.StoredIdentity) (int64, error) {
	return exec(ctx, tx, "INSERT INTO personal_identities (issuer, subject, account_id, linked, last_used) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
		[]byte(i.Issuer), []byte(i.Subject), i.AccountID, at(i.Linked), at(i.LastUsed))
}

// lockLinking locks the account whose identities are to be changed, and finds the proof of the user
// who asks.
func (s *Store) lockLinking(ctx context.Context, tx bun.Tx, l accounts.LinkIdentity) (accountRow, error) {
	if l.Proof == (accounts.ProofUse{}) {
		return s.lockAccount(ctx, tx, l.AccountID)
	}
	account, err := s.lockCredentials(ctx, tx, l.AccountID, l.CredentialVersion)
	if err != nil {
		return account, err
	}
	return account, s.findProof(ctx, tx, l.AccountID, l.Proof)
}

const identityColumns = "i.issuer, i.subject, i.account_id, i.linked, i.last_used"

func selectIdentity(db bun.IDB, i personal.Identity) *bun.RawQuery {
	return db.NewRaw("SELECT "+identityColumns+" FROM personal_identities i WHERE i.issuer = ? AND i.subject = ?", []byte(i.Issuer),
		[]byte(i.Subject))
}

// useIdentity stores the use of an identity of a locked account, unless it is zero. ErrStale if the account does not have it.
func (s *Store) useIdentity(ctx context.Context, tx bun.Tx, accountID int64, i personal.Identity) error {
	if i == (personal.Identity{}) {
		return nil
	}
	return execOne(ctx, tx, accounts.ErrStale, "UPDATE personal_identities SET last_used = ? WHERE issuer = ? AND subject = ? AND account_id = ?",
		at(s.Now()), []byte(i.Issuer), []byte(i.Subject), accountID)
}

// digestOf returns what a session has of an identity; nil for none.
func digestOf(i personal.Identity) []byte {
	if i == (personal.Identity{}) {
		return nil
	}
	return digestOfText(i.Issuer + "\x00" + i.Subject)
}

func digestOfText(text string) []byte {
	if text == "" {
		return nil
	}
	digest := sha256.Sum256([]byte(text))
	return digest[:]
}

// EndIdentitySessions implements accounts.IdentityStore.
func (s *Store) EndIdentitySessions(ctx context.Context, i personal.Identity, providerSession string, jobs func(accountID int64) []accounts.NewJob,
) (int64, error) {
	var found identityRow
	err := s.inTx(ctx, "end the sessions of an identity", func(ctx context.Context, tx bun.Tx) error {
		if err := selectIdentity(tx, i).Scan(ctx, &found); err != nil {
			return err
		}
		if _, err := s.lockAccount(ctx, tx, found.AccountID); err != nil {
			return err
		}
		ended, err := exec(ctx, tx, "DELETE FROM personal_sessions WHERE account_id = ? AND identity = ? AND (? OR provider_session = ?)",
			found.AccountID, digestOf(i), providerSession == "", digestOfText(providerSession))
		if err != nil || ended == 0 {
			return err
		}
		return s.addJobs(ctx, tx, jobs(found.AccountID))
	})
	return found.AccountID, err
}

// FindIdentity implements accounts.IdentityStore.
func (s *Store) FindIdentity(ctx context.Context, i personal.Identity) (accountID int64, err error) {
	var found identityRow
	err = s.scan(ctx, "find an identity", selectIdentity(s.read, i), &found)
	return found.AccountID, err
}

// Identities implements accounts.IdentityStore.
func (s *Store) Identities(ctx context.Context, accountID int64) ([]accounts.StoredIdentity, error) {
	var rows []identityRow
	err := s.scan(ctx, "read identities", s.read.NewRaw("SELECT "+identityColumns+` FROM personal_identities i
		WHERE i.account_id = ? ORDER BY i.linked DESC, i.issuer, i.subject`, accountID), &rows)
	return convert(rows, (*identityRow).identity), err
}

// UnlinkIdentity implements accounts.IdentityStore.
func (s *Store) UnlinkIdentity(ctx context.Context, u accounts.LinkIdentity) error {
	return s.inTx(ctx, "unlink an identity", func(ctx context.Context, tx bun.Tx) error {
		account, err := s.lockLinking(ctx, tx, u)
		if err != nil {
			return err
		}
		removed, _, err := removeWaysButLast(ctx, tx, account.account(), wayIn{identity: u.Identity})
		if err != nil || removed.None() {
			return err
		}
		return s.addJobs(ctx, tx, u.Jobs(account.account()))
	})
}
