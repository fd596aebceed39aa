package seal_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/seal"
)

var (
	keyA   = bytes.Repeat([]byte{0xa5}, seal.KeySize)
	keyB   = bytes.Repeat([]byte{0x5b}, seal.KeySize)
	secret = []byte("12345678901234567890")
)

const account = 42

func keyring(t *testing.T, keys ...[]byte) *seal.Keyring {
	t.Helper()
	k, err := seal.New(keys)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func wantOpens(t *testing.T, k *seal.Keyring, key string, data []byte) {
	t.Helper()
	if got, err := k.Open(account, key, data); err != nil || !bytes.Equal(got, secret) {
		t.Errorf("got secret %q, error %v, want %q", got, err, secret)
	}
}

func wantDamaged(t *testing.T, k *seal.Keyring, accountID int64, key string, data []byte) {
	t.Helper()
	if got, err := k.Open(accountID, key, data); err == nil || strings.Contains(err.Error(), "no secret key") || got != nil {
		t.Errorf("got %q, error %v, want an error of the data", got, err)
	}
}

func TestSeal_OpensForSameAccountAlone(t *testing.T) {
	k := keyring(t, keyA)
	key, data := k.Seal(account, secret)
	wantOpens(t, k, key, data)
	wantOpens(t, keyring(t, keyA), key, data) // another process
	wantDamaged(t, k, account+1, key, data)
	wantDamaged(t, k, -account, key, data)
}

func TestSeal_HidesSecretAndIsNeverTheSame(t *testing.T) {
	k := keyring(t, keyA)
	_, first := k.Seal(account, secret)
	_, second := k.Seal(account, secret)
	if bytes.Equal(first, second) || bytes.Equal(first[:12], second[:12]) {
		t.Error("two seals of a secret are the same, or have the same nonce")
	}
	if len(first) != len(secret)+28 || bytes.Contains(first, secret[:8]) {
		t.Errorf("got %d bytes %x, want %d that do not contain the secret", len(first), first, len(secret)+28)
	}
}

func TestOpen_DamagedData(t *testing.T) {
	k := keyring(t, keyA)
	key, data := k.Seal(account, secret)
	for i := range data {
		damaged := bytes.Clone(data)
		damaged[i] ^= 1
		wantDamaged(t, k, account, key, damaged)
	}
	for _, cut := range [][]byte{nil, data[:1], data[:12], data[:27], data[:len(data)-1], append(bytes.Clone(data), 0)} {
		wantDamaged(t, k, account, key, cut)
	}
}

func TestOpen_WrongKey(t *testing.T) {
	a, both := keyring(t, keyA), keyring(t, keyA, keyB)
	idB := keyring(t, keyB).Primary()
	key, data := a.Seal(account, secret)
	wantDamaged(t, both, account, idB, data)
	for name, k := range map[string]*seal.Keyring{"another key": keyring(t, keyB), "no keys": keyring(t), "nil": nil} {
		if _, err := k.Open(account, key, data); err == nil || err.Error() != `no secret key has the id "`+key+`"` {
			t.Errorf("%s: got %v, want an error with the key's id", name, err)
		}
	}
}

func TestKeyring_FirstKeySealsAllOpen(t *testing.T) {
	old := keyring(t, keyA)
	oldID, data := old.Seal(account, secret)
	rotated := keyring(t, keyB, keyA)
	if rotated.Primary() == oldID || !rotated.Has(oldID) || !rotated.Has(rotated.Primary()) || rotated.Has("") {
		t.Errorf("got primary key %q, want another than %q, and that both are there", rotated.Primary(), oldID)
	}
	wantOpens(t, rotated, oldID, data)
	newID, again := rotated.Seal(account, secret)
	if newID != rotated.Primary() {
		t.Errorf("sealed with key %q, want the first, %q", newID, rotated.Primary())
	}
	wantOpens(t, keyring(t, keyB), newID, again)
	if old.Has(newID) {
		t.Error("a keyring has a key that it was not given")
	}
}

func TestKeyring_WithoutKeys(t *testing.T) {
	for name, k := range map[string]*seal.Keyring{"empty": keyring(t), "nil": nil} {
		if k.Primary() != "" || k.Has("") || k.Has("00") {
			t.Errorf("%s: got primary key %q, want none", name, k.Primary())
		}
	}
}

// The ids and the data are in databases and in exports: they must not change.
func TestKeyring_FormatsAreStable(t *testing.T) {
	const id, sealed = "600c7e9dd5c73c61", "U1Yv0NenWBCAxO90mZP3LTcgjl0aPjppUw+VUCqX/v02NcpVBYr4mIVeKurDTzg4"
	k := keyring(t, keyA)
	if k.Primary() != id {
		t.Errorf("got key id %q, want %q", k.Primary(), id)
	}
	data, err := base64.StdEncoding.DecodeString(sealed)
	if err != nil {
		t.Fatal(err)
	}
	wantOpens(t, k, id, data)
}

func TestKeyring_IDRevealsNothing(t *testing.T) {
	near := bytes.Clone(keyA)
	near[31] ^= 1
	a, b := keyring(t, keyA).Primary(), keyring(t, near).Primary()
	if a[:8] == b[:8] || a[8:] == b[8:] {
		t.Errorf("similar keys have the ids %s and %s, want ids that share nothing", a, b)
	}
	raw, err := hex.DecodeString(a)
	if err != nil || len(raw) != 8 || bytes.Contains(keyA, raw[:2]) {
		t.Errorf("got id %q (%v), want 8 bytes in hexadecimal that the key does not contain", a, err)
	}
}

func TestNew_RefusesKeysWithoutShowingThem(t *testing.T) {
	for name, test := range map[string]struct {
		keys [][]byte
		want string
	}{
		"short": {[][]byte{keyA, []byte("short key")}, "secret key 2 has 9 bytes, not 32"},
		"long":  {[][]byte{append(bytes.Clone(keyA), 1)}, "secret key 1 has 33 bytes, not 32"},
		"empty": {[][]byte{nil}, "secret key 1 has 0 bytes, not 32"},
		"twice": {[][]byte{keyA, keyB, keyA}, "secret key 3 is there twice"},
	} {
		if k, err := seal.New(test.keys); err == nil || err.Error() != test.want || k != nil {
			t.Errorf("%s: got error %v, want %q", name, err, test.want)
		}
	}
}

func TestNew_KeepsNoReferenceToKeys(t *testing.T) {
	key := bytes.Clone(keyA)
	k := keyring(t, key)
	clear(key)
	id, data := k.Seal(account, secret)
	wantOpens(t, keyring(t, keyA), id, data)
}
