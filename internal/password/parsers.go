package password

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/pbkdf2"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"hash"
	"io"
	"math/bits"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/crypto/bcrypt"
	"golang.org/x/crypto/scrypt"
)

// equal compares texts or sums in constant time.
func equal[T string | []byte](a, b T) bool {
	return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}

// maxBcryptCost is the logarithm of the number of rounds; 15 takes about two seconds.
const maxBcryptCost = 15

var bcryptForm = regexp.MustCompile(`\A\$2[aby]\$([0-9]{2})\$[./A-Za-z0-9]{53}\z`)

// parseBcrypt parses a bcrypt in the modular crypt format. As in the original
// implementations, only the first 72 bytes of a password count.
func parseBcrypt(encoded string) (stored, error) {
	parts := bcryptForm.FindStringSubmatch(encoded)
	if parts == nil {
		return stored{}, fmt.Errorf("%w: not a bcrypt", ErrBadHash)
	}
	cost, err := strconv.Atoi(parts[1])
	if err != nil || cost < bcrypt.MinCost || cost > maxBcryptCost {
		return stored{}, fmt.Errorf("%w: cost is not in %d … %d", ErrBadHash, bcrypt.MinCost, maxBcryptCost)
	}
	return stored{class: masked(encoded, len("$2y$12$")), matches: func(password string) bool {
		return bcrypt.CompareHashAndPassword([]byte(encoded), []byte(password)) == nil
	}}, nil
}

