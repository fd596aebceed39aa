// Package seal encrypts the secrets of accounts, so that a copy of the database without
// the host's secret keys reveals none of them.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// KeySize is the size of a secret key in bytes.
const KeySize = 32

// Key and key id are derived from a secret key by HKDF-SHA256 (RFC 5869) with these
// texts. Changing one makes everything that is sealed unreadable.
const (
	deriveKey      = "personal/seal/aes-256-gcm/v1"
	deriveKeyID    = "personal/seal/key-id/v1"
	deriveFromHash = "personal/seal/session/v1"
)

const keyIDSize = 8 // in bytes; hexadecimal in a key id

// Keyring seals with its first key and opens with all of them. A Keyring without keys is
// valid; it is nil or empty. Methods are safe for concurrent use.
type Keyring struct {
	primary string
	ciphers map[string]cipher.AEAD // by key id
}

// New returns the keyring of some secret keys, of [KeySize] random bytes each. It keeps no
// reference to them. The error says which key is wrong by its position, and contains none.
func New(keys [][]byte) (*Keyring, error) {
	k := &Keyring{ciphers: make(map[string]cipher.AEAD, len(keys))}
	for i, key := range keys {
		if len(key) != KeySize {
			return nil, fmt.Errorf("secret key %d has %d bytes, not %d", i+1, len(key), KeySize)
		}
		id, aead, err := derive(key)
		if err != nil {
			return nil, fmt.Errorf("secret key %d: %w", i+1, err)
		}
		if _, twice := k.ciphers[id]; twice {
			return nil, fmt.Errorf("secret key %d is there twice", i+1)
		}
		k.ciphers[id] = aead
		if i == 0 {
			k.primary = id
		}
	}
	return k, nil
}

func derive(secret []byte) (id string, _ cipher.AEAD, _ error) {
	name, err := hkdf.Key(sha256.New, secret, nil, deriveKeyID, keyIDSize)
	if err != nil {
		return "", nil, err
	}
	aead, err := newCipher(secret, deriveKey)
	return hex.EncodeToString(name), aead, err
}

// Primary returns the id of the key that seals, "" without keys. An id reveals nothing
// about its key, and the same key has the same id everywhere.
func (k *Keyring) Primary() string {
	if k == nil {
		return ""
	}
	return k.primary
}

// Has reports whether secrets that the key with this id sealed can be opened.
func (k *Keyring) Has(key string) bool {
	if k == nil {
		return false
	}
	_, ok := k.ciphers[key]
	return ok
}

// Seal encrypts a secret of an account with AES-256-GCM and a random nonce, and returns the
// id of the key with the data, which are 28 bytes longer than the secret. Only Open with
// the same account id decrypts them. Nonces stay unique with near certainty for the first
// 2³² secrets of a key. Callers check Primary first: Seal panics without keys.
func (k *Keyring) Seal(accountID int64, secret []byte) (key string, data []byte) {
	aead := k.ciphers[k.primary]
	return k.primary, aead.Seal(nil, nil, secret, associated(accountID))
}

// Open returns the secret that Seal encrypted for the account. The error says that
// the key with this id is not there, or that the data are damaged or belong to another account or
// key.
func (k *Keyring) Open(accountID int64, key string, data []byte) ([]byte, error) {
	if !k.Has(key) {
		return nil, fmt.Errorf("no secret key has the id %q", key)
	}
	secret, err := k.ciphers[key].Open(nil, nil, data, associated(accountID))
	if err != nil {
		return nil, fmt.Errorf("the encrypted secret of account %d is damaged, or was not sealed for it with key %q", accountID, key)
	}
	return secret, nil
}

// Under encrypts data with AES-256-GCM under a key that is derived from a random secret, which must not
// be stored with them. Only OpenUnder with the same secret and the same text about the data decrypts them.
func Under(secret, data, about []byte) ([]byte, error) {
	aead, err := newCipher(secret, deriveFromHash)
	if err != nil {
		return nil, err
	}
	return aead.Seal(nil, nil, data, about), nil
}

// OpenUnder returns the data that Under encrypted.
func OpenUnder(secret, sealed, about []byte) ([]byte, error) {
	aead, err := newCipher(secret, deriveFromHash)
	if err != nil {
		return nil, err
	}
	return aead.Open(nil, nil, sealed, about)
}

// newCipher returns a cipher with a key derived from a secret.
func newCipher(secret []byte, purpose string) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, purpose, KeySize)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

func associated(accountID int64) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(accountID))
}
