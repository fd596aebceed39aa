package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/shared/personal"
)

type disableUserCommand struct{ userFlags }

// Run disables a user.
func (c disableUserCommand) Run(ctx context.Context, w io.Writer) error {
	return c.change(ctx, func(ctx context.Context, service *accounts.Service, a accounts.Account) error {
		if a.Disabled && !a.Deleted() {
			return unchanged(w, a, "is disabled already")
		}
		if err := service.DisableUser(ctx, a.ID); err != nil {
			return err
		}
		return done(w, "Account %d (%q) is disabled, and all its sessions have ended.", a)
	})
}

type enableUserCommand struct{ userFlags }

// Run enables a user.
func (c enableUserCommand) Run(ctx context.Context, w io.Writer) error {
	return c.change(ctx, func(ctx context.Context, service *accounts.Service, a accounts.Account) error {
		if !a.Disabled {
			return unchanged(w, a, "is enabled already")
		}
		if err := service.EnableUser(ctx, a.ID); err != nil {
			return err
		}
		return done(w, "Account %d (%q) is enabled: its user can sign in again.", a)
	})
}

type revokeSessionsCommand struct{ userFlags }

// Run ends the sessions of a user.
func (c revokeSessionsCommand) Run(ctx context.Context, w io.Writer) error {
	return c.change(ctx, func(ctx context.Context, service *accounts.Service, a accounts.Account) error {
		sessions, err := service.UserSessions(ctx, a.ID)
		if err != nil {
			return err
		}
		if len(sessions) == 0 {
			return unchanged(w, a, "has no sessions")
		}
		if err := service.RevokeUserSessions(ctx, a.ID); err != nil {
			return err
		}
		return done(w, "Account %d (%q) is signed out everywhere; sessions that ended: "+strconv.Itoa(len(sessions))+".", a)
	})
}

type setUserCommand struct {
	userFlags
	fieldsFlag
	Set []string `arg:"" name:"field=value" help:"A user field, or name, and its new value; without a value it is cleared. Repeat a list's name for each item."`
}

// Help says what the fields are, and who hears of the change.
func (setUserCommand) Help() string {
	return `Every field of the site can be set, also read-only and hidden ones, by the rules of the file that --fields names. Without it only name can be set.
The host hears of the change from the plugin that runs on the database, or from the next one that starts: event user_updated, with the names of the
fields. A page that remembers the user's profile shows the old value for session.verify_cache (1s).`
}

// Run sets fields of a user.
func (c setUserCommand) Run(ctx context.Context, w io.Writer) error {
	fields, err := c.inputs()
	if err != nil {
		return err
	}
	host, _, err := c.host()
	if err != nil {
		return err
	}
	return c.changeWith(ctx, host, func(ctx context.Context, service *accounts.Service, a accounts.Account) error {
		if err := service.UpdateUser(ctx, personal.UpdateUserRequest{UserID: a.ID, Fields: fields}); err != nil {
			return fmt.Errorf("nothing was changed: %w", fieldErrors(err, func(name string) string { return name }))
		}
		return done(w, "Account %d (%q) is changed: "+strings.Join(slices.Sorted(maps.Keys(fields)), ", ")+".", a)
	})
}

// inputs returns the values to set, by field. One that is given several times is a list.
func (c setUserCommand) inputs() (map[string]personal.Input, error) {
	fields := map[string]personal.Input{}
	for _, pair := range c.Set {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("%q: give a field and its value, such as city=Riga, or city= to clear it", pair)
		}
		switch before, repeated := fields[name]; {
		case !repeated:
			fields[name] = personal.Text(value)
		case before.Kind == personal.InputRepeated:
			before.List = append(before.List, value)
			fields[name] = before
		default:
			fields[name] = personal.Input{Kind: personal.InputRepeated, List: []string{before.Text, value}}
		}
	}
	return fields, nil
}

type recoverUserCommand struct{ userFlags }

// Help says who sends the mail.
func (recoverUserCommand) Help() string {
	return `The plugin that runs on the database sends the mail, or the next one that starts. The code for the new password is in the mail only. A user who was
created without a password chooses their first one in the same way.`
}

