package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/transfer"
	"github.com/cms-personal/personal/shared/userfields"
)

// moveFlags are the flags of import for dumps of other systems.
type moveFlags struct {
	From          string   `enum:",wordpress,mediawiki,drupal7,drupal10,joomla,django,keycloak" default:"" placeholder:"SYSTEM" help:"The file is a dump of this system: wordpress, mediawiki, drupal7, drupal10, joomla, django or keycloak."`
	Prefix        *string  `placeholder:"TEXT" help:"The prefix of the system's tables (default: the one that the dump has)."`
	Logins        string   `enum:"keep,propose,email" default:"keep" help:"What becomes of logins that the rules of logins refuse: keep refuses the user, propose makes a valid login of it, email takes the e-mail. The output lists the changed logins."`
	ChangedLogins string   `placeholder:"FILE" help:"Write the changed logins to this file, as CSV with the e-mail, to tell these users."`
	IDs           string   `name:"ids" enum:"keep,new" default:"keep" help:"keep gives the accounts the ids of the other system, so that references to users stay valid; new gives them others."`
	Role          []string `sep:"none" placeholder:"THEIRS=OURS" help:"What becomes of a role, or a group, of theirs. Repeat the flag for each role, the most important first; THEIRS= drops it. The user field is role, unless --map roles=OURS names another."`
	Map           []string `sep:"none" placeholder:"THEIRS=OURS" help:"Import their field, such as a key of wp_usermeta, as our user field, or as name. Repeat the flag for each field (default: none; --dry-run proposes some)."`
}

// move returns what the flags say.
func (f moveFlags) move() (transfer.Move, error) {
	m := transfer.Move{System: f.From, Prefix: f.Prefix, Logins: transfer.Logins(f.Logins), NewIDs: f.IDs == "new"}
	for _, pair := range f.Map {
		i := strings.LastIndexByte(pair, '=')
		if i < 1 || i == len(pair)-1 {
			return m, fmt.Errorf("--map: %.40q is not THEIRS=OURS", pair)
		}
		m.Fields = append(m.Fields, transfer.Mapped{Theirs: pair[:i], Ours: pair[i+1:]})
	}
	for _, pair := range f.Role {
		i := strings.LastIndexByte(pair, '=')
		if i < 1 {
			return m, fmt.Errorf("--role: %.40q is not THEIRS=OURS", pair)
		}
		m.Roles = append(m.Roles, transfer.Role{Theirs: pair[:i], Ours: pair[i+1:]})
	}
	return m.WithRoles(), nil
}

// loginList is the file of changed logins. It is written even if none was changed.
type loginList struct {
	*os.File // nil: none is wanted
	rows     *csv.Writer
}

// changedLogins creates the list. A second run writes it again, with the users that the first one has
// imported.
func (f moveFlags) changedLogins() (l loginList, err error) {
	if f.ChangedLogins == "" {
		return l, nil
	}
	if l.File, err = os.OpenFile(f.ChangedLogins, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600); err != nil {
		return l, fmt.Errorf("--changed-logins: %w", err)
	}
	l.rows = csv.NewWriter(l.File)
	return l, l.write("email", "login", "former_login")
}

func (l loginList) add(r transfer.Renaming) error {
	if l.File == nil {
		return nil
	}
	return l.write(r.Email, r.To, r.From)
}

func (l loginList) write(cells ...string) error {
	for i, c := range cells {
		if c != "" && strings.Contains("=+-@\t\r", c[:1]) { // a spreadsheet would run it (OWASP, CSV Injection)
			cells[i] = "'" + c
		}
	}
	_ = l.rows.Write(cells) // Flush keeps the error
	l.rows.Flush()
	if err := l.rows.Error(); err != nil {
		return fmt.Errorf("--changed-logins: %w", err)
	}
	return nil
}

// checkMove returns an error for flags that do not concern a dump.
func (c importCommand) checkMove() error {
	if c.Format != "" || c.SecretKey != "" || c.MendHTML {
		return errors.New("--format, --secret-key and --mend-html concern CSV and NDJSON, not --from")
	}
	_, err := c.move()
	return err
}

// checkNoMove returns an error for flags that concern dumps.
func (c importCommand) checkNoMove() error {
	if c.Prefix != nil || c.Logins != "keep" || c.IDs != "keep" || len(c.Map) > 0 || len(c.Role) > 0 || c.ChangedLogins != "" {
		return errors.New("--prefix, --logins, --changed-logins, --ids, --role and --map concern dumps: give the system with --from")
	}
	return nil
}

// stage reads a dump into a temporary database, which release removes. The system removes it, too, if
// this process is killed.
func (c importCommand) stage(
	ctx context.Context, file *os.File, size int64, schema *userfields.Schema, stderr io.Writer,
) (staged *transfer.Staged, release func(), err error) {
	m, err := c.move()
	if err != nil {
		return nil, nil, err
	}
	if err := m.Check(schema); err != nil {
		return nil, nil, err
	}
	db, err := dbconn.OpenScratch(ctx)
	if err != nil {
		return nil, nil, err
	}
	debug.SetGCPercent(30) // rows are short-lived, and the memory of a small machine is dearer than some of the time
	line := newProgressLine(stderr, size)
	defer line.clear()
	staged, err = m.Stage(ctx, db, &counted{file, line, 0, 0}, schema)
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return staged, func() { _ = db.Close() }, nil
}

// counted shows how much of a file was read.
type counted struct {
	io.Reader
	line        *progressLine
	read, shown int64
}

// Read implements [io.Reader].
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read += int64(n)
	if c.read-c.shown > 16<<20 {
		c.shown = c.read
		fmt.Fprintf(c.line.w, "\r\x1b[Kreading the dump: %3d %%", 100*c.read/max(c.line.size, 1))
	}
	return n, err
}
