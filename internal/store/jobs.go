package store

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
)

// Enqueue implements accounts.JobStore. The job is due at once.
func (s *Store) Enqueue(ctx context.Context, j accounts.NewJob) error {
	return s.inTx(ctx, "store a job", func(ctx context.Context, tx bun.Tx) error {
		return s.addJobs(ctx, tx, []accounts.NewJob{j})
	})
}

// addJobs stores jobs, and their events as audit entries. A deleted account gets
// no more jobs: the last event that the host receives about it is its deletion.
func (s *Store) addJobs(ctx context.Context, tx bun.Tx, jobs []accounts.NewJob) error {
	var writes []schema.QueryAppender
	now := s.Now()
	for _, j := range jobs {
		deleted := false
		// Events without an account run the query too: otherwise the time of a failed
		// sign-in would reveal whether the account exists.
		if j.AccountID != 0 || j.Event != nil {
			var found []int64
			err := raw(tx, "SELECT id FROM personal_accounts WHERE id = ? ?", j.AccountID, s.forKeyShare).Scan(ctx, &found)
			if err != nil {
				return err
			}
			deleted = len(found) == 0 && j.AccountID != 0
		}
		if !deleted {
			writes = append(writes, insertJobs(tx, []accounts.NewJob{j}, now)...)
		} else if j.Event != nil {
			writes = append(writes, insertAudit(tx, *j.Event, deleted))
		}
	}
	return execAll(ctx, tx, writes...)
}

// insertJobs returns the statements that store jobs of locked accounts, and their
// events as audit entries.
func insertJobs(tx bun.Tx, jobs []accounts.NewJob, now time.Time) (writes []schema.QueryAppender) {
	for _, j := range jobs {
		if j.Event != nil {
			writes = append(writes, insertAudit(tx, *j.Event, false))
		}
		if j.Replaces {
			writes = append(writes, tx.NewRaw("DELETE FROM personal_jobs WHERE account_id = ? AND kind = ?", j.AccountID, j.Kind))
		}
		payload := append([]byte{}, j.Payload...) // an empty one must not become NULL
		row := jobRow{Kind: j.Kind, Payload: payload, Created: at(now), Due: at(now), AccountID: j.AccountID}
		writes = append(writes, tx.NewInsert().Model(&row).Returning("NULL"))
	}
	return writes
}

// dueOfKind selects, for a row of kinds, the first due jobs that no other job of their
// account and kind comes before.
const dueOfKind = `SELECT id, due FROM personal_jobs j WHERE kind = kinds.column1 AND due <= ? AND (account_id IS NULL OR id = (
		SELECT id FROM personal_jobs front WHERE (front.account_id, front.kind) >= (j.account_id, j.kind)
		ORDER BY front.account_id, front.kind, front.id LIMIT 1))
	ORDER BY due, id LIMIT ? + 0`

// overdue selects, for a row of kinds, jobs that an outbox has put off by more than it ever does: they
// were claimed, postponed or retried while the clock was ahead.
const overdue = `SELECT id, due FROM personal_jobs j WHERE kind = kinds.column1 AND due > ? AND lease > 0 AND created <= ?
	ORDER BY due DESC LIMIT ? + 0`

