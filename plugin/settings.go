package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/alecthomas/kong"
	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
	"golang.org/x/mod/semver"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/passkey"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/shared/durable"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// defaultSettings documents every key and defines the defaults.
//
//go:embed settings.toml
var defaultSettings []byte

// settings is the settings file.
type settings struct {
	Site struct {
		Name     string `toml:"name"`
		Requires string `toml:"requires"`
	} `toml:"site"`
	Session struct {
		Idle     duration `toml:"idle"`
		Absolute duration `toml:"absolute"`
		Grace    duration `toml:"grace"`

		VerifyCache   duration `toml:"verify_cache"`
		ProofLifetime duration `toml:"proof_lifetime"`
	} `toml:"session"`
	Password struct {
		MinLength int      `toml:"min_length"`
		Words     []string `toml:"words"`
		MemoryKiB uint32   `toml:"memory_kib"`
		Time      uint32   `toml:"time"`
		Threads   uint8    `toml:"threads"`
	} `toml:"password"`
	Login struct {
		WithEmail bool     `toml:"with_email"`
		Reserved  []string `toml:"reserved"`
	} `toml:"login"`
	SignIn struct {
		MailedCode bool `toml:"mailed_code"`
	} `toml:"sign_in"`
	Recovery struct {
		Lifetime           duration `toml:"lifetime"`
		InvitationLifetime duration `toml:"invitation_lifetime"`
		URL                string   `toml:"url"`
	} `toml:"recovery"`
	Email struct {
		URL string `toml:"url"`
	} `toml:"email"`
	Registration struct {
		EmailVerification    personal.EmailVerification `toml:"email_verification"`
		Enabled              bool                       `toml:"enabled"`
		VerificationLifetime duration                   `toml:"verification_lifetime"`
		UnverifiedLifetime   duration                   `toml:"unverified_lifetime"`
		URL                  string                     `toml:"url"`
	} `toml:"registration"`
	Mail struct {
		Notices   bool   `toml:"notices"`
		Templates string `toml:"templates"`
	} `toml:"mail"`
	Deletion struct {
		Grace duration `toml:"grace"`
		URL   string   `toml:"url"`
	} `toml:"deletion"`
	TwoFactor struct {
		Enabled bool   `toml:"enabled"`
		Issuer  string `toml:"issuer"`
	} `toml:"two_factor"`
	Passkeys struct {
		RPID    string   `toml:"rp_id"`
		Origins []string `toml:"origins"`
	} `toml:"passkeys"`
	Throttle struct {
		Enabled         bool  `toml:"enabled"`
		Guess           limit `toml:"guess"`
		GuessAddress    limit `toml:"guess_address"`
		GuessAccount    limit `toml:"guess_account"`
		SignInAddress   limit `toml:"sign_in_address"`
		SignInAccount   limit `toml:"sign_in_account"`
		SessionWrites   limit `toml:"session_writes"`
		Register        limit `toml:"register"`
		RegisterInvalid limit `toml:"register_invalid"`
		TakenEmail      limit `toml:"taken_email"`
		Recover         limit `toml:"recover"`
		RecoverAll      limit `toml:"recover_all"`
		Confirm         limit `toml:"confirm"`
	} `toml:"throttle"`
	Audit struct {
		Retention  duration `toml:"retention"`
		MaxEntries int      `toml:"most"`
		PerAccount int      `toml:"per_account"`
	} `toml:"audit"`
}

type limit struct {
	Burst int      `toml:"burst"`
	Every duration `toml:"every"`
}

// duration is written as text: "90s".
type duration time.Duration

// UnmarshalText reads a Go duration.
func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration; write it like 90s, 15m or 24h", text)
	}
	*d = duration(parsed)
	return nil
}

// UnmarshalTOML reads a duration as it is in a settings file. The decoder would else take a
// number for nanoseconds.
func (d *duration) UnmarshalTOML(value []byte) error {
	if err := d.UnmarshalText(bytes.Trim(value, "\"'")); err != nil {
		return unstable.NewParserError(value, "%s", err)
	}
	return nil
}

// readSettings returns the defaults with the changes of a settings file, and the keys of the
// file that this version does not know. Its error names every invalid value.
func readSettings(file []byte) (s settings, unknown []rpc.UnknownSetting, err error) {
	if _, err := decodeSettings(defaultSettings, &s); err != nil {
		return s, nil, fmt.Errorf("default settings: %w", err)
	}
	unknown, err = decodeSettings(file, &s)
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return s, nil, fmt.Errorf("settings: %w", err)
	}
	return s, unknown, nil
}

