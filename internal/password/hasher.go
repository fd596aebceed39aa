package password

import (
	"context"
	"errors"
	"fmt"
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
	params Params
	queue  *queue
	dummy  argon2Hash
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
	return &Hasher{params: p, queue: newQueue(parallel), dummy: dummy}, nil
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
// A password that does not match takes at least as long as with a new hash.
func (h *Hasher) Verify(ctx context.Context, from Source, encoded, entered string) (Result, error) {
	s, err := parse(encoded)
	if err != nil {
		return Result{}, fmt.Errorf("verifying a password: %w", err)
	}
	return h.compare(ctx, from, s, entered)
}

// VerifyDummy does the work of Verify for an account that does not exist, so
// that the time of a response does not reveal whether one does. It matches nothing.
func (h *Hasher) VerifyDummy(ctx context.Context, from Source, entered string) error {
	_, err := h.compare(ctx, from, h.dummy, entered)
	return err
}

// compare waits for a turn and tries the entered password.
func (h *Hasher) compare(ctx context.Context, from Source, s stored, entered string) (result Result, err error) {
	if err := h.queue.run(ctx, from, func() { result = h.try(s, entered) }); err != nil {
		return Result{}, fmt.Errorf("verifying a password: %w", err)
	}
	return result, nil
}

// try compares every form of the password that was entered. How many there are
// depends on the password alone, so it reveals nothing about the account.
func (h *Hasher) try(s stored, entered string) Result {
	prepared, preparable := Canonical(entered)
	forms := formsOf(entered, prepared)
	if len(forms) == 0 { // no account has this password; the work is that of a wrong one
		s, forms = h.dummy, []string{""}
	}
	for _, form := range forms {
		if s.matches(form) {
			return Result{Match: true, Rehash: preparable && (form != prepared || s.outdated(h.params))}
		}
		h.topUp(s.missing(h.params), form)
	}
	return Result{}
}

// topUp spends the time that a failed comparison with a cheaper hash has left.
func (h *Hasher) topUp(missing Params, password string) {
	if missing == (Params{}) {
		return
	}
	rest := h.dummy
	rest.params = missing
	rest.matches(password)
}
