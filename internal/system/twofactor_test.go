package system

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/testkit/testdb"
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

// wantTwoFactor checks two_factor in the profile of a user.
func (s *system) wantTwoFactor(t testing.TB, p pair, want bool) {
	t.Helper()
	var got bool
	s.getAs(t, p, "profile/").wantData(t, "user_profile", "email_verified", "two_factor", "has_password").read(t, "two_factor", &got)
	if got != want {
		t.Fatalf("got two_factor %t, want %t", got, want)
	}
}

// wantRecoveryCodes checks the number and the form of recovery codes.
func wantRecoveryCodes(t testing.TB, codes []string) {
	t.Helper()
	distinct := map[string]bool{}
	for _, code := range codes {
		distinct[code] = true
		if !regexp.MustCompile(`^[A-Z2-7]{4}(-[A-Z2-7]{4}){5}$`).MatchString(code) {
			t.Errorf("got recovery code %s, want 24 characters of base32 in groups of four", code)
		}
	}
	if len(distinct) != 10 {
		t.Errorf("got %d distinct recovery codes, want 10", len(distinct))
	}
}

// testTwoFactor uses second factors where attempts are not limited.
func testTwoFactor(t *testing.T, s *system) {
	t.Run("enrolment", func(t *testing.T) { testEnrolment(t, s) })
	t.Run("pending secret counts for nothing", func(t *testing.T) { testPendingSecret(t, s) })
	t.Run("sign-in needs a code", func(t *testing.T) { testSignInWithCode(t, s) })
	t.Run("recovery codes", func(t *testing.T) { testRecoveryCodes(t, s) })
	t.Run("operations need a code", func(t *testing.T) { testOperationsWithCode(t, s) })
	t.Run("removal", func(t *testing.T) { testTwoFactorRemoval(t, s) })
	t.Run("removal by an administrator", func(t *testing.T) { testTwoFactorRemovalForUser(t, s) })
	t.Run("nothing else removes it", func(t *testing.T) { testWaysAround(t, s) })
}

