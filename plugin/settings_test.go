package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/passkey"
	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/shared/personal"
)

func TestSettings_Defaults(t *testing.T) {
	s, unknown, err := readSettings(nil)
	if err != nil || unknown != nil {
		t.Fatalf("got unknown keys %v (%v), want none", unknown, err)
	}
	rules := s.accounts()
	if rules.SessionIdle != 24*time.Hour || rules.SessionAbsolute != 720*time.Hour || rules.SupersededGrace != 30*time.Second ||
		rules.ProofLifetime != 5*time.Minute ||
		rules.RecoveryLifetime != 30*time.Minute || rules.MinPassword != 8 || !rules.LoginWithEmail || !rules.Notices || !rules.Throttle.Enabled ||
		len(rules.PasswordWords) > 0 ||
		s.TwoFactor.Enabled || rules.TwoFactorIssuer != "personal" {
		t.Fatalf("got %+v, want the defaults", rules)
	}
	if guesses := 2 * rules.Throttle.Guess.Burst; guesses > 30 { // an account has a login and an e-mail
		t.Errorf("got %d guesses at one account from one address, want at most 30", guesses)
	}
	for name, test := range map[string]struct{ got, want throttle.Limit }{
		"guess_address":    {rules.Throttle.GuessAddress, throttle.Limit{Burst: 100, Every: 5 * time.Second}},
		"sign_in_address":  {rules.Throttle.SignInAddress, throttle.Limit{Burst: 100, Every: time.Second}},
		"sign_in_account":  {rules.Throttle.SignInAccount, throttle.Limit{Burst: 60, Every: 5 * time.Second}},
		"session_writes":   {rules.Throttle.SessionWrites, throttle.Limit{Burst: 60, Every: time.Second}},
		"register":         {rules.Throttle.Register, throttle.Limit{Burst: 30, Every: 30 * time.Second}},
		"register_invalid": {rules.Throttle.RegisterInvalid, throttle.Limit{Burst: 120, Every: 5 * time.Second}},
		"taken_email":      {rules.Throttle.TakenEmail, throttle.Limit{Burst: 30, Every: time.Minute}},
	} {
		test.want.Name = name
		if test.got != test.want {
			t.Errorf("throttle.%s: got %+v, want %+v", name, test.got, test.want)
		}
	}
	if !slices.Contains(rules.ReservedLogins, "admin") || !slices.Contains(rules.ReservedLogins, "postmaster") {
		t.Errorf("got reserved logins %q, want admin and postmaster among them", rules.ReservedLogins)
	}
	if p := s.password(); p.MemoryKiB != 19456 || p.Time != 2 || p.Threads != 1 {
		t.Fatalf("got %+v, want the default costs", p)
	}
}

func TestSettings_FileChangesOnlyItsKeys(t *testing.T) {
	s, _, err := readSettings([]byte("\ufeff[session]\nidle = \"2h\"\n[throttle.guess]\nburst = 3\n[recovery]\nurl = \"https://cms.example/r#token={token}\"\n[password]\nwords = [\"Казань\"]"))
	if err != nil {
		t.Fatal(err)
	}
	rules := s.accounts()
	if rules.SessionIdle != 2*time.Hour || rules.SessionAbsolute != 720*time.Hour ||
		rules.Throttle.Guess.Burst != 3 || rules.Throttle.Guess.Every != time.Minute ||
		rules.MinPassword != 8 || !slices.Equal(rules.PasswordWords, []string{"Казань"}) {
		t.Fatalf("got %+v, want the settings of the file", rules)
	}
}

