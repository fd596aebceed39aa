package transfer_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/internal/transfer"
	"github.com/cms-personal/personal/shared/personal"
)

// coseKey is the base point of P-256 as a COSE_Key of ES256.
const coseKey = "a5010203262001215820" + "6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296" +
	"225820" + "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5"

// samplePasskey returns a passkey of account 7 with this credential id.
func samplePasskey(t *testing.T, credentialID string) accounts.Passkey {
	t.Helper()
	key, err := hex.DecodeString(coseKey)
	if err != nil {
		t.Fatal(err)
	}
	p := accounts.Passkey{
		AccountID: 7, RelyingParty: "site.example", Name: "Телефон <&>", Created: time.UnixMicro(1_700_000_000_000_001).UTC(),
		UserHandle: bytes.Repeat([]byte{9}, 32),
	}
	p.CredentialID, p.PublicKey = []byte(credentialID), key
	return p
}

// fillPasskeys adds an account with id 7 and passkeys: one was used, counts, is backed up and
// needs no code, one does.
func fillPasskeys(t *testing.T, s *store.Store, factors ...transfer.Factor) {
	t.Helper()
	used, other := samplePasskey(t, "one"), samplePasskey(t, "two")
	used.SignCount, used.BackupEligible, used.BackedUp, used.WithCode = 1<<32-1, true, true, true
	used.Transports = []string{"hybrid", "internal"}
	used.LastUsed = used.Created.Add(time.Hour)
	other.Name = "old"
	addAda(t, s, transfer.FollowUp{Factors: factors, Passkeys: []accounts.Passkey{used, other}})
}

// addAda adds an account with what follows up.
func addAda(t *testing.T, s *store.Store, f transfer.FollowUp) {
	t.Helper()
	a := accounts.Account{
		ID: 7, Login: "ada", LoginKey: "ada", PasswordHash: bcrypt, CredentialVersion: 1, Created: time.Unix(1_700_000_000, 0), Updated: time.Unix(1_700_000_000, 0),
	}
	outcomes, err := s.AddAccounts(t.Context(), []accounts.Account{a}, func([]transfer.Outcome) transfer.FollowUp { return f })
	if err != nil || outcomes[0].ID != 7 {
		t.Fatalf("got %+v, %v, want the account added", outcomes, err)
	}
}

func TestImport_PasskeysSurviveAnExport(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		from, to := openStore(t, testdb.SQLite(t)), openStore(t, url)
		factor := transfer.Factor{AccountID: 7}
		factor.Secret.Key, factor.Secret.Data = keyring(t, 1).Seal(7, sharedSecret)
		fillPasskeys(t, from, factor)
		line := export(t, from)
		r := newRun(t, to)
		if done := r.file(t, transfer.NDJSON, line); done.Imported != 1 {
			t.Fatalf("got %+v, want one account; refused:\n%s", done, r.report.String())
		}
		if diff := cmp.Diff(line, export(t, to)); diff != "" {
			t.Errorf("exported again (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(stored(t, from), stored(t, to)); diff != "" {
			t.Errorf("stored (-want +got):\n%s", diff)
		}
		if list := stored(t, to)[0].Passkeys; len(list) != 2 || !list[0].WithCode || list[1].WithCode {
			t.Errorf("got the passkeys %+v, want one that needs no code, and one that does", list)
		}
		if done := r.file(t, transfer.NDJSON, line); done.Existing != 1 || done.Refused != 0 {
			t.Errorf("again: got %+v, want one existing account; refused:\n%s", done, r.report.String())
		}
		for _, test := range []struct{ name, from, to string }{
			{"another id", `"id":7,`, `"id":70,`}, // a passkey stands for a code of a factor only
			{"no second factor", line[strings.Index(line, `"two_factor":`):strings.Index(line, `"passkeys":`)], ""},
		} {
			row := strings.NewReplacer(`"login":"ada"`, `"login":"ada`+test.name[:2]+`"`, base64.StdEncoding.EncodeToString([]byte("one")),
				base64.StdEncoding.EncodeToString([]byte(test.name)), base64.StdEncoding.EncodeToString([]byte("two")),
				base64.StdEncoding.EncodeToString([]byte(test.name+"2")), `"id":7,`, ``, test.from, test.to).Replace(line)
			if done := r.file(t, transfer.NDJSON, row); done.Imported != 1 {
				t.Errorf("%s: got %+v, want one account; refused:\n%s", test.name, done, r.report.String())
			}
		}
		all := stored(t, to)
		if last := all[len(all)-1]; last.TwoFactor.On() || len(last.Passkeys) != 2 || last.Passkeys[0].WithCode {
			t.Errorf("without the second factor: got %+v, want that no passkey stands for a code", last)
		}
	})
}

