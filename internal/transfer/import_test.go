package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/internal/transfer"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

func TestImport_FormOfADigest(t *testing.T) {
	const digits = "1718b1e30bf3987e092e9bf62a31b1a7" // md5(p.s) of phrase and Zr8aQ
	s := openStore(t, testdb.SQLite(t))
	r := newRun(t, s)
	r.HashForm = "md5(p.s)"
	done := r.file(t, transfer.CSV, "login,password_hash,password_salt,hash_form\n"+
		"column,"+digits+",Zr8aQ,\n"+
		"colon,"+digits+":Zr8aQ,,\n"+
		"stated,661159022b2931678d254426b1b06a5c,Zr8aQ,md5(s.p)\n"+
		"other,"+bcrypt+",,\n"+
		"wrong,"+digits+",Zr8aQ,md5(q)\n"+
		"missing,"+digits+",,\n")
	if done.Imported != 4 || done.Refused != 2 {
		t.Fatalf("got %+v and refused\n%s", done, r.report.String())
	}
	for _, reason := range []string{"6: password_hash: bad password hash: the form is not like",
		"7: password_hash: bad password hash: the salt of the form md5(p.s) is missing"} {
		if !strings.Contains(r.report.String(), reason) {
			t.Errorf("got refused\n%s\nwant %q", r.report.String(), reason)
		}
	}
	for _, login := range []string{"column", "colon", "stated", "other"} {
		hash := account(t, s, login).PasswordHash
		if got, err := cheapHasher(t).Verify(t.Context(), password.Source{}, hash, phrase); err != nil || !got.Match || password.IsBare(hash) {
			t.Errorf("%s: got %q, %+v, %v, want a match of a wrapped hash", login, hash, got, err)
		}
	}
	r = newRun(t, s)
	r.file(t, transfer.NDJSON, `{"login":"json","password_hash":"`+digits+`","password_salt":"Zr8aQ","hash_form":"md5(p.s)"}`)
	if got, err := cheapHasher(t).Verify(t.Context(), password.Source{}, account(t, s, "json").PasswordHash, phrase); err != nil ||
		!got.Match {
		t.Errorf("NDJSON: got %+v, %v", got, err)
	}
}

func TestImport_ReportOfDigits(t *testing.T) {
	r := newRun(t, openStore(t, testdb.SQLite(t)))
	r.HashForm = "pbkdf2-sha256$i=64000"
	r.file(t, transfer.CSV, "login,password_hash,password_salt\n"+
		"long,"+strings.Repeat("0a", 32)+",Zr8aQ\n"+
		"short,"+strings.Repeat("0a", 16)+",\n")
	want := []transfer.DigitCount{{Length: 64, Users: 1, Form: r.HashForm}, {Length: 32, Users: 1}}
	if diff := cmp.Diff(want, r.Report.Digits); diff != "" {
		t.Errorf("a form concerns digits of its length (-want +got):\n%s", diff)
	}
}

