package password

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// stored is a parsed hash of any format.
type stored struct {
	format  string                     // see [Format]
	matches func(password string) bool // does the whole work for every password
	argon2  *Params                    // the costs, if a comparison is one Argon2; nil for other formats
	made    *argon2Hash                // the hash, if it has the format of new ones; nil for other formats
	// blocks returns the work of a comparison in any unit; nil if it is the same for
	// every password.
	blocks func(password string) int
}

// current reports whether the hash is one that would be made with p.
func (s stored) current(p Params) bool {
	return s.made != nil && s.made.params == p && len(s.made.salt) >= saltBytes && len(s.made.key) >= keyBytes
}

// effort returns how long a comparison takes with the password, as a fraction of
// that with the longest.
func (s stored) effort(password string) float64 {
	if s.blocks == nil {
		return 1
	}
	return float64(s.blocks(password)) / float64(s.blocks(longest))
}

// maxEncoded is more bytes than any hash within the limits has.
const maxEncoded = 512

// formats maps the prefix of a hash to the parser of its format.
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
	{Unusable, parseUnusable},
}

// parse parses a stored hash. Its errors are [ErrBadHash] and hold no part of the
// hash.
func parse(encoded string) (stored, error) {
	if len(encoded) > maxEncoded {
		return stored{}, fmt.Errorf("%w: too long", ErrBadHash)
	}
	// Salts may be any text, but a database must be able to store it.
	if strings.ContainsFunc(encoded, func(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError }) {
		return stored{}, fmt.Errorf("%w: not UTF-8, or with control characters", ErrBadHash)
	}
	for _, f := range formats {
		if strings.HasPrefix(encoded, f.prefix) {
			return f.parse(encoded)
		}
	}
	return stored{}, fmt.Errorf("%w: unknown format", ErrBadHash)
}

// Format returns the part of a stored hash that determines how long a comparison
// takes: its text up to the salt, such as "$2y$12$". For both forms of a scrypt it is
// that of the PHC format. It is "" if the hash is invalid.
func Format(encoded string) string {
	s, _ := parse(encoded)
	return s.format
}

// Adopt checks a hash that another system made and returns the form to store: an
// MD5 as a bare one (see [IsBare]), a hash that begins with ! as an unusable one (see
// [IsUnusable]), and any other unchanged. The error is [ErrBadHash] with the reason
// and no part of the hash.
func Adopt(foreign string) (encoded string, err error) {
	if encoded, ok := bareMD5(foreign); ok {
		return encoded, nil
	}
	if strings.HasPrefix(foreign, Unusable) { // Django appends random letters
		return Unusable, nil
	}
	s, err := parse(foreign)
	if err == nil && s.argon2 != nil { // lower limits than for hashes that are stored
		if invalid := s.argon2.Validate(); invalid != nil {
			err = fmt.Errorf("%w: %w", ErrBadHash, invalid)
		}
	}
	return foreign, err
}

// Unusable is stored for an account without a password, or if its hash cannot be imported:
// no password opens the account until the user recovers one by mail.
const Unusable = "!"

// Verifiable reports whether a password can match a stored hash: it has a known format,
// and is not unusable.
func Verifiable(encoded string) bool {
	_, err := parse(encoded)
	return err == nil && !IsUnusable(encoded)
}

// IsUnusable reports whether no password matches a stored hash.
func IsUnusable(encoded string) bool { return encoded == Unusable }

func parseUnusable(encoded string) (stored, error) {
	if encoded != Unusable {
		return stored{}, fmt.Errorf("%w: text follows the %s", ErrBadHash, Unusable)
	}
	return stored{format: Unusable, matches: func(string) bool { return false }}, nil
}
