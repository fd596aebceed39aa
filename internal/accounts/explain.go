package accounts

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/seal"
	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/shared/personal"
)

// ExplainStore reads what no other operation shows about why a user cannot sign in.
type ExplainStore interface {
	// LimitWaits returns how long each of the charges would be refused, 0 for those that
	// would not, and counts nothing.
	LimitWaits(ctx context.Context, charges []throttle.Charge, now time.Time) ([]time.Duration, error)
	// RecoveryCodesLeft counts the account's unused recovery codes.
	RecoveryCodesLeft(ctx context.Context, accountID int64) (int, error)
	// WaitingRequests returns jobs of a kind that belong to no account, the latest first,
	// at most limit.
	WaitingRequests(ctx context.Context, kind outbox.Kind, limit int) ([]outbox.Job, error)
	// MailRefusal returns what RefuseMail stored last about the account. ErrNotFound.
	MailRefusal(ctx context.Context, accountID int64) (MailRefusal, error)
	// SentMails returns the mails that count for one of the digests and were reserved after
	// a time, the latest first.
	SentMails(ctx context.Context, digests [][32]byte, after time.Time) ([]SentMail, error)
	// LastEvent returns the time of the account's latest audit entry of one of the types;
	// zero for none.
	LastEvent(ctx context.Context, accountID int64, types ...personal.EventType) (time.Time, error)
}

// Bounds of what an explanation reads.
const (
	maxRecentAddresses = 20   // addresses of sessions and audit entries
	maxRecentEntries   = 100  // audit entries that are searched for addresses
	maxFailures        = 1000 // audit entries that are counted
	maxRequestsLooked  = 1000 // waiting requests of all users, by kind
	maxWaitingMails    = 100
)

// failuresSince is how long ago a failed attempt may be to be counted.
const failuresSince = 24 * time.Hour

// Explain implements [personal.Administration]. It judges like Authorize, and writes
// nothing. The order of verdicts is: what refuses a sign-in until something is done, what
// refuses it for a time, what else a sign-in needs, what keeps mails away, hints.
func (s *Service) Explain(ctx context.Context, r personal.ExplainRequest) (personal.Explanation, error) {
	r = personal.AsTyped(r)
	text := r.Login
	var invalid personal.FieldErrors
	require(&invalid, "login", text)
	checkSearched(&invalid, "login", text)
	checkAddresses(&invalid, r.Addresses)
	if err := invalid.Err(); err != nil {
		return personal.Explanation{}, err
	}
	account, entered, found, err := s.findStuck(ctx, text)
	if err != nil {
		return personal.Explanation{}, err
	}
	if !found {
		limits, err := s.limitVerdicts(ctx, s.addressLimits(ctx, distinct(nil, r.Addresses...), s.guessAddress, s.signInAddress))
		none := personal.Verdict{Reason: personal.ReasonNoAccount, Action: personal.ActionCreate}
		return personal.Explanation{Verdicts: append([]personal.Verdict{none}, limits...)}, err
	}
	return s.explain(ctx, account, entered, r.Addresses)
}

// ExplainAccount is [Service.Explain] for the account with an id, also if the id is the login of
// another one. not_found.
func (s *Service) ExplainAccount(ctx context.Context, id int64, addresses []netip.Addr) (personal.Explanation, error) {
	var invalid personal.FieldErrors
	checkAddresses(&invalid, addresses)
	if err := invalid.Err(); err != nil {
		return personal.Explanation{}, err
	}
	account, err := s.store.Account(ctx, id)
	if err != nil {
		return personal.Explanation{}, failWith(personal.CodeNotFound, "finding an account", err)
	}
	return s.explain(ctx, account, account.Login, addresses)
}

