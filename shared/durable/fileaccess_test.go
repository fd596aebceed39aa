package durable_test

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cms-personal/personal/shared/durable"
)

// stranger is a user who is neither root nor the one of the tests.
const stranger = 54321

// wantUntrusted checks that err names a path and, exactly, the command that corrects it; with an
// empty command, that there is not an error.
func wantUntrusted(t *testing.T, err error, path, command string) {
	t.Helper()
	var untrusted *durable.UntrustedError
	switch {
	case command == "" && err != nil:
		t.Errorf("got %v, want no error", err)
	case command != "" && (!errors.As(err, &untrusted) || untrusted.Path != path || !strings.Contains(err.Error(), "run "+command)):
		t.Errorf("got error %v, want one that names %s and the command %s", err, path, command)
	}
}

func TestCheckFolder_ByMode(t *testing.T) {
	for mode, want := range map[fs.FileMode]struct {
		command string // without the path
		warned  bool
	}{
		0o700: {}, 0o755: {}, 0o500: {},
		0o775:                 {warned: true},
		0o2770:                {warned: true}, // fsGroup
		0o777:                 {command: "chmod go-w"},
		0o707:                 {command: "chmod go-w"},
		0o777 | fs.ModeSticky: {command: "chmod go-w"},
	} {
		dir := filepath.Join(t.TempDir(), "it's here")
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, mode)); err != nil {
			t.Fatal(err)
		}
		command := ""
		if want.command != "" {
			command = want.command + " '" + strings.ReplaceAll(dir, "'", `'\''`) + "'"
		}
		var log bytes.Buffer
		err := durable.MakeFolder(dir, slog.New(slog.NewTextHandler(&log, nil)))
		wantUntrusted(t, err, dir, command)
		if want.command != "" && !strings.Contains(err.Error(), "use a sub-folder of mode 0700") {
			t.Errorf("%v: got error %v, want that it says what to do with a mounted volume", mode, err)
		}
		if got := strings.Contains(log.String(), "level=WARN"); got != want.warned {
			t.Errorf("%v: got the log %q, want a warning: %t", mode, log.String(), want.warned)
		}
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != mode.Perm() {
			t.Errorf("got mode %v (%v), want that it stays %v", info.Mode(), err, mode)
		}
	}
}

func TestMakeFolder_NewOnesArePrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "data")
	if err := durable.MakeFolder(dir, nil); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, filepath.Dir(dir)} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("got %v (%v), want mode 0700", info.Mode(), err)
		}
	}
}

func TestCheckFolder_OfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to other users")
	}
	dir := t.TempDir()
	theirs, ours, link := filepath.Join(dir, "theirs"), filepath.Join(dir, "ours"), filepath.Join(dir, "link")
	err := errors.Join(os.Mkdir(theirs, 0o700), os.Mkdir(ours, 0o700), os.Lchown(theirs, stranger, -1),
		os.Symlink(ours, link), os.Lchown(link, stranger, -1), os.Symlink(theirs, filepath.Join(dir, "to-theirs")))
	if err != nil {
		t.Fatal(err)
	}
	wantUntrusted(t, durable.CheckFolder(theirs, nil), theirs, "chown 0 "+theirs)
	wantUntrusted(t, durable.CheckPrivate(theirs), theirs, "chown 0 "+theirs)
	wantUntrusted(t, durable.CheckFolder(link, nil), link, "chown 0 "+link)
	wantUntrusted(t, durable.CheckFolder(filepath.Join(dir, "to-theirs"), nil), filepath.Join(dir, "to-theirs"),
		"chown 0 "+filepath.Join(dir, "to-theirs"))
	wantUntrusted(t, durable.CheckFolder(ours, nil), ours, "")

	file := filepath.Join(ours, "file")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Chown(file, stranger, -1)); err != nil {
		t.Fatal(err)
	}
	_, err = durable.ReadTrusted(file)
	wantUntrusted(t, err, file, "chown 0 "+file)
}

func TestReadTrusted_ByMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[fs.FileMode]struct{ trusted, secret string }{
		0o600: {}, 0o400: {},
		0o644: {"", "chmod 600 " + path},
		0o641: {"", "chmod 600 " + path},
		0o620: {"chmod go-w " + path, "chmod 600 " + path},
		0o602: {"chmod go-w " + path, "chmod 600 " + path},
	} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		data, err := durable.ReadTrusted(path)
		wantUntrusted(t, err, path, want.trusted)
		if got := string(data); (got == "text") != (want.trusted == "") {
			t.Errorf("%v: got %q with error %v", mode, got, err)
		}
		_, err = durable.ReadSecret(path)
		wantUntrusted(t, err, path, want.secret)
	}
}

// What people and container engines put in the place of a file.
func TestRead_SaysWhatIsWrongWithAMountedFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder := filepath.Join(dir, "folder")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(folder, link); err != nil {
		t.Fatal(err)
	}
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, test := range []struct{ path, want, err string }{
		{folder, "", folder + ": it is a folder, not a file"},
		{link, "", link + ": it is a folder, not a file"},
		{file("little", "\xff\xfea\x00"), "", "little: it is in UTF-16: save it as UTF-8"},
		{file("big", "\xfe\xff\x00a"), "", "big: it is in UTF-16: save it as UTF-8"},
		{file("mark", "\xef\xbb\xbfa"), "a", ""},
		{file("short", "\xff"), "\xff", ""},
		{file("empty", ""), "", ""},
	} {
		for name, read := range map[string]func(string) ([]byte, error){
			"ReadText": durable.ReadText, "ReadTrusted": durable.ReadTrusted, "ReadSecret": durable.ReadSecret,
		} {
			got, err := read(test.path)
			if test.err == "" && (err != nil || string(got) != test.want) || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("%s of %s: got %q, error %v; want %q, error %q", name, test.path, got, err, test.want, test.err)
			}
		}
	}
	if _, err := durable.ReadText(filepath.Join(dir, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: got %v, want fs.ErrNotExist", err)
	}
	if _, err := durable.ReadSecret(folder); !errors.Is(err, syscall.EISDIR) || strings.Contains(err.Error(), "chmod") {
		t.Errorf("a folder: got %v, want EISDIR and no command that changes its mode", err)
	}
}

// PostgreSQL accepts its key alike.
func TestReadSecret_OfRootAndItsGroup(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to other users")
	}
	path := filepath.Join(t.TempDir(), "tls.key")
	for _, file := range []struct {
		mode        fs.FileMode
		user, group int
		refused     bool
	}{
		{mode: 0o440}, {mode: 0o640},
		{mode: 0o460, refused: true},
		{mode: 0o450, refused: true},
		{mode: 0o444, refused: true},
		{mode: 0o440, group: stranger, refused: true},
		{mode: 0o440, user: stranger, refused: true},
		{mode: 0o400, group: stranger},
	} {
		err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, file.mode), os.Chown(path, file.user, file.group))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := durable.ReadSecret(path); (err != nil) != file.refused {
			t.Errorf("%+v: got error %v", file, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCheckPrivate_ByMode(t *testing.T) {
	dir := t.TempDir()
	for mode, command := range map[fs.FileMode]string{0o700: "", 0o750: "chmod 700 " + dir, 0o701: "chmod 700 " + dir} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		wantUntrusted(t, durable.CheckPrivate(dir), dir, command)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if err := durable.CheckPrivate(link); err == nil {
		t.Error("a link: got no error, want one")
	}
}