// settingsFile is the content of the settings file that a command is given.
type settingsFile []byte

// AfterApply warns of keys that this version does not know.
func (f settingsFile) AfterApply(app *kong.Kong) error {
	_, unknown, err := readSettings(f)
	for _, key := range unknown {
		fmt.Fprintln(app.Stderr, "unknown key in the settings file, it is ignored:", key)
	}
	return err
}

// knownSettings returns the keys of all settings and sections.
func knownSettings() []string { return settingKeys(reflect.TypeFor[settings](), "") }

// settingKeys returns the keys of all settings and sections in a struct.
func settingKeys(t reflect.Type, prefix string) (keys []string) {
	for field := range t.Fields() {
		key := prefix + field.Tag.Get("toml")
		keys = append(keys, key)
		if field.Type.Kind() == reflect.Struct {
			keys = append(keys, settingKeys(field.Type, key+".")...)
		}
	}
	return keys
}

// closest returns the known key with the fewest edits from key, "" if none is at most two
// away: enough for letters in the wrong order.
func closest(key string, known []string) (meant string) {
	fewest := 3
	for _, k := range known {
		if n := edits(key, k); n < fewest {
			meant, fewest = k, n
		}
	}
	return meant
}

// edits returns how many bytes must be inserted, removed or replaced to make b of a
// (Levenshtein distance).
func edits(a, b string) int {
	row := make([]int, len(b)+1) // from the part of a so far to each beginning of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// decodeSettings changes what the file sets, and returns the keys that this version does not
// know.
func decodeSettings(file []byte, s *settings) (unknown []rpc.UnknownSetting, err error) {
	if file, err = durable.Text(file); err != nil { // a CMS may have read it
		return nil, err
	}
	err = toml.NewDecoder(bytes.NewReader(file)).DisallowUnknownFields().EnableUnmarshalerInterface().Decode(s)
	var missing *toml.StrictMissingError
	var wrong *toml.DecodeError
	switch {
	case errors.As(err, &missing):
		known := knownSettings()
		for _, e := range missing.Errors {
			key := keyName(e.Key())
			unknown = append(unknown, rpc.UnknownSetting{Key: key, Meant: closest(key, known)})
		}
		return unknown, nil
	case errors.As(err, &wrong):
		line, column := wrong.Position()
		return nil, fmt.Errorf("%s: line %d, column %d: %s", keyName(wrong.Key()), line, column, wrong.Error())
	}
	return nil, err
}

func keyName(k toml.Key) string { return cmp.Or(strings.Join(k, "."), "file") }

// check returns an error for every value out of its range.
func (s settings) check() error {
	var invalid []error
	require := func(ok bool, key, rule string) {
		if !ok {
			invalid = append(invalid, fmt.Errorf("%s: %s", key, rule))
		}
	}
	minSecond := func(key string, d duration) {
		require(time.Duration(d) >= time.Second, key, "must be 1s or longer")
	}
	between := func(key string, v, low, high int) {
		require(v >= low && v <= high, key, fmt.Sprintf("must be from %d to %d", low, high))
	}
	require(validName(s.Site.Name, mailtext.MaxSite), "site.name",
		fmt.Sprintf("must have 1 to %d characters, no control characters, and no spaces at its ends, or be empty", mailtext.MaxSite))
	require(s.Site.Requires == "" || semver.Canonical("v"+s.Site.Requires) == "v"+s.Site.Requires, "site.requires",
		"must be a version such as 0.3.0, or empty")
	minSecond("session.idle", s.Session.Idle)
	minSecond("session.absolute", s.Session.Absolute)
	minSecond("session.grace", s.Session.Grace)
	require(0 <= s.Session.VerifyCache && time.Duration(s.Session.VerifyCache) <= time.Minute, "session.verify_cache",
		"must be from 0s to 60s")
	proof := time.Duration(s.Session.ProofLifetime)
	require(time.Minute <= proof && proof <= 15*time.Minute, "session.proof_lifetime", "must be from 1m to 15m")
	minSecond("recovery.lifetime", s.Recovery.Lifetime)
	minSecond("recovery.invitation_lifetime", s.Recovery.InvitationLifetime)
	between("password.min_length", s.Password.MinLength, 8, 256)
	for _, err := range []error{password.ValidateWords(s.Password.Words), s.password().Validate()} {
		if err != nil {
			invalid = append(invalid, fmt.Errorf("password.%w", err))
		}
	}
	require(validLink(s.Recovery.URL), "recovery.url", "must be empty or an http(s) URL with {token} once, after a #")
	require(validLink(s.Email.URL), "email.url", "must be empty or an http(s) URL with {token} once, after a #")
	verification := s.Registration.EmailVerification
	require(slices.Contains([]personal.EmailVerification{personal.VerificationOff, personal.VerificationOptional,
		personal.VerificationRequired}, verification),
		"registration.email_verification", "must be off, optional or required")
	minSecond("registration.verification_lifetime", s.Registration.VerificationLifetime)
	minSecond("registration.unverified_lifetime", s.Registration.UnverifiedLifetime)
	require(validLink(s.Registration.URL), "registration.url", "must be empty or an http(s) URL with {token} once, after a #")
	require(s.Mail.Templates == "" || filepath.IsAbs(s.Mail.Templates), "mail.templates",
		fmt.Sprintf("%q must be empty or the absolute path of a folder, like /etc/personal/mails", s.Mail.Templates))
	minSecond("deletion.grace", s.Deletion.Grace)
	require(validLink(s.Deletion.URL), "deletion.url", "must be empty or an http(s) URL with {token} once, after a #")
	issuer := s.TwoFactor.Issuer // authenticator apps take a colon for the end of it
	require(validName(issuer, maxIssuer) && !strings.Contains(issuer, ":"), "two_factor.issuer",
		fmt.Sprintf("must have 1 to %d characters, no colon and no control characters, or be empty", maxIssuer))
	for _, err := range []error{passkey.ValidateID(s.Passkeys.RPID), passkey.ValidateOrigins(s.Passkeys.RPID, s.Passkeys.Origins)} {
		if err != nil {
			invalid = append(invalid, fmt.Errorf("passkeys.%w", err))
		}
	}
	for _, l := range s.limits() {
		key := "throttle." + l.Name
		between(key+".burst", l.Burst, 1, 100_000)
		minSecond(key+".every", duration(l.Every))
		require(l.Every <= 24*time.Hour, key+".every", "must be 24h or shorter")
	}
	require(time.Duration(s.Audit.Retention) >= time.Hour, "audit.retention",
		"must be 1h or longer: events wait for the host for this time, too")
	between("audit.most", s.Audit.MaxEntries, 1000, 1_000_000_000)
	between("audit.per_account", s.Audit.PerAccount, 10, 1_000_000)
	require(len(s.Login.Reserved) <= maxReserved, "login.reserved", fmt.Sprintf("must have at most %d logins", maxReserved))
	for _, login := range s.Login.Reserved {
		_, code := accounts.LoginKey(login)
		require(code == "" || code == personal.FieldErrorTooShort, "login.reserved",
			fmt.Sprintf("%q cannot be a login (%s): remove it", login, code))
	}
	return errors.Join(invalid...)
}

// maxIssuer bounds two_factor.issuer, in characters: authenticator apps show it in one line.
const maxIssuer = 64

// validName reports whether a name is empty, or one line of at most so many characters.
func validName(name string, most int) bool {
	return utf8.RuneCountInString(name) <= most && strings.TrimSpace(name) == name && utf8.ValidString(name) &&
		!strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp) })
}