// ClaimJobs implements outbox.Store. It skips rows that another claim has locked,
// and every job behind another one of its kind and account, because those run one
// after another.
//
// The subquery runs for each kind, and reads the due jobs of the kind in the order of an
// index until it has enough, so that no kind walks over the jobs of another. It is
// materialised because PostgreSQL could evaluate a LIMIT within the condition again for
// each row. It looks up the front job of each account and kind in the index that has this
// order. NOT EXISTS would make PostgreSQL join all jobs of an account with each other, and
// ORDER BY id alone could make it walk all jobs.
//
// The statement also finds jobs that wait because the clock was ahead, and hold up all later ones of
// their account. One whose creation is false waits from now what it was to wait. One that was
// put off until a false time waits as long as it may still run. They lose their attempts, which
// tells them from claimed ones.
func (s *Store) ClaimJobs(ctx context.Context, claims ...outbox.Claim) ([]outbox.Job, error) {
	// One deadline for all statements: the leases run during them.
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	if err := s.SyncClock(ctx); err != nil {
		return nil, err
	}
	if s.clock.hasStepped(longestRun) { // jobs that run may seem due
		return nil, nil
	}
	const few = 50 // jobs of the future in one claim: for more PostgreSQL may read the whole table
	now, latest := s.Now(), s.latest()
	var due []string
	var args []any
	for _, c := range claims {
		if len(c.Kinds) == 0 || c.N < 1 {
			continue
		}
		of := func(each, part string, until time.Time, values ...any) {
			args = append(args, at(until))
			for _, k := range c.Kinds {
				args = append(args, k)
			}
			args = append(args, values...)
			due = append(due, "SELECT id, CAST(? AS BIGINT) AS until, "+each+" AS runs FROM (SELECT due.id FROM (VALUES (?)"+
				strings.Repeat(", (?)", len(c.Kinds)-1)+") AS kinds CROSS JOIN "+fmt.Sprintf(s.eachKind, part+string(s.skipLocked))+
				" ORDER BY due.due, due.id LIMIT ? + 0) AS claim")
		}
		of("1", dueOfKind, now.Add(c.Lease), at(now), c.N, c.N)
		of("0", overdue, now.Add(longestRun), at(now.Add(postponeFor+accounts.MaxAhead)), latest, few, few)
	}
	if len(due) == 0 {
		return nil, nil
	}
	due = append(due, `SELECT id, until, 0 FROM (SELECT id, ? + due - created AS until FROM personal_jobs
		WHERE created > ? AND due > ? ORDER BY created DESC LIMIT ? + 0`+string(s.skipLocked)+") AS future")
	args = append(args, at(now), latest, at(now), few)
	args = append(args, latest, at(now))
	var rows []jobRow
	err := s.scan(ctx, "claim jobs", raw(s.write, "WITH claimed AS MATERIALIZED ("+strings.Join(due, " UNION ALL ")+`)
		UPDATE personal_jobs SET due = claimed.until, attempts = (attempts + 1) * claimed.runs, lease = lease + claimed.runs, runs_left = runs_left - claimed.runs,
			created = CASE WHEN created > ? THEN ? ELSE created END
		FROM claimed WHERE personal_jobs.id = claimed.id RETURNING *, EXISTS (
			SELECT 1 FROM personal_jobs behind WHERE behind.account_id = personal_jobs.account_id
			AND behind.kind = personal_jobs.kind AND behind.id > personal_jobs.id) AS followed`, args...), &rows)
	if err != nil {
		return nil, err
	}
	rows = slices.DeleteFunc(rows, func(r jobRow) bool { return r.Attempts == 0 }) // they wait
	slices.SortFunc(rows, func(a, b jobRow) int { return cmp.Compare(a.ID, b.ID) })
	jobs := convert(rows, (*jobRow).job)
	for _, j := range jobs {
		if !j.Followed {
			continue
		}
		if err := s.postpone(ctx, j, now); err != nil { // the claimed jobs still run
			s.log.WarnContext(ctx, "jobs behind another could not be postponed", slog.Any("error", err))
		}
	}
	return jobs, nil
}

// postponeFor is the longest that a job is put off: longer than the longest backoff of a claimed one.
const postponeFor = 15 * time.Minute

// postpone makes the jobs behind a claimed one due later, because otherwise each claim
// would examine every due one of them. FinishJobs makes the next one due; it
// cannot have run before the claim returns. If it never runs, the jobs become due
// by themselves after postponeFor. The raised lease tells them from jobs that wait since
// their creation. If the next job is postponed already, only jobs
// behind all postponed ones are updated. It waits for no lock: eraseJobs may hold one of
// these rows and want another; a row that it skips only costs the next claims time.
func (s *Store) postpone(ctx context.Context, j outbox.Job, now time.Time) error {
	const limit = 50_000 // jobs postponed at once, in about a second
	_, err := s.exec(ctx, "postpone jobs", `WITH behind AS NOT MATERIALIZED (SELECT id, due FROM personal_jobs WHERE account_id = ? AND id >= ? AND kind = ?),
		free AS MATERIALIZED (
			SELECT id FROM personal_jobs WHERE account_id = ? AND kind = ? AND due <= ? AND id > CASE
				WHEN (SELECT due FROM behind WHERE id > ? ORDER BY id LIMIT 1) <= ? THEN ?
				ELSE (SELECT id FROM behind WHERE due > ? ORDER BY id DESC LIMIT 1) END
			ORDER BY id LIMIT ? + 0 ?)
		UPDATE personal_jobs SET due = ?, lease = lease + 1 WHERE id IN (SELECT id FROM free)`,
		j.AccountID, j.ID, j.Kind, j.AccountID, j.Kind, at(now), j.ID, at(now), j.ID, at(now), limit, s.skipLocked, at(now.Add(postponeFor)))
	return err
}

