package store

import (
	"context"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/transfer"
)

// identity is what tells an account from all others in a batch: of two with the
// same one, the database takes the first whose id is free.
type identity struct{ LoginKey, EmailKey string }

// spelling tells that a row has been imported before: letter for letter the same.
// Whose keys are the same alone may be another person.
type spelling struct{ Login, Email string }

func identityOf(a accounts.Account) identity { return identity{a.LoginKey, a.Email.Key} }

// insertAccounts inserts those of a batch that are named by their places.
func (s *Store) insertAccounts(ctx context.Context, tx bun.Tx, batch []accounts.Account, places []int, outcomes []transfer.Outcome) error {
	if len(places) == 0 {
		return nil
	}
	const columns = "id, login, login_key, name, email, email_key, password_hash, credential_version, fields, disabled, created, updated"
	var rows []string
	var args []any
	var highest int64
	for _, i := range places {
		row := newAccountRow(batch[i])
		rows = append(rows, "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
		args = append(args, s.idOr(batch[i].ID), row.Login, row.LoginKey, row.Name, row.Email, bun.NullZero(row.EmailKey),
			row.PasswordHash, row.CredentialVersion, row.Fields, row.Disabled, row.Created, row.Updated)
		highest = max(highest, batch[i].ID)
	}
	if err := s.raiseNextID(ctx, tx, highest); err != nil {
		return err
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
	for _, i := range places {
		id := ids[identityOf(batch[i])]
		if batch[i].ID != 0 && batch[i].ID != id { // another of its identity, whose own id was free
			continue
		}
		outcomes[i].ID = id
		delete(ids, identityOf(batch[i]))
	}
	return nil
}

// idOr is the id of a row, or what lets the database give one.
func (s *Store) idOr(id int64) any {
	if id != 0 {
		return id
	}
	return s.nextID
}

// raiseNextID keeps the database from giving an id that an import has brought.
func (s *Store) raiseNextID(ctx context.Context, tx bun.Tx, highest int64) error {
	if highest == 0 || s.raiseID == "" {
		return nil
	}
	_, err := exec(ctx, tx, s.raiseID, highest, highest)
	return err
}

// Conflicts tells what would become of accounts, see transfer.Conflicts.
func (s *Store) Conflicts(ctx context.Context, batch []accounts.Account) ([]transfer.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	outcomes := make([]transfer.Outcome, len(batch))
	err := conflicts(ctx, s.read, batch, unsettled(outcomes), outcomes)
	return outcomes, wrap(ctx, "look for conflicts", err)
}

// conflicts explains why accounts can't be inserted.
func conflicts(ctx context.Context, db bun.IDB, batch []accounts.Account, places []int, outcomes []transfer.Outcome) error {
	if len(places) == 0 {
		return nil
	}
	ids, logins, emails := []int64{0}, []string{""}, []string{""} // no account has these, and no list may be empty
	for _, i := range places {
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
		// One of this very batch is no earlier import of a row.
		if !slices.ContainsFunc(outcomes, func(o transfer.Outcome) bool { return o.ID == f.ID }) {
			bySpelling[f.spelling] = f.ID
		}
	}
	for _, i := range places {
		a := batch[i]
		id, there := bySpelling[spelling{a.Login, a.Email.Address}]
		if there && (a.ID == 0 || a.ID == id) {
			outcomes[i].There = true
			continue
		}
		outcomes[i].Taken = transfer.Taken{ID: byID[a.ID], Login: byLogin[a.LoginKey], Email: byEmail[a.Email.Key]}
	}
	return nil
}
