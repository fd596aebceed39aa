package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"slices"

	"github.com/uptrace/bun"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/shared/personal"
)

// The numbers of accounts, in the order of a search, of which one page holds the matches.
const (
	wholeWindow  = 500    // if an account has the whole text
	filterWindow = 10_000 // of a search by what no index has in its order
)

// position is where an account is in the order of a search.
type position struct {
	ID      int64
	Created micros
}

// byCreated reports whether the order of a search is that of the creation of accounts.
func byCreated(q accounts.AccountSearch) bool { return !q.Since.IsZero() || !q.Until.IsZero() }

// SearchAccounts implements accounts.AdministrationStore. It reads accounts in the order of
// the search until the page is full, from an index that has them in this order. If it has to
// look for more than an index has, it stops after filterWindow accounts; only a search for a
// text that matches little reads the whole table. If accounts in any state have the whole
// text as login, e-mail or id, indexes find them without reading the table; the rest of the
// first page holds matches among the next wholeWindow accounts.
func (s *Store) SearchAccounts(ctx context.Context, q accounts.AccountSearch) (accounts.AccountPage, error) {
	var found []accountRow
	whole, exists, err := s.wholeMatches(ctx, q)
	if err != nil {
		return accounts.AccountPage{}, err
	}
	window := 0 // all
	switch {
	case exists:
		window = wholeWindow
	case q.Field != "" || byCreated(q) && (q.Text != "" || q.State != ""):
		window = filterWindow
	}
	from, err := s.start(ctx, q)
	if err != nil {
		return accounts.AccountPage{}, err
	}
	query := s.selectSeen(&found).Limit(q.Limit + 1)
	order(query, q)
	filter(query, q)
	matching(query, q, matchingPart)
	if window == 0 {
		bound(query, q, from)
	} else { // a subquery, so that both databases read accounts in the order until the page is full
		query.ModelTableExpr("(?) AS a", s.window(q, from).ColumnExpr("a.*").Limit(window))
	}
	if err := s.scan(ctx, "search accounts", query); err != nil {
		return accounts.AccountPage{}, err
	}
	next := int64(0)
	if window > 0 && len(found) <= q.Limit {
		if next, err = s.windowEnd(ctx, q, from, window); err != nil {
			return accounts.AccountPage{}, err
		}
	}
	return accountPage(whole, found, q, next), nil
}

// wholeMatches returns, for a first page, the accounts that match the search and have its
// text as login, e-mail or id, and whether any account has that.
func (s *Store) wholeMatches(ctx context.Context, q accounts.AccountSearch) (rows []accountRow, exists bool, err error) {
	if q.Text == "" || q.After != 0 {
		return nil, false, nil
	}
	const doing = "find accounts by a whole text"
	query := s.selectSeen(&rows)
	matching(query, q, matchingWhole)
	if err := s.scan(ctx, doing, query); err != nil || len(rows) == 0 {
		return nil, false, err
	}
	var ids []int64
	for _, row := range rows {
		ids = append(ids, row.ID)
	}
	rows = nil
	query = s.selectSeen(&rows).Where("a.id IN (?)", bun.List(ids))
	filter(query, q)
	created(query, q)
	return rows, true, s.scan(ctx, doing, query)
}

// start returns the position of the account after which a page begins; zero: the page begins
// with the first account. If it was deleted, the page begins beside its place, as far as
// older accounts have lower ids.
func (s *Store) start(ctx context.Context, q accounts.AccountSearch) (from position, err error) {
	if q.After == 0 || q.After == math.MaxInt64 {
		return position{}, nil
	}
	if !byCreated(q) {
		return position{ID: q.After}, nil
	}
	err = s.scan(ctx, "find where a page of accounts begins",
		s.read.NewRaw("SELECT id, created FROM personal_accounts WHERE id <= ? ORDER BY id DESC LIMIT 1", q.After), &from)
	if errors.Is(err, accounts.ErrNotFound) {
		return position{ID: q.After}, nil
	}
	if from.ID < q.After && !q.Oldest {
		from.ID++ // the page begins with this account
	}
	return from, err
}

// order orders the accounts of a query.
func order(query *bun.SelectQuery, q accounts.AccountSearch) {
	direction := " DESC"
	if q.Oldest {
		direction = ""
	}
	if byCreated(q) {
		query.OrderExpr("a.created" + direction)
	}
	query.OrderExpr("a.id" + direction)
}

// bound restricts a query to the accounts after a position, and to those created in the time
// of the search.
func bound(query *bun.SelectQuery, q accounts.AccountSearch, from position) {
	after := " < "
	if q.Oldest {
		after = " > "
	}
	switch {
	case from.ID == 0:
	case byCreated(q):
		query.Where("(a.created, a.id)"+after+"(?, ?)", from.Created, from.ID)
	default:
		query.Where("a.id"+after+"?", from.ID)
	}
	created(query, q)
}

