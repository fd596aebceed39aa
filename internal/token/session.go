package token

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"hash"
)

// Selector identifies a session in the database. It is random but not secret, and
// does not change while the session lasts.
type Selector [8]byte

// Secret authenticates a session: 192 random bits. Each rotation replaces it by the
// next secret of its chain. Formatted or marshalled, it is a placeholder.
type Secret [24]byte

// ChainKey derives the chain of a session's secrets. It is useless without a secret
// of the chain. Formatted or marshalled, it is a placeholder.
type ChainKey [32]byte

// NewSession returns the random parts of a new session.
func NewSession() (selector Selector, secret Secret, key ChainKey) {
	for _, part := range [][]byte{selector[:], secret[:], key[:]} {
		rand.Read(part) // never fails, see its documentation
	}
	return selector, secret, key
}

// FormatHash returns the user_hash of a session: selector and secret as 43
// characters of unpadded base64url. It is a secret.
func FormatHash(selector Selector, secret Secret) string {
	var b [size]byte
	copy(b[:], selector[:])
	copy(b[len(selector):], secret[:])
	return encoding.EncodeToString(b[:])
}

// ParseHash parses a user_hash. It accepts only the text that [FormatHash] returns.
func ParseHash(text string) (selector Selector, secret Secret, ok bool) {
	b, ok := decode(text)
	if !ok {
		return Selector{}, Secret{}, false
	}
	copy(selector[:], b[:])
	copy(secret[:], b[len(selector):])
	return selector, secret, true
}

// Next returns the secret that replaces s: the HMAC-SHA-256 of s under the chain
// key, truncated to the length of a secret.
func (s Secret) Next(key ChainKey) Secret { return s.next(hmac.New(sha256.New, key[:])) }

func (s Secret) next(mac hash.Hash) Secret {
	mac.Reset()
	mac.Write(s[:])
	var sum [sha256.Size]byte
	mac.Sum(sum[:0])
	return Secret(sum[:len(s)])
}

// Digest returns the SHA-256 of the secret, which is what the database stores.
func (s Secret) Digest() [32]byte { return sha256.Sum256(s[:]) }

// Distance walks the chain forward from s, at most maxSteps steps, to the secret
// with the given digest. It returns the number of steps, 0 if s itself is the current
// secret, and the current secret; ok is false if the walk did not reach it. A step
// takes about a third of a microsecond.
func Distance(key ChainKey, s Secret, current [32]byte, maxSteps int64) (steps int64, currentSecret Secret, ok bool) {
	if s.is(current) { // the usual case; it allocates nothing
		return 0, s, true
	}
	return walk(key, s, current, maxSteps)
}

func walk(key ChainKey, s Secret, current [32]byte, maxSteps int64) (steps int64, currentSecret Secret, ok bool) {
	mac := hmac.New(sha256.New, key[:])
	for steps = 1; steps <= maxSteps; steps++ {
		if s = s.next(mac); s.is(current) {
			return steps, s, true
		}
	}
	return 0, Secret{}, false
}

func (s Secret) is(digest [32]byte) bool {
	own := s.Digest()
	return subtle.ConstantTimeCompare(own[:], digest[:]) == 1
}

// redacted is what secrets and chain keys are formatted as.
const redacted = "[secret]"

// Format writes a placeholder for every verb.
func (Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, redacted) }

// MarshalText returns a placeholder, also to structured logs.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Format writes a placeholder for every verb.
func (ChainKey) Format(f fmt.State, _ rune) { fmt.Fprint(f, redacted) }

// MarshalText returns a placeholder, also to structured logs.
func (ChainKey) MarshalText() ([]byte, error) { return []byte(redacted), nil }
