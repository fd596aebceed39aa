package password

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// user is the source in tests that do not depend on it.
var user = Source{Network: "192.0.2.1"}

// waitersOf parses sources: "a a/1 s* bg" are network a, its subnet 1,
// the shared network s, and background hashing.
func waitersOf(text string) (waiters []*waiter) {
	for _, word := range strings.Fields(text) {
		name, shared := strings.CutSuffix(word, "*")
		from := Source{Shared: shared}
		if from.background = name == "bg"; !from.background {
			from.Network, from.Subnet, _ = strings.Cut(name, "/")
		}
		waiters = append(waiters, &waiter{from: from, outcome: make(chan error, 1)})
	}
	return waiters
}

func (w *waiter) String() string {
	text := w.from.Network
	if w.from.background {
		text = "bg"
	}
	if w.from.Subnet != "" {
		text += "/" + w.from.Subnet
	}
	if w.from.Shared {
		text += "*"
	}
	return text
}

// newBacklog returns a backlog in which the given sources wait.
func newBacklog(t *testing.T, slots int, waiting string) (*backlog, []*waiter) {
	t.Helper()
	b := &backlog{slots: slots}
	waiters := waitersOf(waiting)
	for i, w := range waiters {
		if displaced, ok := b.join(w); !ok || displaced != nil {
			t.Fatalf("waiter %d (%v) got no free slot", i, w)
		}
	}
	return b, waiters
}

func TestBacklog_OrderOfService(t *testing.T) {
	for name, test := range map[string]struct{ waiting, want string }{
		"one source is served in the order of arrival": {"a/1 a/1 a/1", "0 1 2"},
		"sources are served in turn":                   {"a a a b b c", "0 3 5 1 4 2"},
		"a newcomer follows one of every other source": {"a a b b c", "0 2 4 1 3"},
		"subnets are served in turn":                   {"a/1 a/1 a/1 a/2", "0 3 1 2"},
		"many subnets are one source":                  {"a/1 a/2 a/3 b", "0 3 1 2"},
		"a shared source has one turn like any other":  {"s* s* s* b", "0 3 1 2"},
		"unknown addresses are one source":             {"* * b", "0 2 1"},
		"background hashing is last":                   {"bg bg a a b", "2 4 3 0 1"},
	} {
		t.Run(name, func(t *testing.T) {
			b, waiters := newBacklog(t, 64, test.waiting)
			var order []string
			for w := b.next(); w != nil; w = b.next() {
				order = append(order, strconv.Itoa(slices.Index(waiters, w)))
			}
			if got := strings.Join(order, " "); got != test.want {
				t.Errorf("got order %s, want %s", got, test.want)
			}
			if b.size != 0 || len(b.networks) != 0 {
				t.Errorf("got %d waiters and %d networks left, want none", b.size, len(b.networks))
			}
		})
	}
}

func TestBacklog_ReturningSourceIsServedAfterOthers(t *testing.T) {
	b, waiters := newBacklog(t, 64, "a b b")
	if w := b.next(); w != waiters[0] {
		t.Fatalf("got %v first, want %v", w, waiters[0])
	}
	again := waitersOf("a")[0]
	b.join(again)
	for i, want := range []*waiter{waiters[1], again, waiters[2]} {
		if w := b.next(); w != want {
			t.Errorf("turn %d: got %v, want %v", i, w, want)
		}
	}
}

