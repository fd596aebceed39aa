// Package secretkeys keeps secret keys in a file. A key encrypts what a copy of the
// database must not reveal, such as the secrets of second factors.
//
// The file holds one key a line, of 32 bytes in standard base64, as
//
//	openssl rand -base64 32
//
// prints it. The first key encrypts, all decrypt. Empty lines and lines that begin with #
// are ignored.
package secretkeys

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/cms-personal/personal/shared/durable"
)

const keySize = 32 // in bytes

// ReadFile returns the keys of a file in their order, at least one. It refuses a file that
// other users of the machine can access, or that belongs to another user than that of this
// process or root, with a [*durable.UntrustedError]. Errors name file and line and contain no key.
func ReadFile(path string) ([][]byte, error) {
	text, err := durable.ReadSecret(path)
	if err != nil {
		return nil, err
	}
	var keys [][]byte
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, err := base64.StdEncoding.Strict().DecodeString(line)
		if err != nil || len(key) != keySize { // the decoder's error may quote the line
			return nil, fmt.Errorf("%s:%d: the line is not a key of %d bytes in base64, as `openssl rand -base64 %d` prints it", path, n, keySize,
				keySize)
		}
		if slices.ContainsFunc(keys, func(k []byte) bool { return bytes.Equal(k, key) }) {
			return nil, fmt.Errorf("%s:%d: this key is in the file twice: remove one of the lines", path, n)
		}
		keys = append(keys, key)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s: it has no key: restore it from a backup; if there never was a key, remove the file or add the output of `openssl rand -base64 %d`", path, keySize)
	}
	return keys, nil
}

// CreateFile makes a file with one new random key that only its owner can read, with mode
// 0600. The file survives a power cut. CreateFile never overwrites: the error wraps
// [fs.ErrExist] if the path exists.
func CreateFile(path string) error {
	// An existing file is found before anything is written: the folder may be read-only.
	if _, err := os.Lstat(path); err == nil {
		return &fs.PathError{Op: "create", Path: path, Err: fs.ErrExist}
	}
	key := make([]byte, keySize)
	rand.Read(key) // never fails
	text := fmt.Sprintf("# Secret key: keep it apart from backups of the database. The first key encrypts, all decrypt.\n%s\n",
		base64.StdEncoding.EncodeToString(key))
	return durable.CreateFile(path, []byte(text))
}

// Open returns a function that reads the keys of a file, as [ReadFile] does. It creates a
// missing file with one key at the first start of a host, and logs that; it refuses a
// file that ReadFile refuses. A file that is missing later is an error of the function.
func Open(path string, log *slog.Logger) (func() ([][]byte, error), error) {
	read := func() ([][]byte, error) { return ReadFile(path) }
	err := CreateFile(path)
	switch {
	case errors.Is(err, fs.ErrExist):
		_, err = read()
		return read, err
	case err != nil:
		return nil, fmt.Errorf("creating a secret key: %w", err)
	}
	log.Info("created a secret key: keep a copy of it, apart from backups of the database; the next start, and other nodes on this database, need the same file",
		"file", path)
	return read, nil
}
