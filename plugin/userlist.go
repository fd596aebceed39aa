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
	fieldsFlag
	Search string `placeholder:"TEXT" help:"Part of a login, an e-mail or a name, or a whole id."`
	State  string `enum:",active,disabled,unconfirmed,two_factor" default:"" placeholder:"STATE" help:"active, disabled, unconfirmed (they must confirm their e-mail first) or two_factor."`
	Since  moment `placeholder:"TIME" help:"Registered at or after this time: a date in UTC, or RFC 3339."`
	Until  moment `placeholder:"TIME" help:"Registered before this time."`
	Field  string `placeholder:"NAME=VALUE" help:"With this value of an enum, boolean or integer field. It needs --fields, and reads all users."`
	Oldest bool   `help:"List the oldest first."`
	Limit  int    `placeholder:"N" help:"At most so many (default: all)."`
	jsonFlag
}

// Help says what JSON has.
func (listUsersCommand) Help() string {
	return `With --json each line is a user as JSON, with their user fields if --fields is given: docs/user-commands.md lists the keys.`
}

// Run lists users.
func (c listUsersCommand) Run(ctx context.Context, w io.Writer) error {
	if c.Limit < 0 {
		return errors.New("--limit: give a number of 1 or more")
	}
	host, names, err := c.host()
	if err != nil {
		return err
	}
	r := personal.FindUsersRequest{
		Search: c.Search, State: personal.UserState(c.State), Since: time.Time(c.Since), Until: time.Time(c.Until),
		Oldest: c.Oldest, Limit: personal.MaxUserLimit,
	}
	if c.Field != "" {
		var ok bool
		if r.Field, r.Value, ok = strings.Cut(c.Field, "="); !ok || host == nil {
			return errors.New("--field: give a user field and its value, such as role=editor, and the file of the user fields with --fields")
		}
	}
	if c.JSON {
		r.Fields = names
	}
	return c.use(ctx, host, func(ctx context.Context, service *accounts.Service, _ *store.Store) error {
		table := newUserTable(w, c.JSON)
		shown := map[int64]bool{} // a later page may repeat a user
		for {
			page, err := service.FindUsers(ctx, r)
			if err != nil {
				return listErrors(err)
			}
			for _, u := range page.Users {
				if shown[u.ID] || c.Limit > 0 && len(shown) == c.Limit {
					continue
				}
				shown[u.ID] = true
				if err := table.add(u); err != nil {
					return err
				}
			}
			if err := table.flush(); err != nil {
				return err
			}
			if r.After = page.Next; r.After == 0 || c.Limit > 0 && len(shown) == c.Limit {
				return nil
			}
		}
	})
}

// listErrors says which flags of the list are wrong.
func listErrors(err error) error {
	var e *personal.Error
	if errors.As(err, &e) && e.FieldErrors["field"] != "" {
		return errors.New("--field: no enum, boolean or integer field of the file that --fields names has this name")
	}
	return fieldErrors(err, func(name string) string {
		if name == "value" {
			name = "field"
		}
		return "--" + name
	})
}

// moment is a time of a flag.
type moment time.Time

// UnmarshalText reads a date, which stands for its beginning in UTC, or a time in RFC 3339.
func (m *moment) UnmarshalText(text []byte) error {
	t, err := time.Parse(time.DateOnly, string(text))
	if err != nil {
		t, err = time.Parse(time.RFC3339, string(text))
	}
	if err != nil {
		return errors.New("give a date, such as 2026-01-31, or a time, such as 2026-01-31T12:00:00Z")
	}
	*m = moment(t)
	return nil
}

// userTable writes users as lines of a table, or of JSON.
type userTable struct {
	table *tabwriter.Writer
	json  *json.Encoder // nil: a table
}

func newUserTable(w io.Writer, asJSON bool) userTable {
	if asJSON {
		return userTable{json: json.NewEncoder(w)}
	}
	t := userTable{table: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	fmt.Fprintln(t.table, "ID\tLOGIN\tE-MAIL\tSTATE\tREGISTERED\tLAST SEEN")
	return t
}

func (t userTable) add(u personal.User) error {
	if t.json != nil {
		return t.json.Encode(userJSON(u))
	}
	_, err := fmt.Fprintf(t.table, "%d\t%s\t%s\t%s\t%s\t%s\n", u.ID, printable(u.Login), printable(u.Email), stateOf(u), day(u.Created),
		day(u.LastSeen))
	return err
}

func (t userTable) flush() error {
	if t.json != nil {
		return nil
	}
	return t.table.Flush()
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

type showUserCommand struct {
	userFlags
	jsonFlag
}

// Run prints an account. Its password hash and its secrets are left out.
func (c showUserCommand) Run(ctx context.Context, w io.Writer) error {
	return c.change(ctx, func(ctx context.Context, service *accounts.Service, a accounts.Account) error {
		users, err := service.Users(ctx, []int64{a.ID})
		if err != nil {
			return err
		}
		record := userRecord{account: a}
		var exists bool
		if record.User, exists = users[a.ID]; !exists {
			return accounts.ErrNotFound
		}
		sessions, err := service.UserSessions(ctx, a.ID)
		if err != nil {
			return err
		}
		record.sessions = len(sessions)
		if record.passkeys, record.identities, err = service.OtherWaysIn(ctx, a); err != nil {
			return err
		}
		if c.JSON {
			return writeJSON(w, record.json())
		}
		return record.write(w)
	})
}

// userRecord is what is shown of a user.
type userRecord struct {
	personal.User
	account    accounts.Account
	sessions   int // how many
	passkeys   []personal.Passkey
	identities []personal.LinkedIdentity
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
	if password.IsUnusable(r.account.PasswordHash) {
		row("password", "none yet")
	} else if name := password.Name(r.account.PasswordHash); name != password.Own {
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
	row("sessions", strconv.Itoa(r.sessions))
	if r.sessions > 0 {
		row("last seen", r.LastSeen.Format(time.RFC3339))
	}
	for _, p := range r.passkeys {
		row("passkey", describePasskey(p))
	}
	for _, i := range r.identities {
		row("identity", describeIdentity(i))
	}
	for _, name := range slices.Sorted(maps.Keys(r.account.Fields)) {
		value, err := json.Marshal(r.account.Fields[name])
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
