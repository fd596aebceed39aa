package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/user"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/transfer"
	"github.com/cms-personal/personal/shared/personal"
)

// userCommand groups the commands that change one account.
type userCommand struct {
	RemoveTwoFactor removeTwoFactorCommand `cmd:"" help:"Remove the second factor of a user who has lost it, and end their sessions."`
}

// userFlags name an account.
type userFlags struct {
	databaseFlag
	User     string `arg:"" name:"login-or-id" help:"The login, the e-mail or the id of the account."`
	Settings []byte `type:"filecontent" placeholder:"FILE" help:"The plugin's settings file, which says whether users get mails about changes (mail.notices; default: they do)."`
}

// change finds the account and calls f with the domain, for the administrator who runs
// the command. The plugin that runs, or the next one, sends the mails and events that f
// stores. f must not need passwords, user fields or secret keys: the domain has none here.
func (c userFlags) change(ctx context.Context, f func(context.Context, *accounts.Service, accounts.Account) error) error {
	settings, err := readSettings(c.Settings)
	if err != nil {
		return err
	}
	db, err := c.openCurrent(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	account, err := transfer.FindAccount(ctx, db, c.User)
	if err == nil {
		service := accounts.New(settings.accounts(), db, nil, nil, slog.New(slog.DiscardHandler), func() {})
		err = f(personal.WithCall(ctx, personal.Call{Administrator: operatorName()}), service, account)
	}
	if errors.Is(err, accounts.ErrNotFound) || personal.CodeOf(err) == personal.CodeNotFound {
		return fmt.Errorf("there is no account with the login, e-mail or id %q", c.User)
	}
	return err
}

// operatorName returns the operating system's name of the user who runs the command, ""
// if it has none.
func operatorName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}

type removeTwoFactorCommand struct{ userFlags }

// Help says what happens and what to do first.
func (removeTwoFactorCommand) Help() string {
	return `First verify that it is the user who asks: docs/supporting-users.md says how. Afterwards they sign in with the password alone, and can
switch a second factor on again. Their recovery codes are void. The audit log names the operating system's user who ran the command.`
}

// Run removes a second factor.
func (c removeTwoFactorCommand) Run(ctx context.Context, w io.Writer) error {
	return c.change(ctx, func(ctx context.Context, service *accounts.Service, a accounts.Account) error {
		if !a.TwoFactor.On() {
			_, err := fmt.Fprintf(w, "Account %d (%q) has no second factor. Nothing was changed.\n", a.ID, a.Login)
			return err
		}
		if err := service.RemoveTwoFactor(ctx, a.ID); err != nil {
			return err
		}
		_, err := fmt.Fprintf(w, "The second factor of account %d (%q) and its recovery codes are removed, and all its sessions have ended.\n", a.ID, a.Login)
		return err
	})
}
