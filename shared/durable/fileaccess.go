package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

// UntrustedError says that other users of the machine can change, or have made, a folder or
// file that decides what this process runs. Root is trusted.
type UntrustedError struct {
	Path    string
	Problem string
	Mend    string // what to check, and the command to run after that
}

// Error names the path, the problem and what to do.
func (e *UntrustedError) Error() string { return e.Path + ": " + e.Problem + ": " + e.Mend }

const (
	groupReads   fs.FileMode = 0o040
	groupWrites  fs.FileMode = 0o020
	othersWrite  fs.FileMode = 0o002
	othersAccess fs.FileMode = 0o077
)

// MakeFolder creates a folder, with mode 0700, and those above it that are missing. It then
// checks it with [CheckFolder].
func MakeFolder(dir string, log *slog.Logger) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return CheckFolder(dir, log)
}

// CheckFolder returns an [*UntrustedError] if a folder belongs to another user than that of this
// process or root, or if every user can write to it; so it does for a link to a folder that another
// user has made. If its group can write to it, that is logged as a warning, unless log is nil. It
// changes nothing: a folder that was open to others may already have what they put there.
func CheckFolder(dir string, log *slog.Logger) error {
	link, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if err := checkOwner(dir, link); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if err := checkOwnFolder(dir, info); err != nil {
		return err
	}
	mode := info.Mode().Perm()
	if mode&othersWrite != 0 {
		return &UntrustedError{dir, fmt.Sprintf("every user of this machine can write to the folder (mode %04o)", mode),
			mendFolder(dir, "chmod go-w")}
	}
	if mode&groupWrites != 0 && log != nil {
		log.Warn("the group of a folder can write to it, and so decides what runs: trust its members, or run the command", "folder", dir,
			"mode", fmt.Sprintf("%04o", mode), "command", "chmod g-w "+quote(dir))
	}
	return nil
}

// CheckPrivate is [CheckFolder] for a folder that no other user may even read. The path must not
// be a link.
func CheckPrivate(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if err := checkOwnFolder(dir, info); err != nil {
		return err
	}
	if mode := info.Mode().Perm(); mode&othersAccess != 0 {
		return &UntrustedError{dir, fmt.Sprintf("the folder is accessible to other users of this machine (mode %04o), and must have mode 0700",
			mode), mendFolder(dir, "chmod 700")}
	}
	return nil
}

// checkOwnFolder refuses what is not a folder, or belongs to another user.
func checkOwnFolder(dir string, info fs.FileInfo) error {
	if !info.IsDir() {
		return &fs.PathError{Op: "open", Path: dir, Err: syscall.ENOTDIR}
	}
	return checkOwner(dir, info)
}

func mendFolder(dir, command string) string {
	return fmt.Sprintf("check that all in it is yours (ls -lnR %s), then run %s %[1]s; "+
		"of a mounted volume (mode 0777, fsGroup) use a sub-folder of mode 0700", quote(dir), command)
}

// CheckFile returns an [*UntrustedError] if an open file belongs to another user than that of this
// process or root, or if its group or every user can write to it. What is read from the file
// afterwards is what was checked, whatever happens to its name.
func CheckFile(f *os.File) error {
	return checkFile(f, groupWrites|othersWrite, "change", "check its content, then run chmod go-w")
}

// CheckSecret is [CheckFile] for a file that no other user may even read. Only if root owns it, a group of this
// process may read it: so secrets are mounted into containers.
func CheckSecret(f *os.File) error {
	forbidden := othersAccess
	if info, err := f.Stat(); err == nil && ofRootAndOwnGroup(info) {
		forbidden &^= groupReads
	}
	return checkFile(f, forbidden, "access", "replace what is in it, which others may know, or make sure that they do not, then run chmod 600")
}

func checkFile(f *os.File, forbidden fs.FileMode, verb, mend string) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := checkOwner(f.Name(), info); err != nil {
		return err
	}
	if mode := info.Mode().Perm(); mode&forbidden != 0 {
		return &UntrustedError{f.Name(), fmt.Sprintf("other users of this machine can %s it (mode %04o)", verb, mode),
			mend + " " + quote(f.Name())}
	}
	return nil
}

// ReadTrusted is [ReadText] for a file that passes [CheckFile].
func ReadTrusted(path string) ([]byte, error) { return readText(path, CheckFile) }

// ReadSecret is [ReadText] for a file that passes [CheckSecret].
func ReadSecret(path string) ([]byte, error) { return readText(path, CheckSecret) }

// ReadText returns what is in a file that people edit and mount, as [Text] does. For a folder in its
// place the error wraps syscall.EISDIR and says what may have made it.
func ReadText(path string) ([]byte, error) {
	return readText(path, func(*os.File) error { return nil })
}

func readText(path string, check func(*os.File) error) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() { // before its rights are judged
		return nil, fmt.Errorf("%s: it is a folder, not a file: Docker creates one if the source of a mount is missing. "+
			"Replace the folder on the Docker host with the file (%w)", path, syscall.EISDIR)
	}
	if err := check(f); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	if data, err = Text(data); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, nil
}

// Text returns a text of an editor without the byte order mark of UTF-8. One with a mark of UTF-16 is
// an error.
func Text(data []byte) ([]byte, error) {
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return nil, errors.New("it is in UTF-16: save it as UTF-8")
	}
	return bytes.TrimPrefix(data, []byte("\ufeff")), nil
}

// checkOwner refuses what belongs to another user than that of this process or root.
func checkOwner(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || stat.Uid == 0 || int(stat.Uid) == os.Geteuid() {
		return nil
	}
	return &UntrustedError{path, fmt.Sprintf("it belongs to user %d, and this process runs as user %d", stat.Uid, os.Geteuid()),
		fmt.Sprintf("run the program as its owner; or check its content, then run chown %d %s", os.Geteuid(), quote(path))}
}

// ofRootAndOwnGroup reports whether a file belongs to root and to a group of this process.
func ofRootAndOwnGroup(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || stat.Uid != 0 {
		return false
	}
	groups, err := os.Getgroups()
	return int(stat.Gid) == os.Getegid() || err == nil && slices.Contains(groups, int(stat.Gid))
}

// plain matches what a shell does not interpret.
var plain = regexp.MustCompile(`\A[\w@%+=:,./-]+\z`)

// quote returns a path as one word of a shell's command.
func quote(path string) string {
	if plain.MatchString(path) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