// Run requests a recovery as the user would, so that no administrator knows a password.
func (c recoverUserCommand) Run(ctx context.Context, w io.Writer) error {
	return c.change(ctx, func(ctx context.Context, service *accounts.Service, a accounts.Account) error {
		switch {
		case a.Disabled:
			return fmt.Errorf("account %d (%q) is disabled and gets no recovery mail: enable it first", a.ID, a.Login)
		case a.Email.Key == "":
			return fmt.Errorf("account %d (%q) has no e-mail: set one on the admin page of the user first", a.ID, a.Login)
		}
		call := personal.CallFrom(ctx)
		call.Languages = a.Locale // the mail is for them, not for the caller
		if err := service.Recover(personal.WithCall(ctx, call), personal.RecoverRequest{Email: a.Email.Address}); err != nil {
			return err
		}
		return done(w, "Account %d (%q) gets a recovery mail, unless administrators have caused ten mails to its address in the last hour, or thirty in the last day.", a)
	})
}

type deleteUserCommand struct {
	userFlags
	Yes bool `help:"Do not ask."`
}

// Help says what deletion means.
func (deleteUserCommand) Help() string {
	return `The account, its sessions and its waiting mails are erased at once, which cannot be undone. Login and e-mail become free. The host hears of it
from the plugin that runs on the database, or from the next one that starts.`
}

// Run deletes a user, once the operator has typed the login.
func (c deleteUserCommand) Run(ctx context.Context, w io.Writer, stderr errorWriter) error {
	return c.change(ctx, func(ctx context.Context, service *accounts.Service, a accounts.Account) error {
		if !c.Yes {
			fmt.Fprintf(stderr, "To delete account %d and all its data, type its login, %q: ", a.ID, a.Login)
			typed, err := bufio.NewReader(os.Stdin).ReadString('\n')
			if err != nil {
				fmt.Fprintln(stderr) // no line was typed
			}
			if err != nil && !errors.Is(err, io.EOF) {
				return fmt.Errorf("reading the answer: %w", err)
			}
			if personal.Typed(typed) != a.Login {
				return errors.New("nothing was deleted: the answer was not the login (--yes deletes without a question)")
			}
		}
		if err := service.DeleteUser(ctx, a.ID); err != nil {
			return err
		}
		return done(w, "Account %d (%q) is deleted. The host hears of it as soon as a plugin runs.", a)
	})
}

type removeTwoFactorCommand struct {
	userFlags
	KeepOtherWaysIn bool `help:"Keep the passkeys and identities of the user (default: they are removed, too)."`
}

// Help says what happens and what to do first.
func (removeTwoFactorCommand) Help() string {
	return `First verify that it is the user who asks: docs/helping-users.md says how. Afterwards they sign in with the password alone, and can
switch a second factor on again. Their recovery codes are void. Their passkeys and identities are removed, because a thief may have added some:
keep them with --keep-other-ways-in only if all are surely the user's. The audit log names the operating system's user who ran the command.`
}

// Run removes a second factor.
func (c removeTwoFactorCommand) Run(ctx context.Context, w io.Writer) error {
	return c.change(ctx, func(ctx context.Context, service *accounts.Service, a accounts.Account) error {
		if !a.TwoFactor.On() {
			return unchanged(w, a, "has no second factor")
		}
		ways, err := countWays(ctx, service, a)
		if err != nil {
			return err
		}
		if err := service.RemoveTwoFactor(ctx, personal.RemoveTwoFactorRequest{UserID: a.ID, KeepOtherWaysIn: c.KeepOtherWaysIn}); err != nil {
			return lastWayIn(err, a)
		}
		also := ""
		if ways != "" && c.KeepOtherWaysIn {
			also = " Kept: " + ways + "."
		} else if ways != "" {
			also = " Removed, too: " + ways + "."
		}
		return done(w, "The second factor of account %d (%q) and its recovery codes are removed, and all its sessions have ended."+also, a)
	})
}

// countWays returns the numbers of an account's other ways in; "" for none.
func countWays(ctx context.Context, service *accounts.Service, a accounts.Account) (string, error) {
	passkeys, identities, err := service.OtherWaysIn(ctx, a)
	if err != nil || len(passkeys)+len(identities) == 0 {
		return "", err
	}
	return fmt.Sprintf("passkeys: %d, identities: %d", len(passkeys), len(identities)), nil
}

type removeOtherWaysInCommand struct{ userFlags }

