// Package transfer imports accounts from CSV and NDJSON files, wraps weak hashes that
// were imported bare, and exports accounts, the audit log, and the data of one user.
//
// An import is a pipeline: records are read from the file (csv.go, ndjson.go), turned
// into accounts or refused (row.go), collected into batches without the accounts that
// exist already, and stored, one batch in each transaction (this file).
package transfer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/seal"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

// Store stores imported accounts. Each method is one transaction.
type Store interface {
	// Now returns the database's time.
	Now() time.Time
	Conflicts
	// AddAccounts stores new accounts, with the ids that some of them have, and what
	// followUp returns for their outcomes; on an error nothing. It returns the outcomes in
	// the order of the accounts. Second factors, passkeys and identities are stored from
	// followUp only, because these need the ids. An account one of whose passkeys or identities
	// another account has is not added; followUp has seen its outcome as if it were.
	AddAccounts(ctx context.Context, batch []accounts.Account, followUp func([]Outcome) FollowUp) ([]Outcome, error)
}

// Conflicts looks for conflicts of accounts with existing ones.
type Conflicts interface {
	// Conflicts returns the outcome that each account would have if it were added:
	// Exists, Taken, or the zero value for no conflict.
	Conflicts(ctx context.Context, batch []accounts.Account) ([]Outcome, error)
	// Owners returns the ids of the accounts that have passkeys, by the credential ids of these,
	// and those that have identities; what no account has is missing.
	Owners(ctx context.Context, credentialIDs [][]byte, identities []personal.Identity) (Owners, error)
}

// Owners are accounts by what they have.
type Owners struct {
	Passkeys   map[string]int64
	Identities map[personal.Identity]int64
}

// FollowUp is what is stored in the transaction of a batch.
type FollowUp struct {
	Jobs []accounts.NewJob

	// Of added accounts, which have none yet.
	Factors    []Factor
	Passkeys   []accounts.Passkey // with UserHandle
	Identities []accounts.StoredIdentity
}

// Outcome is the result of adding one account.
type Outcome struct {
	ID     int64 // of the added account; 0: it was not added
	Exists bool  // an account with the same login and e-mail, in the same spelling, and the same id, if one is given, existed before
	Taken  Taken // else: the values that belong to other accounts
}

// Taken holds the ids of the accounts that own unique values of an account; 0 for a
// free value. In a dry run, a negative one is that of an earlier row, in the temporary database.
type Taken struct{ ID, Login, Email, Passkey, Identity int64 }

// reason says why an account was not added. owner names who has a value.
func (o Outcome) reason(owner func(id int64) string) string {
	var list []string
	for _, taken := range []struct {
		column string
		by     int64
	}{{columnEmail, o.Taken.Email}, {columnID, o.Taken.ID}, {columnLogin, o.Taken.Login}, {columnPasskeys, o.Taken.Passkey},
		{columnIdentity, o.Taken.Identity}} {
		if taken.by != 0 {
			list = append(list, taken.column+": taken by "+owner(taken.by))
		}
	}
	return strings.Join(list, "; ")
}

// DryRun is the store of a dry run. It looks for conflicts in the real database and
// adds the unique values of accounts to a temporary one, so that rows in conflict
// with each other are found as well. It does not predict the ids that the real
// database would assign.
type DryRun struct {
	Temporary           // the temporary database
	Real      Conflicts // the real database; nil: it does not exist yet
	rows      []origin  // of the accounts that are added next
}

// Temporary is the database of a dry run.
type Temporary interface {
	Store
	Account(ctx context.Context, id int64) (accounts.Account, error)
}

// Conflicts implements [Store].
func (r DryRun) Conflicts(ctx context.Context, batch []accounts.Account) ([]Outcome, error) {
	if r.Real == nil {
		return make([]Outcome, len(batch)), nil
	}
	return r.Real.Conflicts(ctx, batch)
}

