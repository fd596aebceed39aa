package store

import (
	"context"
	"errors"
	"time"

	"github.com/uptrace/bun"

	"github.com/cms-personal/personal/internal/accounts"
)

// placeDay is how exact the last sign-in at a place is: a second one on the same
// day writes nothing.
const placeDay = 24 * time.Hour

// KnownPlace looks for a place, see accounts.AttemptStore.
func (s *Store) KnownPlace(ctx context.Context, q accounts.AccountQuery, place string, since time.Time) (known bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	err = s.read.NewRaw(`SELECT EXISTS (SELECT 1 FROM personal_places WHERE place = ? AND seen > ?
			AND account_id IN (SELECT a.id FROM personal_accounts a WHERE ?))`, place, at(since), meant(q)).Scan(ctx, &known)
	return known, fault(ctx, "look for a place", err)
}

// NotePlace notes a place, see accounts.AttemptStore.
func (s *Store) NotePlace(ctx context.Context, accountID int64, place string, most int) error {
	now := s.Now()
	fresh, err := s.seenLately(ctx, accountID, place, now)
	if err != nil || fresh {
		return err
	}
	err = s.inTx(ctx, "note a place", func(ctx context.Context, tx bun.Tx) error {
		if _, err := s.lockAccount(ctx, tx, accountID); err != nil {
			return err
		}
		_, err := exec(ctx, tx, `INSERT INTO personal_places (account_id, place, seen) VALUES (?, ?, ?)
			ON CONFLICT (account_id, place) DO UPDATE SET seen = excluded.seen`, accountID, place, at(now))
		if err != nil {
			return err
		}
		_, err = exec(ctx, tx, `DELETE FROM personal_places WHERE account_id = ? AND place NOT IN (
			SELECT place FROM personal_places WHERE account_id = ? ORDER BY seen DESC, place LIMIT ?)`,
			accountID, accountID, most)
		return err
	})
	if errors.Is(err, accounts.ErrNotFound) {
		return nil
	}
	return err
}

func (s *Store) seenLately(ctx context.Context, accountID int64, place string, now time.Time) (seen bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	err = s.read.NewRaw("SELECT EXISTS (SELECT 1 FROM personal_places WHERE account_id = ? AND place = ? AND seen > ?)",
		accountID, place, at(now.Add(-placeDay))).Scan(ctx, &seen)
	return seen, fault(ctx, "look for a place", err)
}