// issuer returns the name of the site in authenticator apps.
func (s settings) issuer() string {
	site := strings.Join(strings.Fields(strings.ReplaceAll(s.Site.Name, ":", " ")), " ")
	return cmp.Or(s.TwoFactor.Issuer, site, "personal")
}

// linkTo makes pages below the URL of the host's account pages the links in mails that no setting
// names. It changes nothing if the URL is empty.
func (s *settings) linkTo(accountURL string) error {
	if accountURL == "" {
		return nil
	}
	pages := strings.TrimSuffix(accountURL, "/")
	if strings.ContainsAny(pages, "?#") || !validLink(pages+"#{token}") {
		return errors.New("the URL of the account pages, which the host names, must be an http(s) URL without query and fragment")
	}
	for _, link := range []struct {
		url  *string
		page string
	}{
		{&s.Recovery.URL, "recover"}, {&s.Email.URL, "email"}, {&s.Registration.URL, "email"}, {&s.Deletion.URL, "undo-delete"},
	} {
		*link.url = cmp.Or(*link.url, pages+"/"+link.page+"#token={token}")
	}
	return nil
}

// validLink reports whether a template of links is valid. The token must be in the
// fragment, which browsers do not send: so it is in no server's log and no Referer
// header.
func validLink(template string) bool {
	if template == "" {
		return true
	}
	before, fragment, found := strings.Cut(template, "#")
	u, err := url.Parse(before)
	return found && err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" &&
		!strings.Contains(before, "{token}") && strings.Count(fragment, "{token}") == 1
}

