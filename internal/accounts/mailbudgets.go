package accounts

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/throttle"
)

// MailLimitStore counts mails by keyed digests of what they count against.
type MailLimitStore interface {
	// ReserveMail counts a mail that is about to be sent and stores the jobs, if an allowance of
	// the reservation grants it (see MailReservation.Grant); else it does neither and returns
	// false. A repeated reservation, which has the same mailbox, kind and MailID, is granted,
	// not counted again, and stores no jobs. Of concurrent reservations for one mailbox each
	// counts those that were granted before it.
	ReserveMail(ctx context.Context, r MailReservation, jobs ...NewJob) (granted bool, err error)
	// Key returns the stored key of that name. The first call with a candidate, on
	// whichever node, stores it. ErrNotFound without a candidate, if no key is stored.
	Key(ctx context.Context, name string, candidate []byte) ([]byte, error)
}

// MailReservation is a request to send one mail. The first allowance with room for the
// mail grants it; the mail then counts for the limits of that allowance only.
type MailReservation struct {
	Mailbox    [32]byte // digest; reservations for one mailbox are granted one after another
	Kind       mailtext.Kind
	MailID     string
	Allowances []MailAllowance
}

// MailAllowance allows a mail if all its limits do.
type MailAllowance struct {
	Rate   throttle.Charge // a zero Limit: none
	Limits []MailLimit
}

// MailLimit allows Max mails that count for one digest within any period of the length
// Window.
type MailLimit struct {
	Digest [32]byte
	Max    int
	Window time.Duration
}

// SentMail is a mail that counts for a digest.
type SentMail struct {
	Digest [32]byte
	Time   time.Time
}

// MailWindow is the longest Window of a limit: older mails count for none.
const MailWindow = 24 * time.Hour

// Grant returns the allowance that grants the mail, or nil and when the first one may. It gets
// the mails that count for the digests of the limits, the latest first, and how long the
// rates refuse another attempt, by their keys.
func (r MailReservation) Grant(sent []SentMail, waits map[[32]byte]time.Duration, now time.Time) (granted *MailAllowance, until time.Time) {
	for i := range r.Allowances {
		a := &r.Allowances[i]
		end := now.Add(waits[a.Rate.Key])
		for _, l := range a.Limits {
			if e := l.until(sent, now); e.After(end) {
				end = e
			}
		}
		if !end.After(now) {
			return a, time.Time{}
		}
		if until.IsZero() || end.Before(until) {
			until = end
		}
	}
	return nil, until
}

// until returns when the limit allows another mail; zero: now.
func (l MailLimit) until(sent []SentMail, now time.Time) time.Time {
	counted := 0
	for _, m := range sent {
		end := m.Time.Add(l.Window)
		if m.Digest != l.Digest || !end.After(now) {
			continue
		}
		if counted++; counted == l.Max {
			return end
		}
	}
	return time.Time{}
}

// Rates returns the charges of the allowances that have one.
func (r MailReservation) Rates() (rates []throttle.Charge) {
	for _, w := range r.Allowances {
		if w.Rate.Limit != (throttle.Limit{}) && !slices.Contains(rates, w.Rate) {
			rates = append(rates, w.Rate)
		}
	}
	return rates
}

// Digests returns the distinct digests of the limits.
func (r MailReservation) Digests() (digests [][32]byte) {
	for _, w := range r.Allowances {
		digests = append(digests, w.Digests()...)
	}
	return distinctDigests(digests)
}

// Digests returns the distinct digests of the limits.
func (w MailAllowance) Digests() (digests [][32]byte) {
	for _, l := range w.Limits {
		digests = append(digests, l.Digest)
	}
	return distinctDigests(digests)
}

func distinctDigests(digests [][32]byte) [][32]byte {
	slices.SortFunc(digests, func(a, b [32]byte) int { return slices.Compare(a[:], b[:]) })
	return slices.Compact(digests)
}

// ownBudget reports whether the address has its own budget. An unverified one with a +tag has none:
// anyone can register any number of them for the mailbox of another person.
func (m outgoingMail) ownBudget() bool {
	return m.to.Key != "" && (m.verified || withoutTag(m.to.Key) == m.to.Key)
}

