package transfer_test

import (
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

// fillIdentities adds an account with id 7 and two identities.
func fillIdentities(t *testing.T, s *store.Store, factors ...transfer.Factor) {
	t.Helper()
	linked := accounts.StoredIdentity{
		Identity:  personal.Identity{Issuer: "https://op.example", Subject: "Ада <&>"},
		AccountID: 7, Linked: time.UnixMicro(1_700_000_000_000_001).UTC(),
	}
	other := linked
	other.Subject, other.Linked, other.LastUsed = "ada", linked.Linked.Add(time.Second), linked.Linked.Add(time.Hour)
	addAda(t, s, transfer.FollowUp{Factors: factors, Identities: []accounts.StoredIdentity{linked, other}})
}

func TestImport_IdentitiesSurviveAnExport(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		from, to := openStore(t, testdb.SQLite(t)), openStore(t, url)
		factor := transfer.Factor{AccountID: 7}
		factor.Secret.Key, factor.Secret.Data = keyring(t, 1).Seal(7, sharedSecret)
		fillIdentities(t, from, factor)
		line := export(t, from)
		r := newRun(t, to)
		if done := r.file(t, transfer.NDJSON, line); done.Imported != 1 {
			t.Fatalf("got %+v, want one account; refused:\n%s", done, r.report.String())
		}
		if diff := cmp.Diff(line, export(t, to)) + cmp.Diff(stored(t, from), stored(t, to)); diff != "" {
			t.Errorf("exported again, and stored (-want +got):\n%s", diff)
		}
		if list := stored(t, to)[0].Identities; len(list) != 2 {
			t.Errorf("got the identities %+v, want two", list)
		}
		if done := r.file(t, transfer.NDJSON, line); done.Existing != 1 || done.Refused != 0 {
			t.Errorf("again: got %+v, want one existing account; refused:\n%s", done, r.report.String())
		}
		factorless := line[:strings.Index(line, `"two_factor":`)] + line[strings.Index(line, `"identities":`):]
		bob := strings.NewReplacer(`"id":7,`, ``, `"login":"ada"`, `"login":"bob"`, "op.example", "another.example").Replace(factorless)
		if done := r.file(t, transfer.NDJSON, bob); done.Imported != 1 {
			t.Errorf("without a second factor: got %+v, want one account; refused:\n%s", done, r.report.String())
		}
		all := stored(t, to)
		if last := all[len(all)-1]; last.TwoFactor.On() || len(last.Identities) != 2 {
			t.Errorf("without a second factor: got %+v, want both identities", last)
		}
	})
}

func TestImport_RefusesIdentitiesThatNoExportWrites(t *testing.T) {
	from := openStore(t, testdb.SQLite(t))
	fillIdentities(t, from)
	line := export(t, from)
	const malformed = "1: identities: not what an export writes\n"
	whole := func(with string) string { return withColumn(line, "identities", with) }
	replaced := func(from, to string) string { return replaced(t, line, from, to) }
	for name, test := range map[string]struct{ line, want string }{
		"an object":                  {whole(`{}`), malformed},
		"an empty list":              {whole(`[]`), malformed},
		"a member of a later format": {replaced(`"linked"`, `"level":4,"linked"`), malformed},
		"too many":                   {whole(`[` + strings.Repeat(`{},`, 20) + `{}]`), "1: identities: an account has at most 20\n"},
		"no issuer":                  {replaced(`"issuer":"https://op.example",`, ``), "1: identities: number 1: issuer and subject must have 1 to 255 bytes\n"},
		"a long subject":             {replaced(`"subject":"ada"`, `"subject":"`+strings.Repeat("я", 128)+`"`), "1: identities: number 2: issuer and subject must have 1 to 255 bytes\n"},
		"the same identity":          {replaced(`"subject":"ada"`, `"subject":"Ада <&>"`), "1: identities: number 2: it is repeated\n"},
		"a use before 1970":          {replaced(`"last_used":"2023`, `"last_used":"1969`), "1: identities: number 2: a time is missing or out of range\n"},
		"no time":                    {replaced(`"linked":"2023-11-14T22:13:20.000001Z"`, `"linked":"0001-01-01T00:00:00Z"`), "1: identities: number 1: a time is missing or out of range\n"},
	} {
		t.Run(name, func(t *testing.T) { wantRefused(t, "identities", test.line, test.want, nil) })
	}
}

// An identity of another account refuses the row, whether that account is in the database, in the
// same file, or added during the import. Nothing of the refused account is stored.
func TestImport_RefusesIdentitiesOfOtherAccounts(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		from, to := openStore(t, testdb.SQLite(t)), openStore(t, url)
		fillIdentities(t, from)
		line := export(t, from)
		bob := strings.NewReplacer(`"id":7,`, ``, `"login":"ada"`, `"login":"bob"`, `"subject":"ada"`, `"subject":"bob"`).Replace(line)
		dryRun := transfer.DryRun{Temporary: openStore(t, testdb.SQLite(t)), Real: to}
		dry := newRun(t, dryRun)
		if done := dry.file(t, transfer.NDJSON, line+bob); done.Imported != 1 ||
			dry.report.String() != "2: identities: taken by the row of line 1\n" {
			t.Errorf("a dry run: got %+v\n%s", done, dry.report.String())
		}
		const want = "identities: taken by account 7\n"
		if r := newRun(t, to); r.file(t, transfer.NDJSON, line+bob).Imported != 1 || r.report.String() != "2: "+want {
			t.Errorf("in one file: got\n%s, want 2: %s", r.report.String(), want)
		}
		dryRun.Temporary = openStore(t, testdb.SQLite(t))
		for name, s := range map[string]transfer.Store{"existing": to, "added during the import": blind{to}, "dry run": dryRun} {
			r := newRun(t, s)
			if done := r.file(t, transfer.NDJSON, bob); done.Refused != 1 || r.report.String() != "1: "+want {
				t.Errorf("%s: got %+v\n%s, want 1: %s", name, done, r.report.String(), want)
			}
		}
		if all := stored(t, to); len(all) != 1 || all[0].ID != 7 || len(all[0].Identities) != 2 {
			t.Errorf("got %+v, want account 7 with its identities only", all)
		}
	})
}

// Identities are a way in: an account needs neither a password nor an e-mail beside them.
func TestImport_AccountWithIdentitiesAlone(t *testing.T) {
	from, to := openStore(t, testdb.SQLite(t)), openStore(t, testdb.SQLite(t))
	fillIdentities(t, from)
	r := newRun(t, to)
	if done := r.file(t, transfer.NDJSON, strings.Replace(export(t, from), bcrypt, "!", 1)); done.Imported != 1 {
		t.Errorf("got %+v, want one account; refused:\n%s", done, r.report.String())
	}
}
