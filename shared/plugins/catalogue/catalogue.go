// Package catalogue manages versions of the plugin on disk:
//
//	DIR/state.json                     which version is active, and which was the last good one
//	DIR/VERSION/personal               the binary
//	DIR/VERSION/manifest.json          its description, with its sha256
//	DIR/VERSION/manifest.json.minisig  a minisign signature of the manifest, if the version came with one
//	DIR/seen/SHA256                    when the binary with this sum was first here, see [Catalogue.FirstSeen]
//
// The binary of an installed version never changes. The package runs a binary
// only to ask for its manifest, and makes verified private copies ([Catalogue.Stage])
// for others to run. Several processes may use a catalogue at the same time, on Unix.
package catalogue

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"aead.dev/minisign"
	"golang.org/x/mod/semver"

	"github.com/cms-personal/personal/shared/durable"
)

const (
	manifestFile = "manifest.json"

	// Folders of work under way begin with one of these, files with [durable.DraftPrefix].
	installPrefix = ".install-"
	removePrefix  = ".remove-"
	stagePrefix   = ".stage-"

	// staleAfter is the age from which such work counts as left by a killed process.
	staleAfter = time.Hour
)

// The kinds of refusal, for errors.Is.
var (
	ErrInvalid  = errors.New("cannot be installed here")              // not this plugin, or for another machine
	ErrConflict = errors.New("already installed with other contents") // a version never changes
	ErrTampered = errors.New("contents differ from the manifest")     // the sha256 of what is on disk
	ErrNotFound = errors.New("not installed")                         // no such version
	ErrInUse    = errors.New("in use")                                // active, last good, or baking
	ErrNoExec   = errors.New("cannot be run from its folder")         // a file system mounted with noexec, for example

	ErrUntrusted = errors.New("other users can change it") // or have made it: see durable.UntrustedError

	ErrUnsigned     = errors.New("not signed")                     // and the catalogue has keys
	ErrBadSignature = errors.New("not signed by a configured key") // by another key, or changed since
	ErrTooOld       = errors.New("older than allowed")             // see WithMinVersion
	ErrNoKeys       = errors.New("no signing keys are configured") // and so uploads are off
)

// RefusedError says why the catalogue refused an operation on a version. Another
// attempt will not help. It wraps one of the Err values above.
type RefusedError struct {
	Version string // empty if it is unknown
	Reason  string // for an administrator; may be empty
	Kind    error  // one of the Err values above
}

