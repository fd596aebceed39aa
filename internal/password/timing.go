package password

import (
	"context"
	"encoding/base64"
	"fmt"
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
	longRun     = 200 * time.Millisecond // a comparison that takes longer is measured once
	remeasure   = 60                     // calls of Measure until all formats are measured again
)

// longest is the password for which a comparison takes longest in every format: that
// of phpass depends on the length, and is done twice if the password can be trimmed.
var longest = strings.Repeat("a", maxRawBytes-1) + " "

// completions turn a format into a hash; one of them fits each format.
var completions = []string{
	"", // unusable hash
	"md5(p)$$" + strings.Repeat("0", 32),
	strings.Repeat(".", 53), // bcrypt, WordPress
	strings.Repeat(".", 61), // phpBB
	strings.Repeat(".", 30), // phpass
	strings.Repeat(".", 51), // Drupal
	strings.Repeat(".", 8) + "$" + strings.Repeat(".", 22),  // MD5 crypt
	strings.Repeat(".", 16) + "$" + strings.Repeat(".", 43), // SHA-256 crypt
	strings.Repeat(".", 16) + "$" + strings.Repeat(".", 86), // SHA-512 crypt
	zeroSalt + "$" + zeroSum,                                // the Argon2 family, scrypt
	zeroSalt + "$" + zeroSum + "=",                          // PBKDF2 with SHA-256
	zeroSalt + "$" + zeroSum[:len(zeroSum)-16] + "=",        // PBKDF2 with SHA-1
}

// 16 and 32 zero bytes in base64.
const (
	zeroSalt = "AAAAAAAAAAAAAAAAAAAAAA"
	zeroSum  = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
)

// dummyOf returns a hash of a format, or false if the format does not exist.
func dummyOf(format string) (stored, bool) {
	s, err := parse(dummyText(format))
	return s, err == nil && s.format == format
}

// dummyText returns the text of a hash of a format, "" if the format does not exist.
func dummyText(format string) string {
	if costs, within, ok := splitWithin(format, 2); ok {
		inner, ok := dummyOf(within)
		if !ok || inner.sum == nil {
			return ""
		}
		return withinPrefix + costs + zeroSalt + "$" + zeroSum + "$" + inner.settings
	}
	if start, ok := strings.CutPrefix(format, "$pbkdf2-"); ok { // the format does not have the length of the sum
		digest, iterations, _ := strings.Cut(start, "$")
		d, ok := digests[digest]
		if !ok {
			return ""
		}
		size := d.new().Size()
		return fmt.Sprintf("$pbkdf2-%s$%s,l=%d$%s$%s", digest, strings.TrimSuffix(iterations, "$"), size, zeroSalt,
			base64.RawStdEncoding.EncodeToString(make([]byte, size)))
	}
	for _, completion := range completions {
		if s, err := parse(format + completion); err == nil && s.format == format {
			return format + completion
		}
	}
	return ""
}

// Measure sets the formats, as [Format] returns them, that the database now stores,
// and measures how long failed comparisons with them take. It ignores unknown
// formats and those with the costs of new hashes. With more than 64 formats, the first 64 are
// measured, and the floor stays at 2 s. Every 60th call
// measures all of them again. The shortest time of a format counts, because other
// work on the machine can only make a comparison longer. Measure runs outside the
// queue, one comparison at a time, and may take seconds for each format. If ctx ends
// first, the floor stays at 2 s until a later call measures the rest. Measure is safe
// for concurrent use; the formats of the last call count.
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
		dummy, _ := dummyOf(format) // replace checked that it exists
		t.record(format, t.measure(dummy))
	}
}

// Floor returns the minimum time of a failed verification, for each form of the
// password that is compared: 2 s while a stored format is not measured, later 1.25
// times that of the slowest format, at most 2 s, or 0 if none is slower than that of
// new hashes. A wrapped hash counts with the padding that follows it. See [Hasher.Measure].
func (h *Hasher) Floor() time.Duration {
	return h.timings.published.Load().floor
}

// timings holds the formats in the database and how long comparisons with them take.
// Verifications read the published result without a lock.
type timings struct {
	current   string                     // format of new hashes
	costs     Params                     // of new hashes
	measure   func(stored) time.Duration // tests replace it
	measuring chan struct{}              // holds a value during a measurement
	published atomic.Pointer[published]

	mu     sync.Mutex
	stored []string                 // formats in the database with other costs than new hashes
	excess bool                     // the database has more than maxMeasured of them
	took   map[string]time.Duration // shortest measured time by format
	calls  int                      // of replace
	fresh  map[string]bool          // formats measured since all were last due
}

// published is immutable.
type published struct {
	floor time.Duration
	parts map[string]float64 // time of each measured format relative to the current one
}

// newTimings returns the timings of a Hasher that makes hashes like current.
func newTimings(current argon2Hash) *timings {
	t := &timings{
		current: current.format(), costs: current.params,
		measure: measure, measuring: make(chan struct{}, 1),
		took: map[string]time.Duration{}, fresh: map[string]bool{},
	}
	t.published.Store(&published{})
	return t
}

// replace sets the formats in the database.
func (t *timings) replace(formats []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calls++; t.calls%remeasure == 0 {
		clear(t.fresh)
	}
	t.stored, t.excess = nil, false
	for _, format := range formats {
		dummy, known := dummyOf(format)
		if !known || slices.Contains(t.stored, format) {
			continue
		}
		if dummy.argon2 != nil && *dummy.argon2 == t.costs && !dummy.within {
			continue // it takes as long as the current one
		}
		if t.excess = len(t.stored) == maxMeasured; t.excess {
			break
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

// record stores the measured time of a format, unless the database no longer holds
// the format.
func (t *timings) record(format string, took time.Duration) {
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

// publishLocked publishes the result of the measured times. The caller holds the mutex.
func (t *timings) publishLocked() {
	own := t.took[t.current]
	p := &published{parts: map[string]float64{}}
	complete, slowest := !t.excess, time.Duration(0)
	for _, format := range t.stored {
		took, measured := t.took[format]
		if !measured {
			complete = false
			continue
		}
		if own > 0 {
			p.parts[format] = float64(took) / float64(own)
		}
		dummy, _ := dummyOf(format)
		if dummy.within { // a failure is padded by the Argon2 alone, see Hasher.missing
			if missing := dummy.argon2.upTo(t.costs); missing != (Params{}) {
				took += time.Duration(float64(own) * missing.duration() / t.costs.duration())
			}
		}
		if took > own || dummy.within {
			slowest = max(slowest, took)
		}
	}
	if p.floor = min(slowest+slowest/4, maxFloor); !complete {
		p.floor = maxFloor
	}
	t.published.Store(p)
}

// part returns how long a format takes relative to the current one; 0 if it is not
// measured.
func (t *timings) part(format string) float64 {
	return t.published.Load().parts[format]
}

// measure returns how long a comparison with the longest password takes: the shortest
// of three runs, because other work on the machine can only make a run longer.
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

// hold waits until a failed verification has taken the floor for each compared form,
// or ctx ends.
func (h *Hasher) hold(ctx context.Context, began time.Time, forms int) {
	rest := time.NewTimer(time.Duration(forms)*h.Floor() - time.Since(began))
	defer rest.Stop()
	select {
	case <-rest.C:
	case <-ctx.Done():
	}
}
