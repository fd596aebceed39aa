package system

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal/personaltest/softkey"
)

// passkeys are settings that switch passkeys on; passkeyOrigin is where they are used.
const (
	passkeys      = "[passkeys]\nrp_id = \"site.example\"\norigins = [\"" + passkeyOrigin + "\"]\n"
	passkeyOrigin = "https://site.example"
	mailedCodes   = "[sign_in]\nmailed_code = true\n"
)

var update = flag.Bool("update", false, "rewrite the golden files of TestConversation_MatchesGoldenFiles")

const conversationFolder = "testdata/conversation"

// TestConversation_MatchesGoldenFiles calls every operation of the API, with
// success and with each error that can be provoked quickly, and compares the
// responses with those recorded. In Russian only the labels of the test's schema differ,
// with --always-200 only the statuses, of which the first requests are enough:
// personalhttp tests the option with every error. Wording is compared in its own files,
// one per language. After an intended change:
//
//	go test ./internal/system -run TestConversation -update
func TestConversation_MatchesGoldenFiles(t *testing.T) {
	t.Parallel()
	labels := strings.NewReplacer(`"Phone"`, `"Телефон"`, `"Red"`, `"Красный"`, `"Abroad too."`, `"И за границей."`, `"Begin with +."`,
		`"Начните с +."`)
	statuses := regexp.MustCompile(`(?m)^[45]\d\d$`)
	// Nothing listens on port 1, so the plugin of this host never serves.
	o := hostOfConversation("postgres://personal@127.0.0.1:1/personal?sslmode=disable")
	unavailable := launch(t, o)
	unavailable.awaitURL(t, o)
	for _, variant := range []struct {
		name, language string
		alwaysOK       bool
		recorded       func(english string) string
	}{
		{"english", "en", false, func(s string) string { return s }},
		{"russian", "ru", false, labels.Replace},
		{"always-200", "en", true, func(s string) string { return statuses.ReplaceAllString(s, "200") }},
	} {
		t.Run(variant.name, func(t *testing.T) {
			if !*update { // else the texts are written before they are compared
				t.Parallel()
			}
			c := &conversation{language: variant.language, numbers: map[string]map[string]int{}}
			c.play(t, variant.alwaysOK, unavailable)
			got := c.protocol()
			golden(t, "conversation.txt", got, func(english string) string {
				lines := strings.SplitAfter(variant.recorded(english), "\n")
				if variant.alwaysOK {
					lines = lines[:strings.Count(got, "\n")]
				}
				return strings.Join(lines, "")
			}, *update && variant.name == "english")
			if !variant.alwaysOK {
				golden(t, "texts."+variant.language+".txt", c.texts.String(), func(s string) string { return s }, *update)
			}
		})
	}
}