// mailBudget is one row of the table of budgets.
type mailBudget struct {
	name       string // in the digests
	own        bool   // counted at the mailbox as it is; else at the mailbox without its tag
	holds      func(outgoingMail) bool
	allowances []budgetAllowance
}

type budgetAllowance struct {
	only   func(outgoingMail) bool // nil: for every mail of the row
	rate   throttle.Limit          // to the mailbox, of what by counts together; zero: none
	by     mailScope               // of the rate; "": perMailbox
	limits []budgetLimit
}

// budgetLimit allows max mails within the window to one mailbox, of those that scope
// counts together.
type budgetLimit struct {
	scope  mailScope
	max    int
	window time.Duration
	only   func(outgoingMail) bool // nil: for every mail of the allowance
}

// mailScope says which mails of one row to one mailbox count together.
type mailScope string

// The scopes. Limits of networks and addresses do not hold for callers whose network is
// unknown.
const (
	perMailbox      mailScope = "all"
	perKind         mailScope = "kind"
	perSelection    mailScope = "selection" // the mails that a limit selects
	perAccount      mailScope = "account"
	perNetwork      mailScope = "network"
	perAddress      mailScope = "address"
	perKnownAccount mailScope = "account, long-known address" // long-known addresses of one account in one network
	perKnownNetwork mailScope = "network, long-known address" // long-known addresses of all accounts in one network
)

// mailBudgets is the table of budgets (HTTP contract, section 5). Of several rows that
// hold for a mail the lowest one counts.
func mailBudgets(lifetime time.Duration) []mailBudget {
	const day = MailWindow
	kinds := func(kinds ...mailtext.Kind) func(outgoingMail) bool {
		return func(m outgoingMail) bool { return slices.Contains(kinds, m.kind) }
	}
	longKnown := func(m outgoingMail) bool { return m.longKnown }
	longKnownRecovery := func(m outgoingMail) bool { return m.longKnown && m.kind == mailtext.Recovery }
	sharedMailbox := func(m outgoingMail) bool { return !m.ownBudget() }
	unverified := func(m outgoingMail) bool { return !m.verified }
	tokens := throttle.Limit{Burst: 2, Every: lifetime / 2}
	return []mailBudget{
		{name: "recovery", own: true, holds: kinds(mailtext.Recovery), allowances: []budgetAllowance{
			// Anyone can register an unverified account with the mailbox of another person, and
			// sign in from many networks: all of them together get what one would get.
			{only: longKnownRecovery, limits: []budgetLimit{
				{scope: perKnownAccount, max: 2, window: time.Hour}, {scope: perMailbox, max: 48, window: day, only: unverified},
			}},
			// From an address that has caused none within a day. A network with many addresses still has a limit.
			{rate: tokens, limits: []budgetLimit{
				{scope: perAddress, max: 1, window: day}, {scope: perNetwork, max: 20, window: day},
			}},
			{rate: tokens, limits: []budgetLimit{
				{scope: perNetwork, max: 2, window: time.Hour}, {scope: perNetwork, max: 10, window: day},
				{scope: perAddress, max: 10, window: day}, // counts for the allowance above, too
			}},
		}},
		{name: "notices", own: true, holds: func(m outgoingMail) bool { return m.kind != mailtext.Recovery }, allowances: []budgetAllowance{
			{limits: []budgetLimit{{scope: perKind, max: 1, window: day}}},
			{limits: []budgetLimit{
				{scope: perMailbox, max: 10, window: time.Hour}, {scope: perMailbox, max: 20, window: day},
				{scope: perSelection, max: 5, window: time.Hour, only: kinds(mailtext.NewAddress, mailtext.CodeRefused)},
				{scope: perSelection, max: 10, window: day, only: kinds(mailtext.NewAddress, mailtext.CodeRefused)},
			}},
		}},
		{name: "anyone", holds: func(m outgoingMail) bool {
			return !m.ownBudget() || kinds(mailtext.Verification, mailtext.RegistrationAttempt, mailtext.EmailChange)(m)
		}, allowances: []budgetAllowance{
			// Anyone can register accounts without an own budget and wait for a day.
			{only: longKnownRecovery, limits: []budgetLimit{
				{scope: perKnownAccount, max: 2, window: time.Hour}, {scope: perKnownNetwork, max: 5, window: day},
			}},
			{limits: []budgetLimit{
				{scope: perMailbox, max: 5, window: time.Hour}, {scope: perMailbox, max: 15, window: day},
				{scope: perNetwork, max: 2, window: time.Hour}, {scope: perNetwork, max: 5, window: day},
				{scope: perAccount, max: 1, window: time.Minute, only: kinds(mailtext.Verification)},
			}},
		}},
		{name: "deletion", holds: kinds(mailtext.Deletion), allowances: []budgetAllowance{{limits: []budgetLimit{
			{scope: perAccount, max: 5, window: time.Hour}, {scope: perAccount, max: 10, window: day},
			{scope: perMailbox, max: 10, window: time.Hour}, {scope: perMailbox, max: 20, window: day},
			// Else many accounts with a tag could suppress the mail that undoes the deletion of the
			// mailbox's owner.
			{scope: perSelection, max: 5, window: time.Hour, only: sharedMailbox}, {scope: perSelection, max: 10, window: day, only: sharedMailbox},
		}}}},
		{name: "administrators", holds: func(m outgoingMail) bool { return m.request.Administrator || m.kind == mailtext.Invitation }, allowances: []budgetAllowance{
			{limits: []budgetLimit{{scope: perMailbox, max: 10, window: time.Hour}, {scope: perMailbox, max: 30, window: day}}},
		}},
		// The mailbox is verified. Each limit is of those who ask in one network but the last two, with which
		// strangers in many networks fill no mailbox; the user at an address that they have long signed in from has more.
		{name: "mailed codes", own: true, holds: kinds(mailtext.SignInCode), allowances: []budgetAllowance{
			{only: longKnown, limits: []budgetLimit{{scope: perSelection, max: 5, window: time.Hour}}},
			{rate: throttle.Limit{Burst: 2, Every: 5 * time.Minute}, by: perNetwork, limits: []budgetLimit{
				{scope: perNetwork, max: 10, window: day},
				{scope: perMailbox, max: 20, window: time.Hour}, {scope: perMailbox, max: 60, window: day},
			}},
		}},
	}
}

