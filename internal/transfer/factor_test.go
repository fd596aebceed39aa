package transfer_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/seal"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/internal/transfer"
)

var sharedSecret = []byte("12345678901234567890")

// fillAda adds an account with id 7 and a second factor of key 2.
func fillAda(t *testing.T, s *store.Store) transfer.Factor {
	t.Helper()
	f := transfer.Factor{AccountID: 7, RecoveryCodes: [][32]byte{{1}, {2}}}
	f.Secret.Key, f.Secret.Data = keyring(t, 2).Seal(7, sharedSecret)
	f.Step = 55_000_000
	created := time.Unix(1_700_000_000, 0)
	fill(t, s, accounts.Account{ID: 7, Login: "ada", LoginKey: "ada", PasswordHash: bcrypt, CredentialVersion: 1, Created: created,
		Updated: created}, f)
	return f
}

func stored(t *testing.T, s *store.Store) []transfer.StoredAccount {
	t.Helper()
	all, err := s.AccountsAfter(t.Context(), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestImport_EncryptsSecretWithFirstKeyForItsID(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		from, to := openStore(t, testdb.SQLite(t)), openStore(t, url)
		want := fillAda(t, from)
		line := export(t, from)
		imported := func(keys *seal.Keyring, login, id string) {
			t.Helper()
			r := newRun(t, to)
			r.Keys = keys
			row := strings.NewReplacer(`"id":7,`, id, `"login":"ada"`, `"login":"`+login+`"`).Replace(line)
			if done := r.file(t, transfer.NDJSON, row); done.Imported != 1 {
				t.Fatalf("%s: got %+v, want one account; refused:\n%s", login, done, r.report.String())
			}
		}
		imported(keyring(t, 2), "ada", `"id":70,`)
		imported(keyring(t, 2), "bob", ``)
		imported(keyring(t, 1, 2), "carl", `"id":7,`)
		imported(keyring(t, 1, 2), "dora", ``)
		opens := map[string]*seal.Keyring{"ada": keyring(t, 2), "bob": keyring(t, 2), "carl": keyring(t, 1), "dora": keyring(t, 1)}
		for _, a := range stored(t, to) {
			secret, err := opens[a.Login].Open(a.ID, a.TwoFactor.Secret.Key, a.TwoFactor.Secret.Data)
			if err != nil || !bytes.Equal(secret, sharedSecret) {
				t.Errorf("%s: got %q, %v, want the secret", a.Login, secret, err)
			}
			if diff := cmp.Diff(want.RecoveryCodes, a.RecoveryCodes); diff != "" || a.TwoFactor.Step != want.Step {
				t.Errorf("%s: got step %d, want %d; recovery codes (-want +got):\n%s", a.Login, a.TwoFactor.Step, want.Step, diff)
			}
		}
	})
}

func TestImport_RefusesAccountWhoseFactorCannotBeImported(t *testing.T) {
	from := openStore(t, testdb.SQLite(t))
	factor := fillAda(t, from)
	line := export(t, from)
	digest := base64.StdEncoding.EncodeToString(make([]byte, 32))
	damaged := bytes.Clone(factor.Secret.Data)
	damaged[len(damaged)-1] ^= 1
	const malformed = "1: two_factor: not what an export writes\n"
	const wrong = "1: two_factor: the secret is damaged, or not that of account %d: export the account again\n"
	replaced := func(with string) string { return withColumn(line, "two_factor", with) }
	for name, test := range map[string]struct {
		line, want string
		change     func(*transfer.Import)
	}{
		"no keys": {
			line, fmt.Sprintf("1: two_factor: the key %q encrypts the secret: give the file that has this key with --secret-key\n", factor.Secret.Key),
			func(m *transfer.Import) { m.Keys = nil },
		},
		"other keys": {
			line, fmt.Sprintf("1: two_factor: the key %q encrypts the secret: give the file that has this key with --secret-key\n", factor.Secret.Key),
			func(m *transfer.Import) { m.Keys = keyring(t, 1, 3) },
		},
		"of another account": {strings.Replace(line, `"account_id":7`, `"account_id":8`, 1), fmt.Sprintf(wrong, 8), nil},
		"damaged": {strings.Replace(line, base64.StdEncoding.EncodeToString(factor.Secret.Data), base64.StdEncoding.EncodeToString(damaged), 1),
			fmt.Sprintf(wrong, 7), nil},
		"a key that forges a line": {
			replaced(`{"account_id":7,"key":"a\n2: ok","secret":"AA=="}`),
			`1: two_factor: the key "a\n2: ok" encrypts the secret: give the file that has this key with --secret-key` + "\n", nil,
		},
		"the export of one user":     {replaced(`true`), malformed, nil},
		"an empty text":              {replaced(`""`), malformed, nil},
		"an empty object":            {replaced(`{}`), malformed, nil},
		"a member of a later format": {strings.Replace(line, `"account_id"`, `"algorithm":"SHA256","account_id"`, 1), malformed, nil},
		"no key":                     {strings.Replace(line, factor.Secret.Key, ``, 1), malformed, nil},
		"a secret in hexadecimal":    {replaced(`{"account_id":7,"key":"k","secret":"a-b"}`), malformed, nil},
		"a negative step":            {strings.Replace(line, `"last_step":`, `"last_step":-`, 1), malformed, nil},
		"a short digest":             {replaced(`{"account_id":7,"key":"k","secret":"AA==","recovery_codes":["AA=="]}`), malformed, nil},
		"a digest twice":             {replaced(`{"account_id":7,"key":"k","secret":"AA==","recovery_codes":["` + digest + `","` + digest + `"]}`), malformed, nil},
	} {
		t.Run(name, func(t *testing.T) { wantRefused(t, "two_factor", test.line, test.want, test.change) })
	}
}

