package transfer_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/internal/transfer"
	"github.com/cms-personal/personal/shared/userfields"
)

// stage reads a dump.
func stage(t *testing.T, m transfer.Move, file io.Reader) (*transfer.Staged, error) {
	t.Helper()
	db, err := dbconn.OpenScratch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return m.Stage(t.Context(), db, file, schema(t))
}

// move imports a dump and returns the run and its report.
func move(t *testing.T, s *store.Store, m transfer.Move, file io.Reader) (*run, *transfer.Report) {
	t.Helper()
	staged, err := stage(t, m, file)
	if err != nil {
		t.Fatal(err)
	}
	r := newRun(t, s)
	r.Later = true
	r.Renamed = func(n transfer.Renaming) error {
		if !n.Existing {
			fmt.Fprintf(&r.report, "%d: %s becomes %s\n", n.Line, n.From, n.To)
		}
		return nil
	}
	done, err := r.Run(t.Context(), staged)
	if err != nil {
		t.Fatal(err)
	}
	r.Import.Report.Finish(done, staged, r.Schema)
	return r, &r.Import.Report
}

func open(t *testing.T, name string) io.Reader {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return file
}

func name(s string) *string { return &s }

// TestMove_EverySystem imports the dumps of testdata: an account with everything that comes along,
// and one that is told apart by the system's rules.
func TestMove_EverySystem(t *testing.T) {
	const uuid = "6c1b0b5e-0f0e-4a55-9d3c-0f9f6e7e"
	created := time.Date(2015, 3, 4, 5, 6, 7, 0, time.UTC)
	city := userfields.Values{"city": "kazan"}
	for system, test := range map[string]struct {
		fields     string // of --map
		adaPass    string
		ada, bob   accounts.Account
		bobPass    string
		notUsers   int64
		wantReport string
	}{
		"wordpress": {
			fields: "city=city interests=interests", adaPass: phrase, bobPass: phrase,
			ada: accounts.Account{ID: 1, Login: "ada", Name: name("Ada O'Lovelace"), Created: created, Locale: "de-DE",
				Fields: userfields.Values{"city": "kazan", "interests": []string{"engines", "poetry"}}},
			bob:        accounts.Account{ID: 2, Login: "Bob_B.", Disabled: true, Fields: userfields.Values{"city": "omsk"}},
			wantReport: "31: user 3: email: required\n31: user 4: login: taken by account 1\n30: Bob B. becomes Bob_B.\n",
		},
		"mediawiki": {
			adaPass: phrase, bobPass: phrase,
			ada:      accounts.Account{ID: 1, Login: "Ada_Lovelace", Name: name("Ada"), Created: created, Locale: "pt-BR", EmailVerified: true},
			bob:      accounts.Account{ID: 3, Login: "Bob"},
			notUsers: 1, wantReport: "16: Ada Lovelace becomes Ada_Lovelace\n",
		},
		"drupal7": {
			fields: "field_city=city", adaPass: "drupal_sha512", bobPass: "pouette1234",
			ada:      accounts.Account{ID: 1, Login: "ada", Created: created, Locale: "de", Fields: city},
			bob:      accounts.Account{ID: 5, Login: "bob", Created: created.Add(time.Second), Disabled: true},
			notUsers: 1,
		},
		"drupal10": {
			fields: "field_city=city", adaPass: "drupal_sha512", bobPass: phrase,
			ada:      accounts.Account{ID: 1, Login: "ada", Created: created, Locale: "pt-BR", Fields: city},
			bob:      accounts.Account{ID: 2, Login: "bob", Created: created.Add(time.Second), Locale: "en", Disabled: true},
			notUsers: 2,
		},
		"joomla": {
			fields: "profile.city=city field.3=age", adaPass: phrase, bobPass: phrase,
			ada: accounts.Account{ID: 42, Login: "ada", Name: name("Ada Lovelace"), Created: created, Locale: "de-DE", Fields: userfields.Values{"city": "kazan", "age": int64(36)}},
			bob: accounts.Account{ID: 43, Login: "bob", Name: name("Bob"), Created: created.Add(time.Second), Disabled: true},
		},
		"django": {
			fields: "first_name=street", adaPass: phrase, bobPass: "",
			ada: accounts.Account{ID: 1, Login: "ada", Name: name(`Ada Love\lace`), Created: created.Add(891 * time.Millisecond), Fields: userfields.Values{"street": "Ada"}},
			bob: accounts.Account{ID: 2, Login: "bob", Created: created.Add(time.Second), Disabled: true},
		},
		"keycloak": {
			fields: "city=city interests=interests id=street", adaPass: "user1", bobPass: phrase,
			ada: accounts.Account{Login: "ada", Name: name("Ada Lovelace"), Created: created.Add(891 * time.Millisecond), Locale: "de", EmailVerified: true,
				Fields: userfields.Values{"city": "kazan", "interests": []string{"engines", "poetry"}, "street": uuid + "0001"}},
			bob:      accounts.Account{Login: "bob", Created: created.Add(time.Second), Disabled: true, Fields: userfields.Values{"street": uuid + "0002"}},
			notUsers: 1,
		},
	} {
		t.Run(system, func(t *testing.T) {
			m := transfer.Move{System: system, Logins: transfer.ProposeLogins}
			for _, pair := range strings.Fields(test.fields) {
				theirs, ours, _ := strings.Cut(pair, "=")
				m.Fields = append(m.Fields, transfer.Mapped{Theirs: theirs, Ours: ours})
			}
			file := system + ".sql"
			if system == "keycloak" {
				file = "keycloak.json"
			}
			s := openStore(t, testdb.SQLite(t))
			r, report := move(t, s, m, open(t, file))
			if got := r.report.String(); got != test.wantReport {
				t.Errorf("got the report\n%swant\n%s", got, test.wantReport)
			}
			if report.NotUsers != test.notUsers {
				t.Errorf("got %d rows that are no users, want %d", report.NotUsers, test.notUsers)
			}
			for _, want := range []struct {
				accounts.Account
				password string
			}{{test.ada, test.adaPass}, {test.bob, test.bobPass}} {
				if want.Login == "" {
					continue
				}
				first := strings.ToLower(want.Login[:3])
				want.Account.Email = accounts.Email{Address: first + "@example.com", Key: first + "@example.com"}
				want.LoginKey, want.CredentialVersion = strings.ToLower(want.Login), 1
				got := account(t, s, want.LoginKey)
				verified, err := cheapHasher(t).Verify(t.Context(), password.Source{}, got.PasswordHash, want.password)
				if err != nil || verified.Match != (want.password != "") {
					t.Errorf("%s: got %+v, %v for the password", want.Login, verified, err)
				}
				if want.Created.IsZero() {
					got.Created = time.Time{} // the time of the import
				}
				if want.ID == 0 {
					got.ID = 0
				}
				if want.Fields == nil {
					want.Fields = userfields.Values{}
				}
				got.PasswordHash, got.Updated = "", time.Time{}
				if diff := cmp.Diff(want.Account, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", want.Login, diff)
				}
			}
		})
	}
}

