package accounts

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"unicode/utf8"

	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/seal"
)

// People type passwords into the wrong field. So a text that was typed as login is stored only as a digest
// with the login key, and waiting requests hold it encrypted (HTTP contract, section 5).

// LoginKeyStore keeps the login key.
type LoginKeyStore interface {
	// SealedKey returns the encrypted key of that name. The first call with a candidate, on whichever
	// node, stores it. ErrNotFound without a candidate, which has no Data, if none is stored.
	SealedKey(ctx context.Context, name string, candidate Sealed) (Sealed, error)
	// ResealKey replaces an encrypted key by another encryption of it. ErrStale if another one is stored.
	ResealKey(ctx context.Context, name string, from, to Sealed) error
}

// noAccount is the id for which secrets of the site are sealed.
const noAccount = 0

// loginKeyName names the login key in the store.
const loginKeyName = "logins"

// ReadKeys reads the keys that each sign-in needs, so that the first ones do not wait for the database. With
// mayMake it makes those that no node has made. Call it before requests, and now and then.
func (s *Service) ReadKeys(ctx context.Context, mayMake bool) error {
	if mayMake {
		if _, err := s.keyOfDraws(ctx); err != nil {
			return fmt.Errorf("reading the key of draws: %w", err)
		}
	}
	return s.readLoginKey(ctx, mayMake)
}

// readLoginKey reads the login key, which the first node with a secret key makes. A service that has not read
// it, because it has no secret key or not the right one, counts under its own key, and works otherwise.
func (s *Service) readLoginKey(ctx context.Context, mayMake bool) error {
	if s.HasLoginKey() { // it stays the same, also if another node encrypts it again
		return nil
	}
	var candidate Sealed
	keys := s.settings.Keys
	if mayMake && keys.Primary() != "" {
		made := make([]byte, seal.KeySize)
		_, _ = rand.Read(made) // it never fails
		candidate.Key, candidate.Data = keys.Seal(noAccount, made)
	}
	stored, err := s.store.SealedKey(ctx, loginKeyName, candidate)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("reading the login key: %w", err)
	}
	key, err := keys.Open(noAccount, stored.Key, stored.Data)
	if err != nil {
		return fmt.Errorf("reading the login key: %w", err)
	}
	s.loginKey.Store(&key)
	return nil
}

// HasLoginKey reports whether typed logins are counted under the login key, which all nodes share.
func (s *Service) HasLoginKey() bool { return s.loginKey.Load() != nil }

// resealLoginKey encrypts the login key with the first key, if another one encrypts it.
func (s *Service) resealLoginKey(ctx context.Context, keys *seal.Keyring) error {
	stored, err := s.store.SealedKey(ctx, loginKeyName, Sealed{})
	if errors.Is(err, ErrNotFound) || err == nil && (stored.Key == keys.Primary() || !keys.Has(stored.Key)) {
		return nil
	}
	if err != nil {
		return err
	}
	key, err := keys.Open(noAccount, stored.Key, stored.Data)
	if err != nil {
		s.log.ErrorContext(ctx, "the login key is damaged: remove it from personal_keys", slog.Any("error", err))
		return nil
	}
	var to Sealed
	to.Key, to.Data = keys.Seal(noAccount, key)
	if err := s.store.ResealKey(ctx, loginKeyName, stored, to); err != nil && !errors.Is(err, ErrStale) {
		return err
	}
	return nil
}

// typed returns the mapped form of a text that was typed as login; if it cannot be mapped, its beginning.
func (s *Service) typed(login string) string {
	q := s.loginQuery(login)
	if mapped := cmp.Or(q.LoginKey, q.EmailKey); mapped != "" {
		return mapped
	}
	if utf8.RuneCountInString(login) > maxEmail {
		login = string([]rune(login)[:maxEmail])
	}
	return login
}

// typedKey is chargeKey for what contains a typed login.
func (s *Service) typedKey(parts ...string) [32]byte {
	key := s.logKey[:]
	if shared := s.loginKey.Load(); shared != nil {
		key = *shared
	}
	digest := hmac.New(sha256.New, key)
	digest.Write(appendParts(nil, parts))
	return [32]byte(digest.Sum(nil))
}

// verifyPassword compares a password with a hash. Without a usable one it does the work of a class of stored
// hashes, which the mapped login draws (HTTP contract, section 3, auth).
func (s *Service) verifyPassword(ctx context.Context, hash, login, entered string) (password.Result, error) {
	key, err := s.keyOfDraws(ctx)
	if err != nil {
		return password.Result{}, err
	}
	if !password.IsUnusable(hash) {
		return s.hasher.Verify(ctx, hashSource(ctx), hash, entered)
	}
	digest := hmac.New(sha256.New, key)
	digest.Write([]byte(login))
	return password.Result{}, s.hasher.VerifyDummy(ctx, hashSource(ctx), binary.BigEndian.Uint32(digest.Sum(nil)), entered)
}

// keyOfDraws returns the key with which logins draw classes. It is never replaced: with another one a login
// would draw another class, which no stored hash does.
func (s *Service) keyOfDraws(ctx context.Context) ([]byte, error) {
	return s.siteKey(ctx, &s.drawKey, "draw of classes")
}

// typedRequest is what a visitor has typed who asks for a mail, and the code that is mailed.
type typedRequest struct {
	Login string `json:"login,omitempty"`
	Email string `json:"email,omitempty"`

	Code *codeRequest `json:"code,omitempty"` // of a KindMailedCode
}

// requestName names the key that encrypts requests where there is no login key. It is in the database as it
// is: after a restart they must be readable.
const requestName = "requests"

// sealingKey returns the login key, or that of requests where there is none.
func (s *Service) sealingKey(ctx context.Context) ([]byte, error) {
	if key := s.loginKey.Load(); key != nil {
		return *key, nil
	}
	return s.siteKey(ctx, &s.requestKey, requestName)
}

// sealRequest encrypts what was typed for a job.
func (s *Service) sealRequest(ctx context.Context, r typedRequest) (key string, data []byte, err error) {
	by, err := s.sealingKey(ctx)
	if err != nil {
		return "", nil, err
	}
	keys, err := seal.New([][]byte{by})
	if err != nil {
		return "", nil, err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return "", nil, err
	}
	key, data = keys.Seal(noAccount, text)
	return key, data, nil
}

// requestKeys returns the keys that open requests. It writes nothing.
func (s *Service) requestKeys(ctx context.Context) (*seal.Keyring, error) {
	var list [][]byte
	if key := s.loginKey.Load(); key != nil {
		list = append(list, *key)
	}
	key, err := s.requestKey.get(ctx, s.store, requestName, nil)
	switch {
	case err == nil:
		list = append(list, key)
	case !errors.Is(err, ErrNotFound):
		return nil, fail("reading the key of requests", err)
	}
	return seal.New(list)
}

// readRequest reads the payload of a waiting request.
func readRequest(keys *seal.Keyring, payload []byte) (r recoveryJob, err error) {
	if err := json.Unmarshal(payload, &r); err != nil {
		return r, err
	}
	text, err := keys.Open(noAccount, r.Key, r.Typed)
	if err == nil {
		err = json.Unmarshal(text, &r.typedRequest)
	}
	return r, err
}
