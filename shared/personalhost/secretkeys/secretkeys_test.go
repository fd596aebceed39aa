package secretkeys_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personalhost/secretkeys"
)

var keyA, keyB = bytes.Repeat([]byte{0xa5}, 32), bytes.Repeat([]byte{0x5b}, 32)

func line(key []byte) string { return base64.StdEncoding.EncodeToString(key) }

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret.key")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadFile_ReturnsKeysInOrder(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"plain":            line(keyB) + "\n" + line(keyA) + "\n",
		"no last line end": line(keyB) + "\n" + line(keyA),
		"comments":         "# new\n\n" + line(keyB) + "\n  # old: " + line(keyB) + "\n\t\n" + line(keyA) + "\n#",
		"a mark in front":  "\ufeff" + line(keyB) + "\n" + line(keyA),
		"of Windows":       line(keyB) + "\r\n\r\n " + line(keyA) + " \r\n",
	} {
		got, err := secretkeys.ReadFile(write(t, text))
		if diff := cmp.Diff([][]byte{keyB, keyA}, got); err != nil || diff != "" {
			t.Errorf("%s: error %v, keys (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestReadFile_ReadsWhatOpenSSLPrints(t *testing.T) {
	t.Parallel()
	printed, err := exec.Command("openssl", "rand", "-base64", "32").Output()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("openssl is not installed")
	}
	if err != nil {
		t.Fatal(err)
	}
	keys, err := secretkeys.ReadFile(write(t, string(printed)))
	if err != nil || len(keys) != 1 || line(keys[0]) != strings.TrimSpace(string(printed)) {
		t.Errorf("got %d keys, error %v, want the printed one", len(keys), err)
	}
}

func TestReadFile_FolderOrUTF16(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for path, want := range map[string]string{folder: "it is a folder", write(t, "\xff\xfe"+line(keyA)): "UTF-16"} {
		if _, err := secretkeys.ReadFile(path); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "chmod") {
			t.Errorf("got %v, want %q", err, want)
		}
		if _, err := secretkeys.Open(path, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("at a start: got %v, want %q", err, want)
		}
	}
}

func TestReadFile_ErrorNamesLineAndShowsNoKey(t *testing.T) {
	t.Parallel()
	const secret = "SecretSesame"
	good := line(keyA)
	for name, test := range map[string]struct{ text, want string }{
		"no base64":         {"# keys\n\n" + secret + "!\n", ":3: the line is not a key"},
		"too short":         {good + "\n" + line(keyA[:31]), ":2: the line is not a key"},
		"too long":          {line(append(bytes.Clone(keyA), 1)), ":1: the line is not a key"},
		"cut":               {good[:43], ":1: the line is not a key"},
		"hexadecimal":       {strings.Repeat("a5", 32), ":1: the line is not a key"},
		"URL alphabet":      {strings.Repeat("_", 43) + "=", ":1: the line is not a key"},
		"stray bits":        {good[:42] + "V=", ":1: the line is not a key"},
		"two on a line":     {good + " " + line(keyB), ":1: the line is not a key"},
		"text after it":     {good + " # " + secret, ":1: the line is not a key"},
		"twice":             {good + "\n" + line(keyB) + "\n" + good, ":3: this key is in the file twice"},
		"empty":             {"", ": it has no key"},
		"comments alone":    {"# " + good + "\n\n", ": it has no key"},
		"very long line":    {strings.Repeat(secret, 10000), ": "},
		"zero bytes (full)": {strings.Repeat("\x00", 45), ":1: the line is not a key"},
	} {
		path := write(t, test.text)
		keys, err := secretkeys.ReadFile(path)
		if err == nil || !strings.HasPrefix(err.Error(), path+test.want) || keys != nil {
			t.Errorf("%s: got %d keys, error %v, want one that begins with %s%s", name, len(keys), err, path, test.want)
		}
		if err != nil && (strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), good[:8])) {
			t.Errorf("%s: the error shows the line: %v", name, err)
		}
	}
}

func TestReadFile_MissingFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secret.key")
	if _, err := secretkeys.ReadFile(path); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want that the named file does not exist", err)
	}
}

func TestReadFile_RefusesFileThatOthersCanAccess(t *testing.T) {
	t.Parallel()
	path := write(t, line(keyA))
	for mode, fine := range map[fs.FileMode]bool{0o600: true, 0o400: true, 0o660: false, 0o604: false, 0o620: false, 0o601: false} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := secretkeys.ReadFile(path)
		if fine && err != nil || !fine && (err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "chmod 600")) {
			t.Errorf("mode %04o: got error %v, want one that says what to do: %t", mode, err, !fine)
		}
	}
}

func TestCreateFile_MakesPrivateFileWithNewKey(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 2 {
		path := filepath.Join(t.TempDir(), "secret.key")
		if err := secretkeys.CreateFile(path); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("got file %v (%v), want one of mode 0600", info, err)
		}
		keys, err := secretkeys.ReadFile(path)
		if err != nil || len(keys) != 1 || len(keys[0]) != 32 {
			t.Fatalf("got %d keys, error %v, want one of 32 bytes", len(keys), err)
		}
		seen[string(keys[0])] = true
	}
	if len(seen) != 2 {
		t.Error("two files have the same key")
	}
}

func TestCreateFile_NeverOverwrites(t *testing.T) {
	t.Parallel()
	for _, text := range []string{line(keyA) + "\n", ""} {
		path := write(t, text)
		if err := secretkeys.CreateFile(path); !errors.Is(err, fs.ErrExist) {
			t.Errorf("got %v, want that the file exists", err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("the file of %d bytes was overwritten (%v)", len(text), err)
		}
	}
}

func TestCreateFile_OnlyOneOfManyCreatesTheFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "secret.key")
	var created atomic.Int64
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			switch err := secretkeys.CreateFile(path); {
			case err == nil:
				created.Add(1)
			case !errors.Is(err, fs.ErrExist):
				t.Errorf("got %v, want that the file exists", err)
			}
		})
	}
	all.Wait()
	files, err := os.ReadDir(dir)
	if created.Load() != 1 || err != nil || len(files) != 1 {
		t.Errorf("created %d times, the folder has %d files (%v), want one", created.Load(), len(files), err)
	}
}

func TestOpen_CreatesMissingFileAndChecksExistingOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "secret.key")
	var log bytes.Buffer
	open := func(path string) error {
		log.Reset()
		keys, err := secretkeys.Open(path, slog.New(slog.NewTextHandler(&log, nil)))
		if err == nil {
			if read, err := keys(); err != nil || len(read) == 0 {
				t.Errorf("got %d keys, error %v", len(read), err)
			}
		}
		return err
	}
	if err := open(path); err != nil || !strings.Contains(log.String(), path) {
		t.Fatalf("missing file: got error %v, log %q", err, &log)
	}
	before, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := open(path); err != nil || log.Len() > 0 {
		t.Errorf("existing file: got error %v, log %q", err, &log)
	}
	if after, err := os.Stat(dir); err != nil || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("existing file: the folder was written to (%v): it may be read-only", err)
	}
	damaged := write(t, "no key\n")
	if err := open(damaged); err == nil || !strings.HasPrefix(err.Error(), damaged+":1: ") {
		t.Errorf("damaged file: got error %v, want one that names the line", err)
	}
	if err := open(filepath.Join(dir, "missing", "secret.key")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing folder: got error %v", err)
	}
}
