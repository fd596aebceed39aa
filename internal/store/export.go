package store

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/shared/personal"
)

// KnownAddresses implements accounts.ExportStore.
func (s *Store) KnownAddresses(ctx context.Context, accountID int64) ([]personal.KnownAddress, error) {
	var rows []struct {
		Address string
		Seen    micros
	}
	err := s.scan(ctx, "read known addresses",
		s.read.NewRaw("SELECT address, seen FROM personal_known_addresses WHERE account_id = ? ORDER BY seen DESC, address", accountID), &rows)
	known := make([]personal.KnownAddress, len(rows))
	for i, row := range rows {
		known[i] = personal.KnownAddress{Address: row.Address, LastSeen: row.Seen.time()}
	}
	return known, err
}

// WaitingJobs implements accounts.ExportStore.
func (s *Store) WaitingJobs(ctx context.Context, accountID int64, except outbox.Kind, limit int) ([]outbox.Job, error) {
	var rows []jobRow
	err := s.scan(ctx, "read waiting jobs", s.read.NewSelect().Model(&rows).
		Where("account_id = ?", accountID).Where("kind <> ?", except).Order("id DESC").Limit(limit))
	return convert(rows, (*jobRow).job), err
}

// ChargeExport implements accounts.ExportStore.
func (s *Store) ChargeExport(
	ctx context.Context, accountID, credentialVersion int64, charges []throttle.Charge, code accounts.CodeUse, jobs ...accounts.NewJob,
) error {
	return s.inTx(ctx, "count an export", func(ctx context.Context, tx bun.Tx) error {
		if _, err := s.lockCredentials(ctx, tx, accountID, credentialVersion); err != nil {
			return err
		}
		if err := s.useCode(ctx, tx, accountID, code); err != nil {
			return err
		}
		if err := chargeAll(ctx, tx, charges, s.Now()); err != nil {
			return err
		}
		return s.addJobs(ctx, tx, jobs)
	})
}
