package transfer_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/internal/transfer"
)

// A value that an account can do without is left out and reported; with Strict it refuses the row.
func TestImport_LeavesOut(t *testing.T) {
	const unusable = "!"
	for what, test := range map[string]struct {
		row     string // of NDJSON, without login and hash
		hash    string
		refused bool   // also if it is not strict
		reason  string // "": nothing is wrong
	}{
		"an optional field":                 {row: `"city":"nowhere","age":36`, reason: "city: not_in_list"},
		"an item of a list":                 {row: `"interests":["engines","much too long"]`, reason: "interests: too_long"},
		"a name":                            {row: `"name":"a\u0007"`, reason: "name: invalid_format"},
		"a locale":                          {row: `"locale":"??"`, reason: "locale: invalid_format"},
		"a time":                            {row: `"created":"yesterday"`, reason: "created: invalid_format"},
		"a time of the far future":          {row: `"updated":"12019-05-04 10:00:00"`, reason: "updated: invalid_format"},
		"an e-mail beside a hash":           {row: `"email":"none"`, reason: "email: invalid_format"},
		"a confirmed e-mail that is none":   {row: `"email":"none","email_verified":true`, reason: "email: invalid_format"},
		"an e-mail that alone leads in":     {row: `"email":"none"`, hash: unusable, refused: true, reason: "email: invalid_format"},
		"what disables":                     {row: `"disabled":"perhaps"`, refused: true, reason: "disabled: invalid_type"},
		"what erases":                       {row: `"disabled":true,"erase_at":"soon"`, refused: true, reason: "erase_at: invalid_format"},
		"a column that is not in the list":  {row: `"citi":"kazan"`, refused: true, reason: "citi: unknown_field"},
		"an id":                             {row: `"id":"x"`, refused: true, reason: "id: invalid_type"},
		"a good value beside an optional":   {row: `"city":"omsk","age":"old"`, reason: "age: invalid_type"},
		"two, of which one refuses the row": {row: `"id":"x","age":"old"`, refused: true, reason: "age: invalid_type; id: invalid_type"},
	} {
		t.Run(what, func(t *testing.T) {
			if test.hash == "" {
				test.hash = bcrypt
			}
			text := `{"login":"anna",` + test.row + `,"password_hash":"` + test.hash + "\"}\n"
			for _, strict := range []bool{true, false} {
				s := openStore(t, testdb.SQLite(t))
				r := newRun(t, s)
				r.Strict = strict
				done := r.file(t, transfer.NDJSON, text)
				if strict || test.refused {
					if want := "1: " + test.reason + "\n"; strict && r.report.String() != want || done.Imported != 0 || len(r.Report.LeftOut) != 0 {
						t.Errorf("strict %v: got %+v and\n%swant\n%s", strict, done, r.report.String(), want)
					}
					continue
				}
				if want := "1: left out: " + test.reason + "\n"; r.report.String() != want || done.Imported != 1 {
					t.Errorf("got %+v and\n%swant\n%s", done, r.report.String(), want)
				}
				if diff := cmp.Diff([]transfer.Reason{{Reason: test.reason, Users: 1, Lines: []int{1}}}, r.Report.LeftOut); diff != "" {
					t.Errorf("the report (-want +got):\n%s", diff)
				}
				a := account(t, s, "anna")
				if a.Email.Address != "" || a.EmailVerified || a.Locale != "" || a.Name != nil || time.Since(a.Created) > time.Hour || len(a.Fields) > 1 {
					t.Errorf("got %+v, want nothing of the value", a)
				}
			}
		})
	}
}

// What databases write in the place of a time that is missing is no time, and no mistake.
func TestImport_ReadsMissingTimes(t *testing.T) {
	s := openStore(t, testdb.SQLite(t))
	for i, text := range []string{
		"", " ", "0", "0000-00-00", "0000-00-00 00:00:00", "0000-00-00 00:00:00.000000", "00000000000000", "1970-01-01", "1970-01-01 00:00:00",
		"1970-01-01 01:00:00", "1969-12-31 19:00:00", "1970-01-01T00:00:00Z", "0001-01-01 00:00:00", "0001-01-01T00:00:00Z", "-infinity", "infinity",
	} {
		login := "user" + string(rune('a'+i))
		r := newRun(t, s)
		r.file(t, transfer.CSV, "login,password_hash,created\n"+login+","+bcrypt+","+text+"\n")
		if r.report.String() != "" {
			t.Errorf("%q: got %s", text, r.report.String())
			continue
		}
		if a := account(t, s, login); time.Since(a.Created) > time.Hour {
			t.Errorf("%q: got created %v, want the time of the import", text, a.Created)
		}
	}
}
