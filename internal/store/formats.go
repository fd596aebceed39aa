package store

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/uptrace/bun"
)

// The formats of stored password hashes are noted, so that a failed sign-in can be
// made to take as long as the slowest of them (HTTP contract, section 3, auth). An
// import notes those that it brings; a daily scan finds which there are.

const (
	scanEvery = 24 * time.Hour
	// scanMark begins the row that stands for the last scan. The rest of it is the
	// format that the scan left out, the current one: another wants a new scan.
	scanMark = "scan "
	scanPage = 10_000 // accounts looked at in one query
)

// Formats returns the formats of hashes that were noted.
func (s *Store) Formats(ctx context.Context) (formats []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	err = s.read.NewRaw("SELECT format FROM personal_hash_formats WHERE format NOT LIKE ? ORDER BY format", scanMark+"%").Scan(ctx, &formats)
	return formats, fault(ctx, "read the formats of hashes", err)
}

// noteFormats notes formats in the transaction that stores their hashes.
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

// ScanFormats looks through all hashes, unless that was done within a day, and
// notes exactly the formats that there are, but for the current one. format returns
// that of a hash, "" for none.
func (s *Store) ScanFormats(ctx context.Context, current string, format func(hash string) string) error {
	begun := s.Now()
	due, err := s.scanDue(ctx, current, begun)
	if err != nil || !due {
		return err
	}
	found := map[string]bool{scanMark + current: true}
	for last := int64(0); ; {
		page, err := s.hashPage(ctx, current, last)
		if err != nil {
			return err
		}
		for _, row := range page {
			last = row.ID
			if f := format(row.Hash); f != "" {
				found[f] = true
			}
		}
		if len(page) < scanPage {
			break
		}
	}
	return s.inTx(ctx, "note the formats of hashes", func(ctx context.Context, tx bun.Tx) error {
		if err := noteFormats(ctx, tx, slices.Sorted(maps.Keys(found)), begun); err != nil {
			return err
		}
		// What an import has noted since the scan began stays, even if its transaction
		// began before.
		_, err := exec(ctx, tx, "DELETE FROM personal_hash_formats WHERE seen < ?", at(begun.Add(-operationTimeout)))
		return err
	})
}

func (s *Store) scanDue(ctx context.Context, current string, now time.Time) (due bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	err = s.read.NewRaw("SELECT NOT EXISTS (SELECT 1 FROM personal_hash_formats WHERE format = ? AND seen > ?)",
		scanMark+current, at(now.Add(-scanEvery))).Scan(ctx, &due)
	return due, fault(ctx, "read when hashes were scanned", err)
}

type hashRow struct {
	ID   int64
	Hash string // "" if it is of the current format
}

// hashPage returns the hashes of the accounts behind an id, scanPage at most.
func (s *Store) hashPage(ctx context.Context, current string, behind int64) (rows []hashRow, err error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	err = s.read.NewRaw(`SELECT id, CASE WHEN substr(password_hash, 1, ?) = ? THEN '' ELSE password_hash END AS hash
		FROM personal_accounts WHERE id > ? ORDER BY id LIMIT ?`, len(current), current, behind, scanPage).Scan(ctx, &rows)
	return rows, fault(ctx, "scan hashes", err)
}
