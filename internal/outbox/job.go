// Package outbox is work that must happen although it can fail: mails and
// events. A job is written in the transaction of what caused it, leased by a
// worker, and tried again until it succeeds: a mail for a day, what the worker
// insists on for as long as the store keeps it. A lease that ends without a word
// (the worker died) makes the job due again, so a job never lies about for ever as
// "processing", and what is insisted on is done at least once.
package outbox

import (
	"context"
	"time"
)

// Kind names what a job is for.
type Kind string

// Job is one piece of work.
type Job struct {
	ID       int64
	Kind     Kind
	Payload  []byte // JSON; holds no secret that would be of use to who reads the database
	Created  time.Time
	Attempts int   // tries begun so far, the running one included
	Lease    int64 // of this claim; a later claim of the same job has another
	Account  int64 // whose it is; 0: nobody's
}

// Store keeps jobs. Times are the database clock's.
type Store interface {
	// ClaimJobs leases up to n due jobs of the given kinds, the oldest first,
	// until the given time. No other claim gets them before. A store may hold a job
	// back until an earlier one that belongs before it is done.
	ClaimJobs(ctx context.Context, kinds []Kind, until time.Time, n int) ([]Job, error)
	// FinishJob removes a job, unless its lease has passed to another claim.
	FinishJob(ctx context.Context, j Job) error
	// RetryJob ends the lease and makes the job due again at the given time.
	RetryJob(ctx context.Context, j Job, due time.Time) error
	// Now is the database's time.
	Now() time.Time
}
