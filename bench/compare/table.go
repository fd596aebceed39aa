package main

import (
	"fmt"
	"io"
	"runtime"
)

// figures holds the figures in the order of measuring and printing. Figures that are
// compared with each other are neighbours.
var figures = []string{
	figureBare, figureRequire, figureProfile, figureRefresh, figureSignIn,
	figureBareSingle, figureFields, figureEcho, figureStart, figureMemory,
}

// ratio is a named quotient of measurements of one round.
type ratio struct {
	name  string
	value func(round) float64
}

func quotient(name string, of func(sample) float64, a, b key) ratio {
	return ratio{name, func(r round) float64 { return r.value(a, of) / r.value(b, of) }}
}

// ratios returns the ratios within a build, and to PocketBase, Argon2id and go-plugin.
func ratios(suffix string) []ratio {
	var all []ratio
	for _, database := range []string{sqlite, postgres} {
		on := database + suffix
		same := func(name string, of func(sample) float64, figure, other, subject string) {
			all = append(all, quotient(name+", "+on, of, key{figure, on}, key{other, subject}))
		}
		same("RequireUser page / bare page", rate, figureRequire, figureBare, on)
		same("sign-in / bare Argon2id", rate, figureSignIn, figureSignIn, argon2Title)
		all = append(all, ratio{"refresh, p99 / p50, " + on, func(r round) float64 {
			k := key{figureRefresh, on}
			return r.value(k, p99) / r.value(k, p50)
		}})
		same("RequireUser page / PocketBase's record view", rate, figureRequire, figureProfile, pocketBaseTitle)
		for _, figure := range []string{figureProfile, figureRefresh, figureSignIn} {
			same(figure+" / PocketBase", rate, figure, figure, pocketBaseTitle)
		}
		same("time of start to ready / PocketBase", p50, figureStart, figureStart, pocketBaseTitle)
		same("idle memory / PocketBase", memory, figureMemory, figureMemory, pocketBaseTitle)
	}
	return append(all, ratio{"time of (fields/ - bare page) / go-plugin echo" + suffix, func(r round) float64 {
		hop := r.value(key{figureFields, sqlite + suffix}, p50) - r.value(key{figureBareSingle, sqlite + suffix}, p50)
		return hop / r.value(key{figureEcho, echoTitle}, p50)
	}})
}

// ratiosToBase returns the ratios of this tree to another commit.
func ratiosToBase(suffix string) []ratio {
	var all []ratio
	for _, figure := range figures {
		name, of := figure, rate
		switch figure {
		case figureStart:
			name, of = "time of "+figure, p50
		case figureMemory:
			of = memory
		}
		for _, on := range []string{sqlite, postgres} {
			all = append(all, quotient(name+", "+on+" / the same"+suffix, of, key{figure, on}, key{figure, on + suffix}))
		}
	}
	return all
}

// print prints the medians over rounds and the ratios.
func (c *comparison) print(w io.Writer, rounds []round) {
	o := c.options
	fmt.Fprintf(w, "%d processors, %d rounds of %g s per figure, %d callers (sign-in: %d), throttling off, medians\n\n",
		runtime.NumCPU(), o.rounds, o.seconds, o.callers.all, o.callers.signIn)
	if c.postgres == "" {
		fmt.Fprint(w, "PostgreSQL is left out: PERSONAL_TEST_POSTGRES is not set.\n\n")
	}
	const line = "%-22s %-22s %11s %9s %9s %7s\n"
	fmt.Fprintf(w, line, "figure", "of", "per second", "p50 ms", "p99 ms", "MB")
	for _, figure := range figures {
		for _, subject := range c.subjectsOf(figure) {
			median := func(of func(sample) float64) string {
				s, ok := over(rounds, func(r round) float64 { return r.value(key{figure, subject}, of) })
				if !ok {
					return ""
				}
				return fmt.Sprintf("%.4g", s.median)
			}
			fmt.Fprintf(w, line, figure, subject, median(rate), median(p50), median(p99), median(memory))
		}
	}
	fmt.Fprintf(w, "\n%-64s %8s %8s %8s\n", "ratio of two figures of one round", "median", "lowest", "highest")
	all := ratios("")
	if o.base != "" {
		all = append(ratiosToBase(c.baseSuffix()), append(all, ratios(c.baseSuffix())...)...)
	}
	for _, q := range all {
		if s, ok := over(rounds, q.value); ok {
			fmt.Fprintf(w, "%-64s %8.2f %8.2f %8.2f\n", q.name, s.median, s.low, s.high)
		}
	}
}

// subjectsOf returns the subjects of a figure.
func (c *comparison) subjectsOf(figure string) []string {
	var subjects []string
	for _, j := range c.jobs[figure] {
		subjects = append(subjects, j.subject)
	}
	for _, database := range []string{sqlite, postgres} {
		for _, b := range c.builds {
			if _, ok := c.idle[key{figure, database + b.suffix}]; ok {
				subjects = append(subjects, database+b.suffix)
			}
		}
	}
	if _, ok := c.idle[key{figure, pocketBaseTitle}]; ok {
		subjects = append(subjects, pocketBaseTitle)
	}
	return subjects
}
