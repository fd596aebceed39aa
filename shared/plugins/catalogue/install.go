package catalogue

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"syscall"

	"golang.org/x/mod/semver"

	"github.com/cms-personal/personal/shared/durable"
)

// gzipMagic begins every bundle, and no program.
var gzipMagic = []byte{0x1f, 0x8b}

// Install puts a binary, or a bundle of one, into the catalogue under the version
// that it reports, and returns its entry. It runs a private copy of the binary to
// get its manifest, so only a trusted one may be given; a catalogue with keys needs
// a signed bundle, and checks the signature first. To install the same binary again
// runs nothing and changes nothing, except that it repairs an entry whose binary was damaged or whose
// signature is not valid any more.
//
// Errors that are a [*RefusedError] have the kind [ErrInvalid], [ErrTampered],
// [ErrUnsigned], [ErrBadSignature], [ErrTooOld], [ErrNoExec], or [ErrConflict] if the
// version is installed with other contents. On a full disk nothing is installed, and the
// error wraps a [*durable.FullError].
func (c *Catalogue) Install(ctx context.Context, path string) (e Entry, err error) {
	defer wrap(&err, "installing a plugin")
	f, r, bundle, err := c.open(path)
	if err != nil {
		return Entry{}, err
	}
	defer f.Close()
	if bundle {
		return c.install(ctx, r, c.draftBundle)
	}
	if e, ok := c.installed(ctx, f); ok && c.Verify(ctx, e) == nil {
		return e, nil // nothing to repair
	}
	return c.install(ctx, r, draftBinary)
}

// installed returns the installed version of a binary. It does not move the file's offset.
func (c *Catalogue) installed(ctx context.Context, f *os.File) (Entry, bool) {
	entries, err := c.List()
	if err != nil || len(entries) == 0 {
		return Entry{}, false
	}
	sum, err := sumOfAll(ctx, io.NewSectionReader(f, 0, maxBinary+1))
	at := slices.IndexFunc(entries, func(e Entry) bool { return e.Manifest.SHA256 == sum })
	if err != nil || at < 0 {
		return Entry{}, false
	}
	return entries[at], true
}

// Newer returns the version of a binary or bundle if it is not that one and not lower; "" otherwise, and
// if it cannot be run, or other users can change it. It installs nothing, but runs a binary that is not
// installed, and the one in a bundle.
func (c *Catalogue) Newer(ctx context.Context, path, than string) string {
	f, r, bundle, err := c.open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	m, err := c.manifestOf(ctx, f, r, bundle)
	if err != nil || m.Version == than || semver.Compare("v"+m.Version, "v"+than) < 0 {
		return ""
	}
	return m.Version
}

// manifestOf returns the manifest of a binary, which it does not copy, or of a bundle.
func (c *Catalogue) manifestOf(ctx context.Context, f *os.File, r io.Reader, bundle bool) (Manifest, error) {
	if bundle {
		dir, err := os.MkdirTemp(c.dir, installPrefix)
		if err != nil {
			return Manifest{}, err
		}
		defer os.RemoveAll(dir)
		d, err := c.draftBundle(ctx, r, dir)
		return d.manifest, err
	}
	if err := durable.CheckFile(f); err != nil { // other users can change it
		return Manifest{}, err
	}
	if e, ok := c.installed(ctx, f); ok {
		return e.Manifest, nil
	}
	path, err := filepath.Abs(f.Name()) // it runs in another folder
	if err != nil {
		return Manifest{}, err
	}
	return ManifestOf(ctx, path)
}

// preparer makes a draft, in a folder, of what it reads.
type preparer func(ctx context.Context, r io.Reader, dir string) (draft, error)

// open opens a binary or a bundle.
func (c *Catalogue) open(path string) (f *os.File, r io.Reader, bundle bool, err error) {
	f, err = openBinary(path)
	if errors.Is(err, errNotRegular) || errors.Is(err, errHuge) {
		err = refuse(ErrInvalid, "", err.Error())
	}
	if err != nil {
		return nil, nil, false, err
	}
	b := bufio.NewReader(f)
	if magic, _ := b.Peek(len(gzipMagic)); bytes.Equal(magic, gzipMagic) { // a failed read fails again in the preparer
		return f, b, true, nil
	}
	if c.NeedsSignatures() {
		return nil, nil, false, errors.Join(refuse(ErrUnsigned, "", "a binary alone has no signature: give a signed bundle"), f.Close())
	}
	return f, b, false, nil
}

// InstallBundle installs a bundle from a stream, such as an upload. Installing runs
// what was sent, so it works only with keys: without them the error has the kind
// [ErrNoKeys]. Other errors are those of [Catalogue.Install], or what r returned. A
// version is installed completely or not at all. Limits: 512 MiB for the binary,
// 64 KiB for each other file.
func (c *Catalogue) InstallBundle(ctx context.Context, r io.Reader) (e Entry, err error) {
	if !c.NeedsSignatures() {
		return Entry{}, refuse(ErrNoKeys, "", "")
	}
	defer wrap(&err, "installing a plugin")
	return c.install(ctx, r, c.draftBundle)
}

// wrap adds what failed to an error.
func wrap(err *error, doing string) {
	if *err != nil {
		*err = fmt.Errorf("%s: %w", doing, *err)
	}
}

