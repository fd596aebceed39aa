package password

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
	dummy  argon2id
}

// Result is the outcome of comparing a password with a stored hash.
type Result struct {
	Match  bool
	Rehash bool // the hash is of a lesser kind than new ones: replace it while the password is known
}

// New returns a Hasher that makes hashes with p and computes at most parallel
// of them at once; 0 means as many as there are processors. The error is that of
// [Params.Validate].
func New(p Params, parallel int) (*Hasher, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("password hashing: %w", err)
	}
	// No password has a random key for its hash.
	dummy := argon2id{params: p, salt: random(saltBytes), key: random(keyBytes)}
	return &Hasher{params: p, gate: newGate(parallel), dummy: dummy}, nil
}

// Hash returns the hash of a prepared password with a new salt, for storage.
func (h *Hasher) Hash(ctx context.Context, password string) (string, error) {
	leave, err := h.gate.enter(ctx)
	if err != nil {
		return "", fmt.Errorf("hashing a password: %w", err)
	}
	defer leave()
	return newArgon2id(h.params, password).String(), nil
}

// Verify compares a prepared password with a stored hash. The error is
// [ErrBadHash] if the hash can't be used; nothing is computed for such a one.
func (h *Hasher) Verify(ctx context.Context, encoded, password string) (Result, error) {
	s, err := parse(encoded)
	if err != nil {
		return Result{}, fmt.Errorf("verifying a password: %w", err)
	}
	return h.compare(ctx, s, password)
}

// VerifyDummy does the work of Verify for an account that does not exist, so
// that the time of an answer does not tell whether one does. It matches nothing.
func (h *Hasher) VerifyDummy(ctx context.Context, password string) error {
	_, err := h.compare(ctx, h.dummy, password)
	return err
}

func (h *Hasher) compare(ctx context.Context, s stored, password string) (Result, error) {
	leave, err := h.gate.enter(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("verifying a password: %w", err)
	}
	defer leave()
	return Result{Match: s.matches(password), Rehash: s.outdated(h.params)}, nil
}

// stored is a parsed hash of any format.
type stored interface {
	matches(password string) bool // does the whole work whatever the password
	outdated(current Params) bool // true for every format but that of new hashes
}

// parse reads a stored hash. Formats are told apart by their prefix; this is the
// place for a further one.
func parse(encoded string) (stored, error) {
	if strings.HasPrefix(encoded, argon2idPrefix) {
		return parseArgon2id(encoded)
	}
	return nil, fmt.Errorf("%w: unknown format", ErrBadHash)
}
