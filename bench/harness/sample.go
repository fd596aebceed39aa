package harness

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Sample is the result of one measurement. Values that were not measured are NaN.
type Sample struct {
	Rate, P50, P99 float64 // per second, and milliseconds
	Memory         float64 // MB
}

// Nothing is a sample of which no value was measured.
func Nothing() Sample { return Sample{math.NaN(), math.NaN(), math.NaN(), math.NaN()} }

func newSample(latencies []time.Duration, counted time.Duration) Sample {
	s := Nothing()
	if len(latencies) == 0 {
		return s
	}
	slices.Sort(latencies)
	s.Rate = float64(len(latencies)) / counted.Seconds()
	s.P50 = Milliseconds(latencies[len(latencies)/2])
	s.P99 = Milliseconds(latencies[len(latencies)*99/100])
	return s
}

// Milliseconds returns a duration in milliseconds.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Rate returns the rate of a sample.
func Rate(s Sample) float64 { return s.Rate }

// P50 returns the median latency of a sample.
func P50(s Sample) float64 { return s.P50 }

// P99 returns the 99th percentile of the latencies of a sample.
func P99(s Sample) float64 { return s.P99 }

// Memory returns the memory of a sample.
func Memory(s Sample) float64 { return s.Memory }

// Key identifies a measurement.
type Key struct{ Figure, Subject string }

// Round holds the results of one round.
type Round map[Key]Sample

// Value returns a value of a measurement, or NaN if there is none.
func (r Round) Value(k Key, of func(Sample) float64) float64 {
	if s, ok := r[k]; ok {
		return of(s)
	}
	return math.NaN()
}

// Spread is the range and the median of a value over rounds.
type Spread struct{ Low, Median, High float64 }

// Over returns the spread of a value over rounds, or false if no round has it.
func Over(rounds []Round, value func(Round) float64) (Spread, bool) {
	var values []float64
	for _, r := range rounds {
		if v := value(r); !math.IsNaN(v) && !math.IsInf(v, 0) {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return Spread{}, false
	}
	slices.Sort(values)
	n := len(values)
	return Spread{values[0], (values[(n-1)/2] + values[n/2]) / 2, values[n-1]}, true
}

// Job measures a figure of one subject.
type Job struct {
	Subject string
	Measure func(context.Context) (Sample, error)
}

// Jobs holds the measurements of a round by figure.
type Jobs map[string][]Job

// Add adds a measurement.
func (j Jobs) Add(figure, subject string, measure func(context.Context) (Sample, error)) {
	j[figure] = append(j[figure], Job{subject, measure})
}

// Rounds runs a number of rounds. Measurements of the same figure follow each other.
// The order of the subjects is reversed in every other round, so that none profits
// from it.
func (j Jobs) Rounds(ctx context.Context, number int, figures []string) ([]Round, error) {
	rounds := make([]Round, number)
	for i := range rounds {
		Progress("round %d of %d", i+1, number)
		rounds[i] = Round{}
		for _, figure := range figures {
			jobs := slices.Clone(j[figure])
			if i%2 == 1 {
				slices.Reverse(jobs)
			}
			for _, job := range jobs {
				s, err := job.Measure(ctx)
				if err != nil {
					return nil, fmt.Errorf("%s, %s: %w", figure, job.Subject, err)
				}
				rounds[i][Key{figure, job.Subject}] = s
			}
		}
	}
	return rounds, nil
}

// Progress tells the user what the program is doing.
func Progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, filepath.Base(os.Args[0])+": "+format+"\n", args...)
}

// Verdict returns how a table says whether a goal is met.
func Verdict(met bool) string {
	if met {
		return "met"
	}
	return "MISSED"
}