func TestBacklog_Places(t *testing.T) {
	const (
		admitted  = -1
		refused   = -2
		ofPlaces  = 8 // a quarter is 2
		unchanged = ""
	)
	for name, test := range map[string]struct {
		waiting, newcomer string
		want              int // number of the displaced waiter, or one of the constants
	}{
		"the first waits": {unchanged, "a", admitted},
		"alone, a source takes more than a quarter":            {"a a a", "a", admitted},
		"alone, a source takes the last slot":                  {"a a a a a a a", "a", admitted},
		"alone, a source gets no more than the slots":          {"a a a a a a a a", "a", refused},
		"beside others, a source takes a quarter":              {"b a", "a", admitted},
		"beside others, a source takes no more":                {"b a a", "a", refused},
		"subnets share the quarter of their network":           {"b a/1 a/2", "a/3", refused},
		"beside others, a shared one takes more":               {"b s* s* s*", "s*", admitted},
		"beside others, unknown addresses take more":           {"b * * *", "*", admitted},
		"beside others, a shared one takes no more than half":  {"b s* s* s* s*", "s*", refused},
		"beside others, shared ones share the half":            {"b s* s* t* *", "t*", refused},
		"at the half, a new shared one displaces a shared one": {"b b s* s* s* t*", "*", 4},
		"at the half, a new shared one displaces no other":     {"b b s* t* u* v*", "*", refused},
		"beside one another, shared ones take more than half":  {"s* s* s* t* t* t*", "t*", admitted},
		"beside background, a shared one takes more than half": {"bg s* s* s* s*", "s*", admitted},
		"a shared and a private source of a network are two":   {"b a a", "a*", admitted},
		"background hashing is not one of the others":          {"bg a a a", "a", admitted},
		"beside others, background takes no more":              {"a bg bg", "bg", refused},
		"full, a newcomer displaces the newest":                {"a a a a a a a a", "b", 7},
		"full, the largest source loses a slot":                {"s* b b s* s* c d e", "f", 4},
		"full, the newest counts across subnets":               {"a/1 a/2 a/2 a/1 a/3 a/2 a/1 a/2", "b", 7},
		"full, of two the one to be served last":               {"a b a b c d e f", "g", 3},
		"full, of two the one to be served last, reordered":    {"b a b a c d e f", "g", 3},
		"full of single slots, a newcomer is refused":          {"a b c d e f g h", "i", refused},
		"full, a source that waits is refused":                 {"a a b c s* s* s* s*", "b", refused},
		"full, a source that waits displaces beyond a quarter": {"a a a b c d e f", "b", 2},
		"full, a source that waits displaces beyond the half":  {"s* s* s* t* t* a b b", "a", 2},
		"full, a quarter displaces none beyond the half":       {"s* s* s* s* s* a b b", "b", refused},
		"full, a shared source that waits is refused":          {"s* s* s* s* s* s* a a", "s*", refused},
		"full, a shared one below the half displaces":          {"a a a b c d e s*", "s*", 2},
		"full, shared ones displace none of each other":        {"s* s* s* s* s* s* s* t*", "t*", refused},
		"full, a shared newcomer displaces":                    {"a a a a a a a a", "s*", 7},
		"full, background is displaced like any other":         {"bg bg bg bg bg bg bg bg", "a", 7},
		"full, background displaces none":                      {"a a a a a a a a", "bg", refused},
	} {
		t.Run(name, func(t *testing.T) {
			b, waiters := newBacklog(t, ofPlaces, test.waiting)
			displaced, ok := b.join(waitersOf(test.newcomer)[0])
			got := admitted
			switch {
			case !ok:
				got = refused
			case displaced != nil:
				got = slices.Index(waiters, displaced)
			}
			if got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
			if want := len(waiters) + 1; got == admitted && b.size != want || got != admitted && b.size != len(waiters) {
				t.Errorf("got %d waiters, had %d before", b.size, len(waiters))
			}
		})
	}
}

// fill takes every turn, and every slot for another source.
func fill(q *queue) {
	q.held = q.parallel
	for i := range q.backlog.slots {
		q.backlog.join(&waiter{from: Source{Network: fmt.Sprint(i)}, outcome: make(chan error, 1)})
	}
}

func TestQueue_DefaultIsOneTurnPerProcessor(t *testing.T) {
	if q := newQueue(0); q.parallel != runtime.GOMAXPROCS(0) || q.backlog.slots != slotsPerTurn*q.parallel {
		t.Errorf("got %d turns and %d slots, want one turn for each processor", q.parallel, q.backlog.slots)
	}
}

func TestQueue_FullQueueIsBusyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1)
		fill(q)
		start := time.Now()
		if err := q.enter(t.Context(), user); !errors.Is(err, ErrBusy) {
			t.Errorf("got %v", err)
		}
		if waited := time.Since(start); waited != 0 {
			t.Errorf("waited %v, want no wait", waited)
		}
	})
}

func TestQueue_DisplacedWaiterIsBusyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1)
		q.backlog.slots = 2
		start := time.Now()
		results := make(chan error, 3)
		for range 3 { // one runs, two wait
			go func() { results <- q.enter(t.Context(), Source{Network: "flood"}) }()
			synctest.Wait()
		}
		<-results
		go func() { results <- q.enter(t.Context(), user) }()
		synctest.Wait()
		if err := <-results; !errors.Is(err, ErrBusy) || time.Since(start) != 0 {
			t.Errorf("got %v after %v, want ErrBusy at once", err, time.Since(start))
		}
		for range 2 {
			q.leave()
			if err := <-results; err != nil {
				t.Errorf("another waiter: got %v, want its turn", err)
			}
		}
		q.leave()
		if q.held != 0 {
			t.Errorf("got %d turns held, want none", q.held)
		}
	})
}

func TestQueue_WaitEndsAfterTimeoutOrContext(t *testing.T) {
	for name, test := range map[string]struct {
		timeout time.Duration // of the context
		want    error
		after   time.Duration
	}{
		"after five seconds":            {time.Minute, ErrBusy, 5 * time.Second},
		"with the context":              {time.Second, context.DeadlineExceeded, time.Second},
		"at once, if the context ended": {0, context.DeadlineExceeded, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(1)
				q.held = 1
				ctx, cancel := context.WithTimeout(t.Context(), test.timeout)
				defer cancel()
				start := time.Now()
				if err := q.enter(ctx, user); !errors.Is(err, test.want) {
					t.Errorf("got %v, want %v", err, test.want)
				}
				if waited := time.Since(start); waited != test.after {
					t.Errorf("waited %v, want %v", waited, test.after)
				}
				if q.backlog.size != 0 {
					t.Error("the slot was not released")
				}
				if q.leave(); q.held != 0 {
					t.Error("the turn was not released")
				}
			})
		})
	}
}

func TestQueue_EndedContextGetsNoTurn(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	q := newQueue(1)
	if err := q.enter(ctx, user); !errors.Is(err, context.Canceled) || q.held != 0 {
		t.Errorf("got %v with %d turns held, want context.Canceled and none", err, q.held)
	}
}

// The waiter's context ends, and it gets its turn before it runs again.
func TestQueue_TurnOfCancelledWaiterIsPassedOn(t *testing.T) {
	for range 50 { // select picks a ready case at random
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(1)
			q.held = 1
			ctx, cancel := context.WithCancel(t.Context())
			first, second := make(chan error, 1), make(chan error, 1)
			go func() { first <- q.enter(ctx, user) }()
			synctest.Wait()
			go func() { second <- q.enter(t.Context(), user) }()
			synctest.Wait()
			q.mu.Lock() // prevents the first from withdrawing
			cancel()
			q.backlog.next().outcome <- nil
			q.mu.Unlock()
			if err := <-first; !errors.Is(err, context.Canceled) {
				t.Errorf("the cancelled waiter: got %v, want context.Canceled", err)
			}
			if err := <-second; err != nil {
				t.Errorf("the next waiter: got %v, want its turn", err)
			}
			if q.leave(); q.held != 0 {
				t.Errorf("got %d turns held, want none", q.held)
			}
		})
	}
}

func TestQueue_WithdrawnWaiterKeepsItsOutcome(t *testing.T) {
	q := newQueue(1)
	q.held = 1
	w := q.arrive(user)
	q.leave()
	if err := q.withdraw(w, ErrBusy); err != nil {
		t.Errorf("got %v, want its turn", err)
	}
}

// TestQueue_Model lets callers of several sources arrive, finish and cancel in any
// order, and checks the invariants after each step.
func TestQueue_Model(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hidden := struct{ rapid.TB }{t} // rapid would call Deadline, which panics in a bubble
		rapid.Check(hidden, func(t *rapid.T) {
			m := &queueModel{q: newQueue(rapid.IntRange(1, 3).Draw(t, "parallel"))}
			m.q.backlog.slots = rapid.IntRange(1, 12).Draw(t, "slots")
			defer m.end()
			t.Repeat(map[string]func(*rapid.T){
				"arrive": m.arrive,
				"leave":  m.leave,
				"cancel": m.cancel,
				"":       m.check,
			})
			for m.running > 0 {
				m.leave(t)
				m.check(t)
			}
			if len(m.waiting) != 0 || m.q.held != 0 {
				t.Fatalf("got %d callers waiting and %d turns held at the end, want none", len(m.waiting), m.q.held)
			}
		})
	})
}

