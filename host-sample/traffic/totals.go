package traffic

import (
	"maps"
	"slices"
)

// Totals are what an operation did in the whole window.
type Totals struct {
	Operation string // empty for all of them
	Requests  int
	Errors    int
	P50       float64 // milliseconds, within 20 %; 0 where nothing was answered
	P99       float64 // likewise
}

// Totals returns those of all operations together, then of each that did anything,
// by name.
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
