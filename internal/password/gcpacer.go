package password

import (
	"runtime/debug"
	"sync"
	"time"
)

const (
	// maxGarbage limits the memory of ended hashings that waits for the collector.
	maxGarbage = 128 << 20
	// maxRaise limits how far the percentage is raised: cheap hashings are not what fills
	// the heap.
	maxRaise = 4
	// maxHuge limits the memory that gets huge pages: a system may refuse to promise more than it has.
	maxHuge = 256 << 20
	// coolAfter is how long after the last hashing the memory is returned.
	coolAfter = 10 * time.Second
)

// gcPacer makes the process collect garbage less often while it hashes passwords.
// Each hashing allocates its own memory, and there is little else on the heap: with
// Go's default of 100 %, there is a collection for every other hashing on two
// processors. It also asks for huge pages for them. Once no password has been hashed for coolAfter,
// the pacer returns all free memory to the system. The percentage is a setting of the whole process.
type gcPacer struct {
	raise  int // times the normal percentage
	memory int // bytes for huge pages: the hashings that run, ended ones, and space between them

	mu      sync.Mutex
	last    time.Time // the latest hashing
	normal  int       // the percentage before it was raised
	cooling *time.Timer
	pages   hugePages
}

// newGCPacer returns a pacer for parallel hashes with these parameters.
func newGCPacer(p Params, parallel int) *gcPacer {
	running := int64(p.MemoryKiB) * 1024 * int64(parallel)
	raise := min(max(1, maxGarbage/running), maxRaise)
	return &gcPacer{raise: int(raise), memory: int(min(running*(2+raise), maxHuge))}
}

// hashing must be called before each hashing. It is safe to call on a nil receiver,
// for which it does nothing.
func (c *gcPacer) hashing() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = time.Now()
	if c.cooling == nil {
		c.pages.want(c.memory)
		c.normal = debug.SetGCPercent(-1)
		debug.SetGCPercent(c.normal * c.raise) // collections that are off (-1) remain off
		c.cooling = time.AfterFunc(coolAfter, c.cool)
	}
}

// cool restores the percentage and returns free memory, unless a password was hashed
// within coolAfter.
func (c *gcPacer) cool() {
	c.mu.Lock()
	if rest := coolAfter - time.Since(c.last); rest > 0 {
		c.cooling.Reset(rest)
		c.mu.Unlock()
		return
	}
	c.cooling = nil
	c.pages.leave()
	debug.SetGCPercent(c.normal)
	c.mu.Unlock()
	debug.FreeOSMemory()
}
