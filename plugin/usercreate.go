package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/shared/personal"
)

type createUserCommand struct {
	serviceFlags
	Login  string `arg:"" help:"The login of the new user."`
	Email  string `placeholder:"ADDRESS" help:"The e-mail of the user, to which their mails go."`
	Name   string `help:"The name that the site shows."`
	Invite bool   `help:"Send the user a mail with a link to choose a password."`
	Locale string `placeholder:"TAG" help:"The language of the user's mails, such as ru."`
}

// Help says what the user gets.
func (createUserCommand) Help() string {
	return `The user has no password. With --invite they get a mail to choose one, which the plugin that runs on the database sends, or the next one that
starts; the code is in the mail only. Without it, they request a recovery on the site. This command knows no user fields of the site: the user sees empty
ones, and the site can ask for those that it requires; "personal user set" sets them.`
}

// Run creates a user.
func (c createUserCommand) Run(ctx context.Context, w io.Writer) error {
	return c.use(ctx, nil, func(ctx context.Context, service *accounts.Service, _ *store.Store) error {
		r := personal.CreateUserRequest{Login: c.Login, Email: c.Email, Invite: c.Invite, Locale: c.Locale}
		if c.Name != "" {
			r.Fields = map[string]personal.Input{"name": personal.Text(c.Name)}
		}
		id, err := service.CreateUser(ctx, r)
		if err != nil {
			return fmt.Errorf("nothing was created: %w", flagErrors(err))
		}
		next := "They have no password yet: they request a recovery on the site, or you run `personal user recover`."
		switch {
		case c.Invite:
			next = "They get a mail to choose a password."
		case c.Email == "":
			next = "They have neither a password nor an e-mail: set an e-mail on the admin page of the user, so that they can recover."
		}
		_, err = fmt.Fprintf(w, "Account %d (%q) is created. %s\n", id, c.Login, next)
		return err
	})
}

// flagErrors says which arguments and flags are wrong, if err has field errors.
func flagErrors(err error) error {
	return fieldErrors(err, func(name string) string {
		if name == "login" {
			return name
		}
		return "--" + name
	})
}

// fieldErrors puts field errors into words; written returns how the command line names a
// parameter. It returns other errors as they are.
func fieldErrors(err error, written func(name string) string) error {
	var e *personal.Error
	if !errors.As(err, &e) || len(e.FieldErrors) == 0 {
		return err
	}
	problems := map[personal.FieldErrorCode]string{
		personal.FieldErrorRequired:      "it is missing",
		personal.FieldErrorTooShort:      "it is too short",
		personal.FieldErrorTooLong:       "it is too long",
		personal.FieldErrorInvalidFormat: "it is malformed",
		personal.FieldErrorInvalidType:   "it is no value of the type of the field",
		personal.FieldErrorNotInList:     "it is none of the options",
		personal.FieldErrorTaken:         "another account has it",
		personal.FieldErrorOutOfRange:    "it is too small or too large",
		personal.FieldErrorReadOnly:      "it is no user field",
		personal.FieldErrorUnknownField:  "it is no user field of the file that --fields names",
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(e.FieldErrors)) {
		problem, ok := problems[e.FieldErrors[name]]
		if !ok {
			problem = string(e.FieldErrors[name])
		}
		if name == "locale" {
			problem = "it is not a language tag, such as en or ru"
		}
		errs = append(errs, fmt.Errorf("%s: %s", written(name), problem))
	}
	return errors.Join(errs...)
}
