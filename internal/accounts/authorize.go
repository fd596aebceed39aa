package accounts

import (
	"context"
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/shared/personal"
)

// SignInStore finds accounts by login and opens sessions.
type SignInStore interface {
	// FindAccount returns what a sign-in and a recovery need of the account that the query
	// finds: no login, of Unverified only the key, and no user fields, because the time of a
	// wrong password would reveal how many the user has filled in. ErrNotFound.
	FindAccount(ctx context.Context, q AccountQuery) (Account, error)
	// OpenSession stores a session and returns its account as it was before. If the
	// account has another credential version, is disabled, or does not have the Identity, it
	// returns ErrStale: a sign-in that was hashing while the password changed must not succeed. On the same
	// condition a non-empty Rehash replaces the password hash, without raising the
	// version. It removes the account's expired sessions, and those unused for longest
	// above MaxSessions. In the same transaction it stores the known address, see
	// KnownAddressStore: as a fully known one, but of a MailedCode only with a Code. It makes the
	// charges; *WaitError if they are refused. The locale is stored too if the call has no address, or one
	// that has been known for a day: notices of a thief's sign-ins should be in the user's language.
	OpenSession(ctx context.Context, o OpenSession) (Account, error)
}

// AccountQuery finds an account by its login or by its e-mail. An empty key matches
// no account.
type AccountQuery struct {
	LoginKey string
	EmailKey string
	OwnEmail bool // EmailKey matches only an account whose login it is, too
}

// finds reports whether the query finds the account.
func (q AccountQuery) finds(a Account) bool {
	return q.LoginKey != "" && q.LoginKey == a.LoginKey ||
		q.EmailKey != "" && q.EmailKey == a.Email.Key && (!q.OwnEmail || a.LoginKey == a.Email.Key)
}

// refusal is the code with which a sign-in is refused although the user was authenticated;
// "" if it is not. Of an account whose access was reset the host may still authenticate the user.
func (a Account) refusal() personal.Code {
	switch {
	case a.Disabled:
		return personal.CodeAccountDisabled
	case a.Unverified.Key != "", a.PasswordHash == password.AwaitsRecovery:
		return personal.CodeEmailUnverified
	}
	return ""
}

// OpenSession is what a sign-in stores.
type OpenSession struct {
	Session           Session
	CredentialVersion int64
	Rehash            string // "" leaves the hash as it is
	MaxSessions       int    // sessions the account may have, including this one
	Lifetimes         Lifetimes
	Known             KnownAt
	OnNewAddress      func() []NewJob   // stored if the account has known addresses, and this one is not fully known
	Locale            string            // "": unknown
	Code              CodeUse           // used up, if the session is opened; ErrCodeUsed if it was used before
	Passkey           PasskeyUse        // likewise; ErrCeremonyUsed if its attempt was used before
	MailedCode        [32]byte          // the attempt of a mailed code, likewise, with all others of the account; ErrMailedCodeUsed; zero: none
	Identity          personal.Identity // which the account must have; zero: none
	Charges           []throttle.Charge
	Jobs              []NewJob
}

