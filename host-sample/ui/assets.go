package ui

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

// assets are scripts, styles and pictures, kept by names that hold their
// digests: what has another content has another address, so browsers may keep
// them for good.
type assets struct {
	path  string
	urls  map[string]string // by the file's name
	files map[string]asset  // by URL
}

type asset struct {
	kind string // media type
	data []byte
}

func newAssets(at string, sources ...fs.FS) (*assets, error) {
	a := &assets{path: at, urls: map[string]string{}, files: map[string]asset{}}
	for _, source := range sources {
		if source == nil {
			continue
		}
		entries, err := fs.ReadDir(source, ".")
		if err != nil {
			return nil, fmt.Errorf("listing assets: %w", err)
		}
		for _, entry := range entries {
			if err := a.add(source, entry.Name()); err != nil {
				return nil, fmt.Errorf("reading an asset: %w", err)
			}
		}
	}
	return a, nil
}

func (a *assets) add(source fs.FS, name string) error {
	data, err := fs.ReadFile(source, name)
	if err != nil {
		return err
	}
	kind, ok := mediaType(path.Ext(name))
	if !ok {
		return fmt.Errorf("%s is of no known kind", name)
	}
	sum := sha256.Sum256(data)
	extension := path.Ext(name)
	url := a.path + strings.TrimSuffix(name, extension) + "." + hex.EncodeToString(sum[:6]) + extension
	a.urls[name], a.files[url] = url, asset{kind: kind, data: data}
	return nil
}

// mediaType does not ask the machine, which may know other types.
func mediaType(extension string) (string, bool) {
	switch extension {
	case ".css":
		return "text/css; charset=utf-8", true
	case ".js":
		return "text/javascript; charset=utf-8", true
	case ".svg":
		return "image/svg+xml", true
	}
	return "", false
}

// url is for templates: a page that names an asset which is not there fails.
func (a *assets) url(name string) (string, error) {
	url, ok := a.urls[name]
	if !ok {
		return "", fmt.Errorf("there is no asset %q", name)
	}
	return url, nil
}

// ServeHTTP answers a page's request for an asset. A name of another build's
// is not found, rather than answered with what that page does not expect.
func (a *assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	file, ok := a.files[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", file.kind)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(file.data) // an error means that nobody listens any more
}
