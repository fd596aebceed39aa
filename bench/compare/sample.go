package main

import (
	"math"
	"slices"
	"time"
)

// sample is the result of one measurement. Values that were not measured are NaN.
type sample struct {
	rate, p50, p99 float64 // per second, and milliseconds
	memory         float64 // MB
}

var nothing = sample{math.NaN(), math.NaN(), math.NaN(), math.NaN()}

func newSample(latencies []time.Duration, counted time.Duration) sample {
	if len(latencies) == 0 {
		return nothing
	}
	slices.Sort(latencies)
	s := nothing
	s.rate = float64(len(latencies)) / counted.Seconds()
	s.p50 = milliseconds(latencies[len(latencies)/2])
	s.p99 = milliseconds(latencies[len(latencies)*99/100])
	return s
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func rate(s sample) float64   { return s.rate }
func p50(s sample) float64    { return s.p50 }
func p99(s sample) float64    { return s.p99 }
func memory(s sample) float64 { return s.memory }

// key identifies a measurement.
type key struct{ figure, subject string }

// round holds the results of one round.
type round map[key]sample

// value returns a value of a measurement, or NaN if there is none.
func (r round) value(k key, of func(sample) float64) float64 {
	if s, ok := r[k]; ok {
		return of(s)
	}
	return math.NaN()
}

// spread is the range and the median of a value over rounds.
type spread struct{ low, median, high float64 }

// over returns the spread of a value over rounds, or false if no round has it.
func over(rounds []round, value func(round) float64) (spread, bool) {
	var values []float64
	for _, r := range rounds {
		if v := value(r); !math.IsNaN(v) && !math.IsInf(v, 0) {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return spread{}, false
	}
	slices.Sort(values)
	n := len(values)
	return spread{values[0], (values[(n-1)/2] + values[n/2]) / 2, values[n-1]}, true
}
