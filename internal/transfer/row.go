package transfer

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

// The columns that are not user fields. Fields is of NDJSON only, as an export
// writes it.
const (
	columnID       = "id"
	columnLogin    = "login"
	columnEmail    = "email"
	columnName     = "name"
	columnHash     = "password_hash"
	columnDisabled = "disabled"
	columnCreated  = "created"
	columnUpdated  = "updated"
	columnFields   = "fields"

	columnNames = "id, login, email, name, password_hash, disabled, created, updated"
)

func isColumn(name string) bool {
	return slices.Contains(strings.Split(columnNames, ", "), name)
}

// CheckSchema returns an error if a user field has the name of a column.
func CheckSchema(schema *userfields.Schema) error {
	if names := fieldNames(schema); names[columnHash] || names[columnFields] {
		return errors.New("a user field named password_hash or fields can't be imported: that is a column of its own")
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

const maxID = 1<<53 - 1 // the highest id, and integer, of the HTTP contract

// row makes an account of a record. The reason names every column at fault and
// no value; it is "" if there is none.
func row(r record, schema *userfields.Schema, now time.Time) (a accounts.Account, reason string) {
	if r.fault != "" {
		return a, r.fault
	}
	in := maps.Clone(r.columns)
	take := func(name string) personal.Input {
		v := in[name]
		delete(in, name)
		return v
	}
	var faults personal.FieldErrors
	a = accounts.Account{CredentialVersion: 1, ID: readID(take(columnID), &faults)}
	a.Email = readEmail(take(columnEmail), &faults)
	a.Login = readText(columnLogin, take(columnLogin), &faults)
	a.LoginKey = loginKey(a, &faults)
	a.Name = userfields.ParseName(take(columnName), &faults)
	a.Disabled = readBoolean(take(columnDisabled), &faults)
	a.Created = readTime(columnCreated, take(columnCreated), now, &faults)
	a.Updated = readTime(columnUpdated, take(columnUpdated), a.Created, &faults)
	var badHash error
	switch hash := take(columnHash); hash.Kind {
	case personal.InputUnset:
		faults.Add(columnHash, personal.FieldErrorRequired)
	case personal.InputText:
		a.PasswordHash, badHash = password.Adopt(hash.Text)
	default:
		faults.Add(columnHash, personal.FieldErrorInvalidType)
	}
	if password.IsUnusable(a.PasswordHash) && a.Email.Key == "" { // nobody could ever sign in
		faults.Add(columnEmail, personal.FieldErrorRequired)
	}
	maps.DeleteFunc(in, func(_ string, v personal.Input) bool { return v.IsZero() }) // not set
	a.Fields = r.stored.Merge(schema.Administer(in, &faults))
	return a, reasons(faults, badHash)
}

// reasons lists what is wrong, sorted.
func reasons(faults personal.FieldErrors, badHash error) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		list = append(list, shown(name)+": "+string(faults[name]))
	}
	if badHash != nil {
		list = append(list, columnHash+": "+badHash.Error())
	}
	return strings.Join(list, "; ")
}

// shown is a column's name in a report, where one made up to forge a line does not.
func shown(name string) string {
	if quoted := fmt.Sprintf("%.40q", name); quoted != `"`+name+`"` {
		return quoted
	}
	return name
}

func readText(column string, in personal.Input, faults *personal.FieldErrors) string {
	if !in.IsZero() && in.Kind != personal.InputText {
		faults.Add(column, personal.FieldErrorInvalidType)
	}
	return in.Text
}

func readID(in personal.Input, faults *personal.FieldErrors) int64 {
	if in.IsZero() {
		return 0
	}
	id, err := strconv.ParseInt(in.Text, 10, 64)
	switch {
	case err != nil || strconv.FormatInt(id, 10) != in.Text:
		faults.Add(columnID, personal.FieldErrorInvalidType)
	case id < 1 || id > maxID:
		faults.Add(columnID, personal.FieldErrorOutOfRange)
	}
	return id
}

// readEmail reads an address; an account from elsewhere may have none.
func readEmail(in personal.Input, faults *personal.FieldErrors) accounts.Email {
	text := readText(columnEmail, in, faults)
	if text == "" {
		return accounts.Email{}
	}
	email, fault := accounts.ParseEmail(text)
	if fault != "" {
		faults.Add(columnEmail, fault)
	}
	return email
}

// loginKey allows an @ in the account's own e-mail only (HTTP contract, section
// 3, register).
func loginKey(a accounts.Account, faults *personal.FieldErrors) string {
	if strings.Contains(a.Login, "@") {
		email, fault := accounts.ParseEmail(a.Login)
		if fault != "" || email.Key != a.Email.Key {
			faults.Add(columnLogin, personal.FieldErrorInvalidFormat)
		}
		return email.Key
	}
	key, fault := accounts.LoginKey(a.Login)
	if fault != "" {
		faults.Add(columnLogin, fault)
	}
	return key
}

func readBoolean(in personal.Input, faults *personal.FieldErrors) bool {
	if in.IsZero() {
		return false
	}
	switch strings.ToLower(in.Text) {
	case "false", "0", "off", "no", "f", "n":
		return false
	case "true", "1", "on", "yes", "t", "y":
		return true
	}
	faults.Add(columnDisabled, personal.FieldErrorInvalidType)
	return false
}

// timeForms are what databases and programs write; without a zone it is UTC. A
// fraction of a second is read whether or not a form has one.
var timeForms = []string{
	time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05Z07", "2006-01-02 15:04:05Z07:00", time.DateTime, time.DateOnly,
}

const noTime = "0000-00-00 00:00:00" // as MySQL writes it

// readTime reads a time in one of the forms above or in seconds since 1970.
func readTime(column string, in personal.Input, otherwise time.Time, faults *personal.FieldErrors) time.Time {
	if in.IsZero() || in.Text == noTime {
		return otherwise
	}
	t, ok := parseTime(in.Text)
	if !ok {
		faults.Add(column, personal.FieldErrorInvalidFormat)
	} else if year := t.Year(); year < 1970 || year > 9999 || t.UnixMicro() <= 0 {
		faults.Add(column, personal.FieldErrorOutOfRange)
	}
	return t
}

func parseTime(text string) (time.Time, bool) {
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil {
		return time.Unix(seconds, 0).UTC(), true
	}
	for _, form := range timeForms {
		if t, err := time.Parse(form, text); err == nil {
			return t.UTC().Truncate(time.Microsecond), true
		}
	}
	return time.Time{}, false
}
