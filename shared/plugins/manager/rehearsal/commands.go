package rehearsal

import (
	"bytes"
	"context"
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
	{"user show", []string{"user", "show", "nobody"}},
	{"status", []string{"status"}},
	{"import", []string{"import", "--fields=FILE.fields.json", "--settings=FILE.toml", "--wrap=now", "FILE.ndjson"}},
	{"export", []string{"export"}},
	{"export user", []string{"export", "--user=full"}},
	{"user show a user", []string{"user", "show", "imported"}},
	{"import csv", []string{"import", "--settings=FILE.toml", "--wrap=now", "FILE.csv"}},
	{"audit", []string{"audit"}},
	{"user list", []string{"user", "list"}},
	{"user disable", []string{"user", "disable", "full1"}}, // by the real clock, so nothing reads it
	{"revoke-all", []string{"revoke-all"}},
	{"mail preview", []string{"mail", "preview", "--all"}},
}

// importing is the place of the command that imports; the next one exports.
const importing = 2

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

// base64 is what may be a hash or an encrypted secret. It is random, and no random text as the
// comparison knows them.
var base64 = regexp.MustCompile(`(["$])[A-Za-z0-9+/]{20,}={0,2}`)

func (c *Config) runCommands(ctx context.Context, v Version, database string) ran {
	all := ran{}
	if err := c.writeFiles(database); err != nil {
		return ran{commands[0].name: {"code": "-1", "text": err.Error()}}
	}
	for _, command := range commands {
		code, text, err := c.run(ctx, v, database, command.on(database)...)
		if err != nil {
			code, text = -1, err.Error()
		}
		all[command.name] = Answer{"code": fmt.Sprint(code), "text": base64.ReplaceAllString(strings.ReplaceAll(text, filepath.Dir(database), ""), "$1~")}
	}
	return all
}

// writeFiles writes the files of the commands that import.
func (c *Config) writeFiles(database string) error {
	row := importedUser(newStory(time.Now(), nil), "imported", "", "8E076CC271A46D554A161E4579DFE5E8", map[string]any{"email_verified": nil})
	row = append(row, importedUser(newStory(time.Now(), nil), "imported_off", "", hashes[0].hash, map[string]any{"disabled": true, "erase_at": "2040-01-02T03:04:05Z", "locale": "de"})...)
	csv := "\ufefflogin,email,name,password_hash\r\ncsv,csv@script.invalid,\"Anna, \"\"A\"\"\",!\r\n"
	fields, _ := json.Marshal(schema.Fields) // it cannot fail
	for name, data := range map[string][]byte{".ndjson": row, ".csv": []byte(csv), ".toml": c.Settings, ".fields.json": fields} {
		if err := os.WriteFile(database+name, data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// on returns the arguments of a command on a database.
func (c command) on(database string) []string {
	arguments := slices.Clone(c.arguments)
	for i, a := range arguments {
		arguments[i] = strings.ReplaceAll(a, "FILE", database)
	}
	return arguments
}

var hashedAt = regexp.MustCompile(`"login":"(imported|again)".*?\$(m=\d+,t=\d+,p=\d+)\$`)

// compareCosts fails if a process that served has hashed a password at other costs than the command that imports does.
func (c *Config) compareCosts(ctx context.Context, p *player, database string) {
	if c.writeFiles(database) != nil {
		return // which the other commands tell
	}
	var text string
	for _, command := range commands[importing : importing+2] {
		_, text, _ = c.run(ctx, c.New, database, command.on(database)...)
	}
	costs := map[string]string{}
	for _, found := range hashedAt.FindAllStringSubmatch(text, -1) {
		costs[found[1]] = found[2]
	}
	if served := costs["again"]; served != "" && costs["imported"] != "" && served != costs["imported"] {
		p.note(personal.OpRegister, "password_hash", "passwords are hashed at "+served+", and not at "+costs["imported"])
	}
}

// commands compares what the commands of two versions have printed. The mails are compared one by one.
func (c *comparison) commands(old, new ran) {
	const check = "commands"
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
	in := func(name string) string { return database + "." + name }
	fields, _ := json.Marshal(s.schema.Fields) // it cannot fail
	for name, data := range map[string][]byte{
		"users.ndjson": users, "fields.json": fields,
		"costs.toml": []byte("[password]\nmemory_kib = 8\ntime = 1\n"), // the lowest
	} {
		if err := os.WriteFile(in(name), data, 0o600); err != nil {
			return err
		}
	}
	code, text, err := c.run(ctx, v, database, "import", "--fields="+in("fields.json"), "--settings="+in("costs.toml"), "--wrap=later", in("users.ndjson"))
	if err == nil && code == 0 {
		return nil
	}
	if err == nil {
		lines := strings.Split(strings.TrimSpace(text), "\n")
		err = errors.New(lines[len(lines)-1])
	}
	return fmt.Errorf("personal import for the script: exit code %d: %w", code, err)
}
