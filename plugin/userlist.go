package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/shared/personal"
)

type listUsersCommand struct {
	serviceFlags
	Search string `placeholder:"TEXT" help:"Part of a login, an e-mail or a name, or a whole id."`
	State  string `enum:",active,disabled" default:"" placeholder:"STATE" help:"active or disabled."`
	Limit  int    `placeholder:"N" help:"At most so many (default: all)."`
}

// Run lists users.
func (c listUsersCommand) Run(ctx context.Context, w io.Writer) error {
	if c.Limit < 0 {
		return errors.New("--limit: give a number of 1 or more")
	}
	return c.use(ctx, func(ctx context.Context, service *accounts.Service, _ *store.Store) error {
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "ID\tLOGIN\tE-MAIL\tSTATE\tREGISTERED\tLAST SEEN")
		shown := map[int64]bool{} // a later page may repeat a user
		r := personal.FindUsersRequest{Search: c.Search, State: personal.UserState(c.State), Limit: personal.MaxUserLimit}
		for {
			page, err := service.FindUsers(ctx, r)
			if err != nil {
				return flagErrors(err)
			}
			for _, u := range page.Users {
				if shown[u.ID] || c.Limit > 0 && len(shown) == c.Limit {
					continue
				}
				shown[u.ID] = true
				fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\n", u.ID, printable(u.Login), printable(u.Email), stateOf(u), day(u.Created), day(u.LastSeen))
			}
			if err := table.Flush(); err != nil {
				return err
			}
			if r.After = page.Next; r.After == 0 || c.Limit > 0 && len(shown) == c.Limit {
				return nil
			}
		}
	})
}

// stateOf says in a word or two whether a user can sign in.
func stateOf(u personal.User) string {
	switch {
	case !u.EraseAt.IsZero():
		return "deleted by the user"
	case u.Disabled:
		return "disabled"
	case u.UnverifiedEmail != "":
		return "unverified"
	case u.TwoFactor:
		return "active, two factors"
	}
	return "active"
}

func day(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Format(time.DateOnly)
}

// printable quotes a text that would confuse a terminal.
func printable(text string) string {
	if text == "" {
		return "-"
	}
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}

type showUserCommand struct{ userFlags }

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
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		row := func(name, value string) { fmt.Fprintf(table, "%s\t%s\n", name, value) }
		row("id", strconv.FormatInt(a.ID, 10))
		row("login", printable(a.Login))
		if a.Name != nil {
			row("name", printable(*a.Name))
		}
		email := printable(a.Email.Address)
		if a.EmailVerified {
			email += " (verified)"
		}
		row("e-mail", email)
		if a.Unverified.Key != "" {
			row("to verify", printable(a.Unverified.Address))
		}
		row("state", stateOf(personal.User{
			Disabled: a.Disabled, UnverifiedEmail: a.Unverified.Address, TwoFactor: a.TwoFactor.On(), EraseAt: erasure(a),
		}))
		if a.TwoFactor.On() {
			row("second factor", "on")
		}
		if password.IsUnusable(a.PasswordHash) {
			row("password", "none yet")
		}
		if a.Deleted() {
			row("erased", a.EraseAt.Format(time.RFC3339))
		}
		row("registered", a.Created.Format(time.RFC3339))
		row("changed", a.Updated.Format(time.RFC3339))
		row("sessions", strconv.Itoa(len(sessions)))
		if len(sessions) > 0 {
			row("last seen", sessions[0].LastSeen.Format(time.RFC3339))
		}
		for _, p := range passkeys {
			row("passkey", describePasskey(p))
		}
		for _, i := range identities {
			row("identity", describeIdentity(i))
		}
		for _, name := range slices.Sorted(maps.Keys(a.Fields)) {
			value, err := json.Marshal(a.Fields[name])
			if err != nil {
				return err
			}
			row("field "+name, printable(string(value)))
		}
		return table.Flush()
	})
}

// describePasskey describes a passkey in a line.
func describePasskey(p personal.Passkey) string {
	text := printable(p.Name) + ", added " + day(p.Created) + ", last used " + day(p.LastUsed)
	if p.BackedUp {
		text += ", backed up"
	} else {
		text += ", not backed up"
	}
	if p.Void {
		text += ", void until the user has confirmed it with the password"
	}
	return text
}

// describeIdentity describes an identity in a line.
func describeIdentity(i personal.LinkedIdentity) string {
	text := printable(i.Subject) + " at " + printable(i.Issuer) + ", linked " + day(i.Linked)
	if i.Void {
		text += ", void until the user has linked it again"
	}
	return text
}

func erasure(a accounts.Account) time.Time {
	if a.Deleted() {
		return a.EraseAt
	}
	return time.Time{}
}
