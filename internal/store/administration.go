package store

import (
	"context"
	"slices"
	"strings"
	"unicode"

	"github.com/uptrace/bun"
	"golang.org/x/text/cases"
	"golang.org/x/text/language"

	"github.com/cms-personal/personal/internal/accounts"
)

// SearchAccounts looks through the accounts from the newest to the oldest, see
// accounts.AdministrationStore. One that matches little reads the whole table; a
// later page begins where the one before ended.
func (s *Store) SearchAccounts(ctx context.Context, q accounts.AccountSearch) ([]accounts.SeenAccount, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	var rows []accountRow
	query := seen(s.read.NewSelect().Model(&rows)).OrderExpr("a.id DESC").Limit(int64(q.Most))
	if q.Before > 0 {
		query.Where("a.id < ?", q.Before)
	}
	if q.Disabled != nil {
		query.Where("a.disabled = ?", *q.Disabled)
	}
	if q.Text != "" {
		query.WhereGroup(" AND ", func(query *bun.SelectQuery) *bun.SelectQuery { return s.matching(query, q) })
	}
	if err := query.Scan(ctx); err != nil {
		return nil, fault(ctx, "search accounts", err)
	}
	found := make([]accounts.SeenAccount, len(rows))
	for i := range rows {
		var err error
		if found[i], err = rows[i].seen(); err != nil {
			return nil, fault(ctx, "search accounts", err)
		}
	}
	return found, nil
}

// seen adds to a query of accounts when each was last in use.
func seen(query *bun.SelectQuery) *bun.SelectQuery {
	return query.ColumnExpr("?TableColumns").ColumnExpr(
		"(SELECT coalesce(max(s.last_seen), 0) FROM personal_sessions s WHERE s.account_id = a.id) AS last_seen")
}

// matching adds what a search looks for, in keys and names.
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

// containing is the pattern of what contains a text.
func containing(text string) string {
	return "%" + strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(text) + "%"
}

// caseVariants are the forms in which a text is likely to be written. A database
// may know upper and lower case of ASCII alone.
func caseVariants(text string) []string {
	if strings.IndexFunc(text, func(r rune) bool { return r > unicode.MaxASCII }) < 0 {
		return []string{text}
	}
	variants := []string{text, strings.ToLower(text), strings.ToUpper(text), cases.Title(language.Und).String(text)}
	slices.Sort(variants)
	return slices.Compact(variants)
}

// Account finds an account by its id, see accounts.AdministrationStore.
func (s *Store) Account(ctx context.Context, id int64) (accounts.SeenAccount, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	var row accountRow
	if err := seen(s.read.NewSelect().Model(&row)).Where("a.id = ?", id).Scan(ctx); err != nil {
		return accounts.SeenAccount{}, fault(ctx, "find an account by its id", err)
	}
	found, err := row.seen()
	return found, fault(ctx, "find an account by its id", err)
}

// SetEmail sets an account's e-mail, see accounts.AdministrationStore.
func (s *Store) SetEmail(
	ctx context.Context, id int64, email accounts.Email, jobs func(accounts.Account) ([]accounts.NewJob, error),
) error {
	return s.inTx(ctx, "set an e-mail", func(ctx context.Context, tx bun.Tx) error {
		row, err := s.lockAccount(ctx, tx, id)
		if err != nil {
			return err
		}
		before, err := row.account()
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

// SetDisabled disables or enables an account, see accounts.AdministrationStore. A
// sign-in that was first has been committed when the account's row is locked, and
// its session is ended here; one that comes later finds another credential version.
func (s *Store) SetDisabled(ctx context.Context, id int64, disabled bool, jobs ...accounts.NewJob) error {
	return s.inTx(ctx, "disable or enable an account", func(ctx context.Context, tx bun.Tx) error {
		row, err := s.lockAccount(ctx, tx, id)
		if err != nil || row.Disabled == disabled {
			return err
		}
		row.Disabled, row.Updated = disabled, at(s.Now())
		row.CredentialVersion++
		_, err = tx.NewUpdate().Model(&row).Column("disabled", "credential_version", "updated").WherePK().Exec(ctx)
		if err != nil {
			return err
		}
		if err := endSessions(ctx, tx, id); err != nil {
			return err
		}
		if err := voidMailTokens(ctx, tx, id); err != nil {
			return err
		}
		return s.addJobs(ctx, tx, jobs)
	})
}