func golden(t *testing.T, name, got string, recorded func(string) string, rewrite bool) {
	t.Helper()
	path := filepath.Join(conversationFolder, name)
	if rewrite {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(recorded(string(want)), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("responses differ from %s (-want +got):\n%s", path, diff)
	}
}

// conversation records calls to a system and their responses.
type conversation struct {
	*system
	language string
	numbers  map[string]map[string]int // of masked values, by kind
	recorded []exchange
	texts    strings.Builder
}

// exchange is one recorded response.
type exchange struct {
	title   string
	status  int
	headers []string
	body    string
}

// Limits that the conversation uses up. No attempt is regained while it lasts.
const lowLimits = `
[throttle.guess]
burst = 5
every = "1h"
[throttle.register]
burst = 20
every = "1h"
[throttle.recover]
burst = 10
every = "1h"
[throttle.confirm]
burst = 20
every = "1h"
[throttle.session_writes]
burst = 20
every = "1h"
`

func hostOfConversation(database string) options {
	return options{database: database, settings: cheap + links + twoFactor + passkeys + mailedCodes + lowLimits,
		flags: []string{"--trusted-proxy", "127.0.0.0/8", "--cors-origin", app}}
}

func (c *conversation) play(t *testing.T, alwaysOK bool, unavailable *system) {
	o := hostOfConversation(testdb.SQLite(t))
	if o.alwaysOK = alwaysOK; alwaysOK {
		o.flags = append(o.flags, "--always-200")
	}
	c.system = start(t, o)
	c.putSchema(t, schema)
	c.playRequests(t)
	if alwaysOK {
		return
	}
	anna := c.playRegistration(t)
	anna = c.playSignIn(t, anna)
	c.playProfile(t, anna)
	anna = c.playPassword(t, anna)
	c.playEmail(t, anna)
	c.playRecovery(t)
	c.playSessions(t, anna)
	c.playLeaving(t)
	c.playTwoFactor(t)
	c.playProof(t)
	c.playPasskeys(t)
	c.playMailedCodes(t)
	c.playLimits(t)

	c.system = unavailable
	c.get(t, "database unavailable", "openapi.json", pair{})
	c.get(t, "database unavailable", "profile/", anna.pair)
	c.post(t, "database unavailable", "auth/", pair{}, params{"login": "anna", "password": anna.password})
}

func (c *conversation) playRequests(t *testing.T) {
	c.get(t, "unknown path", "nope/", pair{})
	c.say(t, "method of no operation", call{method: http.MethodPut, path: "profile/"})
	c.say(t, "method of no operation", call{method: http.MethodHead, path: "auth_refresh/"})
	asJSON := http.Header{"Content-Type": {jsonType}}
	c.say(t, "not a supported media type", call{path: "auth/", body: strings.NewReader("login"),
		header: http.Header{"Content-Type": {"text/plain"}}})
	c.say(t, "more than 64 KiB", call{path: "auth/", body: strings.NewReader(strings.Repeat(" ", 65<<10)), header: asJSON})
	c.say(t, "cut JSON", call{path: "auth/", body: strings.NewReader("{"), header: asJSON})
	c.say(t, "request id of the caller", call{method: http.MethodGet, path: "nope/", header: http.Header{"X-Request-Id": {"caller-1"}}})
	c.say(t, "listed origin", call{method: http.MethodGet, path: "nope/", header: http.Header{"Origin": {app}}})
	foreign := http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://evil.example"}}
	c.say(t, "post of another site", call{path: "auth/", params: params{"login": "anna", "password": "wrong wrong"}, header: foreign})
	c.say(t, "unknown path, post of another site", call{path: "nope/", header: foreign})
	c.say(t, "post of a listed origin", call{path: "auth/", params: params{},
		header: http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {app}}})
	c.preflight(t)
	c.get(t, "schema of the test", "fields/", pair{})
	c.get(t, "settings of the test", "features/", pair{})
	c.get(t, "schema of the test", "openapi.json", pair{})
}

func (c *conversation) playRegistration(t *testing.T) user {
	c.post(t, "nothing sent", "register/", pair{}, params{})
	c.post(t, "every kind of field error", "register/", pair{}, params{
		"login": "an", "email": "anna", "password": "password1", "confirm_password": "password2", "name": strings.Repeat("x", 201),
		"age": "x", "birthday": "31.1.2000", "phone": "5", "height": 9, "colour": "green", "customer_number": "1", "secret_note": "x", "nonsense": "x"})
	anna := c.newUserNamed(t, "Anna", params{"name": "Анна", "phone": "+74951234567", "age": 42, "height": 1.5, "birthday": "1999-12-31",
		"visited": "2024-05-06T07:08:09Z", "colour": "blue", "avatar": "images/a.png", "company": "17", "friends": []string{"7"}, "interests": []string{"go", "cms"}})
	c.post(t, "login taken", "register/", pair{}, applicant(params{"login": "anna", "email": "other@mail.example"}))
	c.post(t, "email taken", "register/", pair{}, applicant(params{"login": "other", "email": anna.email}))
	return anna
}

func (c *conversation) playSignIn(t *testing.T, anna user) user {
	c.post(t, "nothing sent", "auth/", pair{}, params{})
	c.post(t, "login", "auth/", pair{}, params{"login": "ANNA", "password": anna.password})
	c.post(t, "email as login", "auth/", pair{}, params{"login": anna.email, "password": anna.password})
	c.post(t, "wrong password", "auth/", pair{}, params{"login": "anna", "password": "wrong wrong"})
	c.post(t, "unknown login", "auth/", pair{}, params{"login": "zoe", "password": "wrong wrong"})
	disabled := c.newUserNamed(t, "boris", nil)
	disable(t, c.database, disabled.login)
	c.post(t, "disabled account", "auth/", pair{}, params{"login": "boris", "password": disabled.password})
	c.get(t, "disabled account", "profile/", disabled.pair)

	first := anna.pair
	anna.pair = c.get(t, "rotation", "auth_refresh/", first).pair(t)
	c.get(t, "superseded hash within the grace period", "auth_refresh/", first)
	anna.pair = c.post(t, "rotation", "auth_refresh/", anna.pair, nil).pair(t)
	c.get(t, "unknown hash", "auth_refresh/", pair{anna.ID, strings.Repeat("A", 43)})
	c.get(t, "no headers", "auth_refresh/", pair{})
	return anna
}

