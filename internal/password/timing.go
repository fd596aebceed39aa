package password

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxFloor    = 2 * time.Second
	maxMeasured = 64                     // formats
	longRun     = 200 * time.Millisecond // a longer comparison is measured once
	remeasure   = 60                     // calls of Measure after which all formats are measured again
)

// longest is the password for which every format takes its longest: phpass
// depends on the length, and compares twice if there is something to trim.
var longest = strings.Repeat("a", maxRawBytes-1) + " "

// Format returns what of a stored hash determines how long a comparison takes: its
// text up to the salt, such as "$2y$12$". Both forms of a scrypt have that of the
// PHC format. The result is "" if the hash can't be parsed.
func Format(encoded string) string {
	s, err := parse(encoded)
	if err != nil {
		return ""
	}
	return s.format()
}

// Format returns the format of hashes that are made with the costs.
func (p Params) Format() string { return argon2Hash{function: argon2id, params: p}.format() }

// completions make a hash of a format: one of them fits each.
var completions = []string{
	"",                             // unusable
	strings.Repeat("0", 32),        // bare MD5
	strings.Repeat(".", 53),        // bcrypt, WordPress
	strings.Repeat(".", 30),        // phpass
	zeroSalt + "$" + zeroSum,       // the Argon2 family, scrypt
	zeroSalt + "$" + zeroSum + "=", // PBKDF2 with SHA-256
	zeroSalt + "$" + zeroSum[:len(zeroSum)-16] + "=", // PBKDF2 with SHA-1
}

// In base64: 16 bytes, and 32.
const (
	zeroSalt = "AAAAAAAAAAAAAAAAAAAAAA"
	zeroSum  = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
)

// dummyOf returns a hash of a format, or false if there is no such format.
func dummyOf(format string) (stored, bool) {
	for _, completion := range completions {
		if s, err := parse(format + completion); err == nil && s.format() == format {
			return s, true
		}
	}
	return nil, false
}

// Measure makes formats, as [Format] returns them, those that are stored in the
// database now, and measures how long failed comparisons with them take. It
// ignores unknown formats, those with the costs of new hashes, and all beyond 64.
// Every 60th call measures all of them again, and the shortest time of each counts:
// other work on the machine can only make one longer. Measure runs outside
// the queue, one comparison at a time, and may take seconds for each format. If
// ctx ends first, the floor stays at 2 s until a later call measures the rest. It
// is safe for concurrent use; the formats of the last call count.
func (h *Hasher) Measure(ctx context.Context, formats []string) {
	t := h.timings
	t.replace(formats)
	select {
	case t.measuring <- struct{}{}:
		defer func() { <-t.measuring }()
	case <-ctx.Done():
		return
	}
	for ctx.Err() == nil {
		format, ok := t.unmeasured()
		if !ok {
			return
		}
		dummy, _ := dummyOf(format) // there is one, or it would not be stored
		t.note(format, t.measure(dummy))
	}
}

// Floor returns how long a failed verification takes at least, for each form of
// the password that is compared: 2 s while stored formats are unmeasured, later
// 1.25 times the slowest of those that take longer than new hashes, 2 s at most;
// 0 if there are none. See [Hasher.Measure].
func (h *Hasher) Floor() time.Duration {
	if p := h.timings.published.Load(); p != nil {
		return p.floor
	}
	return 0
}

// timings are the formats in the database and how long they take. Verifications
// read what is published, without a lock.
type timings struct {
	current   string                     // format of new hashes
	costs     Params                     // of new hashes
	measure   func(stored) time.Duration // replaced by tests
	measuring chan struct{}              // holds one value while a comparison is measured
	published atomic.Pointer[published]

	mu     sync.Mutex
	stored []string // formats in the database with other costs than new hashes
	took   map[string]time.Duration
	calls  int             // of replace
	fresh  map[string]bool // formats measured since all were last due
}

// published is immutable.
type published struct {
	floor time.Duration
	parts map[string]float64 // time of the measured formats, in times of the current one
}

// newTimings returns those of a Hasher that makes hashes like current.
func newTimings(current argon2Hash) *timings {
	return &timings{
		current: current.format(), costs: current.params,
		measure: measure, measuring: make(chan struct{}, 1),
		took: map[string]time.Duration{}, fresh: map[string]bool{},
	}
}

// replace sets the formats in the database.
func (t *timings) replace(formats []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calls++; t.calls%remeasure == 0 {
		clear(t.fresh)
	}
	t.stored = nil
	for _, format := range formats {
		dummy, known := dummyOf(format)
		if !known || slices.Contains(t.stored, format) || len(t.stored) == maxMeasured {
			continue
		}
		if a, ok := dummy.(argon2Family); ok && a.costs() == t.costs {
			continue // it takes as long as the current one
		}
		t.stored = append(t.stored, format)
	}
	for format := range t.took {
		if format != t.current && !slices.Contains(t.stored, format) {
			delete(t.took, format)
			delete(t.fresh, format)
		}
	}
	t.publishLocked()
}

// unmeasured returns a format whose measurement is due: the current one first,
// because the others are compared with it.
func (t *timings) unmeasured() (format string, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.stored) == 0 {
		return "", false
	}
	for _, format := range append([]string{t.current}, t.stored...) {
		if !t.fresh[format] {
			return format, true
		}
	}
	return "", false
}

// note sets how long a format takes, unless it is no longer stored.
func (t *timings) note(format string, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if format == t.current || slices.Contains(t.stored, format) {
		if before, measured := t.took[format]; measured {
			took = min(took, before)
		}
		t.took[format], t.fresh[format] = took, true
		t.publishLocked()
	}
}

// publishLocked publishes what follows from the measured times.
func (t *timings) publishLocked() {
	own := t.took[t.current]
	p := &published{parts: map[string]float64{}}
	complete, slowest := true, time.Duration(0)
	for _, format := range t.stored {
		took, measured := t.took[format]
		if !measured {
			complete = false
			continue
		}
		if own > 0 {
			p.parts[format] = float64(took) / float64(own)
		}
		if took > own {
			slowest = max(slowest, took)
		}
	}
	if p.floor = min(slowest+slowest/4, maxFloor); !complete {
		p.floor = maxFloor
	}
	t.published.Store(p)
}

// part returns how long a format takes, in times of the current one; 0 if it is
// not measured.
func (t *timings) part(format string) float64 {
	p := t.published.Load()
	if p == nil {
		return 0
	}
	return p.parts[format]
}

// measure returns how long a comparison takes at its longest: the shortest of
// three runs, as other work on the machine can only make one longer.
func measure(s stored) time.Duration {
	shortest := time.Duration(math.MaxInt64)
	for range 3 {
		began := time.Now()
		s.matches(longest)
		shortest = min(shortest, time.Since(began))
		if shortest > longRun {
			break
		}
	}
	return shortest
}

// hold waits until a failed verification of some forms has taken as long as the
// floor asks, or ctx ends.
func (h *Hasher) hold(ctx context.Context, began time.Time, forms int) {
	floor := h.Floor()
	if floor == 0 {
		return
	}
	rest := time.NewTimer(time.Duration(forms)*floor - time.Since(began))
	defer rest.Stop()
	select {
	case <-rest.C:
	case <-ctx.Done():
	}
}
