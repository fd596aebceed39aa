package token

import (
	"crypto/rand"
	"encoding/base64"
)

const (
	size       = 32 // bytes of a token
	textLength = 43 // characters of a token in unpadded base64url
)

// encoding is strict, so that every token has one text: the last character's
// unused bits must be 0.
var encoding = base64.RawURLEncoding.Strict()

// decode reads the one text of 32 bytes. The length is checked first, because
// the decoder skips line ends.
func decode(text string) (b [size]byte, ok bool) {
	if len(text) != textLength {
		return b, false
	}
	var src [textLength]byte
	copy(src[:], text)
	n, err := encoding.Decode(b[:], src[:])
	return b, err == nil && n == size
}

// fill overwrites b with random bytes; the system's source never fails, see
// [rand.Read].
func fill(b []byte) { rand.Read(b) }
