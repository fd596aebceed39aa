package plugincatalogue

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cms-personal/personal/shared/durable"
)

// gzipMagic is how a bundle begins, and no program does.
var gzipMagic = []byte{0x1f, 0x8b}

// Install puts a binary, or a bundle of one, into the catalogue under the
// version that it says it is, and returns its entry. It runs a private copy of
// the binary to ask, so only a trusted one may be given; where the catalogue has
// keys, a signed bundle is needed, and is checked first. The same binary
// installed again changes nothing, except that it mends an entry whose binary
// was damaged or whose signature does not hold.
//
// Errors that are a [*RefusedError] have the kind [ErrInvalid], [ErrTampered],
// [ErrUnsigned], [ErrBadSignature], or [ErrConflict] where the version is there
// with other contents.
func (c *Catalogue) Install(ctx context.Context, path string) (Entry, error) {
	e, err := c.installFile(ctx, path)
	if err != nil {
		return Entry{}, fmt.Errorf("installing a plugin: %w", err)
	}
	return e, nil
}

// InstallBundle installs a bundle as it comes in, by an upload say. Since to
// install is to run what was sent, it works only where the catalogue has keys:
// its error has the kind [ErrNoKeys] otherwise, and else is as [Catalogue.Install]
// says, or what r returned. Whatever happens, a version is installed whole or
// not at all. Limits: 512 MiB for the binary, 64 KiB for each other file.
func (c *Catalogue) InstallBundle(ctx context.Context, r io.Reader) (Entry, error) {
	if !c.NeedsSignatures() {
		return Entry{}, refuse(ErrNoKeys, "", "")
	}
	e, err := c.install(ctx, r, c.draftBundle)
	if err != nil {
		return Entry{}, fmt.Errorf("installing a plugin: %w", err)
	}
	return e, nil
}

// installFile finds out what a file is and installs it.
func (c *Catalogue) installFile(ctx context.Context, path string) (Entry, error) {
	f, err := openBinary(path)
	if errors.Is(err, errNotRegular) || errors.Is(err, errHuge) {
		return Entry{}, refuse(ErrInvalid, "", err.Error())
	}
	if err != nil {
		return Entry{}, err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	if magic, _ := r.Peek(len(gzipMagic)); bytes.Equal(magic, gzipMagic) { // a failed read fails again below
		return c.install(ctx, r, c.draftBundle)
	}
	if c.NeedsSignatures() {
		return Entry{}, refuse(ErrUnsigned, "", "a binary alone bears no signature: give a signed bundle")
	}
	return c.install(ctx, r, draftBinary)
}

// draft is a version that is on disk, but not yet under its name.
type draft struct {
	dir       string // holds the binary
	manifest  Manifest
	data      []byte // the manifest's
	signature []byte // nil if there is none
}

// install makes a draft and publishes it. What the draft does not leave behind
// when the process is killed, [sweep] removes later.
func (c *Catalogue) install(ctx context.Context, r io.Reader, prepare func(context.Context, io.Reader, string) (draft, error)) (Entry, error) {
	sweep(c.dir)
	dir, err := os.MkdirTemp(c.dir, installPrefix) // mode 0700
	if err != nil {
		return Entry{}, err
	}
	defer os.RemoveAll(dir)
	d, err := prepare(ctx, r, dir)
	if err != nil {
		return Entry{}, err
	}
	if err := ctx.Err(); err != nil {
		return Entry{}, err
	}
	return c.publish(ctx, d)
}

// draftBinary makes a draft of a binary, which says itself what it is.
func draftBinary(ctx context.Context, r io.Reader, dir string) (draft, error) {
	path := filepath.Join(dir, Name)
	sum, err := writeBinary(contextReader{ctx, r}, path)
	if errors.Is(err, errHuge) {
		return draft{}, refuse(ErrInvalid, "", err.Error())
	}
	if err != nil {
		return draft{}, err
	}
	m, err := ManifestOf(ctx, path)
	if err != nil {
		return draft{}, err
	}
	m.SHA256 = sum
	data, err := encodeManifest(m)
	return draft{dir: dir, manifest: m, data: data}, err
}

// draftBundle makes a draft of a bundle. The binary is run only after the
// signature and its sum were found to be right.
func (c *Catalogue) draftBundle(ctx context.Context, r io.Reader, dir string) (draft, error) {
	u, err := unpack(ctx, r, dir)
	if err != nil {
		return draft{}, err
	}
	if _, err := c.verify("", u.manifest, u.signature); err != nil {
		return draft{}, err
	}
	m, err := parseManifest(u.manifest)
	if err != nil {
		return draft{}, err
	}
	if err := c.checkFloor(m.Version); err != nil {
		return draft{}, err
	}
	if u.sum != m.SHA256 {
		return draft{}, refuse(ErrTampered, m.Version, "its sha256 is "+u.sum)
	}
	own, err := ManifestOf(ctx, filepath.Join(dir, Name))
	if err != nil {
		return draft{}, err
	}
	own.SHA256, own.Notes = m.SHA256, m.Notes
	if own != m {
		return draft{}, refuse(ErrTampered, m.Version, "the binary's own manifest says otherwise")
	}
	return draft{dir: dir, manifest: m, data: u.manifest, signature: u.signature}, nil
}

// publish completes a draft and gives it its final name. The rename decides who
// was first: it fails if the version's folder is there.
func (c *Catalogue) publish(ctx context.Context, d draft) (Entry, error) {
	if err := writeData(filepath.Join(d.dir, manifestFile), d.data); err != nil {
		return Entry{}, err
	}
	if d.signature != nil {
		if err := writeData(filepath.Join(d.dir, signatureFile), d.signature); err != nil {
			return Entry{}, err
		}
	}
	if err := durable.SyncDir(d.dir); err != nil {
		return Entry{}, err
	}
	dir := filepath.Join(c.dir, d.manifest.Version)
	if err := os.Rename(d.dir, dir); errors.Is(err, fs.ErrExist) || errors.Is(err, errNotEmpty) {
		return c.installedBefore(ctx, d)
	} else if err != nil {
		return Entry{}, err
	}
	return Entry{Manifest: d.manifest, Dir: dir}, durable.SyncDir(c.dir)
}
