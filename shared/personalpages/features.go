package personalpages

import (
	"context"
	"net/http"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// featuresLifetime is how long the pages rely on what the service offers: a new version or new
// settings show after it.
const featuresLifetime = 5 * time.Second

// features are what the service offers, as far as the pages know.
type features struct {
	personal.Features
	until time.Time
}

// features returns what the service offers. If it does not tell in time, that is what it offered
// last; before it has told once, the limits that are not known are zero.
func (s *site) features(r *http.Request) personal.Features {
	last := s.lastFeatures.Load()
	if last != nil && time.Now().Before(last.until) {
		return last.Features
	}
	now := features{until: time.Now().Add(featuresLifetime)}
	ctx, cancel := context.WithTimeout(r.Context(), time.Second) // a page can do without it
	defer cancel()
	var err error
	now.Features, err = s.Service.Features(ctx)
	switch {
	case err == nil:
	case last != nil:
		now.Features = last.Features
	default:
		now.Features = personal.Features{LoginMinLength: 3, LoginMaxLength: 64, LoginWithEmail: true, TwoFactor: true}
	}
	if r.Context().Err() == nil {
		s.lastFeatures.Store(&now)
	}
	return now.Features
}

// unconfirmed reports whether a user must confirm their e-mail before they can switch a second
// factor on.
func (s *site) unconfirmed(r *http.Request, user personal.Profile) bool {
	verification := s.features(r).EmailVerification
	return verification != "" && verification != personal.VerificationOff && !user.EmailVerified
}