// Owners implements [Store].
func (r DryRun) Owners(ctx context.Context, credentialIDs [][]byte, identities []personal.Identity) (Owners, error) {
	if r.Real == nil {
		return Owners{}, nil
	}
	return r.Real.Owners(ctx, credentialIDs, identities)
}

// AddAccounts implements [Store].
func (r DryRun) AddAccounts(ctx context.Context, batch []accounts.Account, followUp func([]Outcome) FollowUp) ([]Outcome, error) {
	unique := make([]accounts.Account, len(batch))
	for i, a := range batch { // hashes and secrets are not written, not even to this database
		unique[i] = accounts.Account{ID: a.ID, Login: a.Login, LoginKey: a.LoginKey, Email: a.Email}
		if i < len(r.rows) {
			unique[i].Name = new(r.rows[i].String())
		}
	}
	outcomes, err := r.Temporary.AddAccounts(ctx, unique, func(added []Outcome) FollowUp {
		f := followUp(added)
		return FollowUp{Passkeys: f.Passkeys, Identities: f.Identities}
	})
	for i := range outcomes {
		taken := &outcomes[i].Taken
		for _, owner := range []*int64{&taken.ID, &taken.Login, &taken.Email, &taken.Passkey, &taken.Identity} {
			*owner = -*owner
		}
	}
	return outcomes, err
}

// Format is a file format.
type Format string

// The formats of imports.
const (
	CSV    Format = "csv"
	NDJSON Format = "ndjson"
)

// Wrapper wraps a bare hash, see [password.Hasher].
type Wrapper interface {
	Wrap(ctx context.Context, encoded string) (string, error)
}

// Import imports the accounts of a file, a batch in each transaction. A rerun, after
// an interruption or with corrected rows, skips the accounts that exist. A row is
// never stored twice or partly.
type Import struct {
	Store   Store
	Schema  *userfields.Schema // the user fields that are columns
	Wrapper Wrapper
	Later   bool // store weak hashes bare, with jobs that wrap them, see [Wrapping]
	Strict  bool // refuse a row with a value that its account could do without; else that is left out

	// Replace texts whose UTF-8 was encoded twice, and those of a file that are escaped as HTML, by what was
	// meant; else they are only counted.
	MendUTF8, MendHTML bool

	HashForm string // of digests whose row states no form, see [password.AdoptForm]; "": none

	Keys *seal.Keyring // decrypt secrets of second factors, and the first encrypts them; nil: none

	// Refused is called for each row that is not imported, in the order of the file; those
	// that are imported after all others come last. The reason names columns
	// and holds no values.
	Refused func(line int, reason string) error
	// LeftOut is called for each value that an imported row loses. The reason names the column.
	LeftOut func(line int, reason string) error
	// Renamed is called for each row whose account has not the login of the file.
	Renamed func(Renaming) error
	// Progress is called at the start and after each batch.
	Progress func(Progress)
	Report   Report // counts what becomes of the rows

	fields []personal.Field // of the schema, during a run
}

// Progress is the state of a running import.
type Progress struct {
	Offset   int64 // bytes of the file that are done
	Imported int64 // rows
	Existing int64 // rows whose accounts existed already
	Refused  int64 // rows
}

// Renaming is a login that an import has changed.
type Renaming struct {
	Line     int
	From, To string
	Email    string // of the user; "": none
	Existing bool   // an earlier run has imported the row
}

// A batch is one transaction. It ends at the first of these limits, so that neither
// the memory nor the work lost by a crash grows with the file.
const (
	batchRows  = 1000
	batchBytes = 4 << 20
	batchWraps = 100 // weak hashes to wrap, which take seconds
)

// batch is a part of the file: accounts to add, and the results of its other rows.
type batch struct {
	accounts []accounts.Account
	rows     []origin // of the accounts
	existing int64    // rows
	refused  []refusal
	renamed  []Renaming
	left     bool  // rows belong to the other pass
	end      int64 // offset of the next batch
}

