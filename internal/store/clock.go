package store

import (
	"context"
	"time"
)

// Now is the database's time in UTC, to the microsecond.
func (s *Store) Now() time.Time {
	now := s.clock()
	if offset := s.offset.Load(); offset != nil {
		now = now.Add(*offset)
	}
	return now.UTC().Truncate(time.Microsecond)
}

// SyncClock measures the offset between this machine's clock and the database's.
// Call it every few minutes, because clocks drift. On SQLite, where both are the
// same clock, and with a test's clock it does nothing.
func (s *Store) SyncClock(ctx context.Context) error {
	if s.fixed {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	const samples = 3 // the fastest reading is the most exact
	var best, offset time.Duration
	for i := range samples {
		sent := s.clock()
		var micro int64
		if err := s.read.NewRaw(s.readClock).Scan(ctx, &micro); err != nil {
			return wrap(ctx, "read the database's clock", err)
		}
		took := s.clock().Sub(sent)
		if i == 0 || took < best {
			best, offset = took, time.UnixMicro(micro).Sub(sent.Add(took/2))
		}
	}
	s.offset.Store(&offset)
	return nil
}

// beginRound measures the database's clock anew. Each round that claims, removes or erases begins
// with it, and does nothing if it fails.
func (s *Store) beginRound(ctx context.Context) error { return s.SyncClock(ctx) }

// mayDelete is [Store.beginRound] for a round that removes or erases. It fails while the clocks
// disagree.
func (s *Store) mayDelete(ctx context.Context) error { return s.beginRound(ctx) }
