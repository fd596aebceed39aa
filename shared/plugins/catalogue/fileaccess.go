package catalogue

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/cms-personal/personal/shared/durable"
)

// checkFileAccess makes sure that no other user can decide what the catalogue runs. It
// creates the catalogue's folder if it does not exist.
func (c *Catalogue) checkFileAccess() error {
	if err := durable.MakeFolder(c.dir, c.log); err != nil {
		return err
	}
	folders, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	files := []string{filepath.Join(c.dir, stateFile)}
	for _, f := range folders {
		if !ValidVersion(f.Name()) {
			continue // never used
		}
		dir := filepath.Join(c.dir, f.Name())
		if err := durable.CheckFolder(dir, c.log); isUntrusted(err) { // Find reports other errors
			return err
		}
		for _, part := range []string{manifestFile, signatureFile, Name} {
			files = append(files, filepath.Join(dir, part))
		}
	}
	for _, path := range files {
		f, err := openChecked(path)
		if isUntrusted(err) {
			return err
		}
		if err == nil { // its reader reports others
			_ = f.Close()
		}
	}
	return nil
}

func isUntrusted(err error) bool { return errors.As(err, new(*durable.UntrustedError)) }