// draft is a version that is on disk, but not yet under its name.
type draft struct {
	dir       string // holds the binary
	manifest  Manifest
	data      []byte // the encoded manifest
	signature []byte // nil if there is none
}

// install makes a draft and publishes it. If the process is killed, [sweep] removes
// the draft later.
func (c *Catalogue) install(ctx context.Context, r io.Reader, prepare preparer) (e Entry, err error) {
	sweep(c.dir)
	defer func() { err = durable.ExplainFull(c.dir, err) }()
	dir, err := os.MkdirTemp(c.dir, installPrefix) // mode 0700
	if err != nil {
		return Entry{}, err
	}
	defer os.RemoveAll(dir)
	d, err := prepare(ctx, r, dir)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		_, err = c.firstSeen(d.manifest.SHA256)
	}
	if err != nil {
		return Entry{}, err
	}
	return c.publish(ctx, d)
}

// draftBinary makes a draft of a binary, which prints its own manifest.
func draftBinary(ctx context.Context, r io.Reader, dir string) (draft, error) {
	path := filepath.Join(dir, Name)
	sum, err := writeFile(path, 0o500, contextReader{ctx, r}, true)
	if errors.Is(err, errHuge) {
		return draft{}, refuse(ErrInvalid, "", err.Error())
	}
	if err != nil {
		return draft{}, err
	}
	m, printed, err := askManifest(ctx, path)
	if err != nil {
		return draft{}, err
	}
	m.SHA256 = sum
	var all map[string]json.RawMessage // also the keys of a later version
	if err := json.Unmarshal(printed, &all); err != nil {
		return draft{}, err
	}
	all["sha256"] = json.RawMessage(`"` + sum + `"`)
	data, err := encodeManifest(all)
	return draft{dir: dir, manifest: m, data: data}, err
}

// draftBundle makes a draft of a bundle. It runs the binary only after it has
// verified the signature and the sum.
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
	if err := c.checkMinVersion(m.Version); err != nil {
		return draft{}, err
	}
	if err := checkSum(m, u.sum, nil); err != nil {
		return draft{}, err
	}
	own, err := ManifestOf(ctx, filepath.Join(dir, Name))
	if err != nil {
		return draft{}, err
	}
	own.SHA256, own.Notes = m.SHA256, m.Notes
	if !reflect.DeepEqual(own, m) {
		return draft{}, refuse(ErrTampered, m.Version, "the binary prints another manifest")
	}
	return draft{dir: dir, manifest: m, data: u.manifest, signature: u.signature}, nil
}

// publish completes a draft and renames it to its version. If the version's folder
// exists, the rename fails: of several processes one wins.
func (c *Catalogue) publish(ctx context.Context, d draft) (Entry, error) {
	_, err := writeFile(filepath.Join(d.dir, manifestFile), 0o600, bytes.NewReader(d.data), true)
	if err == nil && d.signature != nil {
		_, err = writeFile(filepath.Join(d.dir, signatureFile), 0o600, bytes.NewReader(d.signature), true)
	}
	if err == nil {
		err = durable.SyncDir(d.dir)
	}
	if err != nil {
		return Entry{}, err
	}
	dir := filepath.Join(c.dir, d.manifest.Version)
	err = os.Rename(d.dir, dir)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTEMPTY) { // the latter is no fs.ErrExist on some systems
		return c.reinstall(ctx, d)
	}
	if err != nil {
		return Entry{}, err
	}
	return Entry{Manifest: d.manifest, Dir: dir}, durable.SyncDir(c.dir)
}

// reinstall compares a draft with the installed version. If both have the same
// binary, it replaces the parts that cannot be staged any more. So a version in use,
// which cannot be removed, gets a new signature when keys are added or exchanged. A
// crash between two renames leaves an entry that still cannot be staged.
func (c *Catalogue) reinstall(ctx context.Context, d draft) (Entry, error) {
	version := d.manifest.Version
	e, err := c.Find(version)
	if err != nil {
		return Entry{}, refuse(ErrConflict, version, "the installed one cannot be used, remove it first: "+err.Error())
	}
	if e.Manifest.SHA256 != d.manifest.SHA256 {
		return Entry{}, refuse(ErrConflict, version,
			fmt.Sprintf("the sha256 of the installed one is %s, of this one %s", e.Manifest.SHA256, d.manifest.SHA256))
	}
	var parts []string
	if sum, err := sumOf(ctx, e.Binary()); err != nil || sum != e.Manifest.SHA256 {
		parts = append(parts, Name)
	}
	_, err = c.Signer(e)
	if _, ok := errors.AsType[*RefusedError](err); ok {
		parts, err = append(parts, signatureFile, manifestFile), nil
	}
	if err == nil {
		err = ctx.Err()
	}
	for _, part := range parts {
		if err == nil {
			err = os.Rename(filepath.Join(d.dir, part), filepath.Join(e.Dir, part))
		}
	}
	if err == nil {
		err = durable.SyncDir(e.Dir)
	}
	if err != nil {
		return Entry{}, fmt.Errorf("repairing the installed plugin %s: %w", version, err)
	}
	return c.Find(version)
}