func (c *conversation) playProfile(t *testing.T, anna user) {
	c.get(t, "no headers", "profile/", pair{})
	c.get(t, "signed in", "profile/", anna.pair)
	c.post(t, "no headers", "profile/", pair{}, params{"name": "A"})
	c.post(t, "name cleared, field changed", "profile/", anna.pair, params{"name": nil, "age": 43})
	c.post(t, "not the user's to change", "profile/", anna.pair,
		params{"login": "x", "email": "x", "customer_number": "1", "nonsense": 1, "name": 5})
}

func (c *conversation) playPassword(t *testing.T, anna user) user {
	c.post(t, "no headers", "password/", pair{}, params{})
	c.post(t, "nothing sent", "password/", anna.pair, params{})
	c.post(t, "wrong old password", "password/", anna.pair,
		params{"old_password": "wrong wrong", "password": recovered, "confirm_password": recovered})
	c.post(t, "short and not confirmed", "password/", anna.pair,
		params{"old_password": anna.password, "password": "short", "confirm_password": "other"})
	anna.pair = c.post(t, "changed", "password/", anna.pair,
		params{"old_password": anna.password, "password": recovered, "confirm_password": recovered}).pair(t)
	anna.password = recovered
	return anna
}

func (c *conversation) playEmail(t *testing.T, anna user) {
	clara := c.newUserNamed(t, "clara", nil)
	c.post(t, "no headers", "email/", pair{}, params{})
	c.post(t, "nothing sent", "email/", anna.pair, params{})
	c.post(t, "wrong password", "email/", anna.pair, params{"password": "wrong wrong", "email": "next@mail.example"})
	c.post(t, "not an address", "email/", anna.pair, params{"password": anna.password, "email": "next"})
	c.post(t, "taken", "email/", anna.pair, params{"password": anna.password, "email": clara.email})
	c.post(t, "mail requested", "email/", anna.pair, params{"password": anna.password, "email": "next@mail.example"})
	c.post(t, "nothing sent", "email_confirm/", pair{}, params{})
	c.post(t, "unknown token", "email_confirm/", pair{}, params{"token": "nonsense"})
	token := c.mailTo(t, mailtext.EmailChange, "next@mail.example").token(t)
	c.post(t, "confirmed", "email_confirm/", pair{}, params{"token": token})
	c.post(t, "used token", "email_confirm/", pair{}, params{"token": token})
	c.get(t, "new address", "profile/", anna.pair)

	c.post(t, "mail requested", "email/", clara.pair, params{"password": clara.password, "email": "dora@mail.example"})
	token = c.mailTo(t, mailtext.EmailChange, "dora@mail.example").token(t)
	c.newUserNamed(t, "dora", nil)
	c.post(t, "taken in the meantime", "email_confirm/", pair{}, params{"token": token})
}

func (c *conversation) playRecovery(t *testing.T) {
	erika := c.newUserNamed(t, "erika", nil)
	c.post(t, "nothing sent", "recover/", pair{}, params{})
	c.post(t, "unknown login", "recover/", pair{}, params{"login": "zoe"})
	c.post(t, "login and email", "recover/", pair{}, params{"login": "erika", "email": erika.email})
	token := c.mailTo(t, mailtext.Recovery, erika.email).token(t)
	c.post(t, "nothing sent", "recover_confirm/", pair{}, params{})
	c.post(t, "unknown token", "recover_confirm/", pair{}, confirm("nonsense", recovered))
	c.post(t, "common password, not confirmed", "recover_confirm/", pair{},
		params{"token": token, "password": "password1", "confirm_password": "other"})
	c.post(t, "login as password", "recover_confirm/", pair{}, confirm(token, erika.email))
	c.post(t, "confirmed", "recover_confirm/", pair{}, confirm(token, recovered))
	c.post(t, "used token", "recover_confirm/", pair{}, confirm(token, recovered))
	c.get(t, "session from before the recovery", "profile/", erika.pair)
}

