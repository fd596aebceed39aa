package password

import (
	"context"
	"crypto/md5"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"strings"
)

// Our own encodings of an MD5: $argon2id-md5$v=19$m=…,t=…,p=…$SALT$KEY is the
// Argon2id of its 32 lower hexadecimal digits, and $md5-bare$DIGITS the MD5 as it
// came, which is to be wrapped in that way as soon as can be.
const (
	wrappedPrefix = "$argon2id-md5$"
	barePrefix    = "$md5-bare$"
)

// wrapped is an MD5 within an Argon2id.
type wrapped struct{ argon2Hash }

func parseWrapped(encoded string) (stored, error) {
	inner, err := parseArgon2("$" + argon2id + "$" + strings.TrimPrefix(encoded, wrappedPrefix))
	if err != nil {
		return nil, err
	}
	return wrapped{inner.(argon2Hash)}, nil
}

func (h wrapped) matches(password string) bool { return h.argon2Hash.matches(md5Hex(password)) }
func (h wrapped) outdated(Params) bool         { return true }

func (h wrapped) format() string {
	return wrappedPrefix + strings.TrimPrefix(h.argon2Hash.format(), "$"+argon2id+"$")
}

// bare is an MD5 that has not been wrapped yet.
type bare struct {
	foreign
	digits string
}

func parseBare(encoded string) (stored, error) {
	digits := strings.TrimPrefix(encoded, barePrefix)
	if again, ok := bareMD5(digits); !ok || again != encoded {
		return nil, fmt.Errorf("%w: not an MD5 of 32 lower hexadecimal digits", ErrBadHash)
	}
	return bare{digits: digits}, nil
}

func (h bare) matches(password string) bool {
	return subtle.ConstantTimeCompare([]byte(md5Hex(password)), []byte(h.digits)) == 1
}

func (h bare) format() string { return barePrefix }

// bareMD5 returns the stored form of 32 hexadecimal digits in either case.
func bareMD5(digits string) (encoded string, ok bool) {
	if len(digits) != hex.EncodedLen(md5.Size) {
		return "", false
	}
	sum, err := hex.DecodeString(digits)
	return barePrefix + hex.EncodeToString(sum), err == nil
}

func md5Hex(password string) string {
	sum := md5.Sum([]byte(password))
	return hex.EncodeToString(sum[:])
}

// IsBare reports whether a stored hash is an MD5 that has not been wrapped yet.
func IsBare(encoded string) bool { return strings.HasPrefix(encoded, barePrefix) }

// Wrap returns a bare MD5 within an Argon2id of the current costs. It is
// background work: users are served first. The error is [ErrBadHash] if encoded is
// no bare MD5.
func (h *Hasher) Wrap(ctx context.Context, encoded string) (string, error) {
	s, err := parse(encoded)
	b, ok := s.(bare)
	if err != nil || !ok {
		return "", fmt.Errorf("wrapping a hash: %w: not a bare MD5", ErrBadHash)
	}
	var inner string
	err = h.queue.run(ctx, Source{background: true}, func() { inner = newArgon2id(h.params, b.digits).String() })
	if err != nil {
		return "", fmt.Errorf("wrapping a hash: %w", err)
	}
	return wrappedPrefix + strings.TrimPrefix(inner, "$"+argon2id+"$"), nil
}
