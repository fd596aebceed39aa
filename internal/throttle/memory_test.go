package throttle

import (
	"testing"
	"time"
)

func TestMemory_CountsEachKeyApart(t *testing.T) {
	var m Memory
	limit, now := Limit{Burst: 2, Every: time.Second}, time.Unix(1000, 0)
	for i, want := range []time.Duration{0, 0, time.Second, time.Second} {
		if got := m.Take(1, limit, now); got != want {
			t.Errorf("attempt %d: wait %v, want %v", i+1, got, want)
		}
	}
	if got := m.Take(2, limit, now); got != 0 {
		t.Errorf("another key: wait %v, want none", got)
	}
	if got := m.Take(1, limit, now.Add(time.Second)); got != 0 {
		t.Errorf("after the wait: %v, want none", got)
	}
}

func TestMemory_ForgetsKeysThatCountNothing(t *testing.T) {
	var m Memory
	limit, now := Limit{Burst: 2, Every: time.Second}, time.Unix(1000, 0)
	for key := range int64(1000) {
		m.Take(key, limit, now)
	}
	m.Take(1, limit, now.Add(time.Hour))
	if n := len(m.tats); n != 1 {
		t.Errorf("%d keys are kept, want 1", n)
	}
}
