package accounts

import (
	"context"
	"net/netip"
	"slices"

	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/shared/personal"
)

// LimitStore lifts limits. [Throttle] lists them, mailbudgets.go those of mails.
type LimitStore interface {
	// LiftLimits forgets the attempts that were counted for the charges and the account's
	// refused codes, and stores the jobs. ErrNotFound if the account does not exist.
	LiftLimits(ctx context.Context, accountID int64, charges []throttle.Charge, jobs ...NewJob) error
}

// LiftLimits implements [personal.Administration]. It forgets counted attempts and
// refused codes, and nothing else: a code that was used stays used.
func (s *Service) LiftLimits(ctx context.Context, r personal.LiftLimitsRequest) error {
	var invalid personal.FieldErrors
	checkAddresses(&invalid, r.Addresses)
	if err := invalid.Err(); err != nil {
		return err
	}
	account, err := s.store.Account(ctx, r.UserID)
	if err != nil {
		return failWith(personal.CodeNotFound, "finding an account", err)
	}
	from, err := s.userAddresses(ctx, account, r.Addresses)
	if err != nil {
		return err
	}
	var charges []throttle.Charge
	for _, l := range s.accountLimits(ctx, account, from) {
		charges = append(charges, l.Charge)
	}
	err = s.store.LiftLimits(ctx, r.UserID, charges, s.event(ctx, personal.ActorAdministrator, personal.EventLimitsLifted, r.UserID))
	return s.committed(personal.CodeNotFound, "lifting limits", err)
}

// checkAddresses adds the field error of the addresses of an administrator's request.
func checkAddresses(invalid *personal.FieldErrors, addresses []netip.Addr) {
	checkRange(invalid, "addresses", int64(len(addresses)), personal.MaxExplainAddresses)
	if slices.ContainsFunc(addresses, func(a netip.Addr) bool { return !a.IsValid() || a.Zone() != "" }) {
		invalid.Add("addresses", personal.FieldErrorInvalidFormat)
	}
}