func TestImport_RefusesPasskeysThatNoExportWrites(t *testing.T) {
	from := openStore(t, testdb.SQLite(t))
	fillPasskeys(t, from)
	line := export(t, from)
	const malformed = "1: passkeys: not what an export writes\n"
	text := func(bytes string) string { return base64.StdEncoding.EncodeToString([]byte(bytes)) }
	key, err := hex.DecodeString(coseKey)
	if err != nil {
		t.Fatal(err)
	}
	whole := func(with string) string { return withColumn(line, "passkeys", with) }
	replaced := func(from, to string) string { return replaced(t, line, from, to) }
	many := `{"user_handle":"` + text(strings.Repeat("x", 32)) + `","keys":[` + strings.Repeat(`{},`, 20) + `{}]}`
	for name, test := range map[string]struct{ line, want string }{
		"the export of one user":     {whole(`[{"name":"a"}]`), malformed},
		"an empty object":            {whole(`{}`), malformed},
		"no keys":                    {whole(`{"user_handle":"AA==","keys":[]}`), malformed},
		"a member of a later format": {replaced(`"sign_count"`, `"level":4,"sign_count"`), malformed},
		"a negative counter":         {replaced(`"sign_count":4294967295`, `"sign_count":-1`), malformed},
		"a counter beyond 32 bits":   {replaced(`"sign_count":4294967295`, `"sign_count":4294967296`), malformed},
		"too many":                   {whole(many), "1: passkeys: an account has at most 20\n"},
		"a short user handle":        {replaced(text(strings.Repeat("\t", 32)), text("\t")), "1: passkeys: number 1: the user handle must have 32 bytes\n"},
		"no credential id":           {replaced(text("two"), ""), "1: passkeys: number 2: the passkey is refused: the credential id must have 1 to 1023 bytes\n"},
		"the same credential id":     {replaced(text("two"), text("one")), "1: passkeys: number 2: its credential id is repeated\n"},
		"a damaged key":              {replaced(base64.StdEncoding.EncodeToString(key), text("key")), "1: passkeys: number 1: the passkey is refused: the public key is malformed\n"},
		"an algorithm of other keys": {
			replaced(base64.StdEncoding.EncodeToString(key), base64.StdEncoding.EncodeToString(append([]byte{0xa5, 1, 2, 3, 0x27}, key[5:]...))),
			"1: passkeys: number 1: the passkey is refused: the public key is malformed\n",
		},
		"backed up, not eligible": {replaced(`"backup_eligible":true,`, ``), "1: passkeys: number 1: the passkey is refused: the key is backed up but must not be\n"},
		"an address as domain":    {replaced(`"rp_id":"site.example"`, `"rp_id":"127.0.0.1"`), "1: passkeys: number 1: its rp_id is not a domain\n"},
		"no domain":               {replaced(`"rp_id":"site.example"`, `"rp_id":""`), "1: passkeys: number 1: its rp_id is not a domain\n"},
		"a name that forges a line": {
			replaced(`"name":"old"`, `"name":"a\n2: ok"`), "1: passkeys: number 2: its name must have 1 to 64 characters, and no control characters\n",
		},
		"no time":            {replaced(`"created":"2023-11-14T22:13:20.000001Z"`, `"created":"0001-01-01T00:00:00Z"`), "1: passkeys: number 1: a time is missing or out of range\n"},
		"a time before 1970": {replaced(`"last_used":"2023`, `"last_used":"1969`), "1: passkeys: number 1: a time is missing or out of range\n"},
	} {
		t.Run(name, func(t *testing.T) { wantRefused(t, "passkeys", test.line, test.want, nil) })
	}
}