// origin is what a row says beside the account.
type origin struct {
	line             int
	label            string            // names the row beside the line, which may have many; "": the line does
	renamed          string            // the login in the file; "": it is that of the account
	cut              bool              // the login or the e-mail was cut or mended
	left             map[string]string // why columns and user fields, or parts of these, were left out
	doubled, escaped string            // see record
	logins           []string          // others that a renamed user may have, if theirs is taken
	digits           int               // of the hash, if it is hexadecimal digits, with or without a salt
	form             string            // of such digits; "": none was stated
	factor           *importedFactor   // nil: none
	passkeys         []accounts.Passkey
	identities       []accounts.StoredIdentity
}

// late reports whether the row is imported after all others: its login or e-mail is not that of the
// file, so that it takes nothing from a row that has it unchanged.
func (o origin) late() bool { return o.cut || o.renamed != "" }

// rename gives the account of a renamed row the next login, and reports whether there was one.
func (o *origin) rename(a *accounts.Account) bool {
	if len(o.logins) == 0 {
		return false
	}
	a.Login, o.logins = o.logins[0], o.logins[1:]
	a.LoginKey, _ = accounts.LoginKey(a.Login) // it is valid
	return true
}

// String names the row.
func (o origin) String() string {
	if o.label == "" {
		return fmt.Sprintf("the row of line %d", o.line)
	}
	return fmt.Sprintf("the row of line %d, %s", o.line, o.label)
}

// named returns a reason with the label of the row.
func (o origin) named(reason string) string {
	if o.label == "" {
		return reason
	}
	return o.label + ": " + reason
}

type refusal struct {
	row    origin
	reason string
	kind   string // the reason without the row that it names
}

// refuse counts a row that cannot be imported.
func (b *batch) refuse(row origin, reason string) {
	b.refused = append(b.refused, refusal{row, reason, reason})
}

// addRenaming reports the login of a row if it was changed.
func (b *batch) addRenaming(row origin, a accounts.Account, existing bool) {
	if row.renamed != "" {
		b.renamed = append(b.renamed, Renaming{row.line, row.renamed, a.Login, a.Email.Address, existing})
	}
}

// leaveOut counts a row that is not added.
func (m *Import) leaveOut(ctx context.Context, b *batch, a accounts.Account, row origin, o Outcome) {
	if o.Exists {
		b.existing++
		b.addRenaming(row, a, true)
		return
	}
	more := ""
	if row.cut {
		more = " (the login or the e-mail of this row is not that of the file, which is cut, mended or changed)"
	}
	b.refused = append(b.refused, refusal{
		row: row, kind: o.reason(anyOwner) + more,
		reason: o.reason(func(id int64) string { return m.owner(ctx, id) }) + more,
	})
}

// anyOwner names the owner of a value, without the row.
func anyOwner(id int64) string {
	if id < 0 {
		return "an earlier row"
	}
	return fmt.Sprintf("account %d", id)
}

// owner names the owner of a value, by its id in an [Outcome].
func (m *Import) owner(ctx context.Context, id int64) string {
	if dry, ok := m.Store.(DryRun); ok && id < 0 {
		if row, err := dry.Account(ctx, -id); err == nil && row.Name != nil {
			return *row.Name
		}
	}
	return anyOwner(id) // it was not added after all, because of something else that is taken
}

// Input is what is imported: a [File], or [Staged].
type Input interface {
	// records returns the rows from the first one.
	records(ctx context.Context, m *Import) (records, error)
}

// File is a file of rows.
type File struct {
	io.ReadSeeker
	Format Format
}

func (f File) records(_ context.Context, m *Import) (records, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("reading the file: %w", err)
	}
	var rows records
	var err error
	if f.Format == CSV {
		rows, err = newCSV(f, m.Schema)
	} else {
		rows, err = newNDJSON(f, m.Schema)
	}
	return mendingRecords{rows, mending{m.MendUTF8, m.MendHTML}}, err
}

