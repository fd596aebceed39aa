package main

import (
	"fmt"
	"io"
	"runtime"

	"github.com/cms-personal/personal/bench/harness"
)

// figures holds the figures in the order of measuring and printing. Figures that are
// compared with each other are neighbours.
var figures = []string{
	figureBare, figureRequire, figureMany, figureProfile, figureRefresh, figureSignIn,
	figureBareSingle, figureFields, figureHop, figureStart, figureMemory,
}

// row is a named value of one round, usually a ratio, with its goal.
type row struct {
	name        string
	value       func(harness.Round) float64
	goal        float64 // 0: none
	lowerBetter bool    // the goal is the highest value, not the lowest
}

func (r row) atLeast(goal float64) row {
	r.goal = goal
	return r
}

func (r row) atMost(goal float64) row {
	r.goal, r.lowerBetter = goal, true
	return r
}

func key(figure, subject string) harness.Key { return harness.Key{Figure: figure, Subject: subject} }

func value(name string, of func(harness.Sample) float64, k harness.Key) row {
	return row{name: name, value: func(r harness.Round) float64 { return r.Value(k, of) }}
}

func quotient(name string, of func(harness.Sample) float64, a, b harness.Key) row {
	return row{name: name, value: func(r harness.Round) float64 { return r.Value(a, of) / r.Value(b, of) }}
}

// goals returns the values that have a goal.
func goals() []row {
	var all []row
	for _, on := range []string{sqlite, postgres} {
		all = append(all, quotient("RequireUser page / bare page, "+on, harness.Rate, key(figureRequire, on), key(figureBare, on)).atLeast(0.85))
	}
	many := func(on string) row {
		return quotient("RequireUser page, 10,000 users / bare page, "+on, harness.Rate, key(figureMany, on), key(figureBare, on))
	}
	all = append(all, many(sqlite).atLeast(0.33), many(postgres).atLeast(0.23))
	all = append(all,
		quotient("RequireUser page, "+sqlite+uncached+" / PocketBase's record view", harness.Rate, key(figureRequire, sqlite+uncached),
			key(figureProfile, pocketBaseTitle)).atLeast(2),
		quotient("refresh, "+sqlite+" / PocketBase", harness.Rate, key(figureRefresh, sqlite), key(figureRefresh, pocketBaseTitle)).atLeast(1))
	signIn := func(on string) row {
		return quotient("sign-in / bare Argon2id, "+on, harness.Rate, key(figureSignIn, on), key(figureSignIn, argon2Title))
	}
	all = append(all, signIn(sqlite).atLeast(0.92), signIn(postgres).atLeast(0.84),
		quotient("time of an empty RPC through the manager / go-plugin echo", harness.P50, key(figureHop, managerTitle),
			key(figureHop, echoTitle)).atMost(1.5),
		value("ms from start to ready, "+sqlite, harness.P50, key(figureStart, sqlite)).atMost(130))
	for _, on := range []string{sqlite, postgres} {
		all = append(all, value("MB of idle memory, "+on, harness.Memory, key(figureMemory, on)).atMost(60))
	}
	for _, on := range []string{sqlite, postgres} {
		all = append(all, row{name: "refresh, p99 / p50, " + on, value: func(r harness.Round) float64 {
			k := key(figureRefresh, on)
			return r.Value(k, harness.P99) / r.Value(k, harness.P50)
		}}.atMost(3))
	}
	return all
}

// others returns a build's ratios that have no goal.
func others(suffix string) []row {
	var all []row
	for _, database := range []string{sqlite, postgres} {
		on := database + suffix
		same := func(name string, of func(harness.Sample) float64, figure, other, subject string) {
			all = append(all, quotient(name+", "+on, of, key(figure, on), key(other, subject)))
		}
		same("RequireUser page / PocketBase's record view", harness.Rate, figureRequire, figureProfile, pocketBaseTitle)
		for _, figure := range []string{figureProfile, figureRefresh, figureSignIn} {
			same(figure+" / PocketBase", harness.Rate, figure, figure, pocketBaseTitle)
		}
		same("time of start to ready / PocketBase", harness.P50, figureStart, figureStart, pocketBaseTitle)
		same("idle memory / PocketBase", harness.Memory, figureMemory, figureMemory, pocketBaseTitle)
	}
	return append(all, row{name: "time of (fields/ - bare page) / go-plugin echo" + suffix, value: func(r harness.Round) float64 {
		hop := r.Value(key(figureFields, sqlite+suffix), harness.P50) - r.Value(key(figureBareSingle, sqlite+suffix), harness.P50)
		return hop / r.Value(key(figureHop, echoTitle), harness.P50)
	}})
}

