package password

import (
	"context"
	"errors"
	"fmt"
	"time"
)

var (
	// ErrBusy means that too many passwords are being hashed: try again later.
	ErrBusy = errors.New("too many passwords are being hashed")
	// ErrBadHash means that a stored hash is in no known format or asks for more
	// than the limits allow.
	ErrBadHash = errors.New("bad password hash")
)

// Hasher makes and compares password hashes, a bounded number at once. It is
// safe for concurrent use and needs no closing.
//
// Its methods wait for their turn for 5 s at most and not beyond the context's
// end. Sources are served in turn. The error is [ErrBusy] when too many wait or
// the wait is too long, and the context's error when that ends first.
type Hasher struct {
	params  Params
	queue   *queue
	dummy   argon2Hash
	timings *timings
}

// Result is the outcome of comparing a password with a stored hash.
type Result struct {
	Match bool
	// Rehash says that the hash is of another kind or other costs than new ones, or
	// was made of another form of the password than the canonical one: replace it
	// while the password is known.
	Rehash bool
}

// New returns a Hasher that makes hashes with p and computes at most parallel
// of them at once; 0 means as many as there are processors. The error is that of
// [Params.Validate].
func New(p Params, parallel int) (*Hasher, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("password hashing: %w", err)
	}
	// No password has a random key for its hash.
	dummy := argon2Hash{function: argon2id, params: p, salt: random(saltBytes), key: random(keyBytes)}
	return &Hasher{params: p, queue: newQueue(parallel), dummy: dummy, timings: newTimings(dummy)}, nil
}

// Hash returns the hash of a prepared password with a new salt, for storage.
func (h *Hasher) Hash(ctx context.Context, from Source, prepared string) (encoded string, err error) {
	err = h.queue.run(ctx, from, func() { encoded = newArgon2id(h.params, prepared).String() })
	if err != nil {
		return "", fmt.Errorf("hashing a password: %w", err)
	}
	return encoded, nil
}

// Verify compares a password, as it was entered, with a stored hash. The error
// is [ErrBadHash] if the hash can't be used; nothing is computed for such a one.
//
// A mismatch takes at least as long as with a new hash, and [Hasher.Floor] for each
// form of the password; the time in the queue does not count. If ctx ends meanwhile,
// Verify returns the mismatch at once and no error: callers must charge the attempt
// even if the client has hung up.
func (h *Hasher) Verify(ctx context.Context, from Source, encoded, entered string) (Result, error) {
	s, err := parse(encoded)
	if err != nil {
		return Result{}, fmt.Errorf("verifying a password: %w", err)
	}
	return h.compare(ctx, from, s, entered)
}

// VerifyDummy does the work of Verify for an account that does not exist, and
// takes as long, so that the time of a response does not reveal whether one does.
func (h *Hasher) VerifyDummy(ctx context.Context, from Source, entered string) error {
	_, err := h.compare(ctx, from, h.dummy, entered)
	return err
}

// compare waits for a turn, tries the entered password, and holds a failure to the
// floor after the turn has ended.
func (h *Hasher) compare(ctx context.Context, from Source, s stored, entered string) (Result, error) {
	var began time.Time
	var result Result
	var forms int
	err := h.queue.run(ctx, from, func() {
		began = time.Now()
		result, forms = h.try(s, entered)
	})
	if err != nil {
		return Result{}, fmt.Errorf("verifying a password: %w", err)
	}
	if !result.Match {
		h.hold(ctx, began, forms)
	}
	return result, nil
}

// try compares every form of the password that was entered, and returns how many
// there are. That depends on the password alone, so it reveals nothing about the
// account.
func (h *Hasher) try(s stored, entered string) (result Result, tried int) {
	prepared, preparable := Canonical(entered)
	forms := formsOf(entered, prepared)
	if len(forms) == 0 { // no account has this password; the work is that of a wrong one
		s, forms = h.dummy, []string{""}
	}
	for _, form := range forms {
		if s.matches(form) {
			return Result{Match: true, Rehash: preparable && (form != prepared || s.outdated(h.params))}, len(forms)
		}
		h.topUp(s, form)
	}
	return Result{}, len(forms)
}

// topUp spends the time that a failed comparison with a cheaper hash has left.
func (h *Hasher) topUp(s stored, form string) {
	rest := h.dummy
	if rest.params = h.missing(s, form); rest.params != (Params{}) {
		rest.matches(form)
	}
}

// missing returns the costs of an Argon2id that makes a failed comparison take as
// long as one with a new hash; zero if it takes that long. They are computed
// within the Argon2 family, and follow from the measured time of every other
// format. A format that is not measured is topped up in full.
func (h *Hasher) missing(s stored, form string) Params {
	if a, ok := s.(argon2Family); ok {
		return a.costs().upTo(h.params)
	}
	return h.params.part(1 - h.timings.part(s.format())*s.effort(form))
}
