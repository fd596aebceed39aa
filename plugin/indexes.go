package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/cms-personal/personal/internal/store"
)

// indexesEvery is how long a process waits until it looks again at indexes that it could not
// change, or that another node changes.
const indexesEvery = time.Minute

// reconcileIndexes changes the indexes to those of this version once it is settled: before,
// a rollback may need the others. A host that never says so has them at once.
func (m *module) reconcileIndexes(ctx context.Context) {
	if m.settles {
		select {
		case <-ctx.Done():
			return
		case <-m.settled:
		}
	}
	for {
		done, err := m.store.ReconcileIndexes(ctx)
		if store.LacksRights(err) {
			m.log.WarnContext(ctx, "indexes are not changed, some requests take longer: run `personal migrate` as the role that owns the tables",
				slog.Any("error", err))
			return
		}
		m.logFailure(ctx, "changing indexes", err)
		if done && err == nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(indexesEvery):
		}
	}
}
