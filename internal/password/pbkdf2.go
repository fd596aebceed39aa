package password

import (
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"hash"
	"regexp"
	"strconv"
)

// maxPBKDF2Iterations take about a second. Django 6 has 1,200,000.
const maxPBKDF2Iterations = 4_000_000

var pbkdf2Form = regexp.MustCompile(`\Apbkdf2_(sha256|sha1)\$([1-9][0-9]{0,6})\$([^$]{1,128})\$([A-Za-z0-9+/]+=*)\z`)

// pbkdf2Hash is a PBKDF2 (RFC 8018) as Django writes it:
// pbkdf2_sha256$ITERATIONS$SALT$SUM, the salt as text and the sum in base64.
type pbkdf2Hash struct {
	foreign
	name       string // of the digest
	digest     func() hash.Hash
	iterations int
	salt       string
	sum        []byte
}

func parsePBKDF2(encoded string) (stored, error) {
	parts := pbkdf2Form.FindStringSubmatch(encoded)
	if parts == nil {
		return nil, fmt.Errorf("%w: not a PBKDF2 of Django's", ErrBadHash)
	}
	h := pbkdf2Hash{name: parts[1], digest: sha256.New, salt: parts[3]}
	if parts[1] == "sha1" {
		h.digest = sha1.New
	}
	var err error
	if h.iterations, err = strconv.Atoi(parts[2]); err != nil || h.iterations > maxPBKDF2Iterations {
		return nil, fmt.Errorf("%w: iterations are not in 1 … %d", ErrBadHash, maxPBKDF2Iterations)
	}
	if h.sum, err = base64.StdEncoding.Strict().DecodeString(parts[4]); err != nil || len(h.sum) != h.digest().Size() {
		return nil, fmt.Errorf("%w: the sum is not of the digest's size", ErrBadHash)
	}
	return h, nil
}

func (h pbkdf2Hash) format() string { return fmt.Sprintf("pbkdf2_%s$%d$", h.name, h.iterations) }

func (h pbkdf2Hash) matches(password string) bool {
	sum, err := pbkdf2.Key(h.digest, password, []byte(h.salt), h.iterations, len(h.sum))
	return err == nil && subtle.ConstantTimeCompare(sum, h.sum) == 1
}
