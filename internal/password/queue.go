package password

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

const (
	maxWait      = 5 * time.Second
	slotsPerTurn = 64 // callers that may wait, for each hashing that may run
)

// Source is the origin of a request for a hashing. Networks are served in turn, and
// within a network its subnets.
type Source struct {
	Network string // IPv4 address, or the /48 of an IPv6 address; "" if unknown
	Subnet  string // the /64 within an IPv6 network; "" otherwise
	// Shared means that many clients share the network, or that it is unknown. A
	// shared network may hold more than a quarter of the slots, but all shared
	// networks together at most half.
	Shared bool

	background bool // no user waits for the result; Network and Subnet are ""
}

// same reports whether two sources are in one network.
func (s Source) same(other Source) bool {
	s.Subnet, other.Subnet = "", ""
	return s == other
}

// queue limits how many hashings run at once, how many callers wait for a turn, and
// for how long. Otherwise Argon2 would exhaust the memory. Invariants, whenever the
// mutex is free:
//
//   - At most parallel turns are held, and at most backlog.slots callers wait.
//   - Callers wait only while every turn is held. A turn that ends goes to the
//     next waiter directly, so no newcomer can take it first.
//   - A waiter is either in the backlog or has exactly one outcome: its turn, or
//     [ErrBusy]. A waiter that withdraws after it got its turn passes it on.
//
// The backlog decides the order of service and which callers get a slot.
type queue struct {
	parallel int
	observe  func(waited time.Duration, err error) // see [Hasher.ObserveQueue]

	mu      sync.Mutex
	held    int // turns
	backlog backlog
}

// newQueue returns a queue of parallel turns; 0 means one for each processor.
func newQueue(parallel int) *queue {
	if parallel <= 0 {
		parallel = runtime.GOMAXPROCS(0)
	}
	return &queue{parallel: parallel, observe: func(time.Duration, error) {}, backlog: backlog{slots: slotsPerTurn * parallel}}
}

// run calls f when it is the caller's turn. The error is that of enter.
func (q *queue) run(ctx context.Context, from Source, f func()) error {
	if err := q.enter(ctx, from); err != nil {
		return err
	}
	defer q.leave()
	f()
	return nil
}

// enter waits for a turn, which the caller ends by calling leave once. The error is
// [ErrBusy] if there is no slot, another source takes the slot, or the wait exceeds
// maxWait, and the context's error if the context ends first.
func (q *queue) enter(ctx context.Context, from Source) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	w := q.arrive(from)
	var waited time.Duration
	if w != nil {
		began := time.Now()
		err = q.await(ctx, w)
		waited = time.Since(began)
	}
	if !from.background {
		q.observe(waited, err)
	}
	return err
}

// await waits for the outcome of a waiter, which is that of enter.
func (q *queue) await(ctx context.Context, w *waiter) (err error) {
	timeout := time.NewTimer(maxWait)
	defer timeout.Stop()
	select {
	case err = <-w.outcome:
	case <-ctx.Done():
		err = q.withdraw(w, ctx.Err())
	case <-timeout.C:
		err = q.withdraw(w, ErrBusy)
	}
	if ended := ctx.Err(); err == nil && ended != nil { // the turn came too late
		q.leave()
		return ended
	}
	return err
}

// arrive takes a free turn and returns nil, or returns a waiter. If there is no slot
// for the waiter, it has its outcome already.
func (q *queue) arrive(from Source) *waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.held < q.parallel {
		q.held++
		return nil
	}
	w := &waiter{from: from, outcome: make(chan error, 1)}
	refused := w
	if displaced, ok := q.backlog.join(w); ok {
		refused = displaced
	}
	if refused != nil {
		refused.outcome <- ErrBusy
	}
	return w
}

// withdraw ends a wait and returns the reason, or the waiter's outcome if it has one
// already.
func (q *queue) withdraw(w *waiter, reason error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.backlog.remove(w) {
		return reason
	}
	return <-w.outcome
}

// leave ends a turn and passes it to the next waiter.
func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w := q.backlog.next(); w != nil {
		w.outcome <- nil
		return
	}
	q.held--
}

// waiter is a caller that waits for a turn.
type waiter struct {
	from    Source
	number  uint64     // in the order of arrival
	outcome chan error // gets one value: nil for a turn, or [ErrBusy]
}

// backlog holds the waiters and decides the order of service:
//
//   - Networks are served in turn, within a network its subnets in turn, within a
//     subnet the waiters in the order of arrival. A new network is served after at
//     most one hashing of every other network.
//   - Background hashing is its own network. It is served only when no other
//     network waits.
//
// It also decides which callers get one of the slots:
//
//   - The bound of a network is a quarter of the slots, that of all shared networks
//     together half of them. A network at its bound gets no further slot while
//     others wait. Background hashing does not count as another network, nor does one
//     shared network for another.
//   - When all slots are taken, a network without a waiter displaces the newest
//     waiter of the largest network; of several, of the one to be served last. A
//     shared network without a waiter also displaces one of a shared network when
//     these have reached their bound. If every network holds only one slot, the
//     newcomer gets none. Background hashing displaces no waiter.
//   - When all slots are taken, a network with less than a quarter of them also
//     displaces a waiter, but only of a network beyond its bound, and no shared
//     network displaces another. Any other network with a waiter gets no further slot.
//
// Scans are linear: there are a few hundred slots at most, and a hashing takes
// milliseconds.
type backlog struct {
	slots    int
	size     int        // waiters
	joined   uint64     // waiters that ever joined
	networks []*network // those with waiters, the next to be served first
}

