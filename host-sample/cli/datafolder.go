package cli

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cms-personal/personal/shared/durable"
)

// dataFolder is the folder of one running host:
//
//	host.lock             locked while the host runs; holds its process number
//	host.json             the address of the running host
//	admin-token           grants access to /admin/api/
//	secret.key            encrypts secrets of accounts; not with --no-secret-key
//	user-fields.json      the schema of user fields
//	mail/*.eml            mails that are kept instead of sent
//	plugin-events.ndjson  plugin events, and .1 with older ones
//	personal.db           the plugin's database, unless it is elsewhere
//	plugins/              the plugin catalogue, unless it is elsewhere
//	run/                  private to the plugin manager
type dataFolder struct {
	dir  string
	lock *os.File
}

// openDataFolder creates the folder if it is missing, and locks it. The error is a
// [*durable.UntrustedError] if other users can write to it.
func openDataFolder(dir string, log *slog.Logger) (*dataFolder, error) {
	if err := durable.MakeFolder(dir, log); err != nil {
		return nil, fmt.Errorf("opening the data folder: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "host.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the data folder: %w", err)
	}
	if err := takeLock(lock); err != nil {
		return nil, errors.Join(fmt.Errorf("locking the data folder %s: %w", dir, err), lock.Close())
	}
	return &dataFolder{dir: dir, lock: lock}, nil
}

// takeLock locks the file until it is closed or the process ends, and writes this
// process's number into it.
func takeLock(lock *os.File) error {
	err := durable.Lock(lock) // which a command that looks for a running host may hold for a moment, see lockOwner
	if errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("another host runs on it, process %s", ownerOf(lock))
	}
	if err != nil {
		return err
	}
	if err := lock.Truncate(0); err != nil {
		return err
	}
	_, err = lock.WriteAt(fmt.Appendln(nil, os.Getpid()), 0)
	return err
}

// lockOwner returns the number of the process that holds a lock, empty if none
// does.
func lockOwner(path string) (string, error) {
	lock, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer lock.Close() // also releases the lock
	err = unix.Flock(int(lock.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ownerOf(lock), nil
	}
	return "", err
}

func ownerOf(lock *os.File) string {
	buffer := make([]byte, 32)
	n, _ := lock.ReadAt(buffer, 0)
	if pid := strings.TrimSpace(string(buffer[:n])); pid != "" {
		return pid
	}
	return "unknown"
}

// path returns the path of something in the folder.
func (d *dataFolder) path(name string) string { return filepath.Join(d.dir, name) }

// minAdminToken is the length of 128 random bits in base32, in characters.
const minAdminToken = 26

// adminToken returns the token for the admin API. The first start creates it.
func (d *dataFolder) adminToken() (string, error) {
	path := d.path("admin-token")
	data, err := durable.ReadSecret(path)
	if errors.Is(err, fs.ErrNotExist) {
		token := rand.Text()
		return token, durable.WriteFile(path, []byte(token+"\n"))
	}
	if err != nil {
		return "", fmt.Errorf("reading the admin token, which you can also delete to get a new one: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if len(token) < minAdminToken {
		return "", fmt.Errorf("%s: the token is too short to be safe; delete the file to get a new one", path)
	}
	return token, nil
}

// address is the content of host.json, by which commands find the running host.
type address struct {
	URL string `json:"url"`
	PID int    `json:"pid"`
}

// announce writes host.json.
func (d *dataFolder) announce(url string) error {
	data, err := json.Marshal(address{URL: url, PID: os.Getpid()})
	if err != nil {
		return fmt.Errorf("writing host.json: %w", err)
	}
	return durable.WriteFile(d.path("host.json"), append(data, '\n'))
}

// close removes host.json and releases the lock.
func (d *dataFolder) close() error {
	err := os.Remove(d.path("host.json"))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, d.lock.Close())
}
