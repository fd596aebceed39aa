package accounts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/shared/personal"
)

// DeletionStore deletes accounts for their users: it disables them first, and erases
// them later.
type DeletionStore interface {
	// RequestDeletion disables the account until eraseAt, raises its credential version,
	// notes both, ends every session, voids every mailed token and stores the jobs.
	// ErrStale if the credential version has changed or the account is disabled; ErrCodeUsed;
	// ErrProofVoid.
	RequestDeletion(ctx context.Context, accountID, credentialVersion int64, eraseAt time.Time, code CodeUse, jobs ...NewJob) error
	// UndoDeletion uses up a token of PurposeDeletion: it enables the account, raises its
	// credential version, forgets the deletion, voids every token and stores the jobs.
	// ErrNotFound if the token is void, expired or unknown by now, or the deletion does
	// not stand.
	UndoDeletion(ctx context.Context, digest [32]byte, jobs ...NewJob) error
	// DueErasures returns the ids, above after and in their order, of up to n
	// accounts of which the deletion stands and EraseAt has passed, or which were created
	// until unverifiedBefore and have only an unverified e-mail.
	DueErasures(ctx context.Context, unverifiedBefore time.Time, after int64, n int) (ids []int64, err error)
	// EraseAccount is DeleteAccount for an account for which due, called under a lock,
	// returns true. ErrStale if it does not, and ErrNotFound if another transaction
	// holds the lock. What is left in SQLite's write-ahead log is removed by the next
	// Prune.
	EraseAccount(ctx context.Context, id int64, due func(Account) bool, remains func(Account, outbox.Job) []byte, jobs ...NewJob) error
}

// Deleted reports whether the user's deletion of the account stands: neither they nor an
// administrator have undone it.
func (a Account) Deleted() bool { return a.Disabled && !a.EraseAt.IsZero() }

// deletionJob mails the token that undoes a deletion.
type deletionJob struct {
	Version int64     `json:"version"` // the credential version of the deletion
	Time    time.Time `json:"time"`    // of the deletion
	mailRequest
}

// Delete implements [personal.Service]. Mails of earlier requests that wait to be sent
// are dropped, because their tokens belong to the former credential version.
func (s *Service) Delete(ctx context.Context, r personal.DeleteRequest) (time.Time, error) {
	r = personal.AsTyped(r)
	e := evidence{parameter: "password", password: r.Password, code: r.Code, proof: r.Proof}
	who, attempt, err := s.identifyGuess(ctx, r.Credentials, e.guess(), nil)
	if err != nil {
		return time.Time{}, err
	}
	code, err := s.confirm(ctx, who, attempt, r.FieldErrors, e)
	if err != nil {
		return time.Time{}, err
	}
	id, version, now := who.account.ID, who.account.CredentialVersion, s.store.Now()
	eraseAt := now.Add(s.settings.DeletionGrace)
	jobs := []NewJob{
		s.event(ctx, personal.ActorUser, personal.EventDeletionRequested, id),
		jobOf(ctx, id, KindDeletion, deletionJob{Version: version + 1, Time: now, mailRequest: newMailRequest(ctx, personal.ActorUser)}),
	}
	err = s.store.RequestDeletion(ctx, id, version, eraseAt, code.use, append(jobs, code.jobs...)...)
	if err := s.authorized(ctx, code, "deleting an account", err); err != nil {
		return time.Time{}, err
	}
	return eraseAt.UTC(), nil
}

// sendDeletion mails the token that undoes a deletion, if that still stands and the
// account has an e-mail.
func (s *Service) sendDeletion(ctx context.Context, accountID int64, r deletionJob) error {
	account, found, err := s.jobAccount(ctx, accountID)
	if err != nil || !found {
		return err
	}
	lifetime := min(account.EraseAt.Sub(s.store.Now()), s.settings.DeletionGrace)
	if !account.Deleted() || account.CredentialVersion != r.Version || account.Email.Key == "" || lifetime <= 0 {
		return nil
	}
	r.Locale = cmp.Or(account.Locale, r.Locale)
	letter := mailtext.Letter{Lifetime: lifetime, At: r.Time, From: r.Address, Erasure: account.EraseAt}
	m := outgoingMail{
		kind: mailtext.Deletion, request: r.mailRequest, accountID: account.ID, to: account.Email, verified: account.EmailVerified,
	}
	return s.mailToken(ctx, m, s.settings.DeletionURL, letter, MailToken{
		AccountID: account.ID, Purpose: PurposeDeletion, CredentialVersion: r.Version, AccountEmailKey: account.Email.Key,
	})
}

