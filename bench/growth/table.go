package main

import (
	"fmt"
	"io"
	"runtime"

	"github.com/cms-personal/personal/bench/harness"
	"github.com/cms-personal/personal/internal/store/dbconn"
)

// figures holds the figures in the order of measuring and printing.
var figures = []string{
	figureRequire, figureProfile, figureRefresh, figureSignIn, figureFirstPage, figureLogin, figurePart,
}

// goals holds how many times slower a figure may be with the largest number of
// accounts than with the smallest.
var goals = map[string]float64{
	figureRequire: 1.2, figureProfile: 1.2, figureRefresh: 1.2, figureSignIn: 1.2, figureFirstPage: 1.5, figureLogin: 1.5,
}

// isSearch holds the figures with one caller, whose latency counts and not their rate.
var isSearch = map[string]bool{figureFirstPage: true, figureLogin: true, figurePart: true}

// print prints the medians over rounds, and how many times slower each figure is with
// more accounts: the median, the lowest and the highest ratio of one round.
func print(w io.Writer, o options, kind dbconn.Kind, rounds []harness.Round) {
	fmt.Fprintf(w, "%s, 10 sessions per account, up to %d sessions verified and as many refreshed: %d processors, %d rounds of %g s per figure, %d callers (sign-in: %d, search: 1)\n\n",
		kind, sampled, runtime.NumCPU(), o.rounds, o.seconds, o.callers, o.signInCallers)
	fmt.Fprintf(w, "%-24s %9s %11s %9s %9s   %-22s %s\n", "figure", "accounts", "per second", "p50 ms", "p99 ms", "times slower", "goal")
	for _, figure := range figures {
		for i, n := range o.accounts {
			at := func(n int64, of func(harness.Sample) float64) func(harness.Round) float64 {
				return func(r harness.Round) float64 { return r.Value(harness.Key{Figure: figure, Subject: name(n)}, of) }
			}
			median := func(of func(harness.Sample) float64) string {
				s, ok := harness.Over(rounds, at(n, of))
				if !ok {
					return ""
				}
				return fmt.Sprintf("%.4g", s.Median)
			}
			fmt.Fprintf(w, "%-24s %9d %11s %9s %9s", figure, n, median(harness.Rate), median(harness.P50), median(harness.P99))
			slower, ok := harness.Over(rounds, func(r harness.Round) float64 {
				if isSearch[figure] {
					return at(n, harness.P50)(r) / at(o.accounts[0], harness.P50)(r)
				}
				return at(o.accounts[0], harness.Rate)(r) / at(n, harness.Rate)(r)
			})
			if i > 0 && ok {
				fmt.Fprintf(w, "   %-22s", fmt.Sprintf("%.2f (%.2f to %.2f)", slower.Median, slower.Low, slower.High))
				if goal, ok := goals[figure]; ok && i == len(o.accounts)-1 {
					fmt.Fprintf(w, " %.1f %s", goal, harness.Verdict(slower.Median <= goal))
				}
			}
			fmt.Fprintln(w)
		}
	}
	fmt.Fprintln(w)
}
