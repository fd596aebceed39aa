package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/shared/plugincatalogue"
	"github.com/cms-personal/personal/shared/pluginrpc"
)

// version is stamped at build time by -ldflags "-X main.version=1.2.3".
var version string

// ownVersion is the stamped version, or one that names the very binary: two
// builds during development never pass for the same.
func ownVersion() (string, error) {
	if version != "" {
		return version, nil
	}
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding this program: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("reading this program: %w", err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", fmt.Errorf("reading this program: %w", err)
	}
	return "0.0.0-dev+" + hex.EncodeToString(sum.Sum(nil))[:12], nil
}

// ownManifest describes this binary to a catalogue.
func ownManifest() (plugincatalogue.Manifest, error) {
	v, err := ownVersion()
	if err != nil {
		return plugincatalogue.Manifest{}, err
	}
	return plugincatalogue.Manifest{
		Name:     plugincatalogue.Name,
		Version:  v,
		Protocol: plugincatalogue.Range{Min: pluginrpc.ProtocolVersion, Max: pluginrpc.ProtocolVersion},
		Schema:   plugincatalogue.Range{Min: store.SchemaMinimum, Max: store.SchemaTarget},
		OS:       runtime.GOOS,
		Arch:     runtime.GOARCH,
	}, nil
}
