package transfer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/internal/transfer"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

// What spreadsheets, database tools and exports of other systems do to a file of users.
func TestImport_ReadsOddFiles(t *testing.T) {
	for what, test := range map[string]struct {
		format         transfer.Format
		text           string
		imported       int64
		report, ending string // ending is the error
	}{
		"rows without a value":           {format: transfer.CSV, text: "login;password_hash;name\nada;" + bcrypt + ";\n;;\n;;\nbob;" + bcrypt + ";\n", imported: 2},
		"columns without a name":         {format: transfer.CSV, text: "login;password_hash;;\nada;" + bcrypt + ";;\n", imported: 1},
		"lines that end in CR":           {format: transfer.CSV, text: "login,password_hash\rada," + bcrypt + "\r", ending: "the lines of the file end in CR alone"},
		"NULL and \\N":                   {format: transfer.CSV, text: "login,password_hash,email,created,city\nada," + bcrypt + `,\N,NULL,NULL` + "\n", imported: 1},
		"a hash that is padded":          {format: transfer.CSV, text: "login,password_hash\nada," + bcrypt + "   \nbob,\" " + bcrypt + "\n\"\n", imported: 2},
		"a form that is padded":          {format: transfer.CSV, text: "login,password_hash,hash_form\nada,1718b1e30bf3987e092e9bf62a31b1a7:Zr8aQ,md5(p.s)  \n", imported: 1},
		"words for booleans":             {format: transfer.CSV, text: "login,password_hash,vip\nada," + bcrypt + ",TRUE\nbob," + bcrypt + ",yes\ncleo," + bcrypt + ",N\n", imported: 3},
		"a time that is short":           {format: transfer.CSV, text: "login,password_hash,created\nada," + bcrypt + ",44196\n", report: "2: created: invalid_format\n"},
		"a list of JSON":                 {format: transfer.NDJSON, text: `[{"login":"ada","password_hash":"!"}` + ",\n" + `{"login":"bob","password_hash":"!"}]`, ending: "jq -c '.[]'"},
		"JSON over several lines":        {format: transfer.NDJSON, text: "{\n\"login\":\"ada\",\n\"password_hash\":\"!\"}\n", ending: "jq -c ."},
		"an object in one line":          {format: transfer.NDJSON, text: `{"login":"ada","password_hash":"` + bcrypt + `"}`, imported: 1},
		"an empty row and its comma":     {format: transfer.CSV, text: "login,password_hash\n,\nada," + bcrypt + "\n", imported: 1},
		"only rows without a value":      {format: transfer.CSV, text: "login,password_hash\n" + strings.Repeat(",\n", 100_000)},
		"a name that is NULL for a joke": {format: transfer.CSV, text: "login,password_hash,name\nada," + bcrypt + ",NULL\n", imported: 1},
	} {
		t.Run(what, func(t *testing.T) {
			r := newRun(t, openStore(t, testdb.SQLite(t)))
			done, err := r.Run(t.Context(), transfer.File{ReadSeeker: strings.NewReader(test.text), Format: test.format})
			if test.ending != "" {
				if err == nil || !strings.Contains(err.Error(), test.ending) || done.Imported != 0 {
					t.Errorf("got %+v and %v, want nothing and %s", done, err, test.ending)
				}
				return
			}
			if err != nil || done.Imported != test.imported || r.report.String() != test.report {
				t.Errorf("got %+v, %v and\n%swant %d imported and\n%s", done, err, r.report.String(), test.imported, test.report)
			}
		})
	}
}