// accounts returns the settings of the accounts service.
func (s settings) accounts() accounts.Settings {
	return accounts.Settings{
		SessionIdle:        time.Duration(s.Session.Idle),
		SessionAbsolute:    time.Duration(s.Session.Absolute),
		SupersededGrace:    time.Duration(s.Session.Grace),
		VerifyCache:        time.Duration(s.Session.VerifyCache),
		ProofLifetime:      time.Duration(s.Session.ProofLifetime),
		MinPassword:        s.Password.MinLength,
		PasswordWords:      s.Password.Words,
		RecoveryLifetime:   time.Duration(s.Recovery.Lifetime),
		InvitationLifetime: time.Duration(s.Recovery.InvitationLifetime),
		RecoveryURL:        s.Recovery.URL,
		EmailURL:           s.Email.URL,
		LoginWithEmail:     s.Login.WithEmail,
		ReservedLogins:     s.reservedKeys(),

		EmailVerification:    s.emailVerification(),
		RegistrationURL:      s.Registration.URL,
		VerificationLifetime: time.Duration(s.Registration.VerificationLifetime),
		UnverifiedLifetime:   time.Duration(s.Registration.UnverifiedLifetime),
		Notices:              s.Mail.Notices,
		DeletionGrace:        time.Duration(s.Deletion.Grace),
		DeletionURL:          s.Deletion.URL,
		TwoFactor:            s.TwoFactor.Enabled,
		TwoFactorIssuer:      s.issuer(),
		Site:                 s.Site.Name,
		MailedCode:           s.SignIn.MailedCode,
		Passkeys:             passkey.Site{ID: s.Passkeys.RPID, Name: s.Site.Name, Origins: s.Passkeys.Origins},

		Throttle: s.throttle(),
	}
}

// throttle returns the rate limits of the accounts service, which has them in fields of the same
// names as the section.
func (s settings) throttle() accounts.Throttle {
	t := accounts.Throttle{Enabled: s.Throttle.Enabled}
	for field, l := range s.limits() {
		reflect.ValueOf(&t).Elem().FieldByName(field).Set(reflect.ValueOf(l))
	}
	return t
}

// limits are the limits of the section throttle by their fields; each has its key as name.
func (s settings) limits() iter.Seq2[string, throttle.Limit] {
	return func(yield func(string, throttle.Limit) bool) {
		for field, value := range reflect.ValueOf(s.Throttle).Fields() {
			l, ok := value.Interface().(limit)
			if ok && !yield(field.Name, throttle.Limit{Burst: l.Burst, Every: time.Duration(l.Every), Name: field.Tag.Get("toml")}) {
				return
			}
		}
	}
}

// emailVerification is registration.email_verification, of which "required" takes effect with
// registration.enabled only.
func (s settings) emailVerification() personal.EmailVerification {
	if v := s.Registration.EmailVerification; v != personal.VerificationRequired || s.Registration.Enabled {
		return v
	}
	return personal.VerificationOptional
}

// maxReserved bounds login.reserved.
const maxReserved = 1000

// reservedKeys returns the reserved logins in the form in which logins are compared.
func (s settings) reservedKeys() (keys []string) {
	for _, login := range s.Login.Reserved {
		if key, code := accounts.LoginKey(login); code == "" { // shorter ones cannot be registered anyway
			keys = append(keys, key)
		}
	}
	return keys
}

// prune returns what may be removed at a time.
func (s settings) prune(now time.Time) store.PruneOptions {
	return store.PruneOptions{
		Lifetimes:          s.accounts().Lifetimes(now),
		MailsBefore:        now.Add(-accounts.MailWindow),
		PendingBefore:      now.Add(-accounts.PendingFactorLifetime),
		AttemptsBefore:     now.Add(-passkey.AttemptLifetime),
		AddressesBefore:    now.Add(-s.accounts().KnownAddressLifetime()),
		CodesBefore:        now.Add(-personal.RefusedCodeWindow),
		AuditBefore:        now.Add(-time.Duration(s.Audit.Retention)),
		MaxAudit:           s.Audit.MaxEntries,
		MaxAuditPerAccount: s.Audit.PerAccount,
	}
}

// password returns the costs of new hashes.
func (s settings) password() password.Params {
	return password.Params{MemoryKiB: s.Password.MemoryKiB, Time: s.Password.Time, Threads: s.Password.Threads}
}
