// Package password hashes and verifies passwords, checks new ones against a
// policy, and bounds the work that this takes.
//
// [Policy.Check] checks a new password and returns its canonical form; [Canonical]
// returns that of a password entered at sign-in. A [Hasher] makes Argon2id hashes of
// canonical passwords. It also verifies hashes that other systems made, which [Adopt]
// imports, wrapped if they are weak (wrap.go): formats.go lists the stored formats,
// foreignformats.go those of other systems, and forms.go what these made of a password
// before they hashed it. A Hasher serves the sources of requests in
// turn (queue.go). Where there is no hash it does the work of a stored one (classes.go).
// Errors never hold a password or a hash.
package password

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

var (
	// ErrBusy means that too many passwords are being hashed: try again later.
	ErrBusy = errors.New("too many passwords are being hashed")
	// ErrBadHash means that a stored hash has an unknown format or costs beyond the
	// limits.
	ErrBadHash = errors.New("bad password hash")
)

// Hasher makes and verifies password hashes, a bounded number at once. It is safe
// for concurrent use and needs no closing.
//
// Its methods wait for their turn, for 5 s at most, until the context ends. Sources
// are served in turn. The error is [ErrBusy] if too many callers wait or the wait is
// too long, and the context's error if the context ends first.
type Hasher struct {
	params   Params
	queue    *queue
	dummy    argon2Hash
	drawn    atomic.Pointer[[]drawn]
	pacer    *gcPacer                       // nil: the process's memory is left alone
	compared func(class string, length int) // see ObserveWork
}

// Result is the outcome of a verification.
type Result struct {
	Match bool
	// Rehash means that the hash has another format or other costs than new hashes,
	// or was made of another form of the password than the canonical one. Replace
	// the hash while the password is known. It is false if the password matches
	// only without the white space at its ends.
	Rehash bool
}

// New returns a Hasher that makes hashes with p and computes at most parallel
// hashes at once; 0 means one for each processor. The error is that of
// [Params.Validate].
func New(p Params, parallel int) (*Hasher, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("password hashing: %w", err)
	}
	// The key is random, so no password matches the dummy.
	dummy := argon2Hash{function: argon2id, params: p, salt: random(saltBytes), key: random(keyBytes)}
	h := &Hasher{params: p, queue: newQueue(parallel), dummy: dummy, compared: func(string, int) {}}
	h.SetClasses(nil)
	return h, nil
}

// TuneMemory makes the process collect garbage less often and ask for huge pages while
// passwords are hashed, and return its free memory to the system when none has been hashed for
// 10 s. On two processors and with the default costs this allows about 12 % more sign-ins and uses
// up to 80 MB more, in all about 200 MB; less under a limit of the process's memory
// (GOMEMLIMIT), which takes precedence. Call it once, before any other method.
func (h *Hasher) TuneMemory() { h.pacer = newGCPacer(h.params, h.queue.parallel) }

// ObserveQueue makes the hasher call f after each wait for a turn on behalf of a user, with
// nil, [ErrBusy] or the error of the context. The wait is 0 if a turn was free. f must be
// fast and safe for concurrent use. Call it once, before any other method.
func (h *Hasher) ObserveQueue(f func(waited time.Duration, err error)) { h.queue.observe = f }

// ObserveWork makes the hasher call f before each comparison, with the class of the hash (see
// [Hasher.Class]), of which new ones have one, too, and the length of the password: equal ones
// are equal work. f must be fast and safe for concurrent use. Call it once, before any other method.
func (h *Hasher) ObserveWork(f func(class string, length int)) { h.compared = f }

// Format returns how new hashes begin.
func (h *Hasher) Format() string { return h.params.Format() }

// Load returns how many hashings run and how many callers wait.
func (h *Hasher) Load() (running, waiting int) {
	h.queue.mu.Lock()
	defer h.queue.mu.Unlock()
	return h.queue.held, h.queue.backlog.size
}

// Memory returns the memory, in bytes, of as many hashings of new costs as may run at
// once. Stored hashes of higher costs take more.
func (h *Hasher) Memory() int64 { return int64(h.queue.parallel) * int64(h.params.MemoryKiB) << 10 }

// run calls f, which hashes, when it is the caller's turn.
func (h *Hasher) run(ctx context.Context, from Source, f func()) error {
	return h.queue.run(ctx, from, func() {
		h.pacer.hashing()
		f()
	})
}

// Hash returns the hash of a prepared password with a new salt, for storage.
func (h *Hasher) Hash(ctx context.Context, from Source, prepared string) (encoded string, err error) {
	err = h.run(ctx, from, func() { encoded = newArgon2id(h.params, prepared).String() })
	if err != nil {
		return "", fmt.Errorf("hashing a password: %w", err)
	}
	return encoded, nil
}

// Verify compares a password, as the user entered it, with a stored hash. The error
// is [ErrBadHash], without any computation, if the hash is invalid.
func (h *Hasher) Verify(ctx context.Context, from Source, encoded, entered string) (Result, error) {
	s, err := parse(encoded)
	if err != nil {
		return Result{}, fmt.Errorf("verifying a password: %w", err)
	}
	if IsBare(encoded) {
		s = s.asWrapped(encoded, h.params)
	}
	return h.compare(ctx, from, s, entered)
}

// VerifyDummy does the work of Verify where there is no hash: for an account that does not
// exist, or has no password. It is that of a hash of the class that the digest draws, see
// [Hasher.SetClasses].
func (h *Hasher) VerifyDummy(ctx context.Context, from Source, digest uint32, entered string) error {
	_, err := h.compare(ctx, from, h.draw(digest), entered)
	return err
}

// compare waits for a turn and compares the entered password.
func (h *Hasher) compare(ctx context.Context, from Source, s stored, entered string) (result Result, err error) {
	if err := h.run(ctx, from, func() { result = h.try(s, entered) }); err != nil {
		return Result{}, fmt.Errorf("verifying a password: %w", err)
	}
	return result, nil
}

// try compares every form of the entered password that a hash may have been made of. Their number
// depends on the password and the class alone, so it reveals nothing about the account.
func (h *Hasher) try(s stored, entered string) Result {
	prepared, preparable := Canonical(entered)
	all := forms(entered, s.made == nil || s.made.params != h.params)
	if len(all) == 0 { // matches no account; do the work of a wrong password
		s, all = h.dummy.stored(), []string{""}
	}
	for _, form := range all {
		h.compared(s.class, len(form))
		if s.matches(form) {
			// A system that trims accepts the password without the white space, too, and a new hash would not.
			trims := form != prepared && form != entered && trimPHP(entered) != entered
			return Result{Match: true, Rehash: preparable && !trims && (form != prepared || !s.current(h.params))}
		}
	}
	return Result{}
}