func (c *conversation) playSessions(t *testing.T, anna user) {
	c.get(t, "no headers", "sessions/", pair{})
	c.get(t, "one session", "sessions/", anna.pair)
	other := c.say(t, "another agent", call{path: "auth/", params: params{"login": "anna", "password": anna.password},
		header: http.Header{"User-Agent": {"another"}}}).pair(t)
	c.get(t, "two sessions", "sessions/", other)
	otherID := c.currentSession(t, other).ID
	c.post(t, "no headers", "sessions_revoke/", pair{}, params{"id": otherID})
	c.post(t, "nothing sent", "sessions_revoke/", anna.pair, params{})
	c.post(t, "unknown id", "sessions_revoke/", anna.pair, params{"id": "999999999"})
	c.post(t, "other session", "sessions_revoke/", anna.pair, params{"id": otherID})
	c.get(t, "revoked session", "sessions/", other)
	other = c.post(t, "login", "auth/", pair{}, params{"login": "anna", "password": anna.password}).pair(t)
	c.post(t, "no headers", "sessions_revoke_others/", pair{}, params{})
	c.post(t, "two sessions", "sessions_revoke_others/", anna.pair, params{})
	c.post(t, "revoked session", "sessions_revoke_others/", other, params{})

	c.post(t, "no headers", "logout/", pair{}, params{})
	c.post(t, "not a boolean", "logout/", anna.pair, params{"all": "maybe"})
	c.post(t, "this session", "logout/", anna.pair, params{})
	c.post(t, "after signing out", "logout/", anna.pair, params{})
	last := c.post(t, "login", "auth/", pair{}, params{"login": "anna", "password": anna.password}).pair(t)
	c.post(t, "every session", "logout/", last, params{"all": true})
}

// playLeaving confirms an address, and takes the data of the account along.
func (c *conversation) playLeaving(t *testing.T) {
	greta := c.newUserNamed(t, "greta", nil)
	c.post(t, "nothing sent", "email_resend/", pair{}, params{})
	c.post(t, "unknown login", "email_resend/", pair{}, params{"login": "zoe"})
	c.post(t, "login and email", "email_resend/", pair{}, params{"login": "greta", "email": greta.email})
	token := c.mailTo(t, mailtext.Verification, greta.email).token(t)
	c.post(t, "after the registration", "email_confirm/", pair{}, params{"token": token})
	c.awaitJobs(t)
	for _, path := range []string{"export/", "delete/"} {
		c.post(t, "no headers", path, pair{}, params{})
		c.post(t, "nothing sent", path, greta.pair, params{})
		c.post(t, "wrong password", path, greta.pair, params{"password": "wrong wrong"})
	}
	export := call{path: "export/", as: greta.pair, params: params{"password": greta.password}}
	c.say(t, "signed in", export)
	c.guess(t, c.prepared(export), "")
	c.say(t, "too many attempts", export)
	c.post(t, "signed in", "delete/", greta.pair, params{"password": greta.password})
	c.post(t, "after the deletion", "export/", greta.pair, params{"password": greta.password})
	c.post(t, "deleted account", "auth/", pair{}, params{"login": "greta", "password": greta.password})
	c.post(t, "nothing sent", "delete_undo/", pair{}, params{})
	c.post(t, "unknown token", "delete_undo/", pair{}, params{"token": "nonsense"})
	token = c.mailTo(t, mailtext.Deletion, greta.email).token(t)
	c.post(t, "undone", "delete_undo/", pair{}, params{"token": token})
	c.post(t, "used token", "delete_undo/", pair{}, params{"token": token})
}

// playProof proves once, and then acts without the password.
func (c *conversation) playProof(t *testing.T) {
	u := c.newUserNamed(t, "irina", nil)
	c.post(t, "no headers", "prove/", pair{}, params{})
	c.post(t, "nothing sent", "prove/", u.pair, params{})
	c.post(t, "wrong password", "prove/", u.pair, params{"password": "wrong wrong"})
	c.post(t, "passkey", "prove/", u.pair, params{"attempt": "nonsense", "credential": "{}"})
	c.post(t, "password and passkey", "prove/", u.pair, params{"password": u.password, "attempt": "nonsense", "credential": "{}"})
	var proof string
	c.post(t, "password", "prove/", u.pair, params{"password": u.password}).read(t, "proof", &proof)
	for _, path := range []string{"email/", "export/", "delete/", "two_factor/", "two_factor_codes/", "two_factor_remove/"} {
		c.post(t, "wrong proof", path, u.pair, params{"proof": "nonsense", "email": "next@mail.example"})
	}
	c.post(t, "wrong proof, short and not confirmed", "password/", u.pair,
		params{"proof": "nonsense", "password": "short", "confirm_password": "other"})
	c.post(t, "proof", "email/", u.pair, params{"proof": proof, "email": "irina.new@mail.example"})
	former := u.pair
	u.pair = c.post(t, "proof", "password/", u.pair, params{"proof": proof, "password": recovered, "confirm_password": recovered}).pair(t)
	c.post(t, "former hash", "export/", former, params{"proof": proof})
	c.post(t, "proof from before a new password", "export/", u.pair, params{"proof": proof})
	c.post(t, "new password", "prove/", u.pair, params{"password": recovered}).read(t, "proof", &proof)
	c.post(t, "proof", "delete/", u.pair, params{"proof": proof})
}

