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

// Params are the costs of Argon2id (RFC 9106). A hash with other costs is due for
// replacement.
type Params struct {
	MemoryKiB uint32 // memory of one hashing, in KiB
	Time      uint32 // passes over the memory
	Threads   uint8
}

// The limits of the costs of a hash. Without them a hash written by an attacker could
// exhaust the process.
const (
	maxMemoryKiB = 256 * 1024
	maxTime      = 16
	maxThreads   = 16
	maxWork      = 4 * maxMemoryKiB // memory times passes: one to two seconds
)

// LowestParams returns the lowest costs that Validate allows, for hashes that are not kept.
func LowestParams() Params { return Params{MemoryKiB: 8, Time: 1, Threads: 1} }

// Validate returns an error that names the parameter beyond the limits of hashes:
// memory_kib 8 per thread … 262144, time 1 … 16, threads 1 … 16, and memory_kib times
// time 1048576 at most.
func (p Params) Validate() error {
	switch minMemory := 8 * max(uint32(p.Threads), 1); {
	case p.Threads < 1 || p.Threads > maxThreads:
		return fmt.Errorf("threads: %d is not in 1 … %d", p.Threads, maxThreads)
	case p.Time < 1 || p.Time > maxTime:
		return fmt.Errorf("time: %d is not in 1 … %d", p.Time, maxTime)
	case p.MemoryKiB < minMemory || p.MemoryKiB > maxMemoryKiB:
		return fmt.Errorf("memory_kib: %d is not in %d … %d", p.MemoryKiB, minMemory, maxMemoryKiB)
	case p.MemoryKiB*p.Time > maxWork:
		return fmt.Errorf("memory_kib: %d times %d passes (time) are more than %d", p.MemoryKiB, p.Time, maxWork)
	}
	return nil
}

// Format returns how the hashes begin that are made with the costs.
func (p Params) Format() string { return argon2Hash{function: argon2id, params: p}.format() }

// The sizes of new hashes, and the limits of stored ones.
const (
	saltBytes = 16
	keyBytes  = 32

	minSaltBytes, maxSaltBytes = 8, 64
	minKeyBytes, maxKeyBytes   = 16, 64
)

// The supported functions of the Argon2 family (RFC 9106). New hashes are argon2id.
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

func (h argon2Hash) format() string {
	return fmt.Sprintf("$%s$v=%d$m=%d,t=%d,p=%d$", h.function, argon2.Version, h.params.MemoryKiB, h.params.Time, h.params.Threads)
}

func (h argon2Hash) String() string {
	encode := base64.RawStdEncoding.EncodeToString
	return h.format() + encode(h.salt) + "$" + encode(h.key)
}

func (h argon2Hash) stored() stored {
	s := stored{class: masked(h.String(), len(h.format())), matches: h.matches}
	if h.function == argon2id {
		s.made = &h
	}
	return s
}

func parseArgon2(encoded string) (stored, error) {
	h, err := readArgon2(encoded)
	if err != nil {
		return stored{}, fmt.Errorf("%w: %w", ErrBadHash, err)
	}
	return h.stored(), nil
}

// readArgon2 parses a hash within the limits above, in its canonical text.
func readArgon2(encoded string) (h argon2Hash, err error) {
	parts := strings.Split(encoded, "$")
	if len(parts) != 6 {
		return h, errors.New("not in the PHC format")
	}
	h.function = parts[1]
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &h.params.MemoryKiB, &h.params.Time, &h.params.Threads); err != nil {
		return h, errors.New("invalid costs")
	}
	if err := h.params.Validate(); err != nil {
		return h, err
	}
	if h.salt, err = decode(parts[4], minSaltBytes, maxSaltBytes); err != nil {
		return h, fmt.Errorf("salt: %w", err)
	}
	if h.key, err = decode(parts[5], minKeyBytes, maxKeyBytes); err != nil {
		return h, fmt.Errorf("key: %w", err)
	}
	// This finds what the steps above accept: another version, leading zeros, line
	// ends in the base64.
	if h.String() != encoded {
		return h, errors.New("not the canonical text")
	}
	return h, nil
}

func decode(text string, minBytes, maxBytes int) ([]byte, error) {
	data, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil, errors.New("not base64")
	}
	if len(data) < minBytes || len(data) > maxBytes {
		return nil, fmt.Errorf("%d bytes are not in %d … %d", len(data), minBytes, maxBytes)
	}
	return data, nil
}

func random(n int) []byte {
	data := make([]byte, n)
	rand.Read(data) // never fails, see its documentation
	return data
}