type queueModel struct {
	q       *queue
	running int
	waiting []*modelCaller
}

type modelCaller struct {
	from   Source
	cancel context.CancelFunc
	result chan error
	alone  bool           // none of its network waited when it arrived
	before map[string]int // turns of other networks since
}

// end cancels the callers that are left after a failure.
func (m *queueModel) end() {
	for _, c := range m.waiting {
		c.cancel()
	}
	synctest.Wait()
}

func (m *queueModel) arrive(t *rapid.T) {
	w := waitersOf(rapid.SampledFrom([]string{"a/1", "a/2", "b", "c", "d", "s*", "t*", "bg"}).Draw(t, "source"))[0]
	ctx, cancel := context.WithCancel(context.Background())
	c := &modelCaller{from: w.from, cancel: cancel, result: make(chan error, 1), before: map[string]int{}}
	c.alone = m.waitingOf(c.from) == 0
	full := len(m.waiting) == m.q.backlog.slots
	shared, bounded := m.shared(), m.bounded()
	go func() { c.result <- m.q.enter(ctx, c.from) }()
	m.waiting = append(m.waiting, c)
	done := m.collect(t)
	switch {
	case len(done) > 1:
		t.Fatalf("got %d outcomes of one arrival", len(done))
	case full && len(done) == 0:
		t.Fatal("got more waiters than slots")
	case len(done) == 1 && done[0] != c && m.waitingOf(done[0].from) == 0:
		t.Fatalf("%v displaced the only waiter of %v", c.from, done[0].from)
	case bounded && m.shared() > max(shared, m.q.backlog.slots/2):
		t.Fatalf("got %d of %d slots taken by shared networks, had %d", m.shared(), m.q.backlog.slots, shared)
	}
}

// shared returns how many callers of shared networks wait.
func (m *queueModel) shared() (n int) {
	for _, c := range m.waiting {
		if c.from.Shared {
			n++
		}
	}
	return n
}

// bounded reports whether callers of private networks wait.
func (m *queueModel) bounded() bool {
	return slices.ContainsFunc(m.waiting, func(c *modelCaller) bool { return !c.from.Shared && !c.from.background })
}

func (m *queueModel) leave(t *rapid.T) {
	if m.running == 0 {
		t.Skip("no turn is held")
	}
	had := len(m.waiting)
	m.running--
	m.q.leave()
	if done := m.collect(t); len(done) != min(had, 1) {
		t.Fatalf("got %d turns after one ended with %d callers waiting", len(done), had)
	}
}

func (m *queueModel) cancel(t *rapid.T) {
	if len(m.waiting) == 0 {
		t.Skip("no caller waits")
	}
	c := rapid.SampledFrom(m.waiting).Draw(t, "caller")
	c.cancel()
	if done := m.collect(t); len(done) != 1 || done[0] != c {
		t.Fatalf("got %d outcomes of one cancellation, want 1", len(done))
	}
}

// collect returns the callers that got an outcome, and counts the turns.
func (m *queueModel) collect(t *rapid.T) (done []*modelCaller) {
	synctest.Wait()
	m.waiting = slices.DeleteFunc(m.waiting, func(c *modelCaller) bool {
		select {
		case err := <-c.result:
			c.cancel()
			done = append(done, c)
			if err == nil {
				m.running++
				m.fair(t, c)
			}
			return true
		default:
			return false
		}
	})
	return done
}

// fair checks how many turns c waited for, and counts its turn for the others.
func (m *queueModel) fair(t *rapid.T, c *modelCaller) {
	for network, turns := range c.before {
		if c.alone && turns > 1 && !c.from.background {
			t.Fatalf("%v was served after %d hashings of %s, want at most 1", c.from, turns, network)
		}
	}
	for _, other := range m.waiting {
		if other == c || other.from.same(c.from) {
			continue
		}
		if c.from.background {
			t.Fatalf("background hashing was served before %v", other.from)
		}
		other.before[c.from.Network]++
	}
}