// playTwoFactor switches a second factor on and off.
func (c *conversation) playTwoFactor(t *testing.T) {
	u := secured{user: c.newUserNamed(t, "hanna", nil)}
	c.post(t, "no headers", "two_factor/", pair{}, params{})
	c.post(t, "e-mail not confirmed", "two_factor/", u.pair, params{"password": u.password})
	c.post(t, "e-mail not confirmed", "two_factor_confirm/", u.pair, params{"code": "123456"})
	c.verifyEmail(t, u.user)
	c.post(t, "nothing sent", "two_factor/", u.pair, params{})
	c.post(t, "wrong password", "two_factor/", u.pair, params{"password": "wrong wrong"})
	c.post(t, "nothing sent", "two_factor_confirm/", u.pair, params{})
	c.post(t, "no secret", "two_factor_confirm/", u.pair, params{"code": "123456"})
	for _, path := range []string{"two_factor_codes/", "two_factor_remove/"} {
		c.post(t, "no headers", path, pair{}, params{})
		c.post(t, "nothing sent", path, u.pair, params{})
		c.post(t, "off", path, u.pair, params{"password": u.password, "code": "123456"})
	}

	r := c.post(t, "secret", "two_factor/", u.pair, params{"password": u.password})
	u.authenticator = newAuthenticator(t, r)
	c.post(t, "wrong code", "two_factor_confirm/", u.pair, params{"code": u.wrong()})
	r = c.post(t, "confirmed", "two_factor_confirm/", u.pair, params{"code": u.codeOf(stepNow())})
	r.read(t, "recovery_codes", &u.recoveryCodes)
	u.pair = r.pair(t)
	c.post(t, "on already", "two_factor/", u.pair, params{"password": u.password})
	c.get(t, "second factor", "profile/", u.pair)

	c.post(t, "no code", "auth/", pair{}, params{"login": "hanna", "password": u.password})
	c.post(t, "wrong code", "auth/", pair{}, params{"login": "hanna", "password": u.password, "code": u.wrong()})
	c.post(t, "code", "auth/", pair{}, params{"login": "hanna", "password": u.password, "code": c.code(t, u)})
	c.post(t, "recovery code", "auth/", pair{}, params{"login": "hanna", "password": u.password, "code": u.recoveryCodes[0]})
	c.post(t, "no code", "export/", u.pair, params{"password": u.password})
	c.post(t, "wrong code", "export/", u.pair, params{"password": u.password, "code": u.wrong()})
	c.post(t, "code", "two_factor_codes/", u.pair, params{"password": u.password, "code": c.code(t, u)})
	c.post(t, "wrong code", "two_factor_remove/", u.pair, params{"password": u.password, "code": u.wrong()})
	u.pair = c.post(t, "code", "two_factor_remove/", u.pair, params{"password": u.password, "code": c.code(t, u)}).pair(t)
	c.get(t, "no second factor", "profile/", u.pair)
}