func TestMove_ChoosesThePrefix(t *testing.T) {
	table := func(prefix string) string {
		return "CREATE TABLE `" + prefix + "users` (`ID` int, `user_login` text, `user_pass` text, `user_email` text, `user_registered` text, `display_name` text);\n" +
			"CREATE TABLE `" + prefix + "usermeta` (`user_id` int, `meta_key` text, `meta_value` text);\n" +
			"INSERT INTO `" + prefix + "usermeta` VALUES (1,'city','" + prefix + "');\n" +
			"INSERT INTO `" + prefix + "users` VALUES (1,'" + prefix + "ada','!','ada@example.com',NULL,NULL);\n"
	}
	const other = "CREATE TABLE `old_users` (`ID` int, `user_login` text);\nINSERT INTO `old_users` VALUES (1,'x');\n"
	text := func(s string) *string { return &s }
	for what, test := range map[string]struct {
		dump   string
		prefix *string
		want   string // the login, or the error
	}{
		"one":                             {other + table("wp_"), nil, "wp_ada"},
		"none":                            {table(""), nil, "ada"},
		"several":                         {table("b_") + table("a_"), nil, `several prefixes: choose one with --prefix=["a_" "b_"]`},
		"one of several":                  {table("b_") + table("a_"), text("b_"), "b_ada"},
		"the empty one of several":        {table("b_") + table(""), text(""), "ada"},
		"one that is not there":           {table("a_"), text("b_"), "--prefix: the dump has no table b_users"},
		"a table without the columns":     {other, nil, "no table of wordpress's users, whose name ends in users, with the columns ID,"},
		"too many":                        {tables(101, table), nil, "more than 100 prefixes"},
		"the same table in two databases": {table("a_") + "CREATE DATABASE x;USE x;\n" + table("a_"), nil, "line 6: the table a_users is in line 1 already"},
	} {
		t.Run(what, func(t *testing.T) {
			staged, err := stage(t, transfer.Move{System: "wordpress", Prefix: test.prefix}, strings.NewReader(test.dump))
			if err != nil {
				if !strings.Contains(err.Error(), test.want) {
					t.Errorf("got %v, want %s", err, test.want)
				}
				return
			}
			s := openStore(t, testdb.SQLite(t))
			r := newRun(t, s)
			if _, err := r.Run(t.Context(), staged); err != nil {
				t.Fatal(err)
			}
			account(t, s, test.want)
			if keys := staged.Keys; !cmp.Equal(keys, map[string]int64{"city": 1}) && test.want != "ada" {
				t.Errorf("got the attributes %v, want one", keys)
			}
		})
	}
}

