package password

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
)

// The module's own encodings of an imported MD5. A wrapped one,
// $argon2id-md5$v=19$m=…,t=…,p=…$SALT$KEY, is the Argon2id of its 32 lower-case
// hexadecimal digits. A bare one, $md5-bare$DIGITS, still waits to be wrapped.
const (
	wrappedPrefix = "$argon2id-md5$"
	barePrefix    = "$md5-bare$"
)

// The same for every other hash with less work than minWork. A wrapped one,
// $argon2id-of$v=19$m=…,t=…,p=…$SALT$KEY and then the settings of the hash within, is the
// Argon2id of the sum of that. One that waits is $waits$ and the hash.
const (
	withinPrefix  = "$argon2id-of$"
	waitingPrefix = "$waits$"
)

func parseWrapped(encoded string) (stored, error) {
	s, err := parseArgon2("$" + argon2id + "$" + strings.TrimPrefix(encoded, wrappedPrefix))
	if err != nil {
		return s, err
	}
	inner := s.matches
	s.format, s.made = wrappedPrefix+strings.TrimPrefix(s.format, "$"+argon2id+"$"), nil
	s.matches = func(password string) bool { return inner(md5Hex(password)) }
	return s, nil
}

func parseBare(encoded string) (stored, error) {
	digits := strings.TrimPrefix(encoded, barePrefix)
	if again, ok := bareMD5(digits); !ok || again != encoded {
		return stored{}, fmt.Errorf("%w: not an MD5 of 32 lower-case hexadecimal digits", ErrBadHash)
	}
	return stored{format: barePrefix, matches: func(password string) bool { return equal(md5Hex(password), digits) }}, nil
}

// bareMD5 returns the bare form of 32 hexadecimal digits in either case.
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

// splitWithin splits a wrapped hash into an Argon2id and the settings of the hash within.
func splitWithin(encoded string) (outer, settings string) {
	rest := strings.TrimPrefix(encoded, withinPrefix)
	end := 0
	for range 4 { // version, costs, salt, key
		i := strings.IndexByte(rest[end:], '$')
		if i < 0 {
			return "", ""
		}
		end += i + 1
	}
	return "$" + argon2id + "$" + rest[:end-1], rest[end:]
}

func parseWithin(encoded string) (stored, error) {
	outer, settings := splitWithin(encoded)
	s, err := parseArgon2(outer)
	if err != nil {
		return s, err
	}
	inner, ok := ofSettings(settings)
	if !ok {
		return stored{}, fmt.Errorf("%w: not the settings of a hash that is wrapped", ErrBadHash)
	}
	argon2 := s.matches
	s.format, s.made, s.within, s.name = withinFormat(s.format, inner.format), nil, true, inner.name
	s.matches = func(password string) bool { return argon2(inner.sum(password)) }
	return s, nil
}

// withinFormat returns the format of a wrapped hash: that of the Argon2id and that of the hash within.
func withinFormat(outer, inner string) string {
	return withinPrefix + strings.TrimPrefix(outer, "$"+argon2id+"$") + inner
}

// ofSettings returns the weak hash that has the settings and any sum.
func ofSettings(settings string) (stored, bool) {
	s, err := parseUnsummed(settings)
	return s, err == nil && s.sum != nil && s.settings == settings && s.weak()
}

// weak reports whether the hash has less work than is stored as it is.
func (s stored) weak() bool { return s.sum != nil && s.work > 0 && s.work < minWork }

func parseWaiting(encoded string) (stored, error) {
	s, err := parse(strings.TrimPrefix(encoded, waitingPrefix))
	if err != nil || !s.weak() || IsBare(strings.TrimPrefix(encoded, waitingPrefix)) {
		return stored{}, fmt.Errorf("%w: not a hash that is wrapped", ErrBadHash)
	}
	return s, nil
}

// IsBare reports whether a stored hash waits to be wrapped.
func IsBare(encoded string) bool {
	return strings.HasPrefix(encoded, barePrefix) || strings.HasPrefix(encoded, waitingPrefix)
}

// Wrap returns a hash that waits for it wrapped in an Argon2id of the current costs. It is
// background work: requests of users are served first. The error is [ErrBadHash] if
// encoded does not wait.
func (h *Hasher) Wrap(ctx context.Context, encoded string) (wrapped string, err error) {
	s, err := parse(encoded)
	if err != nil || !IsBare(encoded) {
		return "", fmt.Errorf("wrapping a hash: %w: it does not wait for it", ErrBadHash)
	}
	err = h.run(ctx, Source{background: true}, func() {
		if digits, ok := strings.CutPrefix(encoded, barePrefix); ok {
			wrapped = wrappedPrefix + strings.TrimPrefix(newArgon2id(h.params, digits).String(), "$"+argon2id+"$")
			return
		}
		sum := strings.TrimPrefix(strings.TrimPrefix(encoded, waitingPrefix), s.settings)
		wrapped = withinPrefix + strings.TrimPrefix(newArgon2id(h.params, sum).String(), "$"+argon2id+"$") + "$" + s.settings
	})
	if err != nil {
		return "", fmt.Errorf("wrapping a hash: %w", err)
	}
	return wrapped, nil
}

// placeholderCosts are the costs that version 0.1.0 has by default, so that a failed sign-in
// there takes as long as without an account.
var placeholderCosts = Params{MemoryKiB: 19 * 1024, Time: 2, Threads: 1}

// Split returns what is stored of a hash in two columns. Version 0.1.0 knows only the first
// one and reads only Argon2id: for any other format, own is a random Argon2id that no password
// matches, and foreign the hash with a digest of own. Otherwise foreign is "".
func Split(encoded string) (own, foreign string) {
	if strings.HasPrefix(encoded, "$"+argon2id+"$") {
		return encoded, ""
	}
	if _, err := parse(encoded); err != nil {
		return encoded, ""
	}
	own = argon2Hash{function: argon2id, params: placeholderCosts, salt: random(saltBytes), key: random(keyBytes)}.String()
	return own, encoded + " " + placeholderDigest(own)
}

// Join returns the hash that counts of those in the two columns. The foreign one counts only while
// own is the placeholder that it was stored with: an older version may have set another password.
func Join(own, foreign string) string {
	at := strings.LastIndexByte(foreign, ' ')
	if at < 0 || !equal(foreign[at+1:], placeholderDigest(own)) {
		return own
	}
	return foreign[:at]
}

func placeholderDigest(own string) string {
	sum := sha256.Sum256([]byte(own))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
