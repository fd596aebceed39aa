package password

import (
	"fmt"
	"runtime"
)

// Params are the costs of Argon2id (RFC 9106). A hash made with others is due to
// be made again: lower ones are weaker, and higher ones hold every failed
// verification to their time, see [Hasher.Measure].
type Params struct {
	MemoryKiB uint32 // memory of one hashing, in KiB
	Time      uint32 // passes over the memory
	Threads   uint8
}

// The most that a stored hash may ask for: whoever can write a hash must not be
// able to exhaust the process by it.
const (
	maxMemoryKiB = 256 * 1024
	maxTime      = 16
	maxThreads   = 16
	maxWork      = 4 * maxMemoryKiB // of memory times passes, of one to be made or taken over; one to two seconds
)

// Validate says which of the costs is out of the range in which hashes are made
// and taken over: memory_kib 8 per thread … 262144, time 1 … 16, threads 1 … 16,
// and memory_kib times time 1048576 at most.
func (p Params) Validate() error {
	if err := p.readable(); err != nil {
		return err
	}
	if p.MemoryKiB*p.Time > maxWork {
		return fmt.Errorf("memory_kib: %d times %d passes (time) are more than %d", p.MemoryKiB, p.Time, maxWork)
	}
	return nil
}

// readable is Validate for hashes that are stored: version 0.1.0 may have made
// them at costs that are too much now.
func (p Params) readable() error {
	switch least := 8 * max(uint32(p.Threads), 1); {
	case p.Threads < 1 || p.Threads > maxThreads:
		return fmt.Errorf("threads: %d is not in 1 … %d", p.Threads, maxThreads)
	case p.Time < 1 || p.Time > maxTime:
		return fmt.Errorf("time: %d is not in 1 … %d", p.Time, maxTime)
	case p.MemoryKiB < least || p.MemoryKiB > maxMemoryKiB:
		return fmt.Errorf("memory_kib: %d is not in %d … %d", p.MemoryKiB, least, maxMemoryKiB)
	}
	return nil
}

// upTo returns the costs of the hashing that, after one with p, makes both take
// as long as one with the current costs. They are zero if p takes that long.
func (p Params) upTo(current Params) Params {
	short := current.duration() - p.duration()
	if short <= 0 {
		return Params{}
	}
	lanes := float64(current.lanes())
	return current.withMemory(short * lanes / float64(current.Time))
}

// part returns the costs of a hashing that takes a part of the time of one with p,
// 1 at most. They are zero if the part is not positive.
func (p Params) part(part float64) Params {
	if part <= 0 {
		return Params{}
	}
	return p.withMemory(part * float64(p.MemoryKiB))
}

func (p Params) withMemory(kib float64) Params {
	p.MemoryKiB = max(uint32(kib), 8*uint32(p.Threads))
	return p
}

// duration is how long a hashing takes, in passes over a KiB: in Argon2 every
// pass over every block costs the same, and lanes are worked on at once.
func (p Params) duration() float64 {
	return float64(p.MemoryKiB) * float64(p.Time) / float64(p.lanes())
}

func (p Params) lanes() int { return min(int(p.Threads), runtime.GOMAXPROCS(0)) }