// playPasskeys adds a passkey, signs in and proves with it, and removes it.
func (c *conversation) playPasskeys(t *testing.T) {
	u := c.newUserNamed(t, "klara", nil)
	device := &softkey.Authenticator{Origin: passkeyOrigin}
	ceremony := func(r *response, respond func(options string) (string, error)) params {
		t.Helper()
		var attempt string
		var options, credential json.RawMessage
		r.read(t, "attempt", &attempt)
		r.read(t, "options", &options)
		text, err := respond(string(options))
		if err != nil {
			t.Fatal(err)
		}
		credential = json.RawMessage(text)
		return params{"attempt": attempt, "credential": credential}
	}
	for _, path := range []string{"passkeys_add/", "passkeys_add_confirm/", "passkeys_rename/", "passkeys_remove/"} {
		c.post(t, "no headers", path, pair{}, params{})
	}
	c.get(t, "no headers", "passkeys/", pair{})
	c.get(t, "none", "passkeys/", u.pair)
	c.post(t, "e-mail not confirmed", "passkeys_add/", u.pair, params{"password": u.password})
	c.verifyEmail(t, u)
	c.post(t, "nothing sent", "passkeys_add/", u.pair, params{})
	c.post(t, "wrong password", "passkeys_add/", u.pair, params{"password": "wrong wrong"})
	created := ceremony(c.post(t, "password", "passkeys_add/", u.pair, params{"password": u.password}), device.Create)
	c.post(t, "nothing sent", "passkeys_add_confirm/", u.pair, params{})
	c.post(t, "wrong credential", "passkeys_add_confirm/", u.pair, params{"attempt": created["attempt"], "credential": "{}", "name": "phone"})
	created["name"] = "phone"
	added := c.post(t, "created", "passkeys_add_confirm/", u.pair, created)
	c.post(t, "repeated", "passkeys_add_confirm/", u.pair, created)
	var passkey struct{ ID string }
	added.read(t, "passkey", &passkey)
	c.post(t, "password", "passkeys_add/", u.pair, params{"password": u.password}) // with an exclude list
	c.post(t, "nothing sent", "passkeys_rename/", u.pair, params{})
	c.post(t, "unknown id", "passkeys_rename/", u.pair, params{"id": "999999999", "name": "x"})
	c.post(t, "renamed", "passkeys_rename/", u.pair, params{"id": passkey.ID, "name": "my phone"})
	c.get(t, "one", "passkeys/", u.pair)

	c.post(t, "nothing sent", "passkey_begin/", pair{}, params{})
	c.post(t, "unknown purpose", "passkey_begin/", pair{}, params{"purpose": "x"})
	c.post(t, "prove, no headers", "passkey_begin/", pair{}, params{"purpose": "prove"})
	c.post(t, "nothing sent", "passkey_auth/", pair{}, params{})
	c.post(t, "wrong attempt and credential", "passkey_auth/", pair{}, params{"attempt": "nonsense", "credential": "{}"})
	signIn := ceremony(c.post(t, "sign in", "passkey_begin/", pair{}, params{"purpose": "sign_in"}), device.Get)
	in := c.post(t, "passkey", "passkey_auth/", pair{}, signIn).pair(t)
	c.post(t, "used attempt", "passkey_auth/", pair{}, signIn)
	c.get(t, "by registration and passkey", "sessions/", u.pair)
	proved := ceremony(c.post(t, "prove", "passkey_begin/", u.pair, params{"purpose": "prove"}), device.Get)
	var proof string
	c.post(t, "passkey", "prove/", u.pair, proved).read(t, "proof", &proof)
	c.post(t, "used attempt", "prove/", u.pair, proved)
	c.post(t, "nothing sent", "passkeys_remove/", u.pair, params{})
	c.post(t, "unknown id", "passkeys_remove/", u.pair, params{"id": "999999999", "proof": proof})
	c.post(t, "proof", "passkeys_remove/", u.pair, params{"id": passkey.ID, "proof": proof})
	c.get(t, "session of a removed passkey", "profile/", in)
}