func TestImport_CSV(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		s := openStore(t, url)
		r := newRun(t, s)
		done := r.file(t, transfer.CSV, "\ufefflogin,email,name,password_hash,disabled,created,id,city,age,interests,vip,email_verified,locale,erase_at,street\r\n"+
			`Ada,Ada@Example.com,"Lovelace, ""Ada""",`+bcrypt+`,no,2020-01-02 03:04:05.5,7,kazan,36,"[""engines"",""poetry""]",true,yes,en-GB,,"St James`+"\n"+
			`Square"`+"\r\n\n"+
			"bob@example.com,BOB@example.com,,"+md5+`,1,1600000000,,,,"[""chess""]",,0,,1700000000,`+"\n"+
			"x,,,,,,,,,,,,,,")
		if done.Imported != 2 || r.report.String() != "6: login: too_short; password_hash: required\n" {
			t.Fatalf("got %+v and refused\n%s", done, r.report.String())
		}
		name := `Lovelace, "Ada"`
		if diff := cmp.Diff(accounts.Account{
			ID: 7, Login: "Ada", LoginKey: "ada", Name: &name, Email: accounts.Email{Address: "Ada@Example.com", Key: "ada@example.com"},
			PasswordHash: bcrypt, CredentialVersion: 1,
			Fields: userfields.Values{
				"city": "kazan", "age": int64(36), "interests": []string{"engines", "poetry"}, "vip": true, "street": "St James\nSquare",
			},
			Created: time.Date(2020, 1, 2, 3, 4, 5, 500_000_000, time.UTC), Updated: time.Date(2020, 1, 2, 3, 4, 5, 500_000_000, time.UTC),
			EmailVerified: true, Locale: "en-GB",
		}, account(t, s, "ada")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		bob := account(t, s, "bob@example.com")
		got, err := cheapHasher(t).Verify(t.Context(), password.Source{}, bob.PasswordHash, phrase)
		if err != nil || !got.Match || password.IsBare(bob.PasswordHash) {
			t.Errorf("the wrapped hash: got %+v, %v, want a match", got, err)
		}
		bob.PasswordHash = ""
		if diff := cmp.Diff(accounts.Account{
			ID: bob.ID, Login: "bob@example.com", LoginKey: "bob@example.com",
			Email: accounts.Email{Address: "BOB@example.com", Key: "bob@example.com"}, CredentialVersion: 1,
			Fields: userfields.Values{"interests": []string{"chess"}}, Disabled: true,
			Created: time.Unix(1600000000, 0).UTC(), Updated: time.Unix(1600000000, 0).UTC(),
			EraseAt: time.Unix(1700000000, 0).UTC(),
		}, bob); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestImport_NDJSON(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		s := openStore(t, url)
		r := newRun(t, s)
		r.file(t, transfer.NDJSON, `{"id":7,"login":"Ada","email":null,"name":"Ada","password_hash":"`+bcrypt+`","disabled":true,`+
			`"created":"2020-01-02T03:04:05.5+03:00","updated":1600000000,"city":"kazan","age":36,"interests":["a","b"],"vip":true,`+
			`"fields":{"gone":"x","street":"Main St","weight":1.5}}`)
		name := "Ada"
		if diff := cmp.Diff(accounts.Account{
			ID: 7, Login: "Ada", LoginKey: "ada", Name: &name, PasswordHash: bcrypt, CredentialVersion: 1, Disabled: true,
			Fields: userfields.Values{
				"city": "kazan", "age": int64(36), "interests": []string{"a", "b"}, "vip": true, "gone": "x", "weight": 1.5, "street": "Main St",
			},
			Created: time.Date(2020, 1, 2, 0, 4, 5, 500_000_000, time.UTC), Updated: time.Unix(1600000000, 0).UTC(),
		}, account(t, s, "ada")); diff != "" {
			t.Errorf("(-want +got):\n%s%s", diff, r.report.String())
		}
	})
}

