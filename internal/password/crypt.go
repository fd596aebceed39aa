package password

import (
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-crypt/x/crypt"
)

// maxCryptBytes is how many bytes a password may have for the formats of this file, as in
// libxcrypt and in Drupal. A longer one takes as long as one of this length, and matches nothing.
const maxCryptBytes = 512

// cryptBytes returns the bytes of a password that are hashed, and whether these are all.
func cryptBytes(password string) (part string, all bool) {
	return password[:min(len(password), maxCryptBytes)], len(password) <= maxCryptBytes
}

// upToCryptBytes makes a hash refuse longer passwords.
func (s stored) upToCryptBytes() stored {
	sum := s.sum
	s.sum = func(password string) string {
		part, all := cryptBytes(password)
		text := sum(part)
		if !all {
			return "" // no hash has an empty sum
		}
		return text
	}
	want := s.matches
	s.matches = func(password string) bool {
		part, all := cryptBytes(password)
		return want(part) && all
	}
	return s
}

const (
	maxDrupalCost = 20 // the logarithm of the rounds, of which Drupal 7 has 15; takes about a second
	drupalLength  = 55 // $S$, 1 of the cost, 8 of the salt, 43 of the sum, which is cut off
)

// parseDrupal parses a hash of Drupal 7 to 10: phpass with SHA-512 ($S$). U before it means that
// Drupal 7 has made it of the MD5 that Drupal 6 had.
func parseDrupal(encoded string) (stored, error) {
	plain := strings.TrimPrefix(encoded, "U")
	cost, err := phpassCost(plain, drupalLength, maxDrupalCost)
	if err != nil {
		return stored{}, err
	}
	of := len(encoded) - len(plain)
	s := summed(encoded, of+4, of+phpassHead, 1<<cost, func(password string) string {
		return phpass(sha512.New(), cost, plain[4:phpassHead], password)[:drupalLength-phpassHead]
	})
	if of == 0 {
		return s.upToCryptBytes(), nil
	}
	sum, want := s.sum, encoded[of+phpassHead:]
	s.sum = func(password string) string { return sum(digests["md5"].hex(password)) }
	s.matches = func(password string) bool { return equal(s.sum(password), want) }
	return s, nil
}

// minSHACryptRounds are those of the specification, which allows 999,999,999; most systems use
// 5000, passlib 656,000. The maximum takes two seconds for a password of 512 bytes.
const minSHACryptRounds, maxSHACryptRounds, defaultSHACryptRounds = 1000, 700_000, 5000

var (
	md5CryptForm = regexp.MustCompile(`\A\$1\$([^$:]{0,8})\$([./0-9A-Za-z]{22})?\z`)
	shaCryptForm = regexp.MustCompile(`\A\$([56])\$(?:rounds=([1-9][0-9]{3,6})\$)?([^$:]{0,16})\$([./0-9A-Za-z]+)?\z`)
)

// parseMD5Crypt parses a hash of crypt(3) with MD5, as FreeBSD introduced it.
func parseMD5Crypt(encoded string) (stored, error) {
	parts := md5CryptForm.FindStringSubmatch(encoded)
	if parts == nil {
		return stored{}, fmt.Errorf("%w: not an MD5 crypt", ErrBadHash)
	}
	const rounds = 1000
	s := summed(encoded, len("$1$"), len(encoded)-len(parts[2]), rounds, func(password string) string {
		return string(crypt.KeyMD5Crypt([]byte(password), []byte(parts[1])))
	})
	return s.upToCryptBytes(), nil
}

// parseSHACrypt parses a hash of crypt(3) with SHA-256 ($5$) or SHA-512 ($6$), as glibc
// introduced it.
func parseSHACrypt(encoded string) (stored, error) {
	parts := shaCryptForm.FindStringSubmatch(encoded)
	if parts == nil {
		return stored{}, fmt.Errorf("%w: not a SHA crypt", ErrBadHash)
	}
	rounds := defaultSHACryptRounds
	if parts[2] != "" {
		rounds, _ = strconv.Atoi(parts[2])
	}
	if rounds < minSHACryptRounds || rounds > maxSHACryptRounds {
		return stored{}, fmt.Errorf("%w: rounds are not in %d … %d", ErrBadHash, minSHACryptRounds, maxSHACryptRounds)
	}
	newHash, length := sha256.New, 43
	if parts[1] == "6" {
		newHash, length = sha512.New, 86
	}
	if parts[4] != "" && len(parts[4]) != length {
		return stored{}, fmt.Errorf("%w: the sum is too short or too long", ErrBadHash)
	}
	salt := parts[3]
	settings := len(encoded) - len(parts[4])
	s := summed(encoded, strings.LastIndex(encoded[:settings-1], "$")+1, settings, rounds, func(password string) string {
		return string(crypt.KeySHACrypt(newHash, []byte(password), []byte(salt), rounds))
	})
	return s.upToCryptBytes(), nil
}
