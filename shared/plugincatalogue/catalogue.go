// Package plugincatalogue keeps versions of the plugin on disk:
//
//	DIR/state.json                     which version is active, which was the last good one
//	DIR/VERSION/personal               the binary
//	DIR/VERSION/manifest.json          what it is, and its sha256
//	DIR/VERSION/manifest.json.minisig  a minisign signature of that, if it came with one
//
// The binary of a version never changes once it is installed. The package knows
// no process: it hands out verified private copies ([Catalogue.Stage]) for others
// to run. It may be used by several processes at once, on Unix.
package plugincatalogue

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"aead.dev/minisign"

	"github.com/cms-personal/personal/shared/durable"
)

const manifestFile = "manifest.json"

// Catalogue is a folder of plugin versions.
type Catalogue struct {
	dir   string
	keys  []minisign.PublicKey // none: signatures are not looked at
	floor string               // the lowest version to stage; empty: any
}

// Entry is one installed version.
type Entry struct {
	Manifest Manifest
	Dir      string // the version's folder
}

// Binary returns the path of the entry's binary. To run it, use
// [Catalogue.Stage].
func (e Entry) Binary() string { return filepath.Join(e.Dir, Name) }

// Open returns the catalogue in dir and makes the folder if there is none. It
// clears away what processes that were killed an hour ago or earlier left there.
func Open(dir string, opts ...Option) (*Catalogue, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the plugin catalogue: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("opening the plugin catalogue: %w", err)
	}
	c := &Catalogue{dir: dir}
	for _, opt := range opts {
		opt(c)
	}
	sweep(dir)
	return c, nil
}

// List returns the installed versions, the highest first. Folders that hold no
// sound version are left out; [Catalogue.Find] tells what is wrong with one.
func (c *Catalogue) List() ([]Entry, error) {
	folders, err := os.ReadDir(c.dir)
	if err != nil {
		return nil, fmt.Errorf("listing the plugin catalogue: %w", err)
	}
	var entries []Entry
	for _, f := range folders {
		e, err := c.Find(f.Name())
		var refused *RefusedError
		if errors.As(err, &refused) {
			continue
		}
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b Entry) int {
		return compareVersions(b.Manifest.Version, a.Manifest.Version)
	})
	return entries, nil
}

// Find returns one installed version. Its error is a [*RefusedError] of kind
// [ErrNotFound] if there is none, and of kind [ErrInvalid] if what is there
// cannot be used.
func (c *Catalogue) Find(version string) (Entry, error) {
	if !ValidVersion(version) {
		return Entry{}, refuse(ErrNotFound, "", fmt.Sprintf("%.*q is no version", maxVersion, version))
	}
	dir := filepath.Join(c.dir, version)
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return Entry{}, refuse(ErrNotFound, version, "")
	}
	data, err := readPart(version, dir, manifestFile)
	if err != nil {
		return Entry{}, err
	}
	m, err := parseManifest(data)
	if err != nil {
		return Entry{}, err
	}
	if m.Version != version {
		return Entry{}, refuse(ErrInvalid, version, "its manifest says "+m.Version)
	}
	return Entry{Manifest: m, Dir: dir}, nil
}

// Remove deletes an installed version, sound or not. The active, the last good
// and the one on trial are refused with kind [ErrInUse].
func (c *Catalogue) Remove(version string) error {
	if !ValidVersion(version) {
		return refuse(ErrNotFound, "", fmt.Sprintf("%.*q is no version", maxVersion, version))
	}
	state, err := c.LoadState()
	if err != nil {
		return err
	}
	switch version {
	case state.Active:
		return refuse(ErrInUse, version, "it is the active version")
	case state.LastGood:
		return refuse(ErrInUse, version, "it is the version to fall back to")
	case state.Baking:
		return refuse(ErrInUse, version, "it is on trial")
	}
	err = bury(c.dir, version)
	if errors.Is(err, fs.ErrNotExist) {
		return refuse(ErrNotFound, version, "")
	}
	if err != nil {
		return fmt.Errorf("removing plugin %s: %w", version, err)
	}
	return durable.SyncDir(c.dir)
}