func TestSettings_EachReachesItsRule(t *testing.T) {
	const link = "https://cms.example/"
	s, unknown, err := readSettings([]byte(`
[site]
name = "Fish"
[session]
idle = "1h"
absolute = "2h"
grace = "3s"
verify_cache = "4s"
proof_lifetime = "2m"
[password]
min_length = 9
words = ["kazan"]
[login]
with_email = false
reserved = ["Chief"]
[sign_in]
mailed_code = true
[recovery]
lifetime = "5m"
invitation_lifetime = "6h"
url = "` + link + `r#{token}"
[email]
url = "` + link + `e#{token}"
[registration]
email_verification = "off"
verification_lifetime = "7h"
unverified_lifetime = "8h"
url = "` + link + `v#{token}"
[mail]
notices = false
[deletion]
grace = "9h"
url = "` + link + `d#{token}"
[two_factor]
enabled = true
issuer = "Chips"
[passkeys]
rp_id = "cms.example"
origins = ["https://cms.example"]
`))
	if err != nil || unknown != nil {
		t.Fatalf("got unknown keys %v (%v), want none", unknown, err)
	}
	got := s.accounts()
	want := accounts.Settings{
		SessionIdle: time.Hour, SessionAbsolute: 2 * time.Hour, SupersededGrace: 3 * time.Second, VerifyCache: 4 * time.Second,
		ProofLifetime: 2 * time.Minute, MinPassword: 9, PasswordWords: []string{"kazan"}, ReservedLogins: []string{"chief"}, MailedCode: true,
		RecoveryLifetime: 5 * time.Minute, InvitationLifetime: 6 * time.Hour, RecoveryURL: link + "r#{token}", EmailURL: link + "e#{token}",
		EmailVerification: personal.VerificationOff, VerificationLifetime: 7 * time.Hour, UnverifiedLifetime: 8 * time.Hour,
		RegistrationURL: link + "v#{token}", DeletionGrace: 9 * time.Hour, DeletionURL: link + "d#{token}",
		TwoFactor: true, TwoFactorIssuer: "Chips", Site: "Fish",
		Passkeys: passkey.Site{ID: "cms.example", Name: "Fish", Origins: []string{"https://cms.example"}},
		Throttle: got.Throttle, // TestSettings_Defaults
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
}

// A CMS may read the file itself.
func TestSettings_UTF16(t *testing.T) {
	for _, file := range []string{"\xff\xfe[\x00s\x00", "\xfe\xff\x00[\x00s"} {
		if _, _, err := readSettings([]byte(file)); err == nil || !strings.Contains(err.Error(), "it is in UTF-16: save it as UTF-8") {
			t.Errorf("got %v, want what to do", err)
		}
	}
}

func TestSettings_VerifyCacheIsFromZeroToAMinute(t *testing.T) {
	for text, want := range map[string]time.Duration{"0s": 0, "60s": time.Minute} {
		s, _, err := readSettings([]byte("[session]\nverify_cache = \"" + text + "\""))
		if got := s.accounts().VerifyCache; err != nil || got != want {
			t.Errorf("%s: got %v (%v), want %v", text, got, err, want)
		}
	}
}

func TestSettings_UnknownKeyIsIgnoredAndComparedWithTheKnownOnes(t *testing.T) {
	for file, want := range map[string]string{
		"[session]\nidel = '1h'":                         "[session.idel (did you mean session.idle?)]",
		"[sessions]\nidle = '1h'":                        "[sessions (did you mean session?)]",
		"[twofactor]\nenabled = true":                    "[twofactor (did you mean two_factor?)]",
		"twofactor.enabled = true":                       "[twofactor.enabled (did you mean two_factor.enabled?)]",
		"[two_factor]\nenable = true\n[colour]\nred = 1": "[two_factor.enable (did you mean two_factor.enabled?) colour]",
	} {
		s, unknown, err := readSettings([]byte(file + "\n[login]\nwith_email = false"))
		if got := fmt.Sprint(unknown); err != nil || got != want {
			t.Errorf("%q: got unknown keys %s (%v), want %s", file, got, err, want)
		}
		if s.Login.WithEmail {
			t.Errorf("%q: got the default of a known key, want the file's value", file)
		}
	}
}

func TestSettings_CommandsWarnOfUnknownKeys(t *testing.T) {
	file := write(t, "settings.toml", "[session]\nidel = '1h'\n")
	database := testkit.SQLite(t)
	mustCommand(t, "migrate", "--database", database)
	_, stderr, err := command(t, "user", "list", "--settings", file, "--database", database)
	if err != nil || stderr != "unknown key in the settings file, it is ignored: session.idel (did you mean session.idle?)\n" {
		t.Errorf("got %q (%v), want a warning", stderr, err)
	}
}

func TestSettings_NamesInvalidKeys(t *testing.T) {
	for name, test := range map[string]struct{ file, want string }{
		"a value beside an unknown key":  {"[session]\nidel = \"1h\"\nidle = \"soon\"", "session.idle"},
		"an invalid duration":            {"[session]\nidle = \"soon\"", "session.idle"},
		"a number that is a valid time":  {"[session]\nverify_cache = 24", `session.verify_cache: line 2, column 16: toml: "24" is not a duration; write it like 90s, 15m or 24h`},
		"a duration without a unit":      {"[throttle.guess]\nevery = '24'", `throttle.guess.every: line 2, column 9: toml: "24" is not a duration; write it like 90s, 15m or 24h`},
		"an array for a duration":        {"[session]\nidle = [1]", "session.idle: line 2"},
		"below a second":                 {"[session]\ngrace = \"10ms\"", "session.grace"},
		"a negative cache":               {"[session]\nverify_cache = \"-1s\"", "session.verify_cache: must be from 0s to 60s"},
		"a cache of over a minute":       {"[session]\nverify_cache = \"61s\"", "session.verify_cache"},
		"a proof of seconds":             {"[session]\nproof_lifetime = \"59s\"", "session.proof_lifetime: must be from 1m to 15m"},
		"a proof of an hour":             {"[session]\nproof_lifetime = \"1h\"", "session.proof_lifetime"},
		"a reserved login with a space":  {"[login]\nreserved = [\"root\", \"the root\"]", `login.reserved: "the root"`},
		"too many reserved logins":       {"[login]\nreserved = [" + strings.Repeat("\"admin\",", 1001) + "]", "login.reserved: must have at most 1000"},
		"too few entries of an account":  {"[audit]\nper_account = 9", "audit.per_account"},
		"a limit without a burst":        {"[throttle.sign_in_address]\nburst = 0", "throttle.sign_in_address.burst"},
		"a limit below a second":         {"[throttle.taken_email]\nevery = \"1ms\"", "throttle.taken_email.every"},
		"a limit of more than a day":     {"[throttle.session_writes]\nevery = \"25h\"", "throttle.session_writes.every"},
		"a version that is none":         {"[site]\nrequires = \"0.3\"", "site.requires: must be a version such as 0.3.0, or empty"},
		"below the minimum length":       {"[password]\nmin_length = 4", "password.min_length"},
		"too many words":                 {"[password]\nwords = [" + strings.Repeat("\"example\",", 101) + "]", "password.words: got 101"},
		"a text for a list of words":     {"[password]\nwords = \"example\"", "password.words"},
		"too much memory":                {"[password]\nmemory_kib = 10000000", "password.memory_kib"},
		"too much memory and time":       {"[password]\nmemory_kib = 100000\ntime = 16", "password.memory_kib"},
		"too little memory for lanes":    {"[password]\nmemory_kib = 16\nthreads = 4", "password.memory_kib"},
		"lanes beyond the type":          {"[password]\nthreads = 1000", "password.threads"},
		"a token in the query":           {"[recovery]\nurl = \"https://cms.example/?token={token}\"", "recovery.url"},
		"a link without a token":         {"[email]\nurl = \"https://cms.example/\"", "email.url"},
		"a link of another scheme":       {"[email]\nurl = \"javascript:alert(1)#{token}\"", "email.url"},
		"a relative folder of templates": {"[mail]\ntemplates = \"mails\"", `mail.templates: "mails" must be empty or the absolute path of a folder`},
		"an audit log of 0 entries":      {"[audit]\nmost = 0", "audit.most"},
		"an issuer with a colon":         {"[two_factor]\nissuer = \"my: site\"", "two_factor.issuer: must have 1 to 64 characters, no colon"},
		"a site of two lines":            {"[site]\nname = \"my\\nsite\"", "site.name: must have 1 to 64 characters, no control characters, and no spaces at its ends, or be empty"},
		"a site with a separator":        {"[site]\nname = \"my\\u2028site\"", "site.name"},
		"a site with spaces around":      {"[site]\nname = \"my site \"", "site.name"},
		"a site that is too long":        {"[site]\nname = \"" + strings.Repeat("ы", 65) + "\"", "site.name"},
		"an issuer that is too long":     {"[two_factor]\nissuer = \"" + strings.Repeat("a", 65) + "\"", "two_factor.issuer"},
		"a text for a switch":            {"[two_factor]\nenabled = \"yes\"", "two_factor.enabled"},
		"invalid TOML":                   {"session {", "line 1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := readSettings([]byte(test.file))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got error %v, want it to name %s", err, test.want)
			}
		})
	}
}

