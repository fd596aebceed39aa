package token

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"hash"
)

// Selector finds a session. It is random but no secret, and stays the same for
// the session's life.
type Selector [8]byte

// Secret proves the right to a session: 192 random bits. Each rotation replaces
// it by the next of its chain. It prints as a placeholder.
type Secret [24]byte

// ChainKey makes the chain of a session's secrets. Without a secret of the chain
// it makes nothing. It prints as a placeholder.
type ChainKey [32]byte

// NewSession makes what identifies a new session.
func NewSession() (Selector, Secret, ChainKey) {
	var selector Selector
	var secret Secret
	var key ChainKey
	fill(selector[:])
	fill(secret[:])
	fill(key[:])
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

// ParseHash reads a user_hash in the one form that [FormatHash] writes.
func ParseHash(text string) (selector Selector, secret Secret, ok bool) {
	b, ok := decode(text)
	if !ok {
		return Selector{}, Secret{}, false
	}
	copy(selector[:], b[:])
	copy(secret[:], b[len(selector):])
	return selector, secret, true
}

// Next returns the secret that follows: HMAC-SHA-256 of the secret under the
// chain key, cut to the secret's length.
func (s Secret) Next(key ChainKey) Secret { return s.next(hmac.New(sha256.New, key[:])) }

func (s Secret) next(mac hash.Hash) Secret {
	mac.Reset()
	mac.Write(s[:])
	var sum [sha256.Size]byte
	mac.Sum(sum[:0])
	return Secret(sum[:len(s)])
}

// Digest returns the SHA-256 of the secret, which is what is stored.
func (s Secret) Digest() [32]byte { return sha256.Sum256(s[:]) }

// Distance walks the chain forward from s, at most maxSteps steps, to the secret
// with the given digest. It returns the number of steps, 0 if s is the current
// secret itself, and the current secret; ok is false if the walk did not reach it.
// A step takes about a third of a microsecond.
func Distance(key ChainKey, s Secret, current [32]byte, maxSteps int64) (steps int64, currentSecret Secret, ok bool) {
	if s.is(current) { // nearly always, and without an allocation
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
