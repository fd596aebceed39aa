package store

import (
	"context"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/cms-personal/personal/internal/password"
)

// A login without a password does the work of a class of stored hashes (HTTP contract, section 3,
// auth). The store keeps which digests draw which class. They are laid after an import and when
// new hashes get other costs, and shrink once a day.

const (
	countEvery  = 24 * time.Hour
	importEnded = 10 * time.Minute // after the last batch of an import that was killed
	countRows   = 1000             // accounts read in one query

	classesOf = "classes of " // begins the steps of personal_sweeps of UpdateClasses, for each beginning that new hashes have had
	importing = "import"      // the step that batches of imports mark; its position is 1 until classes were laid after it
)

// Classes returns the intervals of digests that draw a class, in their order.
func (s *Store) Classes(ctx context.Context) (intervals []password.Interval, err error) {
	err = s.scan(ctx, "read the classes of hashes", s.read.NewRaw(selectClasses), &intervals)
	return intervals, err
}

const selectClasses = "SELECT class, start, width, laid FROM personal_hash_classes ORDER BY start"

// UpdateClasses counts the stored hashes by class, and lays the intervals anew: after an import, which
// imported says, when new hashes get other costs, and once a day. While accounts are imported it changes
// nothing.
func (s *Store) UpdateClasses(ctx context.Context, h *password.Hasher, imported bool) error {
	began, step := s.Now(), classesOf+h.Format()
	last, err := sweepPosition(ctx, s.read, step)
	if err != nil {
		return wrap(ctx, "read when hashes were counted", err)
	}
	batch, err := sweepPosition(ctx, s.read, importing)
	if err != nil {
		return wrap(ctx, "read when accounts were imported", err)
	}
	grow := imported || batch.Position == 1 && began.Sub(batch.Began.time()).Abs() > importEnded
	if !grow && began.Sub(last.Began.time()).Abs() < countEvery {
		return nil
	}
	counts, err := s.countClasses(ctx, h)
	if err != nil {
		return err
	}
	return s.inTx(ctx, "store the classes of hashes", func(ctx context.Context, tx bun.Tx) error {
		now, err := lockImport(ctx, tx)
		if err != nil || !imported && now.Began.time().After(began.Add(-operationTimeout)) {
			return err
		}
		others, err := exec(ctx, tx, "DELETE FROM personal_sweeps WHERE step LIKE ? AND step <> ?", classesOf+"%", step)
		if err != nil {
			return err
		}
		var before []password.Interval
		if err := tx.NewRaw(selectClasses).Scan(ctx, &before); err != nil {
			return err
		}
		after := password.Lay(before, counts, grow || others > 0)
		if !slices.Equal(before, after) {
			if _, err := exec(ctx, tx, "DELETE FROM personal_hash_classes"); err != nil {
				return err
			}
			for _, l := range after {
				if _, err := exec(ctx, tx, "INSERT INTO personal_hash_classes (class, start, width, laid) VALUES (?, ?, ?, ?)",
					l.Class, l.Start, l.Width, l.Laid); err != nil {
					return err
				}
			}
		}
		if err := setSweepPosition(ctx, tx, step, sweepRow{Began: at(began)}); err != nil || !grow {
			return err
		}
		return setSweepPosition(ctx, tx, importing, sweepRow{Began: now.Began})
	})
}

// lockImport returns when accounts were last imported, and keeps others from storing that until the
// transaction ends.
func lockImport(ctx context.Context, tx bun.Tx) (row sweepRow, err error) {
	_, err = exec(ctx, tx, `INSERT INTO personal_sweeps (step, position, began) VALUES (?, 0, 0)
		ON CONFLICT (step) DO UPDATE SET position = personal_sweeps.position`, importing)
	if err == nil {
		row, err = sweepPosition(ctx, tx, importing)
	}
	return row, err
}

// countClasses counts the hashes that a password can match, by class. Accounts that wait for their e-mail do
// not count: anyone can make them, and so shrink the share of a class.
func (s *Store) countClasses(ctx context.Context, h *password.Hasher) (map[string]int64, error) {
	counts, current := map[string]int64{}, h.Format()
	for position := int64(0); ; {
		var page []struct {
			ID           int64
			PasswordHash string // "" if it begins like new ones
		}
		err := s.scan(ctx, "count hashes", s.read.NewRaw(`SELECT id,
				CASE WHEN substr(password_hash, 1, ?) = ? THEN '' ELSE password_hash END AS password_hash
			FROM personal_accounts WHERE id > ? AND (unverified_key IS NULL OR email_key IS NOT NULL) ORDER BY id LIMIT ?`,
			len(current), current, position, countRows), &page)
		if err != nil {
			return nil, err
		}
		for _, row := range page {
			if row.PasswordHash == "" {
				counts[""]++
			} else if class, ok := h.Class(row.PasswordHash); ok {
				counts[class]++
			}
		}
		if len(page) < countRows {
			return counts, nil
		}
		position = page[countRows-1].ID
	}
}
