package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/shared/personal"
)

type showUserCommand struct {
	userFlags
	jsonFlag
}

// Run prints an account. Its password hash and its secrets are left out.
func (c showUserCommand) Run(ctx context.Context, w io.Writer) error {
	return c.change(ctx, func(ctx context.Context, service *accounts.Service, a accounts.Account) error {
		sessions, err := service.UserSessions(ctx, a.ID)
		if err != nil {
			return err
		}
		passkeys, identities, err := service.OtherWaysIn(ctx, a)
		if err != nil {
			return err
		}
		for i := range passkeys {
			passkeys[i].ID = "" // which no command takes
		}
		record := userRecord{
			listedUser: listedUser{User: accounts.UserOf(a), Fields: a.Fields}, Password: !password.IsUnusable(a.PasswordHash), Sessions: len(sessions),
			Passkeys: append([]personal.Passkey{}, passkeys...), Identities: append([]personal.LinkedIdentity{}, identities...), // never null
			hash: a.PasswordHash,
		}
		if c.JSON {
			return writeJSON(w, record)
		}
		return record.write(w)
	})
}

// userRecord is what is shown of a user.
type userRecord struct {
	listedUser
	Password   bool                      `json:"password"`
	Sessions   int                       `json:"sessions"` // how many
	Passkeys   []personal.Passkey        `json:"passkeys"`
	Identities []personal.LinkedIdentity `json:"identities"`

	hash string // of the password
}

// write writes the record as a table.
func (r userRecord) write(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, value string) { fmt.Fprintf(table, "%s\t%s\n", name, value) }
	row("id", strconv.FormatInt(r.ID, 10))
	row("login", printable(r.Login))
	if r.Name != nil {
		row("name", printable(*r.Name))
	}
	email := printable(r.Email)
	if r.EmailVerified {
		email += " (verified)"
	}
	row("e-mail", email)
	if r.UnverifiedEmail != "" {
		row("to verify", printable(r.UnverifiedEmail))
	}
	row("state", stateOf(r.User))
	if r.TwoFactor {
		row("second factor", "on")
	}
	if password.IsUnusable(r.hash) {
		row("password", "none yet")
	} else if name := password.Name(r.hash); name != password.Own {
		row("password", "imported ("+name+")")
	}
	if !r.EraseAt.IsZero() {
		row("erased", r.EraseAt.Format(time.RFC3339))
	}
	row("registered", r.Created.Format(time.RFC3339))
	row("changed", r.Updated.Format(time.RFC3339))
	if !r.LastSignIn.IsZero() {
		row("last sign-in", r.LastSignIn.Format(time.RFC3339)+", or up to a day later")
	}
	row("sessions", strconv.Itoa(r.Sessions))
	if r.Sessions > 0 {
		row("last seen", r.LastSeen.Format(time.RFC3339))
	}
	for _, p := range r.Passkeys {
		row("passkey", describePasskey(p))
	}
	for _, i := range r.Identities {
		row("identity", describeIdentity(i))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Fields)) {
		value, err := json.Marshal(r.Fields[name])
		if err != nil {
			return err
		}
		row("field "+name, printable(string(value)))
	}
	return table.Flush()
}

// describePasskey describes a passkey in a line.
func describePasskey(p personal.Passkey) string {
	text := printable(p.Name) + ", added " + day(p.Created) + ", last used " + day(p.LastUsed)
	if p.BackedUp {
		text += ", backed up"
	} else {
		text += ", not backed up"
	}
	return text
}

// describeIdentity describes an identity in a line.
func describeIdentity(i personal.LinkedIdentity) string {
	return printable(i.Subject) + " at " + printable(i.Issuer) + ", linked " + day(i.Linked) + ", last used " + day(i.LastUsed)
}
