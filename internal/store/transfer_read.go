package store

import (
	"context"

	"github.com/cms-personal/personal/internal/accounts"
)

// AccountsAfter returns a page of accounts, see transfer.Source.
func (s *Store) AccountsAfter(ctx context.Context, id int64, n int) ([]accounts.Account, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	var rows []accountRow
	if err := s.read.NewSelect().Model(&rows).Where("a.id > ?", id).Order("a.id").Limit(int64(n)).Scan(ctx); err != nil {
		return nil, wrap(ctx, "read accounts", err)
	}
	return convert(rows, (*accountRow).account), nil
}

// isBare is the condition for a hash that has not been wrapped.
const isBare = "password_hash LIKE '$md5-bare$%'"

// BareHashes returns the bare hashes of a range, see transfer.BareStore.
func (s *Store) BareHashes(ctx context.Context, from, to int64) (map[int64]string, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	var rows []struct {
		ID           int64
		PasswordHash string
	}
	err := s.read.NewRaw("SELECT id, password_hash FROM personal_accounts WHERE id BETWEEN ? AND ? AND "+isBare, from, to).Scan(ctx, &rows)
	if err != nil {
		return nil, wrap(ctx, "find bare hashes", err)
	}
	hashes := make(map[int64]string, len(rows))
	for _, r := range rows {
		hashes[r.ID] = r.PasswordHash
	}
	return hashes, nil
}

// ReplaceHash replaces a hash by one of the same password, see transfer.BareStore.
func (s *Store) ReplaceHash(ctx context.Context, id int64, from, to string) error {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	_, err := exec(ctx, s.write, "UPDATE personal_accounts SET password_hash = ? WHERE id = ? AND password_hash = ?", to, id, from)
	return wrap(ctx, "replace a hash", err)
}

// MisplacedLogin is an account whose login has an @ and is not its own e-mail, which
// a release before this one let in. It cannot sign in by that login.
type MisplacedLogin struct {
	ID    int64
	Login string
}

// MisplacedLogins returns the first of them, the lowest id first, most at most. It
// reads the whole table.
func (s *Store) MisplacedLogins(ctx context.Context, most int) (found []MisplacedLogin, err error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	err = s.read.NewRaw(`SELECT id, login FROM personal_accounts WHERE login_key LIKE '%@%' AND login_key <> coalesce(email_key, '')
		ORDER BY id LIMIT ?`, most).Scan(ctx, &found)
	return found, wrap(ctx, "look for logins that are e-mails", err)
}

// CountAccounts returns how many accounts there are, and how many of them have a
// bare hash. It reads the whole table.
func (s *Store) CountAccounts(ctx context.Context) (all, bare int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	err = s.read.NewRaw("SELECT count(*), count(CASE WHEN "+isBare+" THEN 1 END) FROM personal_accounts").Scan(ctx, &all, &bare)
	return all, bare, wrap(ctx, "count accounts", err)
}