func tables(n int, table func(prefix string) string) string {
	var text strings.Builder
	for i := range n {
		text.WriteString(table(fmt.Sprint("p", i, "_")))
	}
	return text.String()
}

// TestMove_HostileDumpImportsNothing cuts and damages a dump in many places.
func TestMove_HostileDumpImportsNothing(t *testing.T) {
	whole, err := io.ReadAll(open(t, "wordpress.sql"))
	if err != nil {
		t.Fatal(err)
	}
	damaged := map[string][]byte{"no gzip": []byte("\x1f\x8b\x08x")}
	for i := 0; i < bytes.Index(whole, []byte("completed")); i += 7 {
		damaged[fmt.Sprint("cut off at ", i)] = whole[:i]
	}
	for at, c := range whole {
		if c == '\'' && whole[at-1] != '\\' {
			damaged[fmt.Sprint("without the quote at ", at)] = slices.Delete(bytes.Clone(whole), at, at+1)
		}
	}
	for what, text := range damaged {
		staged, err := stage(t, transfer.Move{System: "wordpress"}, bytes.NewReader(text))
		if err == nil {
			t.Errorf("%s: got %d users, want an error", what, staged.Total)
		}
	}
}

// TestMove_BadValueIsThatOfItsField imports what no account can have beside good users.
func TestMove_BadValueIsThatOfItsField(t *testing.T) {
	const wordpress = "/*!40101 SET NAMES utf8mb4 */;INSERT INTO users (ID,user_login,user_pass,user_email,user_registered,display_name) VALUES\n"
	const meta = "INSERT INTO usermeta (user_id,meta_key,meta_value) VALUES\n"
	const drupal = "INSERT INTO `users_field_data` (uid,name,pass,mail,created,status,preferred_langcode,default_langcode) VALUES\n"
	for what, test := range map[string]struct {
		system, dump string
		fields       []transfer.Mapped
		want         string // refusals
		keys         map[string]int64
	}{
		"columns": {system: "wordpress", dump: wordpress + "(1,'a\xff','!','1@example.com',NULL,''),\n(2,'bob','x\\0','2@example.com',NULL,''),\n" +
			"(3,'cleo','!','3@example.com',NULL,'J\xfcrgen'),\n(4,'dan','!','4\xff@example.com','\xff',''),\n(0xff,'eve','!','5@example.com',NULL,''),\n" +
			"(0xff,'fay','!','6@example.com',NULL,''),\n(7,'good','!','7@example.com',NULL,'');",
			want: "2: user 1: login: not UTF-8\n3: user 2: password_hash: has a NUL\n4: user 3: name: not UTF-8\n5: user 4: created: not UTF-8; email: not UTF-8\n" +
				"6: id: not UTF-8\n7: id: not UTF-8\n"},
		"attributes": {system: "wordpress", dump: wordpress + "(1,'ada','!','1@example.com',NULL,''),\n(2,'bob','!','2@example.com',NULL,''),\n(3,'cleo','!','3@example.com',NULL,'');\n" +
			meta + "(1,'x','x\\0'),(1,'\xff','x'),(1,'\\0',''),(1,NULL,'x'),(NULL,'city','omsk'),(0xff,'city','kazan'),(3,'x','" + strings.Repeat("x", 1<<20) + "'),\n" +
			"(1,'city','\xff'),(2,'interests','good'),(2,'interests','\xff'),(2,'interests','x\\0'),(3,'city','omsk'),(3,'locale','\xff'),(3,'interests','good');",
			fields: []transfer.Mapped{{Theirs: "city", Ours: "city"}, {Theirs: "interests", Ours: "interests"}},
			want:   "2: user 1: city: not UTF-8\n3: user 2: interests: not UTF-8\n4: user 3: locale: not UTF-8\n",
			keys:   map[string]int64{"x": 2, "city": 2, "interests": 4, "locale": 1}},
		"a name that is mapped": {system: "wordpress", dump: wordpress + "(1,'ada','!','1@example.com',NULL,'\xff');" + meta + "(1,'first','Ada');",
			fields: []transfer.Mapped{{Theirs: "first", Ours: "name"}}, keys: map[string]int64{"first": 1}},
		"expressions of Django": {system: "django", dump: "/*!40101 SET NAMES utf8mb4 */;INSERT INTO auth_user (id,password,email,is_active,date_joined,username,first_name,last_name) VALUES\n" +
			"(1,'!','1@example.com',1,NULL,'ada','\xff','Lovelace'),\n(2,'!','2@example.com','\xff',NULL,'bob','',''),\n(3,'!','3@example.com',0,NULL,'\xff','','');",
			want: "2: user 1: name: not UTF-8\n3: user 2: disabled: not UTF-8\n4: user 3: login: not UTF-8\n"},
		"expressions of MediaWiki": {system: "mediawiki", dump: "/*!40101 SET NAMES utf8mb4 */;INSERT INTO user (user_id,user_name,user_real_name,user_password,user_email,user_email_authenticated,user_registration) VALUES\n" +
			"(1,'Ada','','!','1@example.com','\xff',NULL),\n(2,'Bob','','!','2@example.com',NULL,'\xff'),\n(3,'Cleo','','!','3@example.com','" + strings.Repeat("\\0", 14) + "','" + strings.Repeat("\\0", 14) + "');",
			want: "2: user 1: email_verified: not UTF-8\n3: user 2: created: not UTF-8\n"},
		"expressions of Drupal, and a table": {system: "drupal10", dump: "/*!40101 SET NAMES utf8mb4 */;" + drupal + "(1,'ada','!','1@example.com',1500000000,'\xff','en','1'),\n(2,'bob','!','2@example.com','\xff',1,'en','1');" +
			"CREATE TABLE `user__\xff` (entity_id int, `\xff_value` text);INSERT INTO `user__\xff` VALUES (1,'x');",
			want: "2: user 1: disabled: not UTF-8\n3: user 2: created: not UTF-8\n"},
		"expressions of Joomla": {system: "joomla", dump: "/*!40101 SET NAMES utf8mb4 */;INSERT INTO users (id,name,username,email,password,block,registerDate,params) VALUES\n" +
			"(1,'','ada','1@example.com','!',0,NULL,'\xff'),\n(2,'','bob','2@example.com','!','\xff',NULL,'');INSERT INTO user_profiles (user_id,profile_key,profile_value) VALUES (3,'city','\"\\\\u0000\"');",
			want: "2: user 1: locale: not UTF-8\n3: user 2: disabled: not UTF-8\n", keys: map[string]int64{"city": 1}},
		"a realm": {system: "keycloak", dump: "{\"users\":[\n{\"username\":\"a\\u0000\",\"email\":\"2@example.com\",\"attributes\":{\"x\":[\"\\u0000\"],\"\\u0000\":[\"x\"]}},\n" +
			"{\"id\":\"1\",\"username\":\"bob\",\"email\":\"1@example.com\",\"lastName\":\"\\u0000\"},\n{\"id\":\"3\",\"username\":\"cleo\",\"email\":\"3@example.com\",\"lastName\":\"J\xfcrgen\"}]}",
			want: "2: login: has a NUL\n2: user 1: name: has a NUL\n3: user 3: name: not UTF-8\n"},
	} {
		t.Run(what, func(t *testing.T) {
			staged, err := stage(t, transfer.Move{System: test.system, Fields: test.fields}, strings.NewReader(test.dump))
			if err != nil {
				t.Fatal(err)
			}
			r := newRun(t, transfer.DryRun{Temporary: openStore(t, testdb.SQLite(t))})
			if _, err := r.Run(t.Context(), staged); err != nil || r.report.String() != test.want {
				t.Errorf("got %v and the report\n%swant\n%s", err, r.report.String(), test.want)
			}
			if len(staged.Keys)+len(test.keys) > 0 && !cmp.Equal(staged.Keys, test.keys) {
				t.Errorf("got the attributes %v, want %v", staged.Keys, test.keys)
			}
		})
	}
}

