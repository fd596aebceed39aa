package rehearsal

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/plugins/catalogue"
)

const commandTimeout = 30 * time.Second

// command is an administrator's command that both versions run.
type command struct {
	name      string
	arguments []string
}

var commands = []command{
	{"mail preview", []string{"mail", "preview", "--all"}},
	{"user show", []string{"user", "show", "nobody"}},
	{"import dry run", []string{"import", "--dry-run", "--fields=FILE.fields.json", "--settings=FILE.toml", "FILE.ndjson"}},
	{"status", []string{"status"}},
	importing, exporting,
	{"import again", importing.arguments},
	{"export user", []string{"export", "--user=full1"}},
	{"user show a user", []string{"user", "show", "imported"}},
	{"user show one of two", []string{"user", "show", importedID}},
	{"user explain", []string{"user", "explain", "imported"}},
	{"export to a file", []string{"export", "--output=FILE.all.ndjson"}},
	{"import of an export", []string{"import", "--database=sqlite://FILE.copy", "--secret-key=FILE.key", "--settings=FILE.toml", "FILE.all.ndjson"}},
	{"export of an import", []string{"export", "--database=sqlite://FILE.copy"}},
	{"import dump", []string{"import", "--from=wordpress", "--map=town=city", "--fields=FILE.fields.json", "--settings=FILE.toml", "FILE.sql"}},
	{"import csv", []string{"import", "--settings=FILE.toml", "--wrap=later", "FILE.csv"}},
	{"audit", []string{"audit"}},
	{"user lift-limits", []string{"user", "lift-limits", "--secret-key=FILE.key", "full1"}},
	{"user recover", []string{"user", "recover", "--settings=FILE.toml", "full1"}},
	{"user list", []string{"user", "list"}},
	{"user disable", []string{"user", "disable", "full1"}}, // by the real clock, so nothing reads it
	{"user enable", []string{"user", "enable", "full1"}},
	{"user disable a deleted user", []string{"user", "disable", "imported_off"}},
	{"user set", []string{"user", "set", "--fields=FILE.fields.json", "imported", "city=Omsk"}},
	{"user sign-out", []string{"user", "sign-out", "full2"}},
	{"user remove-two-factor", []string{"user", "remove-two-factor", "full2"}},
	{"user delete", []string{"user", "delete", "full2", "--yes"}},
	{"revoke-all", []string{"revoke-all"}},
	{"backup", []string{"backup", "FILE.bak"}},
	{"user list of a backup", []string{"user", "list", "--search=mported", "--database=sqlite://FILE.bak"}},
}

// usualCosts are those of other systems, and more, which are too high for the script. An import reads them, and computes nothing.
var usualCosts = []struct{ login, costs, usual string }{
	{"argon2id", "m=256,t=2", "m=262144,t=4"}, {"bcrypt_2y", "$05", "$15"}, {"bcrypt_sha256", "$05", "$15"}, {"wp_bcrypt", "$05", "$15"}, {"phpass_phpbb", "$H$9", "$H$F"},
	{"drupal", "$S$9", "$S$I"}, {"crypt_sha512", "=1000", "=700000"}, {"pbkdf2_django", "$1000", "$2000000"}, {"pbkdf2_keycloak", "i=10000", "i=2000000"}, {"scrypt", "ln=9,r=4,p=2", "ln=18,r=8,p=2"},
}

var (
	importing = command{"import", []string{"import", "--fields=FILE.fields.json", "--settings=FILE.toml", "--wrap=now", "FILE.ndjson"}}
	exporting = command{"export", []string{"export"}}
)

// importedID is the id of an imported user, and the login of another one.
const importedID = "4000000"