func TestSettings_ReportsAllInvalidKeys(t *testing.T) {
	_, _, err := readSettings([]byte("[session]\nidle = \"1ms\"\nabsolute = \"1ms\"\n[password]\nmin_length = 1"))
	for _, key := range []string{"session.idle", "session.absolute", "password.min_length"} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("got error %v, want it to name %s", err, key)
		}
	}
}

func TestSettings_PendingSecretsArePrunedAfterTheirLifetime(t *testing.T) {
	s, _, err := readSettings(nil)
	now := time.Now()
	if got, want := s.prune(now).PendingBefore, now.Add(-10*time.Minute); err != nil || !got.Equal(want) {
		t.Errorf("got %v (error %v), want %v", got, err, want)
	}
}

func TestSettings_NameOfTheSite(t *testing.T) {
	longest := strings.Repeat("ы", 64)
	for _, test := range []struct{ file, name, issuer string }{
		{"", "", "personal"},
		{"[site]\nname = \"\"\n[two_factor]\nissuer = \"\"", "", "personal"},
		{"[site]\nname = \"Fish & Chips\"", "Fish & Chips", "Fish & Chips"},
		{"[site]\nname = \"" + longest + "\"", longest, longest},
		{"[site]\nname = \"Fish: Chips\"", "Fish: Chips", "Fish Chips"},
		{"[site]\nname = \":\"", ":", "personal"},
		{"[site]\nname = \"Fish\"\n[two_factor]\nissuer = \"Chips\"", "Fish", "Chips"},
		{"[two_factor]\nissuer = \"Chips\"", "", "Chips"},
	} {
		s, _, err := readSettings([]byte(test.file))
		if err != nil {
			t.Errorf("%s: %v", test.file, err)
			continue
		}
		if rules := s.accounts(); rules.Site != test.name || rules.TwoFactorIssuer != test.issuer {
			t.Errorf("%s: got the site %q and the issuer %q, want %q and %q", test.file, rules.Site, rules.TwoFactorIssuer, test.name, test.issuer)
		}
	}
}

