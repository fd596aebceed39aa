package token

import "crypto/sha256"

// NewMailToken makes a token to be mailed: 32 random bytes as unpadded base64url,
// a secret that is never stored, and its digest, which is.
func NewMailToken() (text string, digest [32]byte) {
	var b [size]byte
	fill(b[:])
	return encoding.EncodeToString(b[:]), sha256.Sum256(b[:])
}

// MailDigest returns the digest of a token that was entered, or false if it can't
// be one: not exactly 43 characters of canonical base64url.
func MailDigest(text string) (digest [32]byte, ok bool) {
	b, ok := decode(text)
	if !ok {
		return digest, false
	}
	return sha256.Sum256(b[:]), true
}
