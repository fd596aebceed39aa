package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/user"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/seal"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/transfer"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhost/secretkeys"
	"github.com/cms-personal/personal/shared/userfields"
)

// userCommand groups the commands about users.
type userCommand struct {
	Create            createUserCommand        `cmd:"" help:"Create a user without a password, and invite them by mail if you like."`
	List              listUsersCommand         `cmd:"" help:"List users, the newest first."`
	Show              showUserCommand          `cmd:"" help:"Print what is stored about a user."`
	Explain           explainCommand           `cmd:"" help:"Say why a user cannot sign in, and what helps."`
	Set               setUserCommand           `cmd:"" help:"Set user fields of a user, also those that only administrators may set."`
	Recover           recoverUserCommand       `cmd:"" help:"Send a user a mail to set a new password."`
	Disable           disableUserCommand       `cmd:"" help:"Prevent a user from signing in, and end their sessions."`
	Enable            enableUserCommand        `cmd:"" help:"Let a disabled user sign in again. This also undoes a deletion by the user."`
	RevokeSessions    revokeSessionsCommand    `cmd:"" name:"sign-out" help:"End all sessions of a user."`
	Delete            deleteUserCommand        `cmd:"" help:"Delete a user and all their data at once."`
	LiftLimits        liftLimitsCommand        `cmd:"" help:"Lift the limits of attempts that hold for a user."`
	RemoveTwoFactor   removeTwoFactorCommand   `cmd:"" help:"Remove the second factor of a user who has lost it, with their passkeys and identities, and end their sessions."`
	RemoveOtherWaysIn removeOtherWaysInCommand `cmd:"" help:"Remove all passkeys and identities of a user, and end the sessions that they began."`
	Reset             resetUserCommand         `cmd:"" help:"End a take-over: only a recovery at the given e-mail opens the account."`
	UnlinkIdentity    unlinkIdentityCommand    `cmd:"" help:"Unlink an identity of a user at a provider, and end the sessions that the site has opened for them."`
}

// serviceFlags open the domain on a database.
type serviceFlags struct {
	databaseFlag
	SecretKey string       `type:"path" placeholder:"FILE" help:"The host's file of secret keys, such as DATA/secret.key. Give it if the command is about limits, which count typed logins under a key."`
	Settings  settingsFile `type:"filecontent" placeholder:"FILE" help:"The plugin's settings file (default: the defaults). Give it if it changes limits, or whether users get mails about changes."`
}

// use opens the database and calls f with the domain, for the administrator who runs the
// command. The plugin that runs, or the next one, sends the mails and events that f stores.
// f must not need passwords or, without a host, user fields: the domain has none here.
func (c serviceFlags) use(ctx context.Context, host personal.Host, f func(context.Context, *accounts.Service, *store.Store) error) error {
	settings, _, err := readSettings(c.Settings)
	if err != nil {
		return err
	}
	db, err := c.openCurrent(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	rules := settings.accounts()
	if rules.Keys, err = readKeyring(c.SecretKey); err != nil {
		return err
	}
	service := accounts.New(rules, db, nil, host, slog.New(slog.DiscardHandler), func() {})
	if c.SecretKey != "" {
		if err := service.ReadKeys(ctx, false); err != nil {
			return err
		}
	}
	return f(personal.WithCall(ctx, personal.Call{Administrator: operatorName()}), service, db)
}

// readKeyring returns the keys of a file; nil without a name.
func readKeyring(file string) (*seal.Keyring, error) {
	if file == "" {
		return nil, nil
	}
	keys, err := secretkeys.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--secret-key: %w", err)
	}
	keyring, err := seal.New(keys)
	if err != nil {
		return nil, fmt.Errorf("--secret-key: %w", err)
	}
	return keyring, nil
}

// hiddenLimits says which limits a command does not see; "" if it sees all.
func hiddenLimits(service *accounts.Service, verb string) string {
	if service.HasLoginKey() {
		return ""
	}
	return "The limits guess and guess_account are not " + verb + ": they count typed logins under a key, which --secret-key opens, or which each process has for itself."
}

// fieldsFlag names the user fields of the site.
type fieldsFlag struct {
	Fields []byte `type:"filecontent" env:"PERSONAL_USER_FIELDS" placeholder:"FILE" help:"The host's user-fields.json, such as DATA/user-fields.json."`
}

// host returns a host with these user fields, and their names; nil without the flag.
func (c fieldsFlag) host() (host personal.Host, names []string, err error) {
	if c.Fields == nil {
		return nil, nil, nil
	}
	fields, _, err := userfields.ParseInForce(c.Fields)
	if err != nil {
		return nil, nil, fmt.Errorf("--fields: %w", err)
	}
	for _, f := range fields {
		names = append(names, f.Name)
	}
	return fieldsOnly{schema: personal.Schema{Fields: fields}}, names, nil
}

// fieldsOnly is a host of a command: it has user fields, and nothing else is asked of it.
type fieldsOnly struct {
	personal.Host
	schema personal.Schema
}

// UserFields returns the fields of the file.
func (h fieldsOnly) UserFields(context.Context) (personal.Schema, error) { return h.schema, nil }

// queryFlags say what the text that names an account is.
type queryFlags struct {
	ID    bool `name:"id" xor:"query" help:"The user is named by the id, even if it is another user's login."`
	Login bool `name:"login" xor:"query" help:"The user is named by the login or the e-mail, even if it is another user's id."`
}

func (f queryFlags) query(text string) transfer.Query {
	return transfer.Query{Text: text, ID: f.ID, Name: f.Login}
}

// userFlags name an account.
type userFlags struct {
	serviceFlags
	queryFlags
	User string `arg:"" name:"login-or-id" help:"The login, the e-mail or the id of the user."`
}

// change finds the account and calls f.
func (c userFlags) change(ctx context.Context, f func(context.Context, *accounts.Service, accounts.Account) error) error {
	return c.changeWith(ctx, nil, f)
}

// changeWith is change with the user fields of a host.
func (c userFlags) changeWith(ctx context.Context, host personal.Host,
	f func(context.Context, *accounts.Service, accounts.Account) error) error {
	err := c.use(ctx, host, func(ctx context.Context, service *accounts.Service, db *store.Store) error {
		account, err := transfer.FindAccount(ctx, db, c.query(c.User))
		if err != nil {
			return err
		}
		return f(ctx, service, account)
	})
	if errors.Is(err, accounts.ErrNotFound) || personal.CodeOf(err) == personal.CodeNotFound {
		return fmt.Errorf("there is no account with the login, e-mail or id %q", c.User)
	}
	return decide(err)
}

// decide says which flags help if an error is that a text names two accounts.
func decide(err error) error {
	if errors.As(err, new(*transfer.AmbiguousError)) {
		return fmt.Errorf("%w: repeat the command with --login or --id; nothing was done", err)
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
