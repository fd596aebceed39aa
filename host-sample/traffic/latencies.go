package traffic

import (
	"math"
	"time"
)

// Latencies fall into buckets, each of which reaches a fifth further than the one
// before: up to a fiftieth of a millisecond, and then to a minute.
const (
	growth    = 1.2
	smallest  = 0.02 // milliseconds
	bucketsIn = 84
)

// latencies counts durations by their size. The zero latencies has none.
type latencies struct {
	buckets [bucketsIn]uint32
	count   int
}

func (l *latencies) add(took time.Duration) {
	l.buckets[bucket(took)]++
	l.count++
}

// addAll adds what another one counted.
func (l *latencies) addAll(other *latencies) {
	for i, n := range other.buckets {
		l.buckets[i] += n
	}
	l.count += other.count
}

func bucket(took time.Duration) int {
	ms := took.Seconds() * 1000
	if ms <= smallest {
		return 0
	}
	return min(1+int(math.Log(ms/smallest)/math.Log(growth)), bucketsIn-1)
}

// quantile returns the upper end of the bucket in which the quantile lies, in
// milliseconds; 0 if nothing was counted.
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
	return smallest * math.Pow(growth, bucketsIn-1)
}