// dump is a site's dump, with a user who may sign in and one who may not.
const dump = "CREATE TABLE `wp_users` (`ID` int, `user_login` text, `user_pass` text, `user_email` text, `user_registered` text, `display_name` text, `user_status` int);\n" +
	"INSERT INTO `wp_users` VALUES (5000001,'moved','$P$BfQsEO4.4rbOQXUN28vCgpy8.kxCk//','moved@script.invalid','2015-03-04 05:06:07','Ada',0)," +
	"(5000002,'spam','!','spam@script.invalid','2015-03-04 05:06:07','B',1);\n" +
	"CREATE TABLE `wp_usermeta` (`user_id` int, `meta_key` text, `meta_value` text);\n" +
	"INSERT INTO `wp_usermeta` VALUES (5000001,'town','a:1:{i:0;s:99:\"Om'),(5000002,'town','a:1:{i:0;s:4:\"Omsk\";}');\n"

// run runs a command of a version, and returns its exit code and text.
func (c *Config) run(ctx context.Context, v Version, database string, arguments ...string) (code int, text string, err error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	var out bytes.Buffer
	err = catalogue.RetryBusy(ctx, v.Binary, func() error {
		cmd := exec.CommandContext(ctx, v.Binary, arguments...)
		cmd.Env = append([]string{"GOMAXPROCS=1", "PERSONAL_DATABASE=sqlite://" + database}, c.Env...)
		cmd.Stdout, cmd.Stderr = &out, &out
		return cmd.Run()
	})
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && ctx.Err() == nil {
		return exit.ExitCode(), out.String(), nil
	}
	return 0, out.String(), err
}

// ran is what a command has done: an answer of code and text.
type ran map[string]Answer

// encoded is what may be a hash or an encrypted secret. It is random, and no random text as the
// comparison knows them.
var encoded = regexp.MustCompile(`(["$])[A-Za-z0-9+/]{20,}={0,2}`)

// runCommands runs commands on a database whose secrets have these keys.
func (c *Config) runCommands(ctx context.Context, v Version, database string, keys [][]byte, commands ...command) ran {
	all, seen := ran{}, map[string]int{} // equal salts stay equal
	row := importedUser(newStory(time.Now(), nil), "imported", "", "8E076CC271A46D554A161E4579DFE5E8", map[string]any{"email_verified": nil, "id": json.Number(importedID), "a_date": "2001-05-04T00:00:00+02:00"})
	row = append(row, importedUser(newStory(time.Now(), nil), importedID, "", "!", nil)...)
	row = append(row, importedUser(newStory(time.Now(), nil), "imported_off", "", hashes[0].hash, map[string]any{"disabled": true, "erase_at": "2040-01-02T03:04:05Z", "locale": "de"})...)
	for i := range 1100 { // more than a page of an export
		row = append(row, importedUser(newStory(time.Now(), nil), fmt.Sprint("page", i), "", "!", nil)...)
	}
	for i, change := range usualCosts {
		for _, h := range hashes {
			if h.login == change.login {
				row = append(row, importedUser(newStory(time.Now(), nil), fmt.Sprint("usual", i), "", strings.Replace(h.hash, change.costs, change.usual, 1), nil)...)
			}
		}
	}
	csv := "\ufefflogin,email,name,password_hash,created\r\ncsv,csv@script.invalid,\"Anna, \"\"A\"\"\",E0D2469E3CCAEAA78FA6CEADDF41272B,2020-01-02T03:04:05Z\r\n"
	var lines []byte
	for _, key := range keys {
		lines = append(base64.StdEncoding.AppendEncode(lines, key), '\n')
	}
	files := map[string][]byte{".ndjson": row, ".csv": []byte(csv), ".sql": []byte(dump), ".key": lines, ".toml": c.Settings}
	if err := writeFiles(database, schema, files); err != nil {
		return ran{commands[0].name: {"code": "-1", "text": err.Error()}}
	}
	for _, command := range commands {
		arguments := slices.Clone(command.arguments)
		for i, a := range arguments {
			arguments[i] = strings.ReplaceAll(a, "FILE", database)
		}
		code, text, err := c.run(ctx, v, database, arguments...)
		if err != nil {
			code, text = -1, err.Error()
		}
		for _, file := range []string{".all.ndjson", ".copy", ".bak"} {
			if info, err := os.Stat(database + file); err == nil && info.Mode().Perm()&0o077 != 0 {
				text += "Others may read " + file + "\n"
			}
		}
		text = strings.NewReplacer(database, "", filepath.Dir(database), "").Replace(text)
		all[command.name] = Answer{"code": fmt.Sprint(code), "text": encoded.ReplaceAllStringFunc(text, func(hash string) string {
			if seen[hash] == 0 {
				seen[hash] = len(seen) + 1
			}
			return fmt.Sprint(hash[:1], "~", seen[hash])
		})}
	}
	all[exporting.name]["hashes"] = fmt.Sprint(len(seen))
	return all
}

