package store

import (
	"context"
	"strings"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"

	"github.com/cms-personal/personal/shared/personal"
)

// insertAudit returns the statement that stores an event as an audit entry. If the
// account has been deleted since, the entry holds only what a deletion would have
// left of it.
func insertAudit(tx bun.Tx, e personal.Event, deleted bool) schema.QueryAppender {
	row := auditRow{
		EventID: e.ID, Type: e.Type, Time: at(e.Time), AccountID: e.UserID,
		Address: e.Address, RequestID: e.RequestID, Actor: e.Actor, ActorName: e.ActorName, ActorKey: folded(e.ActorName),
		Fields: strings.Join(e.Fields, " "), Method: e.Method, Removed: e.Count,
	}
	if deleted {
		row.AccountID, row.Address, row.RequestID = 0, "", ""
	}
	return tx.NewInsert().Model(&row).Returning("NULL")
}

// AuditEntriesAfter implements transfer.AuditSource.
func (s *Store) AuditEntriesAfter(ctx context.Context, accountID int64, after personal.AuditEntry, n int) ([]personal.AuditEntry, error) {
	var rows []auditRow
	query := s.read.NewSelect().Model(&rows).Where("(time, id) > (?, ?)", at(after.Time), after.Cursor).Order("time", "id").Limit(n)
	if accountID != 0 {
		query.Where("account_id = ?", accountID)
	}
	return s.readEntries(ctx, query, &rows)
}

// AuditEntries implements accounts.AdministrationStore. An index finds the entries
// of one account; the other conditions are checked entry by entry, the latest
// first, until the page is full.
func (s *Store) AuditEntries(ctx context.Context, r personal.AuditEntriesRequest) ([]personal.AuditEntry, error) {
	var rows []auditRow
	query := s.read.NewSelect().Model(&rows).Order("id DESC").Limit(r.Limit)
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
		query.Where("(address LIKE ?0 ESCAPE '!' OR lower(request_id) LIKE ?0 ESCAPE '!' OR actor_key LIKE ?0 ESCAPE '!')", containing(r.Text))
	}
	return s.readEntries(ctx, query, &rows)
}

// readEntries runs a query into rows and converts them.
func (s *Store) readEntries(ctx context.Context, query *bun.SelectQuery, rows *[]auditRow) ([]personal.AuditEntry, error) {
	err := s.scan(ctx, "read audit entries", query)
	return convert(*rows, func(row *auditRow) personal.AuditEntry {
		return personal.AuditEntry{Cursor: row.ID, Event: personal.Event{
			ID: row.EventID, Type: row.Type, Time: row.Time.time(), UserID: row.AccountID,
			Address: row.Address, RequestID: row.RequestID, Actor: row.Actor, ActorName: row.ActorName,
			Fields: fieldNames(row.Fields), Method: row.Method, Count: row.Removed,
		}}
	}), err
}

// fieldNames returns the names of an entry, nil for none, as in an event.
func fieldNames(stored string) []string {
	if stored == "" {
		return nil
	}
	return strings.Split(stored, " ")
}
