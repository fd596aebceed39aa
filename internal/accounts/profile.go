package accounts

import (
	"context"
	"slices"
	"time"

	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

// ProfileStore changes profiles.
type ProfileStore interface {
	// UpdateProfile runs change on the stored account, under a lock, and stores Name,
	// Fields, Updated and the jobs that change returns. It returns the changed account.
	// ErrNotFound.
	UpdateProfile(ctx context.Context, id int64, change func(*Account) []NewJob) (Account, error)
}

// Profile implements [personal.Service].
func (s *Service) Profile(ctx context.Context, c personal.Credentials) (personal.Profile, error) {
	who, err := s.identify(ctx, c, AccountProfile)
	if err != nil {
		return personal.Profile{}, err
	}
	schema, err := s.userFields(ctx)
	if err != nil {
		return personal.Profile{}, err
	}
	p := profile(who.account, schema)
	p.FreshFor = s.settings.freshFor(who)
	return p, nil
}

// freshFor returns how long a host may rely on a profile, counted from its
// beginning. A host that does so must not change what happens to the session:
//   - Only the current hash may be remembered. It stays valid for the grace period
//     even if it is superseded now, so no longer than that.
//   - The first use of the hash must be stored, because the predecessor's validity
//     depends on it.
//   - The host asks again when the last use is due to be stored, so that a session in
//     use does not expire early.
func (s Settings) freshFor(who caller) time.Duration {
	if who.hash != current || !who.stored {
		return 0
	}
	return max(0, min(s.VerifyCache, s.SupersededGrace,
		who.session.LastSeen.Add(s.seenEvery()).Sub(who.read),
		who.session.Created.Add(s.SessionAbsolute).Sub(who.read)))
}

// UpdateProfile implements [personal.Service]. Fields that are not sent stay as
// they are, even if another request changes the same profile at the same time.
func (s *Service) UpdateProfile(ctx context.Context, r personal.UpdateProfileRequest) (personal.Profile, error) {
	schema, err := s.userFields(ctx)
	if err != nil {
		return personal.Profile{}, err
	}
	if err := schema.Check(r.Fields); err != nil {
		return personal.Profile{}, err
	}
	who, err := s.identifyWrite(ctx, r.Credentials, AccountProfile)
	if err != nil {
		return personal.Profile{}, err
	}
	change, err := s.profileChange(r.Fields, who.account, schema, schema.Update)
	if err != nil {
		return personal.Profile{}, err
	}
	if len(r.Fields) == 0 {
		return profile(who.account, schema), nil
	}
	account, err := s.store.UpdateProfile(ctx, who.account.ID, func(a *Account) []NewJob {
		if changed := change(a); len(changed) > 0 {
			return []NewJob{s.event(ctx, personal.ActorUser, personal.EventProfileUpdated, a.ID, changed...)}
		}
		return nil
	})
	if err := s.committed(personal.CodeUnauthenticated, "updating a profile", err); err != nil {
		return personal.Profile{}, err
	}
	return profile(account, schema), nil
}

// profileChange checks the parameters of a change of an account, the user fields with read,
// and returns a function that applies the change to the account as it is then, and returns the
// names of what that changes, sorted.
func (s *Service) profileChange(
	in map[string]personal.Input, before Account, schema *userfields.Schema,
	read func(map[string]personal.Input, *personal.FieldErrors) userfields.Values,
) (func(*Account) []string, error) {
	var invalid personal.FieldErrors
	fields := schema.Clean(in, before.Name, before.Fields, &invalid)
	sentName, changeName := fields["name"]
	name := userfields.ParseName(sentName, &invalid)
	delete(fields, "name")
	values := read(fields, &invalid)
	return func(a *Account) []string {
		changed := a.Fields.Changed(values)
		if changeName {
			if (a.Name == nil) != (name == nil) || name != nil && *a.Name != *name {
				changed = append(changed, "name")
				slices.Sort(changed)
			}
			a.Name = name
		}
		a.Fields = a.Fields.Merge(values)
		a.Updated = s.store.Now()
		return changed
	}, invalid.Err()
}

func profile(a Account, schema *userfields.Schema) personal.Profile {
	return personal.Profile{
		Login:  a.Login,
		Name:   a.Name,
		Email:  a.Email.Address,
		Fields: schema.Profile(a.Fields),

		EmailVerified: a.EmailVerified,
		TwoFactor:     a.TwoFactor.On(),
		NoPassword:    password.IsUnusable(a.PasswordHash),
		Missing:       schema.Missing(a.Fields),
	}
}