// mailReservation returns the reservation of a mail under its budget.
func mailReservation(key []byte, lifetime time.Duration, m outgoingMail) MailReservation {
	table := mailBudgets(lifetime)
	row := table[0]
	for _, b := range slices.Backward(table) {
		if b.holds(m) {
			row = b
			break
		}
	}
	shared := withoutTag(m.to.Key)
	mailbox := shared
	if row.own {
		mailbox = m.to.Key
	}
	r := MailReservation{Mailbox: mailDigest(key, shared), Kind: m.kind}
	for _, w := range row.allowances {
		if w.only != nil && !w.only(m) {
			continue
		}
		var a MailAllowance
		if w.rate != (throttle.Limit{}) {
			of := []string{mailbox, row.name, "rate"}
			value, counted := w.by.of(m)
			if w.by != "" {
				of = append(of, value)
			}
			if counted {
				a.Rate = throttle.Charge{Key: mailDigest(key, of...), Limit: w.rate}
			}
		}
		for _, l := range w.limits {
			value, counted := l.scope.of(m)
			if !counted || l.only != nil && !l.only(m) {
				continue
			}
			digest := mailDigest(key, mailbox, row.name, string(l.scope), value)
			a.Limits = append(a.Limits, MailLimit{Digest: digest, Max: l.max, Window: l.window})
		}
		r.Allowances = append(r.Allowances, a)
	}
	return r
}

// of returns what a mail counts against in the scope, and whether it counts at all.
func (c mailScope) of(m outgoingMail) (value string, counted bool) {
	account := strconv.FormatInt(m.accountID, 10)
	switch c {
	case perKind:
		return string(m.kind), true
	case perAccount:
		return account, true
	case perNetwork, perKnownNetwork:
		return m.network, m.network != ""
	case perAddress:
		return m.address, m.address != ""
	case perKnownAccount:
		return account + " " + m.network, true
	}
	return "", true
}

