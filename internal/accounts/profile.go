package accounts

import (
	"context"
	"errors"
	"maps"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

// Profile implements [personal.Service].
func (s *Service) Profile(ctx context.Context, c personal.Credentials) (personal.Profile, error) {
	who, err := s.identify(ctx, c)
	if err != nil {
		return personal.Profile{}, err
	}
	schema, err := s.userFields(ctx)
	if err != nil {
		return personal.Profile{}, err
	}
	return profile(who.account, schema), nil
}

// UpdateProfile implements [personal.Service]. What is not sent stays as it is,
// also when another change of the same profile runs at the same time.
func (s *Service) UpdateProfile(ctx context.Context, r personal.UpdateProfileRequest) (personal.Profile, error) {
	schema, err := s.userFields(ctx)
	if err != nil {
		return personal.Profile{}, err
	}
	if len(schema.Malformed(r.Fields)) > 0 {
		return personal.Profile{}, refusal(personal.CodeMalformedRequest)
	}
	who, err := s.identify(ctx, r.Credentials)
	if err == nil {
		err = s.chargeWrite(ctx, who)
	}
	if err != nil {
		return personal.Profile{}, err
	}
	change, err := s.change(r.Fields, schema.Update)
	if err != nil {
		return personal.Profile{}, err
	}
	if len(r.Fields) == 0 {
		return profile(who.account, schema), nil
	}
	account, err := s.store.UpdateProfile(ctx, who.account.ID, change)
	if errors.Is(err, ErrNotFound) {
		return personal.Profile{}, refusal(personal.CodeUnauthenticated)
	}
	if err != nil {
		return personal.Profile{}, fail("updating a profile", err)
	}
	return profile(account, schema), nil
}

// change reads what was sent to change a profile; read does so for the user
// fields. What it returns changes an account accordingly.
func (s *Service) change(
	in map[string]personal.Input, read func(map[string]personal.Input, *personal.FieldErrors) userfields.Values,
) (func(*Account) error, error) {
	var faults personal.FieldErrors
	fields := maps.Clone(in)
	sentName, changeName := fields["name"]
	name := userfields.ParseName(sentName, &faults)
	delete(fields, "name")
	values := read(fields, &faults)
	if err := faults.Err(); err != nil {
		return nil, err
	}
	return func(a *Account) error {
		if changeName {
			a.Name = name
		}
		a.Fields = a.Fields.Merge(values)
		a.Updated = s.store.Now()
		return nil
	}, nil
}

func profile(a Account, schema *userfields.Schema) personal.Profile {
	return personal.Profile{
		Login:  a.Login,
		Name:   a.Name,
		Email:  a.Email.Address,
		Fields: schema.Profile(a.Fields),
	}
}
