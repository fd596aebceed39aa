package passkey

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"time"
)

// AttemptLifetime is how long an attempt is valid.
const AttemptLifetime = 5 * time.Minute

// Challenge is what an authenticator signs.
type Challenge [32]byte

// NewChallenge returns a random one.
func NewChallenge() (c Challenge) {
	_, _ = rand.Read(c[:]) // it never fails
	return c
}

// A sealed attempt is the challenge, the end in microseconds since 1970 and their HMAC.
const (
	endSize    = 8
	sealedSize = len(Challenge{}) + endSize + sha256.Size
)

// attempts is strict, so that an attempt has one text.
var attempts = base64.RawURLEncoding.Strict()

// Seal returns an attempt that needs no storage: only a holder of the key can make one.
func Seal(key []byte, c Challenge, end time.Time) string {
	sealed := binary.BigEndian.AppendUint64(c[:], uint64(end.UnixMicro()))
	return attempts.EncodeToString(append(sealed, seal(key, sealed)...))
}

// Open returns the challenge and the end of an attempt that Seal has returned for the key.
func Open(key []byte, attempt string) (c Challenge, end time.Time, ok bool) {
	if len(attempt) != attempts.EncodedLen(sealedSize) { // the decoder skips line ends
		return c, end, false
	}
	sealed, err := attempts.DecodeString(attempt)
	if err != nil || len(sealed) != sealedSize {
		return c, end, false
	}
	sealed, mac := sealed[:sealedSize-sha256.Size], sealed[sealedSize-sha256.Size:]
	if !hmac.Equal(mac, seal(key, sealed)) {
		return c, end, false
	}
	n := copy(c[:], sealed)
	return c, time.UnixMicro(int64(binary.BigEndian.Uint64(sealed[n:]))).UTC(), true
}

func seal(key, sealed []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("passkey attempt"))
	mac.Write(sealed)
	return mac.Sum(nil)
}
