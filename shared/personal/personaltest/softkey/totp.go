package softkey

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"time"
)

// CodePeriod is how long an authenticator app shows a code.
const CodePeriod = 30 * time.Second

// Code returns the code that an authenticator app shows at a time for the secret of
// personal.TwoFactorSecret (RFC 6238 with SHA-1 and 6 digits). It panics if the secret
// is not base32 without padding.
func Code(secret string, at time.Time) string {
	key, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(secret)
	if err != nil {
		panic("softkey: the secret is not base32 without padding")
	}
	mac := hmac.New(sha1.New, key)
	mac.Write(binary.BigEndian.AppendUint64(nil, uint64(at.Unix()/int64(CodePeriod/time.Second))))
	sum := mac.Sum(nil)
	number := binary.BigEndian.Uint32(sum[sum[len(sum)-1]&0xf:]) & 0x7fffffff // RFC 4226, section 5.3
	return fmt.Sprintf("%06d", number%1_000_000)
}
