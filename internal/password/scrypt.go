package password

import (
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"math/bits"
	"strings"

	"golang.org/x/crypto/scrypt"
)

// What a scrypt may ask for: 128·N·r bytes are its memory, N·r·p its time, of
// which the most take about two seconds.
const (
	maxScryptMemory = 256 << 20
	maxScryptWork   = 1 << 22
)

// scryptHash is a scrypt (RFC 7914) in one of two forms:
// $scrypt$ln=14,r=8,p=1$SALT$SUM (PHC, as passlib and RustCrypto write it; ln is
// the logarithm of N) and scrypt$N$SALT$r$p$SUM (Django, the salt as text).
type scryptHash struct {
	foreign
	n, r, p   int
	salt, sum []byte
}

func parseScryptPHC(encoded string) (stored, error) {
	parts := strings.Split(encoded, "$")
	if len(parts) != 5 {
		return nil, fmt.Errorf("%w: not in the PHC format", ErrBadHash)
	}
	var ln, r, p uint32
	_, err := fmt.Sscanf(parts[2], "ln=%d,r=%d,p=%d", &ln, &r, &p)
	if err != nil || fmt.Sprintf("ln=%d,r=%d,p=%d", ln, r, p) != parts[2] || ln > 30 {
		return nil, fmt.Errorf("%w: costs can't be read", ErrBadHash)
	}
	salt, saltErr := base64.RawStdEncoding.Strict().DecodeString(parts[3])
	sum, sumErr := base64.RawStdEncoding.Strict().DecodeString(parts[4])
	if saltErr != nil || sumErr != nil {
		return nil, fmt.Errorf("%w: not base64", ErrBadHash)
	}
	return newScrypt(1<<ln, r, p, salt, sum)
}

func parseScryptDjango(encoded string) (stored, error) {
	parts := strings.Split(encoded, "$")
	if len(parts) != 6 {
		return nil, fmt.Errorf("%w: not a scrypt of Django's", ErrBadHash)
	}
	var n, r, p uint32
	costs := strings.Join([]string{parts[1], parts[3], parts[4]}, " ")
	_, err := fmt.Sscanf(costs, "%d %d %d", &n, &r, &p)
	if err != nil || fmt.Sprintf("%d %d %d", n, r, p) != costs {
		return nil, fmt.Errorf("%w: costs can't be read", ErrBadHash)
	}
	sum, err := base64.StdEncoding.Strict().DecodeString(parts[5])
	if err != nil {
		return nil, fmt.Errorf("%w: not base64", ErrBadHash)
	}
	return newScrypt(n, r, p, []byte(parts[2]), sum)
}

func newScrypt(n, r, p uint32, salt, sum []byte) (stored, error) {
	switch memory, work := 128*uint64(n)*uint64(r), uint64(n)*uint64(r)*uint64(p); {
	case n < 2 || bits.OnesCount32(n) != 1 || r < 1 || p < 1 || r > 64 || p > 64:
		return nil, fmt.Errorf("%w: no costs of a scrypt", ErrBadHash)
	case memory > maxScryptMemory || work > maxScryptWork:
		return nil, fmt.Errorf("%w: it asks for more than %d MiB or too much time", ErrBadHash, maxScryptMemory>>20)
	case len(salt) < 1 || len(salt) > 2*maxSaltBytes || len(sum) < minKeyBytes || len(sum) > maxKeyBytes:
		return nil, fmt.Errorf("%w: salt or sum is too short or too long", ErrBadHash)
	}
	return scryptHash{n: int(n), r: int(r), p: int(p), salt: salt, sum: sum}, nil
}

func (h scryptHash) format() string {
	return fmt.Sprintf("$scrypt$ln=%d,r=%d,p=%d$", bits.TrailingZeros(uint(h.n)), h.r, h.p)
}

func (h scryptHash) matches(password string) bool {
	sum, err := scrypt.Key([]byte(password), h.salt, h.n, h.r, h.p, len(h.sum))
	return err == nil && subtle.ConstantTimeCompare(sum, h.sum) == 1
}
