package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/transfer"
	"github.com/cms-personal/personal/shared/userfields"
)

type importCommand struct {
	databaseFlag
	File   string `arg:"" type:"existingfile" help:"CSV with a header row, NDJSON, or with --from a dump."`
	Format string `enum:",csv,ndjson" default:"" help:"csv or ndjson (default: the extension of the file)."`
	moveFlags
	Fields    []byte       `type:"filecontent" placeholder:"FILE" help:"The host's user-fields.json, for columns of user fields, --map and --role."`
	Settings  settingsFile `type:"filecontent" placeholder:"FILE" help:"The plugin's settings file, for the costs of new hashes."`
	Wrap      string       `enum:"now,later" default:"now" help:"When to wrap MD5 and other weak hashes in Argon2id: now, or later in the running plugin."`
	HashForm  string       `placeholder:"FORM" help:"How digests without their own form were made: md5(p.s), sha1(s.p), md5(md5(p).s), bcrypt(s.p), … of the password p and the salt s, or the start of a PBKDF2."`
	DryRun    bool         `help:"Check every row, change nothing, and print a report."`
	Probe     string       `placeholder:"LOGIN" help:"Ask on the terminal for the password of this user, such as yourself, in the other system, and import only if it would be accepted. It also finds how hashes of digits were made."`
	JSON      bool         `name:"json" help:"Print the report as JSON, and nothing else, to standard output."`
	SecretKey string       `type:"path" placeholder:"FILE" help:"The host's file of secret keys, such as DATA/secret.key, for accounts with a second factor: all its keys decrypt secrets, the first encrypts them."`
	MendUTF8  bool         `name:"mend-utf8" help:"Correct texts whose UTF-8 was encoded twice, such as JÃ¼rgen for Jürgen (default: a warning names one)."`
	MendHTML  bool         `name:"mend-html" help:"Decode logins, names and texts of CSV and NDJSON that are HTML, such as Tom &amp; Jerry, as forums store them (default: a warning names one)."`
	Strict    bool         `help:"Refuse a row whose e-mail, name, user field, locale or time is invalid (default: import it without this value, and report that)."`
	Report    string       `placeholder:"FILE" help:"Append refusals, values that were left out and changed logins, one line each with the line number and the reason, to this file (default: standard error)."`
}

// Help describes the columns.
func (importCommand) Help() string {
	return `Columns: login and password_hash are required; password_salt, hash_form, email, email_verified, name, disabled, erase_at, locale, created, updated, id
and user fields are optional. A list in CSV is JSON: ["a","b"]. Times are RFC 3339, SQL timestamps, or (milli)seconds since 1970.

Hashes: MD5 (32 hex digits), bcrypt, argon2i, argon2id, scrypt, phpass, PBKDF2, crypt ($1$, $5$, $6$), and those of Django, Drupal,
MediaWiki, phpBB, WordPress and LDAP. Other digests need a form, in the column hash_form or by --hash-form, and their salt after a
colon or in the column password_salt. Write ! if there is no usable hash: the user then sets a password with a recovery mail, so the
row needs an e-mail. docs/password-hashes.md lists the hashes of 20 systems.

NDJSON written by export also has two_factor. To import accounts with a second factor, give --secret-key.

It has passkeys, too. They work where [passkeys] rp_id is the domain for which they were added.

With --from, the file is a dump in SQL, as mysqldump, mariadb-dump, pg_dump and many other tools write it, also compressed with gzip or
bzip2, or the export of a realm of Keycloak. No database server is needed: see docs/moving.md.

If you run the command again, after an interruption or with corrected rows, it skips the accounts that exist already.`
}

// Run imports a file.
func (c importCommand) Run(ctx context.Context, out io.Writer, stderr errorWriter) error {
	format, err := c.format()
	if err != nil {
		return err
	}
	job, hasher, err := c.job()
	if err != nil {
		return err
	}
	file, size, err := c.openFile()
	if err != nil {
		return err
	}
	defer file.Close()
	var staged *transfer.Staged
	var in transfer.Input = transfer.File{ReadSeeker: file, Format: format}
	if c.From != "" {
		var release func()
		staged, release, err = c.stage(ctx, file, size, job.Schema, stderr.Writer)
		if err != nil {
			return stopped(err)
		}
		defer release()
		in, size = staged, staged.Total
	}
	if c.Probe != "" {
		row, err := job.FindHash(ctx, in, c.Probe)
		if err != nil {
			return fmt.Errorf("--probe: %w", err)
		}
		if err := probe(ctx, job, hasher, row, c.Probe, stderr); err != nil {
			return stopped(err)
		}
	}
	var done transfer.Progress
	err = c.withStore(ctx, hasher, func(s transfer.Store) (err error) {
		job.Store = s
		done, err = c.importRows(ctx, job, in, size, stderr.Writer)
		return err
	})
	err = stopped(err)
	if err != nil && done.Offset > 0 && !c.DryRun {
		return fmt.Errorf("%w (%d accounts were imported; run the same command again to import the rest)", err, done.Imported)
	}
	if err != nil {
		return err
	}
	return c.summarise(out, stderr, done, job, staged)
}

