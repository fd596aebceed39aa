package store

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/cms-personal/personal/shared/personal"
)

// addAudit keeps an event as a line of the audit log. Of an account that is gone
// by now the line holds what a deletion would have left of it.
func addAudit(ctx context.Context, db bun.IDB, e personal.Event, gone bool) error {
	row := auditRow{EventID: e.ID, Type: e.Type, Time: at(e.Time), AccountID: e.UserID, Address: e.Address, RequestID: e.RequestID, Actor: e.Actor, ActorName: e.ActorName}
	if gone {
		row.AccountID, row.Address, row.RequestID = 0, "", ""
	}
	_, err := db.NewInsert().Model(&row).Exec(ctx)
	return err
}

// AuditEntriesAfter returns a page of the audit log, see transfer.AuditSource.
func (s *Store) AuditEntriesAfter(ctx context.Context, accountID int64, after personal.AuditEntry, n int) ([]personal.AuditEntry, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	var rows []auditRow
	query := s.read.NewSelect().Model(&rows).Where("(time, id) > (?, ?)", at(after.Time), after.Cursor).Order("time", "id").Limit(int64(n))
	if accountID != 0 {
		query.Where("account_id = ?", accountID)
	}
	return readEntries(ctx, query, &rows)
}

// AuditEntries returns entries of the audit log, see accounts.AdministrationStore.
// An account's entries are found by an index; what else is filtered by is compared
// with entry after entry, the newest first, until there are enough.
func (s *Store) AuditEntries(ctx context.Context, r personal.AuditEntriesRequest) ([]personal.AuditEntry, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	var rows []auditRow
	query := s.read.NewSelect().Model(&rows).Order("id DESC").Limit(int64(r.Limit))
	if r.After > 0 {
		query.Where("id < ?", r.After)
	}
	if r.UserID != 0 {
		query.Where("account_id = ?", r.UserID)
	}
	if r.Type != "" {
		query.Where("type = ?", r.Type)
	}
	if !r.Since.IsZero() {
		query.Where("time >= ?", at(r.Since))
	}
	if !r.Until.IsZero() {
		query.Where("time < ?", at(r.Until))
	}
	if r.Text != "" {
		query.Where("(address ?0 ?1 ESCAPE '!' OR request_id ?0 ?1 ESCAPE '!' OR actor_name ?0 ?1 ESCAPE '!')", s.like, containing(r.Text))
	}
	return readEntries(ctx, query, &rows)
}

// readEntries runs a query into rows and converts them.
func readEntries(ctx context.Context, query *bun.SelectQuery, rows *[]auditRow) ([]personal.AuditEntry, error) {
	if err := query.Scan(ctx); err != nil {
		return nil, fault(ctx, "read audit entries", err)
	}
	entries := make([]personal.AuditEntry, len(*rows))
	for i, row := range *rows {
		entries[i] = personal.AuditEntry{Cursor: row.ID, Event: personal.Event{
			ID: row.EventID, Type: row.Type, Time: row.Time.time(), UserID: row.AccountID,
			Address: row.Address, RequestID: row.RequestID, Actor: row.Actor, ActorName: row.ActorName,
		}}
	}
	return entries, nil
}
