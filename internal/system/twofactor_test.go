package system

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"
)

// twoFactor are settings under which users can switch a second factor on.
const twoFactor = "[two_factor]\nenabled = true\nissuer = \"Example site\"\n"

// authenticator is the app that has the secret of a second factor.
type authenticator struct {
	base32, uri string
	secret      []byte
}

// codeOf returns the code of a time step (RFC 6238: SHA-1, 6 digits).
func (a authenticator) codeOf(step int64) string {
	mac := hmac.New(sha1.New, a.secret)
	_ = binary.Write(mac, binary.BigEndian, step) // a hash never fails
	sum := mac.Sum(nil)
	at := sum[len(sum)-1] & 0xf
	return fmt.Sprintf("%06d", binary.BigEndian.Uint32(sum[at:])&0x7fffffff%1_000_000)
}

// stepNow returns the time step. It may be over when a code of it is judged, which the
// plugin tolerates.
func stepNow() int64 { return time.Now().Unix() / 30 }

// wrong returns a code of no step that is near.
func (a authenticator) wrong() string {
	var near []string
	for d := int64(-3); d <= 5; d++ {
		near = append(near, a.codeOf(stepNow()+d))
	}
	for i := 314159; ; i++ {
		if code := fmt.Sprintf("%06d", i); !slices.Contains(near, code) {
			return code
		}
	}
}

// secured is a user with a second factor.
type secured struct {
	user
	authenticator
	recoveryCodes []string
}

// newSecured registers a user and switches a second factor on.
func (s *system) newSecured(t testing.TB) secured {
	t.Helper()
	u := secured{user: s.newUser(t)}
	s.verifyEmail(t, u.user)
	u.authenticator = s.beginTwoFactor(t, u.user)
	u.recoveryCodes = s.confirmTwoFactor(t, &u.user, u.codeOf(stepNow()))
	return u
}

// verifyEmail makes the e-mail of a user count as confirmed.
func (s *system) verifyEmail(t testing.TB, u user) {
	t.Helper()
	execute(t, s.database, fmt.Sprintf("UPDATE personal_accounts SET email_verified = TRUE WHERE id = %d", u.ID))
}

func (s *system) beginTwoFactor(t testing.TB, u user) authenticator {
	t.Helper()
	return newAuthenticator(t, s.postAs(t, u.pair, "two_factor/", params{"password": u.password}))
}

// newAuthenticator reads the response of two_factor/.
func newAuthenticator(t testing.TB, r *response) (a authenticator) {
	t.Helper()
	r.wantData(t, "secret", "uri").read(t, "secret", &a.base32)
	r.read(t, "uri", &a.uri)
	var err error
	if a.secret, err = base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(a.base32); err != nil {
		t.Fatal(err)
	}
	return a
}

// confirmTwoFactor switches the second factor of a user on, whose session gets a new pair.
func (s *system) confirmTwoFactor(t testing.TB, u *user, code string) (recoveryCodes []string) {
	t.Helper()
	r := s.postAs(t, u.pair, "two_factor_confirm/", params{"code": code}).wantData(t, "user_id", "user_hash", "recovery_codes")
	r.read(t, "recovery_codes", &recoveryCodes)
	u.pair = r.pair(t)
	return recoveryCodes
}

// code returns a code that is valid now, also if a code of this step was used.
func (s *system) code(t testing.TB, u secured) string {
	t.Helper()
	execute(t, s.database, fmt.Sprintf("UPDATE personal_accounts SET two_factor_step = 0 WHERE id = %d", u.ID))
	return u.codeOf(stepNow())
}

// attempt signs in with a password and a code; "" sends none.
func (s *system) attempt(t testing.TB, u secured, code string) *response {
	t.Helper()
	p := params{"login": u.login, "password": u.password}
	if code != "" {
		p["code"] = code
	}
	return s.post(t, "auth/", p)
}