// explain judges an account whose user enters a text at sign-in.
func (s *Service) explain(ctx context.Context, a Account, entered string, addresses []netip.Addr) (personal.Explanation, error) {
	user := UserOf(a)
	from, err := s.userAddresses(ctx, a, addresses)
	if err != nil {
		return personal.Explanation{}, err
	}
	passkeys, identities, err := s.OtherWaysIn(ctx, a)
	if err != nil {
		return personal.Explanation{}, err
	}
	if s.offersPasskeys() != nil {
		passkeys = nil
	}
	e := personal.Explanation{User: &user}
	for _, part := range []func() ([]personal.Verdict, error){
		func() ([]personal.Verdict, error) { return s.explainState(ctx, a, passkeys, identities, entered) },
		func() ([]personal.Verdict, error) {
			return s.limitVerdicts(ctx, append(s.accountLimits(ctx, a, from), s.addressLimits(ctx, from, s.guessAddress, s.signInAddress)...))
		},
		func() ([]personal.Verdict, error) { return s.explainCodes(ctx, a) },
		func() ([]personal.Verdict, error) { return s.explainFactor(ctx, a) },
		func() ([]personal.Verdict, error) { return s.explainOtherWays(a, passkeys, identities), nil },
		func() ([]personal.Verdict, error) { return s.explainMails(ctx, a, from) },
		func() ([]personal.Verdict, error) {
			return s.limitVerdicts(ctx, s.addressLimits(ctx, from, s.recoverAddress, s.confirmAddress))
		},
		func() ([]personal.Verdict, error) { return s.explainFailures(ctx, a) },
		func() ([]personal.Verdict, error) { return s.explainFields(ctx, a), nil },
	} {
		verdicts, err := part()
		if err != nil {
			return personal.Explanation{}, err
		}
		e.Verdicts = append(e.Verdicts, verdicts...)
	}
	if len(e.Verdicts) == 0 {
		e.Verdicts = []personal.Verdict{{Reason: personal.ReasonNothing}}
	}
	return e, nil
}

// findStuck finds an account by what its user enters at sign-in, or else by its e-mail,
// by an address that it waits for, by its login, or by its id. A number is a login
// rather than an id. entered is what the user enters: the text, or, of an id, the login.
func (s *Service) findStuck(ctx context.Context, text string) (account Account, entered string, found bool, err error) {
	email, _ := ParseEmail(text)
	var id int64
	for _, q := range []AccountQuery{s.loginQuery(text), {EmailKey: email.Key}, {LoginKey: cmp.Or(email.Key, text)}} {
		login, found, err := s.findAccount(ctx, q)
		if err != nil {
			return account, "", false, err
		}
		if id = login.ID; found {
			break
		}
	}
	if id == 0 && email.Key != "" {
		waiting, err := s.store.FindWaiting(ctx, email.Key)
		if err != nil {
			return account, "", false, fail("finding the account that waits for an address", err)
		}
		if len(waiting) > 0 { // what holds for one of several holds for all
			id = waiting[0]
		}
	}
	byID := id == 0
	if byID {
		id, _ = strconv.ParseInt(text, 10, 64)
	}
	if id <= 0 {
		return account, "", false, nil
	}
	account, err = s.store.Account(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return account, "", false, nil
	}
	if byID {
		text = account.Login
	}
	return account, text, err == nil, fail("finding an account", err)
}

// explainState returns what refuses every sign-in until something is done.
func (s *Service) explainState(
	ctx context.Context, a Account, passkeys []personal.Passkey, identities []personal.LinkedIdentity, entered string,
) (verdicts []personal.Verdict, err error) {
	email, _ := ParseEmail(entered)
	switch {
	case s.loginQuery(entered).finds(a), email.Key != "" && email.Key == a.Unverified.Key:
	default:
		verdicts = append(verdicts, personal.Verdict{Reason: personal.ReasonEmailSignInOff})
	}
	if a.refusal() == personal.CodeAccountDisabled {
		v := personal.Verdict{Reason: personal.ReasonDisabled, Action: personal.ActionEnable}
		if a.Deleted() {
			v.Reason, v.Until = personal.ReasonDeleted, a.EraseAt
		}
		verdicts = append(verdicts, v)
		a.Disabled = false // it may be refused for another reason, too
	}
	if a.Unverified.Key != "" {
		v := personal.Verdict{Reason: personal.ReasonUnverified, Action: personal.ActionVerify, Until: s.unverifiedUntil(a)}
		_, taken, err := s.findAccount(ctx, AccountQuery{EmailKey: a.Unverified.Key})
		if err != nil {
			return nil, err
		}
		if taken || !s.verifies() { // no mail would be sent
			v.Action = personal.ActionSetEmail
		}
		verdicts = append(verdicts, v)
	}
	if !password.Verifiable(a.PasswordHash) && len(identities) == 0 && len(passkeys) == 0 && !s.mailsCode(a, personal.MailedCodeSignIn) {
		verdicts = append(verdicts, personal.Verdict{Reason: personal.ReasonNoPassword, Action: newPasswordAction(a)})
	}
	if a.TwoFactor.On() && s.settings.Keys != nil && !s.hasKey(ctx, a.TwoFactor.Secret.Key) { // a command has no keys
		verdicts = append(verdicts, personal.Verdict{Reason: personal.ReasonTwoFactorKey, Action: personal.ActionOperator})
	}
	return verdicts, nil
}

