package password

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// stored is a parsed hash of any format.
type stored struct {
	class   string                     // see [Hasher.Class]
	name    string                     // see [Name]
	matches func(password string) bool // does the whole work for every password
	made    *argon2Hash                // the hash, if it has the format of new ones; nil for other formats

	// work is that of a comparison with a short password, in SHA-256 of one block. A hash
	// with less than minWork is wrapped, see [Hasher.Wrap]. 0 stands for enough.
	work int
	// settings is the hash without its sum, and sum the text that completes it to a hash of
	// the password. Every format has them whose work can be less than minWork.
	settings string
	sum      func(password string) string
}

// minWork is the work of a hash that is stored as it is.
const minWork = 10_000

// masked returns the class of a hash: its text, of which all after the costs, but for
// separators, is zero.
func masked(encoded string, costs int) string {
	return encoded[:costs] + strings.Map(func(r rune) rune {
		if r == '$' || r == '=' {
			return r
		}
		return 'A'
	}, encoded[costs:])
}

// summed returns a hash whose text is its costs, the rest of its settings, and then its sum.
func summed(encoded string, costs, settings, work int, sum func(password string) string) stored {
	want := encoded[settings:]
	return stored{
		class: masked(encoded, costs), work: work, settings: encoded[:settings], sum: sum,
		matches: func(password string) bool { return equal(sum(password), want) },
	}
}

// current reports whether the hash is one that would be made with p.
func (s stored) current(p Params) bool {
	return s.made != nil && s.made.params == p && len(s.made.salt) >= saltBytes && len(s.made.key) >= keyBytes
}

// maxEncoded is more bytes than any hash within the limits has.
const maxEncoded = 512

// formats lists the formats of stored hashes: what users read of it, how its text begins, and
// the parser, which keeps the limits of its costs. What other systems write, and is stored in
// one of these formats, is in foreignFormats (foreignformats.go).
var formats = []struct {
	name   string
	prefix string
	parse  func(encoded string) (stored, error)
}{
	{Own, "$argon2id$", parseArgon2},
	{"Argon2i", "$argon2i$", parseArgon2},
	{"bcrypt", "$2a$", parseBcrypt},
	{"bcrypt", "$2b$", parseBcrypt},
	{"bcrypt", "$2y$", parseBcrypt},
	{"WordPress 6.8", "$wp$2y$", parseWordPress},
	{"phpass", "$P$", parsePhpass},
	{"phpass", "$H$", parsePhpass},
	{"phpBB 3.1, combined", phpBBPrefix, parsePhpBB},
	{"Drupal 7", "$S$", parseDrupal},
	{"Drupal 7 of Drupal 6", "U$S$", parseDrupal},
	{"MD5 crypt", "$1$", parseMD5Crypt},
	{"SHA-256 crypt", "$5$", parseSHACrypt},
	{"SHA-512 crypt", "$6$", parseSHACrypt},
	{"Django PBKDF2", "pbkdf2_sha256$", parsePBKDF2},
	{"Django PBKDF2", "pbkdf2_sha1$", parsePBKDF2},
	{"PBKDF2", "$pbkdf2-sha1$", parsePBKDF2PHC},
	{"PBKDF2", "$pbkdf2-sha256$", parsePBKDF2PHC},
	{"PBKDF2", "$pbkdf2-sha512$", parsePBKDF2PHC},
	{"Django bcrypt_sha256", "bcrypt_sha256$$", parseBcryptSHA256},
	{"scrypt", "$scrypt$", parseScryptPHC},
	{"Django scrypt", "scrypt$", parseScryptDjango},
	{"digest", digestPrefix, parseDigest},
	{"bcrypt with a form", bcryptOfPrefix, parseBcryptOf},
	{"no password", Unusable, parseUnusable},
}

// parse parses a stored hash. Its errors are [ErrBadHash] and hold no part of the
// hash.
func parse(encoded string) (stored, error) {
	s, err := parseUnsummed(encoded)
	if err == nil && s.sum != nil && s.settings == encoded {
		return stored{}, fmt.Errorf("%w: the sum is missing", ErrBadHash)
	}
	return s, err
}

// parseUnsummed is parse for a hash that may end with its settings.
func parseUnsummed(encoded string) (stored, error) {
	if len(encoded) > maxEncoded {
		return stored{}, fmt.Errorf("%w: too long", ErrBadHash)
	}
	// Salts may be any text, but a database must be able to store it.
	if strings.ContainsFunc(encoded, func(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError }) {
		return stored{}, fmt.Errorf("%w: not UTF-8, or with control characters", ErrBadHash)
	}
	switch { // these hold a hash of the list
	case strings.HasPrefix(encoded, withinPrefix):
		return parseWithin(encoded)
	case strings.HasPrefix(encoded, waitingPrefix):
		return parseWaiting(encoded)
	}
	for _, f := range formats {
		if strings.HasPrefix(encoded, f.prefix) {
			s, err := f.parse(encoded)
			if s.name == "" {
				s.name = f.name
			}
			return s, err
		}
	}
	return stored{}, fmt.Errorf("%w: unknown format", ErrBadHash)
}

// Own is the name of the format of new hashes.
const Own = "Argon2id"

// Name returns what users read of the format of a stored hash, such as "phpass" or
// "md5(s.p)"; "" if the hash is invalid. A wrapped hash is named after the one within.
func Name(encoded string) string {
	s, err := parse(encoded)
	if err != nil {
		return ""
	}
	return s.name
}

// Unusable is stored for an account without a password, or if its hash cannot be imported:
// no password opens the account until the user recovers one by mail.
const Unusable = "!"

// AwaitsRecovery is stored in place of Unusable for an account that nothing opens until its user
// recovers a password by mail.
const AwaitsRecovery = "!recovery"

// Verifiable reports whether a password can match a stored hash: it has a known format,
// and is not unusable.
func Verifiable(encoded string) bool {
	_, err := parse(encoded)
	return err == nil && !IsUnusable(encoded)
}

// IsUnusable reports whether no password matches a stored hash.
func IsUnusable(encoded string) bool { return encoded == Unusable || encoded == AwaitsRecovery }

func parseUnusable(encoded string) (stored, error) {
	if !IsUnusable(encoded) {
		return stored{}, fmt.Errorf("%w: text follows the %s", ErrBadHash, Unusable)
	}
	return stored{matches: func(string) bool { return false }}, nil
}