// wantRefused imports a line of an export that is refused, and an account whose column is null.
func wantRefused(t *testing.T, column, line, want string, change func(*transfer.Import)) {
	t.Helper()
	to := openStore(t, testdb.SQLite(t))
	r := newRun(t, to)
	if change != nil {
		change(&r.Import)
	}
	done := r.file(t, transfer.NDJSON, line+`{"login":"bob","`+column+`":null,"password_hash":"`+bcrypt+`"}`)
	if got := r.report.String(); got != want || done.Imported != 1 {
		t.Errorf("got %+v and\n%s, want one account and\n%s", done, got, want)
	}
	if all := stored(t, to); len(all) != 1 || all[0].Login != "bob" || all[0].TwoFactor.On() || len(all[0].Passkeys)+len(all[0].Identities) > 0 {
		t.Errorf("got accounts %+v, want bob without %s", all, column)
	}
}

// withColumn returns a line of an export whose last column has another value.
func withColumn(line, column, value string) string {
	before, _, _ := strings.Cut(line, `"`+column+`":`)
	return before + `"` + column + `":` + value + "}\n"
}

// replaced replaces a text that must be in a line.
func replaced(t *testing.T, line, from, to string) string {
	t.Helper()
	if !strings.Contains(line, from) {
		t.Fatalf("%s is not in %s", from, line)
	}
	return strings.Replace(line, from, to, 1)
}

// Nothing of an account is stored if its second factor cannot be stored.
func TestImport_StoresAccountAndFactorInOneTransaction(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		s := openStore(t, url)
		_, err := s.AddAccounts(t.Context(), []accounts.Account{{ID: 7, Login: "ada", LoginKey: "ada", PasswordHash: bcrypt,
			CredentialVersion: 1}},
			func([]transfer.Outcome) transfer.FollowUp {
				return transfer.FollowUp{Factors: []transfer.Factor{{AccountID: 7, RecoveryCodes: [][32]byte{{1}, {1}}}}}
			})
		if all := stored(t, s); err == nil || len(all) != 0 {
			t.Errorf("got %v and %d accounts, want an error and no account", err, len(all))
		}
	})
}

// Without the key, a second run skips an account that exists like any other.
func TestImport_SkipsExistingAccountWithoutItsKey(t *testing.T) {
	s := openStore(t, testdb.SQLite(t))
	fillAda(t, s)
	r := newRun(t, s)
	r.Keys = nil
	if done := r.file(t, transfer.NDJSON, export(t, s)); done.Existing != 1 || done.Refused != 0 {
		t.Errorf("got %+v, want one existing account; refused:\n%s", done, r.report.String())
	}
}

func TestImport_RefusesColumnsThatCSVCannotHold(t *testing.T) {
	for column, what := range map[string]string{"two_factor": "second factors", "passkeys": "passkeys"} {
		r := newRun(t, openStore(t, testdb.SQLite(t)))
		_, err := r.Run(t.Context(), transfer.File{ReadSeeker: strings.NewReader("login,password_hash," + column + "\nada," + bcrypt + ",\n"), Format: transfer.CSV})
		if want := "column " + column + ": CSV cannot hold " + what + ": import NDJSON, as export writes it"; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestExportPerson_SaysOnlyWhetherFactorIsOn(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		s := openStore(t, url)
		fillAda(t, s)
		fill(t, s, accounts.Account{Login: "bob", LoginKey: "bob", PasswordHash: bcrypt, CredentialVersion: 1})
		for login, want := range map[string]any{"ada": true, "bob": nil} {
			var out bytes.Buffer
			if err := transfer.ExportPerson(t.Context(), s, transfer.Query{Text: login}, &out); err != nil {
				t.Fatal(err)
			}
			var got map[string]any
			if err := json.Unmarshal(out.Bytes(), &got); err != nil || got["two_factor"] != want {
				t.Errorf("%s: got two_factor %v, %v, want %v", login, got["two_factor"], err, want)
			}
			for _, kept := range []string{"secret", "recovery", "key", "step"} {
				if strings.Contains(out.String(), kept) {
					t.Errorf("%s: got %q in\n%s", login, kept, out.String())
				}
			}
		}
	})
}