// writeFiles writes what an import reads beside a database: files by the ends of their names, and user fields.
func writeFiles(database string, s personal.Schema, files map[string][]byte) error {
	files[".fields.json"], _ = json.Marshal(s.Fields) // it cannot fail
	for name, data := range files {
		if err := os.WriteFile(database+name, data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

var hashedAt = regexp.MustCompile(`"login":"(imported|again)".*?\$(m=\d+,t=\d+,p=\d+)\$`)

// compareCosts fails if a process that served has hashed a password at other costs than the command that imports does.
func (c *Config) compareCosts(ctx context.Context, p *player, database string) {
	costs := map[string]string{}
	for _, found := range hashedAt.FindAllStringSubmatch(c.runCommands(ctx, c.New, database, p.keys, importing, exporting)[exporting.name]["text"], -1) {
		costs[found[1]] = found[2]
	}
	if served := costs["again"]; served != "" && costs["imported"] != "" && served != costs["imported"] {
		p.note(personal.OpRegister, "password_hash", "passwords are hashed at "+served+", and not at "+costs["imported"])
	}
}

// commands compares what the commands of two versions have printed. The mails are compared one by one.
func (c *comparison) commands(old, new ran) {
	const check = "commands"
	if was, is := old[exporting.name]["hashes"], new[exporting.name]["hashes"]; was != is { // also where another text is declared
		c.add(check, "command", "hashes", false, is+" hashes, salts and secrets instead of "+was)
	}
	for _, command := range commands {
		c.counts[check]++
		before, after := old[command.name], new[command.name]
		if before["code"] != after["code"] {
			c.add(check, "command", command.name, false, "exit code "+after["code"]+" instead of "+before["code"])
			continue
		}
		if c.same(before["text"], after["text"]) {
			continue
		}
		if command.name != "mail preview" {
			c.add(check, "command", command.name, true, "another text")
			continue
		}
		mails := sections(after["text"])
		for name, text := range sections(before["text"]) {
			if !c.same(text, mails[name]) {
				_, has := mails[name]
				c.add(check, "mail", strings.ReplaceAll(name, " ", "."), has, "another text")
			}
		}
	}
}

// sections splits the output of mail preview by its headings, such as "=== recovery en".
func sections(text string) map[string]string {
	all := map[string]string{}
	for _, section := range strings.Split("\n"+text, "\n=== ") {
		name, body, _ := strings.Cut(section, "\n")
		all[name] = strings.TrimRight(body, "\n") // only the last one has a line break at its end
	}
	return all
}

// importUsers stores users in a database. The command makes the schema, if the database has none.
func (c *Config) importUsers(ctx context.Context, v Version, database string, s *story, users []byte) error {
	err := writeFiles(database, s.schema, map[string][]byte{
		".ndjson": users, ".toml": []byte("[password]\nmemory_kib = 8\ntime = 1\n"), // the lowest
	})
	if err != nil {
		return err
	}
	code, text, err := c.run(ctx, v, database, "import", "--fields="+database+".fields.json", "--settings="+database+".toml", "--wrap=later", database+".ndjson")
	if err == nil && code == 0 {
		return nil
	}
	if err == nil {
		lines := strings.Split(strings.TrimSpace(text), "\n")
		err = errors.New(lines[len(lines)-1])
	}
	return fmt.Errorf("personal import for the script: exit code %d: %w", code, err)
}
