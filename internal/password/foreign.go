package password

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
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
	return stored{format: encoded[:len("$2y$12$")], matches: func(password string) bool {
		return bcrypt.CompareHashAndPassword([]byte(encoded), []byte(password)) == nil
	}}, nil
}

// parseWordPress parses a hash of WordPress 6.8 or newer: $wp before the bcrypt of
// the base64 of an HMAC-SHA-384 of the trimmed password. So all bytes of a password
// count.
func parseWordPress(encoded string) (stored, error) {
	s, err := parseBcrypt(strings.TrimPrefix(encoded, "$wp"))
	if err != nil {
		return s, err
	}
	inner := s.matches
	return stored{format: "$wp" + s.format, matches: func(password string) bool {
		mac := hmac.New(sha512.New384, []byte("wp-sha384"))
		mac.Write([]byte(trimPHP(password)))
		return inner(base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}}, nil
}

// trimPHP is PHP's trim, which WordPress applies to every password.
func trimPHP(s string) string { return strings.Trim(s, " \n\r\t\v\x00") }

// The limits of the logarithm of phpass's rounds. The original allows 30; WordPress
// uses 13, and 18 takes two seconds for the longest passwords.
const minPhpassCost, maxPhpassCost = 7, 18

const (
	phpassDigits = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	phpassLength = 34 // $P$, 1 of the cost, 8 of the salt, 22 of the sum
)

// parsePhpass parses a "portable" hash of phpass: by WordPress before 6.8 and many
// others ($P$), or by phpBB 3 ($H$). For $P$ the trimmed password is compared, too,
// because WordPress may have made the hash.
func parsePhpass(encoded string) (stored, error) {
	if len(encoded) != phpassLength || strings.Trim(encoded[3:], phpassDigits) != "" {
		return stored{}, fmt.Errorf("%w: not a phpass", ErrBadHash)
	}
	cost := strings.IndexByte(phpassDigits, encoded[3])
	if cost < minPhpassCost || cost > maxPhpassCost {
		return stored{}, fmt.Errorf("%w: cost is not in %d … %d", ErrBadHash, minPhpassCost, maxPhpassCost)
	}
	candidates := func(password string) []string {
		if trimmed := trimPHP(password); encoded[1] == 'P' && trimmed != password {
			return []string{trimmed, password}
		}
		return []string{password}
	}
	return stored{
		format: encoded[:4],
		matches: func(password string) bool {
			return slices.ContainsFunc(candidates(password), func(candidate string) bool {
				return equal(phpass(cost, encoded[4:12], candidate), encoded[12:])
			})
		},
		blocks: func(password string) (n int) { // of MD5 in a round, which hashes a sum and the password
			for _, candidate := range candidates(password) {
				n += (md5.Size+len(candidate)+8)/md5.BlockSize + 1
			}
			return n
		},
	}, nil
}

// phpass returns the encoded sum of a password.
func phpass(cost int, salt, password string) string {
	sum := md5.Sum([]byte(salt + password))
	round := append(sum[:], password...)
	for range 1 << cost {
		sum = md5.Sum(round)
		copy(round, sum[:])
	}
	var text strings.Builder
	for three := range slices.Chunk(sum[:], 3) { // four digits, the lowest bits first
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

// maxPBKDF2Iterations take about a second. Django 6 uses 1,200,000.
const maxPBKDF2Iterations = 4_000_000

var pbkdf2Form = regexp.MustCompile(`\A(pbkdf2_(sha256|sha1)\$([1-9][0-9]{0,6})\$)([^$]{1,128})\$([A-Za-z0-9+/]+=*)\z`)

// parsePBKDF2 parses a PBKDF2 (RFC 8018) as Django writes it:
// pbkdf2_sha256$ITERATIONS$SALT$SUM, the salt as text and the sum in base64.
func parsePBKDF2(encoded string) (stored, error) {
	parts := pbkdf2Form.FindStringSubmatch(encoded)
	if parts == nil {
		return stored{}, fmt.Errorf("%w: not a PBKDF2 of Django's", ErrBadHash)
	}
	digest := sha256.New
	if parts[2] == "sha1" {
		digest = sha1.New
	}
	iterations, err := strconv.Atoi(parts[3])
	if err != nil || iterations > maxPBKDF2Iterations {
		return stored{}, fmt.Errorf("%w: iterations are not in 1 … %d", ErrBadHash, maxPBKDF2Iterations)
	}
	want, err := base64.StdEncoding.Strict().DecodeString(parts[5])
	if err != nil || len(want) != digest().Size() {
		return stored{}, fmt.Errorf("%w: the sum does not have the size of the digest", ErrBadHash)
	}
	return stored{format: parts[1], matches: func(password string) bool {
		sum, err := pbkdf2.Key(digest, password, []byte(parts[4]), iterations, len(want))
		return err == nil && equal(sum, want)
	}}, nil
}

// The limits of a scrypt: its memory is 128·N·r bytes, its work N·r·p, of which the
// maximum takes about two seconds.
const (
	maxScryptMemory = 256 << 20
	maxScryptWork   = 1 << 22
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
	return newScrypt(1<<ln, r, p, salt, sum)
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
	return newScrypt(n, r, p, []byte(parts[2]), sum)
}

func newScrypt(n, r, p uint32, salt, want []byte) (stored, error) {
	switch memory, work := 128*uint64(n)*uint64(r), uint64(n)*uint64(r)*uint64(p); {
	case n < 2 || bits.OnesCount32(n) != 1 || r < 1 || p < 1 || r > 64 || p > 64:
		return stored{}, fmt.Errorf("%w: costs that no scrypt has", ErrBadHash)
	case memory > maxScryptMemory || work > maxScryptWork:
		return stored{}, fmt.Errorf("%w: it needs more than %d MiB or too much time", ErrBadHash, maxScryptMemory>>20)
	case len(salt) < 1 || len(salt) > 2*maxSaltBytes || len(want) < minKeyBytes || len(want) > maxKeyBytes:
		return stored{}, fmt.Errorf("%w: salt or sum is too short or too long", ErrBadHash)
	}
	return stored{
		format: fmt.Sprintf("$scrypt$ln=%d,r=%d,p=%d$", bits.TrailingZeros32(n), r, p),
		matches: func(password string) bool {
			sum, err := scrypt.Key([]byte(password), salt, int(n), int(r), int(p), len(want))
			return err == nil && equal(sum, want)
		},
	}, nil
}
