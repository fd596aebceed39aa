package accounts_test

import (
	"crypto/rand"
	"testing"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/seal"
)

// keyring returns the keyring of a new key.
func keyring(t testing.TB) *seal.Keyring {
	t.Helper()
	key := make([]byte, seal.KeySize)
	_, _ = rand.Read(key)
	keys, err := seal.New([][]byte{key})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// twoFactors returns the settings with which users can have second factors, if the service
// offers them.
func twoFactors(t testing.TB) func(*accounts.Settings) {
	return func(s *accounts.Settings) {
		s.TwoFactorIssuer, s.Keys = "Fish & Chips", keyring(t)
	}
}