// stopped returns what a user reads of an error.
func stopped(err error) error {
	if errors.Is(err, context.Canceled) {
		return errors.New("stopped")
	}
	return err
}

// format returns the format of a file that is no dump.
func (c importCommand) format() (transfer.Format, error) {
	format := transfer.Format(c.Format)
	if c.From != "" {
		return "", c.checkMove()
	}
	if err := c.checkNoMove(); err != nil {
		return "", err
	}
	if format == "" {
		format = transfer.Format(strings.ToLower(strings.TrimPrefix(filepath.Ext(c.File), ".")))
	}
	if format != transfer.CSV && format != transfer.NDJSON {
		return "", errors.New("--format: the name of the file ends in neither .csv nor .ndjson: give the format, or the system of a dump with --from")
	}
	return format, nil
}

// summarise prints what the import has done.
func (c importCommand) summarise(out, stderr io.Writer, done transfer.Progress, job *transfer.Import, staged *transfer.Staged) error {
	job.Report.Finish(done, staged, job.Schema)
	if n := job.Report.Unproven(); n > 0 {
		fmt.Fprintf(stderr, "%d password hashes are 32 hexadecimal digits and do not say how they were made. They are taken as the MD5 of the password: "+
			"if they are not, these users cannot sign in. Try one with --probe LOGIN, or state the form with --hash-form.\n", n)
	}
	if n := job.Report.Doubled; n > 0 && !c.MendUTF8 {
		fmt.Fprintf(stderr, "%d rows have texts whose UTF-8 seems to have been encoded twice, such as %s. Correct them with --mend-utf8.\n", n, job.Report.DoubledExample)
	}
	if n := job.Report.Escaped; n > 0 && !c.MendHTML {
		fmt.Fprintf(stderr, "%d rows have texts that seem to be HTML, such as %s. Decode them with --mend-html.\n", n, job.Report.EscapedExample)
	}
	if job.Report.EndUnmarked {
		fmt.Fprintf(stderr, "The end of the dump is not marked, so that one that was cut off looks the same: compare the number of users (%d) with the other system.\n",
			job.Report.Users())
	}
	if c.JSON {
		return writeJSON(out, &job.Report)
	}
	verb := "imported"
	if c.DryRun {
		verb = "would be imported"
	}
	_, err := fmt.Fprintf(out, "%d accounts %s, %d were there already, %d rows refused\n", done.Imported, verb, done.Existing, done.Refused)
	if err == nil && c.DryRun {
		err = job.Report.Write(out)
	}
	if err == nil && c.Wrap == "later" && !c.DryRun && done.Imported > 0 {
		_, err = fmt.Fprintln(out, "The running plugin wraps the weak hashes; `personal status` prints how many are left.")
	}
	return err
}

// job returns the import without its store, and what verifies its hashes.
func (c importCommand) job() (*transfer.Import, *password.Hasher, error) {
	settings, _, err := readSettings(c.Settings)
	if err != nil {
		return nil, nil, err
	}
	hasher, err := password.New(settings.password(), 0)
	if err != nil {
		return nil, nil, err
	}
	schema, err := userfields.Compile(nil)
	if c.Fields != nil {
		_, schema, err = userfields.ParseInForce(c.Fields)
	}
	if err == nil {
		err = transfer.CheckSchema(schema)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("--fields: %w", err)
	}
	if _, err := password.FormDigits(c.HashForm); c.HashForm != "" && err != nil {
		return nil, nil, fmt.Errorf("--hash-form: %w", err)
	}
	keyring, err := readKeyring(c.SecretKey)
	if err != nil {
		return nil, nil, err
	}
	return &transfer.Import{Schema: schema, Wrapper: hasher, Later: c.DryRun || c.Wrap == "later", HashForm: c.HashForm, Keys: keyring, Strict: c.Strict, MendUTF8: c.MendUTF8, MendHTML: c.MendHTML}, hasher, nil
}

