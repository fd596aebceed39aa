package store

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/transfer"
	"github.com/cms-personal/personal/shared/personal"
)

var (
	_ transfer.Store        = (*Store)(nil)
	_ transfer.Source       = (*Store)(nil)
	_ transfer.PersonSource = (*Store)(nil)
	_ transfer.BareStore    = (*Store)(nil)
)

// conflictTries is how often a transaction of an import runs that loses against others.
// PostgreSQL lets it wait for a second before it calls a wait a deadlock.
const conflictTries = 10

// AddAccounts stores imported accounts, see transfer.Store. Of several calls in a row
// some take longer, so that other processes get the write lock, too. If the transaction
// loses against another one, for example in a deadlock, it runs again.
func (s *Store) AddAccounts(
	ctx context.Context, batch []accounts.Account, followUp func([]transfer.Outcome) transfer.FollowUp,
) (outcomes []transfer.Outcome, err error) {
	for range conflictTries {
		err = s.inTx(ctx, "add accounts", func(ctx context.Context, tx bun.Tx) (err error) {
			if outcomes, err = s.addAccounts(ctx, tx, batch); err != nil {
				return err
			}
			follow := followUp(outcomes)
			if err := addFactors(ctx, tx, follow.Factors); err != nil {
				return err
			}
			if err := addPasskeys(ctx, tx, follow.Passkeys, outcomes); err != nil {
				return err
			}
			if err := addIdentities(ctx, tx, follow.Identities, outcomes); err != nil {
				return err
			}
			if err := setSweepPosition(ctx, tx, importing, sweepRow{Position: 1, Began: at(s.Now())}); err != nil {
				return err
			}
			return s.addJobs(ctx, tx, follow.Jobs)
		})
		if !isConflict(err) {
			break
		}
	}
	s.yieldWriteLock(ctx)
	return outcomes, err
}

