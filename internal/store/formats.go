package store

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/uptrace/bun"
)

// The store keeps a list of the formats of stored password hashes, so that a
// failed sign-in can take as long as the slowest of them (HTTP contract, section 3,
// auth). An import adds the formats that it brings; a daily scan updates the list.

const (
	scanEvery = 24 * time.Hour
	scanRows  = 10_000        // accounts read in one query
	scanned   = math.MaxInt64 // the position of a scan that is done
)

// Formats returns the formats on the list.
func (s *Store) Formats(ctx context.Context) (formats []string, err error) {
	err = s.scan(ctx, "read the formats of hashes",
		s.read.NewRaw("SELECT format FROM personal_hash_formats ORDER BY format"), &formats)
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
// format of a hash, "" for none. It reads page by page and stores how far it is: it goes on
// where a process that ended has stopped, and ends when another node has read a page that
// it has read.
func (s *Store) ScanFormats(ctx context.Context, current string, format func(hash string) string) error {
	if may, err := s.mayDelete(ctx); err != nil || !may { // a wrong time would remove formats just found
		return err
	}
	step := "scan " + current // when the current format changes, a new scan is due
	p, err := s.beginScan(ctx, step)
	for err == nil && p.Position != scanned {
		p, err = s.scanPage(ctx, step, p, current, format)
	}
	return err
}

// beginScan returns how far the current scan is. It begins one if there is none, or if that
// began a day ago.
func (s *Store) beginScan(ctx context.Context, step string) (p sweepRow, err error) {
	err = s.inTx(ctx, "begin to scan hashes", func(ctx context.Context, tx bun.Tx) error {
		now := s.Now()
		_, err := exec(ctx, tx, `INSERT INTO personal_sweeps (step, position, began) VALUES (?, 0, ?)
			ON CONFLICT (step) DO UPDATE SET position = 0, began = excluded.began WHERE personal_sweeps.began NOT BETWEEN ? AND ?`,
			step, at(now), at(now.Add(-scanEvery))+1, s.latest())
		if err != nil {
			return err
		}
		p, err = sweepPosition(ctx, tx, step)
		return err
	})
	return p, err
}

// scanPage reads the hashes after a position and notes their formats, and after the last
// page that the scan is done. It returns the next position.
func (s *Store) scanPage(ctx context.Context, step string, p sweepRow, current string, format func(hash string) string) (sweepRow, error) {
	var page []accountRow // without the hash if it has the current format
	err := s.scan(ctx, "scan hashes", s.read.NewRaw(`SELECT id,
			CASE WHEN substr(password_hash, 1, ?) = ? THEN '' ELSE password_hash END AS password_hash
		FROM personal_accounts WHERE id > ? ORDER BY id LIMIT ?`, len(current), current, p.Position, scanRows), &page)
	if err != nil {
		return p, err
	}
	found, next := map[string]bool{}, sweepRow{Position: scanned, Began: p.Began}
	for _, row := range page {
		if f := format(row.PasswordHash); f != "" {
			found[f] = true
		}
	}
	if len(page) == scanRows {
		next.Position = page[scanRows-1].ID
	}
	err = s.inTx(ctx, "store the formats of hashes", func(ctx context.Context, tx bun.Tx) error {
		n, err := exec(ctx, tx, "UPDATE personal_sweeps SET position = ? WHERE step = ? AND position = ? AND began = ?",
			next.Position, step, p.Position, p.Began)
		if err != nil || n == 0 { // another node goes on
			next.Position = scanned
			return err
		}
		if err := noteFormats(ctx, tx, slices.Sorted(maps.Keys(found)), s.Now()); err != nil || next.Position != scanned || s.DeletionHeld() > 0 {
			return err
		}
		// Formats that an import has added since the scan began remain, even if its
		// transaction began earlier.
		_, err = exec(ctx, tx, "DELETE FROM personal_hash_formats WHERE seen < ?", at(p.Began.time().Add(-operationTimeout)))
		return err
	})
	return next, err
}
