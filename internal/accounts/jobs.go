package accounts

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/shared/personal"
)

// The kinds of jobs that the domain stores.
const (
	KindEvent       outbox.Kind = "event"        // hands an event to the host
	KindRecovery    outbox.Kind = "recovery"     // finds the account of a recovery request and mails a token
	KindEmailChange outbox.Kind = "email_change" // mails a token to the new address
	KindNotice      outbox.Kind = "notice"       // informs the user of what happened to the account
	KindDeletion    outbox.Kind = "deletion"     // mails the token that undoes a deletion
	KindErasure     outbox.Kind = "erasure"      // tells the host that a user was erased

	KindVerification outbox.Kind = "verification" // mails a token to the address that is to be confirmed
	KindResend       outbox.Kind = "email_resend" // finds the account of a request for another such mail
	KindInvitation   outbox.Kind = "invitation"   // mails a token to a user whom an administrator has created

	KindMailedCode outbox.Kind = "sign_in_code" // finds the account of a request for a mailed code, and mails it

	KindFill outbox.Kind = "fill_fields" // fills in defaults of user fields, see [Service.FillFields]
)

// DueErasure stands, in figures of what is not done, for accounts that are to be erased now.
const DueErasure outbox.Kind = "due_erasure"

// RetriedWhileStored are the kinds that are retried for as long as they are stored. All others
// send mails, and are retried for a day.
var RetriedWhileStored = []outbox.Kind{KindEvent, KindErasure, KindFill}

// MailKinds are the kinds that send mails.
var MailKinds = []outbox.Kind{KindRecovery, KindEmailChange, KindNotice, KindDeletion, KindVerification, KindResend, KindInvitation, KindMailedCode}

// RequestKinds are the kinds of requests by visitors, whose jobs are of no account, see [recoveryJob]; those of a
// proof by a mailed code are of its user's.
var RequestKinds = []outbox.Kind{KindRecovery, KindResend, KindMailedCode}

// JobStore stores jobs that no other write causes.
type JobStore interface {
	// Enqueue stores a job on its own.
	Enqueue(ctx context.Context, j NewJob) error
}

// NewJob is a job to be stored. The job of a deleted account is not stored, and
// of its event the audit log gets only type and time.
type NewJob struct {
	Kind      outbox.Kind
	Payload   []byte
	AccountID int64           // jobs of one account and kind run one after another; 0: of no account
	Event     *personal.Event // becomes an audit entry, too; nil: none
	Replaces  bool            // replaces the account's waiting jobs of this kind
}

// newJob returns a job of no account. The payload must have a JSON form.
func newJob(k outbox.Kind, payload any) NewJob {
	data, err := json.Marshal(payload)
	if err != nil {
		panic(fmt.Sprintf("a job's payload has no JSON form: %v", err))
	}
	return NewJob{Kind: k, Payload: data}
}

// jobOf returns a job of an account, which is removed when the account is deleted. It
// continues the trace of ctx.
func jobOf(ctx context.Context, accountID int64, k outbox.Kind, payload any) NewJob {
	job := newJob(k, payload)
	job.AccountID, job.Payload = accountID, outbox.WithSpan(ctx, job.Payload)
	return job
}

// Jobs returns the handler of each kind of job that the domain stores.
func (s *Service) Jobs() map[outbox.Kind]outbox.Handler {
	return map[outbox.Kind]outbox.Handler{
		KindEvent:       handler(s.publish),
		KindRecovery:    s.lookedUp(s.sendRecovery),
		KindEmailChange: handler(s.sendEmailToken),
		KindNotice:      handler(s.sendNotice),
		KindDeletion:    handler(s.sendDeletion),
		KindErasure:     handler(s.eraseInHost),

		KindVerification: handler(s.sendVerification),
		KindResend:       s.lookedUp(s.resendVerification),
		KindInvitation:   handler(s.sendInvitation),
		KindMailedCode:   s.lookedUp(s.sendMailedCode),
		KindFill:         handler(s.fill),
	}
}

// handler returns a handler that decodes a job's payload and calls run.
func handler[T any](run func(ctx context.Context, accountID int64, payload T) error) outbox.Handler {
	return func(ctx context.Context, j outbox.Job) error {
		var payload T
		if err := json.Unmarshal(j.Payload, &payload); err != nil {
			return fmt.Errorf("reading a job of kind %s: %w", j.Kind, err)
		}
		return run(withJob(ctx, j), j.AccountID, payload)
	}
}

type jobKey struct{}

// withJob returns the context of the run of a job.
func withJob(ctx context.Context, j outbox.Job) context.Context {
	return context.WithValue(ctx, jobKey{}, j)
}

// tokenEnded reports whether the token of a job's mail, which an earlier attempt made, has ended. A job
// that runs for the first time has made none.
func (s *Service) tokenEnded(ctx context.Context, lifetime time.Duration) bool {
	j, ok := ctx.Value(jobKey{}).(outbox.Job)
	return ok && j.Attempts > 1 && s.store.Now().Sub(j.Created) >= lifetime
}
