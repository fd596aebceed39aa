package admission

import (
	"context"
	"database/sql"
	"net/mail"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// CreateInvites makes the table of invites. To invite a user, insert crypto/rand.Text().
const CreateInvites = `CREATE TABLE invites (code TEXT PRIMARY KEY, email TEXT, taken BIGINT)`

// Invites lets in only those who register with an invite code, the parameter invite.
type Invites struct{ DB *sql.DB }

// takeInvite gives an invite to the first e-mail that is registered with it, for an hour.
const takeInvite = `UPDATE invites SET email = ?, taken = COALESCE(taken, ?)
	WHERE code = ? AND (email IS NULL OR email = ? AND taken > ?)`

// Judge takes the invite before the module registers the user. If the module then refuses
// the registration, because of a weak password for example, the user can try again with the
// same e-mail.
func (i *Invites) Judge(ctx context.Context, r personal.AdmissionRequest) error {
	if r.Operation != personal.AdmitRegister {
		return nil
	}
	code := personal.TransientFrom(ctx)["invite"]
	if code == "" {
		return personal.FieldErrors{"invite": personal.FieldErrorRequired}.Err()
	}
	if !plain(r.Email) { // the module refuses it, so it must not take the invite
		return personal.FieldErrors{"email": personal.FieldErrorInvalidFormat}.Err()
	}
	email, now := strings.ToLower(r.Email), time.Now()
	result, err := i.DB.ExecContext(ctx, takeInvite, email, now.Unix(), code, email, now.Add(-time.Hour).Unix())
	if err != nil {
		return err // 503
	}
	switch taken, err := result.RowsAffected(); {
	case err != nil:
		return err
	case taken == 0:
		return personal.Refuse(personal.LocalText{
			"en": "This invite is unknown or has been used.",
			"ru": "Такого приглашения нет, или оно уже использовано.",
		})
	}
	return nil
}

// plain reports whether a text is an e-mail address without a name, spaces or comments,
// with a domain of two parts at least.
func plain(email string) bool {
	address, err := mail.ParseAddress(email)
	_, domain, _ := strings.Cut(email, "@")
	return err == nil && address.Address == email && strings.Contains(domain, ".")
}
