// Package token makes and parses the random tokens of the module: the ones that
// are mailed, and the chained secrets behind a session's user_hash. Only their
// digests are stored (HTTP contract, section 3).
package token

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
)

const (
	size       = 32 // bytes of a token
	textLength = 43 // characters of a token in unpadded base64url
)

// encoding is strict, so that every token has exactly one text: the unused bits of
// the last character must be 0.
var encoding = base64.RawURLEncoding.Strict()

// NewMailToken returns a token to be mailed and its digest. The token is 32 random
// bytes as unpadded base64url, and a secret; only the digest is stored.
func NewMailToken() (text string, digest [32]byte) {
	var b [size]byte
	rand.Read(b[:]) // never fails, see its documentation
	return encoding.EncodeToString(b[:]), sha256.Sum256(b[:])
}

// MailDigest returns the digest of a token that a user entered. It returns false
// unless the text is exactly 43 characters of canonical base64url.
func MailDigest(text string) (digest [32]byte, ok bool) {
	b, ok := decode(text)
	if !ok {
		return digest, false
	}
	return sha256.Sum256(b[:]), true
}

// decode parses the one text of 32 bytes. It checks the length first because the
// decoder skips line ends.
func decode(text string) (b [size]byte, ok bool) {
	if len(text) != textLength {
		return b, false
	}
	var src [textLength]byte
	copy(src[:], text)
	n, err := encoding.Decode(b[:], src[:])
	return b, err == nil && n == size
}
