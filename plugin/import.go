package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/transfer"
	"github.com/cms-personal/personal/shared/userfields"
)

type importCommand struct {
	databaseFlag
	File     string `arg:"" type:"existingfile" help:"CSV with a header row, or NDJSON."`
	Format   string `enum:",csv,ndjson" default:"" help:"csv or ndjson; by default what the file's name ends in."`
	Fields   string `type:"existingfile" placeholder:"FILE" help:"The host's user-fields.json: its fields may be columns."`
	Settings string `type:"existingfile" placeholder:"FILE" help:"The plugin's settings file, for the costs of new hashes."`
	Wrap     string `enum:"now,later" default:"now" help:"When MD5 hashes are wrapped in Argon2id: now, or later by the running plugin."`
	DryRun   bool   `help:"Check every row and change nothing."`
	Report   string `placeholder:"FILE" help:"Where refused rows are listed, appended; by default on standard error."`
}

// Help says what the columns are.
func (importCommand) Help() string {
	return `Columns: login and password_hash; email, name, disabled, created, updated and id may be missing, and user fields
may follow. A list is written as JSON in CSV, ["a","b"]. Times are RFC 3339, as SQL writes them, or seconds since 1970.
Hashes: MD5 (32 hex digits), bcrypt, argon2i, argon2id, Django's PBKDF2 and scrypt, $scrypt$, phpass, WordPress 6.8; ! where there
is none to be had: its owner recovers a password by mail.
Run again, after it was cut short or with rows mended, it skips the accounts that are there already.`
}

// Run imports a file.
func (c importCommand) Run(ctx context.Context, out io.Writer, stderr errorWriter) error {
	format, err := c.format()
	if err != nil {
		return err
	}
	job, err := c.job()
	if err != nil {
		return err
	}
	target, closeTarget, err := c.target(ctx)
	if err != nil {
		return err
	}
	defer closeTarget()
	job.Store = target
	done, err := c.importFile(ctx, job, format, stderr)
	if errors.Is(err, context.Canceled) {
		err = errors.New("stopped")
	}
	if err != nil && done.Offset > 0 && !c.DryRun {
		return fmt.Errorf("%w (%d accounts are imported; the same command imports the rest)", err, done.Imported)
	}
	if err != nil {
		return err
	}
	return c.summarise(out, done)
}

// importFile does the import, and shows how far it is and what it refuses.
func (c importCommand) importFile(
	ctx context.Context, job *transfer.Import, format transfer.Format, stderr errorWriter,
) (done transfer.Progress, err error) {
	file, err := os.Open(c.File)
	if err != nil {
		return done, fmt.Errorf("opening the file: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return done, fmt.Errorf("opening the file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return done, fmt.Errorf("%s is no regular file, which the same command can read again: save what comes from it first", c.File)
	}
	line := newProgressLine(stderr.Writer, info.Size())
	defer line.clear()
	job.Progress = line.show
	report, closeReport, err := c.report(stderr)
	if err != nil {
		return done, err
	}
	defer closeReport()
	job.Refused = func(number int, reason string) error {
		line.clear()
		_, err := fmt.Fprintf(report, "line %d: %s\n", number, reason)
		return err
	}
	return job.Run(ctx, file, format)
}

func (c importCommand) format() (transfer.Format, error) {
	name := c.Format
	if name == "" {
		name = strings.ToLower(strings.TrimPrefix(filepath.Ext(c.File), "."))
	}
	switch f := transfer.Format(name); f {
	case transfer.CSV, transfer.NDJSON:
		return f, nil
	}
	return "", fmt.Errorf("--format: the file's name ends in neither .csv nor .ndjson: say which it is")
}

// job is the import, but for what it reads and where it stores.
func (c importCommand) job() (*transfer.Import, error) {
	settings, err := c.settings()
	if err != nil {
		return nil, err
	}
	hasher, err := password.New(settings.password(), 0)
	if err != nil {
		return nil, err
	}
	schema, err := c.schema()
	if err != nil {
		return nil, err
	}
	return &transfer.Import{Schema: schema, Wrapper: hasher, Later: c.DryRun || c.Wrap == "later"}, nil
}

func (c importCommand) settings() (settings, error) {
	var file []byte
	if c.Settings != "" {
		var err error
		if file, err = os.ReadFile(c.Settings); err != nil {
			return settings{}, fmt.Errorf("--settings: %w", err)
		}
	}
	return readSettings(file)
}

func (c importCommand) schema() (*userfields.Schema, error) {
	if c.Fields == "" {
		return userfields.Compile(nil)
	}
	data, err := os.ReadFile(c.Fields)
	if err != nil {
		return nil, fmt.Errorf("--fields: %w", err)
	}
	_, schema, err := userfields.ParseJSON(data)
	if err != nil {
		return nil, fmt.Errorf("--fields: %w", err)
	}
	if err := transfer.CheckSchema(schema); err != nil {
		return nil, fmt.Errorf("--fields: %w", err)
	}
	return schema, nil
}

// report opens the list of refused rows, which holds no values of theirs.
func (c importCommand) report(otherwise io.Writer) (w io.Writer, closeReport func(), err error) {
	if c.Report == "" {
		return otherwise, func() {}, nil
	}
	f, err := os.OpenFile(c.Report, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("--report: %w", err)
	}
	return f, func() { _ = f.Close() }, nil
}

func (c importCommand) summarise(out io.Writer, done transfer.Progress) error {
	verb := "imported"
	if c.DryRun {
		verb = "would be imported"
	}
	_, err := fmt.Fprintf(out, "%d accounts %s, %d were there already, %d rows refused\n", done.Imported, verb, done.There, done.Refused)
	if err == nil && c.Wrap == "later" && !c.DryRun {
		_, err = fmt.Fprintln(out, "MD5 hashes are wrapped while a plugin serves; `personal status` tells how many are left")
	}
	return err
}
