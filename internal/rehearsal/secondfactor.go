package rehearsal

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/shared/personal"
)

// codePeriod is how long a code of an authenticator app is shown.
const codePeriod = 30 * time.Second

// code returns what an authenticator app shows (RFC 6238: SHA-1, 6 digits, 30 s).
func code(secret string, now time.Time) (string, error) {
	key, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(secret)
	if err != nil {
		return "", err
	}
	mac := hmac.New(sha1.New, key)
	_ = binary.Write(mac, binary.BigEndian, now.Unix()/int64(codePeriod/time.Second)) // it never fails
	sum := mac.Sum(nil)
	n := binary.BigEndian.Uint32(sum[sum[len(sum)-1]&0xf:]) & 0x7fffffff
	return fmt.Sprintf("%06d", n%1e6), nil
}

// secondFactor switches a second factor on, signs in with it in each way, and switches it off.
func (r *run) secondFactor(c *check) {
	if !r.offersTwoFactor() {
		c.skip("two_factor.enabled is off, or the host has no secret key")
		return
	}
	u := &r.user
	secret := r.beginTwoFactor(c)
	app := func() string {
		text, err := code(secret, r.Clock.Now())
		c.is(personal.OpBeginTwoFactor, "secret", err == nil)
		return text
	}
	_, err := r.client.ConfirmTwoFactor(r.call(), personal.ConfirmTwoFactorRequest{Credentials: u.pair, Code: "rehearsal"})
	c.refused(personal.OpConfirmTwoFactor, err, personal.CodeValidationFailed, "code", personal.FieldErrorMismatch)
	before := u.pair
	confirmed, err := r.client.ConfirmTwoFactor(r.call(), personal.ConfirmTwoFactorRequest{Credentials: u.pair, Code: app()})
	c.ok(personal.OpConfirmTwoFactor, err)
	u.twoFactor, u.pair = true, confirmed.Credentials
	c.rotated(personal.OpConfirmTwoFactor, before, u.pair)
	c.void(before)
	c.valid(u.pair)

	in := func(code string) (personal.SignedIn, error) {
		return r.client.Authorize(r.call(), personal.AuthorizeRequest{Login: u.login, Password: u.password, Code: code})
	}
	_, err = in("")
	c.refused(personal.OpAuthorize, err, personal.CodeCodeRequired, "", "")
	_, err = in(app()) // which has confirmed the factor
	c.refused(personal.OpAuthorize, err, personal.CodeInvalidCode, "", "")
	r.Clock.move(codePeriod)
	signedIn, err := in(app())
	c.ok(personal.OpAuthorize, err)
	u.pair = signedIn.Credentials
	c.compare(personal.OpAuthorize, signedIn.Profile, *u)
	_, err = in(confirmed.RecoveryCodes[0])
	c.ok(personal.OpAuthorize, err)
	_, err = in(confirmed.RecoveryCodes[0])
	c.refused(personal.OpAuthorize, err, personal.CodeInvalidCode, "", "")

	_, err = r.client.RenewRecoveryCodes(r.call(), personal.RenewRecoveryCodesRequest{Credentials: u.pair, Password: u.password})
	c.refused(personal.OpRenewRecoveryCodes, err, personal.CodeValidationFailed, "code", personal.FieldErrorRequired)
	_, err = r.client.Prove(r.call(), personal.ProveRequest{Credentials: u.pair, Password: u.password})
	c.refused(personal.OpProve, err, personal.CodeValidationFailed, "code", personal.FieldErrorRequired)
	_, err = r.client.Prove(r.call(), personal.ProveRequest{Credentials: u.pair, Password: u.password, Code: confirmed.RecoveryCodes[3]})
	c.ok(personal.OpProve, err)
	renewed, err := r.client.RenewRecoveryCodes(r.call(), personal.RenewRecoveryCodesRequest{
		Credentials: u.pair, Password: u.password, Code: confirmed.RecoveryCodes[1],
	})
	c.ok(personal.OpRenewRecoveryCodes, err)
	end := personal.RemoveOwnTwoFactorRequest{Credentials: u.pair, Password: u.password, Code: confirmed.RecoveryCodes[2]}
	_, err = r.client.RemoveOwnTwoFactor(r.call(), end)
	c.refused(personal.OpRemoveOwnTwoFactor, err, personal.CodeValidationFailed, "code", personal.FieldErrorMismatch)
	end.Code = renewed[0]
	u.pair, err = r.client.RemoveOwnTwoFactor(r.call(), end)
	c.ok(personal.OpRemoveOwnTwoFactor, err)
	u.twoFactor = false
	c.rotated(personal.OpRemoveOwnTwoFactor, end.Credentials, u.pair)
	r.notice(c, personal.OpRemoveOwnTwoFactor, mailtext.TwoFactorOff, u.email)

	secret = r.beginTwoFactor(c)
	_, err = r.client.ConfirmTwoFactor(r.call(), personal.ConfirmTwoFactorRequest{Credentials: u.pair, Code: app()})
	c.ok(personal.OpConfirmTwoFactor, err)
	u.twoFactor = true
	c.ok(personal.OpRemoveTwoFactor, r.client.RemoveTwoFactor(r.administer(), personal.RemoveTwoFactorRequest{UserID: u.id}))
	u.twoFactor = false
	r.signIn(c)
	r.work(c, personal.OpRemoveTwoFactor)
}

func (r *run) beginTwoFactor(c *check) (secret string) {
	started, err := r.client.BeginTwoFactor(r.call(), personal.BeginTwoFactorRequest{Credentials: r.user.pair, Password: r.user.password})
	c.ok(personal.OpBeginTwoFactor, err)
	return started.Secret
}
