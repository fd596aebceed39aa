// Package traffic remembers what was answered lately, second by second, for a
// chart of it.
package traffic

import (
	"sync"
	"time"
)

// Window is how long is remembered.
const Window = 5 * time.Minute

const seconds = int64(Window / time.Second)

// Recorder remembers the last seconds of every operation. It is safe for
// concurrent use, and made by [NewRecorder].
type Recorder struct {
	now func() time.Time

	mu         sync.Mutex
	all        ring // of all operations
	operations map[string]*ring
}

// ring holds the seconds of one operation, each in the place of its number modulo
// the ring's length.
type ring [seconds]second

type second struct {
	number   int64 // since 1970
	requests int
	errors   int
	took     latencies
}

// NewRecorder returns a recorder that has seen nothing.
func NewRecorder() *Recorder {
	return &Recorder{now: time.Now, operations: map[string]*ring{}}
}

// Count notes an answer of this moment. There must be few operations: what callers
// made up is none.
func (r *Recorder) Count(operation string, failed bool, took time.Duration) {
	now := r.now().Unix()
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.operations[operation]
	if o == nil {
		o = &ring{}
		r.operations[operation] = o
	}
	o.count(now, failed, took)
	r.all.count(now, failed, took)
}

func (r *ring) count(now int64, failed bool, took time.Duration) {
	s := &r[now%seconds]
	if s.number != now {
		*s = second{number: now}
	}
	s.requests++
	if failed {
		s.errors++
	}
	s.took.add(took)
}

// Series is what one operation did, a value for each second.
type Series struct {
	Requests []int     `json:"requests"`
	Errors   []int     `json:"errors"`
	P50      []float64 `json:"p50"` // milliseconds, within 20 %; 0 where nothing was answered
	P99      []float64 `json:"p99"` // likewise
}

// Report is the traffic of some seconds that are over.
type Report struct {
	From       int64             `json:"from"`  // the first second, since 1970
	Until      int64             `json:"until"` // the one behind the last
	All        Series            `json:"all"`   // of all operations
	Operations map[string]Series `json:"operations"`
}

// Since returns the whole seconds from the given one on, as far as they are
// remembered, up to the last one that is over. Operations that did nothing in them
// are left out.
func (r *Recorder) Since(from int64) Report {
	until := r.now().Unix()
	from = min(max(from, until-seconds+1), until)
	r.mu.Lock()
	defer r.mu.Unlock()
	report := Report{From: from, Until: until, Operations: map[string]Series{}}
	report.All, _ = r.all.series(from, until)
	for name, o := range r.operations {
		if s, some := o.series(from, until); some {
			report.Operations[name] = s
		}
	}
	return report
}

// series reports false if there was nothing.
func (r *ring) series(from, until int64) (s Series, some bool) {
	n := until - from
	s = Series{Requests: make([]int, n), Errors: make([]int, n), P50: make([]float64, n), P99: make([]float64, n)}
	for i := range n {
		at := &r[(from+i)%seconds]
		if at.number != from+i {
			continue
		}
		some = true
		s.Requests[i], s.Errors[i] = at.requests, at.errors
		s.P50[i], s.P99[i] = at.took.quantile(0.50), at.took.quantile(0.99)
	}
	return s, some
}
