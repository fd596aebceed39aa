package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/shared/personal"
)

type listUsersCommand struct {
	serviceFlags
	fieldsFlag
	Search string `placeholder:"TEXT" help:"Part of a login, an e-mail or a name, or a whole id."`
	State  string `enum:",active,disabled,unconfirmed,two_factor" default:"" placeholder:"STATE" help:"active, disabled, unconfirmed (they must confirm their e-mail first) or two_factor."`
	Since  moment `placeholder:"TIME" help:"Registered at or after this time: a date in UTC, or RFC 3339."`
	Until  moment `placeholder:"TIME" help:"Registered before this time; of a date in UTC, the whole day counts."`
	Field  string `placeholder:"NAME=VALUE" help:"With this value of an enum, boolean or integer field. It needs --fields, and reads all users."`
	Oldest bool   `help:"List the oldest first."`
	Limit  int    `placeholder:"N" help:"At most so many (default: all)."`
	jsonFlag
}

// Help says what JSON has.
func (listUsersCommand) Help() string {
	return `With --json each line is a user as JSON, with their user fields if --fields is given: docs/helping-users.md lists the keys.`
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
		Search: c.Search, State: personal.UserState(c.State), Since: c.Since.Time, Until: c.Until.end(),
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
		first := map[int64]bool{} // the users of the first page of a search: a later one may repeat them
		shown := 0
		for {
			page, err := service.FindUsers(ctx, r)
			if err != nil {
				return listErrors(err)
			}
			for _, u := range page.Users {
				if first[u.ID] || c.Limit > 0 && shown == c.Limit {
					continue
				}
				if shown++; c.Search != "" && r.After == 0 {
					first[u.ID] = true
				}
				if err := table.add(u); err != nil {
					return err
				}
			}
			if err := table.flush(); err != nil {
				return err
			}
			if r.After = page.Next; r.After == 0 || c.Limit > 0 && shown == c.Limit {
				return nil
			}
		}
	})
}

// listErrors says which flags of the list are wrong.
func listErrors(err error) error {
	if e, ok := errors.AsType[*personal.Error](err); ok && e.FieldErrors["field"] != "" {
		return errors.New("--field: no enum, boolean or integer field of the file that --fields names has this name")
	}
	return fieldErrors(err, func(name string) string {
		if name == "value" {
			name = "field"
		}
		return "--" + name
	})
}

// moment is a time of a flag: a date, which stands for its beginning in UTC, or a time in RFC 3339.
type moment struct {
	time.Time
	isDate bool
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (m *moment) UnmarshalText(text []byte) error {
	at, err := time.Parse(time.DateOnly, string(text))
	isDate := err == nil
	if !isDate {
		at, err = time.Parse(time.RFC3339, string(text))
	}
	if err != nil {
		return errors.New("give a date, such as 2026-01-31, or a time, such as 2026-01-31T12:00:00Z")
	}
	*m = moment{at, isDate}
	return nil
}

// end returns the time, or the end of the date, as on the admin pages.
func (m moment) end() time.Time {
	if m.isDate {
		return m.AddDate(0, 0, 1)
	}
	return m.Time
}

// userTable writes users as lines of a table, or of JSON.
type userTable struct {
	out   *bufio.Writer
	table *tabwriter.Writer
	json  *json.Encoder // nil: a table
}

func newUserTable(w io.Writer, asJSON bool) userTable {
	out := bufio.NewWriter(w) // else each cell is a system call
	if asJSON {
		return userTable{out: out, json: json.NewEncoder(out)}
	}
	t := userTable{out: out, table: tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
	fmt.Fprintln(t.table, "ID\tLOGIN\tE-MAIL\tSTATE\tREGISTERED (UTC)\tLAST SEEN (UTC)")
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
	if t.table != nil {
		if err := t.table.Flush(); err != nil {
			return err
		}
	}
	return t.out.Flush()
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
	return t.UTC().Format(time.DateOnly)
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