// parseWordPress parses a hash of WordPress 6.8 or newer: $wp before the bcrypt of
// the base64 of an HMAC-SHA-384 of the password. So all bytes of a password count.
func parseWordPress(encoded string) (stored, error) {
	s, err := parseBcrypt(strings.TrimPrefix(encoded, "$wp"))
	if err != nil {
		return s, err
	}
	inner := s.matches
	return stored{class: "$wp" + s.class, matches: func(password string) bool {
		mac := hmac.New(sha512.New384, []byte("wp-sha384"))
		mac.Write([]byte(password))
		return inner(base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}}, nil
}

// parseBcryptSHA256 parses a hash of Django's BCryptSHA256PasswordHasher: bcrypt_sha256$ before
// the bcrypt of the 64 hexadecimal digits of a SHA-256. So all bytes of a password count.
func parseBcryptSHA256(encoded string) (stored, error) {
	s, err := parseBcrypt(strings.TrimPrefix(encoded, "bcrypt_sha256$"))
	if err != nil {
		return s, err
	}
	inner := s.matches
	return stored{class: "bcrypt_sha256$" + s.class, matches: func(password string) bool {
		return inner(digests["sha256"].hex(password))
	}}, nil
}

// phpBBPrefix begins a hash of phpBB that was made of an older one, in the order in which it is
// stored: $phpbb$2y$10$9 and the salts of both, and the sum of the bcrypt of the sum of a phpass.
const phpBBPrefix = "$phpbb$"

// maxPhpBBRounds are those of the phpass within; phpBB uses 2048.
const maxPhpBBRounds = 1 << 13

var phpBBForm = regexp.MustCompile(`\A\$phpbb(\$2[aby]\$[0-9]{2}\$)([./0-9A-Za-z])\$([./0-9A-Za-z]{8})([./0-9A-Za-z]{53})\z`)

func parsePhpBB(encoded string) (stored, error) {
	parts := phpBBForm.FindStringSubmatch(encoded)
	if parts == nil {
		return stored{}, fmt.Errorf("%w: not a combined hash of phpBB's", ErrBadHash)
	}
	outer, err := parseBcrypt(parts[1] + parts[4])
	if err != nil {
		return stored{}, err
	}
	inner, err := parsePhpass("$H$" + parts[2] + parts[3])
	rounds := 1 << strings.IndexByte(phpassDigits, parts[2][0])
	cost, _ := strconv.Atoi(parts[1][4:6])
	if err != nil || rounds > maxPhpBBRounds || cost == maxBcryptCost { // which takes the time alone
		return stored{}, fmt.Errorf("%w: cost is too high", ErrBadHash)
	}
	return stored{
		class:   masked(encoded, len("$phpbb$2y$10$9$")),
		matches: func(password string) bool { return outer.matches(inner.sum(password)) },
	}, nil
}

// The limits of the logarithm of phpass's rounds. The original allows 30; WordPress
// uses 13, and 17 takes one to two seconds for the longest passwords.
const minPhpassCost, maxPhpassCost = 7, 17

const (
	phpassDigits = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	phpassHead   = 12 // $P$, 1 of the cost, 8 of the salt
	phpassLength = 34 // and 22 of the sum
)

// phpassCost returns the logarithm of the rounds of a phpass or of a hash of Drupal 7, whose
// text begins with its settings.
func phpassCost(encoded string, length, maxCost int) (int, error) {
	if len(encoded) != phpassHead && len(encoded) != length || strings.Trim(encoded[3:], phpassDigits) != "" {
		return 0, fmt.Errorf("%w: not a phpass", ErrBadHash)
	}
	cost := strings.IndexByte(phpassDigits, encoded[3])
	if cost < minPhpassCost || cost > maxCost {
		return 0, fmt.Errorf("%w: cost is not in %d … %d", ErrBadHash, minPhpassCost, maxCost)
	}
	return cost, nil
}

// parsePhpass parses a "portable" hash of phpass: by WordPress before 6.8 and many
// others ($P$), or by phpBB 3 ($H$).
func parsePhpass(encoded string) (stored, error) {
	cost, err := phpassCost(encoded, phpassLength, maxPhpassCost)
	if err != nil {
		return stored{}, err
	}
	return summed(encoded, 4, phpassHead, 1<<cost, func(password string) string {
		return phpass(md5.New(), cost, encoded[4:phpassHead], password)
	}), nil
}

// phpass returns the encoded sum of a password.
func phpass(h hash.Hash, cost int, salt, password string) string {
	io.WriteString(h, salt+password)
	round := append(h.Sum(nil), password...)
	for range 1 << cost {
		h.Reset()
		h.Write(round)
		h.Sum(round[:0])
	}
	var text strings.Builder
	for three := range slices.Chunk(round[:h.Size()], 3) { // four digits, the lowest bits first
		var bits uint32
		for i, b := range three {
			bits |= uint32(b) << (8 * i)
		}
		for range len(three) + 1 {
			text.WriteByte(phpassDigits[bits&63])
			bits >>= 6
		}
	}
	return text.String()
}

// maxPBKDF2Iterations take one to two seconds. Django 6 uses 1,200,000 of SHA-256. For a
// sum that is longer than that of the digest, the work is that of each of its blocks.
var maxPBKDF2Iterations = map[string]int{"sha1": 4_000_000, "sha256": 4_000_000, "sha512": 2_000_000}

var pbkdf2Form = regexp.MustCompile(`\Apbkdf2_(sha256|sha1)\$([1-9][0-9]{0,6})\$([^$]+)\$([A-Za-z0-9+/]+=*)?\z`)

// parsePBKDF2 parses a PBKDF2 (RFC 8018) as Django writes it:
// pbkdf2_sha256$ITERATIONS$SALT$SUM, the salt as text and the sum in base64.
func parsePBKDF2(encoded string) (stored, error) {
	parts := pbkdf2Form.FindStringSubmatch(encoded)
	if parts == nil {
		return stored{}, fmt.Errorf("%w: not a PBKDF2 of Django's", ErrBadHash)
	}
	size := digests[parts[1]].new().Size()
	if want, err := base64.StdEncoding.Strict().DecodeString(parts[4]); err != nil || len(want) != size && parts[4] != "" {
		return stored{}, fmt.Errorf("%w: the sum does not have the size of the digest", ErrBadHash)
	}
	if len(parts[3]) > 2*maxSaltBytes {
		return stored{}, fmt.Errorf("%w: the salt is too long", ErrBadHash)
	}
	return newPBKDF2(encoded, parts[3], parts[4], parts[1], parts[2], []byte(parts[3]), size, base64.StdEncoding)
}

var pbkdf2PHCForm = regexp.MustCompile(`\A\$pbkdf2-(sha1|sha256|sha512)\$i=([1-9][0-9]{0,6}),l=([1-9][0-9]{0,2})\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)?\z`)

// parsePBKDF2PHC parses a PBKDF2 in the PHC string format, with the number of bytes of the sum:
// $pbkdf2-sha256$i=600000,l=32$SALT$SUM, salt and sum in unpadded base64. What passlib, Discourse,
// Keycloak and MediaWiki write is stored in this form.
func parsePBKDF2PHC(encoded string) (stored, error) {
	parts := pbkdf2PHCForm.FindStringSubmatch(encoded)
	if parts == nil {
		return stored{}, fmt.Errorf("%w: not in the PHC format", ErrBadHash)
	}
	salt, saltErr := base64.RawStdEncoding.Strict().DecodeString(parts[4])
	want, err := base64.RawStdEncoding.Strict().DecodeString(parts[5])
	size, _ := strconv.Atoi(parts[3])
	switch {
	case saltErr != nil || err != nil:
		return stored{}, fmt.Errorf("%w: not base64", ErrBadHash)
	case len(salt) > 2*maxSaltBytes || size < minKeyBytes || size > 2*maxKeyBytes || len(want) != size && parts[5] != "":
		return stored{}, fmt.Errorf("%w: salt or sum is too short or too long", ErrBadHash)
	}
	return newPBKDF2(encoded, parts[4], parts[5], parts[1], parts[2], salt, size, base64.RawStdEncoding)
}

// newPBKDF2 returns a PBKDF2 whose text ends with those of its salt and its sum.
func newPBKDF2(
	encoded, saltText, sumText, digest, count string, salt []byte, size int, encoding *base64.Encoding,
) (stored, error) {
	d := digests[digest]
	blocks := (size-1)/d.new().Size() + 1
	iterations, err := strconv.Atoi(count)
	if most := maxPBKDF2Iterations[digest] / blocks; err != nil || iterations > most {
		return stored{}, fmt.Errorf("%w: iterations are not in 1 … %d", ErrBadHash, most)
	}
	settings := len(encoded) - len(sumText)
	costs := settings - len("$") - len(saltText)
	return summed(encoded, costs, settings, 2*iterations*blocks, func(password string) string { // an HMAC hashes twice
		sum, _ := pbkdf2.Key(d.new, password, salt, iterations, size)
		return encoding.EncodeToString(sum)
	}), nil
}

// The limits of a scrypt: its memory is 128·N·r bytes, its work N·r·p, of which the
// maximum takes about two seconds, and the minimum as long as minWork.
const (
	maxScryptMemory = 256 << 20
	maxScryptWork   = 1 << 22
	minScryptWork   = 1 << 11
)

// parseScryptPHC parses a scrypt (RFC 7914) in the PHC string format, as passlib and
// RustCrypto write it: $scrypt$ln=14,r=8,p=1$SALT$SUM, where ln is the logarithm of N.
func parseScryptPHC(encoded string) (stored, error) {
	parts := strings.Split(encoded, "$")
	if len(parts) != 5 {
		return stored{}, fmt.Errorf("%w: not in the PHC format", ErrBadHash)
	}
	var ln, r, p uint32
	_, err := fmt.Sscanf(parts[2], "ln=%d,r=%d,p=%d", &ln, &r, &p)
	if err != nil || fmt.Sprintf("ln=%d,r=%d,p=%d", ln, r, p) != parts[2] || ln > 30 {
		return stored{}, fmt.Errorf("%w: invalid costs", ErrBadHash)
	}
	salt, saltErr := base64.RawStdEncoding.Strict().DecodeString(parts[3])
	sum, sumErr := base64.RawStdEncoding.Strict().DecodeString(parts[4])
	if saltErr != nil || sumErr != nil {
		return stored{}, fmt.Errorf("%w: not base64", ErrBadHash)
	}
	return newScrypt(masked(encoded, len("$scrypt$")+len(parts[2])+len("$")), 1<<ln, r, p, salt, sum)
}

// parseScryptDjango parses a scrypt as Django writes it: scrypt$N$SALT$r$p$SUM, the
// salt as text.
func parseScryptDjango(encoded string) (stored, error) {
	parts := strings.Split(encoded, "$")
	if len(parts) != 6 {
		return stored{}, fmt.Errorf("%w: not a scrypt of Django's", ErrBadHash)
	}
	var n, r, p uint32
	costs := strings.Join([]string{parts[1], parts[3], parts[4]}, " ")
	_, err := fmt.Sscanf(costs, "%d %d %d", &n, &r, &p)
	if err != nil || fmt.Sprintf("%d %d %d", n, r, p) != costs {
		return stored{}, fmt.Errorf("%w: invalid costs", ErrBadHash)
	}
	sum, err := base64.StdEncoding.Strict().DecodeString(parts[5])
	if err != nil {
		return stored{}, fmt.Errorf("%w: not base64", ErrBadHash)
	}
	class := strings.Join([]string{parts[0], parts[1], masked(parts[2], 0), parts[3], parts[4], masked(parts[5], 0)}, "$")
	return newScrypt(class, n, r, p, []byte(parts[2]), sum)
}

func newScrypt(class string, n, r, p uint32, salt, want []byte) (stored, error) {
	switch memory, work := 128*uint64(n)*uint64(r), uint64(n)*uint64(r)*uint64(p); {
	case n < 2 || bits.OnesCount32(n) != 1 || r < 1 || p < 1 || r > 64 || p > 64:
		return stored{}, fmt.Errorf("%w: costs that no scrypt has", ErrBadHash)
	case memory > maxScryptMemory || work > maxScryptWork:
		return stored{}, fmt.Errorf("%w: it needs more than %d MiB or too much time", ErrBadHash, maxScryptMemory>>20)
	case work < minScryptWork:
		return stored{}, fmt.Errorf("%w: too little work: write ! instead, so that the user sets a password with a recovery mail", ErrBadHash)
	case len(salt) < 1 || len(salt) > 2*maxSaltBytes || len(want) < minKeyBytes || len(want) > maxKeyBytes:
		return stored{}, fmt.Errorf("%w: salt or sum is too short or too long", ErrBadHash)
	}
	return stored{
		class: class,
		matches: func(password string) bool {
			sum, err := scrypt.Key([]byte(password), salt, int(n), int(r), int(p), len(want))
			return err == nil && equal(sum, want)
		},
	}, nil
}
