package store

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"unicode"

	"github.com/uptrace/bun"
	"golang.org/x/text/cases"
	"golang.org/x/text/language"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
)

// SearchAccounts implements accounts.AdministrationStore. It reads accounts from
// the highest id downwards until the page is full; a search that matches little
// reads the whole table.
func (s *Store) SearchAccounts(ctx context.Context, q accounts.AccountSearch) ([]accounts.SeenAccount, error) {
	var rows []accountRow
	query := s.selectSeen(&rows).OrderExpr("a.id DESC").Limit(int64(q.Limit))
	if q.Before > 0 {
		query.Where("a.id < ?", q.Before)
	}
	if q.Disabled != nil {
		query.Where("a.disabled = ?", *q.Disabled)
	}
	if q.Text != "" {
		query.WhereGroup(" AND ", func(query *bun.SelectQuery) *bun.SelectQuery { return s.matching(query, q) })
	}
	err := scan(ctx, "search accounts", query)
	return convert(rows, (*accountRow).seen), err
}

// selectSeen selects accounts with the time at which each was last in use.
func (s *Store) selectSeen(rows any) *bun.SelectQuery {
	return s.read.NewSelect().Model(rows).ColumnExpr("?TableColumns").ColumnExpr(
		"(SELECT coalesce(max(s.last_seen), 0) FROM personal_sessions s WHERE s.account_id = a.id) AS last_seen")
}

// matching adds the conditions for a searched text: on keys, names and the id.
func (s *Store) matching(query *bun.SelectQuery, q accounts.AccountSearch) *bun.SelectQuery {
	key := containing(q.Key)
	query.WhereOr("a.login_key LIKE ? ESCAPE '!'", key).WhereOr("a.email_key LIKE ? ESCAPE '!'", key)
	for _, text := range caseVariants(q.Text) {
		query.WhereOr("a.name ? ? ESCAPE '!'", s.like, containing(text))
	}
	if q.ID > 0 {
		query.WhereOr("a.id = ?", q.ID)
	}
	return query
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
	err := scan(ctx, "find an account by its id", s.selectSeen(&row).Where("a.id = ?", id))
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
		if err := s.setEmail(ctx, tx, id, email); err != nil {
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
		if err != nil || row.Disabled == disabled {
			return err
		}
		_, err = exec(ctx, tx, "UPDATE personal_accounts SET disabled = ?, credential_version = credential_version + 1, updated = ? WHERE id = ?",
			disabled, at(s.Now()), id)
		if err != nil {
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
		_, err = exec(ctx, tx, "UPDATE personal_audit SET account_id = NULL, address = '', request_id = '' WHERE account_id = ?", id)
		if err != nil {
			return err
		}
		if err := eraseJobs(ctx, tx, row.account(), remains); err != nil {
			return err
		}
		if err := s.addJobs(ctx, tx, jobs); err != nil { // while the account still exists
			return err
		}
		_, err = exec(ctx, tx, "DELETE FROM personal_accounts WHERE id = ?", id)
		return err
	})
	if err != nil {
		return err
	}
	if err := s.emptyLog(ctx); err != nil { // the deletion itself succeeded
		s.log.WarnContext(ctx, "a deleted account is still in the database's write-ahead log", slog.Any("error", err))
	}
	return nil
}

// eraseJobs replaces or removes the waiting jobs that may name the account: its
// own, and the recoveries, which belong to no account yet. It visits them in the
// order in which FinishJobs locks them.
func eraseJobs(ctx context.Context, tx bun.Tx, a accounts.Account, remains func(accounts.Account, outbox.Job) []byte) error {
	var rows []jobRow
	err := tx.NewSelect().Model(&rows).Where("account_id = ? OR account_id IS NULL AND kind = ?", a.ID, accounts.KindRecovery).
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
