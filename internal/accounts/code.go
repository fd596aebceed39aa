package accounts

import "errors"

// TwoFactor is the second factor of an account. The zero value is none.
type TwoFactor struct {
	Secret Sealed
	Step   int64 // the last time step (RFC 6238) whose code was used
}

// On reports whether the account has a second factor. It needs only the key of the
// secret.
func (t TwoFactor) On() bool { return t.Secret.Key != "" }

// Sealed is an encrypted secret.
type Sealed struct {
	Key  string // the id of the key that decrypts it
	Data []byte
}

// Keyring encrypts secrets of accounts with keys that the database does not have.
type Keyring interface {
	// Seal encrypts with the primary key. There must be one.
	Seal(accountID int64, secret []byte) (key string, data []byte)
	// Open decrypts what Seal returned for the same account, with the key of that id.
	Open(accountID int64, key string, data []byte) ([]byte, error)
	// Primary returns the id of the key that encrypts; "" without any key.
	Primary() string
	// Has reports whether there is the key of that id.
	Has(key string) bool
}

// CodeUse is a code that was found right. The transaction that it authorises uses it up,
// or fails with ErrCodeUsed. The zero value stands for an account without a second factor.
type CodeUse struct {
	Step     int64    // of a time-based code; 0: none
	Recovery [32]byte // the digest of a recovery code; zero: none
}

// ErrCodeUsed means that a code was used before, or that no recovery code has the digest.
// Nothing was written.
var ErrCodeUsed = errors.New("the code was used")