func testEnrolment(t *testing.T, s *system) {
	u := s.newUser(t)
	other := s.signIn(t, u)
	right := params{"password": u.password}
	s.wantTwoFactor(t, u.pair, false)
	s.postAs(t, pair{}, "two_factor/", right).want(t, "unauthenticated")
	s.postAs(t, u.pair, "two_factor/", params{}).want(t, "email_unverified") // 403 before 422
	s.postAs(t, u.pair, "two_factor_confirm/", params{}).want(t, "email_unverified")
	s.verifyEmail(t, u)
	s.postAs(t, u.pair, "two_factor/", params{}).wantFields(t, "validation_failed", fieldErrors{"password": "required"})
	s.postAs(t, u.pair, "two_factor/", params{"password": "wrong wrong"}).wantFields(t, "validation_failed",
		fieldErrors{"password": "mismatch"})

	s.postAs(t, pair{}, "two_factor_confirm/", params{"code": "123456"}).want(t, "unauthenticated")
	s.postAs(t, u.pair, "two_factor_confirm/", params{}).wantFields(t, "validation_failed", fieldErrors{"code": "required"})
	s.postAs(t, u.pair, "two_factor_confirm/", params{"code": "123456"}).want(t, "two_factor_off")
	for _, path := range []string{"two_factor_codes/", "two_factor_remove/"} {
		s.postAs(t, pair{}, path, params{}).want(t, "unauthenticated")
		s.postAs(t, u.pair, path, params{}).wantFields(t, "validation_failed", fieldErrors{"password": "required", "code": "required"})
		s.postAs(t, u.pair, path, params{"password": "wrong wrong", "code": "123456"}).wantFields(t, "validation_failed",
			fieldErrors{"password": "mismatch"})
		s.postAs(t, u.pair, path, params{"password": u.password, "code": "123456"}).want(t, "two_factor_off")
	}

	replaced := s.beginTwoFactor(t, u)
	a := s.beginTwoFactor(t, u)
	uri, err := url.Parse(a.uri)
	if err != nil || uri.Scheme != "otpauth" || uri.Host != "totp" || uri.Path != "/Example site:"+u.login ||
		uri.Query().Get("secret") != a.base32 || uri.Query().Get("issuer") != "Example site" {
		t.Errorf("got URI %s (%v), want one of the issuer, the login and the secret", a.uri, err)
	}
	for name, usual := range map[string]string{"algorithm": "SHA1", "digits": "6", "period": "30"} {
		if got := uri.Query().Get(name); got != "" && got != usual {
			t.Errorf("the URI has %s %s, want %s", name, got, usual)
		}
	}
	if len(a.secret) < 20 || string(a.secret) == string(replaced.secret) {
		t.Errorf("got a secret of %d bytes, want 20 that are new each time", len(a.secret))
	}
	for what, code := range map[string]string{
		"code of a replaced secret": replaced.codeOf(stepNow()), "wrong code": a.wrong(), "form of a recovery code": "AAAA-BBBB-CCCC-DDDD-EEEE-FFFF",
		"letters": "abcdef", "code of three steps later": a.codeOf(stepNow() + 3), "code of two steps ago": a.codeOf(stepNow() - 2),
	} {
		r := s.postAs(t, u.pair, "two_factor_confirm/", params{"code": code})
		if r.Result.Fields["code"].Code != "mismatch" {
			t.Errorf("%s: got %d %s, want the field error mismatch", what, r.Status, r.Raw)
		}
	}
	s.wantAlive(t, "another session before the confirmation", other)
	s.postAs(t, other, "email/", params{"password": u.password, "email": "new-" + u.email}).want(t, "")
	token := s.mailTo(t, mailtext.EmailChange, "new-"+u.email).token(t)

	code := a.codeOf(stepNow())
	former := u.pair
	codes := s.confirmTwoFactor(t, &u, code)
	s.post(t, "email_confirm/", params{"token": token}).want(t, "invalid_token") // requested without a code
	wantRecoveryCodes(t, codes)
	s.wantTwoFactor(t, u.pair, true)
	for what, old := range map[string]pair{"another session": other, "a copied hash": former} {
		s.wantDead(t, what, old)
		s.getAs(t, old, "auth_refresh/").want(t, "unauthenticated")
		s.wantPage(t, old, http.StatusUnauthorized)
	}
	u.pair = s.refresh(t, u.pair)
	s.attempt(t, secured{user: u}, code).want(t, "invalid_code") // the confirmation has used it
	s.postAs(t, u.pair, "two_factor/", params{"password": "wrong wrong"}).wantFields(t, "validation_failed",
		fieldErrors{"password": "mismatch"})
	s.postAs(t, u.pair, "two_factor/", right).want(t, "two_factor_on")
	s.postAs(t, u.pair, "two_factor_confirm/", params{"code": a.codeOf(stepNow() + 1)}).want(t, "two_factor_off")
	eventually(t, "the event is published", func() bool { return s.events(t, "two_factor_on", u.ID) == 1 })
	s.mailTo(t, mailtext.TwoFactorOn, u.email)
}

func testPendingSecret(t *testing.T, s *system) {
	u := s.newUser(t)
	s.verifyEmail(t, u)
	a := s.beginTwoFactor(t, u)
	other := s.signIn(t, u) // without a code
	s.attempt(t, secured{user: u}, a.wrong()).want(t, "")
	s.wantTwoFactor(t, u.pair, false)
	s.postAs(t, u.pair, "export/", params{"password": u.password, "code": a.wrong()}).want(t, "")
	s.postAs(t, other, "two_factor_confirm/", params{"code": a.codeOf(stepNow())}).want(t, "two_factor_off")

	change := params{"old_password": u.password, "password": recovered, "confirm_password": recovered}
	u.pair, u.password = s.postAs(t, u.pair, "password/", change).pair(t), recovered
	s.postAs(t, u.pair, "two_factor_confirm/", params{"code": a.codeOf(stepNow())}).want(t, "two_factor_off")

	a = s.beginTwoFactor(t, u)
	if n := execute(t, s.database, "UPDATE personal_pending_factors SET created = created - 600000000"); n < 1 {
		t.Fatal("no secret is pending")
	}
	s.postAs(t, u.pair, "two_factor_confirm/", params{"code": a.codeOf(stepNow())}).want(t, "two_factor_off") // 10 minutes later
	s.attempt(t, secured{user: u}, "").want(t, "")
}