// A passkey of another account refuses the row, whether that account is in the database, in the
// same file, or added during the import. Nothing of the refused account is stored.
func TestImport_RefusesPasskeysOfOtherAccounts(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		from, to := openStore(t, testdb.SQLite(t)), openStore(t, url)
		fillPasskeys(t, from)
		line := export(t, from)
		bob := strings.NewReplacer(`"id":7,`, ``, `"login":"ada"`, `"login":"bob"`, base64.StdEncoding.EncodeToString([]byte("one")),
			"bmV3").Replace(line)
		dry := newRun(t, transfer.DryRun{Temporary: openStore(t, testdb.SQLite(t)), Real: to})
		if done := dry.file(t, transfer.NDJSON, line+bob); done.Imported != 1 || dry.report.String() != "2: passkeys: taken by the row of line 1\n" {
			t.Errorf("a dry run: got %+v\n%s", done, dry.report.String())
		}
		const want = "passkeys: taken by account 7\n"
		if r := newRun(t, to); r.file(t, transfer.NDJSON, line+bob).Imported != 1 || r.report.String() != "2: "+want {
			t.Errorf("in one file: got\n%s, want 2: %s", r.report.String(), want)
		}
		for name, s := range map[string]transfer.Store{
			"existing": to, "added during the import": blind{to}, "dry run": transfer.DryRun{Temporary: openStore(t, testdb.SQLite(t)), Real: to},
		} {
			r := newRun(t, s)
			if done := r.file(t, transfer.NDJSON, bob); done.Refused != 1 || r.report.String() != "1: "+want {
				t.Errorf("%s: got %+v\n%s, want 1: %s", name, done, r.report.String(), want)
			}
		}
		if all := stored(t, to); len(all) != 1 || all[0].ID != 7 || len(all[0].Passkeys) != 2 {
			t.Errorf("got %+v, want account 7 with its passkeys only", all)
		}
	})
}

// blind is a store whose existing passkeys are added after the lookup.
type blind struct{ *store.Store }

func (blind) Owners(context.Context, [][]byte, []personal.Identity) (transfer.Owners, error) {
	return transfer.Owners{}, nil
}

// Passkeys are a way in: an account needs neither a password nor an e-mail beside them.
func TestImport_AccountWithPasskeysAlone(t *testing.T) {
	from, to := openStore(t, testdb.SQLite(t)), openStore(t, testdb.SQLite(t))
	fillPasskeys(t, from)
	line := strings.Replace(export(t, from), bcrypt, "!", 1)
	r := newRun(t, to)
	if done := r.file(t, transfer.NDJSON, line); done.Imported != 1 {
		t.Errorf("got %+v, want one account; refused:\n%s", done, r.report.String())
	}
	r = newRun(t, to)
	if r.file(t, transfer.NDJSON, line[:strings.Index(line, `,"passkeys":`)]+"}"); r.report.String() != "1: email: required\n" {
		t.Errorf("without them: got %s, want that the e-mail is required", r.report.String())
	}
}

func TestExportPerson_DescribesPasskeysWithoutKeys(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		s := openStore(t, url)
		fillPasskeys(t, s)
		var out bytes.Buffer
		if err := transfer.ExportPerson(t.Context(), s, transfer.Query{Text: "ada"}, &out); err != nil {
			t.Fatal(err)
		}
		var got struct{ Passkeys []map[string]any }
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		const created = "2023-11-14T22:13:20.000001Z"
		want := []map[string]any{
			{"name": "old", "created": created, "backed_up": false},
			{"name": "Телефон <&>", "created": created, "last_used": "2023-11-14T23:13:20.000001Z", "backed_up": true},
		}
		if diff := cmp.Diff(want, got.Passkeys); diff != "" {
			t.Errorf("passkeys (-want +got):\n%s", diff)
		}
		for _, kept := range []string{"credential", "public_key", "user_handle", "count"} {
			if strings.Contains(out.String(), kept) {
				t.Errorf("got %q in\n%s", kept, out.String())
			}
		}
	})
}
