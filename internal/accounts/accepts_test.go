package accounts_test

import (
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/shared/personal"
)

// That it changes nothing, and accepts no more than an operation does, is in the model of rotations.
func TestAccepts_WhatIsValidForAnotherMinute(t *testing.T) {
	testkit.Database(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		pair, other := f.register(t, "alice").Credentials, f.register(t, "bob").Credentials
		want := func(condition string, pair personal.Credentials, by accounts.Settings, want bool) {
			t.Helper()
			if got, err := f.service.Accepts(t.Context(), pair, by); err != nil || got != want {
				t.Errorf("%s: got %v (error %v), want %v", condition, got, err, want)
			}
		}
		want("a session", pair, f.settings, true)
		want("another user's hash", personal.Credentials{UserID: pair.UserID, UserHash: other.UserHash}, f.settings, false)
		want("no hash", personal.Credentials{UserID: pair.UserID, UserHash: "x"}, f.settings, false)
		fresh, err := f.service.Refresh(t.Context(), pair)
		if err != nil {
			t.Fatal(err)
		}
		want("the next hash", fresh, f.settings, true)
		want("its predecessor, before it is used", pair, f.settings, true)
		if _, err := f.service.Profile(t.Context(), fresh); err != nil {
			t.Fatal(err)
		}
		want("a hash that is stolen within a minute", pair, f.settings, false)
		short := f.settings
		short.SessionIdle = 30 * time.Second
		want("a session that ends within a minute by other settings", fresh, short, false)
		if err := f.service.DisableUser(t.Context(), other.UserID); err != nil {
			t.Fatal(err)
		}
		want("a disabled user", other, f.settings, false)
		if err := f.service.Logout(t.Context(), personal.LogoutRequest{Credentials: fresh}); err != nil {
			t.Fatal(err)
		}
		want("a session that has ended", fresh, f.settings, false)
	})
}
