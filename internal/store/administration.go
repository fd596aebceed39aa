package store

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/uptrace/bun"
	"golang.org/x/text/cases"
	"golang.org/x/text/language"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
)

// searchWindow is how many of the newest accounts are searched for a part of a text
// when an account has the whole text.
const searchWindow = 500

// SearchAccounts implements accounts.AdministrationStore. It reads accounts from
// the highest id downwards until the page is full; a search that matches little
// reads the whole table. If accounts in any state have the whole text as login, e-mail or id,
// indexes find them without reading the table; the rest of the first page holds matches among
// the searchWindow newest accounts.
func (s *Store) SearchAccounts(ctx context.Context, q accounts.AccountSearch) (accounts.AccountPage, error) {
	var whole, found []accountRow
	if q.Text != "" && q.Before == 0 {
		either := q
		either.Disabled = nil
		if err := s.scan(ctx, "find accounts by a whole text", s.selectMatching(&whole, either, matchingWhole)); err != nil {
			return accounts.AccountPage{}, err
		}
	}
	query := s.selectMatching(&found, q, s.matchingPart).OrderExpr("a.id DESC").Limit(int64(q.Limit) + 1)
	if q.Before > 0 {
		query.Where("a.id < ?", q.Before)
	}
	var older int64 // the newest account that is not searched; 0: none
	if len(whole) > 0 {
		err := s.scan(ctx, "find the oldest account to search", s.read.NewRaw(
			"SELECT coalesce(max(id), 0) FROM (SELECT id FROM personal_accounts ORDER BY id DESC LIMIT 1 OFFSET ?) o", searchWindow), &older)
		if err != nil {
			return accounts.AccountPage{}, err
		}
		query.Where("a.id > ?", older)
	}
	if err := s.scan(ctx, "search accounts", query); err != nil {
		return accounts.AccountPage{}, err
	}
	if q.Disabled != nil {
		whole = slices.DeleteFunc(whole, func(row accountRow) bool { return row.Disabled != *q.Disabled })
	}
	return accountPage(whole, found, q.Limit, older), nil
}

// accountPage returns a page with the accounts that have the whole text and, if there
// is room, those found by a part of it, which begin with the highest id. older is as in
// SearchAccounts. The next page begins with the first account that was found and is not
// on this one, so that it misses none; it may repeat one that has the whole text.
func accountPage(whole, found []accountRow, limit int, older int64) accounts.AccountPage {
	page := whole[:min(len(whole), limit)]
	next, last := int64(0), int64(math.MaxInt64)
	if older > 0 {
		next = older + 1
	}
	for _, row := range found {
		if slices.ContainsFunc(page, func(on accountRow) bool { return on.ID == row.ID }) {
			continue
		}
		if len(page) == limit {
			next = last
			break
		}
		page, last = append(page, row), row.ID
	}
	slices.SortFunc(page, func(a, b accountRow) int { return cmp.Compare(b.ID, a.ID) })
	return accounts.AccountPage{Accounts: convert(page, (*accountRow).seen), Next: next}
}

// selectMatching selects the accounts that match a search, by the given conditions on
// the text.
func (s *Store) selectMatching(rows *[]accountRow, q accounts.AccountSearch, matching func(*bun.SelectQuery, accounts.AccountSearch)) *bun.SelectQuery {
	query := s.selectSeen(rows)
	if q.Disabled != nil && *q.Disabled {
		query.Where("a.disabled") // so that SQLite uses the index of the disabled accounts
	} else if q.Disabled != nil {
		query.Where("NOT a.disabled")
	}
	if q.Text != "" {
		query.WhereGroup(" AND ", func(query *bun.SelectQuery) *bun.SelectQuery {
			matching(query, q)
			if q.ID > 0 {
				query.WhereOr("a.id = ?", q.ID)
			}
			return query
		})
	}
	return query
}

// selectSeen selects accounts with the time at which each was last in use.
func (s *Store) selectSeen(rows any) *bun.SelectQuery {
	return s.read.NewSelect().Model(rows).ColumnExpr("?TableColumns").ColumnExpr(
		"(SELECT coalesce(max(s.last_seen), 0) FROM personal_sessions s WHERE s.account_id = a.id) AS last_seen")
}

// matchingWhole adds the conditions for keys that are the whole text. They use the
// indexes of the keys.
func matchingWhole(query *bun.SelectQuery, q accounts.AccountSearch) {
	query.WhereOr("a.login_key = ?", q.Key).WhereOr("a.email_key = ?", q.Key).WhereOr("a.unverified_key = ?", q.Key)
}

// matchingPart adds the conditions for keys and names that contain the text.
func (s *Store) matchingPart(query *bun.SelectQuery, q accounts.AccountSearch) {
	key := containing(q.Key)
	query.WhereOr("a.login_key LIKE ? ESCAPE '!'", key).WhereOr("a.email_key LIKE ? ESCAPE '!'", key).
		WhereOr("a.unverified_key LIKE ? ESCAPE '!'", key)
	for _, text := range caseVariants(q.Text) {
		query.WhereOr("a.name ? ? ESCAPE '!'", s.like, containing(text))
	}
}

// containing returns an SQL LIKE pattern for values that contain a text.
func containing(text string) string {
	return "%" + strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(text) + "%"
}

// caseVariants are the likely spellings of a text: the database may ignore the
// case of ASCII letters only.
func caseVariants(text string) []string {
	if strings.IndexFunc(text, func(r rune) bool { return r > unicode.MaxASCII }) < 0 {
		return []string{text}
	}
	variants := []string{text, strings.ToLower(text), strings.ToUpper(text), cases.Title(language.Und).String(text)}
	slices.Sort(variants)
	return slices.Compact(variants)
}