// withStore calls use with the database, or in a dry run with a temporary one that
// looks for conflicts in the real one, if that exists. Then it lays the classes of the hashes, also of an
// import that was stopped.
func (c importCommand) withStore(ctx context.Context, hasher *password.Hasher, use func(transfer.Store) error) error {
	if !c.DryRun {
		db, err := c.openMigrated(ctx)
		if err != nil {
			return err
		}
		defer db.Close()
		return errors.Join(use(db), db.UpdateClasses(context.WithoutCancel(ctx), hasher, true))
	}
	folder, err := os.MkdirTemp("", "personal-dry-run-")
	if err != nil {
		return fmt.Errorf("creating a database for the dry run: %w", err)
	}
	defer os.RemoveAll(folder)
	temporary, err := databaseFlag{Database: "sqlite://" + filepath.Join(folder, "personal.db")}.openMigrated(ctx)
	if err != nil {
		return fmt.Errorf("creating a database for the dry run: %w", err)
	}
	defer temporary.Close()
	target := transfer.DryRun{Temporary: temporary}
	db, err := c.openExisting(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return use(target)
	}
	if err != nil {
		return err
	}
	defer db.Close()
	found, _, err := db.CheckSchema(ctx)
	if err != nil {
		return err
	}
	if found > 0 {
		target.Real = db
	}
	return use(target)
}

// openFile opens the file and returns its size in bytes.
func (c importCommand) openFile() (*os.File, int64, error) {
	file, err := os.Open(c.File)
	if err != nil {
		return nil, 0, fmt.Errorf("opening the file: %w", err)
	}
	info, err := file.Stat()
	switch {
	case err != nil:
		err = fmt.Errorf("opening the file: %w", err)
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s is not a regular file, so that a second run could not read it again: save the data to a file first", c.File)
	default:
		return file, info.Size(), nil
	}
	return nil, 0, errors.Join(err, file.Close())
}

// importRows runs the import, shows its progress and reports refused rows and changed logins.
// size is the offset at the end.
func (c importCommand) importRows(
	ctx context.Context, job *transfer.Import, in transfer.Input, size int64, stderr io.Writer,
) (done transfer.Progress, err error) {
	report := stderr
	if c.Report != "" { // it holds no values but changed logins
		f, err := os.OpenFile(c.Report, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return done, fmt.Errorf("--report: %w", err)
		}
		defer f.Close()
		report = f
	}
	line := newProgressLine(stderr, size)
	defer line.clear()
	job.Progress = line.show
	job.Refused = func(number int, reason string) error {
		line.clear()
		_, err := fmt.Fprintf(report, "line %d: %s\n", number, reason)
		return err
	}
	job.LeftOut = func(number int, reason string) error {
		line.clear()
		_, err := fmt.Fprintf(report, "line %d: left out: %s\n", number, reason)
		return err
	}
	changed, err := c.changedLogins()
	if err != nil {
		return done, err
	}
	defer changed.Close()
	job.Renamed = func(r transfer.Renaming) error {
		if !r.Existing {
			line.clear()
			fmt.Fprintf(report, "line %d: the login %q becomes %q\n", r.Line, r.From, r.To)
		}
		return changed.add(r)
	}
	return job.Run(ctx, in)
}

// progressLine is a line on a terminal that is overwritten with the progress.
type progressLine struct {
	w     io.Writer // the terminal; io.Discard if there is none
	size  int64     // of the file
	start time.Time
}

// newProgressLine returns a line that writes to w if w is a terminal.
func newProgressLine(w io.Writer, size int64) *progressLine {
	p := &progressLine{w: io.Discard, size: size, start: time.Now()}
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			p.w = w
		}
	}
	return p
}

// show writes the progress, the rate and the remaining time.
func (p *progressLine) show(now transfer.Progress) {
	fmt.Fprint(p.w, "\r\x1b[K"+p.text(now, time.Since(p.start)))
}

func (p *progressLine) text(now transfer.Progress, took time.Duration) string {
	rows := now.Imported + now.Existing + now.Refused
	text := fmt.Sprintf("%3d %%  %d rows", 100*now.Offset/max(p.size, 1), rows)
	if now.Offset > 0 && took > 0 {
		left := time.Duration(float64(took) / float64(now.Offset) * float64(p.size-now.Offset))
		text += fmt.Sprintf("  %.0f rows/s  %v left", float64(rows)/took.Seconds(), left.Round(time.Second))
	}
	return text
}

// clear erases the line.
func (p *progressLine) clear() { fmt.Fprint(p.w, "\r\x1b[K") }