// reserveMail reports whether a mail may be sent, and counts it if so: every mail is
// reserved before it is sent, also by each retry of its job. It stores the jobs with the
// first reservation. The caller drops a mail that is not granted, and tells no one.
func (s *Service) reserveMail(ctx context.Context, m outgoingMail, jobs ...NewJob) (granted bool, err error) {
	candidate := make([]byte, sha256.Size)
	_, _ = rand.Read(candidate) // it never fails
	key, err := s.mailKeyOf(ctx, candidate)
	if err != nil {
		return false, fmt.Errorf("reading the key of mail digests: %w", err)
	}
	if m, err = s.withCaller(ctx, m); err != nil {
		return false, err
	}
	r := mailReservation(key, s.settings.RecoveryLifetime, m)
	r.MailID = m.request.MailID
	granted, err = s.store.ReserveMail(ctx, r, jobs...)
	if err != nil {
		return false, fmt.Errorf("reserving a mail: %w", err)
	}
	if !granted {
		s.suppressed(m.kind)
		s.log.InfoContext(m.request.withCall(ctx), "a mail was suppressed: its mail budget is used up", slog.String("kind", string(m.kind)))
	}
	return granted, nil
}

// withCaller returns the mail with what the budgets know of its caller. A call without an address, or with
// one that many callers seem to share, has no network: its callers cannot be distinguished, so a limit
// of their network would let one of them suppress the mails that all others ask for.
func (s *Service) withCaller(ctx context.Context, m outgoingMail) (outgoingMail, error) {
	address := m.request.Address
	if m.request.Administrator || m.request.Shared || !address.IsValid() {
		return m, nil
	}
	m.network, m.address = networkOf(address), sourceOf(address)
	if m.kind != mailtext.Recovery && m.kind != mailtext.SignInCode {
		return m, nil
	}
	known, err := s.store.KnownAddress(ctx, AccountQuery{EmailKey: m.to.Key}, m.address, s.knownSince())
	if err != nil {
		return m, fmt.Errorf("looking for a known address: %w", err)
	}
	m.longKnown = known.Full && !known.Since.After(s.store.Now().Add(-LongKnownAfter))
	return m, nil
}

// LongKnownAfter is how long an address must have been known before its recovery mails have a
// budget of their own, and sign-ins there choose the language of mails (HTTP contract,
// section 5).
const LongKnownAfter = 24 * time.Hour

// mailDigest returns the digest of parts with a key. The lengths keep different parts from
// having one digest.
func mailDigest(key []byte, parts ...string) [32]byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("mail budget"))
	for _, part := range parts {
		fmt.Fprintf(mac, "%d:%s", len(part), part)
	}
	return [32]byte(mac.Sum(nil))
}

// withoutTag removes the +tag of an address: addresses that differ in it only usually have
// one mailbox. A local part that begins with + has no tag.
func withoutTag(emailKey string) string {
	at := strings.LastIndexByte(emailKey, '@')
	plus := strings.IndexByte(emailKey, '+')
	if plus <= 0 || plus > at {
		return emailKey
	}
	return emailKey[:plus] + emailKey[at:]
}

// mailKeyOf returns the key of mail digests; the candidate is as for MailLimitStore.Key.
func (s *Service) mailKeyOf(ctx context.Context, candidate []byte) ([]byte, error) {
	return s.mailKey.get(ctx, s.store, "mail digests", candidate)
}

// siteKey returns the key of a name, which the first call of the site makes.
func (s *Service) siteKey(ctx context.Context, k *digestKey, name string) ([]byte, error) {
	if key := k.value.Load(); key != nil { // each sign-in asks: no candidate is made then
		return *key, nil
	}
	candidate := make([]byte, sha256.Size)
	_, _ = rand.Read(candidate) // it never fails
	return k.get(ctx, s.store, name, candidate)
}

// digestKey is a key that all nodes read from the database once.
type digestKey struct{ value atomic.Pointer[[]byte] }

// get returns the key of a name; the candidate is as for MailLimitStore.Key. Calls that come before
// the first answer ask the database themselves: none waits for another.
func (k *digestKey) get(ctx context.Context, store MailLimitStore, name string, candidate []byte) ([]byte, error) {
	if key := k.value.Load(); key != nil {
		return *key, nil
	}
	key, err := store.Key(ctx, name, candidate)
	if err == nil {
		k.value.Store(&key)
	}
	return key, err
}
