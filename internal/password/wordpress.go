package password

import (
	"crypto/hmac"
	"crypto/sha512"
	"encoding/base64"
	"strings"
)

// wordPressHash is a hash of WordPress 6.8 or newer, "$wp" before a bcrypt: of
// the base64 of an HMAC-SHA-384 of the trimmed password, so that passwords longer
// than 72 bytes count in full.
type wordPressHash struct{ bcryptHash }

func parseWordPress(encoded string) (stored, error) {
	inner, err := readBcrypt(strings.TrimPrefix(encoded, "$wp"))
	if err != nil {
		return nil, err
	}
	return wordPressHash{inner}, nil
}

func (h wordPressHash) format() string { return "$wp" + h.bcryptHash.format() }

func (h wordPressHash) matches(password string) bool {
	mac := hmac.New(sha512.New384, []byte("wp-sha384"))
	mac.Write([]byte(trimPHP(password)))
	return h.bcryptHash.matches(base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}

// trimPHP is PHP's trim, by which WordPress shortens every password.
func trimPHP(s string) string { return strings.Trim(s, " \n\r\t\v\x00") }
