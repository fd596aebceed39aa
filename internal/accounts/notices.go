package accounts

import (
	"cmp"
	"context"
	"time"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/shared/personal"
)

// noticeJob informs a user of what happened to their account.
type noticeJob struct {
	Kind mailtext.Kind `json:"kind"`
	To   string        `json:"to,omitempty"` // "": the address that the account has when the mail is sent
	Time time.Time     `json:"time"`         // when it happened

	Confirmed bool `json:"confirmed,omitempty"` // To was the account's confirmed e-mail then

	Removed OtherWays `json:"removed,omitzero"` // by what happened
	Left    OtherWays `json:"left,omitzero"`    // that the account had then
	mailRequest
}

// notice returns the job of a notice, or nothing if the settings want none. It is stored
// in the transaction of what happened, like its event. The mail goes to the address that
// the account had then, so that a thief who changes it before the mail is sent does not get the
// notice. An operation that has not read the address leaves to empty, as a refresh does
// that ends a stolen session: that mail goes to the account's address when it is sent.
func (s *Service) notice(ctx context.Context, by personal.Actor, kind mailtext.Kind, accountID int64, to string) []NewJob {
	return s.noticeJobs(ctx, by, accountID, noticeJob{Kind: kind, To: to})
}

// noticeJobs completes the job of a notice; see notice.
func (s *Service) noticeJobs(ctx context.Context, by personal.Actor, accountID int64, n noticeJob) []NewJob {
	if !s.settings.Notices {
		return nil
	}
	n.Time, n.mailRequest = s.store.Now(), newMailRequest(ctx, by)
	return []NewJob{jobOf(ctx, accountID, KindNotice, n)}
}

// reports are the jobs that report what happened to an account: the event and, if the
// account has an e-mail, the notice.
func (s *Service) reports(
	ctx context.Context, by personal.Actor, event personal.EventType, notice mailtext.Kind, accountID int64, to Email,
) []NewJob {
	jobs := []NewJob{s.event(ctx, by, event, accountID)}
	if to.Key != "" {
		jobs = append(jobs, s.notice(ctx, by, notice, accountID, to.Address)...)
	}
	return jobs
}

// sendNotice mails a notice in the account's language. An account without an address
// gets none, and a deleted one leaves none.
//
// A notice of a kind that this version does not know becomes a job of its own kind, such as
// "notice.passkey_renamed": it stays until a later version, which has a handler of that kind, sends it, and the
// other notices of the account do not wait for it.
func (s *Service) sendNotice(ctx context.Context, accountID int64, n noticeJob) error {
	if mailtext.CheckKind(n.Kind) != nil {
		j, _ := ctx.Value(jobKey{}).(outbox.Job)
		return s.store.Enqueue(ctx, NewJob{Kind: KindNotice + "." + outbox.Kind(n.Kind), Payload: j.Payload, AccountID: accountID})
	}
	account, found, err := s.jobAccount(ctx, accountID)
	if err != nil || !found {
		return err
	}
	to := account.Email
	if n.To != "" {
		to, _ = ParseEmail(n.To)
	}
	if to.Key == "" {
		return nil
	}
	n.Locale = cmp.Or(account.Locale, n.Locale)
	confirmed := n.Confirmed || account.EmailVerified && account.Email.Key == to.Key
	m := outgoingMail{kind: n.Kind, request: n.mailRequest, accountID: accountID, to: to, verified: confirmed}
	return s.mailPlain(ctx, m, mailtext.Letter{
		At: n.Time, From: n.Address, Passkeys: n.Left.Passkeys, Identities: n.Left.Identities,
		RemovedPasskeys: n.Removed.Passkeys, RemovedIdentities: n.Removed.Identities,
	})
}
