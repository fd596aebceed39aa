package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// scratch is what makes a process a scratch process.
type scratch struct {
	now   time.Time
	moved atomic.Int64 // how far Turn has moved the clock, in nanoseconds
	told  atomic.Bool  // Turn has returned the durations of the settings
	woken atomic.Bool  // there may be jobs since the last Turn
}

func (s *scratch) clock() time.Time { return s.now.Add(time.Duration(s.moved.Load())) }

// Turn implements [rpc.Module].
func (m *module) Turn(ctx context.Context, advance time.Duration, work, measure bool) (t rpc.Turn, err error) {
	if m.scratch == nil {
		return t, rpc.ErrNotScratch
	}
	if advance > 0 { // else the lease of a job could end while it runs
		if err := m.workOnce(ctx, false); err != nil {
			return t, fmt.Errorf("waiting for jobs: %w", err)
		}
	}
	m.scratch.moved.Add(int64(advance))
	if !m.scratch.told.Swap(true) {
		t.Durations = settingDurations(reflect.ValueOf(m.settings), "")
	}
	if advance > 0 || work {
		m.scratch.woken.Store(true)
	}
	if err := m.workOnce(ctx, work); err != nil {
		return t, fmt.Errorf("waiting for jobs and periodic work: %w", err)
	}
	if work {
		if t.Rows, err = m.store.Rows(ctx); err != nil {
			return t, err
		}
	}
	if measure {
		var memory runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&memory)
		t.Goroutines, t.Heap = runtime.NumGoroutine(), int64(memory.HeapAlloc)
	}
	t.Statements, t.Scans, err = m.store.Work(ctx)
	return t, err
}

// workOnce does a round of all periodic work, unless it waits for jobs alone, and the jobs that are due.
func (m *module) workOnce(ctx context.Context, periodic bool) error {
	ctx, cancel := context.WithTimeout(ctx, rpc.TurnTimeout)
	defer cancel()
	if periodic {
		m.readShared(ctx)
		for _, p := range m.periodic() {
			if err := within(ctx, func() { p.round(ctx) }); err != nil {
				return err
			}
		}
	}
	for m.scratch.woken.Swap(false) {
		if err := cmp.Or(within(ctx, func() { m.worker.RunDue(ctx) }), ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}

// settingDurations returns the durations in a struct of settings, by their keys.
func settingDurations(s reflect.Value, prefix string) map[string]time.Duration {
	all := map[string]time.Duration{}
	for field, value := range s.Fields() {
		key := prefix + field.Tag.Get("toml")
		if d, ok := value.Interface().(duration); ok {
			all[key] = time.Duration(d)
		} else if value.Kind() == reflect.Struct {
			maps.Copy(all, settingDurations(value, key+"."))
		}
	}
	return all
}
