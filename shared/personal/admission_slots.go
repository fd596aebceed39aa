package personal

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
)

// maxWaiting is how many requests of one source may wait for a slot.
const maxWaiting = 64

// errCrowded means that too many requests of the same source wait already.
var errCrowded = errors.New("too many requests of this source wait for a judgement")

// source is the origin of a request: an IPv4 address, the /48 of an IPv6 address, or, as the
// zero network, all unknown addresses.
type source struct {
	network netip.Prefix
	shared  bool // many clients share the address, or it is unknown
}

func sourceOf(c Call) source {
	address := c.Address.Unmap()
	if !address.IsValid() {
		return source{shared: true}
	}
	bits := 48
	if bytes := address.As16(); [12]byte(bytes[:]) == [12]byte{0x00, 0x64, 0xff, 0x9b} {
		address = netip.AddrFrom4([4]byte(bytes[12:])) // of NAT64, in whose /48 all IPv4 clients are
	}
	if address.Is4() {
		bits = 32
	}
	return source{netip.PrefixFrom(address, bits).Masked(), c.Shared}
}

// slots limit how many judgements of one operation run at once. A source has an eighth of them
// at most, and all shared sources together have half of them. Other requests wait, up to
// maxWaiting of a source; sources that wait are served in turn.
//
// Whenever the mutex is free, no request waits that could have a slot.
type slots struct {
	all int

	mu     sync.Mutex
	taken  int
	shared int // of these, those of shared sources
	queues map[source]*queue
	turns  []*queue // those in which requests wait, the next to be served first
}

// queue are the requests of one source. It has at least one.
type queue struct {
	from    source
	taken   int             // slots
	waiting []chan struct{} // each is closed when its request has a slot
}

func newSlots(all int) *slots { return &slots{all: all, queues: map[source]*queue{}} }

// enter takes a slot, which leave gives back. It waits until the context ends, and returns its
// error then; errCrowded if the request may not wait.
func (s *slots) enter(ctx context.Context, from source) error {
	s.mu.Lock()
	q := s.queues[from]
	if q == nil {
		q = &queue{from: from}
		s.queues[from] = q
	}
	if s.mayEnter(q) {
		s.take(q)
		s.mu.Unlock()
		return nil
	}
	if len(q.waiting) == maxWaiting {
		s.mu.Unlock()
		return errCrowded
	}
	slot := make(chan struct{})
	if q.waiting = append(q.waiting, slot); len(q.waiting) == 1 {
		s.turns = append(s.turns, q)
	}
	s.mu.Unlock()
	select {
	case <-slot:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(q.waiting, slot)
	if i < 0 { // the slot came together with the end
		s.giveBack(q)
		return ctx.Err()
	}
	if q.waiting = slices.Delete(q.waiting, i, i+1); len(q.waiting) == 0 {
		s.turns = slices.DeleteFunc(s.turns, func(other *queue) bool { return other == q })
		s.forget(q)
	}
	return ctx.Err()
}

// leave gives a slot back.
func (s *slots) leave(from source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.giveBack(s.queues[from])
}

func (s *slots) mayEnter(q *queue) bool {
	switch {
	case s.taken == s.all:
		return false
	case q.from.shared:
		return s.shared < max(1, s.all/2)
	}
	return q.taken < max(1, s.all/8)
}

func (s *slots) take(q *queue) {
	q.taken++
	s.taken++
	if q.from.shared {
		s.shared++
	}
}

// giveBack gives a slot back, and the next request that may have one gets it.
func (s *slots) giveBack(q *queue) {
	q.taken--
	s.taken--
	if q.from.shared {
		s.shared--
	}
	if i := slices.IndexFunc(s.turns, s.mayEnter); i >= 0 {
		next := s.turns[i]
		s.turns = slices.Delete(s.turns, i, i+1)
		s.take(next)
		close(next.waiting[0])
		if next.waiting = slices.Delete(next.waiting, 0, 1); len(next.waiting) > 0 {
			s.turns = append(s.turns, next)
		}
	}
	s.forget(q)
}

// forget forgets a source without requests.
func (s *slots) forget(q *queue) {
	if q.taken == 0 && len(q.waiting) == 0 {
		delete(s.queues, q.from)
	}
}