// yieldWriteLock leaves the write lock to other processes now and then. A process
// that waits for SQLite's lock polls it, at last every 100 ms, and would never find
// it free between transactions that follow each other closely.
func (s *Store) yieldWriteLock(ctx context.Context) {
	const every, pause = 400 * time.Millisecond, 110 * time.Millisecond
	s.lastYield.CompareAndSwap(0, time.Now().UnixMilli()) // the first call need not yield
	if !s.pollsLock || time.Since(time.UnixMilli(s.lastYield.Load())) < every {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
	s.lastYield.Store(time.Now().UnixMilli())
}

// statementRows are the accounts that one statement concerns: SQLite keeps a parsed statement in
// memory.
const statementRows = 100

// addAccounts inserts the accounts without a conflict and finds the conflicts of the
// others. If there is none, it was with an account that has been deleted since,
// and the insert is repeated.
func (s *Store) addAccounts(ctx context.Context, tx bun.Tx, batch []accounts.Account) ([]transfer.Outcome, error) {
	outcomes := make([]transfer.Outcome, len(batch))
	open := openIndexes(outcomes)
	for range insertTries {
		for part := range slices.Chunk(open, statementRows) {
			if err := s.insertAccounts(ctx, tx, batch, part, outcomes); err != nil {
				return nil, err
			}
		}
		if err := findConflicts(ctx, tx, batch, outcomes); err != nil {
			return nil, err
		}
		if open = openIndexes(outcomes); len(open) == 0 {
			return outcomes, nil
		}
	}
	return nil, errors.New("the values in conflict keep changing")
}

// openIndexes returns the indexes of the accounts without an outcome.
func openIndexes(outcomes []transfer.Outcome) (open []int) {
	for i, o := range outcomes {
		if o == (transfer.Outcome{}) {
			open = append(open, i)
		}
	}
	return open
}

// identity distinguishes the accounts of a batch: of two with the same identity, the
// database takes the first whose id is free.
type identity struct{ LoginKey, EmailKey string }

func identityOf(a accounts.Account) identity { return identity{a.LoginKey, a.Email.Key} }

// insertAccounts inserts the accounts of a batch with the given indexes and sets the
// outcomes of those that were inserted.
func (s *Store) insertAccounts(ctx context.Context, tx bun.Tx, batch []accounts.Account, indexes []int, outcomes []transfer.Outcome) error {
	if len(indexes) == 0 {
		return nil
	}
	const columns = "id, login, login_key, name, email, email_key, search, password_hash, credential_version, fields, disabled, created, updated, " +
		"locale, email_verified, erase_at"
	var rows []string
	var args []any
	var maxID int64
	for _, i := range indexes {
		row := newAccountRow(batch[i])
		id := any(s.nextID)
		if batch[i].ID != 0 {
			id = batch[i].ID
		}
		rows = append(rows, "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
		args = append(args, id, row.Login, row.LoginKey, row.Name, row.Email, bun.NullZero(row.EmailKey), row.Search,
			row.PasswordHash, row.CredentialVersion, row.Fields, row.Disabled, row.Created, row.Updated,
			row.Locale, row.EmailVerified, row.EraseAt)
		maxID = max(maxID, batch[i].ID)
	}
	if maxID > 0 && s.raiseID != "" { // else the database could assign an imported id again
		if _, err := exec(ctx, tx, s.raiseID, maxID, maxID); err != nil {
			return err
		}
	}
	var added []struct {
		ID int64
		identity
	}
	query := "INSERT INTO personal_accounts (" + columns + ") " + string(s.givenID) + " VALUES " + strings.Join(rows, ", ") +
		" ON CONFLICT DO NOTHING RETURNING id, login_key, coalesce(email_key, '') AS email_key"
	if err := tx.NewRaw(query, args...).Scan(ctx, &added); err != nil {
		return err
	}
	ids := make(map[identity]int64, len(added))
	for _, a := range added {
		ids[a.identity] = a.ID
	}
	for _, i := range indexes {
		id := ids[identityOf(batch[i])]
		if batch[i].ID != 0 && batch[i].ID != id { // another account of this identity, whose id was free
			continue
		}
		outcomes[i].ID = id
		delete(ids, identityOf(batch[i]))
	}
	return nil
}

// addFactors stores the second factors of added accounts.
func addFactors(ctx context.Context, tx bun.Tx, factors []transfer.Factor) error {
	var writes []schema.QueryAppender
	for _, f := range factors {
		writes = append(writes, tx.NewRaw("UPDATE personal_accounts SET two_factor_secret = ?, two_factor_key = ?, two_factor_step = ? WHERE id = ?",
			f.Secret.Data, f.Secret.Key, f.Step, f.AccountID))
		for i := range f.RecoveryCodes {
			writes = append(writes, addRecoveryCode(tx, f.AccountID, f.RecoveryCodes[i]))
		}
	}
	return execAll(ctx, tx, writes...)
}

// addPasskeys stores the passkeys of added accounts. It removes an account again that has one of
// another account, and sets its outcome.
func addPasskeys(ctx context.Context, tx bun.Tx, passkeys []accounts.Passkey, outcomes []transfer.Outcome) error {
	for _, p := range passkeys {
		outcome := outcomeOf(p.AccountID, outcomes)
		if outcome == nil {
			continue
		}
		row := newPasskeyRow(p)
		row.Confirmation = nil
		n, err := rowsAffected(tx.NewInsert().Model(&row).On("CONFLICT DO NOTHING").Returning("id").Exec(ctx))
		if err == nil && n > 0 {
			_, err = exec(ctx, tx, "UPDATE personal_accounts SET user_handle = ? WHERE id = ?", p.UserHandle, p.AccountID)
		} else if err == nil {
			err = withdraw(ctx, tx, outcome, &outcome.Taken.Passkey, "SELECT account_id FROM personal_passkeys WHERE credential_id = ?",
				p.CredentialID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addIdentities stores the identities of added accounts, as addPasskeys does.
func addIdentities(ctx context.Context, tx bun.Tx, identities []accounts.StoredIdentity, outcomes []transfer.Outcome) error {
	for _, i := range identities {
		outcome := outcomeOf(i.AccountID, outcomes)
		if outcome == nil {
			continue
		}
		n, err := insertIdentity(ctx, tx, i)
		if err == nil && n == 0 {
			err = withdraw(ctx, tx, outcome, &outcome.Taken.Identity, "SELECT account_id FROM personal_identities WHERE issuer = ? AND subject = ?",
				[]byte(i.Issuer), []byte(i.Subject))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// outcomeOf returns the outcome of an account that was added; nil if it was withdrawn.
func outcomeOf(accountID int64, outcomes []transfer.Outcome) *transfer.Outcome {
	i := slices.IndexFunc(outcomes, func(o transfer.Outcome) bool { return o.ID == accountID })
	if i < 0 {
		return nil
	}
	return &outcomes[i]
}

// withdraw removes an added account again, and stores in its outcome who has what the account
// wanted, which the query finds.
func withdraw(ctx context.Context, tx bun.Tx, o *transfer.Outcome, owner *int64, query string, args ...any) error {
	if err := tx.NewRaw(query, args...).Scan(ctx, owner); err != nil {
		return err
	}
	id := o.ID
	o.ID = 0
	_, err := exec(ctx, tx, "DELETE FROM personal_accounts WHERE id = ?", id)
	return err
}

// Owners returns the accounts that have passkeys and identities, see transfer.Conflicts.
func (s *Store) Owners(ctx context.Context, credentialIDs [][]byte, identities []personal.Identity) (transfer.Owners, error) {
	owners := transfer.Owners{Passkeys: map[string]int64{}, Identities: map[personal.Identity]int64{}}
	for ids := range slices.Chunk(credentialIDs, 1000) { // a statement has a maximum of arguments
		var rows []struct {
			CredentialID []byte
			AccountID    int64
		}
		err := s.scan(ctx, "look for passkeys",
			s.read.NewRaw("SELECT credential_id, account_id FROM personal_passkeys WHERE credential_id IN (?)", bun.List(ids)), &rows)
		if err != nil {
			return owners, err
		}
		for _, r := range rows {
			owners.Passkeys[string(r.CredentialID)] = r.AccountID
		}
	}
	for some := range slices.Chunk(identities, 200) { // a condition has a maximum of terms
		var conditions []string
		var args []any
		for _, i := range some {
			conditions, args = append(conditions, "i.issuer = ? AND i.subject = ?"), append(args, []byte(i.Issuer), []byte(i.Subject))
		}
		var rows []identityRow
		err := s.scan(ctx, "look for identities",
			s.read.NewRaw("SELECT "+identityColumns+" FROM personal_identities i WHERE "+strings.Join(conditions, " OR "), args...), &rows)
		if err != nil {
			return owners, err
		}
		for _, r := range rows {
			owners.Identities[r.identity().Identity] = r.AccountID
		}
	}
	return owners, nil
}

// Conflicts returns the outcomes that accounts would have, see transfer.Conflicts.
func (s *Store) Conflicts(ctx context.Context, batch []accounts.Account) ([]transfer.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	outcomes := make([]transfer.Outcome, len(batch))
	for from := 0; from < len(batch); from += statementRows {
		to := min(from+statementRows, len(batch))
		if err := findConflicts(ctx, s.read, batch[from:to], outcomes[from:to]); err != nil {
			return nil, wrap(ctx, "look for conflicts", err)
		}
	}
	return outcomes, nil
}

// spelling identifies a row that was imported before. If only the keys are equal, the
// account may belong to another person.
type spelling struct{ Login, Email string }

// findConflicts sets the outcomes of the accounts that have none and are in conflict
// with stored ones.
func findConflicts(ctx context.Context, db bun.IDB, batch []accounts.Account, outcomes []transfer.Outcome) error {
	open := openIndexes(outcomes)
	if len(open) == 0 {
		return nil
	}
	ids, logins, emails := []int64{0}, []string{""}, []string{""} // of no account; a list must not be empty
	for _, i := range open {
		logins, emails = append(logins, batch[i].LoginKey), append(emails, batch[i].Email.Key)
		if batch[i].ID != 0 {
			ids = append(ids, batch[i].ID)
		}
	}
	var found []struct {
		ID int64
		identity
		spelling
	}
	err := db.NewRaw(`SELECT id, login_key, coalesce(email_key, '') AS email_key, login, email FROM personal_accounts
		WHERE id IN (?) OR login_key IN (?) OR email_key IN (?)`, bun.List(ids), bun.List(logins), bun.List(emails)).Scan(ctx, &found)
	if err != nil {
		return err
	}
	byID, byLogin, byEmail, bySpelling := map[int64]int64{}, map[string]int64{}, map[string]int64{}, map[spelling]int64{}
	for _, f := range found {
		byID[f.ID], byLogin[f.LoginKey] = f.ID, f.ID
		if f.EmailKey != "" {
			byEmail[f.EmailKey] = f.ID
		}
		// An account of this batch was not imported before.
		if !slices.ContainsFunc(outcomes, func(o transfer.Outcome) bool { return o.ID == f.ID }) {
			bySpelling[f.spelling] = f.ID
		}
	}
	for _, i := range open {
		a := batch[i]
		id, exists := bySpelling[spelling{a.Login, a.Email.Address}]
		if exists && (a.ID == 0 || a.ID == id) {
			outcomes[i].Exists = true
			continue
		}
		outcomes[i].Taken = transfer.Taken{ID: byID[a.ID], Login: byLogin[a.LoginKey], Email: byEmail[a.Email.Key]}
	}
	return nil
}

// AccountsAfter returns a page of accounts, see transfer.Source. One statement reads accounts and
// recovery codes, so that these and the secret fit together; passkeys and identities are read after
// it, so that none is of an earlier password.
func (s *Store) AccountsAfter(ctx context.Context, id int64, n int) ([]transfer.StoredAccount, error) {
	var rows []accountRow
	err := s.scan(ctx, "read accounts", s.read.NewSelect().Model(&rows).ColumnExpr("a.*").ColumnExpr("? AS recovery_codes", s.codes).
		Where("a.id > ?", id).Order("a.id").Limit(n))
	if err != nil {
		return nil, err
	}
	page := make([]transfer.StoredAccount, len(rows))
	for i := range rows {
		digests, err := hex.DecodeString(string(rows[i].RecoveryCodes))
		if err != nil || len(digests)%sha256.Size != 0 {
			return nil, fmt.Errorf("reading the recovery codes of account %d: no list of SHA-256 digests", rows[i].ID)
		}
		page[i].Account = rows[i].account()
		for digest := range slices.Chunk(digests, sha256.Size) {
			page[i].RecoveryCodes = append(page[i].RecoveryCodes, [sha256.Size]byte(digest))
		}
		slices.SortFunc(page[i].RecoveryCodes, func(a, b [sha256.Size]byte) int { return bytes.Compare(a[:], b[:]) })
	}
	return page, s.addStoredWaysIn(ctx, page)
}

// addStoredWaysIn reads the passkeys and the identities of a page of accounts.
func (s *Store) addStoredWaysIn(ctx context.Context, page []transfer.StoredAccount) error {
	if len(page) == 0 {
		return nil
	}
	first, last := page[0].ID, page[len(page)-1].ID
	find := func(accountID int64) *transfer.StoredAccount { // nil: it was added during the import
		i, found := slices.BinarySearchFunc(page, accountID, func(a transfer.StoredAccount, id int64) int { return cmp.Compare(a.ID, id) })
		if !found {
			return nil
		}
		return &page[i]
	}
	var keys []struct {
		passkeyRow
		UserHandle []byte
	}
	err := s.scan(ctx, "read passkeys", s.read.NewRaw(`SELECT w.*, a.user_handle FROM personal_passkeys w JOIN personal_accounts a ON a.id = w.account_id
		WHERE w.account_id BETWEEN ? AND ? ORDER BY w.account_id, w.id`, first, last), &keys)
	if err != nil {
		return err
	}
	for i := range keys {
		if a := find(keys[i].AccountID); a != nil {
			p := keys[i].passkey()
			p.UserHandle = keys[i].UserHandle
			a.Passkeys = append(a.Passkeys, p)
		}
	}
	var identities []identityRow
	err = s.scan(ctx, "read identities", s.read.NewRaw("SELECT w.* FROM personal_identities w WHERE w.account_id BETWEEN ? AND ? ORDER BY w.account_id, w.linked, w.issuer, w.subject", first, last), &identities)
	if err != nil {
		return err
	}
	for i := range identities {
		if a := find(identities[i].AccountID); a != nil {
			a.Identities = append(a.Identities, identities[i].identity())
		}
	}
	return nil
}

// isBare is the condition for a hash that is not wrapped yet, see password.IsBare.
const isBare = "password_hash LIKE '$waits$%'"

// BareHashes returns the bare hashes of accounts, see transfer.BareStore.
func (s *Store) BareHashes(ctx context.Context, ids []int64) (map[int64]string, error) {
	var rows []accountRow
	err := s.scan(ctx, "find bare hashes",
		s.read.NewRaw("SELECT id, password_hash FROM personal_accounts WHERE id IN (?) AND "+isBare, bun.List(ids)), &rows)
	hashes := make(map[int64]string, len(rows))
	for _, r := range rows {
		hashes[r.ID] = r.PasswordHash
	}
	return hashes, err
}

// ReplaceHash replaces a hash by one of the same password, see transfer.BareStore.
func (s *Store) ReplaceHash(ctx context.Context, id int64, from, to string) error {
	_, err := s.exec(ctx, "replace a hash", "UPDATE personal_accounts SET password_hash = ? WHERE id = ? AND password_hash = ?", to, id, from)
	return err
}

// CountAccounts returns the number of accounts, and of those with a bare hash. It reads the
// whole table.
func (s *Store) CountAccounts(ctx context.Context) (all, bare int64, err error) {
	err = s.scan(ctx, "count accounts",
		s.read.NewRaw("SELECT count(*), count(CASE WHEN "+isBare+" THEN 1 END) FROM personal_accounts"), &all, &bare)
	return all, bare, err
}

// AccountStates are numbers of accounts.
type AccountStates struct {
	Unconfirmed int64 // with an e-mail that was not confirmed
	Waiting     int64 // that must confirm their e-mail before the first sign-in
	Leaving     int64 // that their users have deleted, and that are not erased yet
}

// CountAccountStates returns the numbers of accounts. It reads the whole table.
func (s *Store) CountAccountStates(ctx context.Context) (n AccountStates, err error) {
	err = s.scan(ctx, "count accounts by state", s.read.NewRaw(`SELECT
		count(CASE WHEN email_key IS NOT NULL AND NOT email_verified THEN 1 END),
		count(unverified_key),
		count(CASE WHEN erase_at > 0 AND disabled THEN 1 END)
		FROM personal_accounts`), &n.Unconfirmed, &n.Waiting, &n.Leaving)
	return n, err
}

// NewEmails implements transfer.PersonSource.
func (s *Store) NewEmails(ctx context.Context, accountID int64) ([]transfer.NewEmail, error) {
	var rows []mailTokenRow
	err := s.scan(ctx, "read unconfirmed addresses", s.read.NewSelect().Model(&rows).
		Where("t.account_id = ?", accountID).Where("t.purpose = ?", accounts.PurposeEmail).Order("t.expires", "t.digest"))
	return convert(rows, func(r *mailTokenRow) transfer.NewEmail {
		return transfer.NewEmail{Email: r.Email, Expires: r.Expires.time()}
	}), err
}
