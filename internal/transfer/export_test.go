package transfer_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/seal"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/internal/transfer"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

func TestExport_ImportsUnchangedIntoOtherDatabase(t *testing.T) {
	pairs := map[string][2]func(testing.TB) string{
		"SQLite to PostgreSQL": {testdb.SQLite, testdb.Postgres},
		"PostgreSQL to SQLite": {testdb.Postgres, testdb.SQLite},
	}
	for name, pair := range pairs {
		t.Run(name, func(t *testing.T) {
			from, to := openStore(t, pair[0](t)), openStore(t, pair[1](t))
			number, keys := 0, keyring(t, 1) // the first of the import
			rapid.Check(t, func(rt *rapid.T) {
				number++
				a := drawAccount(rt, number)
				fill(t, from, a, drawFactors(rt, a.ID, keys)...)
			})
			before := export(t, from)
			r := newRun(t, to)
			done := r.file(t, transfer.NDJSON, before)
			if r.report.Len() > 0 || done.Imported != int64(number) {
				t.Fatalf("got %+v, want all %d accounts; refused:\n%s", done, number, r.report.String())
			}
			if diff := cmp.Diff(before, export(t, to)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A made-up 0.3.0 has a type of measures.
func TestImport_KeepsFieldsOfALaterVersion(t *testing.T) {
	known := fields
	t.Cleanup(func() { fields = known })
	fields = append(slices.Clone(known), personal.Field{Name: "height", Type: "measure"}, personal.Field{Name: "size", Type: "measure"})
	testdb.Databases(t, func(t *testing.T, url string) {
		s := openStore(t, url)
		const values = `"fields":{"gone":[1,{}],"height":{"m":[2,null,"x"]},"size":"2 m"}`
		r := newRun(t, s)
		done := r.file(t, transfer.NDJSON, `{"login":"anna","password_hash":"`+bcrypt+`",`+values+`}`)
		if got := export(t, s); done.Imported != 1 || !strings.Contains(strings.ReplaceAll(got, " ", ""), strings.ReplaceAll(values, " ", "")) {
			t.Errorf("got %+v %s and stored %s, want %s", done, r.report.String(), got, values)
		}
		done = r.file(t, transfer.NDJSON, `{"login":"bob","height":"1 m","password_hash":"`+bcrypt+`"}`)
		if got := r.report.String(); done.Refused != 1 || got != "1: height: read_only\n" {
			t.Errorf("a column: got %+v, %q; want it to be refused", done, got)
		}
	})
}

// An account that must confirm its e-mail first would be one without an e-mail, which can
// sign in.
func TestExport_LeavesOutWhatMustNotBeImported(t *testing.T) {
	s := openStore(t, testdb.SQLite(t))
	waiting := accounts.Account{Login: "ada", LoginKey: "ada", PasswordHash: bcrypt, CredentialVersion: 1}
	waiting.Unverified, _ = accounts.ParseEmail("ada@example.com")
	if _, err := s.CreateAccount(t.Context(), waiting, accounts.Session{}, func(int64) []accounts.NewJob { return nil }); err != nil {
		t.Fatal(err)
	}
	fill(t, s, accounts.Account{Login: "bob", LoginKey: "bob", PasswordHash: bcrypt, CredentialVersion: 3, Disabled: true})
	if got := export(t, s); strings.Contains(got, "ada") || !strings.Contains(got, "bob") || strings.Contains(got, "erase_at") {
		t.Errorf("got %s, want bob without a time of erasure", got)
	}
	leaving := accounts.Account{
		Login: "carl", LoginKey: "carl", PasswordHash: bcrypt, CredentialVersion: 3, EraseAt: time.Unix(1_900_000_000, 0), Disabled: true,
		EmailVerified: true, Locale: "pt-BR",
	}
	leaving.Email, _ = accounts.ParseEmail("carl@example.com")
	fill(t, s, leaving)
	if got, want := export(t, s), `"email_verified":true,"locale":"pt-BR","erase_at":"2030-03-17T17:46:40Z"}`; !strings.Contains(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
	var out bytes.Buffer
	if err := transfer.ExportPerson(t.Context(), s, transfer.Query{Text: "ada"}, &out); err != nil ||
		!strings.Contains(out.String(), `"unverified_email": "ada@example.com"`) {
		t.Errorf("the export of one user: got %s, %v, want the unconfirmed e-mail", out.String(), err)
	}
}

// fill adds an account, with its second factor if one is given.
func fill(t *testing.T, s *store.Store, a accounts.Account, factor ...transfer.Factor) {
	t.Helper()
	outcomes, err := s.AddAccounts(t.Context(), []accounts.Account{a}, func([]transfer.Outcome) transfer.FollowUp {
		return transfer.FollowUp{Factors: factor}
	})
	if err != nil || outcomes[0].ID == 0 {
		t.Fatalf("got %+v, %v, want the account added", outcomes, err)
	}
}

func drawAccount(t *rapid.T, number int) accounts.Account {
	login := fmt.Sprintf("%s%d", rapid.SampledFrom([]string{"User", "ада", "o'neil", "x<&>"}).Draw(t, "login"), number)
	key, code := accounts.LoginKey(login)
	if code != "" {
		login, key = fmt.Sprint("user", number), fmt.Sprint("user", number)
	}
	a := accounts.Account{
		ID: int64(number * 3), Login: login, LoginKey: key, CredentialVersion: 1,
		PasswordHash: rapid.SampledFrom([]string{
			bcrypt,
			"$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHRzYWx0c2FsdA$MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY",
			"$argon2id-of$v=19$m=64,t=1,p=1$c2FsdHNhbHRzYWx0c2FsdA$MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY$$digest$md5(p)$$",
			"$argon2id-of$v=19$m=64,t=1,p=1$c2FsdHNhbHRzYWx0c2FsdA$MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY$$P$BfEAVu23O",
			"$phpbb$2y$10$7$RsqOrLNkvw31ldi5VPlyG2t5HxqIKeyFv5dvOFakbr/GBBC0oyfIGMOkSD1dq",
			"$pbkdf2-sha256$i=27500,l=32$c2FsdA$MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY",
		}).Draw(t, "hash"),
		Disabled: rapid.Bool().Draw(t, "disabled"),
		Created:  time.UnixMicro(rapid.Int64Range(1, 1<<51).Draw(t, "created")).UTC(),
		Updated:  time.UnixMicro(rapid.Int64Range(1, 1<<51).Draw(t, "updated")).UTC(),
		Fields:   userfields.Values{},
	}
	if rapid.Bool().Draw(t, "has e-mail") {
		a.Email, _ = accounts.ParseEmail(fmt.Sprintf("User%d@Example.com", number))
		a.EmailVerified = rapid.Bool().Draw(t, "confirmed")
	}
	a.Locale = rapid.SampledFrom([]string{"", "en", "pt-BR", "de,en"}).Draw(t, "locale")
	if a.Disabled && rapid.Bool().Draw(t, "leaving") {
		a.EraseAt = time.UnixMicro(rapid.Int64Range(1, 1<<51).Draw(t, "erase at")).UTC()
	}
	text := rapid.OneOf(rapid.StringOf(rapid.SampledFrom([]rune("aЖ é\"\\'<>&?$\u2028{}"))), rapid.Just(`\u0000`)) // six characters
	if name := text.Draw(t, "name"); name != "" {
		a.Name = &name
	}
	for name, v := range rapid.MapOfN(text, rapid.OneOf(
		text.AsAny(), rapid.Bool().AsAny(), rapid.Int64().AsAny(), rapid.Float64().AsAny(),
		rapid.SampledFrom([]float64{1e6, 3, -2.5e17, 1e21}).AsAny(), rapid.SliceOf(text).AsAny(),
	), 0, 5).Draw(t, "fields") {
		a.Fields[name] = v
	}
	return a
}

// drawFactors returns no second factor or one.
func drawFactors(t *rapid.T, id int64, keys *seal.Keyring) []transfer.Factor {
	if !rapid.Bool().Draw(t, "two factors") {
		return nil
	}
	secret := rapid.SliceOfN(rapid.Byte(), 20, 20).Draw(t, "secret")
	f := transfer.Factor{AccountID: id}
	f.Secret.Key, f.Secret.Data = keys.Seal(id, secret)
	f.Step = rapid.Int64Range(0, 1<<53-1).Draw(t, "step")
	for range rapid.IntRange(0, 10).Draw(t, "recovery codes") {
		f.RecoveryCodes = append(f.RecoveryCodes, sha256.Sum256(binary.BigEndian.AppendUint64(secret, uint64(len(f.RecoveryCodes)))))
	}
	return []transfer.Factor{f}
}

// The events fill more than a page and are stored in another order than that of time.
func TestExportPerson_HoldsEveryEventInOrderOfTime(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		s := openStore(t, url)
		fill(t, s, accounts.Account{ID: 7, Login: "ada", LoginKey: "ada", PasswordHash: bcrypt, CredentialVersion: 1})
		fill(t, s, accounts.Account{ID: 8, Login: "bob", LoginKey: "bob", PasswordHash: bcrypt, CredentialVersion: 1})
		const n = 1005
		var jobs []accounts.NewJob
		for i := range n {
			second := int64(i*7%n + 1) // each second once: 7 and n have no common divisor
			jobs = append(jobs, happened(7, second, fmt.Sprint("r", second)))
		}
		jobs = append(jobs, happened(8, 1, "of bob"), happened(0, 1, "of no account"))
		addJobs(t, s, jobs)

		var out bytes.Buffer
		if err := transfer.ExportPerson(t.Context(), s, transfer.Query{Text: "ada"}, &out); err != nil {
			t.Fatal(err)
		}
		var got struct {
			Login  string
			Events []map[string]string
		}
		if err := json.Unmarshal(out.Bytes(), &got); err != nil || got.Login != "ada" {
			t.Fatalf("%v in\n%.500s", err, out.String())
		}
		want := make([]map[string]string, n)
		for i := range want {
			want[i] = map[string]string{"type": "signed_in", "actor": "user", "address": "192.0.2.1", "request_id": fmt.Sprint("r", i+1),
				"time": time.Unix(int64(i+1), 0).UTC().Format(time.RFC3339)}
		}
		if diff := cmp.Diff(want, got.Events); diff != "" {
			t.Errorf("(-want +got):\n%.2000s", diff)
		}
	})
}

// happened returns the job of an event of an account, with its time in Unix seconds.
func happened(account, second int64, requestID string) accounts.NewJob {
	return accounts.NewJob{Kind: accounts.KindEvent, AccountID: account, Event: &personal.Event{
		ID: requestID, Type: personal.EventSignedIn, Time: time.Unix(second, 0), UserID: account, Address: "192.0.2.1", RequestID: requestID,
		Actor: personal.ActorUser,
	}}
}

func addJobs(t *testing.T, s *store.Store, jobs []accounts.NewJob) {
	t.Helper()
	for some := range slices.Chunk(jobs, 200) { // an operation of the store has limited time
		_, err := s.AddAccounts(t.Context(), nil, func([]transfer.Outcome) transfer.FollowUp { return transfer.FollowUp{Jobs: some} })
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestExportPerson_HoldsEverythingButTheHash(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		s := openStore(t, url)
		a := accounts.Account{Login: "Ada", LoginKey: "ada", PasswordHash: bcrypt, CredentialVersion: 1, Created: s.Now(), Updated: s.Now()}
		a.Email, _ = accounts.ParseEmail("ada@example.com")
		session := accounts.Session{Created: s.Now(), LastSeen: s.Now(), Address: "192.0.2.7", Agent: "a browser"}
		id, err := s.CreateAccount(t.Context(), a, session, func(int64) []accounts.NewJob { return nil })
		if err != nil {
			t.Fatal(err)
		}
		leaveTraces(t, s, id)
		fill(t, s, accounts.Account{Login: "other", LoginKey: "other", PasswordHash: bcrypt, CredentialVersion: 1})
		for _, who := range []string{"ADA", "ada@example.com", fmt.Sprint(id)} {
			var out bytes.Buffer
			if err := transfer.ExportPerson(t.Context(), s, transfer.Query{Text: who}, &out); err != nil {
				t.Fatal(err)
			}
			text := out.String()
			for _, want := range []string{`"login": "Ada"`, "192.0.2.7", "a browser", "2001:db8::/64", "new@example.com"} {
				if !strings.Contains(text, want) {
					t.Errorf("%s: got no %s in\n%s", who, want, text)
				}
			}
			if strings.Contains(text, "$2y$") || strings.Contains(text, "password") || strings.Contains(text, "other") {
				t.Errorf("%s: got a password, a hash or another account in\n%s", who, text)
			}
		}
		if err := transfer.ExportPerson(t.Context(), s, transfer.Query{Text: "nobody"}, &bytes.Buffer{}); !errors.Is(err, accounts.ErrNotFound) {
			t.Errorf("got %v, want accounts.ErrNotFound", err)
		}
	})
}

// leaveTraces stores a known address and an unconfirmed e-mail of an account.
func leaveTraces(t *testing.T, s *store.Store, id int64) {
	t.Helper()
	if err := s.AddKnownAddress(t.Context(), id, accounts.KnownAt{Address: "2001:db8::/64"}, true); err != nil {
		t.Fatal(err)
	}
	pending := accounts.MailToken{
		AccountID: id, Purpose: accounts.PurposeEmail, CredentialVersion: 1, AccountEmailKey: "ada@example.com",
		Email: accounts.Email{Address: "new@example.com", Key: "new@example.com"}, Expires: s.Now().Add(time.Hour),
	}
	if err := s.AddMailToken(t.Context(), pending); err != nil {
		t.Fatal(err)
	}
}

// happenedTo returns the job of an event with the given type, actor and address.
func happenedTo(account int64, kind personal.EventType, by personal.Actor, address string) accounts.NewJob {
	return accounts.NewJob{Kind: accounts.KindEvent, AccountID: account, Event: &personal.Event{
		ID: address, Type: kind, Time: time.Unix(1_000_000, 0), UserID: account, Address: address, Actor: by, ActorName: "Olga",
	}}
}

func TestExportPerson_LeavesOutAddressesAndNamesOfOthers(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		s := openStore(t, url)
		const id = 1
		fill(t, s, accounts.Account{ID: id, Login: "ada", LoginKey: "ada", PasswordHash: bcrypt, CredentialVersion: 1})
		own := []accounts.NewJob{
			happenedTo(id, personal.EventRegistered, personal.ActorUser, "192.0.2.1"),
			happenedTo(id, personal.EventSignedIn, personal.ActorUser, "192.0.2.2"),
			happenedTo(id, personal.EventEmailChanged, personal.ActorUser, "192.0.2.3"),
			happenedTo(id, personal.EventExported, personal.ActorUser, "192.0.2.4"),
			happenedTo(id, personal.EventProfileUpdated, personal.ActorUser, "192.0.2.5"),
		}
		others := []accounts.NewJob{
			happenedTo(id, personal.EventSignInFailed, personal.ActorUser, "198.51.100.1"),
			happenedTo(id, personal.EventRecoveryRequested, personal.ActorUser, "198.51.100.2"),
			happenedTo(id, personal.EventEmailChanged, personal.ActorAdministrator, "198.51.100.3"),
			happenedTo(id, personal.EventUserUpdated, personal.ActorAdministrator, "198.51.100.5"),
			happenedTo(id, personal.EventSessionTheft, personal.ActorSystem, "198.51.100.6"),
		}
		addJobs(t, s, slices.Concat(own, others))
		var out bytes.Buffer
		if err := transfer.ExportPerson(t.Context(), s, transfer.Query{Text: "ada"}, &out); err != nil {
			t.Fatal(err)
		}
		for _, j := range own {
			if !strings.Contains(out.String(), j.Event.Address) {
				t.Errorf("%s by %q: got no address, want the user's own", j.Event.Type, j.Event.Actor)
			}
		}
		for _, j := range others {
			if strings.Contains(out.String(), j.Event.Address) || !strings.Contains(out.String(), string(j.Event.Type)) {
				t.Errorf("%s by %q: got no entry, or one with an address that may be another's", j.Event.Type, j.Event.Actor)
			}
		}
		if strings.Contains(out.String(), "Olga") {
			t.Error("got the name of an administrator")
		}
	})
}

func TestExportAudit_WritesEntriesSinceATime(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		s := openStore(t, url)
		fill(t, s, accounts.Account{ID: 7, Login: "ada", LoginKey: "ada", PasswordHash: bcrypt, CredentialVersion: 1})
		changed := happened(7, 4, "r4")
		changed.Event.Type, changed.Event.Fields = personal.EventProfileUpdated, []string{"city", "name"}
		addJobs(t, s, []accounts.NewJob{
			happened(7, 3, "r3"), happened(7, 1, "r1"), changed, happenedTo(0, personal.EventSignInFailed, personal.ActorUser, "192.0.2.9"),
		})
		var out bytes.Buffer
		if err := transfer.ExportAudit(t.Context(), s, time.Unix(2, 0), &out); err != nil {
			t.Fatal(err)
		}
		const want = `{"time":"1970-01-01T00:00:03Z","type":"signed_in","user_id":7,"address":"192.0.2.1","request_id":"r3","actor":"user"}
{"time":"1970-01-01T00:00:04Z","type":"profile_updated","user_id":7,"address":"192.0.2.1","request_id":"r4","actor":"user","fields":["city","name"]}
{"time":"1970-01-12T13:46:40Z","type":"sign_in_failed","address":"192.0.2.9","actor":"user","actor_name":"Olga"}
`
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestExportPerson_EmailFindsItsOwner(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		s := openStore(t, url)
		owner := accounts.Account{Login: "ada", LoginKey: "ada", PasswordHash: bcrypt, CredentialVersion: 1}
		owner.Email, _ = accounts.ParseEmail("ada@example.com")
		squatter := accounts.Account{Login: "ada@example.com", LoginKey: "ada@example.com", PasswordHash: bcrypt, CredentialVersion: 1}
		fill(t, s, squatter)
		fill(t, s, owner)
		var out bytes.Buffer
		if err := transfer.ExportPerson(t.Context(), s, transfer.Query{Text: "ada@example.com"}, &out); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), `"login": "ada"`) {
			t.Errorf("got other data than the owner's:\n%s", out.String())
		}
	})
}