// Run imports the rows and returns the final state. Those before an error are imported. Offsets are
// numbers of bytes of a file, or of users of a dump. Rows with white space around the login or the
// e-mail, or with a changed login, are imported after all others, so that they do not take what another
// row has.
func (m *Import) Run(ctx context.Context, in Input) (done Progress, err error) {
	m.Progress(done)
	m.fields = m.Schema.Fields()
	later, err := m.pass(ctx, in, false, &done)
	if err == nil && later {
		_, err = m.pass(ctx, in, true, &done)
	}
	return done, err
}

// pass imports the rows that are late, or all others, and reports whether it has left rows out.
func (m *Import) pass(ctx context.Context, in Input, late bool, done *Progress) (left bool, err error) {
	from, err := in.records(ctx, m)
	if err != nil {
		return false, err
	}
	defer from.close()
	batches := make(chan batch, 1) // one is read while another is stored
	work, working := errgroup.WithContext(ctx)
	work.Go(func() error {
		defer close(batches)
		left, err = m.read(working, from, late, batches)
		return err
	})
	work.Go(func() error {
		for b := range batches {
			// An error of the reader cancels working; the batches it has sent are stored.
			if err := m.add(ctx, b, done); err != nil {
				return err
			}
			m.Progress(*done)
		}
		return nil
	})
	return left, work.Wait()
}

// read sends the file in batches, with wrapped hashes. If reading ends with an error,
// it first sends the rows before it. See [Import.pass].
func (m *Import) read(ctx context.Context, from records, late bool, out chan<- batch) (left bool, err error) {
	for start := int64(0); ; {
		b, end := m.fill(from, start, late)
		start, left = b.end, left || b.left
		if err := m.leaveOutConflicts(ctx, &b); err != nil {
			return left, err
		}
		if !m.Later {
			if err := m.wrap(ctx, b.accounts); err != nil {
				return left, err
			}
		}
		select {
		case out <- b:
		case <-ctx.Done():
			return left, ctx.Err()
		}
		if errors.Is(end, io.EOF) {
			return left, nil
		}
		if end != nil {
			return left, end
		}
	}
}

// fill reads one batch. An error, io.EOF at the end of the file, means that it is
// the last.
func (m *Import) fill(from records, start int64, late bool) (batch, error) {
	b := batch{end: start}
	for bare := 0; len(b.accounts)+len(b.refused) < batchRows && b.end-start < batchBytes && bare < batchWraps; {
		r, err := from.next()
		if err != nil {
			return b, err
		}
		b.end = r.end
		account, origin, reason := m.row(r)
		if origin.late() != late {
			b.left = true
			continue
		}
		if reason != "" {
			b.refuse(origin, reason)
			continue
		}
		if !m.Later && password.IsBare(account.PasswordHash) {
			bare++
		}
		b.accounts, b.rows = append(b.accounts, account), append(b.rows, origin)
	}
	return b, nil
}

// conflicts returns the outcomes that the accounts of a batch would have, after renamed ones whose login is
// taken got their next ones.
func (m *Import) conflicts(ctx context.Context, b *batch) ([]Outcome, error) {
	for {
		outcomes, err := m.Store.Conflicts(ctx, b.accounts)
		if err != nil {
			return nil, fmt.Errorf("looking for existing accounts: %w", err)
		}
		renamed, seen := false, make(map[string]bool, len(outcomes))
		for i, o := range outcomes {
			a := &b.accounts[i]
			// With any conflict: the account may be there already, with one of the next logins.
			if !o.Exists && (o != Outcome{} || seen[a.LoginKey]) && b.rows[i].rename(a) {
				renamed = true
			}
			seen[a.LoginKey] = true
		}
		if !renamed {
			return outcomes, nil
		}
	}
}