// newPasswordAction returns how the user of an account gets a new password.
func newPasswordAction(a Account) personal.Action {
	if a.Email.Key == "" {
		return personal.ActionSetEmail
	}
	return personal.ActionRecover
}

// explainCodes returns that codes of the app are blocked away from fully known addresses.
func (s *Service) explainCodes(ctx context.Context, a Account) ([]personal.Verdict, error) {
	if !a.TwoFactor.On() || !s.settings.Throttle.Enabled {
		return nil, nil
	}
	until, err := s.store.CodesBlockedUntil(ctx, a.ID, codeRules)
	if err != nil || until.IsZero() {
		return nil, fail("counting refused codes", err)
	}
	return []personal.Verdict{{Reason: personal.ReasonCodesBlocked, Action: personal.ActionLiftLimits, Until: until}}, nil
}

// explainFactor returns that a sign-in needs a code.
func (s *Service) explainFactor(ctx context.Context, a Account) ([]personal.Verdict, error) {
	if !a.TwoFactor.On() {
		return nil, nil
	}
	left, err := s.store.RecoveryCodesLeft(ctx, a.ID)
	return []personal.Verdict{{Reason: personal.ReasonTwoFactor, Action: personal.ActionRemoveTwoFactor, Count: left}},
		fail("counting recovery codes", err)
}

// explainOtherWays says whether the user has a password, and counts the other ways in that sign them in. What
// keeps the user out otherwise may not concern them.
func (s *Service) explainOtherWays(a Account, passkeys []personal.Passkey, identities []personal.LinkedIdentity) (verdicts []personal.Verdict) {
	byCode := s.mailsCode(a, personal.MailedCodeSignIn)
	providers := strings.Join(personal.Providers(identities), ", ")
	if password.IsUnusable(a.PasswordHash) && (len(passkeys)+len(identities) > 0 || byCode) {
		verdicts = append(verdicts, personal.Verdict{Reason: personal.ReasonOnlyOtherWays, Providers: providers})
		if byCode {
			verdicts = append(verdicts, personal.Verdict{Reason: personal.ReasonMailedCode})
		}
	}
	for _, v := range []personal.Verdict{
		{Reason: personal.ReasonPasskeys, Count: len(passkeys)},
		{Reason: personal.ReasonIdentities, Count: len(identities), Providers: providers},
	} {
		if v.Count > 0 {
			verdicts = append(verdicts, v)
		}
	}
	return verdicts
}

// explainMails returns what keeps mails from reaching the user.
func (s *Service) explainMails(ctx context.Context, a Account, from []userAddress) (verdicts []personal.Verdict, err error) {
	if a.Email.Key == "" && a.Unverified.Key == "" {
		verdicts = append(verdicts, personal.Verdict{Reason: personal.ReasonNoEmail, Action: personal.ActionSetEmail})
	}
	refused, err := s.store.MailRefusal(ctx, a.ID)
	switch {
	case errors.Is(err, ErrNotFound):
	case err != nil:
		return nil, fail("reading the refusal of a mail", err)
	case refused.EmailKey == a.Email.Key || refused.EmailKey == a.Unverified.Key: // else of a former address
		verdicts = append(verdicts, personal.Verdict{
			Reason: personal.ReasonMailRefused, Action: personal.ActionSetEmail,
			Kind: string(refused.Kind), Since: refused.Time, Reply: refused.Reply,
		})
	}
	waiting, err := s.waitingMails(ctx, a)
	if err != nil {
		return nil, err
	}
	limited, err := s.limitedMails(ctx, a, from)
	return slices.Concat(verdicts, waiting, limited), err
}

