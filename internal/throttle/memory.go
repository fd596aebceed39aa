package throttle

import (
	"sync"
	"time"
)

// Memory counts attempts in the memory of this process, for limits that need not
// be shared by nodes or survive a swap. The zero value is ready; it is safe for
// concurrent use. It holds one entry for each key with attempts that still count.
type Memory struct {
	mu    sync.Mutex
	tats  map[int64]time.Time
	sweep time.Time // when entries that count nothing are next removed
}

// Take charges one attempt of the key at now, and returns how long it has to wait,
// 0 if it is allowed.
func (m *Memory) Take(key int64, l Limit, now time.Time) (wait time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tats == nil {
		m.tats = map[int64]time.Time{}
	}
	if now.After(m.sweep) {
		for k, tat := range m.tats {
			if tat.Before(now) {
				delete(m.tats, k)
			}
		}
		m.sweep = now.Add(time.Minute)
	}
	m.tats[key], wait = l.Take(m.tats[key], now)
	return wait
}
