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
// end; they return [ErrBusy] when there is no turn to be had, and the context's
// error when that ends first.
type Hasher struct {
	params Params
	gate   *gate
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
	return &Hasher{params: p, gate: newGate(parallel), dummy: dummy}, nil
}

// Hash returns the hash of a prepared password with a new salt, for storage.
func (h *Hasher) Hash(ctx context.Context, prepared string) (string, error) {
	leave, err := h.gate.enter(ctx)
	if err != nil {
		return "", fmt.Errorf("hashing a password: %w", err)
	}
	defer leave()
	return newArgon2id(h.params, prepared).String(), nil
}

// Verify compares a password, as it was entered, with a stored hash. The error
// is [ErrBadHash] if the hash can't be used; nothing is computed for such a one.
// A password that does not match takes at least as long as with a new hash.
func (h *Hasher) Verify(ctx context.Context, encoded, entered string) (Result, error) {
	s, err := parse(encoded)
	if err != nil {
		return Result{}, fmt.Errorf("verifying a password: %w", err)
	}
	return h.compare(ctx, s, entered)
}

// VerifyDummy does the work of Verify for an account that does not exist, so
// that the time of an answer does not tell whether one does. It matches nothing.
func (h *Hasher) VerifyDummy(ctx context.Context, entered string) error {
	_, err := h.compare(ctx, h.dummy, entered)
	return err
}

// compare tries every form of the password that was entered. How many there are
// depends on the password alone, so it tells nothing of the account.
func (h *Hasher) compare(ctx context.Context, s stored, entered string) (Result, error) {
	leave, err := h.gate.enter(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("verifying a password: %w", err)
	}
	defer leave()
	prepared, preparable := Canonical(entered)
	forms := formsOf(entered, prepared)
	if len(forms) == 0 { // nobody's password, and the work of a wrong one
		s, forms = h.dummy, []string{""}
	}
	for _, form := range forms {
		if s.matches(form) {
			return Result{Match: true, Rehash: preparable && (form != prepared || s.outdated(h.params))}, nil
		}
		h.topUp(s.missing(h.params), form)
	}
	return Result{}, nil
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
