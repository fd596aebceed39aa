package password

import (
	"crypto/md5"
	"crypto/subtle"
	"fmt"
	"slices"
	"strings"
)

// The logarithms of the rounds that phpass may ask for. The original allows 30;
// WordPress has 13, and 18 take two seconds for the longest passwords.
const minPhpassCost, maxPhpassCost = 7, 18

const (
	phpassDigits = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	phpassLength = 34 // $P$, the cost, 8 of salt, 22 of the sum
)

// phpassHash is a "portable" hash of phpass: of WordPress before 6.8 and many
// others ($P$), and of phpBB 3 ($H$).
type phpassHash struct {
	foreign
	cost      int
	salt, sum string
	trims     bool // WordPress may have made it, which trims passwords
}

func parsePhpass(encoded string) (stored, error) {
	if len(encoded) != phpassLength || strings.Trim(encoded[3:], phpassDigits) != "" {
		return nil, fmt.Errorf("%w: not a phpass", ErrBadHash)
	}
	cost := strings.IndexByte(phpassDigits, encoded[3])
	if cost < minPhpassCost || cost > maxPhpassCost {
		return nil, fmt.Errorf("%w: cost is not in %d … %d", ErrBadHash, minPhpassCost, maxPhpassCost)
	}
	return phpassHash{cost: cost, salt: encoded[4:12], sum: encoded[12:], trims: encoded[1] == 'P'}, nil
}

func (h phpassHash) format() string {
	identifier := "$H$"
	if h.trims {
		identifier = "$P$"
	}
	return identifier + phpassDigits[h.cost:h.cost+1]
}

// effort counts the MD5 blocks of a round, which hashes a sum and the password.
func (h phpassHash) effort(password string) float64 {
	blocks := func(password string) (n int) {
		for _, tried := range h.tries(password) {
			n += (md5.Size+len(tried)+8)/md5.BlockSize + 1
		}
		return n
	}
	return float64(blocks(password)) / float64(blocks(longest))
}

// tries are what may have been hashed of a password.
func (h phpassHash) tries(password string) []string {
	if trimmed := trimPHP(password); h.trims && trimmed != password {
		return []string{trimmed, password}
	}
	return []string{password}
}

func (h phpassHash) matches(password string) bool {
	return slices.ContainsFunc(h.tries(password), h.equals)
}

func (h phpassHash) equals(password string) bool {
	sum := md5.Sum([]byte(h.salt + password))
	round := append(sum[:], password...)
	for range 1 << h.cost {
		sum = md5.Sum(round)
		copy(round, sum[:])
	}
	return subtle.ConstantTimeCompare([]byte(encodePhpass(sum[:])), []byte(h.sum)) == 1
}

// encodePhpass writes three bytes as four digits, the lowest bits first.
func encodePhpass(data []byte) string {
	var text strings.Builder
	for len(data) > 0 {
		n := min(len(data), 3)
		var bits uint32
		for i, b := range data[:n] {
			bits |= uint32(b) << (8 * i)
		}
		for range n + 1 {
			text.WriteByte(phpassDigits[bits&63])
			bits >>= 6
		}
		data = data[n:]
	}
	return text.String()
}
