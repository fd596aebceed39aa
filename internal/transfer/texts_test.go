package transfer_test

import (
	"fmt"

	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/internal/transfer"
)

const wordpressUsers = "/*!40101 SET NAMES utf8mb4 */;INSERT INTO wp_users (ID,user_login,user_pass,user_email,user_registered,display_name) VALUES\n"

// mapped imports one user of WordPress and returns the name and the field city, street or interests.
func TestMove_TextsOfOtherSystems(t *testing.T) {
	for what, test := range map[string]struct {
		display, meta string
		ours          string // the field; the key of meta is nickname
		mend          bool
		name          string
		value         any
		left          string
	}{
		"HTML of names":                  {display: `Tom &amp; Jerry &lt;x&gt; O&#039;Neill`, name: `Tom & Jerry <x> O'Neill`},
		"HTML that was typed":            {display: `&amp;amp;`, name: `&amp;`},
		"a name with an ampersand":       {display: `R&D`, name: `R&D`},
		"HTML of a name among fields":    {meta: `A &amp; B`, ours: "street", value: `A & B`},
		"doubled UTF-8, mended":          {display: `JÃ¼rgen â€“ Å\x81Ã³dÅº`, mend: true, name: "Jürgen – Łódź"},
		"doubled UTF-8":                  {display: `JÃ¼rgen`, name: "JÃ¼rgen"},
		"an accent and an apostrophe":    {display: `JOSÉ’S CAFÉ™ Ó’Neill`, mend: true, name: "JOSÉ’S CAFÉ™ Ó’Neill"},
		"UTF-8 of Latin-1 letters":       {display: `Ünâ NÃO €`, mend: true, name: "Ünâ NÃO €"},
		"Cyrillic":                       {display: `Анна`, mend: true, name: "Анна"},
		"a list of PHP":                  {meta: `a:2:{i:0;s:7:"engines";i:1;s:6:"poetry";}`, ours: "interests", value: []string{"engines", "poetry"}},
		"a list of PHP with other bytes": {meta: `a:2:{i:0;s:3:"Grö";i:1;i:7;}`, ours: "interests", value: []string{"Grö", "7"}},
		"a set of PHP":                   {meta: `a:3:{s:1:"a";b:1;s:1:"b";b:0;s:1:"c";b:1;}`, ours: "interests", value: []string{"a", "c"}},
		"an empty list of PHP":           {meta: `a:0:{}`, ours: "interests"},
		"a list with one item":           {meta: `a:1:{i:0;s:5:"kazan";}`, ours: "city", value: "kazan"},
		"a scalar of PHP":                {meta: `s:5:"kazan";`, ours: "street", value: `s:5:"kazan";`},
		"a quote within":                 {meta: `a:1:{i:0;s:5:"a";"b";}`, ours: "interests", value: []string{`a";"b`}},
		"JSON in a text":                 {meta: `["a","b"]`, ours: "street", value: `["a","b"]`},
		"a list of JSON":                 {meta: `["engines","poetry"]`, ours: "interests", value: []string{"engines", "poetry"}},
		"several values for one":         {meta: `a:2:{i:0;s:5:"kazan";i:1;s:4:"omsk";}`, ours: "city", left: "city: several values, of which the field takes one"},
		"a nested list of PHP":           {meta: `a:1:{i:0;a:1:{i:0;s:1:"x";}}`, ours: "interests", left: "interests: a nested list or an object of PHP"},
		"an object of PHP":               {meta: `O:8:"stdClass":0:{}`, ours: "street", left: "street: a nested list or an object of PHP"},
		"a list of PHP that is cut off":  {meta: `a:2:{i:0;s:7:"eng`, ours: "interests", left: "interests: a nested list or an object of PHP"},
		"a huge number of items":         {meta: `a:99999999:{}`, ours: "interests", left: "interests: a nested list or an object of PHP"},
		"a text that begins like one":    {meta: `a: 1`, ours: "street", value: "a: 1"},
	} {
		t.Run(what, func(t *testing.T) {
			quoted := func(s string) string {
				return strings.NewReplacer(`\x81`, "\u0081", `"`, `\"`, `'`, `\'`).Replace(s)
			}
			m := transfer.Move{System: "wordpress"}
			if test.ours != "" {
				m.Fields = []transfer.Mapped{{Theirs: "nickname", Ours: test.ours}}
			}
			staged, err := stage(t, m, strings.NewReader(wordpressUsers+"(1,'ada','!','ada@example.com',NULL,'"+quoted(test.display)+"');\n"+
				"INSERT INTO wp_usermeta (user_id,meta_key,meta_value) VALUES (1,'nickname','"+quoted(test.meta)+"'),(2,'nickname','x');"))
			if err != nil {
				t.Fatal(err)
			}
			s := openStore(t, testdb.SQLite(t))
			r := newRun(t, s)
			r.Strict, r.MendUTF8 = false, test.mend
			if _, err := r.Run(t.Context(), staged); err != nil {
				t.Fatal(err)
			}
			want := ""
			if test.left != "" {
				want = "2: left out: user 1: " + test.left + "\n"
			}
			if r.report.String() != want {
				t.Errorf("got the report %s, want %s", r.report.String(), want)
			}
			got := account(t, s, "ada")
			if got.Name == nil {
				got.Name = new(string)
			}
			if diff := cmp.Diff(test.value, got.Fields[test.ours]); diff != "" || *got.Name != test.name {
				t.Errorf("got the name %q, want %q; (-want +got):\n%s", *got.Name, test.name, diff)
			}
			doubled := strings.HasPrefix(what, "doubled")
			if example := `"JÃ¼rgen` + strings.TrimPrefix(test.display, "JÃ¼rgen"); (r.Report.Doubled == 1) != doubled ||
				doubled && !test.mend && r.Report.DoubledExample != example+`" for "Jürgen" in line 2` {
				t.Errorf("got %d rows, such as %s, want them: %v", r.Report.Doubled, r.Report.DoubledExample, doubled)
			}
		})
	}
}