// Authorize implements [personal.Service]. An unknown login costs the same as a
// wrong password: the same queries, a hash of the same cost, the same response.
func (s *Service) Authorize(ctx context.Context, r personal.AuthorizeRequest) (personal.SignedIn, error) {
	r = personal.AsTyped(r)
	fields := maps.Clone(r.FieldErrors)
	require(&fields, "login", r.Login)
	require(&fields, "password", r.Password)
	invalid := fields.Err()
	attempt, err := s.guess(ctx, s.loginQuery(r.Login), r.Login, invalid == nil, s.signInAddress(ctx))
	if err != nil {
		return personal.SignedIn{}, err
	}
	if invalid != nil {
		return personal.SignedIn{}, invalid
	}
	account, rehash, err := s.checkLogin(ctx, r.Login, r.Password)
	switch {
	case personal.CodeOf(err) == personal.CodeInvalidCredentials:
		s.failed(ctx, r.Login, account.ID)
		return personal.SignedIn{}, err
	case err != nil: // the password has not been verified
		s.refund(ctx, attempt.charges)
		return personal.SignedIn{}, err
	}
	if !account.TwoFactor.On() { // otherwise only a completed sign-in is refunded
		s.refundAll(ctx, attempt)
	}
	if code := account.refusal(); code != "" {
		if err := s.charge(ctx, s.signInAccount(account.ID)); err != nil { // otherwise OpenSession charges it
			return personal.SignedIn{}, err
		}
		s.failed(ctx, r.Login, account.ID)
		return personal.SignedIn{}, refusal(code)
	}
	open := func(code checkedCode) (personal.SignedIn, error) {
		in, err := s.signIn(ctx, account, signInBy{
			method: personal.MethodPassword, rehash: rehash, code: code, authenticated: s.store.Now(),
		})
		if errors.Is(err, ErrStale) {
			// While this password was being verified it was changed, so it is wrong now; or
			// the account was disabled or deleted.
			err = refusal(personal.CodeInvalidCredentials)
		}
		return in, err
	}
	if !account.TwoFactor.On() {
		return open(checkedCode{})
	}
	owner := codeOwner{id: account.ID, login: r.Login, email: account.Email, factor: account.TwoFactor, known: attempt.address.Codes}
	in, code, err := s.signInWithCode(ctx, owner, r.Code, open)
	if err == nil {
		s.refundAll(ctx, attempt, code.charges...)
	}
	return in, err
}

// signInWithCode opens a session for an account with a second factor, if the code is right.
func (s *Service) signInWithCode(
	ctx context.Context, owner codeOwner, entered string, open func(checkedCode) (personal.SignedIn, error),
) (in personal.SignedIn, code checkedCode, err error) {
	if entered == "" {
		return in, code, refusal(personal.CodeCodeRequired)
	}
	if err := s.blocked(ctx, owner, entered); err != nil {
		return in, code, err
	}
	code, err = s.checkCode(ctx, owner, entered)
	if err == nil {
		in, err = open(code)
	}
	if s.wrongCode(ctx, owner, err) {
		err = refusal(personal.CodeInvalidCode)
	}
	return in, code, err
}

// signInOtherwise is signInWithCode for an account whose user was authenticated by something else than a
// password, so that the caller's address has not been looked up.
func (s *Service) signInOtherwise(
	ctx context.Context, a Account, entered string, open func(checkedCode) (personal.SignedIn, error),
) (in personal.SignedIn, code checkedCode, err error) {
	address, err := s.callersAddress(ctx, AccountQuery{LoginKey: a.LoginKey})
	if err != nil {
		return in, code, err
	}
	return s.signInWithCode(ctx, caller{account: a}.owner(address), entered, open)
}

// loginQuery returns the query for a login as typed. A login with an @ finds the
// account with that e-mail; if the settings do not accept e-mails, only an account
// whose (imported) login equals its e-mail. It never finds another account whose
// login has an @ (HTTP contract, section 3, register). An invalid login becomes an
// empty query, which still runs.
func (s *Service) loginQuery(login string) AccountQuery {
	if strings.Contains(login, "@") {
		email, _ := ParseEmail(login)
		return AccountQuery{EmailKey: email.Key, OwnEmail: !s.settings.LoginWithEmail}
	}
	key, code := LoginKey(login)
	if code != "" {
		return AccountQuery{}
	}
	return AccountQuery{LoginKey: key}
}

// findAccount is the store's FindAccount, but a missing account is not an error.
func (s *Service) findAccount(ctx context.Context, q AccountQuery) (account Account, found bool, err error) {
	account, err = s.store.FindAccount(ctx, q)
	if errors.Is(err, ErrNotFound) {
		return Account{}, false, nil
	}
	return account, err == nil, fail("finding an account", err)
}