// created restricts a query to the accounts created in the time of a search.
func created(query *bun.SelectQuery, q accounts.AccountSearch) {
	if !q.Since.IsZero() {
		query.Where("a.created >= ?", at(q.Since))
	}
	if !q.Until.IsZero() {
		query.Where("a.created < ?", at(q.Until))
	}
}

// window selects the accounts after a position, in the order of a search.
func (s *Store) window(q accounts.AccountSearch, from position) *bun.SelectQuery {
	query := s.read.NewSelect().TableExpr("personal_accounts AS a")
	order(query, q)
	bound(query, q, from)
	return query
}

// windowEnd returns the id of the last of n accounts in the order of a search; 0 if there are
// not so many.
func (s *Store) windowEnd(ctx context.Context, q accounts.AccountSearch, from position, n int) (last int64, err error) {
	err = s.scan(ctx, "find the last account to search", s.window(q, from).Column("a.id").Limit(1).Offset(n-1), &last)
	if errors.Is(err, accounts.ErrNotFound) {
		return 0, nil
	}
	return last, err
}

// accountPage returns a page with the accounts that have the whole text and, if there is
// room, those found by a part of it, which are in the order of the search. next is where the
// page after this one begins if this one has room for all that was found. The next page
// begins with the first account that was found and is not on this one, so that it misses
// none; it may repeat one that has the whole text.
func accountPage(whole, found []accountRow, q accounts.AccountSearch, next int64) accounts.AccountPage {
	page := whole[:min(len(whole), q.Limit)]
	last := int64(math.MaxInt64) // the first account, but not the first page again
	for _, row := range found {
		if slices.ContainsFunc(page, func(on accountRow) bool { return on.ID == row.ID }) {
			continue
		}
		if len(page) == q.Limit {
			next = last
			break
		}
		page, last = append(page, row), row.ID
	}
	slices.SortFunc(page, func(a, b accountRow) int {
		order := cmp.Compare(a.ID, b.ID)
		if byCreated(q) {
			order = cmp.Or(cmp.Compare(a.Created, b.Created), order)
		}
		if q.Oldest {
			return order
		}
		return -order
	})
	return accounts.AccountPage{Accounts: convert(page, (*accountRow).seen), Next: next}
}

// filter restricts a query to the accounts in the state of a search and with the value of its
// field. The conditions of states are those of the indexes, so that
// SQLite uses these.
func filter(query *bun.SelectQuery, q accounts.AccountSearch) {
	switch q.State {
	case personal.UserActive:
		query.Where("NOT a.disabled")
	case personal.UserDisabled:
		query.Where("a.disabled")
	case personal.UserUnconfirmed:
		query.Where("a.unverified_key IS NOT NULL")
	case personal.UserTwoFactor:
		query.Where("a.two_factor_secret IS NOT NULL")
	}
	if q.Field != "" {
		value, _ := json.Marshal(q.Value) // a string, a bool or an int64: it cannot fail
		query.Where("a.fields -> ? = ?", q.Field, string(value))
	}
}

// matching restricts a query to the accounts that have the text of a search, by the given
// conditions on it.
func matching(query *bun.SelectQuery, q accounts.AccountSearch, conditions func(*bun.SelectQuery, accounts.AccountSearch)) {
	if q.Text == "" {
		return
	}
	query.WhereGroup(" AND ", func(query *bun.SelectQuery) *bun.SelectQuery {
		conditions(query, q)
		if q.ID > 0 {
			query.WhereOr("a.id = ?", q.ID)
		}
		return query
	})
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

// matchingPart adds the condition for logins, e-mails and names that contain the text.
func matchingPart(query *bun.SelectQuery, q accounts.AccountSearch) {
	query.WhereOr("a.search LIKE ? ESCAPE '!'", containing(q.Text))
}

// Account implements accounts.AdministrationStore.
func (s *Store) Account(ctx context.Context, id int64) (accounts.Account, error) {
	var row accountRow
	err := s.scan(ctx, "find an account by its id", where(s.read, s.selectSeen(&row), "a.id = ?", id))
	return row.seen(), err
}

// Accounts implements accounts.AdministrationStore.
func (s *Store) Accounts(ctx context.Context, ids []int64) ([]accounts.Account, error) {
	var rows []accountRow
	err := s.scan(ctx, "find accounts by their ids", s.selectSeen(&rows).Where("a.id IN (?)", bun.List(ids)))
	return convert(rows, (*accountRow).seen), err
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
		if err := execAll(ctx, tx, dropStarted(tx, id)...); err != nil { // by a proof for the former e-mail
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
		if disabled && row.account().Deleted() {
			eraseAt = row.EraseAt
		} else if row.Disabled == disabled {
			return nil
		}
		_, err = exec(ctx, tx, `UPDATE personal_accounts
			SET disabled = ?, credential_version = credential_version + 1, erase_at = ?, updated = ? WHERE id = ?`,
			disabled, eraseAt, at(s.Now()), id)
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
// that such rows are added before it ends. The account's remains in SQLite's
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
	err := tx.NewSelect().Model(&rows).Where("account_id = ? OR account_id IS NULL AND kind IN (?)", a.ID, bun.List(accounts.RequestKinds)).
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