// toBase returns the ratios of this tree to another commit.
func toBase(suffix string) []row {
	var all []row
	for _, figure := range figures {
		name, of := figure, harness.Rate
		switch figure {
		case figureStart:
			name, of = "time of "+figure, harness.P50
		case figureMemory:
			of = harness.Memory
		}
		for _, on := range []string{sqlite, postgres} {
			all = append(all, quotient(name+", "+on+" / the same"+suffix, of, key(figure, on), key(figure, on+suffix)))
		}
	}
	return all
}

// print prints the medians over rounds, and the values that compare figures.
func (c *comparison) print(w io.Writer, rounds []harness.Round) {
	o := c.options
	fmt.Fprintf(w, "%d processors, %d rounds of %g s per figure, %d callers (sign-in: %d), throttling off, medians\n\n",
		runtime.NumCPU(), o.rounds, o.seconds, o.callers.all, o.callers.signIn)
	if c.postgres == "" {
		fmt.Fprint(w, "PostgreSQL is left out: PERSONAL_TEST_POSTGRES is not set.\n\n")
	}
	const line = "%-22s %-24s %11s %9s %9s %7s\n"
	fmt.Fprintf(w, line, "figure", "of", "per second", "p50 ms", "p99 ms", "MB")
	for _, figure := range figures {
		for _, subject := range c.subjectsOf(figure) {
			median := func(of func(harness.Sample) float64) string {
				s, ok := harness.Over(rounds, func(r harness.Round) float64 { return r.Value(key(figure, subject), of) })
				if !ok {
					return ""
				}
				return fmt.Sprintf("%.4g", s.Median)
			}
			fmt.Fprintf(w, line, figure, subject, median(harness.Rate), median(harness.P50), median(harness.P99), median(harness.Memory))
		}
	}
	printRows(w, "values with a goal", goals(), rounds)
	rest := others("")
	if o.base != "" {
		rest = append(toBase(c.baseSuffix()), append(rest, others(c.baseSuffix())...)...)
	}
	printRows(w, "ratios without a goal", rest, rounds)
}

// printRows prints the median, the lowest and the highest value of a round.
func printRows(w io.Writer, title string, rows []row, rounds []harness.Round) {
	fmt.Fprintf(w, "\n%-66s %8s %8s %8s   %s\n", title, "median", "lowest", "highest", "goal")
	for _, r := range rows {
		s, ok := harness.Over(rounds, r.value)
		if !ok {
			continue
		}
		fmt.Fprintf(w, "%-66s %8.2f %8.2f %8.2f", r.name, s.Median, s.Low, s.High)
		switch {
		case r.goal == 0:
		case r.lowerBetter:
			fmt.Fprintf(w, "   ≤ %-5g %s", r.goal, harness.Verdict(s.Median <= r.goal))
		default:
			fmt.Fprintf(w, "   ≥ %-5g %s", r.goal, harness.Verdict(s.Median >= r.goal))
		}
		fmt.Fprintln(w)
	}
}

// subjectsOf returns the subjects of a figure.
func (c *comparison) subjectsOf(figure string) []string {
	var subjects []string
	for _, j := range c.jobs[figure] {
		subjects = append(subjects, j.Subject)
	}
	for _, database := range []string{sqlite, postgres} {
		for _, b := range c.builds {
			if _, ok := c.idle[key(figure, database+b.suffix)]; ok {
				subjects = append(subjects, database+b.suffix)
			}
		}
	}
	if _, ok := c.idle[key(figure, pocketBaseTitle)]; ok {
		subjects = append(subjects, pocketBaseTitle)
	}
	return subjects
}
