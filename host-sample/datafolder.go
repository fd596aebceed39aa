package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cms-personal/personal/shared/durable"
)

// dataFolder is the folder that one running host has for itself:
//
//	host.lock         locked while the host runs; holds its process number
//	host.json         where the running host can be reached
//	admin-token       who may call /admin/api/
//	user-fields.json  the schema of user fields
//	mail/*.eml        mails kept instead of sent
//	plugin-events.ndjson  what happened to the plugin, and .1 with what was before
//	personal.db       the plugin's database, unless it is elsewhere
//	plugins/          the plugin catalogue, unless it is elsewhere
//	run/              the plugin manager's own
type dataFolder struct {
	dir  string
	lock *os.File
}

// openDataFolder makes the folder if there is none and locks it.
func openDataFolder(dir string, log *slog.Logger) (*dataFolder, error) {
	if err := makeDataFolder(dir, log); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "host.lock")
	lock, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the data folder: %w", err)
	}
	if err := takeLockPatiently(lock); err != nil {
		return nil, errors.Join(fmt.Errorf("locking the data folder %s: %w", dir, err), lock.Close())
	}
	return &dataFolder{dir: dir, lock: lock}, nil
}

func makeDataFolder(dir string, log *slog.Logger) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the data folder: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("looking at the data folder: %w", err)
	}
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	if !isOurs(dir) {
		log.Warn("the data folder is open to other users of this machine", "dir", dir, "mode", info.Mode().String())
		return nil
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("closing the data folder to others: %w", err)
	}
	log.Info("closed the data folder to other users of this machine", "dir", dir, "mode", info.Mode().String())
	return nil
}

// ours are the names of what a host keeps in its folder, of what is meant to be
// put there, and of events.ndjson, which earlier versions kept.
var ours = regexp.MustCompile(`\A(host\.(lock|json)|admin-token|user-fields\.json|mail|(plugin-)?events\.ndjson(\.1)?|` +
	`personal\.db(-wal|-shm)?|plugins|run|\.write-.*|[a-z]+\.toml)\z`)

// isOurs tells whether there is nothing in the folder but what is ours. Another
// one, such as /tmp, is not closed to those who use it for something else.
func isOurs(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return !ours.MatchString(e.Name()) })
}

// A command that looks for a running host holds the lock for the blink of an eye.
const (
	lockTries = 20
	lockPause = 10 * time.Millisecond
)

var errHeld = errors.New("another host runs on it")

// takeLockPatiently is takeLock, which does not take such a command for a host.
func takeLockPatiently(lock *os.File) error {
	err := takeLock(lock)
	for tries := 1; errors.Is(err, errHeld) && tries < lockTries; tries++ {
		time.Sleep(lockPause)
		err = takeLock(lock)
	}
	return err
}

// takeLock locks the file until it is closed or the process ends, and writes
// down whose lock it is.
func takeLock(lock *os.File) error {
	err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("%w, process %s", errHeld, ownerOf(lock))
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

// adminToken returns the token for the admin's API, made at the first start.
func (d *dataFolder) adminToken() (string, error) {
	path := d.path("admin-token")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		token := rand.Text()
		return token, durable.WriteFile(path, []byte(token+"\n"))
	}
	if err == nil {
		err = os.Chmod(path, 0o600) // whoever copied it may have let others read it
	}
	if err != nil {
		return "", fmt.Errorf("reading the admin token: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if len(token) < minAdminToken {
		return "", fmt.Errorf("%s: the token is too short to be safe; delete the file and a new one is made", path)
	}
	return token, nil
}

// minAdminToken is what 128 random bits need in base32, in characters.
const minAdminToken = 26

// address is host.json: where commands find the running host.
type address struct {
	URL string `json:"url"`
	PID int    `json:"pid"`
}

// announce writes host.json.
func (d *dataFolder) announce(url string) error {
	data, err := json.Marshal(address{URL: url, PID: os.Getpid()})
	if err != nil {
		return fmt.Errorf("announcing the host: %w", err)
	}
	return durable.WriteFile(d.path("host.json"), append(data, '\n'))
}

// close withdraws the announcement and gives the folder to whoever comes next.
func (d *dataFolder) close() error {
	err := os.Remove(d.path("host.json"))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, d.lock.Close())
}
