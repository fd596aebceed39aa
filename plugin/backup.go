package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/cms-personal/personal/internal/store/dbconn"
)

type backupCommand struct {
	databaseFlag
	File string `arg:"" help:"A new file, readable by its owner only."`
}

// Help names the way for PostgreSQL.
func (backupCommand) Help() string {
	return `The copy is the state of the database at one moment; hosts can read and write during the backup. It gets its name after it has been checked.
It contains every password hash: protect it like the database. It does not contain the secret key that decrypts second factors.
For PostgreSQL use pg_dump, see docs/backup.md.`
}

// Run copies a SQLite database.
func (c backupCommand) Run(ctx context.Context, w io.Writer) error {
	db, err := c.openExisting(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	err = db.BackUp(ctx, c.File)
	switch {
	case errors.Is(err, dbconn.ErrNotSQLite):
		return errors.New("this command copies SQLite databases; for PostgreSQL use: " +
			"(umask 077 && pg_dump --format=custom --table='personal_*' --file=FILE --dbname=DATABASE) (docs/backup.md describes backup and restore)")
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%s exists already: give the name of a new file", c.File)
	case err != nil:
		return fmt.Errorf("making the backup: %w", err)
	}
	_, err = fmt.Fprintf(w, "The backup is complete: %s\n", c.File)
	return err
}

type revokeAllCommand struct{ databaseFlag }

// Help says when to use the command.
func (revokeAllCommand) Help() string {
	return `Run it on a restored database before the host starts: the sessions and tokens of a backup may have been revoked since, and its mails
may have been sent. Users must sign in again, and repeat requests for a recovery or a change of e-mail. Waiting events and erasures remain.`
}

// Run ends all sessions, voids all mailed tokens and drops all waiting mails.
func (c revokeAllCommand) Run(ctx context.Context, w io.Writer) error {
	db, err := c.openExisting(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	r, err := db.RevokeAll(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "sessions ended          %d\nmailed tokens voided    %d\nwaiting mails dropped   %d\n", r.Sessions, r.Tokens,
		r.Mails)
	return err
}
