package password

import (
	"context"
	"fmt"
	"strings"
)

// The module's own encodings of an imported hash with less work than minWork. A wrapped one is the
// Argon2id of the sum of that hash: $argon2id-of$v=19$m=…,t=…,p=…$SALT$KEY, then the settings of the
// hash within. One that waits to be wrapped is $waits$ and the hash.
const (
	withinPrefix  = "$argon2id-of$"
	waitingPrefix = "$waits$"
)

// splitWithin splits a wrapped hash after its Argon2id.
func splitWithin(encoded string) (outer, settings string) {
	rest := strings.TrimPrefix(encoded, withinPrefix)
	end := 0
	for range 4 { // version, costs, salt and key
		i := strings.IndexByte(rest[end:], '$')
		if i < 0 {
			return "", ""
		}
		end += i + 1
	}
	return rest[:end], rest[end:]
}

func parseWithin(encoded string) (stored, error) {
	outer, settings := splitWithin(encoded)
	s, err := parseArgon2("$" + argon2id + "$" + strings.TrimSuffix(outer, "$"))
	if err != nil {
		return s, err
	}
	inner, ok := ofSettings(settings)
	if !ok {
		return stored{}, fmt.Errorf("%w: not the settings of a hash that is wrapped", ErrBadHash)
	}
	argon2 := s.matches
	s.class, s.made, s.name = withinClass(s.made.params, inner.class), nil, inner.name
	s.matches = func(password string) bool { return argon2(inner.sum(password)) }
	return s, nil
}

// withinClass returns the class of a wrapped hash: the costs of the Argon2id, and the class of the hash
// within.
func withinClass(p Params, inner string) string {
	return withinPrefix + strings.TrimPrefix(p.Format(), "$"+argon2id+"$") + zeroSalt + "$" + zeroSum + "$" + inner
}

// asWrapped returns a hash that waits to be wrapped as one whose comparison does the same work as after
// that.
func (s stored) asWrapped(encoded string, p Params) stored {
	want := strings.TrimPrefix(strings.TrimPrefix(encoded, waitingPrefix), s.settings)
	outer := argon2Hash{function: argon2id, params: p, salt: make([]byte, saltBytes)}
	inner, _ := ofSettings(s.settings)
	s.class = withinClass(p, inner.class)
	s.matches = func(password string) bool {
		sum := s.sum(password)
		outer.derive(sum, keyBytes)
		return equal(sum, want)
	}
	return s
}

// ofSettings returns the weak hash that has the settings and any sum.
func ofSettings(settings string) (stored, bool) {
	s, err := parseUnsummed(settings)
	return s, err == nil && s.sum != nil && s.settings == settings && s.weak()
}

// weak reports whether the hash has less work than is stored as it is.
func (s stored) weak() bool { return s.sum != nil && s.work > 0 && s.work < minWork }

func parseWaiting(encoded string) (stored, error) {
	s, err := parse(strings.TrimPrefix(encoded, waitingPrefix))
	if err != nil || !s.weak() || IsBare(strings.TrimPrefix(encoded, waitingPrefix)) {
		return stored{}, fmt.Errorf("%w: not a hash that is wrapped", ErrBadHash)
	}
	return s, nil
}

// IsBare reports whether a stored hash waits to be wrapped.
func IsBare(encoded string) bool { return strings.HasPrefix(encoded, waitingPrefix) }

// Wrap returns a hash that waits for it wrapped in an Argon2id of the current costs. It is
// background work: requests of users are served first. The error is [ErrBadHash] if
// encoded does not wait.
func (h *Hasher) Wrap(ctx context.Context, encoded string) (wrapped string, err error) {
	s, err := parse(encoded)
	if err != nil || !IsBare(encoded) {
		return "", fmt.Errorf("wrapping a hash: %w: it does not wait for it", ErrBadHash)
	}
	err = h.run(ctx, Source{background: true}, func() {
		sum := strings.TrimPrefix(strings.TrimPrefix(encoded, waitingPrefix), s.settings)
		wrapped = withinPrefix + strings.TrimPrefix(newArgon2id(h.params, sum).String(), "$"+argon2id+"$") + "$" + s.settings
	})
	if err == nil {
		_, err = parse(wrapped)
	}
	if err != nil {
		return "", fmt.Errorf("wrapping a hash: %w", err)
	}
	return wrapped, nil
}
