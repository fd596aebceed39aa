package accounts

import (
	"context"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/shared/personal"
)

// WayInStore removes ways into accounts for administrators.
type WayInStore interface {
	// RemoveOtherWaysIn removes all other ways in, ends the sessions that they began, voids the
	// proofs that they gave, and drops what proofs have started. It requests the jobs, with the
	// account and what was removed, unless there was nothing. ErrNotFound; ErrLastWayIn.
	RemoveOtherWaysIn(ctx context.Context, accountID int64, jobs func(before Account, removed OtherWays) []NewJob) error
	// ResetAccess sets the account's e-mail as SetEmail does, also to the present one, and
	// stores [password.AwaitsRecovery] as its hash. It removes the second factor with its
	// recovery codes, the other ways in, every session with what it has started, the mailed tokens,
	// the refused codes and the known addresses, raises the credential version, enables the
	// account, forgets a deletion by the user, and stores the jobs, which it requests with the
	// account before the change. ErrNotFound, *TakenError.
	ResetAccess(ctx context.Context, accountID int64, email Email, jobs func(before Account) []NewJob) error
}

// OtherWays counts other ways into an account: what opens a session without its password. Every
// operation that removes, keeps, counts or reports one of them treats all alike.
type OtherWays struct {
	Passkeys   int `json:"passkeys,omitempty"`
	Identities int `json:"identities,omitempty"`
}

// None reports whether there are none.
func (w OtherWays) None() bool { return w == OtherWays{} }

// KeepsWayIn is the rule of last_way_in: whether the user can still get into the account with what
// is left of its other ways in. A verified e-mail is a way in, by a recovery. An unverified one is
// none, whatever the site verifies: it may never have been the user's, and a recovery, which
// verifies it, sets a password first.
func (a Account) KeepsWayIn(left OtherWays) bool {
	return password.Verifiable(a.PasswordHash) || a.EmailVerified && a.Email.Key != "" || !left.None()
}

// OtherWaysIn returns the passkeys of an account, whether or not the site has passkeys, and its
// identities, each the latest first.
func (s *Service) OtherWaysIn(ctx context.Context, a Account) (passkeys []personal.Passkey, identities []personal.LinkedIdentity,
	err error) {
	keys, err := s.store.Passkeys(ctx, a.ID)
	if err != nil {
		return nil, nil, fail("reading passkeys", err)
	}
	stored, err := s.store.Identities(ctx, a.ID)
	if err != nil {
		return nil, nil, fail("reading identities", err)
	}
	for _, i := range stored {
		identities = append(identities, i.Described())
	}
	return passkeysOf(keys), identities, nil
}

// RemoveOtherWaysIn implements [personal.Administration].
func (s *Service) RemoveOtherWaysIn(ctx context.Context, id int64) error {
	err := s.store.RemoveOtherWaysIn(ctx, id, func(before Account, removed OtherWays) []NewJob {
		return s.waysRemoved(ctx, personal.ActorAdministrator, before, removed)
	})
	return s.committed(personal.CodeNotFound, "removing other ways in", err)
}

// waysRemoved are the jobs that report the removal of other ways in.
func (s *Service) waysRemoved(ctx context.Context, by personal.Actor, a Account, removed OtherWays) []NewJob {
	jobs := s.waysRemovedEvents(ctx, by, a.ID, removed)
	if a.Email.Key == "" {
		return jobs
	}
	if removed.Passkeys > 0 {
		jobs = append(jobs, s.notice(ctx, by, mailtext.PasskeyRemoved, a.ID, a.Email.Address)...)
	}
	if removed.Identities > 0 {
		jobs = append(jobs, s.notice(ctx, by, mailtext.IdentityUnlinked, a.ID, a.Email.Address)...)
	}
	return jobs
}

// waysRemovedEvents report the removal of other ways in without a notice.
func (s *Service) waysRemovedEvents(ctx context.Context, by personal.Actor, accountID int64, removed OtherWays) (jobs []NewJob) {
	for _, e := range []personal.Event{
		{Type: personal.EventPasskeyRemoved, Count: removed.Passkeys},
		{Type: personal.EventIdentityUnlinked, Count: removed.Identities},
	} {
		if e.Count > 0 {
			e.UserID, e.Actor = accountID, by
			jobs = append(jobs, s.eventJob(ctx, e))
		}
	}
	return jobs
}

// ResetAccess implements [personal.Administration].
func (s *Service) ResetAccess(ctx context.Context, r personal.ResetAccessRequest) error {
	r = personal.AsTyped(r)
	email, code := ParseEmail(r.Email)
	if code != "" {
		return personal.FieldErrors{"email": code}.Err()
	}
	const by = personal.ActorAdministrator
	err := s.store.ResetAccess(ctx, r.UserID, email, func(before Account) []NewJob {
		jobs := []NewJob{s.event(ctx, by, personal.EventAccessReset, before.ID)}
		if before.Email.Key != "" {
			jobs = append(jobs, s.noticeJobs(ctx, by, before.ID, noticeJob{
				Kind: mailtext.AccessReset, To: before.Email.Address, Confirmed: before.EmailVerified,
			})...)
		}
		return append(jobs, jobOf(ctx, before.ID, KindInvitation, invitationJob{
			Kind: mailtext.Recovery, Version: before.CredentialVersion + 1, EmailKey: email.Key, mailRequest: newMailRequest(ctx, by),
		}))
	})
	return s.committed(personal.CodeNotFound, "resetting the access to an account", err)
}