func testSignInWithCode(t *testing.T, s *system) {
	u := s.newSecured(t)
	s.attempt(t, u, "").want(t, "code_required")
	s.post(t, "auth/", params{"login": u.email, "password": u.password}).want(t, "code_required")
	s.post(t, "auth/", params{"login": u.login, "password": u.password, "code": 123456}).wantFields(t, "validation_failed",
		fieldErrors{"code": "invalid_type"})
	for _, wrong := range []string{
		u.wrong(), "12345", "1234567", "abcdef", "AAAA-BBBB-CCCC-DDDD-EEEE-FFFF", strings.Repeat("A", 1000), "１２３４５６", u.codeOf(stepNow() - 2), u.codeOf(stepNow() + 3),
	} {
		s.attempt(t, u, wrong).want(t, "invalid_code")
	}
	for d := int64(-1); d <= 1; d++ {
		now := stepNow()
		s.code(t, u)
		r := s.attempt(t, u, u.codeOf(now+d))
		if d < 0 && stepNow() > now {
			continue // it was too old when it was judged
		}
		r.wantData(t, "user_id", "user_hash", "user_profile", "email_verified", "two_factor", "has_password", "proof", "proved_until")
		var on bool
		if r.read(t, "two_factor", &on); !on {
			t.Error("auth/: got two_factor false, want true")
		}
	}
	for d := int64(-1); d <= 1; d++ { // that of the next step was used
		s.attempt(t, u, u.codeOf(stepNow()+d-1)).want(t, "invalid_code")
	}

	code := s.code(t, u)
	s.post(t, "auth/", params{"login": u.login, "password": "wrong wrong", "code": code}).want(t, "invalid_credentials")
	s.post(t, "auth/", params{"login": u.login, "password": "wrong wrong"}).want(t, "invalid_credentials")
	disable(t, s.database, u.login)
	s.attempt(t, u, "").want(t, "account_disabled")
	s.attempt(t, u, code).want(t, "account_disabled")
	execute(t, s.database, fmt.Sprintf("UPDATE personal_accounts SET disabled = (1 = 0) WHERE id = %d", u.ID))
	s.attempt(t, u, code).want(t, "") // nothing above has used it
	s.attempt(t, u, code).want(t, "invalid_code")

	got, body := s.submit(t, "/account/sign-in", url.Values{"login": {u.login}, "password": {u.password}}, "")
	for _, cookie := range got.Cookies() {
		if page, _ := s.web(t, http.MethodGet, "/demo/greeting", "", "Cookie",
			cookie.Name+"="+cookie.Value); page.StatusCode != http.StatusUnauthorized {
			t.Errorf("the pages sign the user in without a code: got %d %s", got.StatusCode, body)
		}
	}
	eventually(t, "the event is published", func() bool { return s.events(t, "sign_in_failed", u.ID) > 0 })
}

func testRecoveryCodes(t *testing.T, s *system) {
	u := s.newSecured(t)
	first := u.recoveryCodes
	s.attempt(t, u, first[0]).want(t, "")
	s.attempt(t, u, first[0]).want(t, "invalid_code")
	s.attempt(t, u, " "+strings.ToLower(strings.ReplaceAll(first[1], "-", " "))+" ").want(t, "")
	s.attempt(t, u, strings.ReplaceAll(first[1], "-", "")).want(t, "invalid_code")
	other := s.newSecured(t)
	s.attempt(t, other, first[2]).want(t, "invalid_code")
	eventually(t, "an event for each code is published", func() bool { return s.events(t, "recovery_code_used", u.ID) == 2 })
	s.mailTo(t, mailtext.RecoveryCodeUsed, u.email)

	var renewed []string
	s.postAs(t, u.pair, "two_factor_codes/", params{"password": u.password, "code": s.code(t, u)}).
		wantData(t, "recovery_codes").read(t, "recovery_codes", &renewed)
	wantRecoveryCodes(t, renewed)
	s.attempt(t, u, first[2]).want(t, "invalid_code")
	s.attempt(t, u, renewed[9]).want(t, "")
	s.wantAlive(t, "the session", u.pair)
	eventually(t, "the event is published", func() bool { return s.events(t, "recovery_codes", u.ID) == 1 })
	s.mailTo(t, mailtext.RecoveryCodes, u.email)
}

