package rpc

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// remember adds a call that has ended.
func (m *remembered) remember(n int, freshFor time.Duration) {
	key := newRememberedKey(personal.Credentials{UserID: int64(n), UserHash: "hash"}, "1", 0)
	v, _ := m.find(key, int64(n), time.Now())
	v.profile.FreshFor = freshFor
	m.end(key, int64(n), v)
}

func (m *remembered) size() (n int) {
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		n += len(s.entries)
		s.mu.Unlock()
	}
	return n
}

func TestRemembered_AreBounded(t *testing.T) {
	m := newRemembered()
	for n := range maxRemembered + maxRemembered/2 {
		m.remember(n+1, time.Hour)
	}
	if size := m.size(); size > maxRemembered || size < maxRemembered*9/10 {
		t.Errorf("got %d entries, want at most %d, and nearly as many", size, maxRemembered)
	}
	last := newRememberedKey(personal.Credentials{UserID: maxRemembered * 3 / 2, UserHash: "hash"}, "1", 0)
	if _, stage := m.find(last, maxRemembered*3/2, time.Now()); stage != ended {
		t.Errorf("got stage %d of the newest entry, want it remembered", stage)
	}
}

func TestRemembered_ExpiredEntriesAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newRemembered()
		for n := range 1000 {
			m.remember(n+1, 3*time.Second)
		}
		m.remember(2000, time.Minute)
		time.Sleep(10 * time.Second)
		if size := m.size(); size != 1 {
			t.Errorf("got %d entries, want the one that has not expired", size)
		}
		time.Sleep(time.Minute)
		if size := m.size(); size != 0 || m.sweeping.Load() {
			t.Errorf("got %d entries and a sweep due: %t, want none", size, m.sweeping.Load())
		}
		m.remember(1, time.Second)
		time.Sleep(5 * time.Second)
		if size := m.size(); size != 0 {
			t.Errorf("got %d entries, want the sweep to begin again", size)
		}
	})
}

func TestRememberedKey_IsUnambiguous(t *testing.T) {
	seen := map[rememberedKey]string{}
	for name, key := range map[string]rememberedKey{
		"a":             newRememberedKey(personal.Credentials{UserID: 1, UserHash: "ab"}, "c", 1),
		"shifted":       newRememberedKey(personal.Credentials{UserID: 1, UserHash: "a"}, "bc", 1),
		"another user":  newRememberedKey(personal.Credentials{UserID: 2, UserHash: "ab"}, "c", 1),
		"another start": newRememberedKey(personal.Credentials{UserID: 1, UserHash: "ab"}, "c", 2),
	} {
		if other, ok := seen[key]; ok {
			t.Errorf("%s has the key of %s", name, other)
		}
		seen[key] = name
	}
}
