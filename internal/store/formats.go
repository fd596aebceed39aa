package store

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/uptrace/bun"
)

// The store keeps a list of the formats of stored password hashes, so that a
// failed sign-in can take as long as the slowest of them (HTTP contract, section 3,
// auth). An import adds the formats that it brings; a daily scan updates the list.

const (
	scanEvery = 24 * time.Hour
	// scanMark begins the row of the last scan. The current format, which the scan
	// skips, follows it: when the current format changes, a new scan is due.
	scanMark = "scan "
	scanPage = 10_000 // accounts read in one query
)

// Formats returns the formats on the list.
func (s *Store) Formats(ctx context.Context) (formats []string, err error) {
	err = s.scan(ctx, "read the formats of hashes",
		s.read.NewRaw("SELECT format FROM personal_hash_formats WHERE format NOT LIKE ? ORDER BY format", scanMark+"%"), &formats)
	return formats, err
}

// noteFormats adds formats to the list in the transaction that stores their hashes.
func noteFormats(ctx context.Context, tx bun.Tx, formats []string, now time.Time) error {
	for _, format := range formats {
		_, err := exec(ctx, tx, `INSERT INTO personal_hash_formats (format, seen) VALUES (?, ?)
			ON CONFLICT (format) DO UPDATE SET seen = excluded.seen`, format, at(now))
		if err != nil {
			return err
		}
	}
	return nil
}

// ScanFormats reads all hashes, unless that was done within a day, and lists
// exactly their formats, except the current one. The function format returns the
// format of a hash, "" for none.
func (s *Store) ScanFormats(ctx context.Context, current string, format func(hash string) string) error {
	begun := s.Now()
	var due bool
	err := s.scan(ctx, "read when hashes were scanned",
		s.read.NewRaw("SELECT NOT EXISTS (SELECT 1 FROM personal_hash_formats WHERE format = ? AND seen > ?)",
			scanMark+current, at(begun.Add(-scanEvery))), &due)
	if err != nil || !due {
		return err
	}
	found := map[string]bool{scanMark + current: true}
	for last, more := int64(0), true; more; {
		var page []struct {
			ID   int64
			Hash string // "" if it has the current format
		}
		err := s.scan(ctx, "scan hashes", s.read.NewRaw(`SELECT id, CASE WHEN substr(password_hash, 1, ?) = ? THEN '' ELSE password_hash END AS hash
			FROM personal_accounts WHERE id > ? ORDER BY id LIMIT ?`, len(current), current, last, scanPage), &page)
		if err != nil {
			return err
		}
		for _, row := range page {
			last = row.ID
			if f := format(row.Hash); f != "" {
				found[f] = true
			}
		}
		more = len(page) == scanPage
	}
	return s.inTx(ctx, "store the formats of hashes", func(ctx context.Context, tx bun.Tx) error {
		if err := noteFormats(ctx, tx, slices.Sorted(maps.Keys(found)), begun); err != nil {
			return err
		}
		// Formats that an import has added since the scan began remain, even if its
		// transaction began earlier.
		_, err := exec(ctx, tx, "DELETE FROM personal_hash_formats WHERE seen < ?", at(begun.Add(-operationTimeout)))
		return err
	})
}