// Doubled texts are found in every kind of file.
func TestImport_MendsDoubledUTF8(t *testing.T) {
	for format, text := range map[transfer.Format]string{
		transfer.CSV:    "login,name,password_hash,interests\nJÃ¼rgen,JÃ¼,!,\"[\"\"Ã¼\"\"]\"\n",
		transfer.NDJSON: `{"login":"JÃ¼rgen","email":"j@example.com","name":"JÃ¼","password_hash":"!","fields":{"interests":["Ã¼"]}}`,
	} {
		if format == transfer.CSV {
			text = strings.Replace(strings.Replace(text, "login,", "email,login,", 1), "\n", "\nj@example.com,", 1)
		}
		s := openStore(t, testdb.SQLite(t))
		r := newRun(t, s)
		r.MendUTF8 = true
		r.file(t, format, text)
		if got := account(t, s, "jürgen"); *got.Name != "Jü" || !cmp.Equal(got.Fields["interests"], any([]string{"ü"})) || r.Report.Doubled != 1 {
			t.Errorf("%s: got %+v and %d rows", format, got, r.Report.Doubled)
		}
	}
}

func TestImport_MendsHTML(t *testing.T) {
	for what, test := range map[string]struct{ text, meant string }{
		"an ampersand":          {"Tom &amp; Jerry", "Tom & Jerry"},
		"what has no semicolon": {"a &amp; b?x=1&copy=2&reg=3", "a & b?x=1&copy=2&reg=3"},
		"a quote":               {"O&#039;Brien &quot;x&quot;", `O'Brien "x"`},
		"hexadecimal digits":    {"&#x263A;", "☺"},
		"once":                  {"&amp;lt;", "&lt;"},
		"no HTML":               {"R&D; AT&T &copy", ""},
	} {
		for _, mend := range []bool{true, false} {
			s := openStore(t, testdb.SQLite(t))
			r := newRun(t, s)
			r.MendHTML = mend
			r.file(t, transfer.CSV, "login,name,password_hash\nada,\""+strings.ReplaceAll(test.text, `"`, `""`)+"\","+bcrypt+"\n")
			want, found := test.text, int64(0)
			if test.meant != "" {
				found = 1
			}
			if test.meant != "" && mend {
				want = test.meant
			}
			if got := *account(t, s, "ada").Name; got != want || r.Report.Escaped != found {
				t.Errorf("%s, mended %v: got %q and %d, want %q and %d", what, mend, got, r.Report.Escaped, want, found)
			}
		}
	}
}

