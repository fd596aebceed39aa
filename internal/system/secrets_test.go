package system

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personalhost/secretkeys"
)

// secrets are texts that must not be seen, by what they are.
type secrets map[string]string

func (s secrets) add(what, text string) string {
	s[what] = text
	return text
}

var sixDigits = regexp.MustCompile(`^[0-9]{6}$`)

// shows reports whether a text contains a secret. A code of six digits counts if it is not
// part of something longer: a time, a duration, an id.
func shows(text, secret string) bool {
	if !sixDigits.MatchString(secret) {
		return strings.Contains(text, secret)
	}
	isPart := func(r rune) bool {
		return unicode.IsDigit(r) || unicode.IsLetter(r) || strings.ContainsRune(".:+/_-", r)
	}
	for {
		before, after, found := strings.Cut(text, secret)
		if !found {
			return false
		}
		last, _ := utf8.DecodeLastRuneInString(before)
		first, _ := utf8.DecodeRuneInString(after)
		if !isPart(last) && !isPart(first) {
			return true
		}
		text = after
	}
}

// wantNone expects none of the secrets in a text.
func (s secrets) wantNone(t testing.TB, where, text string) {
	t.Helper()
	for what, secret := range s {
		if !shows(text, secret) {
			continue
		}
		for line := range strings.Lines(text) {
			if shows(line, secret) {
				t.Errorf("%s shows %s: %s", where, what, strings.ToValidUTF8(strings.ReplaceAll(line, secret, "SECRET"), "?"))
				break
			}
		}
	}
}

// TestSecretsStaySecret uses every operation with recognisable secrets, with the log
// at debug level, and searches for them where they must not be.
func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	testdb.Databases(t, func(t *testing.T, database string) {
		hidden := secrets{}
		database = withPassword(t, database, hidden)
		s := start(t, options{database: database, settings: cheap + links + twoFactor, flags: []string{"--log-level", "debug"}})
		s.putSchema(t, schema)
		hidden.add("the admin's token", s.adminToken(t))
		s.secretive(t, hidden)
		ofFactors := s.secretiveTwoFactor(t)
		s.wantNotStored(t, ofFactors)
		_, metrics := s.web(t, http.MethodGet, "/metrics", "")
		ofFactors.wantNone(t, "the metrics", regexp.MustCompile(`(?m) \S+$`).ReplaceAllString(metrics, "")) // without values
		maps.Copy(hidden, ofFactors)
		keys, err := secretkeys.ReadFile(filepath.Join(s.data, "secret.key"))
		if err != nil {
			t.Fatal(err)
		}
		hidden.add("the secret key", base64.StdEncoding.EncodeToString(keys[0]))
		hidden.add("the secret key in hexadecimal", hex.EncodeToString(keys[0]))

		pid := s.plugin(t).Active.PID
		for name, process := range map[string]int{"the host": s.process.Pid, "the plugin": pid} {
			hidden.wantNone(t, "the command line of "+name, readProc(t, process, "cmdline"))
			if limits := readProc(t, process, "limits"); !noCoreDumps.MatchString(limits) {
				t.Errorf("%s may write core dumps, want a limit of 0:\n%s", name, limits)
			}
		}
		hidden.wantNone(t, "the environment of the plugin", readProc(t, pid, "environ"))
		hidden.wantNone(t, "the page of events", s.adminPage(t, s.enterAdmin(t), "/admin/events"))

		s.stop(t)
		if len(s.log.linesWith("level=DEBUG")) == 0 {
			t.Error("the log is not talkative")
		}
		hidden.wantNone(t, "the log", s.log.String())
	})
}

var noCoreDumps = regexp.MustCompile(`(?m)^Max core file size +0 +0 `)

// testRequestIDs follows request ids into the logs of host and plugin.
func testRequestIDs(t *testing.T, s *system) {
	ofPlugin := "plugin.pid=" + strconv.Itoa(s.plugin(t).Active.PID)
	for id, p := range map[string]params{"a-refused-call": {}, "a-successful-call": applicant(nil)} {
		s.do(t, call{path: "register/", params: p, header: http.Header{"X-Request-Id": {id}}})
		eventually(t, "lines of host and plugin on "+id, func() bool {
			lines := s.log.linesWith(id)
			return slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, ofPlugin) }) &&
				slices.ContainsFunc(lines, func(line string) bool { return !strings.Contains(line, ofPlugin) })
		})
	}
}

// TestLog_MatchesExpressionForFail2ban applies the expression of docs/observing.md.
func TestLog_MatchesExpressionForFail2ban(t *testing.T) {
	t.Parallel()
	s := start(t, options{database: testdb.SQLite(t), settings: cheap + "[throttle.guess]\nburst = 2\n"})
	for range 3 {
		s.post(t, "auth/", params{"login": "nobody", "password": "wrong wrong"})
	}
	_, shown, _ := strings.Cut(readFile(t, "../../docs/observing.md"), "For fail2ban")
	_, shown, _ = strings.Cut(shown, "`")
	shown, _, _ = strings.Cut(shown, "`")
	lines := regexp.MustCompile(strings.ReplaceAll(shown, "<HOST>", `127\.0\.0\.1 `))
	eventually(t, "two failures and an attempt too many", func() bool { return len(lines.FindAllString(s.log.String(), -1)) == 3 })
}