// Account implements accounts.AdministrationStore.
func (s *Store) Account(ctx context.Context, id int64) (accounts.SeenAccount, error) {
	var row accountRow
	err := s.scan(ctx, "find an account by its id", s.selectSeen(&row).Where("a.id = ?", id))
	return row.seen(), err
}

// SetEmail implements accounts.AdministrationStore.
func (s *Store) SetEmail(
	ctx context.Context, id int64, email accounts.Email, jobs func(accounts.Account) ([]accounts.NewJob, error),
) error {
	return s.inTx(ctx, "set an e-mail", func(ctx context.Context, tx bun.Tx) error {
		row, err := s.lockAccount(ctx, tx, id)
		before := row.account()
		if err != nil || before.Email == email {
			return err
		}
		follow, err := jobs(before)
		if err != nil {
			return err
		}
		if err := execAll(ctx, tx, dropBegun(tx, id)...); err != nil { // by a proof for the former e-mail
			return err
		}
		if err := s.setEmail(ctx, tx, before, email, false); err != nil {
			return err
		}
		if err := voidMailTokens(ctx, tx, id); err != nil {
			return err
		}
		return s.addJobs(ctx, tx, follow)
	})
}

// SetDisabled implements accounts.AdministrationStore. A sign-in that locked the
// account's row before has been committed, and its session ends here; a later one
// finds another credential version.
func (s *Store) SetDisabled(ctx context.Context, id int64, disabled bool, jobs ...accounts.NewJob) error {
	return s.inTx(ctx, "disable or enable an account", func(ctx context.Context, tx bun.Tx) error {
		row, err := s.lockAccount(ctx, tx, id)
		if err != nil {
			return err
		}
		var eraseAt micros
		var eraseVersion int64
		if disabled && row.account().Deleted() {
			eraseAt, eraseVersion = row.EraseAt, row.CredentialVersion+1
		} else if row.Disabled == disabled {
			return nil
		}
		_, err = exec(ctx, tx, `UPDATE personal_accounts
			SET disabled = ?, credential_version = credential_version + 1, erase_at = ?, erase_version = ?, updated = ? WHERE id = ?`,
			disabled, eraseAt, eraseVersion, at(s.Now()), id)
		if err != nil {
			return err
		}
		if err := execAll(ctx, tx, carryAlong(tx, id)...); err != nil {
			return err
		}
		if err := revokeAll(ctx, tx, id, 0); err != nil {
			return err
		}
		return s.addJobs(ctx, tx, jobs)
	})
}

// DeleteAccount implements accounts.AdministrationStore. Foreign keys remove the
// rows that refer to the account, except audit entries and jobs. The lock prevents
// that such rows are added meanwhile. The account's remains in SQLite's
// write-ahead log are removed at once or, if that fails, by the next Prune.
func (s *Store) DeleteAccount(
	ctx context.Context, id int64, remains func(accounts.Account, outbox.Job) []byte, jobs ...accounts.NewJob,
) error {
	err := s.inTx(ctx, "delete an account", func(ctx context.Context, tx bun.Tx) error {
		row, err := s.lockAccount(ctx, tx, id)
		if err != nil {
			return err
		}
		return s.eraseLocked(ctx, tx, row.account(), remains, jobs)
	})
	if err != nil {
		return err
	}
	if err := s.emptyLog(ctx); err != nil { // the deletion itself succeeded
		s.log.WarnContext(ctx, "a deleted account is still in the database's write-ahead log", slog.Any("error", err))
	}
	return nil
}

// eraseLocked removes a locked account.
func (s *Store) eraseLocked(
	ctx context.Context, tx bun.Tx, a accounts.Account, remains func(accounts.Account, outbox.Job) []byte, jobs []accounts.NewJob,
) error {
	_, err := exec(ctx, tx, "UPDATE personal_audit SET account_id = NULL, address = '', request_id = '' WHERE account_id = ?", a.ID)
	if err != nil {
		return err
	}
	if err := eraseJobs(ctx, tx, a, remains); err != nil {
		return err
	}
	if err := s.addJobs(ctx, tx, jobs); err != nil { // while the account still exists
		return err
	}
	_, err = exec(ctx, tx, "DELETE FROM personal_accounts WHERE id = ?", a.ID)
	return err
}

// eraseJobs replaces or removes the waiting jobs that may name the account: its
// own, and requests for mails, which belong to no account yet. It visits them in the
// order in which FinishJobs locks them.
func eraseJobs(ctx context.Context, tx bun.Tx, a accounts.Account, remains func(accounts.Account, outbox.Job) []byte) error {
	var rows []jobRow
	err := tx.NewSelect().Model(&rows).Where("account_id = ? OR account_id IS NULL AND kind IN (?, ?)", a.ID, accounts.KindRecovery, accounts.KindResend).
		Order("id").Scan(ctx)
	if err != nil {
		return err
	}
	for i := range rows {
		left := remains(a, rows[i].job())
		switch {
		case left == nil:
			_, err = exec(ctx, tx, "DELETE FROM personal_jobs WHERE id = ?", rows[i].ID)
		case !slices.Equal(left, rows[i].Payload):
			_, err = exec(ctx, tx, "UPDATE personal_jobs SET payload = ? WHERE id = ?", left, rows[i].ID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// errLogInUse means that a reader keeps deleted rows in the write-ahead log.
var errLogInUse = errors.New("another connection is reading the database")

// emptyLog removes deleted rows from the database's write-ahead log.
func (s *Store) emptyLog(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	emptied, err := s.pools.TruncateWAL(ctx)
	if err == nil && !emptied {
		err = errLogInUse
	}
	return wrap(ctx, "empty the write-ahead log", err)
}