func TestMove_LongKeysAreNotCountedAndLongListsRefused(t *testing.T) {
	const users = "INSERT INTO wp_users (ID,user_login,user_pass,user_email,user_registered,display_name) VALUES (1,'ada','!','ada@example.com',NULL,'x');\n"
	meta := func(n int, key, value string) io.Reader {
		row := "INSERT INTO wp_usermeta (user_id,meta_key,meta_value) VALUES (1,'" + key + "','" + value + "');\n"
		parts := []io.Reader{strings.NewReader(users)}
		for range n {
			parts = append(parts, strings.NewReader(row))
		}
		return io.MultiReader(parts...)
	}
	long := strings.NewReader("INSERT INTO wp_usermeta (user_id,meta_key,meta_value) VALUES (1,'" + strings.Repeat("k", 256) + "','x');\n")
	staged, err := stage(t, transfer.Move{System: "wordpress"}, io.MultiReader(meta(1, strings.Repeat("k", 255), "x"), long))
	if err != nil || len(staged.Keys) != 1 {
		t.Errorf("got %v and %d keys, want the short one", err, len(staged.Keys))
	}

	staged, err = stage(t, transfer.Move{System: "wordpress", Fields: []transfer.Mapped{{Theirs: "interests", Ours: "interests"}}},
		meta(2, "interests", strings.Repeat("x", 1<<20-64)))
	if err != nil {
		t.Fatal(err)
	}
	r := newRun(t, openStore(t, testdb.SQLite(t)))
	r.Later = true
	if done, err := r.Run(t.Context(), staged); err != nil || done.Refused != 1 || !strings.Contains(r.report.String(), "interests: invalid_type") {
		t.Errorf("got %+v, %v, %s, want a list of that length refused", done, err, r.report.String())
	}
}