// User fields that are dates, times and booleans, as databases write them.
func TestImport_ReadsFieldsOfDatabases(t *testing.T) {
	s, err := userfields.Compile([]personal.Field{{Name: "born", Type: personal.TypeDate}, {Name: "seen", Type: personal.TypeDateTime}, {Name: "vip", Type: personal.TypeBoolean}})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`"born":"1990-12-31"`:               "1990-12-31",
		`"born":"1990-12-31 00:00:00"`:      "1990-12-31",
		`"born":"31.12.1990"`:               "1990-12-31",
		`"born":"19901231"`:                 "1990-12-31",
		`"born":"0000-00-00"`:               "<nil>",
		`"born":"0001-01-01"`:               "<nil>",
		`"born":"1004-01-01"`:               "<nil>",
		`"born":"1980-05-04 00:00:00+02"`:   "1980-05-04",
		`"born":"1956-01-01"`:               "1956-01-01",
		`"born":"1970-01-01"`:               "1970-01-01", // someone's birthday
		`"seen":"2020-12-31 10:00"`:         "2020-12-31T10:00:00Z",
		`"seen":"2020-12-31 10:00:00+0000"`: "2020-12-31T10:00:00Z",
		`"seen":"2020-12-31 10:00:00 UTC"`:  "2020-12-31T10:00:00Z",
		`"seen":"1609408800"`:               "2020-12-31T10:00:00Z",
		`"vip":"TRUE"`:                      "true",
		`"vip":"No"`:                        "false",
	} {
		db := openStore(t, testdb.SQLite(t))
		r := newRun(t, db)
		r.Schema = s
		r.file(t, transfer.NDJSON, `{"login":"ada","password_hash":"`+bcrypt+`",`+text+`}`)
		name, _, _ := strings.Cut(text[1:], `"`)
		if r.report.String() != "" {
			t.Errorf("%s: got %s", text, r.report.String())
			continue
		}
		if got := fmt.Sprint(account(t, db, "ada").Fields[name]); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// Sites are not as their system makes them.
func TestMove_ReadsOddSites(t *testing.T) {
	const head = "/*!40101 SET NAMES utf8mb4 */;"
	const columns = "(ID,user_login,user_pass,user_email,user_registered,display_name"
	const django = "(id,password,email,is_active,date_joined,username"
	const rows = "VALUES (1,'!','1@example.com',1,NULL,'ada'"
	const realm = `{"users":[{"username":"ada","email":"1@example.com","createdTimestamp":1,"credentials":[%s]},{"username":"bob","email":"2@example.com"}]}`
	for what, test := range map[string]struct {
		system, dump string
		move         func(*transfer.Move)
		want         func(a accounts.Account) bool
		ending       string
	}{
		"MediaWiki before 1.13": {system: "mediawiki", dump: head + "INSERT INTO user (user_id,user_name,user_real_name,user_password,user_email,user_email_authenticated,user_registration) VALUES (7,'Ada','','4a2b5bd8b8c0de2ba0e0e2d3b7b5b9d1','1@example.com',NULL,'');",
			want: func(a accounts.Account) bool { return password.Name(a.PasswordHash) == "md5(s.-.md5(p))" }},
		"deleted values of Drupal 7": {system: "drupal7", dump: head + "INSERT INTO users (uid,name,pass,mail,created,status,language) VALUES (1,'ada','!','1@example.com',0,1,'');" +
			"INSERT INTO field_data_city (entity_type,deleted,entity_id,city_value) VALUES ('user',1,1,'omsk'),('user',0,1,'kazan');", move: city,
			want: func(a accounts.Account) bool { return a.Fields["city"] == "kazan" }},
		"deleted values of Drupal 10": {system: "drupal10", dump: head + "INSERT INTO users_field_data (uid,name,pass,mail,created,status,preferred_langcode,default_langcode) VALUES (1,'ada','!','1@example.com',0,1,'en',1);" +
			"INSERT INTO user__city (bundle,deleted,entity_id,city_value) VALUES ('user',1,1,'omsk'),('user',0,2,'kazan');", move: city,
			want: func(a accounts.Account) bool { return a.Fields["city"] == nil }},
		"a spammer of BuddyPress": {system: "wordpress", dump: head + "INSERT INTO wp_users " + columns + ",user_status) VALUES (1,'ada','!','1@example.com',NULL,'',2);",
			want: func(a accounts.Account) bool { return a.Disabled }},
		"a word for an inactive user": {system: "django", dump: head + "INSERT INTO auth_user " + django + ") " + strings.Replace(rows, ",1,NULL", ",'FALSE',NULL", 1) + ");", want: func(a accounts.Account) bool { return a.Disabled }},
		"a word for an active user":   {system: "django", dump: head + "INSERT INTO auth_user " + django + ") " + strings.Replace(rows, ",1,NULL", ",'TRUE',NULL", 1) + ");", want: func(a accounts.Account) bool { return !a.Disabled }},
		"a column of the site": {system: "django", dump: head + "INSERT INTO auth_user " + django + ",town) " + rows + ",'kazan');",
			move: func(m *transfer.Move) { m.Fields = []transfer.Mapped{{Theirs: "town", Ours: "city"}} },
			want: func(a accounts.Account) bool { return a.Fields["city"] == "kazan" }},
		"a table of another name": {system: "django", dump: head + "INSERT INTO `members_Users` " + django + ") " + rows + ");", want: func(a accounts.Account) bool { return a.ID == 1 }},
		"two tables of users":     {system: "django", dump: head + "INSERT INTO x_user " + django + ") " + rows + ");INSERT INTO x_users " + django + ") " + rows + ");", ending: "two tables"},
		"groups of a model of the site": {system: "django", dump: head + "INSERT INTO shop_customuser " + django + ") " + rows + ");INSERT INTO shop_customuser_groups (id,customuser_id,group_id) VALUES (1,1,5);",
			move: func(m *transfer.Move) { m.Roles = []transfer.Role{{Theirs: "5", Ours: "chief"}} }, want: func(a accounts.Account) bool { return a.Fields["role"] == "chief" }},
		"roles of a dump without them": {system: "django", dump: head + "INSERT INTO auth_user " + django + ") " + rows + ");",
			move: func(m *transfer.Move) { m.Roles = []transfer.Role{{Theirs: "5", Ours: "chief"}} }, ending: "--role: the dump has no roles: add the table user_groups, with its prefix"},
		"ids that are no numbers":      {system: "django", dump: head + "INSERT INTO auth_user " + django + ") " + strings.Replace(rows, "(1,", "('6c1b0b5e-0f0e',", 1) + ");", ending: "give --ids new"},
		"new ids for these":            {system: "django", dump: head + "INSERT INTO auth_user " + django + ") " + strings.Replace(rows, "(1,", "('6c1b0b5e-0f0e',", 1) + ");", move: func(m *transfer.Move) { m.NewIDs = true }, want: func(accounts.Account) bool { return true }},
		"a realm without ids":          {system: "keycloak", dump: fmt.Sprintf(realm, ""), want: func(accounts.Account) bool { return true }},
		"a realm with bcrypt":          {system: "keycloak", dump: fmt.Sprintf(realm, `{"type":"password","secretData":"{\"value\":\"`+bcrypt+`\"}","credentialData":"{\"algorithm\":\"bcrypt\"}"}`), want: func(a accounts.Account) bool { return a.PasswordHash == bcrypt }},
		"a realm with plain passwords": {system: "keycloak", dump: fmt.Sprintf(realm, `{"type":"password","value":"secret","temporary":true}`), want: func(a accounts.Account) bool { return password.IsUnusable(a.PasswordHash) }},
	} {
		t.Run(what, func(t *testing.T) {
			m := transfer.Move{System: test.system}
			if test.move != nil {
				test.move(&m)
				m = m.WithRoles()
			}
			staged, err := stage(t, m, strings.NewReader(test.dump))
			if test.ending != "" {
				if err == nil || !strings.Contains(err.Error(), test.ending) {
					t.Errorf("got %v, want %s", err, test.ending)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			s := openStore(t, testdb.SQLite(t))
			r := newRun(t, s)
			r.Later = true
			if _, err := r.Run(t.Context(), staged); err != nil || r.report.String() != "" {
				t.Fatalf("got %v and %s", err, r.report.String())
			}
			if a := account(t, s, "ada"); !test.want(a) {
				t.Errorf("got %+v", a)
			}
		})
	}
}

// A login that was mended takes none that another row has.
func TestImport_MendedLoginsComeLast(t *testing.T) {
	s := openStore(t, testdb.SQLite(t))
	r := newRun(t, s)
	r.MendHTML, r.MendUTF8 = true, true
	r.file(t, transfer.CSV, "id,login,password_hash\n1,&#97;dmin,"+bcrypt+"\n2,admin,"+bcrypt+"\n3,JÃ¼rgen,"+bcrypt+"\n4,Jürgen,"+bcrypt+"\n5,M&#252;ller,"+bcrypt+"\n")
	for login, id := range map[string]int64{"admin": 2, "jürgen": 4, "müller": 5} {
		if got := account(t, s, login).ID; got != id {
			t.Errorf("%s: got the row of id %d, want %d\n%s", login, got, id, r.report.String())
		}
	}
}

// A rerun with corrected rows finds the accounts of changed logins again.
func TestMove_RerunFindsChangedLogins(t *testing.T) {
	dump := func(rows string) *strings.Reader {
		return strings.NewReader(wordpressUsers + rows + ";")
	}
	s := openStore(t, testdb.SQLite(t))
	m := transfer.Move{System: "wordpress", Logins: transfer.ProposeLogins}
	move(t, s, m, dump("(1,'x','!','same@example.com',NULL,''),(2,'john doe','!','bad',NULL,''),(3,'John  Doe','!','3@example.com',NULL,''),(4,' john_doe_4 ','!','4@example.com',NULL,'')"))
	r, report := move(t, s, m, dump("(3,'John  Doe','!','3@example.com',NULL,''),(4,' john_doe_4 ','!','4@example.com',NULL,'')"))
	if report.Existing != 2 || report.Refused != 0 {
		t.Errorf("got %+v and\n%s", report, r.report.String())
	}
}

// A dry run gives the logins that the import will.
func TestMove_DryRunKnowsTheLoginsOfTheDatabase(t *testing.T) {
	s := openStore(t, testdb.SQLite(t))
	r := newRun(t, s)
	r.file(t, transfer.CSV, "login,password_hash\njohn_doe_2,"+bcrypt+"\n")
	const dump = wordpressUsers + "(1,'john doe','!','1@example.com',NULL,''),(2,'john  doe','!','2@example.com',NULL,'');"
	m := transfer.Move{System: "wordpress", Logins: transfer.ProposeLogins, NewIDs: true}
	var got []string
	for _, store := range []transfer.Store{transfer.DryRun{Temporary: openStore(t, testdb.SQLite(t)), Real: s}, s} {
		staged, err := stage(t, m, strings.NewReader(dump))
		if err != nil {
			t.Fatal(err)
		}
		r := newRun(t, store)
		list := ""
		r.Renamed = func(n transfer.Renaming) error {
			list += n.To + " "
			return nil
		}
		if _, err := r.Run(t.Context(), staged); err != nil {
			t.Fatal(err)
		}
		got = append(got, list)
	}
	if want := "john_doe user_2 "; got[0] != want || got[1] != want {
		t.Errorf("got %q in a dry run and %q, want %q", got[0], got[1], want)
	}
}

// An id of another system may be long.
func TestMove_LongIDs(t *testing.T) {
	long := strings.Repeat("a b", 30)
	r, report := move(t, openStore(t, testdb.SQLite(t)), transfer.Move{System: "keycloak", Logins: transfer.ProposeLogins},
		strings.NewReader(`{"users":[{"username":"`+long+`","email":"1@example.com"},{"username":"`+long+`x","email":"2@example.com"}]}`))
	if report.Imported != 1 || report.Refused != 1 { // both become the same 64 characters
		t.Errorf("got %+v and\n%s", report, r.report.String())
	}
}

// city maps the field that most tests have.
func city(m *transfer.Move) { m.Fields = []transfer.Mapped{{Theirs: "city", Ours: "city"}} }
