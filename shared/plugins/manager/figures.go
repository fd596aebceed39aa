package manager

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

const (
	figureWindow = 200 // the last calls of an operation that are kept
	figureMin    = 20  // fewer calls of an operation say nothing
	figureShare  = 0.1 // by how much a share must rise, and at least double
	figureSlower = 5   // how many times as long calls must take, and figureNotice at least
	figureNotice = 10 * time.Millisecond
)

// figures are the last calls of each operation in a process. The zero value is empty.
type figures map[personal.OperationName]*operationFigures

type operationFigures struct {
	calls [figureWindow]struct {
		took            time.Duration
		failed, refused bool // refused: 401
	}
	n int
}

func (f *figures) count(c endedCall) {
	if c.Operation == "" {
		return
	}
	if *f == nil {
		*f = figures{}
	}
	of := (*f)[c.Operation]
	if of == nil {
		of = &operationFigures{}
		(*f)[c.Operation] = of
	}
	call := &of.calls[of.n%figureWindow]
	call.took, call.failed = c.took, c.failed
	call.refused = c.Code == personal.CodeUnauthenticated || c.Code == personal.CodeInvalidCredentials
	of.n++
}

// read returns the shares of calls that failed, and that were refused with 401, and how long all but one of twenty
// take at most. ok reports that there were enough calls.
func (f *operationFigures) read() (failed, refused float64, p95 time.Duration, ok bool) {
	if f == nil || f.n < figureMin {
		return 0, 0, 0, false
	}
	calls := f.calls[:min(f.n, figureWindow)]
	took := make([]time.Duration, len(calls))
	for i, c := range calls {
		took[i] = c.took
		if c.failed {
			failed++
		}
		if c.refused {
			refused++
		}
	}
	slices.Sort(took)
	n := float64(len(calls))
	return failed / n, refused / n, took[len(took)*95/100], true
}

// figureWarning says what an operation does worse than before.
type figureWarning struct{ what, text string }

// warnings says which operations do worse than in the old process before the switch. Hostile callers can
// bring that about, so it decides nothing.
func (f figures) warnings(old figures) (found []figureWarning) {
	for operation, of := range f {
		failed, refused, p95, enough := of.read()
		oldFailed, oldRefused, oldP95, known := old[operation].read()
		if !enough || !known {
			continue
		}
		warn := func(worse bool, what, format string, new, old any) {
			if worse {
				what = string(operation) + " " + what
				found = append(found, figureWarning{what, what + fmt.Sprintf(format, new, old)})
			}
		}
		rises := func(new, old float64) bool { return new >= 2*old && new >= old+figureShare }
		warn(rises(failed, oldFailed), "fails", " in %.0f %% of calls, %.0f %% before", 100*failed, 100*oldFailed)
		warn(rises(refused, oldRefused), "is 401", " in %.0f %% of calls, %.0f %% before", 100*refused, 100*oldRefused)
		warn(p95 >= figureSlower*oldP95 && p95 >= figureNotice, "is slow", ": p95 %v, %v before", p95.Round(time.Millisecond),
			oldP95.Round(time.Millisecond))
	}
	slices.SortFunc(found, func(a, b figureWarning) int { return strings.Compare(a.what, b.what) })
	return found
}

// compareFigures shows in the step bake what the live process does worse than the old one, and logs what is new of that.
func (s *supervisor) compareFigures() {
	b := &s.bake
	if b.old == nil || s.live == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b.worse = nil
	for _, w := range s.live.figures.warnings(b.old.figures) {
		b.worse = append(b.worse, w.text)
		if !slices.Contains(b.warned, w.what) {
			b.warned = append(b.warned, w.what)
			s.live.Log().Warn("plugin does worse than the version before", "figure", w.text)
		}
	}
	b.showLocked()
}