func TestMove_TwoUsersWithAnIdAreRefused(t *testing.T) {
	const users = "INSERT INTO users (ID,user_login,user_pass,user_email,user_registered,display_name) VALUES\n"
	const drupal = "INSERT INTO users_field_data (uid,name,pass,mail,created,status,preferred_langcode,default_langcode) VALUES\n"
	for what, test := range map[string]struct {
		system, dump string
		want         string // "": imported
	}{
		"a user twice": {"wordpress", users + "(1,'ada','!','a@example.com',NULL,NULL),\n(2,'bob','!','b@example.com',NULL,NULL),\n" +
			"(2,'eve','!','e@example.com',NULL,NULL),\n(1,'mal','!','m@example.com',NULL,NULL);", "line 4: an earlier user has the same id"},
		"translations": {"drupal10", drupal + "(1,'ada','!','a@example.com',1,1,'en','1'),\n(1,'ada','!','a@example.com',1,1,'en','0'),\n" +
			"(1,'ada','!','a@example.com',1,1,'en','0');", ""},
		"a user of a realm twice": {"keycloak", "{\"users\":[{\"id\":\"a\",\"username\":\"ada\"},{\"id\":\"a\",\"username\":\"eve\"}]}",
			"line 1: an earlier user has the same id"},
	} {
		t.Run(what, func(t *testing.T) {
			_, err := stage(t, transfer.Move{System: test.system}, strings.NewReader(test.dump))
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestMove_CountedKeysAreBounded(t *testing.T) {
	var text strings.Builder
	for prefix := range 6 {
		fmt.Fprintf(&text, "INSERT INTO p%d_usermeta (user_id,meta_key,meta_value) VALUES (1,'city','x')", prefix)
		for key := range 2000 {
			fmt.Fprintf(&text, ",(1,'k%d','x')", key)
		}
		text.WriteString(";\n")
	}
	text.WriteString("INSERT INTO p5_users (ID,user_login,user_pass,user_email,user_registered,display_name) VALUES (1,'ada','!','a@example.com',NULL,NULL);")
	staged, err := stage(t, transfer.Move{System: "wordpress", Fields: []transfer.Mapped{{Theirs: "city", Ours: "city"}}}, strings.NewReader(text.String()))
	if err != nil || len(staged.Keys) != 1 {
		t.Errorf("got %v, want the wanted key alone after so many of other prefixes", err)
	}
}

func TestMove_Compressed(t *testing.T) {
	var file bytes.Buffer
	z := gzip.NewWriter(&file)
	if _, err := io.Copy(z, open(t, "wordpress.sql")); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	whole := file.Len()
	cut := bytes.NewReader(file.Bytes()[:whole-4])
	if _, err := stage(t, transfer.Move{System: "wordpress"}, cut); err == nil || !strings.Contains(err.Error(), "unexpected EOF") {
		t.Errorf("cut off: got %v, want an error", err)
	}
	if staged, err := stage(t, transfer.Move{System: "wordpress"}, &file); err != nil || staged.Total != 4 {
		t.Errorf("got %+v, %v, want 4 users", staged, err)
	}
}

func TestMove_Report(t *testing.T) {
	s := openStore(t, testdb.SQLite(t))
	_, report := move(t, s, transfer.Move{System: "wordpress", NewIDs: true}, open(t, "wordpress.sql"))
	slices.SortFunc(report.Fields, func(a, b transfer.FieldUse) int { return strings.Compare(a.Theirs, b.Theirs) })
	if diff := cmp.Diff(&transfer.Report{
		System: "wordpress", Imported: 1, Refused: 3,
		SignIn: []transfer.FormatCount{{Format: "bcrypt", Users: 1}},
		Cannot: []transfer.Reason{
			{Reason: "email: required", Refused: true, Users: 1, Lines: []int{31}},
			{Reason: "login: invalid_format", Refused: true, Users: 1, Lines: []int{30}},
			{Reason: "login: taken by an existing account", Refused: true, Users: 1, Lines: []int{31}},
		},
		Fields: []transfer.FieldUse{
			{Theirs: "city", Values: 3}, {Theirs: "display_name", Ours: "name"}, {Theirs: "interests", Values: 2}, {Theirs: "locale", Ours: "locale", Values: 1},
			{Theirs: "nickname", Values: 1}, {Theirs: "user_activation_key"}, {Theirs: "user_email", Ours: "email"}, {Theirs: "user_login", Ours: "login"},
			{Theirs: "user_nicename"}, {Theirs: "user_pass", Ours: "password_hash"}, {Theirs: "user_registered", Ours: "created"}, {Theirs: "user_status, spam, deleted", Ours: "disabled"}, {Theirs: "user_url"}, {Theirs: "wp_capabilities", Values: 1},
		},
		Proposals: []string{"city=city", "interests=interests"},
		Digits:    []transfer.DigitCount{{Length: 32, Users: 1}},
	}, report); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Many rows of a dump have one line, so that a dry run names the user, too.
func TestMove_DryRunNamesTheEarlierRow(t *testing.T) {
	staged, err := stage(t, transfer.Move{System: "wordpress"}, strings.NewReader("INSERT INTO users (ID,user_login,user_pass,user_email,user_registered,display_name) VALUES "+
		"(1,'ada','!','ada@example.com',NULL,NULL),(2,'bob','!','bob@example.com',NULL,NULL),(3,'ada','!','bob@example.com',NULL,NULL);"))
	if err != nil {
		t.Fatal(err)
	}
	r := newRun(t, transfer.DryRun{Temporary: openStore(t, testdb.SQLite(t))})
	_, err = r.Run(t.Context(), staged)
	if want := "1: user 3: email: taken by the row of line 1, user 2; login: taken by the row of line 1, user 1\n"; err != nil || r.report.String() != want {
		t.Errorf("got %s, error %v; want %s", r.report.String(), err, want)
	}
}

func TestMove_Logins(t *testing.T) {
	rows := func() io.Reader {
		return strings.NewReader("INSERT INTO users (ID,user_login,user_pass,user_email,user_registered,display_name) VALUES " +
			"(1,'ok','!','1@example.com',NULL,NULL),(2,'Ada  Lovelace!','!','2@example.com',NULL,NULL),(3,'ada@example.com','!','3@example.com',NULL,NULL)," +
			"(4,'4@example.com','!','4@example.com',NULL,NULL),(5,'имяx','!','5@example.com',NULL,NULL),(6,'" + strings.Repeat("é",
			70) + "','!','',NULL,NULL),(7,'','!','7@example.com',NULL,NULL);")
	}
	for logins, want := range map[transfer.Logins]string{
		transfer.KeepLogins:    "4@example.com",
		transfer.ProposeLogins: "ok_1 Ada_Lovelace! ada_example.com 4@example.com user_5 user_7",
		transfer.EmailLogins:   "1@example.com 2@example.com 3@example.com 4@example.com 5@example.com 7@example.com",
	} {
		s := openStore(t, testdb.SQLite(t))
		move(t, s, transfer.Move{System: "wordpress", Logins: logins}, rows())
		page, err := s.AccountsAfter(t.Context(), 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, a := range page {
			got = append(got, a.Login)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %q, want %q", logins, got, want)
		}
	}
}

// A changed login takes none that another row has, whichever comes first; it becomes the next one that is free.
func TestMove_ChangedLoginsAreTheNextFree(t *testing.T) {
	const dump = "INSERT INTO users (ID,user_login,user_pass,user_email,user_registered,display_name) VALUES\n" +
		"(1,'John Doe','!','1@example.com',NULL,NULL),\n(2,'john doe','!','2@example.com',NULL,NULL),\n(3,'john_doe','!','3@example.com',NULL,NULL),\n" +
		"(4,'john  doe','!','4@example.com',NULL,NULL),\n(5,'john_doe_4','!','5@example.com',NULL,NULL),\n(6,'王伟','!','6@example.com',NULL,NULL),\n" +
		"(7,'jo','!','7@example.com',NULL,NULL),\n(8,'jo hn','!','3@example.com',NULL,NULL),\n(9,'\xff','!','9@example.com',NULL,NULL);"
	const want = "2: John Doe becomes John_Doe_1\n3: john doe becomes john_doe_2\n5: john  doe becomes user_4\n7: 王伟 becomes 王伟_6\n8: jo becomes jo_7\n10: (not UTF-8) becomes user_9\n"
	m := transfer.Move{System: "wordpress", Logins: transfer.ProposeLogins}
	testdb.Database(t, func(t *testing.T, url string) {
		s := openStore(t, url)
		for what, store := range map[string]transfer.Store{"an import": s, "a dry run": transfer.DryRun{Temporary: openStore(t, testdb.SQLite(t))}} {
			staged, err := stage(t, m, strings.NewReader(dump))
			if err != nil {
				t.Fatal(err)
			}
			for run := range 2 {
				r := newRun(t, store)
				var list []string
				r.Renamed = func(n transfer.Renaming) error {
					list = append(list, fmt.Sprintf("%d: %s becomes %s\n", n.Line, n.From, n.To))
					if n.Existing != (run == 1) || n.Email == "" {
						t.Errorf("%s: run %d: got %+v", what, run, n)
					}
					return nil
				}
				done, err := r.Run(t.Context(), staged)
				if got := strings.Join(list, ""); err != nil || got != want {
					t.Errorf("%s: run %d: got %v and\n%swant\n%s", what, run, err, got, want)
				}
				if run == 0 && !strings.HasPrefix(r.report.String(), "9: user 8: email: taken by ") || done.Refused != 1 || done.Imported+done.Existing != 8 {
					t.Errorf("%s: run %d: got %+v and\n%s", what, run, done, r.report.String())
				}
				if what == "a dry run" {
					break // it stores nothing that a second one would find
				}
			}
		}
	})
}

func TestMove_IsResumed(t *testing.T) {
	const n = 3000
	rows := func() io.Reader {
		var text strings.Builder
		text.WriteString("INSERT INTO users (ID,user_login,user_pass,user_email,user_registered,display_name) VALUES\n")
		for i := range n {
			fmt.Fprintf(&text, "(%d,'user %d','%s','u%d@example.com',NULL,'x'),\n", i+1, i, md5, i)
		}
		return strings.NewReader(strings.TrimSuffix(text.String(), ",\n") + ";\n")
	}
	m := transfer.Move{System: "wordpress", Logins: transfer.ProposeLogins}
	testdb.Database(t, func(t *testing.T, url string) {
		s := openStore(t, url)
		staged, err := stage(t, m, rows())
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		r := newRun(t, s)
		r.Later = true
		r.Progress = func(p transfer.Progress) {
			if p.Imported > 0 {
				stop()
			}
		}
		first, err := r.Run(ctx, staged)
		if err == nil || first.Imported == 0 || first.Imported == n {
			t.Fatalf("got %+v, %v, want an interrupted import", first, err)
		}
		again, _ := move(t, s, m, rows())
		done := again.shown[len(again.shown)-1]
		if done.Existing < first.Imported || done.Imported+done.Existing != n || done.Refused != 0 {
			t.Errorf("got %+v after %+v, want the rest", done, first)
		}
	})
}
