package accounts

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

// RegistrationStore creates accounts.
type RegistrationStore interface {
	// CreateAccount stores an account, its first session, and the jobs, which it
	// requests with the new account's id. *TakenError; if that names the e-mail, the
	// charges are made in the same transaction, or *WaitError is returned instead.
	CreateAccount(ctx context.Context, a Account, first Session, jobs func(id int64) []NewJob, onTaken ...throttle.Charge) (id int64,
		err error)
	// CreateWithoutSession stores an account and the jobs, which it requests with the new
	// account's id. It reads no Unverified address: its statements are the same whether or
	// not that is another account's. *TakenError.
	CreateWithoutSession(ctx context.Context, a Account, jobs func(id int64) []NewJob) (id int64, err error)
	// CreateWithIdentity is CreateAccount, and CreateWithoutSession if first is nil, for an account that an
	// identity signs in to. ErrIdentityTaken, also if something of the account is taken.
	CreateWithIdentity(ctx context.Context, a Account, i personal.Identity, first *Session, jobs func(id int64) []NewJob,
		onTaken ...throttle.Charge) (id int64, err error)
}

// Register implements [personal.Service]. The database decides uniqueness, as the
// last step: an earlier check would reveal who has an account, and could be wrong by
// the time of the write.
func (s *Service) Register(ctx context.Context, r personal.RegisterRequest) (personal.SignedIn, error) {
	r = personal.AsTyped(r)
	schema, err := s.userFields(ctx)
	if err != nil {
		return personal.SignedIn{}, err
	}
	if err := schema.Check(r.Fields); err != nil {
		return personal.SignedIn{}, err
	}
	invalid := maps.Clone(r.FieldErrors)
	account := s.newAccount(ctx, r, schema, &invalid)
	prepared := s.newPassword(&invalid, r.Password, r.ConfirmPassword, identifiersOf(account)...)
	required := s.verificationRequired()
	if err := s.mayRegister(ctx, account, invalid, required); err != nil {
		return personal.SignedIn{}, err
	}
	account.PasswordHash, err = s.hasher.Hash(ctx, hashSource(ctx), prepared)
	if err != nil {
		return personal.SignedIn{}, fail("hashing a password", err)
	}
	if required {
		return personal.SignedIn{}, s.registerUnverified(ctx, account, personal.Identity{})
	}
	session, secret := s.newSession(ctx, 0, personal.MethodRegistration)
	account.Created, account.Updated = session.Created, session.Created
	var proof personal.Proof
	session.Proof, proof = s.signInProof(account, session.Created)
	account.ID, err = s.store.CreateAccount(ctx, account, session, func(id int64) []NewJob { return s.registered(ctx, id) },
		s.takenEmail(ctx, false)...)
	if err != nil {
		return personal.SignedIn{}, s.notStored(ctx, "creating an account", err)
	}
	s.addKnownAddress(ctx, account.ID, true)
	in := s.signedIn(account, session, secret, schema)
	in.Proof = proof
	return in, nil
}

// mayRegister charges a registration, and refuses one that is invalid, or whose login is reserved. Where
// callers learn that an e-mail is taken, it looks at the limit of that.
func (s *Service) mayRegister(ctx context.Context, a Account, invalid personal.FieldErrors, secretive bool, further ...throttle.Charge) error {
	attempt := append(s.perNetwork(ctx, "register", s.settings.Throttle.Register), further...)
	if !secretive {
		attempt = append(attempt, s.takenEmail(ctx, true)...)
	}
	if err := invalid.Err(); err != nil { // refused like any other attempt, but charged to its own limit
		return cmp.Or(s.charge(ctx, append(look(attempt), s.registerInvalid(ctx)...)), err)
	}
	if err := s.charge(ctx, attempt); err != nil {
		return err
	}
	if slices.Contains(s.settings.ReservedLogins, a.LoginKey) {
		return fail("creating an account", &TakenError{Login: true})
	}
	return nil
}

// newAccount checks the request but for the password, and returns the new account.
func (s *Service) newAccount(ctx context.Context, r personal.RegisterRequest, schema *userfields.Schema, invalid *personal.FieldErrors) Account {
	account := Account{Login: r.Login, CredentialVersion: 1, Locale: mailLocale(ctx)}
	var code personal.FieldErrorCode
	account.LoginKey, code = LoginKey(r.Login)
	check(invalid, "login", code)
	account.Email, code = ParseEmail(r.Email)
	check(invalid, "email", code)

	fields := schema.Clean(r.Fields, nil, nil, invalid)
	account.Name = userfields.ParseName(fields["name"], invalid)
	delete(fields, "name")
	account.Fields = schema.Register(fields, invalid)
	return account
}

// notStored is admit for a new account or e-mail. It reports that an e-mail was
// found to be taken: the request may have been made to learn just that.
func (s *Service) notStored(ctx context.Context, doing string, err error) error {
	if taken, ok := errors.AsType[*TakenError](err); ok && taken.Email {
		s.report(ctx, personal.EventEmailTaken, 0, "")
	}
	return s.admit(ctx, doing, err)
}