// testOperationsWithCode calls operations that take a password and a code. What each of
// them does with a code is tested in personaltest.
func testOperationsWithCode(t *testing.T, s *system) {
	t.Run("form of the responses", func(t *testing.T) {
		u := s.newSecured(t)
		change := func(password, code string) *response {
			t.Helper()
			p := params{"old_password": password, "password": recovered, "confirm_password": recovered}
			if code != "" {
				p["code"] = code
			}
			return s.postAs(t, u.pair, "password/", p)
		}
		change(u.password, "").wantFields(t, "validation_failed", fieldErrors{"code": "required"})
		change(u.password, u.wrong()).wantFields(t, "validation_failed", fieldErrors{"code": "mismatch"})
		code := s.code(t, u)
		change("wrong wrong", code).wantFields(t, "validation_failed", fieldErrors{"old_password": "mismatch"})
		change(u.password, code).want(t, "")
		u.password = recovered
		s.attempt(t, u, code).want(t, "invalid_code")
	})
	// Each path passes the code on.
	for _, path := range []string{"email/", "export/", "delete/", "two_factor_codes/", "two_factor_remove/"} {
		t.Run(path, func(t *testing.T) {
			u := s.newSecured(t)
			p := params{"password": u.password, "email": "new-" + u.email}
			if path != "email/" {
				delete(p, "email")
			}
			s.postAs(t, u.pair, path, p).wantFields(t, "validation_failed", fieldErrors{"code": "required"})
			p["code"] = u.recoveryCodes[0]
			s.postAs(t, u.pair, path, p).want(t, "")
		})
	}
	t.Run("export names the factor", func(t *testing.T) {
		u := s.newSecured(t)
		var e struct {
			TwoFactor bool `json:"two_factor"`
		}
		r := s.postAs(t, u.pair, "export/", params{"password": u.password, "code": s.code(t, u)})
		if r.wantData(t, "export").read(t, "export", &e); !e.TwoFactor {
			t.Errorf("got %s, want two_factor true", r.Raw)
		}
		for _, secret := range append(u.recoveryCodes, u.base32) {
			if strings.Contains(string(r.Raw), secret) {
				t.Errorf("the export has a secret of the factor: %s", r.Raw)
			}
		}
	})
}

func testTwoFactorRemoval(t *testing.T, s *system) {
	u := s.newSecured(t)
	other := s.attempt(t, u, s.code(t, u)).pair(t)
	former := u.pair
	u.pair = s.postAs(t, u.pair, "two_factor_remove/", params{"password": u.password, "code": s.code(t, u)}).wantData(t, "user_id",
		"user_hash").pair(t)
	s.wantTwoFactor(t, u.pair, false)
	s.wantDead(t, "a copied hash", former)
	s.wantDead(t, "another session", other)
	s.attempt(t, u, "").want(t, "")
	s.postAs(t, u.pair, "two_factor_remove/", params{"password": u.password, "code": u.recoveryCodes[1]}).want(t, "two_factor_off")
	eventually(t, "the event is published", func() bool { return s.events(t, "two_factor_off", u.ID) == 1 })
	s.mailTo(t, mailtext.TwoFactorOff, u.email)

	void := u
	u.authenticator = s.beginTwoFactor(t, u.user)
	u.recoveryCodes = s.confirmTwoFactor(t, &u.user, u.codeOf(stepNow()))
	s.attempt(t, void, s.code(t, void)).want(t, "invalid_code")
	s.attempt(t, void, void.recoveryCodes[1]).want(t, "invalid_code")
	s.attempt(t, u, s.code(t, u)).want(t, "")
}

