// Package traffic counts recent requests per second and operation, for a chart.
package traffic

import (
	"maps"
	"math"
	"slices"
	"sync"
	"time"
)

// Window is how long requests are remembered.
const Window = 5 * time.Minute

const seconds = int64(Window / time.Second)

// Recorder counts the requests of every operation in each second of the [Window].
// It is safe for concurrent use, and made by [NewRecorder].
type Recorder struct {
	now func() time.Time

	mu         sync.Mutex
	all        ring // of all operations
	operations map[string]*ring
}

// ring holds the seconds of one operation. A second's index is its number modulo
// the length.
type ring [seconds]second

type second struct {
	number   int64 // since 1970
	requests int
	errors   int
	took     latencies
}

// NewRecorder returns a recorder without requests.
func NewRecorder() *Recorder {
	return &Recorder{now: time.Now, operations: map[string]*ring{}}
}

// Count adds a request that was completed now. Operations are kept forever, so
// there must be few of them: names that callers can make up must not be used.
func (r *Recorder) Count(operation string, failed bool, took time.Duration) {
	now := r.now().Unix()
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.operations[operation]
	if o == nil {
		o = &ring{}
		r.operations[operation] = o
	}
	for _, ring := range []*ring{o, &r.all} {
		s := &ring[now%seconds]
		if s.number != now {
			*s = second{number: now}
		}
		s.requests++
		if failed {
			s.errors++
		}
		s.took.add(took)
	}
}

// Series is the traffic of one operation, with one value per second.
type Series struct {
	Requests []int     `json:"requests"`
	Errors   []int     `json:"errors"`
	P50      []float64 `json:"p50"` // milliseconds, at most 20 % too high; 0 without requests
	P99      []float64 `json:"p99"` // milliseconds, at most 20 % too high; 0 without requests
}

// Period is the traffic of some complete seconds.
type Period struct {
	From       int64             `json:"from"`  // the first second, since 1970
	Until      int64             `json:"until"` // the second after the last one
	All        Series            `json:"all"`   // of all operations
	Operations map[string]Series `json:"operations"`
}

// Since returns the complete seconds within the [Window], beginning with second
// number from. It leaves out operations without requests.
func (r *Recorder) Since(from int64) Period {
	until := r.now().Unix()
	from = min(max(from, until-seconds+1), until)
	r.mu.Lock()
	defer r.mu.Unlock()
	report := Period{From: from, Until: until, Operations: map[string]Series{}}
	report.All, _ = r.all.series(from, until)
	for name, o := range r.operations {
		if s, some := o.series(from, until); some {
			report.Operations[name] = s
		}
	}
	return report
}

// series returns false if there were no requests.
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

// Totals are the traffic of one operation in the whole [Window].
type Totals struct {
	Operation string // empty for all operations together
	Requests  int
	Errors    int
	P50       float64 // milliseconds, at most 20 % too high; 0 without requests
	P99       float64 // milliseconds, at most 20 % too high; 0 without requests
}

// Totals returns the totals of all operations together, then those of each
// operation with requests, sorted by name.
func (r *Recorder) Totals() []Totals {
	until := r.now().Unix() + 1
	r.mu.Lock()
	defer r.mu.Unlock()
	all := []Totals{r.all.totals(until)}
	for _, name := range slices.Sorted(maps.Keys(r.operations)) {
		t := r.operations[name].totals(until)
		t.Operation = name
		if t.Requests > 0 {
			all = append(all, t)
		}
	}
	return all
}

func (r *ring) totals(until int64) Totals {
	var t Totals
	var took latencies
	for i := range r {
		s := &r[i]
		if s.number < until-seconds || s.number >= until {
			continue
		}
		t.Requests += s.requests
		t.Errors += s.errors
		took.addAll(&s.took)
	}
	t.P50, t.P99 = took.quantile(0.50), took.quantile(0.99)
	return t
}

// Latencies are counted in buckets. The first one ends at a fiftieth of a
// millisecond, and each ends a fifth later than its predecessor, up to a
// minute.
const (
	growth      = 1.2
	smallest    = 0.02 // milliseconds
	bucketCount = 84
)

// latencies is a histogram. The zero value is empty.
type latencies struct {
	buckets [bucketCount]uint32
	count   int
}

func (l *latencies) add(took time.Duration) {
	bucket := 0
	if ms := took.Seconds() * 1000; ms > smallest {
		bucket = min(1+int(math.Log(ms/smallest)/math.Log(growth)), bucketCount-1)
	}
	l.buckets[bucket]++
	l.count++
}

func (l *latencies) addAll(other *latencies) {
	for i, n := range other.buckets {
		l.buckets[i] += n
	}
	l.count += other.count
}

// quantile returns the upper end of the bucket that contains the quantile, in
// milliseconds; 0 if the histogram is empty.
func (l *latencies) quantile(q float64) float64 {
	if l.count == 0 {
		return 0
	}
	rank := max(1, int(math.Ceil(q*float64(l.count))))
	for i, n := range l.buckets {
		if rank -= int(n); rank <= 0 {
			return smallest * math.Pow(growth, float64(i))
		}
	}
	return smallest * math.Pow(growth, bucketCount-1)
}
