package personal

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Requests of several sources come, wait, give up and end at random.
func TestSlots_NothingIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(8)
		var entered, gaveUp, crowded atomic.Int32
		for range 2000 {
			address := netip.AddrFrom4([4]byte{192, 0, 2, byte(rand.N(5))})
			from := sourceOf(Call{Address: address, Shared: rand.N(5) == 0})
			go func() {
				time.Sleep(rand.N(time.Second))
				ctx, cancel := context.WithTimeout(t.Context(), rand.N(time.Second))
				defer cancel()
				switch s.enter(ctx, from) {
				case nil:
					entered.Add(1)
					time.Sleep(rand.N(20 * time.Millisecond))
					s.leave(from)
				case errCrowded:
					crowded.Add(1)
				default:
					gaveUp.Add(1)
				}
			}()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if s.taken != 0 || s.shared != 0 || len(s.queues) != 0 || len(s.turns) != 0 {
			t.Errorf("at the end got %+v, want no slot and no request", s)
		}
		if entered.Load() == 0 || gaveUp.Load() == 0 || crowded.Load() == 0 {
			t.Errorf("got %d requests with a slot, %d that gave up and %d refused, want some of each", entered.Load(), gaveUp.Load(), crowded.Load())
		}
	})
}