// withPassword gives a PostgreSQL URL a password, which the test server does not
// ask for, unless it has one.
func withPassword(t testing.TB, database string, hidden secrets) string {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal("the database URL cannot be read")
	}
	if u.Scheme == "sqlite" {
		return database
	}
	password, given := u.User.Password()
	if !given {
		password = "SecretDatabase1"
		u.User = url.UserPassword(u.User.Username(), password)
	}
	hidden.add("the database's password", password)
	return u.String()
}

// secretive uses every operation that takes or returns a secret, with correct
// and with wrong values.
func (s *system) secretive(t testing.TB, hidden secrets) {
	n := 0
	secret := func(what string) string {
		n++
		return hidden.add(what, fmt.Sprintf("SecretSesame%dOpens", n))
	}
	note := func(what string, p pair) pair {
		hidden.add(what, p.Hash)
		return p
	}
	first := secret("the first password")
	email := unique() + "@mail.example" // the login is shown on the page of events
	hidden.add("an address", email)
	p := applicant(params{"password": first, "confirm_password": first, "email": email})
	login := p["login"].(string)
	session := note("a hash from registration", s.post(t, "register/", p).pair(t))
	second := note("a hash from sign-in", s.post(t, "auth/", params{"login": login, "password": first}).pair(t))
	session = note("a refreshed hash", s.refresh(t, session))
	s.post(t, "email_resend/", params{"email": email}).want(t, "")
	s.post(t, "email_confirm/", params{"token": hidden.add("the token of a registration",
		s.mailTo(t, mailtext.Verification, email).token(t))}).want(t, "")
	s.postAs(t, session, "export/", params{"password": secret("a wrong password of an export")}).want(t, "validation_failed")
	s.postAs(t, session, "export/", params{"password": first}).want(t, "")

	s.post(t, "auth/", params{"login": login, "password": secret("a wrong password")}).want(t, "invalid_credentials")
	s.do(t, call{path: "auth/?password=" + secret("a password in a query"), params: params{"login": login}})
	s.do(t, call{path: "auth/", header: http.Header{"Content-Type": {jsonType}},
		body: strings.NewReader("password=" + secret("a password in no JSON"))}).want(t, "malformed_request")
	s.do(t, call{path: "auth/", header: http.Header{"Content-Type": {formType}},
		body: strings.NewReader("password=%ff" + secret("a password in no form"))}).want(t, "malformed_request")
	s.do(t, call{path: "auth/", header: http.Header{"Content-Type": {"text/plain"}}, body: strings.NewReader(secret("a password as text"))})
	s.do(t, call{path: secret("a password as path") + "/"}).want(t, "not_found")
	weak := params{"password": secret("a refused password"), "confirm_password": secret("its confirmation")}
	s.post(t, "register/", applicant(weak)).want(t, "validation_failed")
	s.post(t, "register/", applicant(params{secret("a password as name"): "x"})).want(t, "validation_failed")
	s.getAs(t, note("a made-up hash", pair{session.ID, flip(session.Hash, 3)}), "profile/").want(t, "unauthenticated")
	s.do(t, call{method: http.MethodGet, path: "profile/", header: http.Header{"User-Id": {secret("a password as id")},
		"User-Hash": {"x"}}}).want(t, "unauthenticated")

	next := secret("the second password")
	s.postAs(t, session, "password/", params{"old_password": secret("a wrong old password"), "password": next,
		"confirm_password": next}).want(t, "validation_failed")
	session = note("a hash from a password change", s.postAs(t, session, "password/",
		params{"old_password": first, "password": next, "confirm_password": next}).pair(t))
	s.getAs(t, second, "auth_refresh/").want(t, "unauthenticated")

	s.postAs(t, session, "email/", params{"password": next, "email": "new-" + email}).want(t, "")
	confirmEmail := hidden.add("the token for a new address", s.mailTo(t, mailtext.EmailChange, "new-"+email).token(t))
	s.post(t, "email_confirm/", params{"token": confirmEmail}).want(t, "")
	s.post(t, "recover/", params{"login": login}).want(t, "")
	last := secret("the last password")
	recovery := hidden.add("the token of a recovery", s.mailTo(t, mailtext.Recovery, "new-"+email).token(t))
	s.post(t, "recover_confirm/", confirm(recovery, last)).want(t, "")
	s.post(t, "recover_confirm/", confirm(secret("a made-up token"), last)).want(t, "invalid_token")
	session = note("a hash after recovery", s.post(t, "auth/", params{"login": login, "password": last}).pair(t))

	s.postAs(t, session, "delete/", params{"password": secret("a wrong password of a deletion")}).want(t, "validation_failed")
	s.postAs(t, session, "delete/", params{"password": last}).want(t, "")
	s.post(t, "delete_undo/", params{"token": secret("a made-up token of a deletion")}).want(t, "invalid_token")
	s.post(t, "delete_undo/", params{"token": hidden.add("the token of a deletion",
		s.mailTo(t, mailtext.Deletion, "new-"+email).token(t))}).want(t, "")
}