// leaveOutConflicts removes the accounts that exist or are in conflict, so that none
// of their hashes is wrapped, and then those whose second factor cannot be imported.
func (m *Import) leaveOutConflicts(ctx context.Context, b *batch) error {
	outcomes, err := m.conflicts(ctx, b)
	if err != nil {
		return err
	}
	if err := m.addOwners(ctx, b.rows, outcomes); err != nil {
		return fmt.Errorf("looking for existing passkeys and identities: %w", err)
	}
	all, rows := b.accounts, b.rows
	b.accounts, b.rows = nil, nil
	for i, o := range outcomes {
		if o != (Outcome{}) {
			m.leaveOut(ctx, b, all[i], rows[i], o)
			continue
		}
		if f := rows[i].factor; f != nil {
			if reason := m.openFactor(f); reason != "" {
				b.refuse(rows[i], reason)
				continue
			}
		}
		b.accounts, b.rows = append(b.accounts, all[i]), append(b.rows, rows[i])
	}
	return nil
}

// addOwners adds to the outcomes of rows the accounts that have one of their passkeys or identities.
func (m *Import) addOwners(ctx context.Context, rows []origin, outcomes []Outcome) error {
	var passkeys [][]byte
	var identities []personal.Identity
	for _, row := range rows {
		for _, p := range row.passkeys {
			passkeys = append(passkeys, p.CredentialID)
		}
		for _, i := range row.identities {
			identities = append(identities, i.Identity)
		}
	}
	if len(passkeys) == 0 && len(identities) == 0 {
		return nil
	}
	found, err := m.Store.Owners(ctx, passkeys, identities)
	for n, row := range rows {
		taken := &outcomes[n].Taken
		if outcomes[n].Exists {
			continue
		}
		for _, p := range row.passkeys {
			taken.Passkey = max(taken.Passkey, found.Passkeys[string(p.CredentialID)])
		}
		for _, i := range row.identities {
			taken.Identity = max(taken.Identity, found.Identities[i.Identity])
		}
	}
	return err
}

// wrap wraps the bare hashes of a batch, in parallel.
func (m *Import) wrap(ctx context.Context, batch []accounts.Account) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(runtime.GOMAXPROCS(0))
	for i := range batch {
		if hash := &batch[i].PasswordHash; password.IsBare(*hash) {
			work.Go(func() (err error) {
				*hash, err = m.Wrapper.Wrap(ctx, *hash)
				return err
			})
		}
	}
	if err := work.Wait(); err != nil {
		return fmt.Errorf("wrapping the hashes of a batch: %w", err)
	}
	return nil
}

// add stores a batch, counts the results of its rows, and reports the refused ones.
func (m *Import) add(ctx context.Context, b batch, done *Progress) error {
	for len(b.accounts) > 0 { // a batch of existing accounts takes no write lock
		var again batch
		to := m.Store
		if dry, ok := to.(DryRun); ok {
			dry.rows = b.rows
			to = dry
		}
		outcomes, err := to.AddAccounts(ctx, b.accounts, func(outcomes []Outcome) FollowUp { return m.followUp(b, outcomes) })
		if err != nil {
			return fmt.Errorf("storing accounts: %w", err)
		}
		for i, o := range outcomes {
			if o.Taken.Login != 0 && b.rows[i].rename(&b.accounts[i]) { // an earlier row of this import has it
				again.accounts, again.rows = append(again.accounts, b.accounts[i]), append(again.rows, b.rows[i])
				continue
			}
			if o.ID == 0 {
				m.leaveOut(ctx, &b, b.accounts[i], b.rows[i], o)
				continue
			}
			done.Imported++
			m.Report.imported(b.accounts[i], b.rows[i])
			row := b.rows[i]
			for _, column := range slices.Sorted(maps.Keys(row.left)) {
				if err := m.LeftOut(row.line, row.named(shown(column)+": "+row.left[column])); err != nil {
					return fmt.Errorf("reporting a value that was left out: %w", err)
				}
			}
			b.addRenaming(row, b.accounts[i], false)
		}
		if len(again.rows) > 0 {
			if _, err := m.conflicts(ctx, &again); err != nil { // of a dry run in the real database
				return err
			}
		}
		b.accounts, b.rows = again.accounts, again.rows
	}
	slices.SortStableFunc(b.renamed, func(a, b Renaming) int { return cmp.Compare(a.Line, b.Line) })
	for _, r := range b.renamed {
		if err := m.Renamed(r); err != nil {
			return fmt.Errorf("reporting a changed login: %w", err)
		}
	}
	done.Offset = max(done.Offset, b.end)
	done.Existing += b.existing
	done.Refused += int64(len(b.refused))
	slices.SortStableFunc(b.refused, func(a, b refusal) int { return cmp.Compare(a.row.line, b.row.line) })
	for _, r := range b.refused {
		m.Report.refused(r)
		if err := m.Refused(r.row.line, r.row.named(r.reason)); err != nil {
			return fmt.Errorf("reporting a refused row: %w", err)
		}
	}
	return nil
}

