package plugincatalogue

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cms-personal/personal/shared/durable"
)

// installedBefore judges a draft whose version is there already.
func (c *Catalogue) installedBefore(ctx context.Context, d draft) (Entry, error) {
	version := d.manifest.Version
	e, err := c.Find(version)
	if err != nil {
		return Entry{}, refuse(ErrConflict, version, "what is there cannot be used, remove it first: "+err.Error())
	}
	if e.Manifest.SHA256 != d.manifest.SHA256 {
		return Entry{}, refuse(ErrConflict, version,
			fmt.Sprintf("the sha256 of the installed one is %s, of this one %s", e.Manifest.SHA256, d.manifest.SHA256))
	}
	if err := c.mend(ctx, e, d); err != nil {
		return Entry{}, fmt.Errorf("mending the installed plugin %s: %w", version, err)
	}
	return c.Find(version)
}

// mend replaces the parts of an entry that no longer can be staged by those of a
// verified draft of the same binary. So a version that is in use, and cannot be
// removed, gets a signature where keys are brought in or exchanged. A crash
// between two renames leaves an entry that can be staged as little as before.
func (c *Catalogue) mend(ctx context.Context, e Entry, d draft) error {
	var parts []string
	if sum, err := sumOf(ctx, e.Binary()); err != nil || sum != e.Manifest.SHA256 {
		parts = append(parts, Name)
	}
	_, err := c.Signer(e)
	var refused *RefusedError
	if errors.As(err, &refused) {
		parts = append(parts, signatureFile, manifestFile)
	} else if err != nil {
		return err
	}
	if len(parts) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, part := range parts {
		if err := os.Rename(filepath.Join(d.dir, part), filepath.Join(e.Dir, part)); err != nil {
			return err
		}
	}
	return durable.SyncDir(e.Dir)
}