func TestImport_ReadsTimesOfDatabases(t *testing.T) {
	s := openStore(t, testdb.SQLite(t))
	const want = "2019-05-04T10:00:00Z"
	for i, text := range []string{
		"2019-05-04T10:00:00Z", "2019-05-04T15:30:00+05:30", "2019-05-04T10:00:00", "2019-05-04 10:00:00", "2019-05-04 10:00:00.000000",
		"2019-05-04 10:00:00+00", "2019-05-04 10:00:00.000+00:00", "2019-05-04 15:30:00+05:30", "1556964000",
		"20190504100000" /* MediaWiki */, "1556964000000", // milliseconds
	} {
		login := fmt.Sprint("user", i)
		r := newRun(t, s)
		r.file(t, transfer.CSV, "login,password_hash,created\n"+login+","+bcrypt+","+text+"\n")
		if r.report.Len() > 0 {
			t.Errorf("%s: got refused: %s", text, r.report.String())
		} else if got := account(t, s, login).Created.Format(time.RFC3339Nano); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func TestImport_RefusesNDJSONRowWithReasons(t *testing.T) {
	for name, test := range map[string]struct{ row, want string }{
		"an empty object":           {`{}`, "login: required; password_hash: required"},
		"all at once":               {`{"login":"a","email":"b","name":"\u0007","password_hash":"c","disabled":"maybe","created":"soon","id":"x"}`, "created: invalid_format; disabled: invalid_type; email: invalid_format; id: invalid_type; login: too_short; name: invalid_format; password_hash: bad password hash: unknown format"},
		"other types":               {`{"login":1,"email":[],"password_hash":true,"disabled":[true]}`, "disabled: invalid_type; email: invalid_type; login: invalid_type; password_hash: invalid_type"},
		"a name that forges a line": {`{"login":"anna","x\u001b[31m\nline 9: ok":1,"password_hash":"` + bcrypt + `"}`, `"x\x1b[31m\nline 9: ok": unknown_field`},
		"another's e-mail as login, with a full-width @": {`{"login":"a＠example.com","email":"b@example.com","password_hash":"` + bcrypt + `"}`, "login: invalid_format"},
		"another's e-mail as login, with a small @":      {`{"login":"a\ufe6bexample.com","email":"b@example.com","password_hash":"` + bcrypt + `"}`, "login: invalid_format"},
		"another's e-mail as login":                      {`{"login":"a@example.com","email":"b@example.com","password_hash":"` + bcrypt + `"}`, "login: invalid_format"},
		"deep nesting":                                   {`{"login":"anna","x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}", "nested more than 100 levels deep"},
		"ids out of range":                               {`{"login":"anna","id":4503599627370497,"password_hash":"` + bcrypt + `"}`, "id: out_of_range"},
		"times out of range":                             {`{"login":"anna","created":"1969-01-01","updated":"1969-06-01","password_hash":"` + bcrypt + `"}`, "created: out_of_range; updated: out_of_range"},
		"user fields":                                    {`{"login":"anna","city":"nowhere","age":1.5,"groups":"admin","other":1,"password_hash":"` + bcrypt + `"}`, "age: invalid_type; city: not_in_list; groups: read_only; other: unknown_field"},
		"exported fields":                                {`{"login":"anna","fields":{"a":{"b":1e999}},"password_hash":"` + bcrypt + `"}`, "fields: a value has no type of user fields"},
		"exported and checked":                           {`{"login":"anna","fields":{"city":"nowhere","gone":"nowhere"},"password_hash":"` + bcrypt + `"}`, "city: not_in_list"},
		"a field twice":                                  {`{"login":"anna","city":"kazan","fields":{"city":"kazan"},"password_hash":"` + bcrypt + `"}`, `"city" is repeated`},
		"a confirmed e-mail that is missing":             {`{"login":"anna","email_verified":true,"password_hash":"` + bcrypt + `"}`, "email: required"},
		"an erasure of an enabled account":               {`{"login":"anna","erase_at":"2030-01-01","password_hash":"` + bcrypt + `"}`, "disabled: required"},
		"no locale, no boolean, no time":                 {`{"login":"anna","email_verified":"maybe","locale":"?","erase_at":"soon","disabled":true,"password_hash":"` + bcrypt + `"}`, "email_verified: invalid_type; erase_at: invalid_format; locale: invalid_format"},
		"too many locales":                               {`{"login":"anna","locale":"` + strings.Repeat("de,", 21) + `en","password_hash":"` + bcrypt + `"}`, "locale: invalid_format"},
		"no way to sign in":                              {`{"login":"anna","password_hash":"!"}`, "email: required"},
		"a NUL":                                          {`{"login":"anna","fields":{"a":"\u0000"},"password_hash":"` + bcrypt + `"}`, "fields: a NUL, which PostgreSQL cannot store"},
		"a NUL in a list":                                {`{"login":"anna","fields":{"a":["b","\u0000"]},"password_hash":"` + bcrypt + `"}`, "fields: a NUL, which PostgreSQL cannot store"},
		"a NUL in a name":                                {`{"login":"anna","fields":{"\u0000":"a"},"password_hash":"` + bcrypt + `"}`, "fields: a NUL, which PostgreSQL cannot store"},
		"an endless line":                                {strings.Repeat("x", 3<<20), "longer than 1048576 bytes"},
		"truncated":                                      {`{"login":"anna"`, "not a JSON object"},
		"trailing object":                                {`{"login":"anna"} {}`, "text follows the JSON object"},
		"a name twice":                                   {`{"login":"anna","login":"anna"}`, `"login" is repeated`},
		"not UTF-8":                                      {"{\"login\":\"\xff\"}", "not UTF-8"},
		"half a character":                               {`{"login":"anna","name":"\\\ud83d!"}`, "a \\u escape of half a character: write it as UTF-8"},
		"the other half":                                 {`{"login":"anna","name":"\ud83d\ude00\uDE00"}`, "a \\u escape of half a character: write it as UTF-8"},
		"a raw NUL":                                      {"{\"login\":\"\x00\"}", "not a JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, testdb.SQLite(t))
			r := newRun(t, s)
			done := r.file(t, transfer.NDJSON, "\n"+test.row+"\n"+`{"login":"last","password_hash":"!","email":"last@example.com"}`)
			if got, want := r.report.String(), "2: "+test.want+"\n"; got != want || done.Refused != 1 {
				t.Errorf("got  %swant %s", got, want)
			}
			if got := export(t, s); strings.Count(got, "\n") != 1 || !strings.Contains(got, `"login":"last"`) {
				t.Errorf("got stored accounts %s, want the last row only", got)
			}
		})
	}
}

func TestImport_RefusesCSVRowWithReason(t *testing.T) {
	for name, test := range map[string]struct{ row, want string }{
		"not UTF-8":                   {"anna,\xff,,", "2: password_hash: not UTF-8"},
		"a NUL, and half a character": {"anna," + bcrypt + ",\x00,\xed\xa0\xbd", "2: city: not UTF-8; interests: has a NUL"},
		"an endless value":            {"anna,\"" + strings.Repeat("mal,"+bcrypt+",,\n", 30_000) + "\",,", "2: longer than 1048576 bytes, in lines 2 to 30002"},
		"an endless line of one":      {"anna,\"" + strings.Repeat("x", 3<<20) + "\nmal," + bcrypt + ",,\n\",,", "2: longer than 1048576 bytes, in lines 2 to 4"},
		"one that ends with one":      {"\"anna\nmal," + bcrypt + ",,\n" + strings.Repeat("x", 2<<20) + "\",,,", "2: longer than 1048576 bytes, in lines 2 to 4"},
		"an endless line":             {"anna," + strings.Repeat("x", 3<<20), "2: longer than 1048576 bytes"},
		"text for a list":             {"anna," + bcrypt + ",\"a,b\",", "2: interests: invalid_type"},
		"invalid JSON for a list":     {"anna," + bcrypt + ",\"[\"\"a\"\",]\",", "2: interests: invalid_type"},
		"a single item":               {"anna," + bcrypt + ",a,", "2: interests: invalid_type"},
		"too few columns":             {"anna," + bcrypt, "2: 2 columns, the first line has 4"},
		"a quote within a value":      {"an\"na," + bcrypt + ",,", "2: misplaced quotes"},
		"text after a quote":          {"\"an\"na," + bcrypt + ",,", "2: misplaced quotes"},
		"a quote that swallows":       {"anna,\"" + bcrypt + ",,\nboris," + bcrypt + ",,\"\"\nclara,\"x,,", "2: misplaced quotes, which joined lines 2 to 4 into one row"},
	} {
		t.Run(name, func(t *testing.T) {
			for after, imported := range map[string]int64{"": 0, "\n": 0, "\n\nlast," + bcrypt + ",,": 1} {
				r := newRun(t, openStore(t, testdb.SQLite(t)))
				done := r.file(t, transfer.CSV, "login,password_hash,interests,city\n"+test.row+after)
				if got := r.report.String(); got != test.want+"\n" || done.Refused != 1 || done.Imported != imported {
					t.Errorf("followed by %q: got  %swant %s, %+v", after, got, test.want, done)
				}
			}
		})
	}
}

func TestImport_RefusesUnreadableFile(t *testing.T) {
	for name, test := range map[string]struct{ file, want string }{
		"empty":              {"", "name the columns"},
		"an unknown column":  {"login,password_hash,phone\n", `"phone"`},
		"a column twice":     {"login,login,password_hash\n", `"login" is repeated`},
		"no login":           {"email,password_hash\n", `the column "login" is missing`},
		"no hash":            {"email,login\n", `the column "password_hash" is missing`},
		"another separator":  {"login|password_hash\n", `"login|password_hash"`},
		"an open last value": {"login,password_hash\nanna,\"x", "line 2: a quote is opened and not closed before the end"},
		"an open quote":      {"login,password_hash\n\"anna,x\nboris,y\n", "line 2: a quote is opened and not closed before the end"},
		"another encoding":   {"login,password_hash,\xe3\xee\xf0\xee\xe4\n", "not UTF-8"},
		"an endless record":  {"login,password_hash\n\"" + strings.Repeat("x\n", 1<<20), "line 2: a quote is opened and not closed before the end"},
		"an endless header":  {strings.Repeat("x", 2<<20), "longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newRun(t, openStore(t, testdb.SQLite(t))).Run(t.Context(), transfer.File{ReadSeeker: strings.NewReader(test.file), Format: transfer.CSV})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want it to contain %q", err, test.want)
			}
		})
	}
}

func TestImport_ReportsConflictsAndMergesNothing(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		s := openStore(t, url)
		r := newRun(t, s)
		r.file(t, transfer.CSV, "login,email,password_hash\nanna,anna@example.com,"+bcrypt+"\n")
		before := export(t, s)
		r = newRun(t, s)
		file := "login,email,password_hash\n" +
			"ANNA,other@example.com," + bcrypt + "\n" +
			"boris,Anna@Example.com," + bcrypt + "\n" +
			"Anna,ANNA@example.com," + bcrypt + "\n" +
			"anna,anna@example.com," + bcrypt + "\n" +
			"clara,clara@example.com," + bcrypt + "\n" +
			"Clara,clara2@example.com," + bcrypt + "\n"
		const want = "2: login: taken by account 1\n3: email: taken by account 1\n" +
			"4: email: taken by account 1; login: taken by account 1\n7: login: taken by "
		dryRun := newRun(t, transfer.DryRun{Temporary: openStore(t, testdb.SQLite(t)), Real: s})
		if done := dryRun.file(t, transfer.CSV, file); done.Imported != 1 || dryRun.report.String() != want+"the row of line 6\n" {
			t.Errorf("the dry run: got %+v and refused\n%s", done, dryRun.report.String())
		}
		if export(t, s) != before {
			t.Error("the dry run changed the database")
		}
		if done := r.file(t, transfer.CSV, file); done.Imported != 1 ||
			r.report.String() != fmt.Sprintf("%saccount %d\n", want, account(t, s, "clara").ID) {
			t.Errorf("got %+v and refused\n%s", done, r.report.String())
		}
		if after := export(t, s); !strings.HasPrefix(after, before) || strings.Count(after, "\n") != 2 {
			t.Errorf("got\n%s\nwant one line after\n%s", after, before)
		}
	})
}

// Columns of fixed width end with spaces, and people type some. Wherever such a row stands, it takes
// nothing from a row that has the same login or e-mail without them.
func TestImport_WhiteSpaceAroundIdentifiersIsCut(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		s := openStore(t, url)
		lines := []string{
			" anna,anna2@example.com," + bcrypt, "anna,anna@example.com," + bcrypt,
			"boris2,\u00a0boris@example.com\t," + bcrypt, "boris,boris@example.com," + bcrypt,
			"clara   , clara@example.com," + bcrypt, "  ,dora@example.com," + bcrypt,
		}
		for name, file := range map[string]string{"the cut rows first": strings.Join(lines, "\n"), "last": lines[4] + "\n" + lines[5] + "\n" +
			lines[1] + "\n" + lines[3] + "\n" + lines[0] + "\n" + lines[2]} {
			r := newRun(t, transfer.DryRun{Temporary: openStore(t, testdb.SQLite(t))})
			if done := r.file(t, transfer.CSV, "login,email,password_hash\n"+file+"\n"); done.Imported != 3 || done.Refused != 3 {
				t.Errorf("%s: got %+v, refused\n%s", name, done, r.report.String())
			}
			const cut = " (the login or the e-mail of this row is not that of the file, which is cut, mended or changed)"
			for taken, by := range map[string]string{"login": lines[1], "email": lines[3]} {
				line := strings.Count(file[:strings.Index("\n"+file, "\n"+by)], "\n") + 2
				if want := fmt.Sprintf(": %s: taken by the row of line %d%s\n", taken, line, cut); !strings.Contains(r.report.String(), want) {
					t.Errorf("%s: got\n%s\nwant one with%s", name, r.report.String(), want)
				}
			}
			if want := "login: taken by an earlier row" + cut; !slices.ContainsFunc(r.Report.Cannot, func(o transfer.Reason) bool { return o.Reason == want }) {
				t.Errorf("%s: got the reasons %+v, want %q, which counts all such rows", name, r.Report.Cannot, want)
			}
		}
		r := newRun(t, s)
		done := r.file(t, transfer.CSV, "login,email,password_hash\n"+strings.Join(lines, "\n")+"\n")
		const cut = " (the login or the e-mail of this row is not that of the file, which is cut, mended or changed)\n"
		want := fmt.Sprintf("2: login: taken by account %d%s4: email: taken by account %d%s7: login: required\n",
			account(t, s, "anna").ID, cut, account(t, s, "boris").ID, cut)
		if done.Imported != 3 || r.report.String() != want {
			t.Errorf("got %+v, refused\n%s\nwant\n%s", done, r.report.String(), want)
		}
		if a := account(t, s, "clara"); a.Login != "clara" || a.Email.Address != "clara@example.com" {
			t.Errorf("got %q, %q", a.Login, a.Email.Address)
		}
		again := newRun(t, s)
		if done := again.file(t, transfer.CSV, "login,email,password_hash\n"+lines[4]+"\n"); done.Existing != 1 {
			t.Errorf("the same row again: got %+v, refused %s", done, again.report.String())
		}
	})
}

func TestImport_SpellingDistinguishesAccountsWithoutEmail(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		s := openStore(t, url)
		const head = "login,password_hash\n"
		r := newRun(t, s)
		r.file(t, transfer.CSV, head+"Anna,"+bcrypt+"\nanna,"+md5+"\nAnna,"+md5+"\n")
		if want := "3: login: taken by account 1\n4: login: taken by account 1\n"; r.report.String() != want {
			t.Errorf("in one batch: got %s, want %s", r.report.String(), want)
		}
		r = newRun(t, s)
		done := r.file(t, transfer.CSV, head+"anna,"+md5+"\nAnna,"+bcrypt+"\n")
		if want := "2: login: taken by account 1\n"; r.report.String() != want || done.Existing != 1 {
			t.Errorf("in a later import: got %+v and %s, want %s", done, r.report.String(), want)
		}
	})
}

// rows returns a CSV file of n accounts, of which every tenth is invalid.
func rows(n int, hash string) string {
	var b strings.Builder
	b.WriteString("login,email,name,password_hash\n")
	for i := range n {
		email := fmt.Sprintf("user%d@example.com", i)
		if i%10 == 9 {
			email = "invalid"
		}
		fmt.Fprintf(&b, "user%d,%s,User %d,%s\n", i, email, i, hash)
	}
	return b.String()
}

var errCut = errors.New("cut short")

func TestImport_RerunAfterCancelImportsRest(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		s := openStore(t, url)
		const n = 5000
		file := rows(n, bcrypt)
		first := newRun(t, s)
		ctx, cancel := context.WithCancelCause(t.Context())
		first.Progress = func(p transfer.Progress) {
			if p.Imported >= 1500 {
				cancel(errCut)
			}
		}
		cut, err := first.Run(ctx, transfer.File{ReadSeeker: strings.NewReader(file), Format: transfer.CSV})
		if !errors.Is(err, context.Canceled) || cut.Imported < 1500 || cut.Imported >= n*9/10 {
			t.Fatalf("got %+v, %v, want context.Canceled and a part of the rows", cut, err)
		}
		second := newRun(t, s)
		done := second.file(t, transfer.CSV, file)
		want := transfer.Progress{Offset: int64(len(file)), Imported: n*9/10 - cut.Imported, Existing: cut.Imported, Refused: n / 10}
		if done != want {
			t.Errorf("got %+v, want %+v", done, want)
		}
		var report strings.Builder
		for i := 9; i < n; i += 10 {
			fmt.Fprintf(&report, "%d: email: invalid_format\n", i+2)
		}
		if diff := cmp.Diff(report.String(), second.report.String()); diff != "" {
			t.Errorf("refused (-want +got):\n%.2000s", diff)
		}
		if got := strings.Count(export(t, s), "\n"); got != n*9/10 {
			t.Errorf("got %d accounts, want %d", got, n*9/10)
		}
	})
}

// countingWrapper counts calls of Wrap.
type countingWrapper struct {
	transfer.Wrapper
	wrapped atomic.Int64
}

func (w *countingWrapper) Wrap(ctx context.Context, hash string) (string, error) {
	w.wrapped.Add(1)
	return w.Wrapper.Wrap(ctx, hash)
}

func TestImport_RerunWrapsNoExistingOrTakenRow(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		s := openStore(t, url)
		const n = 500
		file := rows(n, md5)
		newRun(t, s).file(t, transfer.CSV, file)
		before := export(t, s)
		again := newRun(t, s)
		wrapper := &countingWrapper{Wrapper: again.Wrapper}
		again.Wrapper = wrapper
		done := again.file(t, transfer.CSV, file+"USER1,other@example.com,,"+md5+"\nnew,new@example.com,,"+md5+"\n")
		if done.Imported != 1 || done.Existing != n*9/10 || done.Refused != n/10+1 {
			t.Errorf("got %+v", done)
		}
		if got := wrapper.wrapped.Load(); got != 1 {
			t.Errorf("got %d hashes wrapped, want 1, of the new row", got)
		}
		if after := export(t, s); !strings.HasPrefix(after, before) || strings.Count(after, "\n") != n*9/10+1 {
			t.Error("existing accounts have changed")
		}
	})
}

// racing is a store whose existing accounts are added after the lookup.
type racing struct{ transfer.Store }

func (racing) Conflicts(_ context.Context, batch []accounts.Account) ([]transfer.Outcome, error) {
	return make([]transfer.Outcome, len(batch)), nil
}

func TestImport_InsertFindsAccountsAddedMeanwhile(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		s := openStore(t, url)
		newRun(t, s).file(t, transfer.CSV, rows(20, bcrypt))
		before := export(t, s)
		r := newRun(t, racing{s})
		done := r.file(t, transfer.CSV, "login,email,name,password_hash\nuser0,user0@example.com,,"+bcrypt+"\nUSER1,other@example.com,,"+bcrypt+"\n")
		if done.Existing != 1 || done.Refused != 1 || r.report.String() != "3: login: taken by account 2\n" {
			t.Errorf("got %+v\n%s", done, r.report.String())
		}
		if export(t, s) != before {
			t.Error("existing accounts have changed")
		}
	})
}

func TestImport_RowsBeforeOpenQuoteAreImported(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		s := openStore(t, url)
		const n = 2500
		done, err := newRun(t, s).Run(t.Context(), transfer.File{ReadSeeker: strings.NewReader(rows(n, bcrypt) + "\"anna,anna@example.com,," + bcrypt + "\n"), Format: transfer.CSV})
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("line %d: a quote is opened and not closed", n+2)) {
			t.Errorf("got %v, want an error on line %d", err, n+2)
		}
		if all, _, err := s.CountAccounts(t.Context()); err != nil || all != n*9/10 || done.Imported != all {
			t.Errorf("got %d accounts and %+v, %v, want %d", all, done, err, n*9/10)
		}
	})
}

func TestWrapping_WrapsImportedMD5(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		s := openStore(t, url)
		r := newRun(t, s)
		r.Later = true
		r.file(t, transfer.CSV, rows(200, md5))
		if all, bare, err := s.CountAccounts(t.Context()); err != nil || all != 180 || bare != 180 {
			t.Fatalf("got %d bare of %d, %v, want all of 180", bare, all, err)
		}
		jobs := claimWrapping(t, s)
		if len(jobs) != 2 {
			t.Fatalf("got %d jobs, want 2", len(jobs))
		}
		wrapping := transfer.Wrapping{Store: s, Wrapper: cheapHasher(t), Log: slog.New(slog.DiscardHandler)}
		for _, j := range append(jobs, jobs[0]) { // one of them repeated
			if err := wrapping.Do(t.Context(), j); err != nil {
				t.Fatal(err)
			}
		}
		if _, bare, err := s.CountAccounts(t.Context()); err != nil || bare != 0 {
			t.Errorf("got %d bare hashes, %v, want none", bare, err)
		}
		got, err := cheapHasher(t).Verify(t.Context(), password.Source{}, account(t, s, "user0").PasswordHash, phrase)
		if err != nil || !got.Match {
			t.Errorf("got %+v, %v, want a match", got, err)
		}
	})
}

func TestWrapping_LeavesAHashThatCannotBeRead(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		s := openStore(t, url)
		r := newRun(t, s)
		r.Later = true
		r.file(t, transfer.CSV, rows(3, md5))
		damaged := account(t, s, "user1")
		if err := s.ReplaceHash(t.Context(), damaged.ID, damaged.PasswordHash, "$waits$damaged"); err != nil {
			t.Fatal(err)
		}
		var logged bytes.Buffer
		wrapAll(t, s, slog.NewTextHandler(&logged, nil))
		if _, bare, err := s.CountAccounts(t.Context()); err != nil || bare != 1 {
			t.Errorf("got %d bare hashes, %v, want the damaged one", bare, err)
		}
		if want := fmt.Sprintf("user_id=%d", damaged.ID); strings.Count(logged.String(), "\n") != 1 || !strings.Contains(logged.String(), want) {
			t.Errorf("got the log %q, want one line with %s", &logged, want)
		}
	})
}

// claimWrapping claims the jobs of an import. They are due, but a measurement of the database's clock on a
// busy machine may put that some milliseconds off.
func claimWrapping(t *testing.T, s *store.Store) (jobs []outbox.Job) {
	t.Helper()
	for try := 0; len(jobs) == 0 && try < 1000; try++ {
		var err error
		jobs, err = s.ClaimJobs(t.Context(), outbox.Claim{Kinds: []outbox.Kind{transfer.KindWrap}, N: 100, Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
	}
	return jobs
}

// wrapAll does the jobs of an import.
func wrapAll(t *testing.T, s *store.Store, log slog.Handler) {
	t.Helper()
	jobs := claimWrapping(t, s)
	if len(jobs) != 1 {
		t.Fatalf("got %d jobs, want 1", len(jobs))
	}
	wrapping := transfer.Wrapping{Store: s, Wrapper: cheapHasher(t), Log: slog.New(log)}
	if err := wrapping.Do(t.Context(), jobs[0]); err != nil {
		t.Fatal(err)
	}
}

func TestImport_RefusesValuesBeyondTypeLimit(t *testing.T) {
	s := openStore(t, testdb.SQLite(t))
	r := newRun(t, s)
	done := r.file(t, transfer.CSV, "login,password_hash,street\n"+
		"anna,"+bcrypt+","+strings.Repeat("ж", 20_000)+"\n"+
		"boris,"+bcrypt+","+strings.Repeat("ж", 20_001)+"\n")
	if done.Imported != 1 || r.report.String() != "3: street: too_long\n" {
		t.Errorf("got %+v and refused\n%s", done, r.report.String())
	}
}

// A schema may have user fields with the names of columns that came later.
func TestImport_UserFieldWithTheNameOfAColumn(t *testing.T) {
	schema, err := userfields.Compile([]personal.Field{{Name: "locale", Type: personal.TypeText}, {Name: "city", Type: personal.TypeText}})
	if err != nil {
		t.Fatal(err)
	}
	s := openStore(t, testdb.SQLite(t))
	r := newRun(t, s)
	r.Schema = schema
	r.file(t, transfer.NDJSON, `{"login":"anna","locale":"ru","fields":{"locale":"Sakha"},"city":"x","password_hash":"`+bcrypt+`"}
{"login":"bert","fields":{"locale":"Sakha"},"password_hash":"`+bcrypt+`"}
{"login":"carl","locale":"ru","password_hash":"`+bcrypt+`"}`)
	const how = `a user field has this name, too: write NDJSON, with the user fields in an object "fields"`
	if want := "3: locale: " + how + "\n"; r.report.String() != want {
		t.Errorf("got refused %q, want %q", r.report.String(), want)
	}
	for login, want := range map[string]string{"anna": "ru", "bert": ""} {
		if a := account(t, s, login); a.Locale != want || a.Fields["locale"] != "Sakha" {
			t.Errorf("%s: got locale %q and fields %v, want locale %q and the user field", login, a.Locale, a.Fields, want)
		}
	}
	_, err = r.Run(t.Context(), transfer.File{ReadSeeker: strings.NewReader("login,password_hash,locale\n"), Format: transfer.CSV})
	if want := `column "locale": ` + how; err == nil || err.Error() != want {
		t.Errorf("CSV: got %v, want %s", err, want)
	}
}