// waitingMails returns a verdict for each kind of the account's mails that wait to be
// sent: since when the oldest waits, when the next is tried, and how often one was tried.
func (s *Service) waitingMails(ctx context.Context, a Account) (verdicts []personal.Verdict, err error) {
	jobs, err := s.store.WaitingJobs(ctx, a.ID, KindEvent, maxWaitingMails)
	if err != nil {
		return nil, fail("reading waiting mails", err)
	}
	keys, err := s.requestKeys(ctx)
	if err != nil {
		return nil, err
	}
	for _, kind := range RequestKinds {
		requests, err := s.store.WaitingRequests(ctx, kind, maxRequestsLooked)
		if err != nil {
			return nil, fail("reading waiting requests", err)
		}
		jobs = append(jobs, slices.DeleteFunc(requests, func(j outbox.Job) bool { return !s.requestMeans(keys, j, a) })...)
	}
	for _, j := range jobs {
		kind := mailKind(j)
		if j.Kind == KindResend {
			kind = string(mailtext.Verification)
		}
		i := slices.IndexFunc(verdicts, func(v personal.Verdict) bool { return v.Kind == kind })
		if i < 0 {
			i = len(verdicts)
			verdicts = append(verdicts, personal.Verdict{Reason: personal.ReasonMailWaiting, Kind: kind, Since: j.Created, Until: j.Due})
		}
		v := &verdicts[i]
		v.Count = max(v.Count, j.Attempts)
		if j.Created.Before(v.Since) {
			v.Since = j.Created
		}
		if j.Due.Before(v.Until) {
			v.Until = j.Due
		}
	}
	return verdicts, nil
}

// requestMeans reports whether a waiting request for a mail finds the account.
func (s *Service) requestMeans(keys *seal.Keyring, j outbox.Job, a Account) bool {
	r, err := readRequest(keys, j.Payload)
	if err != nil {
		return false
	}
	email, _ := ParseEmail(r.Email)
	q := s.requestQuery(r, email)
	if j.Kind != KindResend {
		return q.finds(a) && (r.Email == "" || email.Key == a.Email.Key)
	}
	waits := email.Key != "" && email.Key == a.Unverified.Key
	return q.finds(a) && (email.Key == "" || waits || email.Key == a.Email.Key) || waits && r.Login == ""
}

// limitedMails returns the kinds of mails that would be suppressed now, of those that the
// user of the account may be waiting for: for every caller, or for those in the network of
// one of the addresses. What administrators cause has its own budget.
func (s *Service) limitedMails(ctx context.Context, a Account, from []userAddress) (verdicts []personal.Verdict, err error) {
	key, err := s.mailKeyOf(ctx, nil)
	if errors.Is(err, ErrNotFound) { // no mail was ever sent
		return nil, nil
	}
	if err != nil {
		return nil, fail("reading the key of mail digests", err)
	}
	mails := s.awaitedMails(a)
	for _, m := range slices.Clone(mails) {
		for _, p := range from {
			m.request.Address = p.address
			from, err := s.withCaller(ctx, m)
			if err != nil {
				return nil, fail("looking at the limits of a network", err)
			}
			mails = append(mails, from)
		}
	}
	ends, err := s.mailsLimitedUntil(ctx, key, mails)
	if err != nil {
		return nil, err
	}
	for i, m := range mails {
		v := personal.Verdict{Reason: personal.ReasonMailLimit, Kind: string(m.kind), Address: m.network, Until: ends[i]}
		told := func(o personal.Verdict) bool { return o.Kind == v.Kind && (o.Address == v.Address || o.Address == "") }
		if !v.Until.IsZero() && !slices.ContainsFunc(verdicts, told) {
			verdicts = append(verdicts, v)
		}
	}
	return verdicts, nil
}

