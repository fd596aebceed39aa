package dbconn

import (
	"context"
	"fmt"
	"time"
)

// Limits bound the time that work on a PostgreSQL connection may take. pgdriver does
// not notice a cancelled context. It waits for a response until the context's
// deadline or for Read, whichever is sooner, and then gives the connection up. The
// server's limits are therefore shorter: a wait for a lock ends with an error, and the
// connection remains usable.
type Limits struct {
	Lock      time.Duration // wait for one lock, in a transaction
	Statement time.Duration // one statement, in a transaction
	Read      time.Duration // wait for a response, or of the server for the next statement of a transaction

	// PerCall also limits statements outside transactions, and all limits of the server to
	// the time that is left until the context's deadline, so that no statement outlives
	// its call and takes effect after the call was reported as failed. A statement is not
	// sent if less than 50 ms are left. Prepared statements are limited in transactions
	// only. Statements that must be alone in their message, such as CREATE DATABASE, need
	// limits without PerCall.
	PerCall bool
}

// The limits for requests and for migrations.
var (
	RequestLimits   = Limits{Lock: 5 * time.Second, Statement: 8 * time.Second, Read: 10 * time.Second, PerCall: true}
	MigrationLimits = Limits{Lock: 5 * time.Second, Statement: 5 * time.Minute, Read: 6 * time.Minute}
)

// Waits for responses that need no work. No limit of the server ends them.
const (
	answerTime = 500 * time.Millisecond // after the server's own limit has passed
	checkWait  = time.Second            // of a check before reuse
	beginWait  = 2 * time.Second        // for BEGIN and ROLLBACK
	commitWait = 5 * time.Second        // for COMMIT, which may wait for disks and replicas, or the call's deadline
)

// level is one of few values of the server's limits, with the text that sets them: few,
// so that logs, statistics and poolers meet few texts.
type level struct {
	statement, lock time.Duration
	begin           string // begins a transaction with the limits
	again           string // before a statement of a transaction: sets them anew
	single          string // before a statement outside a transaction: sets them for it; "": none
}

// levels returns the levels in rising order. They also set the isolation level of
// transactions: sessionSettings may not reach each connection of a pooler. The
// limits are set for the transaction and not for the session, which behind PgBouncer in
// transaction mode is shared with other clients. The limit of idle time releases the locks of
// a node that hangs, or is cut off, within the transaction.
func (l Limits) levels() (all []level) {
	if !l.PerCall {
		return []level{newLevel(l.Statement, l.Lock, l.Read)}
	}
	// A wait for a lock ends first: after a statement's own limit pgdriver closes the
	// connection.
	lock := 25 * time.Millisecond
	for _, step := range [...]time.Duration{
		50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
		time.Second, 2 * time.Second, 5 * time.Second, l.Statement,
	} {
		if step > l.Statement {
			continue
		}
		set := newLevel(step, min(lock, l.Lock), step)
		set.single = fmt.Sprintf("SET LOCAL statement_timeout = %d; SET LOCAL lock_timeout = %d; ",
			set.statement.Milliseconds(), set.lock.Milliseconds())
		all = append(all, set)
		lock = step
	}
	return all
}

func newLevel(statement, lock, idle time.Duration) level {
	set := fmt.Sprintf("SET LOCAL lock_timeout = %d; SET LOCAL statement_timeout = %d; "+
		"SET LOCAL idle_in_transaction_session_timeout = %d",
		lock.Milliseconds(), statement.Milliseconds(), idle.Milliseconds())
	return level{statement: statement, lock: lock, begin: "BEGIN ISOLATION LEVEL READ COMMITTED; " + set, again: set + "; "}
}

// limit returns the level for a statement that is sent now, and a context until whose
// deadline to wait for the response. That is after the server's limit, if need be
// after the caller's deadline: only a server that cannot be reached lets it pass.
func (c *connector) limit(ctx context.Context) (*level, context.Context, error) {
	deadline, ok := ctx.Deadline()
	if !ok || !c.limits.PerCall {
		return &c.levels[len(c.levels)-1], ctx, nil
	}
	now := time.Now()
	left := deadline.Sub(now)
	for i := len(c.levels) - 1; i >= 0; i-- {
		set := &c.levels[i]
		if set.statement > left {
			continue
		}
		if end := now.Add(set.statement + answerTime); end.After(deadline) {
			ctx = waiting{ctx, end}
		}
		return set, ctx, nil
	}
	return nil, nil, fmt.Errorf("%w: too little time was left to send the statement", context.DeadlineExceeded)
}

// waiting is a context with another deadline for pgdriver, which uses nothing else of
// it.
type waiting struct {
	context.Context
	until time.Time
}

func (w waiting) Deadline() (time.Time, bool) { return w.until, true }