// testTwoFactorRemovalForUser removes the factors of users who have lost their phone.
func testTwoFactorRemovalForUser(t *testing.T, s *system) {
	for name, remove := range map[string]func(t *testing.T, u user){
		"by page": func(t *testing.T, u user) {
			s.adminSubmit(t, s.enterAdmin(t), fmt.Sprintf("/admin/users/%d/two-factor", u.ID), nil)
		},
		"at the command line": func(t *testing.T, u user) {
			if out, err := s.command(t, "user", "remove-two-factor", u.login); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			u := s.newSecured(t)
			other := s.attempt(t, u, s.code(t, u)).pair(t)
			for range 2 { // the second time changes nothing
				remove(t, u.user)
			}
			s.wantDead(t, "a session", u.pair)
			s.wantDead(t, "another session", other)
			u.pair = s.attempt(t, u, "").pair(t)
			s.wantTwoFactor(t, u.pair, false)
			eventually(t, "the event is published", func() bool { return s.events(t, "two_factor_off", u.ID) > 0 })
			if notice := s.mailTo(t, mailtext.TwoFactorOff, u.email); strings.Contains(notice.text, u.login) {
				t.Errorf("the notice has text that the user typed:\n%s", notice.text)
			}
			if n := s.events(t, "two_factor_off", u.ID); n != 1 {
				t.Errorf("got %d events, want 1", n)
			}
			s.confirmTwoFactor(t, &u.user, s.beginTwoFactor(t, u.user).codeOf(stepNow()))
		})
	}
}