// KindWrap is the job that wraps the bare hashes of some accounts.
const KindWrap outbox.Kind = "wrap"

// wrapsPerJob keeps a job short: a plugin that is replaced by another version first
// finishes its jobs.
const wrapsPerJob = 100

// wrapPayload is the payload of a job.
type wrapPayload struct {
	IDs []int64 `json:"ids"` // of accounts
}

// followUp returns the formats of the added hashes, the jobs that wrap the bare ones, and
// the second factors, passkeys and identities of the added accounts.
func (m *Import) followUp(b batch, outcomes []Outcome) (f FollowUp) {
	var bare []int64
	for i, o := range outcomes {
		if o.ID == 0 {
			continue
		}
		if password.IsBare(b.accounts[i].PasswordHash) {
			bare = append(bare, o.ID)
		}
		if imported := b.rows[i].factor; imported != nil {
			f.Factors = append(f.Factors, m.factorFor(o.ID, *imported))
		}
		for _, p := range b.rows[i].passkeys {
			p.AccountID = o.ID
			f.Passkeys = append(f.Passkeys, p)
		}
		for _, identity := range b.rows[i].identities {
			identity.AccountID = o.ID
			f.Identities = append(f.Identities, identity)
		}
	}
	slices.Sort(bare)
	for ids := range slices.Chunk(bare, wrapsPerJob) {
		payload, _ := json.Marshal(wrapPayload{IDs: ids}) // cannot fail
		f.Jobs = append(f.Jobs, accounts.NewJob{Kind: KindWrap, Payload: payload})
	}
	return f
}

// BareStore holds accounts whose hash waits to be wrapped, see [password.IsBare].
type BareStore interface {
	// BareHashes returns the bare hashes of accounts, by their ids.
	BareHashes(ctx context.Context, ids []int64) (map[int64]string, error)
	// ReplaceHash replaces the hash of an account if the account still has the hash
	// from. Both hashes are of the same password, so the credential version stays.
	ReplaceHash(ctx context.Context, id int64, from, to string) error
}

// Wrapping wraps hashes that were imported bare, in the background.
type Wrapping struct {
	Store   BareStore
	Wrapper Wrapper
	Log     *slog.Logger
}

// Do does one job of [KindWrap]. It may be repeated: hashes that are wrapped already
// are not touched. It leaves those that cannot be read, and logs a warning.
func (w *Wrapping) Do(ctx context.Context, j outbox.Job) error {
	var of wrapPayload
	if err := json.Unmarshal(j.Payload, &of); err != nil {
		return fmt.Errorf("reading a wrapping job: %w", err)
	}
	hashes, err := w.Store.BareHashes(ctx, of.IDs)
	if err != nil {
		return fmt.Errorf("finding bare hashes: %w", err)
	}
	for id, bare := range hashes {
		wrapped, err := w.Wrapper.Wrap(ctx, bare)
		if errors.Is(err, password.ErrBadHash) {
			w.Log.WarnContext(ctx, "an imported hash cannot be read: the user needs a recovery mail", slog.Int64("user_id", id))
			continue
		}
		if err != nil {
			return err
		}
		if err := w.Store.ReplaceHash(ctx, id, bare, wrapped); err != nil {
			return fmt.Errorf("storing a wrapped hash: %w", err)
		}
	}
	return nil
}