// secretiveTwoFactor uses every operation of second factors, with correct and with wrong
// codes, and returns the secrets, their raw and encoded forms, and the codes.
func (s *system) secretiveTwoFactor(t testing.TB) secrets {
	hidden := secrets{}
	n := 0
	add := func(what, text string) string {
		n++
		return hidden.add(fmt.Sprintf("%s (%d)", what, n), text)
	}
	addSecret := func(a authenticator) {
		add("a secret", a.base32)
		add("a secret in lower case", strings.ToLower(a.base32))
		add("a raw secret", string(a.secret))
		add("a secret in hexadecimal", hex.EncodeToString(a.secret))
		add("a secret in base64", base64.RawStdEncoding.EncodeToString(a.secret))
		add("a secret in URL-safe base64", base64.RawURLEncoding.EncodeToString(a.secret))
		add("a URI", a.uri)
	}
	addRecoveryCodes := func(codes []string) {
		for _, code := range codes {
			add("a recovery code", code)
			plain := strings.ReplaceAll(code, "-", "")
			add("a recovery code without hyphens", plain)
			add("a recovery code in lower case", strings.ToLower(plain))
			raw, err := base32.StdEncoding.DecodeString(plain)
			if err != nil {
				t.Fatal(err)
			}
			add("a raw recovery code", string(raw))
		}
	}
	u := secured{user: s.newUser(t)}
	code := func() string { return add("a code", s.code(t, u)) }
	wrong := func() string { return add("a wrong code", u.wrong()) }
	s.verifyEmail(t, u.user)
	replaced := s.beginTwoFactor(t, u.user)
	addSecret(replaced)
	u.authenticator = s.beginTwoFactor(t, u.user)
	addSecret(u.authenticator)
	s.postAs(t, u.pair, "two_factor_confirm/", params{"code": wrong()}).want(t, "validation_failed")
	u.recoveryCodes = s.confirmTwoFactor(t, &u.user, code())
	addRecoveryCodes(u.recoveryCodes)
	add("a hash of a new second factor", u.pair.Hash)
	s.attempt(t, u, wrong()).want(t, "invalid_code")
	s.attempt(t, u, code()).want(t, "")
	s.attempt(t, u, u.recoveryCodes[0]).want(t, "")
	s.attempt(t, u, add("a code with a letter", "S3CR3T")).want(t, "invalid_code")
	s.do(t, call{path: "auth/?code=" + code(), params: params{"login": u.login, "password": u.password}}).want(t, "code_required")
	for _, path := range []string{"export/", "delete/", "two_factor_codes/", "two_factor_remove/"} {
		s.postAs(t, u.pair, path, params{"password": u.password, "code": add("a malformed code", "SECRETCODEOF"+path)}).want(t,
			"validation_failed")
	}
	s.postAs(t, u.pair, "export/", params{"password": u.password, "code": code()}).want(t, "")
	var proof string
	s.postAs(t, u.pair, "prove/", params{"password": u.password, "code": code()}).want(t, "").read(t, "proof", &proof)
	s.postAs(t, u.pair, "export/", params{"proof": add("a proof", proof)}).want(t, "")
	s.postAs(t, u.pair, "export/", params{"proof": add("a malformed proof", "SECRETPROOF")}).want(t, "validation_failed")
	var renewed []string
	s.postAs(t, u.pair, "two_factor_codes/", params{"password": u.password, "code": code()}).want(t, "").read(t, "recovery_codes", &renewed)
	addRecoveryCodes(renewed)
	add("a hash of a removed one", s.postAs(t, u.pair, "two_factor_remove/", params{"password": u.password, "code": renewed[1]}).pair(t).Hash)
	removed := u.authenticator

	again := s.newSecured(t) // its factor stays
	addSecret(again.authenticator)
	addRecoveryCodes(again.recoveryCodes)
	s.attempt(t, again, add("a code", s.code(t, again))).want(t, "")
	pending := s.newUser(t) // and this one waits
	s.verifyEmail(t, pending)
	addSecret(s.beginTwoFactor(t, pending))
	if string(removed.secret) == string(again.secret) {
		t.Error("two factors have the same secret")
	}
	s.awaitJobs(t)
	return hidden
}

// wantNotStored searches the files of the data folder: mails hold nothing of a second
// factor. What a thief of the database gets is tested in plugin.
func (s *system) wantNotStored(t testing.TB, hidden secrets) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(s.data, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Type().IsRegular() && d.Name() != "personal": // the plugin
			files++
			hidden.wantNone(t, d.Name(), readFile(t, path))
		}
		return nil
	})
	if err != nil || files < 3 {
		t.Errorf("searched %d files (%v), want the mails among them", files, err)
	}
}

// readProc reads what the system reports about a process, a line for each item.
func readProc(t testing.TB, pid int, name string) string {
	t.Helper()
	text := readFile(t, fmt.Sprintf("/proc/%d/%s", pid, name))
	if text == "" {
		t.Fatalf("/proc/%d/%s is empty", pid, name)
	}
	return strings.ReplaceAll(text, "\x00", "\n")
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