// testWaysAround tries what changes an account otherwise. After each way, a sign-in needs
// the code of the same app.
func testWaysAround(t *testing.T, s *system) {
	for name, change := range map[string]func(t *testing.T, u *secured){
		"recovery": func(t *testing.T, u *secured) {
			s.post(t, "recover/", params{"login": u.login}).want(t, "")
			s.post(t, "recover_confirm/", confirm(s.mailTo(t, mailtext.Recovery, u.email).token(t), recovered)).want(t, "")
			u.password = recovered
		},
		"e-mail change": func(t *testing.T, u *secured) {
			s.postAs(t, u.pair, "email/", params{"password": u.password, "email": "new-" + u.email, "code": s.code(t, *u)}).want(t, "")
			s.confirmEmail(t, s.mailTo(t, mailtext.EmailChange, "new-"+u.email))
			s.wantTwoFactor(t, u.pair, true)
		},
		"administrator's e-mail change": func(t *testing.T, u *secured) {
			s.adminSubmit(t, s.enterAdmin(t), fmt.Sprintf("/admin/users/%d/email", u.ID), url.Values{"email": {"new-" + u.email}})
			s.confirmEmail(t, s.mailTo(t, mailtext.Verification, "new-"+u.email))
		},
		"deletion and its undoing": func(t *testing.T, u *secured) {
			s.postAs(t, u.pair, "delete/", params{"password": u.password, "code": s.code(t, *u)}).wantData(t, "erase_at")
			s.post(t, "delete_undo/", params{"token": s.mailTo(t, mailtext.Deletion, u.email).token(t)}).wantData(t)
		},
		"disabling and enabling": func(t *testing.T, u *secured) {
			admin := s.enterAdmin(t)
			for _, action := range []string{"disable", "enable"} {
				s.adminSubmit(t, admin, fmt.Sprintf("/admin/users/%d/%s", u.ID, action), nil)
			}
		},
		"registration of the same login": func(t *testing.T, u *secured) {
			s.post(t, "register/", applicant(params{"login": strings.ToUpper(u.login)})).wantFields(t, "already_exists",
				fieldErrors{"login": "taken"})
		},
		"import of the same login": func(t *testing.T, u *secured) {
			file := filepath.Join(t.TempDir(), "users.csv")
			row := "login,email,password_hash\n" + u.login + "," + u.email + ",$argon2id$v=19$m=1024,t=1,p=1$c29tZXNhbHRzb21lc2FsdA$/Zc1Lt0RmVEmIQyl5EbSKPBRu2N2dJ9vX5wSnKOcgXs\n"
			if err := os.WriteFile(file, []byte(row), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := s.command(t, "import", file); !strings.Contains(out, "0 accounts imported") {
				t.Fatalf("got %s (%v), want no account imported", out, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			u := s.newSecured(t)
			change(t, &u)
			s.attempt(t, u, "").want(t, "code_required")
			s.attempt(t, u, u.wrong()).want(t, "invalid_code")
			s.wantTwoFactor(t, s.attempt(t, u, s.code(t, u)).pair(t), true)
			s.attempt(t, u, u.recoveryCodes[0]).want(t, "")
		})
	}
}

// testGuessedCodes guesses codes with the correct password, where attempts are limited. The
// limit over all operations and addresses is tested in internal/accounts.
func testGuessedCodes(t *testing.T, s *system) {
	u := s.newSecured(t)
	signIn := func(address, code string) *response {
		t.Helper()
		return s.do(t, call{path: "auth/", header: from(address), params: params{"login": u.login, "password": u.password, "code": code}})
	}
	const home = "192.0.2.40"
	signIn(home, s.code(t, u)).want(t, "") // makes it a known address
	judged := 0
	for i := range 24 {
		address := "192.0.2.41"
		if i%2 == 1 {
			address = fmt.Sprintf("198.51.100.%d", i)
		}
		switch r := signIn(address, u.wrong()); r.Result.Code {
		case "invalid_code":
			judged++
		case "too_many_attempts":
		default:
			t.Fatalf("got %d %s for a guessed code", r.Status, r.Raw)
		}
	}
	if judged != 10 {
		t.Errorf("%d of 24 guessed codes were judged, want 10", judged)
	}
	signIn("198.51.100.200", s.code(t, u)).want(t, "too_many_attempts")
	if samples, _ := s.scrape(t); measured(samples, "personal_plugin_rejected_attempts_total", "limit", "code") == 0 {
		t.Error("no rejected code is counted in the metrics")
	}
	for _, path := range []string{"export/", "delete/", "two_factor_codes/", "two_factor_remove/"} {
		s.do(t, call{path: path, as: u.pair, header: from("192.0.2.41"), params: params{"password": u.password, "code": s.code(t, u)}}).want(t,
			"too_many_attempts")
	}
	for range 12 { // each is refunded
		signIn(home, s.code(t, u)).want(t, "")
	}
	execute(t, s.database, "UPDATE personal_refused_codes SET blocks = TRUE") // as the hundredth does
	signIn("198.51.100.200", s.code(t, u)).want(t, "codes_blocked")
	signIn(home, s.code(t, u)).want(t, "")
}

// inParallel makes n calls, in turn to each host, and returns the responses by CODE.
func inParallel(t *testing.T, n int, hosts []*system, c func(i int) call) map[string][]*response {
	t.Helper()
	responses, errs := make([]*response, n), make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { responses[i], errs[i] = hosts[i%len(hosts)].exchange(c(i)) })
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	got := map[string][]*response{}
	for _, r := range responses {
		got[r.Result.Code] = append(got[r.Result.Code], r)
	}
	return got
}

// testCodeWorksOnce presents a code in parallel to hosts with one database.
func testCodeWorksOnce(t *testing.T, hosts ...*system) {
	const n = 32
	u := hosts[0].newSecured(t)
	signIn := func(code string) call {
		return call{path: "auth/", params: params{"login": u.login, "password": u.password, "code": code}}
	}
	for name, code := range map[string]string{"code of the app": hosts[0].code(t, u), "recovery code": u.recoveryCodes[0]} {
		got := inParallel(t, n, hosts, func(int) call { return signIn(code) })
		if len(got[""]) != 1 || len(got["invalid_code"]) != n-1 {
			t.Errorf("%s: got %d successes and %d times invalid_code, want one success", name, len(got[""]), len(got["invalid_code"]))
		}
	}
	code := hosts[0].code(t, u)
	got := inParallel(t, n, hosts, func(i int) call {
		if i/len(hosts)%2 == 0 {
			return signIn(code)
		}
		return call{path: "export/", as: u.pair, params: params{"password": u.password, "code": code}}
	})
	if len(got[""]) != 1 || len(got["invalid_code"])+len(got["validation_failed"]) != n-1 {
		t.Errorf("two operations: got %d successes, %d times invalid_code and %d times validation_failed, want one success",
			len(got[""]), len(got["invalid_code"]), len(got["validation_failed"]))
	}
}

// testParallelConfirmation confirms a second factor several times at once, which has one result, while
// others sign in without a code.
func testParallelConfirmation(t *testing.T, hosts ...*system) {
	s := hosts[0]
	u := secured{user: s.newUser(t)}
	s.verifyEmail(t, u.user)
	u.authenticator = s.beginTwoFactor(t, u.user)
	code := u.codeOf(stepNow())
	got := inParallel(t, 32, hosts, func(i int) call {
		if i/len(hosts)%4 == 0 {
			return call{path: "two_factor_confirm/", as: u.pair, params: params{"code": code}}
		}
		return call{path: "auth/", params: params{"login": u.login, "password": u.password}}
	})
	var confirmed []*response
	for _, r := range got[""] {
		if r.Data["recovery_codes"] != nil {
			confirmed = append(confirmed, r)
			continue
		}
		s.wantDead(t, "a session that began without a code", r.pair(t))
	}
	if len(confirmed) == 0 {
		t.Fatal("got no confirmation")
	}
	for _, r := range confirmed { // the same request: the same response
		if diff := cmp.Diff(confirmed[0].Data, r.Data); diff != "" {
			t.Errorf("another confirmation (-one +other):\n%s", diff)
		}
	}
	confirmed[0].read(t, "recovery_codes", &u.recoveryCodes)
	u.pair = confirmed[0].pair(t)
	for code := range got {
		if !slices.Contains([]string{"", "code_required", "two_factor_off", "invalid_credentials", "unauthenticated"}, code) {
			t.Errorf("got a response with CODE %s", code)
		}
	}
	s.wantTwoFactor(t, u.pair, true)
	s.attempt(t, u, "").want(t, "code_required")
	s.attempt(t, u, u.recoveryCodes[0]).want(t, "")
}

// TestTwoFactor_KeyOrSettingIsMissing starts hosts on a database with a second factor,
// without its key and without the setting. A sign-in needs a code at both.
func TestTwoFactor_KeyOrSettingIsMissing(t *testing.T) {
	t.Parallel()
	o := options{database: testdb.SQLite(t), settings: cheap + unthrottled + twoFactor, data: filepath.Join(t.TempDir(), "data")}
	s := start(t, o)
	u := s.newSecured(t)
	s.stop(t)
	wantOff := func(t *testing.T, s *system, p pair) {
		t.Helper()
		for _, path := range []string{"two_factor/", "two_factor_confirm/", "two_factor_codes/", "two_factor_remove/"} {
			s.postAs(t, p, path, params{"password": u.password, "code": u.recoveryCodes[9]}).want(t, "not_found")
		}
		s.wantTwoFactor(t, p, true)
		s.attempt(t, u, "").want(t, "code_required")
	}

	keyless := o
	keyless.flags = []string{"--no-secret-key"}
	s = start(t, keyless)
	wantOff(t, s, u.pair)
	for _, code := range []string{s.code(t, u), u.wrong()} {
		s.attempt(t, u, code).want(t, "unavailable")
	}
	s.postAs(t, u.pair, "delete/", params{"password": u.password, "code": s.code(t, u)}).want(t, "unavailable")
	s.attempt(t, u, u.recoveryCodes[0]).want(t, "")
	s.attempt(t, u, u.recoveryCodes[0]).want(t, "invalid_code")
	s.stop(t)

	o.settings = cheap + unthrottled
	s = start(t, o)
	wantOff(t, s, u.pair)
	s.attempt(t, u, u.wrong()).want(t, "invalid_code")
	s.attempt(t, u, s.code(t, u)).want(t, "")
	s.stop(t)
}