// FinishJobs implements outbox.Store. It works even if the database refuses this version:
// what is done would be done again by another node. For each job that others waited for it makes the
// next one due, which postpone has put off.
func (s *Store) FinishJobs(ctx context.Context, jobs ...outbox.Job) error {
	if len(jobs) == 0 {
		return nil
	}
	var claims []any
	for _, j := range jobs {
		claims = append(claims, j.ID, j.Lease)
	}
	// Ordered by id, as in eraseJobs, to prevent deadlocks.
	remove := "WITH done AS MATERIALIZED (SELECT id FROM personal_jobs WHERE id = ? AND lease = ?" +
		strings.Repeat(" OR id = ? AND lease = ?", len(jobs)-1) + " ORDER BY id ?) DELETE FROM personal_jobs WHERE id IN (SELECT id FROM done)"
	claims = append(claims, s.forUpdate)
	if !slices.ContainsFunc(jobs, func(j outbox.Job) bool { return j.Followed }) {
		_, err := s.exec(ctx, "finish jobs", remove, claims...)
		return err
	}
	return s.inTx(ctx, "finish jobs", func(ctx context.Context, tx bun.Tx) error {
		if _, err := exec(ctx, tx, remove, claims...); err != nil {
			return err
		}
		now := at(s.Now())
		for _, j := range jobs {
			if !j.Followed {
				continue
			}
			// Also if another job has replaced j: the next job may still be postponed.
			_, err := exec(ctx, tx, `UPDATE personal_jobs SET due = ? WHERE due > ? AND attempts = 0 AND id = (
				SELECT id FROM personal_jobs WHERE account_id = ? AND kind = ? ORDER BY id LIMIT 1)`, now, now, j.AccountID, j.Kind)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// HoldJob implements outbox.Store.
func (s *Store) HoldJob(ctx context.Context, j outbox.Job, lease time.Duration) (held bool, err error) {
	n, err := s.exec(ctx, "hold a job", "UPDATE personal_jobs SET due = ? WHERE id = ? AND lease = ?", at(s.Now().Add(lease)), j.ID, j.Lease)
	return n > 0, err
}

// RetryJob implements outbox.Store. It raises the lease, so that the worker that
// held the old one cannot finish the job any more.
func (s *Store) RetryJob(ctx context.Context, j outbox.Job, due time.Time) error {
	var left *int
	if j.LastAttempt != 0 {
		left = new(j.LastAttempt - j.Attempts)
	}
	_, err := s.exec(ctx, "retry a job", "UPDATE personal_jobs SET due = ?, lease = lease + 1, runs_left = ? WHERE id = ? AND lease = ?",
		at(due), left, j.ID, j.Lease)
	return err
}

// backlogLimit bounds how many jobs JobBacklog counts: it is called often, and an outage
// of the host or of the mail relay leaves many.
const backlogLimit = 10_000

// JobBacklog counts the oldest jobs that are not done, at most 10,000, by kind; and accounts that their users have
// deleted and that are to be erased now, as many.
func (s *Store) JobBacklog(ctx context.Context) (map[outbox.Kind]outbox.Backlog, error) {
	var rows []struct {
		Kind   outbox.Kind
		Jobs   int
		Oldest micros
	}
	err := s.scan(ctx, "count jobs", s.read.NewRaw(`SELECT kind, count(*) AS jobs, min(created) AS oldest
		FROM (SELECT kind, created FROM personal_jobs ORDER BY id LIMIT ?) AS front GROUP BY kind
		UNION ALL SELECT ?, count(*), min(erase_at) FROM (SELECT erase_at FROM personal_accounts
			WHERE erase_at > 0 AND erase_at <= ? AND disabled ORDER BY erase_at LIMIT ?) AS due HAVING count(*) > 0`,
		backlogLimit, accounts.DueErasure, at(s.Now()), backlogLimit), &rows)
	all := map[outbox.Kind]outbox.Backlog{}
	for _, row := range rows {
		all[row.Kind] = outbox.Backlog{Jobs: row.Jobs, Oldest: row.Oldest.time()}
	}
	return all, err
}
