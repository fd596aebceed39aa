package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/transfer"
)

// databaseFlag names the database of a command.
type databaseFlag struct {
	Database string `env:"PERSONAL_DATABASE" placeholder:"URL" help:"sqlite://PATH or postgres://…. Give a URL with a password in the environment only: other users can read command lines."`
}

// openExisting opens the database. The error is fs.ErrNotExist if its file does not
// exist, so that a mistyped path creates no file.
func (f databaseFlag) openExisting(ctx context.Context) (*store.Store, error) {
	if path, ok := strings.CutPrefix(f.Database, "sqlite://"); ok {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("--database: %w", err)
		}
	}
	return f.open(ctx)
}

// openCurrent opens an existing database that has the schema of this program.
func (f databaseFlag) openCurrent(ctx context.Context) (*store.Store, error) {
	db, err := f.openExisting(ctx)
	if err != nil {
		return nil, err
	}
	found, _, err := db.CheckSchema(ctx)
	if err == nil && found < store.SchemaTarget {
		err = fmt.Errorf("the database has schema version %d, this command needs %d: run `personal migrate`, or start a host with this version, first",
			found, store.SchemaTarget)
	}
	if err != nil {
		return nil, errors.Join(setupError(err), db.Close())
	}
	return db, nil
}

// open opens the database and creates its file if it does not exist. The caller
// closes the store.
func (f databaseFlag) open(ctx context.Context) (*store.Store, error) {
	if f.Database == "" {
		return nil, errors.New("--database: give the URL of the database with this flag or in PERSONAL_DATABASE")
	}
	if f.Database != os.Getenv("PERSONAL_DATABASE") && hasPassword(f.Database) {
		return nil, errors.New("--database: give a URL with a password in PERSONAL_DATABASE only: other users can read command lines")
	}
	db, err := store.Open(ctx, f.Database, store.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, setupError(fmt.Errorf("opening the database: %w", err))
	}
	return db, nil
}

// openMigrated opens the database like open and migrates it.
func (f databaseFlag) openMigrated(ctx context.Context) (*store.Store, error) {
	db, err := f.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := db.Migrate(ctx); err != nil {
		return nil, errors.Join(setupError(fmt.Errorf("migrating the database: %w", err)), db.Close())
	}
	return db, nil
}

// hasPassword reports whether a URL, well-formed or not, contains a password.
func hasPassword(url string) bool {
	_, rest, _ := strings.Cut(url, "://")
	authority, _, _ := strings.Cut(rest, "/")
	at := strings.LastIndexByte(authority, '@')
	return at >= 0 && strings.Contains(authority[:at], ":") || strings.Contains(url, "password=")
}

type migrateCommand struct{ databaseFlag }

// Run migrates the database.
func (c migrateCommand) Run(ctx context.Context, w io.Writer) error {
	db, err := c.openMigrated(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = fmt.Fprintf(w, "The database is at schema %d.\n", store.SchemaTarget)
	return err
}

type exportCommand struct {
	databaseFlag
	Output string `short:"o" placeholder:"FILE" help:"A new file, readable by its owner only (default: standard output)."`
	queryFlags
	User string `placeholder:"LOGIN-OR-ID" help:"Write only the stored data of this user, without the password hash and the secret of a second factor, to hand over to the user. An e-mail is accepted too."`
}

// Run exports all accounts, or the data of one user.
func (c exportCommand) Run(ctx context.Context, out io.Writer, stderr errorWriter) error {
	db, err := c.openCurrent(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	if c.Output == "" {
		return c.write(ctx, db, out, stderr)
	}
	file, err := os.OpenFile(c.Output, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	if err := errors.Join(c.write(ctx, db, file, stderr), file.Close()); err != nil {
		return errors.Join(err, os.Remove(c.Output)) // leave no incomplete file
	}
	return nil
}

func (c exportCommand) write(ctx context.Context, db *store.Store, w, stderr io.Writer) error {
	if c.User == "" && c.queryFlags != (queryFlags{}) {
		return errors.New("--id and --login say what the value of --user is: give --user as well")
	}
	if c.User != "" {
		err := transfer.ExportPerson(ctx, db, c.query(c.User), w)
		if errors.Is(err, accounts.ErrNotFound) {
			return errors.New("--user: there is no such account")
		}
		return decide(err)
	}
	fmt.Fprintln(stderr, "This export contains every password hash: protect it like the database.")
	n, err := transfer.Export(ctx, db, w)
	if err != nil {
		return fmt.Errorf("the export is incomplete: %w", err)
	}
	fmt.Fprintf(stderr, "%d accounts exported\n", n.Accounts)
	if n.TwoFactor > 0 {
		fmt.Fprintf(stderr, "%d of them have a second factor: importing these needs the secret keys of the host (import --secret-key)\n",
			n.TwoFactor)
	}
	if n.Passkeys > 0 {
		fmt.Fprintf(stderr, "%d of them have passkeys: these work where passkeys.rp_id is the same\n", n.Passkeys)
	}
	if n.Identities > 0 {
		fmt.Fprintf(stderr, "%d of them have identities: these work where the providers name users in the same way\n", n.Identities)
	}
	return nil
}

type auditCommand struct {
	databaseFlag
	Since duration `placeholder:"DURATION" help:"Print only the entries of the last DURATION, such as 24h (default: all; audit.retention says how long entries are kept)."`
}

// Run prints the audit log.
func (c auditCommand) Run(ctx context.Context, w io.Writer) error {
	db, err := c.openExisting(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	var since time.Time
	if c.Since > 0 {
		since = db.Now().Add(-time.Duration(c.Since))
	}
	return transfer.ExportAudit(ctx, db, since, w)
}

// writeSecretCounts writes how many accounts have a second factor, and which keys they and the login key need.
func writeSecretCounts(ctx context.Context, db *store.Store, text *strings.Builder) error {
	counts, err := db.CountSecrets(ctx)
	if err != nil {
		return err
	}
	var all int64
	for _, c := range counts {
		all += c.Accounts
	}
	fmt.Fprintf(text, "factors   %d accounts with a second factor\n", all)
	for _, c := range counts {
		if c.Accounts > 0 {
			fmt.Fprintf(text, "          %d encrypted with the secret key %s\n", c.Accounts, c.Key)
		}
	}
	for _, c := range counts {
		if c.LoginKey {
			fmt.Fprintf(text, "logins    counted under a key that the secret key %s encrypts\n", c.Key)
		}
	}
	return nil
}

type statusCommand struct{ databaseFlag }

// Run prints the state of the database.
func (c statusCommand) Run(ctx context.Context, w io.Writer) error {
	db, err := c.openExisting(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	found, _, err := db.CheckSchema(ctx)
	if err != nil {
		return err
	}
	if found == 0 {
		_, err = fmt.Fprintln(w, "The database has no schema yet.")
		return err
	}
	all, bare, err := db.CountAccounts(ctx)
	if err != nil {
		return err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "schema    %d; this program is made for %d\naccounts  %d\nto wrap   %d weak hashes, wrapped in the background while a plugin runs\n",
		found, store.SchemaTarget, all, bare)
	n, err := db.CountAccountStates(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(&text, "e-mails   %d not verified\nwaiting   %d accounts, until their e-mail is verified\n"+
		"leaving   %d accounts, deleted by their users and not erased yet\n", n.Unconfirmed, n.Waiting, n.Leaving)
	if err := writeSecretCounts(ctx, db, &text); err != nil {
		return err
	}
	_, err = io.WriteString(w, text.String())
	return err
}
