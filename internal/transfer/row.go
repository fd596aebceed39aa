package transfer

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/language"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

// The columns that are not user fields. Only NDJSON has fields, two_factor, passkeys and
// identities, as an export writes them.
const (
	columnID       = "id"
	columnLogin    = "login"
	columnEmail    = "email"
	columnName     = "name"
	columnHash     = "password_hash"
	columnSalt     = "password_salt" // of a hash that does not hold its own
	columnForm     = "hash_form"     // how such a hash was made, see [password.AdoptForm]
	columnDisabled = "disabled"
	columnCreated  = "created"
	columnUpdated  = "updated"
	columnFields   = "fields"
	columnVerified = "email_verified"
	columnLocale   = "locale"
	columnEraseAt  = "erase_at"
	columnFactor   = "two_factor"
	columnPasskeys = "passkeys"
	columnIdentity = "identities"

	columnNames = "id, login, email, email_verified, name, password_hash, password_salt, hash_form, disabled, erase_at, locale, created, updated"
	onlyNDJSON  = columnFactor + ", " + columnPasskeys + ", " + columnIdentity
)

func isColumn(name string) bool {
	return slices.Contains(strings.Split(columnNames+", "+onlyNDJSON, ", "), name)
}

// CheckSchema returns an error if a user field has the name of a column that no user
// field can have.
func CheckSchema(schema *userfields.Schema) error {
	if names := fieldNames(schema); names[columnHash] || names[columnFields] {
		return errors.New("a user field named password_hash or fields cannot be imported: a column has this name")
	}
	return nil
}

func fieldNames(schema *userfields.Schema) map[string]bool {
	names := map[string]bool{}
	for _, f := range schema.Fields() {
		names[f.Name] = true
	}
	return names
}

const (
	maxID           = 1<<53 - 1 // the highest id, and integer, of the HTTP contract
	maxImported     = 1 << 52   // the highest id that is imported: the database assigns those after it to later accounts
	maxColumnErrors = 20        // columns in a reason
)

// row returns the account of a record and what the record says beside it, or the reason to
// refuse it. The reason names the invalid columns, 20 at most, and holds no values. The secret of the
// factor is still unchecked.
func (m *Import) row(r record) (a accounts.Account, o origin, reason string) {
	o = origin{line: r.line, label: r.label, renamed: r.renamed, logins: r.logins, doubled: r.doubled, escaped: r.escaped, cut: r.changed, left: r.left}
	if r.invalid != "" {
		return a, o, r.invalid
	}
	in := maps.Clone(r.columns)
	take := func(name string) personal.Input {
		v := in[name]
		delete(in, name)
		return v
	}
	var invalid personal.FieldErrors
	a = accounts.Account{CredentialVersion: 1, ID: readID(take(columnID), &invalid)}
	a.Email = readEmail(o.trimmed(take(columnEmail)), &invalid)
	a.Login = readText(columnLogin, o.trimmed(take(columnLogin)), &invalid)
	a.LoginKey = loginKey(a, &invalid)
	a.Name = userfields.ParseName(take(columnName), &invalid)
	a.Locale = readLocale(take(columnLocale), &invalid)
	a.Disabled = readBoolean(columnDisabled, take(columnDisabled), &invalid)
	a.Created = readTime(columnCreated, take(columnCreated), m.Store.Now(), &invalid)
	a.Updated = readTime(columnUpdated, take(columnUpdated), a.Created, &invalid)
	a.EmailVerified = readBoolean(columnVerified, take(columnVerified), &invalid)
	if a.EmailVerified && a.Email.Address == "" {
		invalid.Add(columnEmail, personal.FieldErrorRequired)
		a.EmailVerified = false
	}
	a.EraseAt = readTime(columnEraseAt, take(columnEraseAt), time.Time{}, &invalid)
	if !a.EraseAt.IsZero() && !a.Disabled {
		invalid.Add(columnDisabled, personal.FieldErrorRequired)
	}
	var badHash error
	salt := readText(columnSalt, take(columnSalt), &invalid)
	form := cmp.Or(strings.TrimSpace(readText(columnForm, take(columnForm), &invalid)), m.HashForm)
	switch hash := take(columnHash); hash.Kind {
	case personal.InputUnset:
		invalid.Add(columnHash, personal.FieldErrorRequired)
	case personal.InputText:
		text := hash.Text
		if hexDigits(text) == 0 { // else white space may be that of a salt
			text = strings.TrimSpace(text)
		}
		a.PasswordHash, badHash = password.AdoptForm(text, salt, form)
		o.digits, o.form = hexDigits(text), form
	default:
		invalid.Add(columnHash, personal.FieldErrorInvalidType)
	}
	take(columnFactor)
	take(columnPasskeys)
	take(columnIdentity)
	var badFactor, badPasskeys, badIdentities error
	o.factor, badFactor = readFactor(r.factor)
	o.passkeys, badPasskeys = readPasskeys(r.keys, o.factor != nil)
	o.identities, badIdentities = readIdentities(r.identities)
	if password.IsUnusable(a.PasswordHash) && a.Email.Key == "" && len(o.passkeys) == 0 &&
		len(o.identities) == 0 { // no one could ever sign in
		invalid.Add(columnEmail, personal.FieldErrorRequired)
	}
	maps.Copy(in, r.fields)
	for _, f := range m.fields {
		if v := in[f.Name]; v.Kind == personal.InputText {
			in[f.Name] = personal.Text(meant(f.Type, v.Text))
		}
	}
	maps.DeleteFunc(in, func(_ string, v personal.Input) bool { return v.IsZero() }) // unset values
	a.Fields = r.stored.Merge(m.Schema.Administer(in, &invalid))
	var all map[string]string
	if len(invalid)+len(r.bad) > 0 {
		all = make(map[string]string, len(invalid)+len(r.bad))
		for name, code := range invalid {
			all[name] = string(code)
		}
		maps.Copy(all, r.bad) // stands for what follows from the missing value
		if !m.Strict {
			left := m.leave(all, a)
			maps.Copy(left, o.left)
			o.left = left
		}
	}
	return a, o, reasons(all, badHash, badFactor, badPasskeys, badIdentities)
}