// UndoDelete implements [personal.Service].
func (s *Service) UndoDelete(ctx context.Context, r personal.UndoDeleteRequest) (userID int64, err error) {
	r = personal.AsTyped(r)
	if err := s.chargeConfirmation(ctx); err != nil {
		return 0, err
	}
	invalid := maps.Clone(r.FieldErrors)
	require(&invalid, "token", r.Token)
	if err := invalid.Err(); err != nil {
		return 0, err
	}
	digest, account, err := s.findMailToken(ctx, PurposeDeletion, r.Token)
	if err != nil {
		return 0, err
	}
	err = s.store.UndoDeletion(ctx, digest, s.event(ctx, personal.ActorUser, personal.EventDeletionUndone, account.ID))
	if err := s.committed(personal.CodeInvalidToken, "undoing a deletion", err); err != nil {
		return 0, err
	}
	return account.ID, nil
}

// erasureBatch is how many accounts EraseDue looks up at once.
const erasureBatch = 100

// EraseDue erases the accounts of users who deleted them when the grace period has
// passed, and those whose e-mail was not verified in time. Other nodes may do the same
// at the same time; an account that is being changed is left for the next call, and so
// is one that cannot be erased: the error joins those of all such accounts. It stops
// if the database is unavailable.
func (s *Service) EraseDue(ctx context.Context) error {
	var failed error
	for after := int64(0); ; {
		unverified := s.store.Now().Add(-s.settings.UnverifiedLifetime)
		due, err := s.store.DueErasures(ctx, unverified, after, erasureBatch)
		if err != nil {
			return errors.Join(failed, err)
		}
		for _, id := range due {
			after = id
			if _, err := s.EraseIfDue(ctx, id); err != nil {
				failed = errors.Join(failed, fmt.Errorf("erasing account %d: %w", id, err))
				if errors.Is(err, ErrUnavailable) || ctx.Err() != nil {
					return failed
				}
			}
		}
		if len(due) < erasureBatch {
			return failed
		}
	}
}

// EraseIfDue erases one account if its time has come, and reports whether it did. It does
// nothing to one that another node erases, or that was undone, enabled or verified since.
func (s *Service) EraseIfDue(ctx context.Context, id int64) (erased bool, err error) {
	keys, err := s.requestKeys(ctx)
	if err != nil {
		return false, err
	}
	err = s.store.EraseAccount(ctx, id, s.erasable, s.remains(keys), s.erased(ctx, personal.ActorSystem, id)...)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrStale) {
		return false, nil
	}
	if err == nil {
		s.wake()
	}
	return err == nil, err
}

// erasable is the rule of DueErasures for a locked account.
func (s *Service) erasable(a Account) bool {
	due := func(at time.Time) bool { return !at.IsZero() && !at.After(s.store.Now()) }
	return a.Deleted() && due(a.EraseAt) || due(s.unverifiedUntil(a))
}

// unverifiedUntil returns when an account is erased because its e-mail is not verified;
// zero if it is not.
func (s *Service) unverifiedUntil(a Account) time.Time {
	if a.Unverified.Key == "" || a.Email.Key != "" {
		return time.Time{}
	}
	return a.Created.Add(s.settings.UnverifiedLifetime)
}

// erased are the jobs of every erasure: the last event of the account, and the request
// that the host erases what it keeps.
func (s *Service) erased(ctx context.Context, by personal.Actor, accountID int64) []NewJob {
	return []NewJob{
		s.event(ctx, by, personal.EventUserDeleted, accountID),
		jobOf(ctx, 0, KindErasure, erasureJob{UserID: accountID}), // of no account, because that does not exist any more
	}
}

// erasureJob tells the host that a user was erased.
type erasureJob struct {
	UserID int64 `json:"user_id"`
}

// eraseInHost tells the host that a user was erased, unless it keeps nothing about users.
func (s *Service) eraseInHost(ctx context.Context, _ int64, r erasureJob) error {
	eraser, ok := s.host.(personal.Eraser)
	if !ok {
		return nil
	}
	if err := eraser.EraseUser(ctx, r.UserID); err != nil {
		return fmt.Errorf("erasing user %d in the host: %w", r.UserID, err)
	}
	return nil
}
