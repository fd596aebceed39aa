package store

import (
	"context"
	"time"
)

// clockSamples is how often a clock is read; the reading that came back fastest
// is the most exact.
const clockSamples = 3

// Now is the database's time in UTC, to the microsecond.
func (s *Store) Now() time.Time {
	now := s.clock()
	if offset := s.offset.Load(); offset != nil {
		now = now.Add(*offset)
	}
	return now.UTC().Truncate(time.Microsecond)
}

// SyncClock measures the offset of the database's clock from ours. Clocks
// drift: it wants repeating, every few minutes. On SQLite, where both are one
// clock, and with a test's clock it does nothing.
func (s *Store) SyncClock(ctx context.Context) error {
	if s.fixed {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	var best, offset time.Duration
	for i := range clockSamples {
		sent := s.clock()
		var micro int64
		if err := s.read.NewRaw(s.readClock).Scan(ctx, &micro); err != nil {
			return fault(ctx, "read the database's clock", err)
		}
		took := s.clock().Sub(sent)
		if i == 0 || took < best {
			best, offset = took, time.UnixMicro(micro).Sub(sent.Add(took/2))
		}
	}
	s.offset.Store(&offset)
	return nil
}