// playMailedCodes signs in and proves with mailed codes.
func (c *conversation) playMailedCodes(t *testing.T) {
	u := c.newUserNamed(t, "lara", nil)
	c.verifyEmail(t, u)
	code := regexp.MustCompile(`(?m)^[0-9A-Z]{4}-[0-9A-Z]{4}$`)
	known := map[string]bool{}
	mailed := func(r *response) params {
		t.Helper()
		var p struct{ attempt, code string }
		r.read(t, "attempt", &p.attempt)
		eventually(t, "a mail with a code", func() bool {
			for _, m := range c.mailsTo(t, mailtext.SignInCode, u.email) {
				if found := code.FindString(m.text); !known[found] {
					p.code = found
				}
			}
			return p.code != ""
		})
		known[p.code] = true
		return params{"attempt": p.attempt, "mailed_code": p.code}
	}
	asked := 0
	post := func(name, path string, as pair, p params) *response { // each from an address of its own
		t.Helper()
		asked++
		return c.say(t, name, call{path: path, as: as, params: p, header: from(fmt.Sprint("192.0.2.", 100+asked))})
	}
	post("nothing sent", "code_begin/", pair{}, params{})
	post("unknown purpose", "code_begin/", pair{}, params{"purpose": "x", "login": "lara"})
	post("prove, no headers", "code_begin/", pair{}, params{"purpose": "prove"})
	post("unknown login", "code_begin/", pair{}, params{"login": "zoe"})
	post("nothing sent", "code_auth/", pair{}, params{})
	post("wrong attempt", "code_auth/", pair{}, params{"attempt": "nonsense", "mailed_code": "0000-0000"})
	signIn := mailed(post("login and email", "code_begin/", pair{}, params{"login": "lara", "email": u.email}))
	post("wrong code", "code_auth/", pair{}, params{"attempt": signIn["attempt"], "mailed_code": "0000-0000"})
	in := post("mailed code", "code_auth/", pair{}, signIn).pair(t)
	post("used code", "code_auth/", pair{}, signIn)
	c.get(t, "by registration and mailed code", "sessions/", in)
	proved := mailed(post("prove", "code_begin/", in, params{"purpose": "prove"}))
	post("wrong mailed code", "prove/", in, params{"attempt": proved["attempt"], "mailed_code": "0000-0000"})
	post("password and mailed code", "prove/", in, params{"attempt": proved["attempt"], "mailed_code": proved["mailed_code"], "password": u.password})
	post("mailed code", "prove/", in, proved)
	c.get(t, "after mailed codes", "features/", pair{})
}

// playLimits uses up the limits and records the first response beyond each.
func (c *conversation) playLimits(t *testing.T) {
	fiona := c.newUserNamed(t, "fiona", nil)
	beyond := func(code string, as pair, path string, p params) {
		t.Helper()
		attempt := call{path: path, as: as, params: p, header: from("192.0.2.2")}
		c.guess(t, c.prepared(attempt), code)
		c.say(t, "too many attempts", attempt)
	}
	beyond("invalid_credentials", pair{}, "auth/", params{"login": "fiona", "password": "wrong wrong"})
	beyond("already_exists", pair{}, "register/", applicant(params{"login": "fiona"}))
	beyond("", pair{}, "recover/", params{"login": "zoe"})
	beyond("invalid_token", pair{}, "email_confirm/", params{"token": "nonsense"})
	c.say(t, "too many attempts", call{path: "recover_confirm/", params: confirm("nonsense", recovered), header: from("192.0.2.2")})
	beyond("", fiona.pair, "profile/", params{"name": "Fiona"})
	c.get(t, "too many attempts", "auth_refresh/", fiona.pair)
	c.post(t, "too many attempts", "sessions_revoke/", fiona.pair, params{"id": "1"})
	c.post(t, "too many attempts", "password/", fiona.pair, params{"old_password": fiona.password, "password": recovered,
		"confirm_password": recovered})
	c.post(t, "too many attempts", "email/", fiona.pair, params{"password": fiona.password, "email": "last@mail.example"})
	c.get(t, "too many attempts of the session", "profile/", fiona.pair)
}

// newUserNamed registers a user whose login and e-mail address are the same in
// every run.
func (c *conversation) newUserNamed(t *testing.T, login string, fields params) user {
	t.Helper()
	p := applicant(params{"login": login, "email": strings.ToLower(login) + "@mail.example"})
	maps.Copy(p, fields)
	a := c.post(t, login, "register/", pair{}, p)
	return user{login: login, email: p["email"].(string), password: p["password"].(string), pair: a.pair(t)}
}

func (c *conversation) get(t *testing.T, condition, path string, as pair) *response {
	t.Helper()
	return c.say(t, condition, call{method: http.MethodGet, path: path, as: as})
}

func (c *conversation) post(t *testing.T, condition, path string, as pair, p params) *response {
	t.Helper()
	return c.say(t, condition, call{path: path, as: as, params: p})
}

// say makes a call and records the response.
func (c *conversation) say(t *testing.T, condition string, said call) *response {
	t.Helper()
	said = c.prepared(said)
	a := c.do(t, said)
	title := fmt.Sprintf("%s %s, %s", said.method, said.path, condition)
	body := c.mask(a.Raw)
	if isDocument(a.Raw) {
		body = summarise(t, a.Raw)
	}
	c.recorded = append(c.recorded, exchange{title, a.Status, recordedHeaders(said.header, a.Header), body})
	c.noteTexts(title, a)
	return a
}

