package accounts

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/shared/personal"
)

// userAddress is an address from which the user of an account may sign in.
type userAddress struct {
	address netip.Addr
	known   bool // counts as a fully known address of the account for codes
}

// userAddresses returns the addresses that were entered, and those at which the account's user
// is known or was seen recently, the latest first.
func (s *Service) userAddresses(ctx context.Context, a Account, entered []netip.Addr) ([]userAddress, error) {
	known, err := s.store.KnownAddresses(ctx, a.ID)
	if err != nil {
		return nil, fail("reading known addresses", err)
	}
	from := distinct(nil, entered...)
	since := s.knownSince()
	for _, k := range known {
		address, ok := parseAddress(k.Address)
		if !ok || !k.LastSeen.After(since) {
			continue
		}
		from = distinct(from, address)
		what, err := s.callersAddress(callFrom(ctx, address), AccountQuery{LoginKey: a.LoginKey})
		if err != nil {
			return nil, err
		}
		for i := range from {
			from[i].known = from[i].known || what.Codes && sourceOf(from[i].address) == k.Address
		}
	}
	recent, err := s.recentAddresses(ctx, a)
	if err != nil {
		return nil, err
	}
	full := len(from) + maxRecentAddresses
	for _, address := range recent {
		if len(from) < full {
			from = distinct(from, address)
		}
	}
	return from, nil
}

// recentAddresses returns the addresses of the account's sessions and of its latest audit
// entries, except those of administrators.
func (s *Service) recentAddresses(ctx context.Context, a Account) (addresses []netip.Addr, err error) {
	sessions, err := s.store.Sessions(ctx, a.ID, s.settings.Lifetimes(s.store.Now()))
	if err != nil {
		return nil, fail("listing sessions", err)
	}
	entries, err := s.store.AuditEntries(ctx, personal.AuditEntriesRequest{UserID: a.ID, Limit: maxRecentEntries})
	if err != nil {
		return nil, fail("reading the audit log", err)
	}
	var texts []string
	for _, session := range sessions {
		texts = append(texts, session.Address)
	}
	for _, e := range entries {
		if e.Actor != personal.ActorAdministrator {
			texts = append(texts, e.Address)
		}
	}
	for _, text := range texts {
		if address, ok := parseAddress(text); ok {
			addresses = append(addresses, address)
		}
	}
	return addresses, nil
}

// parseAddress parses an address, or a network as known addresses are stored.
func parseAddress(text string) (netip.Addr, bool) {
	text, _, _ = strings.Cut(text, "/")
	address, err := netip.ParseAddr(text)
	return address, err == nil
}

// distinct adds those addresses to from that none of them counts for.
func distinct(from []userAddress, addresses ...netip.Addr) []userAddress {
	for _, address := range addresses {
		if !slices.ContainsFunc(from, func(a userAddress) bool { return sourceOf(a.address) == sourceOf(address) }) {
			from = append(from, userAddress{address: address})
		}
	}
	return from
}

// heldLimit is a limit that may hold for an account or an address.
type heldLimit struct {
	throttle.Charge
	reason  personal.Reason
	address string // "": everywhere
}

// accountLimits returns the limits of an account that refuse sign-ins from the addresses, and
// everywhere.
func (s *Service) accountLimits(ctx context.Context, a Account, from []userAddress) (limits []heldLimit) {
	add := func(address string, charges []throttle.Charge) {
		for _, c := range charges {
			limits = append(limits, heldLimit{c, personal.ReasonLimit, address})
		}
	}
	var names []string // with which the user can sign in
	for _, name := range []string{a.LoginKey, a.Email.Key} {
		if s.loginQuery(name).finds(a) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, p := range from {
		for _, name := range names {
			add(sourceOf(p.address), s.guessAt(callFrom(ctx, p.address), name))
		}
	}
	for _, name := range names {
		add("", s.guessOf(name))
	}
	add("", s.signInAccount(a.ID))
	if a.TwoFactor.On() {
		add("", s.chargesOfCode(ctx, codeOwner{id: a.ID}))
		for _, p := range from {
			if p.known {
				add(sourceOf(p.address), s.chargesOfCode(callFrom(ctx, p.address), codeOwner{id: a.ID, known: true}))
			}
		}
	}
	return limits
}

// addressLimits returns the given limits, which hold for every user of an address, of
// these addresses.
func (s *Service) addressLimits(ctx context.Context, from []userAddress,
	limitsOf ...func(context.Context) []throttle.Charge) (limits []heldLimit) {
	for _, of := range limitsOf {
		for _, p := range from {
			call := callFrom(ctx, p.address)
			for i, c := range of(call) {
				address := source(call)
				if site, ok := sourceSite(call); ok && i > 0 { // see perNetwork
					address = site
				}
				limits = append(limits, heldLimit{c, personal.ReasonAddressLimit, address})
			}
		}
	}
	return limits
}

// callFrom returns the context of a call from an address.
func callFrom(ctx context.Context, address netip.Addr) context.Context {
	return personal.WithCall(ctx, personal.Call{Address: address})
}

// limitVerdicts returns a verdict for each limit that refuses the next attempt. Of several that
// differ only in what was typed, the last one to end counts.
func (s *Service) limitVerdicts(ctx context.Context, limits []heldLimit) (verdicts []personal.Verdict, err error) {
	charges := make([]throttle.Charge, len(limits))
	for i, l := range limits {
		charges[i] = l.Charge
	}
	now := s.store.Now()
	waits, err := s.store.LimitWaits(ctx, charges, now)
	if err != nil {
		return nil, fail("looking at limits", err)
	}
	for i, l := range limits {
		if waits[i] == 0 {
			continue
		}
		v := personal.Verdict{Reason: l.reason, Limit: l.Limit.Name, Address: l.address, Until: now.Add(waits[i])}
		if l.reason == personal.ReasonLimit {
			v.Action = personal.ActionLiftLimits
		}
		same := slices.IndexFunc(verdicts, func(o personal.Verdict) bool {
			return o.Reason == v.Reason && o.Limit == v.Limit && o.Address == v.Address
		})
		if same < 0 {
			verdicts = append(verdicts, v)
		} else if v.Until.After(verdicts[same].Until) {
			verdicts[same].Until = v.Until
		}
	}
	return verdicts, nil
}
