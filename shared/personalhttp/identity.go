package personalhttp

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/cms-personal/personal/shared/personal"
)

// The headers that identify a session.
const (
	headerUserID   = "User-Id"
	headerUserHash = "User-Hash"
)

// maxUserID is the largest integer that every JSON reader keeps exactly.
const maxUserID = 1<<53 - 1

// hashLength is that of 32 bytes in unpadded base64url.
const hashLength = 43

// ParseUserID reads a user id in canonical decimal, 1 … 2^53−1: digits alone,
// no leading zero.
func ParseUserID(s string) (int64, bool) {
	if s == "" || s[0] < '1' || s[0] > '9' { // ParseInt admits signs and leading zeros
		return 0, false
	}
	id, err := strconv.ParseInt(s, 10, 64)
	if err != nil || id > maxUserID {
		return 0, false
	}
	return id, true
}

// FromHeaders is the [Extractor] of the API itself: the pair in User-Id and
// User-Hash, each given once and well formed.
func FromHeaders(r *http.Request) (personal.Credentials, bool) {
	ids, hashes := r.Header.Values(headerUserID), r.Header.Values(headerUserHash)
	if len(ids) != 1 || len(hashes) != 1 {
		return personal.Credentials{}, false
	}
	id, ok := ParseUserID(ids[0])
	c := personal.Credentials{UserID: id, UserHash: hashes[0]}
	if !ok || !wellFormed(c) {
		return personal.Credentials{}, false
	}
	return c, true
}

// wellFormed reports whether the pair could be one: all others are refused
// without troubling the service, or reach it as the zero pair.
func wellFormed(c personal.Credentials) bool {
	return 0 < c.UserID && c.UserID <= maxUserID &&
		len(c.UserHash) == hashLength && strings.IndexFunc(c.UserHash, notBase64URL) < 0
}

func notBase64URL(r rune) bool { return !isAlphanumeric(r) && r != '-' && r != '_' }

func isAlphanumeric(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
}
