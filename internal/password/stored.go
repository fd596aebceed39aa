package password

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// stored is a parsed hash of any format.
type stored interface {
	matches(password string) bool // does the whole work whatever the password
	outdated(current Params) bool // true for every format but that of new hashes
	format() string               // see [Format]
	// effort is how long a comparison with a password takes, as a part of one with
	// the longest.
	effort(password string) float64
}

// foreign is what the formats of other systems have in common.
type foreign struct{}

func (foreign) outdated(Params) bool  { return true }
func (foreign) effort(string) float64 { return 1 }

// maxEncoded is more than any hash within the limits has, in bytes.
const maxEncoded = 512

// formats are the stored formats by their prefixes.
var formats = []struct {
	prefix string
	parse  func(encoded string) (stored, error)
}{
	{"$argon2id$", parseArgon2},
	{"$argon2i$", parseArgon2},
	{wrappedPrefix, parseWrapped},
	{barePrefix, parseBare},
	{"$2a$", parseBcrypt},
	{"$2b$", parseBcrypt},
	{"$2y$", parseBcrypt},
	{"$wp$2y$", parseWordPress},
	{"$P$", parsePhpass},
	{"$H$", parsePhpass},
	{"pbkdf2_sha256$", parsePBKDF2},
	{"pbkdf2_sha1$", parsePBKDF2},
	{"$scrypt$", parseScryptPHC},
	{"scrypt$", parseScryptDjango},
	{unusable, parseUnusable},
}

// parse reads a stored hash. Formats are told apart by their prefix; the list
// above is the place for a further one. Errors are [ErrBadHash] and hold no part
// of the hash.
func parse(encoded string) (stored, error) {
	if len(encoded) > maxEncoded {
		return nil, fmt.Errorf("%w: too long", ErrBadHash)
	}
	if strings.ContainsFunc(encoded, noText) {
		return nil, fmt.Errorf("%w: not UTF-8, or with control characters", ErrBadHash)
	}
	for _, f := range formats {
		if strings.HasPrefix(encoded, f.prefix) {
			return f.parse(encoded)
		}
	}
	return nil, fmt.Errorf("%w: unknown format", ErrBadHash)
}

// noText reports what no database keeps as it is: a salt may be a text of any kind.
func noText(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError }

// Adopt checks a hash that another system made and returns it as it is stored
// here: an MD5 as a bare one (see [IsBare]), what begins with ! as one that no
// password matches (see [IsUnusable]), every other as it is. The error is
// [ErrBadHash], with the reason and no part of the hash.
func Adopt(foreign string) (encoded string, err error) {
	if encoded, ok := bareMD5(foreign); ok {
		return encoded, nil
	}
	if strings.HasPrefix(foreign, unusable) { // Django writes random letters behind it
		return unusable, nil
	}
	s, err := parse(foreign)
	if err != nil {
		return foreign, err
	}
	if h, ok := s.(argon2Family); ok { // less may be taken over than is read
		if err := h.costs().Validate(); err != nil {
			return foreign, fmt.Errorf("%w: %w", ErrBadHash, err)
		}
	}
	return foreign, nil
}