// prepared completes a call: with one client address, as from a proxy, and with the
// conversation's language.
func (c *conversation) prepared(said call) call {
	header := http.Header{"Accept-Language": {c.language}, "User-Agent": {"conversation"}, "X-Forwarded-For": {"192.0.2.1"}}
	maps.Copy(header, said.header)
	said.header = header
	if said.method == "" {
		said.method = http.MethodPost
	}
	return said
}

// preflight records the one response that is neither an envelope nor the document.
func (c *conversation) preflight(t *testing.T) {
	t.Helper()
	response, body := c.web(t, http.MethodOptions, strings.TrimPrefix(c.api, c.url)+"profile/", "", "Origin", app,
		"Access-Control-Request-Method", http.MethodPost, "Access-Control-Request-Headers", "content-type,user-hash,user-id")
	c.recorded = append(c.recorded, exchange{"OPTIONS profile/, preflight", response.StatusCode, recordedHeaders(nil, response.Header), body})
}

// noteTexts records the texts of a response that are meant for people.
func (c *conversation) noteTexts(title string, a *response) {
	if a.Result.Message == "" {
		return
	}
	fmt.Fprintf(&c.texts, "%s\n\t%s\n", title, a.Result.Message)
	for _, name := range slices.Sorted(maps.Keys(a.Result.Fields)) {
		fmt.Fprintf(&c.texts, "\t%s: %s\n", name, a.Result.Fields[name].Message)
	}
}

// protocol returns everything recorded but the texts.
func (c *conversation) protocol() string {
	var b strings.Builder
	b.WriteString("Headers are those of the first response but for the lines that begin with + and -.\n")
	usual := c.recorded[0].headers
	for i, e := range c.recorded {
		fmt.Fprintf(&b, "\n%s\n%d\n", e.title, e.status)
		for _, line := range e.headers {
			if i == 0 || !slices.Contains(usual, line) {
				fmt.Fprintln(&b, "+", line)
			}
		}
		for _, line := range usual {
			if !slices.Contains(e.headers, line) {
				fmt.Fprintln(&b, "-", line)
			}
		}
		fmt.Fprintln(&b, strings.TrimSuffix(e.body, "\n"))
	}
	return b.String()
}

// contractHeaders are the headers in the contract.
var contractHeaders = []string{"Access-Control-Allow-Credentials", "Access-Control-Allow-Headers", "Access-Control-Allow-Methods",
	"Access-Control-Allow-Origin", "Access-Control-Expose-Headers", "Access-Control-Max-Age", "Allow", "Cache-Control",
	"Content-Security-Policy", "Content-Type", "Location", "Retry-After", "Vary", "X-Content-Type-Options", "X-Request-Id"}

func recordedHeaders(sent, got http.Header) []string {
	var lines []string
	for _, name := range contractHeaders {
		for _, value := range got.Values(name) {
			switch {
			case name == "X-Request-Id" && value != sent.Get(name):
				value = "<new>"
			case name == "Retry-After":
				value = "<seconds>"
			}
			lines = append(lines, name+": "+value)
		}
	}
	return lines
}

var masked = regexp.MustCompile(`"(user_id|user_hash|id|attempt|challenge|last_used|created|updated|time|last_seen|expires|erase_at|proof|proved_until|secret|uri|recovery_codes|MESSAGE)":("(?:[^"\\]|\\.)+"|[0-9]+|\["[A-Z2-7-]{29}"[^]]*\])`)

// mask replaces texts and values that differ from run to run. Equal ids and hashes get
// equal numbers.
func (c *conversation) mask(body []byte) string {
	return masked.ReplaceAllStringFunc(string(body), func(member string) string {
		kind, value, _ := strings.Cut(member, ":")
		kind = strings.Trim(kind, `"`)
		name := "<" + kind + ">"
		switch kind {
		case "user_id", "user_hash", "id":
			if c.numbers[kind] == nil {
				c.numbers[kind] = map[string]int{}
			}
			if c.numbers[kind][value] == 0 {
				c.numbers[kind][value] = len(c.numbers[kind]) + 1
			}
			name = fmt.Sprintf("<%s %d>", kind, c.numbers[kind][value])
		}
		if value[0] == '"' {
			name = `"` + name + `"`
		}
		return fmt.Sprintf("%q:%s", kind, name)
	})
}