// Help says what happens and what to do first.
func (removeOtherWaysInCommand) Help() string {
	return `First verify that it is the user who asks: docs/helping-users.md says how. Afterwards they sign in with the password, and the code of their
second factor if they have one; without a password they need a recovery mail. They can add passkeys and link identities again. The audit log
names the operating system's user who ran the command.`
}

// Run removes the passkeys and the identities.
func (c removeOtherWaysInCommand) Run(ctx context.Context, w io.Writer) error {
	return c.change(ctx, func(ctx context.Context, service *accounts.Service, a accounts.Account) error {
		ways, err := countWays(ctx, service, a)
		if err != nil {
			return err
		}
		if ways == "" {
			return unchanged(w, a, "has no passkeys and no identities")
		}
		if err := service.RemoveOtherWaysIn(ctx, a.ID); err != nil {
			return lastWayIn(err, a)
		}
		return done(w, "The other ways into account %d (%q) are removed, and the sessions that they began have ended; "+ways+".", a)
	})
}

type resetUserCommand struct {
	userFlags
	Email string `required:"" help:"The e-mail that the user can read now. It may be the present one."`
}

// Help says what happens and what to do first.
func (resetUserCommand) Help() string {
	return `Ends a take-over. First verify that it is the user who asks: docs/helping-users.md says how. Password, second factor, passkeys, identities,
sessions and known addresses are removed, and the account is enabled. The user gets a mail to set a new password; until they have done so nothing
signs in. The old address gets a notice. The plugin that runs on the database sends both, or the next one that starts.`
}

// Run resets the access of a user.
func (c resetUserCommand) Run(ctx context.Context, w io.Writer) error {
	return c.change(ctx, func(ctx context.Context, service *accounts.Service, a accounts.Account) error {
		err := service.ResetAccess(ctx, personal.ResetAccessRequest{UserID: a.ID, Email: c.Email})
		if err != nil {
			return fmt.Errorf("nothing was changed: %w", fieldErrors(err, func(name string) string { return "--" + name }))
		}
		return done(w, "The access to account %d (%q) is reset: its user gets a mail to set a new password, and until then nothing signs in.", a)
	})
}

type unlinkIdentityCommand struct {
	userFlags
	Issuer  string `required:"" help:"The issuer of the identity, as user show prints it."`
	Subject string `required:"" help:"The subject of the identity, likewise."`
}

// Help says what happens and what to do first.
func (unlinkIdentityCommand) Help() string {
	return `First verify that it is the user who asks: docs/helping-users.md says how. Afterwards the provider signs no one in to the account by this
identity. All sessions of the user end that the site has opened itself, also those of other identities.`
}

// Run unlinks an identity.
func (c unlinkIdentityCommand) Run(ctx context.Context, w io.Writer) error {
	return c.change(ctx, func(ctx context.Context, service *accounts.Service, a accounts.Account) error {
		identity := personal.Identity{Issuer: c.Issuer, Subject: c.Subject}
		_, identities, err := service.OtherWaysIn(ctx, a)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(identities, func(i personal.LinkedIdentity) bool { return i.Identity == identity }) {
			return unchanged(w, a, "has no such identity")
		}
		if err := service.UnlinkIdentity(ctx, personal.UnlinkIdentityRequest{Identity: identity, UserID: a.ID}); err != nil {
			return lastWayIn(err, a)
		}
		return done(w, "The identity of account %d (%q) is unlinked, and the sessions that the site has opened for it have ended.", a)
	})
}

// lastWayIn says what to do first if an account would be left without a way to sign in.
func lastWayIn(err error, a accounts.Account) error {
	if personal.CodeOf(err) == personal.CodeLastWayIn {
		return fmt.Errorf("account %d (%q) has neither a password nor a verified e-mail, and no one could sign in to it any more: "+
			"use user reset instead; nothing was changed", a.ID, a.Login)
	}
	return err
}

// done prints what was changed. The format takes the account's id and login.
func done(w io.Writer, format string, a accounts.Account) error {
	_, err := fmt.Fprintf(w, format+"\n", a.ID, a.Login)
	return err
}

// unchanged prints why nothing was changed.
func unchanged(w io.Writer, a accounts.Account, why string) error {
	_, err := fmt.Fprintf(w, "Account %d (%q) %s. Nothing was changed.\n", a.ID, a.Login, why)
	return err
}
