package system

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit"
)

// TestImport_DumpWithoutItsComments imports a real dump in which a user has chosen two names that
// would be another user's row if a backslash escaped.
func TestImport_DumpWithoutItsComments(t *testing.T) {
	t.Parallel()
	database := testkit.Postgres(t)
	pools, err := dbconn.Open(database, dbconn.MigrationLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer pools.Close()
	if _, err := pools.Write.ExecContext(t.Context(), `CREATE TABLE auth_user (id int, email text, first_name text, last_name text,
		password text, username text, is_active bool, date_joined timestamptz);
	INSERT INTO auth_user VALUES (1, 'mallory@example.com', '\', ',0x31,0x61,0x62), (0x37, 0x6576696c40782e6465, 0x61, 0x62, 0x21, 0x766963, 0x31, 0x323032342d30312d3031); -- ',
		'!', 'mallory', true, '2024-01-01'), (2, 'victim@example.com', '', '', '!', 'victim', true, '2024-01-01')`); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "pg_dump", "--inserts", "--dbname="+strings.Split(database, "?")[0]).Output()
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`(?m)^--.*\n`).ReplaceAllString(string(out), "")
	file := filepath.Join(folder, "site.sql")
	imported := func(text string) string {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), testkit.Binaries(t).Plugin, "import", "--from=django", file)
		cmd.Env = append(cmd.Environ(), "PERSONAL_DATABASE=sqlite://"+filepath.Join(folder, "personal.db"))
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	rows := "CREATE TABLE auth_user (id int, email text, first_name text, last_name text, password text, username text, is_active bool, date_joined text);\n" +
		strings.Join(regexp.MustCompile(`(?m)^INSERT.*\n`).FindAllString(text, -1), "")
	if got := imported(rows); !strings.Contains(got, "line 2: MySQL and PostgreSQL read this differently") {
		t.Errorf("rows alone: got %s, want a refusal that names the line", got)
	}
	if got := imported(text); !strings.HasPrefix(got, "The end of the dump is not marked, ") || !strings.HasSuffix(got, "\n2 accounts imported, 0 were there already, 0 rows refused\n") {
		t.Errorf("without comments: got %s, want both accounts, and that the end is not marked", got)
	}
	cmd := exec.CommandContext(t.Context(), testkit.Binaries(t).Plugin, "user", "list", "--json")
	cmd.Env = append(cmd.Environ(), "PERSONAL_DATABASE=sqlite://"+filepath.Join(folder, "personal.db"))
	if list, err := cmd.Output(); err != nil || !strings.Contains(string(list), "victim@example.com") || strings.Contains(string(list), "evil@x.de") {
		t.Errorf("got the users %s, %v, want those of the other system", list, err)
	}
}
