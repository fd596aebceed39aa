package transfer_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/passkey"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/internal/transfer"
)

// fillPasskeys adds an account with two passkeys, one of which stands for a code.
func fillPasskeys(t *testing.T, s *store.Store) []accounts.Passkey {
	t.Helper()
	created := time.Unix(1_700_000_000, 0).UTC()
	keys := []accounts.Passkey{
		{
			Key:          passkey.Key{CredentialID: []byte("first"), PublicKey: []byte("key 1"), SignCount: 4, BackupEligible: true, BackedUp: true},
			RelyingParty: "example.com", Name: "Phone", Created: created, LastUsed: created.Add(time.Hour), WithCode: true,
		},
		{Key: passkey.Key{CredentialID: []byte("second"), PublicKey: []byte("key 2")}, RelyingParty: "example.com", Name: "Ключ", Created: created},
	}
	a := accounts.Account{Login: "ada", LoginKey: "ada", PasswordHash: bcrypt, CredentialVersion: 1, Created: created, Updated: created}
	_, err := s.AddAccounts(t.Context(), []accounts.Account{a}, func(o []transfer.Outcome) transfer.FollowUp {
		var own []accounts.Passkey
		for _, k := range keys {
			k.AccountID, k.CredentialVersion = o[0].ID, 1
			own = append(own, k)
		}
		return transfer.FollowUp{Passkeys: []transfer.Passkeys{{AccountID: o[0].ID, UserHandle: []byte("handle"), Keys: own}}}
	})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestImport_KeepsPasskeys(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
		from, to := openStore(t, testkit.SQLite(t)), openStore(t, url)
		want := fillPasskeys(t, from)
		line := export(t, from)
		other := strings.NewReplacer(`"login":"ada"`, `"login":"bob"`, `"id":1,`, ``).Replace(line)
		r := newRun(t, to)
		if done := r.file(t, transfer.NDJSON, line+other); done.Imported != 2 {
			t.Fatalf("got %+v, want two accounts; refused:\n%s", done, r.report.String())
		}
		ada := account(t, to, "ada")
		for i := range want { // without a factor none stands for a code
			want[i].AccountID, want[i].CredentialVersion, want[i].WithCode = ada.ID, 1, false
		}
		for _, a := range stored(t, to) {
			if a.Login != "ada" { // the credentials belong to another account already
				if len(a.Passkeys.Keys) > 0 {
					t.Errorf("%s: got passkeys of another account", a.Login)
				}
				continue
			}
			got := a.Passkeys
			for i := range got.Keys {
				got.Keys[i].ID = 0
			}
			if diff := cmp.Diff(transfer.Passkeys{AccountID: ada.ID, UserHandle: []byte("handle"), Keys: want}, got); diff != "" {
				t.Errorf("passkeys (-want +got):\n%s", diff)
			}
		}
	})
}

func TestImport_RefusesPasskeysThatNoExportWrites(t *testing.T) {
	from := openStore(t, testkit.SQLite(t))
	fillPasskeys(t, from)
	line := export(t, from)
	for _, c := range []struct{ from, to string }{
		{`"user_handle":"aGFuZGxl"`, `"user_handle":""`},
		{`"name":"Phone"`, `"name":""`},
		{`"name":"Phone"`, `"name":"\u0000"`},
		{`"name":"Phone"`, `"name":"` + strings.Repeat("n", 65) + `"`},
		{`"sign_count":4`, `"sign_count":-1`},
		{`"sign_count":4`, `"sign_count":4,"later":true`},
		{`"credential_id":"c2Vjb25k"`, `"credential_id":"Zmlyc3Q="`},
		{`"rp_id":"example.com"`, `"rp_id":""`},
	} {
		r := newRun(t, openStore(t, testkit.SQLite(t)))
		changed := strings.Replace(line, c.from, c.to, 1)
		if changed == line {
			t.Fatalf("the export has no %s:\n%s", c.from, line)
		}
		done := r.file(t, transfer.NDJSON, changed)
		if want := "1: passkeys: not what an export writes\n"; done.Refused != 1 || r.report.String() != want {
			t.Errorf("%s: got %+v and %q, want %q", c.to, done, r.report.String(), want)
		}
	}
}