// leave takes the reasons out of all for which no user is refused: the account, which has no such
// value, can do without it. Never the login, nor what disables an account.
func (m *Import) leave(all map[string]string, a accounts.Account) map[string]string {
	left := map[string]string{}
	for name, reason := range all {
		switch isField := m.Schema.Has(name); name {
		case columnName, columnLocale, columnCreated, columnUpdated, columnVerified:
			if isField { // of which of the two it is said
				continue
			}
		case columnEmail:
			if !password.Verifiable(a.PasswordHash) {
				continue
			}
		default:
			if !isField || isColumn(name) {
				continue
			}
		}
		left[name] = reason
		delete(all, name)
	}
	return left
}

// reasons lists the errors of columns, sorted by name, and those of the hash and of what only
// NDJSON has.
func reasons(all map[string]string, badHash error, bad ...error) string {
	var list []string
	for i, name := range slices.Sorted(maps.Keys(all)) {
		if i == maxColumnErrors {
			list = append(list, fmt.Sprintf("%d more columns are invalid", len(all)-i))
			break
		}
		list = append(list, shown(name)+": "+all[name])
	}
	if badHash != nil {
		list = append(list, columnHash+": "+badHash.Error())
	}
	for _, err := range bad {
		if err != nil {
			list = append(list, err.Error())
		}
	}
	return strings.Join(list, "; ")
}

// shown returns a column's name for a report: quoted if it could forge a line.
func shown(name string) string {
	if quoted := fmt.Sprintf("%.40q", name); quoted != `"`+name+`"` {
		return quoted
	}
	return name
}

// trimmed returns a login or an e-mail as it is meant (see [personal.Typed]), and remembers whether it was another text.
func (o *origin) trimmed(in personal.Input) personal.Input {
	if in.Kind != personal.InputText {
		return in
	}
	text := personal.Typed(in.Text)
	o.cut = o.cut || text != in.Text
	return personal.Text(text)
}

func readText(column string, in personal.Input, invalid *personal.FieldErrors) string {
	if !in.IsZero() && in.Kind != personal.InputText {
		invalid.Add(column, personal.FieldErrorInvalidType)
	}
	return in.Text
}

func readID(in personal.Input, invalid *personal.FieldErrors) int64 {
	if in.IsZero() {
		return 0
	}
	id, err := strconv.ParseInt(in.Text, 10, 64)
	switch {
	case err != nil || strconv.FormatInt(id, 10) != in.Text:
		invalid.Add(columnID, personal.FieldErrorInvalidType)
	case id < 1 || id > maxImported:
		invalid.Add(columnID, personal.FieldErrorOutOfRange)
	}
	return id
}

// readEmail reads an address. An imported account may have none.
func readEmail(in personal.Input, invalid *personal.FieldErrors) accounts.Email {
	text := readText(columnEmail, in, invalid)
	if text == "" {
		return accounts.Email{}
	}
	email, code := accounts.ParseEmail(text)
	if code != "" {
		invalid.Add(columnEmail, code)
		return accounts.Email{}
	}
	return email
}

// loginKey returns the key of a login. A login with an @ must be the account's own
// e-mail (HTTP contract, section 3, register).
func loginKey(a accounts.Account, invalid *personal.FieldErrors) string {
	if strings.Contains(a.Login, "@") {
		email, code := accounts.ParseEmail(a.Login)
		if code != "" || email.Key != a.Email.Key {
			invalid.Add(columnLogin, personal.FieldErrorInvalidFormat)
		}
		return email.Key
	}
	key, code := accounts.LoginKey(a.Login)
	if code != "" {
		invalid.Add(columnLogin, code)
	}
	return key
}