// Error names the version, the kind and the reason.
func (e *RefusedError) Error() string {
	text := strings.TrimSpace("plugin "+e.Version) + ": " + e.Kind.Error()
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// Unwrap returns the kind.
func (e *RefusedError) Unwrap() error { return e.Kind }

func refuse(kind error, version, reason string) *RefusedError {
	return &RefusedError{Version: version, Reason: reason, Kind: kind}
}

func refuseVersion(version string) *RefusedError {
	return refuse(ErrNotFound, "", fmt.Sprintf("%.*q is not a version", maxVersion, version))
}

// Catalogue is a folder of plugin versions.
type Catalogue struct {
	dir        string
	keys       []minisign.PublicKey // if there are none, signatures are not checked
	minVersion string               // the lowest version to stage; empty for any
	invalid    error                // of an option
	log        *slog.Logger
}

// Option changes how a catalogue treats versions. See [Open].
type Option func(*Catalogue)

// WithKeys makes the catalogue accept only versions whose manifest is signed by one
// of these keys: when a version is installed, and again each time it is staged.
// With an empty list Open fails. Without this option signatures are not checked.
func WithKeys(keys []minisign.PublicKey) Option {
	return func(c *Catalogue) {
		if c.keys = append(c.keys, keys...); len(keys) == 0 {
			c.invalid = errors.New("the list of keys is empty: without keys no signature could be checked")
		}
	}
}

// WithMinVersion makes the catalogue refuse to stage versions below this one, and to
// install their bundles: an old version with a known flaw has a genuine signature,
// too.
func WithMinVersion(version string) (Option, error) {
	if !ValidVersion(version) {
		return nil, fmt.Errorf("the oldest version allowed: %.*q is not a version", maxVersion, version)
	}
	return func(c *Catalogue) { c.minVersion = version }, nil
}

// WithLog sets the log of warnings; without it, they go to slog.Default().
func WithLog(log *slog.Logger) Option {
	return func(c *Catalogue) { c.log = log }
}

// Open returns the catalogue in dir, and creates the folder, with mode 0700, if it does
// not exist. It removes what killed processes left there an hour ago or earlier.
//
// If other users of the machine can change the folder, that of a version, or a file in
// them that decides what runs, or if one of these belongs to another user than that of
// this process or root, Open fails with a [*durable.UntrustedError]. Of a folder that
// only its group can write to, it warns. The caller checks the folders above dir.
func Open(dir string, opts ...Option) (*Catalogue, error) {
	c := &Catalogue{log: slog.Default()}
	for _, opt := range opts {
		opt(c)
	}
	err := c.invalid
	if err == nil {
		c.dir, err = filepath.Abs(dir)
	}
	if err == nil {
		err = c.checkFileAccess()
	}
	if err != nil {
		return nil, fmt.Errorf("opening the plugin catalogue: %w", err)
	}
	sweep(c.dir)
	sweep(filepath.Join(c.dir, seenDir))
	return c, nil
}

// NeedsSignatures reports whether the catalogue was opened with keys.
func (c *Catalogue) NeedsSignatures() bool { return len(c.keys) > 0 }

// checkMinVersion refuses a version that is older than allowed.
func (c *Catalogue) checkMinVersion(version string) error {
	if c.minVersion != "" && compareVersions(version, c.minVersion) < 0 {
		return refuse(ErrTooOld, version, "the oldest one allowed is "+c.minVersion)
	}
	return nil
}

// Entry is one installed version.
type Entry struct {
	Manifest Manifest
	Dir      string // the version's folder
}

// Binary returns the path of the entry's binary. To run it, use
// [Catalogue.Stage].
func (e Entry) Binary() string { return filepath.Join(e.Dir, Name) }

// List returns the installed versions, the highest first. It leaves out folders
// without a usable version; [Catalogue.Find] says what is wrong with one.
func (c *Catalogue) List() ([]Entry, error) {
	folders, err := os.ReadDir(c.dir)
	if err != nil {
		return nil, fmt.Errorf("listing the plugin catalogue: %w", err)
	}
	var entries []Entry
	for _, f := range folders {
		e, err := c.Find(f.Name())
		if _, ok := errors.AsType[*RefusedError](err); ok {
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

// ChangesBetween returns what the installed versions declare that a swap between two versions meets, in either
// direction: the changes of each version above the lower one, up to the higher one. Builds of one version, which
// differ in their metadata, count all. A development build, 0.0.0-dev, is above all releases. A version that could not
// be staged counts not.
func (c *Catalogue) ChangesBetween(a, b string) (changes []string, err error) {
	entries, err := c.List()
	place := func(version string) string {
		if strings.HasPrefix(version, "0.0.0-dev") {
			return "v999999999.0.0"
		}
		return "v" + version
	}
	low, high := place(a), place(b)
	if semver.Compare(low, high) > 0 {
		low, high = high, low
	}
	for _, e := range entries {
		v := place(e.Manifest.Version)
		top := semver.Compare(v, high)
		if top > 0 || top < 0 && semver.Compare(v, low) <= 0 {
			continue
		}
		if c.recheck(e) == nil {
			changes = append(changes, e.Manifest.Changes...)
		}
	}
	return changes, err
}

// Find returns one installed version. Its error is a [*RefusedError] of kind
// [ErrNotFound] if it is not installed, of kind [ErrInvalid] if it cannot be used, and of
// kind [ErrUntrusted] if other users can change it.
func (c *Catalogue) Find(version string) (Entry, error) {
	if !ValidVersion(version) {
		return Entry{}, refuseVersion(version)
	}
	dir := filepath.Join(c.dir, version)
	err := durable.CheckFolder(dir, nil) // Open warns
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Entry{}, refuse(ErrNotFound, version, "")
	case errors.Is(err, syscall.ENOTDIR):
		return Entry{}, refuse(ErrInvalid, version, "it is not a folder")
	case isUntrusted(err):
		return Entry{}, refuse(ErrUntrusted, version, err.Error())
	case err != nil:
		return Entry{}, fmt.Errorf("reading plugin %s: %w", version, err)
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

// Remove deletes an installed version, whether or not it can be used. The active
// version, the last good one and one that bakes are refused with kind [ErrInUse].
func (c *Catalogue) Remove(version string) error {
	if !ValidVersion(version) {
		return refuseVersion(version)
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
		return refuse(ErrInUse, version, "it is baking")
	}
	err = removeFolder(c.dir, version)
	if errors.Is(err, fs.ErrNotExist) {
		return refuse(ErrNotFound, version, "")
	}
	if err != nil {
		return fmt.Errorf("removing plugin %s: %w", version, err)
	}
	return durable.SyncDir(c.dir)
}

// Prune removes all versions but the highest ones, as many as keep says, and those
// in use: active, last good, or baking. It returns the versions it removed, the
// highest first, also with an error.
func (c *Catalogue) Prune(keep int) ([]string, error) {
	if keep < 0 {
		return nil, fmt.Errorf("pruning the plugin catalogue: cannot keep %d versions", keep)
	}
	entries, err := c.List()
	if err != nil {
		return nil, err
	}
	var removed []string
	for _, e := range entries[min(keep, len(entries)):] {
		err := c.Remove(e.Manifest.Version)
		switch {
		case err == nil:
			removed = append(removed, e.Manifest.Version)
		case errors.Is(err, ErrInUse), errors.Is(err, ErrNotFound): // not found: another process was faster
		default:
			return removed, err
		}
	}
	return removed, nil
}

// removeFolder removes a folder below parent. It renames it first, so that other
// processes never see a part of it. It needs no space: it may be called to free some.
func removeFolder(parent, name string) error {
	grave := filepath.Join(parent, removePrefix+rand.Text())
	if err := os.Rename(filepath.Join(parent, name), grave); err != nil {
		return err
	}
	_ = os.RemoveAll(grave) // a sweep removes what is left
	return nil
}

// sweep removes what killed processes left in a folder. It ignores errors: the
// leftovers disturb nothing, and the next sweep tries again.
func sweep(dir string) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, f := range files {
		if isStale(f) {
			_ = os.RemoveAll(filepath.Join(dir, f.Name()))
		}
	}
}

// isStale reports whether f is a folder or file of work that ended long ago.
func isStale(f fs.DirEntry) bool {
	isWork := strings.HasPrefix(f.Name(), durable.DraftPrefix) && f.Type().IsRegular()
	for _, prefix := range []string{installPrefix, removePrefix, stagePrefix} {
		isWork = isWork || f.IsDir() && strings.HasPrefix(f.Name(), prefix)
	}
	if !isWork {
		return false
	}
	info, err := f.Info()
	return err == nil && time.Since(info.ModTime()) > staleAfter
}
