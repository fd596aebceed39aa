package catalogue

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/durable"
)

// seenDir is the folder with a file for every binary that was ever in the catalogue.
const seenDir = "seen"

// FirstSeen returns when the catalogue first had the binary of an entry: when it was
// installed or, if something else put it there, when this was first called. It is UTC, by
// the clock of the machine, and never changes for a binary: not when it is installed
// again, nor when it is removed.
func (c *Catalogue) FirstSeen(e Entry) (time.Time, error) {
	at, err := c.firstSeen(e.Manifest.SHA256)
	if err != nil {
		return time.Time{}, fmt.Errorf("reading since when plugin %s is known: %w", e.Manifest.Version, err)
	}
	return at, nil
}

func (c *Catalogue) firstSeen(sum string) (time.Time, error) {
	if _, err := hex.DecodeString(sum); err != nil || sum == "" {
		return time.Time{}, errors.New("the manifest has no sha256")
	}
	dir := filepath.Join(c.dir, seenDir)
	path := filepath.Join(dir, sum)
	now := time.Now().UTC().Truncate(time.Second)
	data, err := readSmall(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = durable.MakeFolder(dir, nil); err == nil {
			err = durable.CreateFile(path, []byte(now.Format(time.RFC3339)+"\n"))
		}
		if errors.Is(err, fs.ErrExist) { // another process was faster
			data, err = readSmall(path)
		} else {
			return now, err
		}
	}
	if err != nil {
		return time.Time{}, err
	}
	at, err := time.Parse(time.RFC3339, strings.TrimSpace(string(data)))
	if err != nil { // left by a killed process, see durable.CreateFile
		return now, durable.WriteFile(path, []byte(now.Format(time.RFC3339)+"\n"))
	}
	return at, nil
}
