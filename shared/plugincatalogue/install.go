package plugincatalogue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Install puts a binary into the catalogue under the version that it says it
// is, and returns its entry. It runs a private copy of the binary to ask, so
// only a trusted one may be given. The same binary installed again changes
// nothing.
//
// Errors that are a [*RefusedError] have the kind [ErrInvalid], or
// [ErrConflict] where the version is there with other contents.
func (c *Catalogue) Install(ctx context.Context, binary string) (Entry, error) {
	e, err := c.install(ctx, binary)
	if err != nil {
		return Entry{}, fmt.Errorf("installing a plugin: %w", err)
	}
	return e, nil
}

func (c *Catalogue) install(ctx context.Context, binary string) (Entry, error) {
	draft, err := os.MkdirTemp(c.dir, ".install-") // mode 0700
	if err != nil {
		return Entry{}, err
	}
	defer os.RemoveAll(draft)

	path := filepath.Join(draft, Name)
	sum, err := copyBinary(ctx, binary, path)
	if errors.Is(err, errNotRegular) {
		return Entry{}, refuse(ErrInvalid, "", err.Error())
	}
	if err != nil {
		return Entry{}, err
	}
	printed, err := askManifest(ctx, path)
	if err != nil {
		return Entry{}, err
	}
	m, err := parseManifest(printed)
	if err != nil {
		return Entry{}, err
	}
	m.SHA256 = sum
	return c.publish(draft, m)
}

// publish adds the manifest to a draft and gives the draft its final name. The
// rename decides who was first: it fails if the version's folder is there.
func (c *Catalogue) publish(draft string, m Manifest) (Entry, error) {
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return Entry{}, err
	}
	err = writeNew(filepath.Join(draft, manifestFile), 0o600, func(w io.Writer) error {
		_, err := w.Write(append(data, '\n'))
		return err
	})
	if err != nil {
		return Entry{}, err
	}
	if err := syncDir(draft); err != nil {
		return Entry{}, err
	}
	dir := filepath.Join(c.dir, m.Version)
	if err := os.Rename(draft, dir); errors.Is(err, fs.ErrExist) || errors.Is(err, errNotEmpty) {
		return c.installedBefore(m)
	} else if err != nil {
		return Entry{}, err
	}
	return Entry{Manifest: m, Dir: dir}, syncDir(c.dir)
}

// installedBefore judges a version whose folder is there already.
func (c *Catalogue) installedBefore(m Manifest) (Entry, error) {
	e, err := c.Find(m.Version)
	if err != nil {
		return Entry{}, refuse(ErrConflict, m.Version, "what is there cannot be used, remove it first: "+err.Error())
	}
	if e.Manifest.SHA256 != m.SHA256 {
		return Entry{}, refuse(ErrConflict, m.Version,
			fmt.Sprintf("the sha256 of the installed one is %s, of this one %s", e.Manifest.SHA256, m.SHA256))
	}
	return e, nil
}