func (m *queueModel) waitingOf(from Source) (n int) {
	for _, c := range m.waiting {
		if c.from.same(from) {
			n++
		}
	}
	return n
}

func (m *queueModel) check(t *rapid.T) {
	sum := 0
	for _, n := range m.q.backlog.networks {
		inSubnets := 0
		for _, s := range n.subnets {
			inSubnets += len(s.waiters)
		}
		if n.size == 0 || n.size != inSubnets {
			t.Fatalf("got a network of size %d with %d waiters", n.size, inSubnets)
		}
		sum += n.size
	}
	switch q := m.q; {
	case q.held > q.parallel || q.held != m.running:
		t.Fatalf("%d of %d turns are held, %d callers run", q.held, q.parallel, m.running)
	case q.backlog.size > q.backlog.slots || q.backlog.size != len(m.waiting) || q.backlog.size != sum:
		t.Fatalf("%d of %d slots are taken, %d callers wait, networks hold %d", q.backlog.size, q.backlog.slots, len(m.waiting), sum)
	case q.backlog.size > 0 && q.held < q.parallel:
		t.Fatalf("%d callers wait while %d of %d turns are held", q.backlog.size, q.held, q.parallel)
	}
}

// TestQueue_ManyCallersAtOnce is for the race detector: callers arrive, run and cancel
// in any order.
func TestQueue_ManyCallersAtOnce(t *testing.T) {
	q := newQueue(2)
	q.backlog.slots = 8
	var running, served atomic.Int64
	var callers sync.WaitGroup
	for i := range 16 {
		from := waitersOf([]string{"a", "a", "a", "a/1", "b", "c", "s*", "bg"}[i%8])[0].from
		callers.Go(func() {
			for round := range 200 {
				ctx, cancel := context.WithCancel(t.Context())
				if round%3 == 0 {
					go cancel()
				}
				err := q.run(ctx, from, func() {
					if now := running.Add(1); now > 2 {
						t.Errorf("got %d at once, want at most 2", now)
					}
					runtime.Gosched()
					running.Add(-1)
					served.Add(1)
				})
				if err != nil && !errors.Is(err, ErrBusy) && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	callers.Wait()
	if served.Load() == 0 {
		t.Error("no caller got a turn")
	}
	if q.held != 0 || q.backlog.size != 0 || len(q.backlog.networks) != 0 {
		t.Errorf("got %d turns held and %d callers waiting at the end, want none", q.held, q.backlog.size)
	}
}

func TestQueue_ObservesWaitsOfUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type wait struct {
			waited time.Duration
			err    error
		}
		var seen []wait
		q := newQueue(1)
		q.observe = func(waited time.Duration, err error) { seen = append(seen, wait{waited, err}) }
		if err := q.enter(t.Context(), user); err != nil { // a turn is free
			t.Fatal(err)
		}
		go func() {
			time.Sleep(2 * time.Second)
			q.leave()
		}()
		if err := q.enter(t.Context(), user); err != nil {
			t.Fatal(err)
		}
		_ = q.enter(t.Context(), user)                     // gets no turn
		_ = q.enter(t.Context(), Source{background: true}) // no user waits
		want := []wait{{0, nil}, {2 * time.Second, nil}, {maxWait, ErrBusy}}
		if !slices.Equal(seen, want) {
			t.Errorf("got waits %v, want %v", seen, want)
		}
	})
}

func TestHasher_LoadCountsRunningAndWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(2)
		h := &Hasher{queue: q}
		var waiters sync.WaitGroup
		for range 5 { // two run, three wait
			waiters.Go(func() { _ = q.enter(t.Context(), user) })
		}
		synctest.Wait()
		if running, waiting := h.Load(); running != 2 || waiting != 3 {
			t.Errorf("got %d running and %d waiting, want 2 and 3", running, waiting)
		}
		for range 5 {
			q.leave()
		}
		waiters.Wait()
		if running, waiting := h.Load(); running != 0 || waiting != 0 {
			t.Errorf("got %d running and %d waiting, want none", running, waiting)
		}
	})
}
