package store

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
)

// Enqueue stores a job that is due at once.
func (s *Store) Enqueue(ctx context.Context, j accounts.NewJob) error {
	return s.inTx(ctx, "store a job", func(ctx context.Context, tx bun.Tx) error {
		return s.addJobs(ctx, tx, []accounts.NewJob{j})
	})
}

// addJobs stores jobs, and their events as audit lines. Of an account that is
// gone by now there are no jobs any more: the last that is told of it is its end.
func (s *Store) addJobs(ctx context.Context, db bun.IDB, jobs []accounts.NewJob) error {
	now := at(s.Now())
	rows := make([]jobRow, 0, len(jobs))
	for _, j := range jobs {
		// Asked for events without an account, too: how long a failed sign-in takes
		// must not tell whether there is an account.
		gone := false
		if j.AccountID != 0 || j.Event != nil {
			var err error
			if gone, err = s.isGone(ctx, db, j.AccountID); err != nil {
				return err
			}
		}
		if j.Event != nil {
			if err := addAudit(ctx, db, *j.Event, gone); err != nil {
				return err
			}
		}
		if gone {
			continue
		}
		if j.Replaces {
			if _, err := exec(ctx, db, "DELETE FROM personal_jobs WHERE account_id = ? AND kind = ?", j.AccountID, j.Kind); err != nil {
				return err
			}
		}
		payload := append([]byte{}, j.Payload...) // none is empty, and not NULL
		rows = append(rows, jobRow{Kind: j.Kind, Payload: payload, Created: now, Due: now, AccountID: j.AccountID})
	}
	if len(rows) == 0 {
		return nil
	}
	_, err := db.NewInsert().Model(&rows).Exec(ctx)
	return err
}

// isGone reports whether the account of a job has been deleted. One that is there
// stays until the end of the transaction. Without an account (id 0) it is false.
func (s *Store) isGone(ctx context.Context, db bun.IDB, accountID int64) (bool, error) {
	var found []int64
	err := db.NewRaw("SELECT id FROM personal_accounts WHERE id = ? ?", accountID, s.keep).Scan(ctx, &found)
	return len(found) == 0 && accountID != 0, err
}

// ClaimJobs leases due jobs, see outbox.Store. A row that another claim has just
// locked is passed over, and so is one behind another of its kind and account:
// those are done one after another. The list is made first and once: a LIMIT
// within the condition could be evaluated anew for each row. Which one is in front
// is looked up for each in the index of accounts, the only one in this order; the
// job itself is behind the place where that begins. Of a NOT EXISTS PostgreSQL would
// make a join of all an account's jobs with each other, and for the order of id alone
// it may walk through all jobs there are.
func (s *Store) ClaimJobs(ctx context.Context, kinds []outbox.Kind, until time.Time, n int) ([]outbox.Job, error) {
	if len(kinds) == 0 || n < 1 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	now := s.Now()
	var rows []jobRow
	err := s.write.NewRaw(`WITH due AS MATERIALIZED (
			SELECT id FROM personal_jobs j WHERE due <= ? AND kind IN (?) AND (account_id IS NULL OR id = (
				SELECT id FROM personal_jobs front WHERE (front.account_id, front.kind) >= (j.account_id, j.kind)
				ORDER BY front.account_id, front.kind, front.id LIMIT 1))
			ORDER BY due, id LIMIT ? ?)
		UPDATE personal_jobs SET due = ?, attempts = attempts + 1, lease = lease + 1
		WHERE id IN (SELECT id FROM due) RETURNING *`,
		at(now), bun.List(kinds), n, s.skipLocked, at(until)).Scan(ctx, &rows)
	if err != nil {
		return nil, fault(ctx, "claim jobs", err)
	}
	slices.SortFunc(rows, func(a, b jobRow) int { return cmp.Compare(a.ID, b.ID) })
	jobs := make([]outbox.Job, len(rows))
	for i := range rows {
		jobs[i] = rows[i].job()
		if err := s.putOff(ctx, jobs[i], now); err != nil { // what is claimed is to be done all the same
			s.log.WarnContext(ctx, "jobs behind another could not be put off", slog.Any("error", err))
		}
	}
	return jobs, nil
}

// How long jobs behind another are put off, which is longer than it takes to try
// that one again, and how many of them at most, in a second or so.
const (
	putOffFor  = 15 * time.Minute
	putOffMost = 50_000
)

// putOff takes the jobs behind a claimed one out of the way of the next claims,
// which would look at each of them in vain. FinishJob makes the next one due: it
// can't have done so before the job is handed out. Should nobody, it is due again
// after a while. Where the next is put off already, only those are looked at that
// have come behind all that are.
func (s *Store) putOff(ctx context.Context, j outbox.Job, now time.Time) error {
	if j.Account == 0 {
		return nil
	}
	_, err := exec(ctx, s.write, `WITH behind AS NOT MATERIALIZED (SELECT id, due FROM personal_jobs WHERE account_id = ? AND id >= ? AND kind = ?)
		UPDATE personal_jobs SET due = ? WHERE id IN (
			SELECT id FROM personal_jobs WHERE account_id = ? AND kind = ? AND due <= ? AND id > CASE
				WHEN (SELECT due FROM behind WHERE id > ? ORDER BY id LIMIT 1) <= ? THEN ?
				ELSE (SELECT id FROM behind WHERE due > ? ORDER BY id DESC LIMIT 1) END
			ORDER BY id LIMIT ?)`,
		j.Account, j.ID, j.Kind, at(now.Add(putOffFor)), j.Account, j.Kind, at(now), j.ID, at(now), j.ID, at(now), putOffMost)
	return err
}

// FinishJob removes a job, see outbox.Store, and makes the one behind it due that
// was put off for it.
func (s *Store) FinishJob(ctx context.Context, j outbox.Job) error {
	return s.inTx(ctx, "finish a job", func(ctx context.Context, tx bun.Tx) error {
		_, err := exec(ctx, tx, "DELETE FROM personal_jobs WHERE id = ? AND lease = ?", j.ID, j.Lease)
		if err != nil || j.Account == 0 {
			return err
		}
		// Also where another job has replaced it: that one may have been put off.
		now := at(s.Now())
		_, err = exec(ctx, tx, `UPDATE personal_jobs SET due = ? WHERE due > ? AND attempts = 0 AND id = (
			SELECT id FROM personal_jobs WHERE account_id = ? AND kind = ? ORDER BY id LIMIT 1)`, now, now, j.Account, j.Kind)
		return err
	})
}

// RetryJob makes a job due again, see outbox.Store. The lease is another
// afterwards, so whoever held it holds it no longer.
func (s *Store) RetryJob(ctx context.Context, j outbox.Job, due time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	_, err := exec(ctx, s.write, "UPDATE personal_jobs SET due = ?, lease = lease + 1 WHERE id = ? AND lease = ?",
		at(due), j.ID, j.Lease)
	return fault(ctx, "retry a job", err)
}
