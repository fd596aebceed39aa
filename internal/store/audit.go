package store

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/cms-personal/personal/shared/personal"
)

// addAudit keeps an event as a line of the audit log. Of an account that is gone
// by now it names nobody.
func (s *Store) addAudit(ctx context.Context, db bun.IDB, e personal.Event) error {
	row := auditRow{EventID: e.ID, Type: e.Type, Time: at(e.Time), Address: e.Address, RequestID: e.RequestID}
	_, err := db.NewInsert().Model(&row).
		Value("account_id", "(SELECT id FROM personal_accounts WHERE id = ? ?)", e.UserID, s.keep).Exec(ctx)
	return err
}

// anonymise takes from the account's audit lines whose they are, and where he was.
func anonymise(ctx context.Context, tx bun.Tx, accountID int64) error {
	_, err := exec(ctx, tx, "UPDATE personal_audit SET account_id = NULL, address = '', request_id = '' WHERE account_id = ?", accountID)
	return err
}
