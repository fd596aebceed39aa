package accounts

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

// Register implements [personal.Service]. Uniqueness is decided last, and by the
// database: a check before would tell who has an account, and be wrong by the
// time of the write.
func (s *Service) Register(ctx context.Context, r personal.RegisterRequest) (personal.SignedIn, error) {
	schema, err := s.userFields(ctx)
	if err != nil {
		return personal.SignedIn{}, err
	}
	if len(schema.Malformed(r.Fields)) > 0 {
		return personal.SignedIn{}, refusal(personal.CodeMalformedRequest)
	}
	account, prepared, invalid := s.newAccount(r, schema)
	if err := s.chargeRegistration(ctx, invalid == nil); err != nil {
		return personal.SignedIn{}, err
	}
	if invalid != nil {
		return personal.SignedIn{}, invalid
	}
	if slices.Contains(s.settings.ReservedLogins, account.LoginKey) {
		return personal.SignedIn{}, alreadyExists(&TakenError{Login: true})
	}
	account.PasswordHash, err = s.hasher.Hash(ctx, hashSource(ctx), prepared)
	if err != nil {
		return personal.SignedIn{}, fail("hashing a password", err)
	}
	return s.create(ctx, account, schema)
}

// newAccount checks everything that was sent and returns the account to be
// created, without its hash, and the prepared password.
func (s *Service) newAccount(r personal.RegisterRequest, schema *userfields.Schema) (account Account, prepared string, err error) {
	faults := maps.Clone(r.FieldErrors)
	account = Account{Login: r.Login, CredentialVersion: 1}
	var fault personal.FieldErrorCode
	if account.LoginKey, fault = LoginKey(r.Login); fault != "" {
		faults.Add("login", fault)
	}
	if account.Email, fault = ParseEmail(r.Email); fault != "" {
		faults.Add("email", fault)
	}
	prepared = s.newPassword(&faults, r.Password, r.ConfirmPassword, personalWords(account)...)

	fields := maps.Clone(r.Fields)
	account.Name = userfields.ParseName(fields["name"], &faults)
	delete(fields, "name")
	account.Fields = schema.Register(fields, &faults)
	return account, prepared, faults.Err()
}

// newPassword checks a new password and its confirmation and returns it prepared
// for hashing.
func (s *Service) newPassword(faults *personal.FieldErrors, entered, confirm string, words ...string) string {
	prepared, fault := s.policy.Check(entered, words...)
	if fault != "" {
		faults.Add("password", fault)
	}
	switch {
	case confirm == "":
		faults.Add("confirm_password", personal.FieldErrorRequired)
	case confirm != entered:
		faults.Add("confirm_password", personal.FieldErrorMismatch)
	}
	return prepared
}

// personalWords may not serve as the account's password.
func personalWords(a Account) []string {
	return []string{a.Login, a.LoginKey, a.Email.Address, a.Email.Key}
}

// create stores the account and its first session.
func (s *Service) create(ctx context.Context, account Account, schema *userfields.Schema) (personal.SignedIn, error) {
	session, secret := s.newSession(ctx, 0)
	account.Created, account.Updated = session.Created, session.Created
	id, err := s.store.CreateAccount(ctx, account, session, func(id int64) []NewJob {
		return []NewJob{s.event(ctx, personal.ActorUser, personal.EventRegistered, id)}
	}, s.takenEmail(ctx, false)...)
	if err != nil {
		return personal.SignedIn{}, s.notStored(ctx, "creating an account", err)
	}
	s.wake()
	s.remember(ctx, id)
	return personal.SignedIn{
		Credentials: credentials(id, session.Selector, secret),
		Profile:     profile(account, schema),
	}, nil
}

// notStored turns what kept an account, or a change of e-mail, from being stored
// into the contract's error. That an e-mail was found to be taken is noted: it may
// have been asked for to learn just that.
func (s *Service) notStored(ctx context.Context, doing string, err error) error {
	var taken *TakenError
	var refused *WaitError
	switch {
	case errors.As(err, &refused):
		return s.admit(ctx, refused.Wait, nil)
	case !errors.As(err, &taken):
		return fail(doing, err)
	}
	if taken.Email {
		s.note(ctx, personal.EventEmailTaken, 0, "")
	}
	return alreadyExists(taken)
}

func alreadyExists(taken *TakenError) error {
	e := &personal.Error{Code: personal.CodeAlreadyExists}
	if taken.Login {
		e.FieldErrors.Add("login", personal.FieldErrorTaken)
	}
	if taken.Email {
		e.FieldErrors.Add("email", personal.FieldErrorTaken)
	}
	return e
}