// awaitedMails returns the mails that the user of the account may be waiting for.
func (s *Service) awaitedMails(a Account) (mails []outgoingMail) {
	if a.Email.Key != "" {
		mails = append(mails, outgoingMail{kind: mailtext.Recovery, accountID: a.ID, to: a.Email, verified: a.EmailVerified})
	}
	if s.mailsCode(a, personal.MailedCodeProve) {
		mails = append(mails, outgoingMail{kind: mailtext.SignInCode, accountID: a.ID, to: a.Email, verified: true})
	}
	verify := outgoingMail{kind: mailtext.Verification, accountID: a.ID, to: a.Unverified}
	if verify.to.Key == "" && !a.EmailVerified {
		verify.to = a.Email
	}
	if s.verifies() && verify.to.Key != "" {
		mails = append(mails, verify)
	}
	return mails
}

// mailsLimitedUntil returns until when the budgets suppress each mail; zero if they do not.
// It ignores the limit of a minute, which holds after every mail, and ends before anyone
// can help.
func (s *Service) mailsLimitedUntil(ctx context.Context, key []byte, mails []outgoingMail) ([]time.Time, error) {
	var all MailReservation
	reservations := make([]MailReservation, len(mails))
	for i, m := range mails {
		r := mailReservation(key, s.settings.RecoveryLifetime, m)
		for j := range r.Allowances {
			r.Allowances[j].Limits = slices.DeleteFunc(r.Allowances[j].Limits, func(l MailLimit) bool { return l.Window <= time.Minute })
		}
		reservations[i], all.Allowances = r, append(all.Allowances, r.Allowances...)
	}
	now := s.store.Now()
	sent, err := s.store.SentMails(ctx, all.Digests(), now.Add(-MailWindow))
	if err != nil {
		return nil, fail("reading sent mails", err)
	}
	rates, waits := all.Rates(), map[[32]byte]time.Duration{}
	held, err := s.store.LimitWaits(ctx, rates, now)
	if err != nil {
		return nil, fail("looking at limits", err)
	}
	for i, c := range rates {
		waits[c.Key] = held[i]
	}
	ends := make([]time.Time, len(mails))
	for i, r := range reservations {
		_, ends[i] = r.Grant(sent, waits, now)
	}
	return ends, nil
}

// explainFailures counts the last day's failed attempts since the user proved who they
// are.
func (s *Service) explainFailures(ctx context.Context, a Account) ([]personal.Verdict, error) {
	proved, err := s.store.LastEvent(ctx, a.ID, personal.EventSignedIn, personal.EventRecovered, personal.EventPasswordChanged)
	if err != nil {
		return nil, fail("reading the audit log", err)
	}
	since := s.store.Now().Add(-failuresSince)
	if !proved.Before(since) {
		since = proved.Add(time.Microsecond)
	}
	failed, err := s.store.AuditEntries(ctx, personal.AuditEntriesRequest{
		UserID: a.ID, Type: personal.EventSignInFailed, Since: since, Limit: maxFailures,
	})
	if err != nil || len(failed) == 0 {
		return nil, fail("reading the audit log", err)
	}
	v := personal.Verdict{Reason: personal.ReasonFailed, Count: len(failed), Since: failed[0].Time, Address: failed[0].Address}
	if a.refusal() == "" {
		v.Action = newPasswordAction(a)
	}
	return []personal.Verdict{v}, nil
}

// explainFields counts the user fields that the site may ask for before it lets the user go
// on. It says nothing if the host's schema cannot be had: a command has no host.
func (s *Service) explainFields(ctx context.Context, a Account) []personal.Verdict {
	if s.host == nil {
		return nil
	}
	schema, err := s.userFields(ctx)
	if err != nil {
		return nil
	}
	missing := len(profile(a, schema).Missing)
	if missing == 0 {
		return nil
	}
	return []personal.Verdict{{Reason: personal.ReasonMissingFields, Count: missing}}
}
