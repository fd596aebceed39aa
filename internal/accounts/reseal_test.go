package accounts_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/seal"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/testkit/testdb"
)

// storeFactor stores a second factor whose secret names the account, and returns the
// account's id.
func (f *fixture) storeFactor(t *testing.T, login string, keys *seal.Keyring) int64 {
	t.Helper()
	id := f.register(t, login).Credentials.UserID
	sessions, err := f.store.Sessions(t.Context(), id, accounts.Lifetimes{})
	if err != nil {
		t.Fatal(err)
	}
	p := accounts.PendingFactor{AccountID: id, SessionID: sessions[0].ID, CredentialVersion: f.account(t, id).CredentialVersion}
	p.Secret.Key, p.Secret.Data = keys.Seal(id, fmt.Append(nil, "sesame of ", id))
	if err := errors.Join(f.store.SetPendingFactor(t.Context(), p),
		f.store.EnableTwoFactor(t.Context(), p, 1, accounts.NewRecoveryCodes{}, accounts.KeptSession{Session: sessions[0]})); err != nil {
		t.Fatal(err)
	}
	return id
}

func (f *fixture) account(t *testing.T, id int64) accounts.Account {
	t.Helper()
	a, err := f.store.Account(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// wantSealed checks that the key encrypts the secret of each account.
func (f *fixture) wantSealed(t *testing.T, keys *seal.Keyring, key string, ids ...int64) {
	t.Helper()
	for _, id := range ids {
		sealed := f.account(t, id).TwoFactor.Secret
		secret, err := keys.Open(id, sealed.Key, sealed.Data)
		if sealed.Key != key || err != nil || string(secret) != fmt.Sprint("sesame of ", id) {
			t.Errorf("account %d: got secret %q with key %s (error %v), want its own with key %s", id, secret, sealed.Key, err, key)
		}
	}
}

// resealer is the domain on a store, with a log.
func (f *fixture) resealer(s accounts.Store, keys *seal.Keyring) (*accounts.Service, *bytes.Buffer) {
	settings, log := f.settings, &bytes.Buffer{}
	settings.Keys = keys
	return accounts.New(settings, s, nil, f.host, slog.New(slog.NewTextHandler(log, nil)), func() {}), log
}

// resealStore reads pages of one secret, and counts, lets fail or precedes writes.
type resealStore struct {
	*store.Store
	writes int
	before func(accountID int64) error
}

func (s *resealStore) SecretsOfKey(ctx context.Context, key string, after int64, _ int) ([]accounts.AccountSecret, error) {
	return s.Store.SecretsOfKey(ctx, key, after, 1)
}

func (s *resealStore) Reseal(ctx context.Context, id int64, from, to accounts.Sealed) error {
	if s.before != nil {
		if err := s.before(id); err != nil {
			return err
		}
	}
	s.writes++
	return s.Store.Reseal(ctx, id, from, to)
}

func TestResealSecrets_FirstKeyEncryptsAllThatCanBeRead(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		a, b, lost, all := secretKeys(t, "a"), secretKeys(t, "b"), secretKeys(t, "x"), secretKeys(t, "ba")
		first, second := f.storeFactor(t, "anna", a), f.storeFactor(t, "boris", a)
		current, missing, damaged := f.storeFactor(t, "clara", b), f.storeFactor(t, "dora", lost), f.storeFactor(t, "egor", a)
		from := f.account(t, damaged).TwoFactor.Secret
		if err := f.store.Reseal(t.Context(), damaged, from, accounts.Sealed{Key: from.Key, Data: []byte("damaged")}); err != nil {
			t.Fatal(err)
		}
		before := map[int64]accounts.Account{}
		for _, id := range []int64{first, second, current, missing, damaged} {
			before[id] = f.account(t, id)
		}
		s := &resealStore{Store: f.store}
		service, log := f.resealer(s, all)
		for range 2 {
			if err := service.ResealSecrets(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		f.wantSealed(t, b, b.Primary(), first, second, current)
		f.wantSealed(t, lost, lost.Primary(), missing)
		if s.writes != 2 {
			t.Errorf("got %d writes, want 2", s.writes)
		}
		for id, want := range before {
			got := f.account(t, id)
			if id == first || id == second {
				want.TwoFactor.Secret = got.TwoFactor.Secret
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("account %d: %s", id, diff)
			}
		}
		if n := strings.Count(log.String(), "key="+lost.Primary()+" accounts=1"); n != 1 || strings.Contains(log.String(), "sesame of ") {
			t.Errorf("got %d lines about the missing key, want one, and no secret:\n%s", n, log)
		}
		if !strings.Contains(log.String(), fmt.Sprint("user_id=", damaged)) {
			t.Errorf("got no line about the damaged secret:\n%s", log)
		}
	})
}

func TestResealSecrets_WithoutFirstKeyDoesNothing(t *testing.T) {
	f := newFixture(t, testdb.SQLite(t))
	a := secretKeys(t, "a")
	id := f.storeFactor(t, "anna", a)
	for name, keys := range map[string]*seal.Keyring{"no keyring": nil, "an empty one": secretKeys(t, "")} {
		service, log := f.resealer(&resealStore{Store: f.store}, keys)
		if err := service.ResealSecrets(t.Context()); err != nil || log.Len() > 0 {
			t.Errorf("%s: got error %v and log %q, want neither", name, err, log)
		}
	}
	f.wantSealed(t, a, a.Primary(), id)
}

func TestResealSecrets_EndsAtAnOutageAndResumes(t *testing.T) {
	f := newFixture(t, testdb.SQLite(t))
	ids := []int64{f.storeFactor(t, "anna", secretKeys(t, "a")), f.storeFactor(t, "boris", secretKeys(t, "a")),
		f.storeFactor(t, "clara", secretKeys(t, "a"))}
	all := secretKeys(t, "ba")
	s := &resealStore{Store: f.store}
	s.before = func(id int64) error {
		if id == ids[1] {
			return accounts.ErrUnavailable
		}
		return nil
	}
	service, _ := f.resealer(s, all)
	if err := service.ResealSecrets(t.Context()); !errors.Is(err, accounts.ErrUnavailable) || s.writes != 1 {
		t.Errorf("got error %v after %d writes, want ErrUnavailable after 1", err, s.writes)
	}
	f.wantSealed(t, all, all.Primary(), ids[0])
	f.wantSealed(t, all, secretKeys(t, "a").Primary(), ids[1:]...)
	s.before = nil
	if err := service.ResealSecrets(t.Context()); err != nil || s.writes != 3 {
		t.Errorf("afterwards: got error %v and %d writes, want 3", err, s.writes)
	}
	f.wantSealed(t, all, all.Primary(), ids...)
}

func TestResealSecrets_LeavesAFactorThatHasChanged(t *testing.T) {
	f := newFixture(t, testdb.SQLite(t))
	removed, other := f.storeFactor(t, "anna", secretKeys(t, "a")), f.storeFactor(t, "boris", secretKeys(t, "a"))
	s := &resealStore{Store: f.store}
	s.before = func(id int64) error {
		if id == removed {
			return f.store.RemoveTwoFactor(t.Context(), id, false, func(accounts.Account, accounts.OtherWays, accounts.OtherWays) []accounts.NewJob { return nil })
		}
		return nil
	}
	all := secretKeys(t, "ba")
	service, _ := f.resealer(s, all)
	if err := service.ResealSecrets(t.Context()); err != nil {
		t.Fatal(err)
	}
	if f.account(t, removed).TwoFactor.On() {
		t.Error("got the removed factor again")
	}
	f.wantSealed(t, all, all.Primary(), other)
}
