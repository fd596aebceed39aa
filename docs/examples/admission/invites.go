package admission

import (
	"context"
	"database/sql"
	"net/mail"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cms-personal/personal/shared/personal"
)

// CreateInvites makes the table of invites. To invite a user, insert crypto/rand.Text().
const CreateInvites = `CREATE TABLE invites (code TEXT PRIMARY KEY, login TEXT, email TEXT, taken BIGINT)`

// Invites lets in only those who register with an invite code, the parameter invite.
type Invites struct{ DB *sql.DB }

// takeInvite gives an invite to the first login and e-mail that are registered with it, for
// an hour.
const takeInvite = `UPDATE invites SET login = ?, email = ?, taken = COALESCE(taken, ?)
	WHERE code = ? AND (email IS NULL OR login = ? AND email = ? AND taken > ?)`

// Judge takes the invite before the module registers the user. If the module then refuses
// the registration, because of a weak password for example, the user can try again with the
// same login and e-mail.
func (i *Invites) Judge(ctx context.Context, r personal.AdmissionRequest) error {
	if !r.Registers() {
		return nil
	}
	code := personal.TransientFrom(ctx)["invite"]
	if code == "" {
		return personal.FieldErrors{"invite": personal.FieldErrorRequired}.Err()
	}
	var wrong personal.FieldErrors // the module refuses these, so they must not take the invite
	if utf8.RuneCountInString(r.Login) < 3 {
		wrong.Add("login", personal.FieldErrorTooShort)
	}
	if !plain(r.Email) {
		wrong.Add("email", personal.FieldErrorInvalidFormat)
	}
	if err := wrong.Err(); err != nil {
		return err
	}
	email, now := strings.ToLower(r.Email), time.Now()
	result, err := i.DB.ExecContext(ctx, takeInvite, r.Login, email, now.Unix(), code, r.Login, email, now.Add(-time.Hour).Unix())
	if err != nil {
		return err // 503
	}
	switch taken, err := result.RowsAffected(); {
	case err != nil:
		return err
	case taken == 0:
		return unknownInvite()
	}
	return nil
}

// unknownInvite is the decision about an invite that is unknown or has been used.
func unknownInvite() error {
	return &personal.AdmissionError{FieldErrors: map[string]personal.AdmissionFieldError{
		"invite": {Code: personal.FieldErrorMismatch, Text: personal.LocalText{
			"en": "This invite is unknown or has been used.",
			"ru": "Такого приглашения нет, или оно уже использовано.",
		}},
	}}
}

// plain reports whether a text is an e-mail address without a name, spaces or comments,
// with a domain of two parts at least.
func plain(email string) bool {
	address, err := mail.ParseAddress(email)
	_, domain, _ := strings.Cut(email, "@")
	return err == nil && address.Address == email && strings.Contains(domain, ".")
}
