package system

import (
	"crypto/md5"
	"encoding/hex"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cms-personal/personal/internal/testkit"
)

// probed runs an import whose standard input is a new terminal, and enters a password there. It
// returns what the import prints.
func probed(t *testing.T, folder, password string, args ...string) (printed string, err error) {
	t.Helper()
	reader, program := terminal(t)
	screen, output := &journal{}, &journal{}
	go func() { _, _ = io.Copy(screen, reader) }() // ends when the terminal is closed
	cmd := exec.CommandContext(t.Context(), testkit.Binaries(t).Plugin, append([]string{"import"}, args...)...)
	cmd.Dir, cmd.Env = folder, append(cmd.Environ(), "PERSONAL_DATABASE=sqlite://personal.db")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = program, output, output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it asks for the password, and the terminal does not show what is entered", func() bool {
		return strings.Contains(output.String(), "Password of ") && !echoes(program)
	})
	if _, err := io.WriteString(reader, password+"\n"); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	if strings.Contains(screen.String()+output.String(), password) || !echoes(program) {
		t.Errorf("the password is shown, or the terminal shows nothing any more:\n%s%s", screen, output)
	}
	return output.String(), err
}

// nestedRows are hashes of "correct horse": md5(md5(p)) for ada and grace; sha1(p) for bob, which
// the form does not concern.
const nestedRows = `login,email,password_hash
ada,ada@example.com,NESTED
bob,bob@example.com,SHA1
grace,grace@example.com,NESTED
`

func TestProbe_NamesTheFormThatFits(t *testing.T) {
	folder := t.TempDir()
	rows := strings.NewReplacer("NESTED", hexMD5(hexMD5("correct horse")), "SHA1", strings.Repeat("0123456789", 4)).Replace(nestedRows)
	if err := os.WriteFile(filepath.Join(folder, "users.csv"), []byte(rows), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, b := range commandBlocks(t, "docs/moving.md", readFile(t, filepath.Join(repository, "docs/moving.md"))) {
		if b.runner != t.Name() {
			continue
		}
		for _, c := range b.commands() {
			shown, err := probed(t, folder, "correct horse", strings.Fields(c.command)[2:]...)
			if err != nil || !pattern(c.output).MatchString(shown) {
				t.Errorf("got %v\n%s\nwant\n%s", err, shown, c.output)
			}
			if want := "2  of 32 digits: md5(md5(p)), as a password has shown\n"; !strings.Contains(shown, want) ||
				!strings.Contains(shown, "1  of 40 digits: no form was stated\n") {
				t.Errorf("got\n%s\nwant %s and one of 40 digits", shown, want)
			}
		}
	}
	shown, err := probed(t, folder, "wrong horse", "users.csv", "--probe", "ADA@example.com")
	if err == nil || !strings.Contains(shown, "--probe: line 2: this password would not be accepted (MD5)") {
		t.Errorf("a wrong password: got %v\n%s", err, shown)
	}
	if _, err := os.Stat(filepath.Join(folder, "personal.db")); err == nil {
		t.Error("after a wrong password there is a database")
	}
	if shown, err = probed(t, folder, "correct horse", "users.csv", "--probe", "grace"); err != nil ||
		strings.Contains(shown, "Try one with --probe") {
		t.Errorf("the import: got %v\n%s", err, shown)
	}
	s := start(t, options{database: "sqlite://" + filepath.Join(folder, "personal.db"), settings: cheap + unthrottled + unverified})
	for _, login := range []string{"ada", "grace"} {
		s.post(t, "auth/", params{"login": login, "password": "correct horse"}).want(t, "")
	}

	cmd := exec.Command(testkit.Binaries(t).Plugin, "import", "users.csv", "--probe", "ada")
	cmd.Dir, cmd.Env, cmd.Stdin = folder, append(cmd.Environ(), "PERSONAL_DATABASE=sqlite://personal.db"), strings.NewReader("correct horse\n")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "standard input is not a terminal") {
		t.Errorf("without a terminal: got %v\n%s", err, out)
	}
}

func hexMD5(text string) string {
	sum := md5.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// echoes reports whether a terminal shows what is entered.
func echoes(terminal *os.File) bool {
	state, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	return err != nil || state.Lflag&unix.ECHO != 0
}