func readBoolean(column string, in personal.Input, invalid *personal.FieldErrors) bool {
	value, ok := parseBoolean(in.Text)
	if !ok && !in.IsZero() {
		invalid.Add(column, personal.FieldErrorInvalidType)
	}
	return value
}

// parseBoolean reads the words that systems write.
func parseBoolean(text string) (value, ok bool) {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "false", "0", "off", "no", "f", "n":
		return false, true
	case "true", "1", "on", "yes", "t", "y":
		return true, true
	}
	return false, false
}

// meant returns the text of a user field as its type writes it; "" for a time that is none. Other texts stay
// as they are.
func meant(of personal.FieldType, text string) string {
	switch of {
	case personal.TypeBoolean:
		if value, ok := parseBoolean(text); ok {
			return strconv.FormatBool(value)
		}
	case personal.TypeDate, personal.TypeDateTime:
		trimmed := strings.TrimSpace(text)
		t, ok := parseTime(trimmed)
		switch {
		case isNoTime(trimmed):
			return ""
		case ok && of == personal.TypeDate: // as it is in its time zone
			return t.Format(time.DateOnly)
		case ok:
			return t.UTC().Format(time.RFC3339Nano)
		}
	}
	return text
}

// readLocale reads a BCP 47 tag or a list of them, as accounts keep it.
func readLocale(in personal.Input, invalid *personal.FieldErrors) string {
	text := readText(columnLocale, in, invalid)
	if text == "" {
		return ""
	}
	if _, _, err := language.ParseAcceptLanguage(text); err != nil || len(text) > accounts.MaxLanguages {
		invalid.Add(columnLocale, personal.FieldErrorInvalidFormat)
		return ""
	}
	return text
}

// timeLayouts are common forms of times. Without a zone a time is UTC. A fraction of
// a second is accepted with every layout.
var timeLayouts = []string{
	time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05Z07", "2006-01-02 15:04:05Z07:00", time.DateTime, time.DateOnly, compactTime, compactDate,
	"2006-01-02 15:04:05Z0700", "2006-01-02 15:04:05 Z0700", "2006-01-02 15:04:05 UTC", "2006-01-02 15:04", "2.1.2006", "2.1.2006 15:04", "2.1.2006 15:04:05",
}

// Digits of these lengths are no seconds.
const (
	compactTime = "20060102150405" // of MediaWiki
	compactDate = "20060102"
)

// readTime reads a time in one of the layouts above, or in seconds or milliseconds since 1970. It returns
// the other one if there is none, or an invalid one.
func readTime(column string, in personal.Input, otherwise time.Time, invalid *personal.FieldErrors) time.Time {
	text := strings.TrimSpace(in.Text)
	if in.IsZero() || isNoTime(text) {
		return otherwise
	}
	t, ok := parseTime(text)
	switch {
	case !ok:
		invalid.Add(column, personal.FieldErrorInvalidFormat)
	case isZeroTime(t):
	case !storableTime(t):
		invalid.Add(column, personal.FieldErrorOutOfRange)
	default:
		return t.UTC()
	}
	return otherwise
}

// isZeroTime reports whether a time is the start of 1970 in some time zone, which systems write for none.
func isZeroTime(t time.Time) bool {
	return -day < t.Sub(time.Unix(0, 0)) && t.Sub(time.Unix(0, 0)) < day && t.Truncate(15*time.Minute).Equal(t)
}

const day = 24 * time.Hour

// isNoTime reports whether databases write a text in the place of a missing time: MySQL nothing but zeros, .NET the
// year 1, SMF the year 1004, PostgreSQL -infinity.
func isNoTime(text string) bool {
	return strings.Trim(text, "0-: .TZ") == "" || strings.HasPrefix(text, "0001-01-01") || strings.HasPrefix(text, "1004-01-01") || strings.Trim(text, "-") == "infinity"
}

func storableTime(t time.Time) bool {
	return t.Year() >= 1970 && t.Year() <= 9999 && t.UnixMicro() > 0
}

func parseTime(text string) (time.Time, bool) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && len(text) > len(compactDate) && len(text) != len(compactTime) {
		switch len(text) {
		case 9, 10:
			return time.Unix(n, 0).UTC(), true
		case 13:
			return time.UnixMilli(n).UTC(), true
		}
		return time.Time{}, false
	}
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t.Truncate(time.Microsecond), true
		}
	}
	return time.Time{}, false
}

// hexDigits returns the number of hexadecimal digits of a hash that has nothing else, but a salt
// after a colon; else 0.
func hexDigits(hash string) int {
	digits, _, _ := strings.Cut(hash, ":")
	if len(digits) < 32 || digits[0] == '$' || strings.Trim(digits, "0123456789abcdefABCDEF") != "" {
		return 0
	}
	return len(digits)
}