func TestMove_Roles(t *testing.T) {
	const wordpress = wordpressUsers + "(1,'ada','!','1@example.com',NULL,''),(2,'bob','!','2@example.com',NULL,''),(3,'cleo','!','3@example.com',NULL,'');" +
		"INSERT INTO wp_usermeta (user_id,meta_key,meta_value) VALUES (1,'wp_capabilities','a:2:{s:6:\\\"author\\\";b:1;s:13:\\\"administrator\\\";b:1;}')," +
		"(2,'wp_capabilities','a:1:{s:10:\\\"subscriber\\\";b:1;}'),(3,'wp_capabilities','a:0:{}'),(3,'wp_2_capabilities','a:1:{s:13:\\\"administrator\\\";b:1;}');"
	const head = "/*!40101 SET NAMES utf8mb4 */;"
	const drupal = "INSERT INTO `users_field_data` (uid,name,pass,mail,created,status,preferred_langcode,default_langcode) VALUES (1,'ada','!','1@example.com',1500000000,1,'en','1');"
	for what, test := range map[string]struct {
		system, dump string
		fields       []transfer.Mapped
		roles        []transfer.Role
		want         []string // of ada, then bob
		report       string
	}{
		"the most important":        {"wordpress", wordpress, nil, []transfer.Role{{Theirs: "administrator", Ours: "chief"}, {Theirs: "author", Ours: "writer"}, {Theirs: "subscriber", Ours: ""}}, []string{"chief", ""}, ""},
		"others":                    {"wordpress", wordpress, nil, []transfer.Role{{Theirs: "author", Ours: "writer"}}, []string{"writer", ""}, "2: left out: user 1: role: no --role for \"administrator\"\n2: left out: user 2: role: no --role for \"subscriber\"\n"},
		"as they are":               {"wordpress", wordpress, []transfer.Mapped{{Theirs: "roles", Ours: "team"}}, nil, []string{"[author administrator]", "[subscriber]"}, ""},
		"by their key":              {"wordpress", wordpress, []transfer.Mapped{{Theirs: "wp_capabilities", Ours: "team"}}, []transfer.Role{{Theirs: "author", Ours: "writer"}, {Theirs: "administrator", Ours: "chief"}, {Theirs: "subscriber"}}, []string{"[writer chief]", ""}, ""},
		"groups of MediaWiki":       {"mediawiki", head + "INSERT INTO user (user_id,user_name,user_real_name,user_password,user_email,user_email_authenticated,user_registration) VALUES (1,'Ada','','!','1@example.com',NULL,'');INSERT INTO user_groups (ug_user,ug_group) VALUES (1,'bot'),(1,'sysop');", nil, []transfer.Role{{Theirs: "sysop", Ours: "chief"}, {Theirs: "bot"}}, []string{"chief"}, ""},
		"numbers of Drupal 7":       {"drupal7", head + "INSERT INTO users (uid,name,pass,mail,created,status,language) VALUES (1,'ada','!','1@example.com',0,1,'');INSERT INTO users_roles (uid,rid) VALUES (1,3);", nil, []transfer.Role{{Theirs: "3", Ours: "chief"}}, []string{"chief"}, ""},
		"names of Drupal 10":        {"drupal10", head + drupal + "INSERT INTO `user__roles` (entity_id,roles_target_id) VALUES (1,'editor');", nil, []transfer.Role{{Theirs: "editor", Ours: "writer"}}, []string{"writer"}, ""},
		"numbers of Joomla":         {"joomla", head + "INSERT INTO users (id,name,username,email,password,block,registerDate,params) VALUES (1,'','ada','1@example.com','!',0,NULL,'');INSERT INTO user_usergroup_map (user_id,group_id) VALUES (1,2),(1,8);", nil, []transfer.Role{{Theirs: "8", Ours: "chief"}, {Theirs: "2"}}, []string{"chief"}, ""},
		"numbers of Django":         {"django", head + "INSERT INTO auth_user (id,password,email,is_active,date_joined,username) VALUES (1,'!','1@example.com',1,NULL,'ada');INSERT INTO auth_user_groups (id,user_id,group_id) VALUES (1,1,5);", nil, []transfer.Role{{Theirs: "5", Ours: "chief"}}, []string{"chief"}, ""},
		"roles of a realm":          {"keycloak", `{"users":[{"id":"x","username":"ada","email":"1@example.com","realmRoles":["user","admin"]}]}`, nil, []transfer.Role{{Theirs: "admin", Ours: "chief"}, {Theirs: "user"}}, []string{"chief"}, ""},
		"a key that users write":    {"wordpress", wordpressUsers + "(1,'ada','!','1@example.com',NULL,'');INSERT INTO wp_usermeta (user_id,meta_key,meta_value) VALUES (1,'roles','administrator'),(1,'wp_capabilities','a:1:{s:10:\\\"subscriber\\\";b:1;}');", nil, []transfer.Role{{Theirs: "administrator", Ours: "chief"}, {Theirs: "subscriber"}}, []string{""}, ""},
		"an attribute that is one":  {"keycloak", `{"users":[{"id":"x","username":"ada","email":"1@example.com","realmRoles":["user"],"attributes":{"roles":["admin"]}}]}`, nil, []transfer.Role{{Theirs: "admin", Ours: "chief"}, {Theirs: "user"}}, []string{""}, ""},
		"a column that is one":      {"django", head + "INSERT INTO auth_user (id,password,email,is_active,date_joined,username,roles) VALUES (1,'!','1@example.com',1,NULL,'ada','5');INSERT INTO auth_user_groups (id,user_id,group_id) VALUES (1,1,6);", nil, []transfer.Role{{Theirs: "5", Ours: "chief"}, {Theirs: "6"}}, []string{""}, ""},
		"keys of other values":      {"wordpress", wordpressUsers + "(1,'ada','!','1@example.com',NULL,'');INSERT INTO wp_usermeta (user_id,meta_key,meta_value) VALUES (1,'wp_capabilities','a:2:{s:6:\\\"author\\\";i:0;s:13:\\\"administrator\\\";s:1:\\\"1\\\";}');", nil, []transfer.Role{{Theirs: "administrator", Ours: "chief"}, {Theirs: "author", Ours: "writer"}}, []string{"chief"}, ""},
		"several where one belongs": {"wordpress", wordpress, []transfer.Mapped{{Theirs: "roles", Ours: "role"}}, nil, []string{"", "subscriber"}, "2: left out: user 1: role: several values, of which the field takes one\n"},
	} {
		t.Run(what, func(t *testing.T) {
			m := transfer.Move{System: test.system, Fields: test.fields, Roles: test.roles}.WithRoles()
			staged, err := stage(t, m, strings.NewReader(test.dump))
			if err != nil {
				t.Fatal(err)
			}
			s := openStore(t, testdb.SQLite(t))
			r := newRun(t, s)
			r.Strict = false
			if _, err := r.Run(t.Context(), staged); err != nil || r.report.String() != test.report {
				t.Errorf("got %v and the report\n%swant\n%s", err, r.report.String(), test.report)
			}
			for i, login := range []string{"ada", "bob"}[:len(test.want)] {
				got := account(t, s, login).Fields[m.Fields[0].Ours]
				if got == nil {
					got = ""
				}
				if fmt.Sprint(got) != test.want[i] {
					t.Errorf("%s: got %v, want %s", login, got, test.want[i])
				}
			}
		})
	}
}
