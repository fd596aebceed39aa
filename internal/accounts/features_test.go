package accounts_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/shared/personal"
)

// The service has no store and no host: the answer needs neither.
func TestFeatures_AreWhatIsInForce(t *testing.T) {
	for name, c := range map[string]struct {
		setting       personal.EmailVerification
		keys, offered bool
		twoFactor     bool
	}{
		"nothing":                        {setting: personal.VerificationOff},
		"optional":                       {setting: personal.VerificationOptional},
		"required":                       {setting: personal.VerificationRequired},
		"second factor":                  {setting: personal.VerificationOff, keys: true, offered: true, twoFactor: true},
		"second factor, switched off":    {setting: personal.VerificationOff, keys: true},
		"second factor, no key encrypts": {setting: personal.VerificationOff, offered: true},
	} {
		t.Run(name, func(t *testing.T) {
			settings := accounts.Settings{MinPassword: 12, EmailVerification: c.setting, DeletionGrace: 90 * time.Minute}
			if c.keys {
				twoFactors(t)(&settings)
			}
			service := accounts.New(settings, nil, nil, nil, slog.New(slog.DiscardHandler), func() {})
			service.OfferTwoFactor(c.offered)
			got, err := service.Features(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want := personal.Features{
				PasswordMinLength: 12, PasswordMaxBytes: 1024, LoginMinLength: 3, LoginMaxLength: 64,
				EmailVerification: c.setting, TwoFactor: c.twoFactor, DeletionGrace: 90 * time.Minute,
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("features (-want +got):\n%s", diff)
			}
		})
	}
}