// checkLogin returns the account of a login, even if the password is wrong, and a
// new hash if the stored one does not meet the settings.
func (s *Service) checkLogin(ctx context.Context, login, entered string) (account Account, rehash string, err error) {
	account, found, err := s.findAccount(ctx, s.loginQuery(login))
	if err != nil {
		return account, "", err
	}
	hash := password.Unusable
	if found {
		hash = account.PasswordHash
	}
	result, err := s.verifyPassword(ctx, hash, s.typed(login), entered)
	switch {
	case err != nil:
		return account, "", fail("verifying a password", err)
	case !result.Match:
		return account, "", refusal(personal.CodeInvalidCredentials)
	case !result.Rehash:
		return account, "", nil
	}
	prepared, _ := password.Canonical(entered) // the password has a canonical form, or no rehash would be due
	rehash, err = s.hasher.Hash(ctx, hashSource(ctx), prepared)
	if errors.Is(err, password.ErrBusy) { // leave it to another sign-in
		return account, "", nil
	}
	return account, rehash, fail("rehashing a password", err)
}

// signInBy is how a user has shown who they are.
type signInBy struct {
	method          string // see [personal.Session]
	rehash          string // the new hash of the password; "" leaves the stored one
	code            checkedCode
	passkey         PasskeyUse
	mailedCode      [32]byte          // its attempt; zero: none
	identity        personal.Identity // zero: none
	providerSession string

	authenticated time.Time // when: the session has a proof since then; zero: it has none
}

// signIn opens a session for an account whose user has shown who they are. It returns
// ErrCodeUsed, ErrCeremonyUsed, ErrMailedCodeUsed and ErrStale as they are.
func (s *Service) signIn(ctx context.Context, found Account, by signInBy) (personal.SignedIn, error) {
	schema, err := s.userFields(ctx)
	if err != nil {
		return personal.SignedIn{}, err
	}
	session, secret := s.newSession(ctx, found.ID, by.method)
	session.PasskeyID, session.Identity, session.ProviderSession = by.passkey.ID, by.identity, by.providerSession
	var proof personal.Proof
	if !by.authenticated.IsZero() {
		session.Proof, proof = s.signInProof(found, by.authenticated)
		// A passkey that needed no code stands for one.
		session.Proof.WithCode = by.code.judged() || by.passkey.ID != 0 && found.TwoFactor.On()
		session.Proof.PasskeyID = by.passkey.ID
	}
	signedIn := s.eventJob(ctx, personal.Event{Type: personal.EventSignedIn, UserID: found.ID, Actor: personal.ActorUser, Method: by.method})
	account, err := s.store.OpenSession(ctx, OpenSession{
		Session:           session,
		CredentialVersion: found.CredentialVersion,
		Rehash:            by.rehash,
		MaxSessions:       personal.MaxSessions,
		Lifetimes:         s.settings.Lifetimes(session.Created),
		Known:             s.knownAt(ctx),
		OnNewAddress: func() []NewJob {
			return s.notice(ctx, personal.ActorUser, mailtext.NewAddress, found.ID, found.Email.Address)
		},
		Locale:     mailLocale(ctx),
		Code:       by.code.use,
		Passkey:    by.passkey,
		Identity:   by.identity,
		Charges:    s.signInAccount(found.ID),
		MailedCode: by.mailedCode,
		Jobs:       append([]NewJob{signedIn}, by.code.jobs...),
	})
	if errors.Is(err, ErrCodeUsed) || errors.Is(err, ErrCeremonyUsed) || errors.Is(err, ErrMailedCodeUsed) || errors.Is(err, ErrStale) {
		return personal.SignedIn{}, err
	}
	if err != nil {
		return personal.SignedIn{}, s.admit(ctx, "opening a session", err)
	}
	in := s.signedIn(account, session, secret, schema)
	in.Proof = proof
	return in, nil
}
