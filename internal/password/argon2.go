package password

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/argon2"
)

// The sizes of what we make, and the sizes that are read.
const (
	saltBytes = 16
	keyBytes  = 32

	minSaltBytes, maxSaltBytes = 8, 64
	minKeyBytes, maxKeyBytes   = 16, 64
)

// The functions of the Argon2 family (RFC 9106) that are read. New hashes are
// made with argon2id.
const (
	argon2id = "argon2id"
	argon2i  = "argon2i"
)

// argon2Hash is a stored hash in the PHC string format:
// $argon2id$v=19$m=19456,t=2,p=1$SALT$KEY, the last two in unpadded base64.
type argon2Hash struct {
	function  string
	params    Params
	salt, key []byte
}

// newArgon2id hashes a password with a random salt.
func newArgon2id(p Params, password string) argon2Hash {
	h := argon2Hash{function: argon2id, params: p, salt: random(saltBytes)}
	h.key = h.derive(password, keyBytes)
	return h
}

func (h argon2Hash) derive(password string, size int) []byte {
	p, derive := h.params, argon2.IDKey
	if h.function == argon2i {
		derive = argon2.Key
	}
	return derive([]byte(password), h.salt, p.Time, p.MemoryKiB, p.Threads, uint32(size))
}

func (h argon2Hash) matches(password string) bool {
	return subtle.ConstantTimeCompare(h.derive(password, len(h.key)), h.key) == 1
}

func (h argon2Hash) outdated(current Params) bool {
	return h.function != argon2id || h.params != current || len(h.salt) < saltBytes || len(h.key) < keyBytes
}

func (h argon2Hash) effort(string) float64 { return 1 }

func (h argon2Hash) costs() Params { return h.params }

// argon2Family are the formats whose comparison is one Argon2 of known costs.
type argon2Family interface{ costs() Params }

func (h argon2Hash) format() string {
	return fmt.Sprintf("$%s$v=%d$m=%d,t=%d,p=%d$", h.function, argon2.Version, h.params.MemoryKiB, h.params.Time, h.params.Threads)
}

func (h argon2Hash) String() string {
	encode := base64.RawStdEncoding.EncodeToString
	return h.format() + encode(h.salt) + "$" + encode(h.key)
}

// parseArgon2 reads a hash of which every part is within the limits above. It
// takes the one canonical way of writing each.
func parseArgon2(encoded string) (stored, error) {
	parts := strings.Split(encoded, "$")
	if len(parts) != 6 {
		return nil, fmt.Errorf("%w: not in the PHC format", ErrBadHash)
	}
	h := argon2Hash{function: parts[1]}
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &h.params.MemoryKiB, &h.params.Time, &h.params.Threads); err != nil {
		return nil, fmt.Errorf("%w: costs can't be read", ErrBadHash)
	}
	if err := h.params.readable(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadHash, err)
	}
	var err error
	if h.salt, err = decode(parts[4], minSaltBytes, maxSaltBytes); err != nil {
		return nil, fmt.Errorf("%w: salt: %w", ErrBadHash, err)
	}
	if h.key, err = decode(parts[5], minKeyBytes, maxKeyBytes); err != nil {
		return nil, fmt.Errorf("%w: key: %w", ErrBadHash, err)
	}
	// What the steps above let pass (another version, leading zeros, line ends in
	// the base64) does not survive being written again.
	if h.String() != encoded {
		return nil, fmt.Errorf("%w: not written in the canonical way", ErrBadHash)
	}
	return h, nil
}

func decode(text string, least, most int) ([]byte, error) {
	data, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil, errors.New("not base64")
	}
	if len(data) < least || len(data) > most {
		return nil, fmt.Errorf("%d bytes are not in %d … %d", len(data), least, most)
	}
	return data, nil
}

func random(n int) []byte {
	data := make([]byte, n)
	rand.Read(data) // never fails, see its documentation
	return data
}