func TestSettings_LinksThatNoSettingNamesAreBuiltFromTheHostsURL(t *testing.T) {
	type links struct{ recovery, email, registration, deletion string }
	below := func(url string) links {
		return links{url + "/recover#token={token}", url + "/email#token={token}", url + "/email#token={token}",
			url + "/undo-delete#token={token}"}
	}
	const own = "https://cms.example/r#token={token}"
	partly := below("https://example.com/account")
	partly.recovery, partly.deletion = own, own
	for name, test := range map[string]struct {
		file, url string
		want      links
	}{
		"no URL":           {"", "", links{}},
		"no URL, settings": {"[recovery]\nurl = \"" + own + "\"", "", links{recovery: own}},
		"a URL":            {"", "https://example.com/account", below("https://example.com/account")},
		"a final slash":    {"", "http://127.0.0.1:8080/account/", below("http://127.0.0.1:8080/account")},
		"empty settings":   {"[recovery]\nurl = \"\"", "https://example.com", below("https://example.com")},
		"settings win":     {"[recovery]\nurl = \"" + own + "\"\n[deletion]\nurl = \"" + own + "\"", "https://example.com/account", partly},
	} {
		s, _, err := readSettings([]byte(test.file))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.linkTo(test.url); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		rules := s.accounts()
		if got := (links{rules.RecoveryURL, rules.EmailURL, rules.RegistrationURL, rules.DeletionURL}); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
	for _, wrong := range []string{"example.com", "/account", "ftp://example.com", "https://", "https://example.com/?a=b",
		"https://example.com/#a", "https://example.com/{token}"} {
		if err := new(settings).linkTo(wrong); err == nil || !strings.Contains(err.Error(), "the URL of the account pages") {
			t.Errorf("%s: got %v, want an error", wrong, err)
		}
	}
}