// network holds the waiters of one source. It has at least one.
type network struct {
	size    int       // waiters
	subnets []*subnet // those with waiters, the next to be served first
}

// subnet holds waiters of one subnet in the order of arrival. It has at least one.
type subnet struct{ waiters []*waiter }

func (s *subnet) source() Source  { return s.waiters[0].from }
func (n *network) source() Source { return n.subnets[0].source() }

// join gives w a slot and removes the waiter that it displaces, if any.
func (b *backlog) join(w *waiter) (displaced *waiter, ok bool) {
	own, quarter, half, shared := b.find(w.from), b.slots/4, b.slots/2, b.shared()
	size := 0
	if own != nil {
		size = own.size
	}
	atBound := size >= quarter
	if w.from.Shared {
		atBound = shared >= half
	}
	if atBound = atBound && b.othersWait(w.from); atBound || b.size == b.slots {
		largest := b.largest(func(n *network) bool {
			switch {
			case n.size == 1 || w.from.background:
				return false
			case atBound:
				return own == nil && w.from.Shared && n.source().Shared
			case own == nil:
				return true
			case size >= quarter:
				return false
			case n.source().Shared:
				return shared > half && !w.from.Shared
			}
			return n.size > quarter
		})
		if largest == nil {
			return nil, false
		}
		displaced = largest.newest()
		b.remove(displaced)
	}
	b.joined++
	w.number = b.joined
	b.add(own, w)
	return displaced, true
}

// add appends w to its network own, or to a new one, to be served last, if own is nil.
func (b *backlog) add(own *network, w *waiter) {
	if own == nil {
		own = &network{}
		b.networks = append(b.networks, own)
	}
	b.size++
	own.size++
	for _, s := range own.subnets {
		if s.source().Subnet == w.from.Subnet {
			s.waiters = append(s.waiters, w)
			return
		}
	}
	own.subnets = append(own.subnets, &subnet{[]*waiter{w}})
}

// next removes and returns the waiter to be served, nil if there is none, and moves
// its network and its subnet behind the others.
func (b *backlog) next() *waiter {
	if b.size == 0 {
		return nil
	}
	turn := max(0, slices.IndexFunc(b.networks, func(n *network) bool { return !n.source().background }))
	n := toBack(b.networks, turn)
	w := toBack(n.subnets, 0).waiters[0]
	b.remove(w)
	return w
}

// toBack moves an element behind the others and returns it.
func toBack[E any](list []E, i int) E {
	e := list[i]
	copy(list[i:], list[i+1:])
	list[len(list)-1] = e
	return e
}

// remove removes w, or returns false if w is not in the backlog.
func (b *backlog) remove(w *waiter) bool {
	n := b.find(w.from)
	if n == nil {
		return false
	}
	for i, s := range n.subnets {
		at := slices.Index(s.waiters, w)
		if at < 0 {
			continue
		}
		b.size--
		n.size--
		if s.waiters = slices.Delete(s.waiters, at, at+1); len(s.waiters) == 0 {
			n.subnets = slices.Delete(n.subnets, i, i+1)
		}
		if n.size == 0 {
			b.networks = slices.DeleteFunc(b.networks, func(other *network) bool { return other == n })
		}
		return true
	}
	return false
}

// find returns the network of a source, or nil if it has no waiter.
func (b *backlog) find(from Source) *network {
	for _, n := range b.networks {
		if n.source().same(from) {
			return n
		}
	}
	return nil
}

// othersWait reports whether another network than that of from has waiters. Background
// hashing does not count, nor does a shared network if from is shared.
func (b *backlog) othersWait(from Source) bool {
	return slices.ContainsFunc(b.networks, func(n *network) bool {
		other := n.source()
		return !other.same(from) && !other.background && !(from.Shared && other.Shared)
	})
}

// shared returns the number of slots that shared networks hold.
func (b *backlog) shared() (slots int) {
	for _, n := range b.networks {
		if n.source().Shared {
			slots += n.size
		}
	}
	return slots
}

// largest returns the network with the most waiters of those that fit; of several the
// one to be served last, and nil if none fits.
func (b *backlog) largest(fits func(*network) bool) (largest *network) {
	for _, n := range b.networks {
		if fits(n) && (largest == nil || n.size >= largest.size) {
			largest = n
		}
	}
	return largest
}

// newest returns the waiter that arrived last.
func (n *network) newest() *waiter {
	var newest *waiter
	for _, s := range n.subnets {
		if w := s.waiters[len(s.waiters)-1]; newest == nil || w.number > newest.number {
			newest = w
		}
	}
	return newest
}
