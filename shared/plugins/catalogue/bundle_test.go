package catalogue

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"aead.dev/minisign"
)

func TestBundle_SignedIsInstalledAndStaged(t *testing.T) {
	key, sign := keyPair(t)
	other, _ := keyPair(t)
	m := manifestOf("1.0.0")
	m.Notes = "Faster."
	b := bundle(t, binary(t, m, ""), m, sign)
	ways := map[string]func(*Catalogue) (Entry, error){
		"as a file":   func(c *Catalogue) (Entry, error) { return c.Install(t.Context(), saved(t, b)) },
		"as a stream": func(c *Catalogue) (Entry, error) { return c.InstallBundle(t.Context(), bytes.NewReader(b)) },
	}
	for name, install := range ways {
		t.Run(name, func(t *testing.T) {
			c := openWith(t, WithKeys([]minisign.PublicKey{other, key}))
			for range 2 { // the second one changes nothing
				e, err := install(c)
				if err != nil {
					t.Fatal(err)
				}
				if e.Manifest.Notes != m.Notes || !intact(e) {
					t.Errorf("got manifest %v, want the notes %q and the sum of the binary", e.Manifest, m.Notes)
				}
				if id, err := c.Signer(e); err != nil || id != keyID(key.ID()) {
					t.Errorf("got signer %q (%v), want %s", id, err, keyID(key.ID()))
				}
				mustStage(t, c, e, filepath.Join(t.TempDir(), "run"))
			}
		})
	}
}

// intact reports whether an entry's binary has the sum of its manifest.
func intact(e Entry) bool {
	sum, err := sumOf(context.Background(), e.Binary())
	return err == nil && sum == e.Manifest.SHA256
}

// A made-up 0.3.0 says in its manifest what this version does not know.
func TestInstall_KeepsWhatALaterManifestSays(t *testing.T) {
	const later = `"hosts":{"min":9007199254740993},`
	m := manifestOf("0.3.0")
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	path := script(t, fmt.Sprintf("[ \"$1\" = manifest ] && echo '{%s%s'", later, data[1:]))
	public, sign := keyPair(t)
	signed := parts(t, bundle(t, path, m, sign))
	signed[1] = file(manifestFile, []byte("{"+later+string(signed[1].data[1:])))
	signature, err := sign(signed[1].data)
	if err != nil {
		t.Fatal(err)
	}
	signed[2] = file(signatureFile, signature)
	for path, c := range map[string]*Catalogue{
		path: openWith(t), saved(t, gzipOf(t, tarOf(t, signed))): openWith(t, WithKeys([]minisign.PublicKey{public})),
	} {
		e, err := c.Install(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Stage(t.Context(), e, filepath.Join(t.TempDir(), "run")); err != nil {
			t.Errorf("got %v, want it to be staged", err)
		}
		stored, err := os.ReadFile(filepath.Join(e.Dir, manifestFile))
		if got := strings.Join(strings.Fields(string(stored)), ""); err != nil || !strings.Contains(got, later[:len(later)-1]) {
			t.Errorf("got the manifest %s, %v, want %s in it", got, err, later)
		}
		if err := os.WriteFile(filepath.Join(c.dir, stateFile), []byte(`{"active":"0.3.0","since":{"day":1}}`), 0o600); err != nil {
			t.Fatal(err)
		}
		if state, err := c.LoadState(); err != nil || state.Active != "0.3.0" {
			t.Errorf("got the state %v, %v, want 0.3.0 to be active", state, err)
		}
	}
}

func TestWriteBundle_IsReproducible(t *testing.T) {
	_, sign := keyPair(t)
	m := manifestOf("1.0.0")
	path := binary(t, m, "")
	first := bundle(t, path, m, sign)
	if err := os.Chtimes(path, longAgo(), longAgo()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, bundle(t, path, m, sign)) {
		t.Error("got two different bundles, want equal ones")
	}
	for _, p := range parts(t, first) {
		if p.header.Uid != 0 || p.header.Gid != 0 || p.header.Uname != "" || p.header.ModTime.Unix() != 0 {
			t.Errorf("%s: got header %v, want nothing about the machine", p.header.Name, p.header)
		}
	}
}

func TestBundle_WithoutKeysNeedsNoSignatureButUploadIsRefused(t *testing.T) {
	m := manifestOf("1.0.0")
	b := bundle(t, binary(t, m, ""), m, nil)
	c := open(t)
	_, err := c.InstallBundle(t.Context(), bytes.NewReader(b))
	wantRefused(t, err, ErrNoKeys)
	wantEmpty(t, c)
	e, err := c.Install(t.Context(), saved(t, b))
	if err != nil {
		t.Fatal(err)
	}
	if id, err := c.Signer(e); id != "" || err != nil {
		t.Errorf("got signer %q (%v), want none", id, err)
	}
	mustStage(t, c, e, filepath.Join(t.TempDir(), "run"))
}

func TestBundle_InvalidIsRefusedAndLeavesNothing(t *testing.T) {
	key, sign := keyPair(t)
	_, stranger := keyPair(t)
	m := manifestOf("1.0.0")
	path := binary(t, m, "")
	good := parts(t, bundle(t, path, m, sign))
	program, manifest, signature := good[0], good[1], good[2]
	whole := tarOf(t, good)
	packed := gzipOf(t, whole)

	of := func(list ...part) []byte { return gzipOf(t, tarOf(t, list)) }
	with := func(p part, change func(*tar.Header)) part { change(&p.header); return p }
	named := func(p part, name string) part { return with(p, func(h *tar.Header) { h.Name = name }) }
	// signedAs makes a bundle with any manifest and its valid signature.
	signedAs := func(change func(*Manifest)) []byte {
		claim := m
		change(&claim)
		if claim.SHA256 == "" {
			claim.SHA256, _ = sumOf(t.Context(), path)
		}
		data, err := encodeManifest(claim)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := sign(data)
		return of(program, file(manifestFile, data), file(signatureFile, text))
	}
	resigned := func(sign func([]byte) ([]byte, error)) []byte {
		text, _ := sign(manifest.data)
		return of(program, manifest, file(signatureFile, text))
	}

	for name, tt := range map[string]struct {
		bundle []byte
		kind   error
	}{
		"no signature":             {of(program, manifest), ErrUnsigned},
		"an empty signature":       {of(program, manifest, file(signatureFile, nil)), ErrBadSignature},
		"a signature of garbage":   {of(program, manifest, file(signatureFile, []byte("RW"))), ErrBadSignature},
		"a foreign signature":      {resigned(stranger), ErrBadSignature},
		"another manifest's":       {of(program, manifest, file(signatureFile, must(sign([]byte("{}"))))), ErrBadSignature},
		"a manifest with a blank":  {of(program, file(manifestFile, append(slices.Clone(manifest.data), ' ')), signature), ErrBadSignature},
		"another binary":           {of(file(Name, []byte("#!/bin/sh\n")), manifest, signature), ErrTampered},
		"an empty binary":          {of(file(Name, nil), manifest, signature), ErrTampered},
		"a manifest without a sum": {signedAs(func(m *Manifest) { m.SHA256 = "-" }), ErrTampered},
		"another schema range":     {signedAs(func(m *Manifest) { m.Schema.Max = 9 }), ErrTampered},
		"other settings":           {signedAs(func(m *Manifest) { m.Settings = []string{"site"} }), ErrTampered},
		"another version":          {signedAs(func(m *Manifest) { m.Version = "9.0.0" }), ErrTampered},
		"a path as the version":    {signedAs(func(m *Manifest) { m.Version = "../9.0.0" }), ErrInvalid},
		"another system":           {signedAs(func(m *Manifest) { m.OS = "plan9" }), ErrInvalid},
		"another name":             {signedAs(func(m *Manifest) { m.Name = "../x" }), ErrInvalid},
		"no binary":                {of(manifest, signature), ErrInvalid},
		"no manifest":              {of(program, signature), ErrInvalid},
		"no files":                 {of(), ErrInvalid},
		"two binaries":             {of(program, program, manifest, signature), ErrInvalid},
		"two manifests":            {of(program, manifest, manifest, signature), ErrInvalid},
		"two signatures":           {of(program, manifest, signature, signature), ErrInvalid},
		"an unknown file":          {of(program, manifest, signature, file("README", nil)), ErrInvalid},
		"a path to another folder": {of(named(program, "../personal"), manifest, signature), ErrInvalid},
		"an absolute path":         {of(named(program, "/tmp/personal"), manifest, signature), ErrInvalid},
		"a symbolic link":          {of(part{tar.Header{Typeflag: tar.TypeSymlink, Name: Name, Linkname: "/bin/sh"}, nil}, manifest, signature), ErrInvalid},
		"a hard link":              {of(part{tar.Header{Typeflag: tar.TypeLink, Name: Name, Linkname: "/bin/sh"}, nil}, manifest, signature), ErrInvalid},
		"extended records": {of(with(program, func(h *tar.Header) {
			h.Format, h.PAXRecords = tar.FormatPAX, map[string]string{"SCHILY.xattr.user.x": "1"}
		}), manifest, signature), ErrInvalid},
		"a binary cut off":         {of(manifest, signature, with(program, func(h *tar.Header) { h.Size++ })), ErrInvalid},
		"an invalid manifest":      {of(program, file(manifestFile, []byte("{")), file(signatureFile, must(sign([]byte("{"))))), ErrInvalid},
		"data after the tar":       {gzipOf(t, append(slices.Clone(whole), "tail"...)), ErrInvalid},
		"a tar after the tar":      {gzipOf(t, append(slices.Clone(whole), whole...)), ErrInvalid},
		"too many zeros":           {gzipOf(t, append(slices.Clone(whole), make([]byte, maxPadding+1)...)), ErrInvalid},
		"data after the gzip":      {append(slices.Clone(packed), 'x'), ErrInvalid},
		"another gzip after it":    {append(slices.Clone(packed), packed...), ErrInvalid},
		"an empty gzip after it":   {append(slices.Clone(packed), gzipOf(t, nil)...), ErrInvalid},
		"a gzip cut off":           {packed[:len(packed)-9], ErrInvalid},
		"a gzip without its sum":   {packed[:len(packed)-8], ErrInvalid},
		"a gzip with a faulty sum": {append(slices.Clone(packed[:len(packed)-1]), packed[len(packed)-1]^1), ErrInvalid},
		"a gzip's header alone":    {packed[:10], ErrInvalid},
		"no tar":                   {gzipOf(t, bytes.Repeat([]byte("x"), 2048)), ErrInvalid},
		"no gzip":                  {[]byte("\x1f\x8bnothing"), ErrInvalid},
		"a bare tar":               {whole, nil}, // the kinds differ: a file of it counts as a binary
		"no data":                  {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := openWith(t, WithKeys([]minisign.PublicKey{key}))
			_, err := c.InstallBundle(t.Context(), bytes.NewReader(tt.bundle))
			uploadKind, fileKind := tt.kind, tt.kind
			if tt.kind == nil {
				uploadKind, fileKind = ErrInvalid, ErrUnsigned
			}
			wantRefused(t, err, uploadKind)
			wantEmpty(t, c)
			_, err = c.Install(t.Context(), saved(t, tt.bundle))
			wantRefused(t, err, fileKind)
			wantEmpty(t, c)
			wantAlone(t, c)
		})
	}
}

func TestBundle_DeclaredSizesAreLimitedBeforeReading(t *testing.T) {
	key, _ := keyPair(t)
	for name, tt := range map[string]struct {
		name string
		size int64
		want string
	}{
		"a binary":    {Name, maxBinary + 1, "512 MiB"},
		"a manifest":  {manifestFile, maxSmall + 1, "64 KiB"},
		"a signature": {signatureFile, maxSmall + 1, "64 KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			c := openWith(t, WithKeys([]minisign.PublicKey{key}))
			b := gzipOf(t, tarOf(t, []part{{tar.Header{Typeflag: tar.TypeReg, Name: tt.name, Size: tt.size}, nil}}))
			_, err := c.InstallBundle(t.Context(), bytes.NewReader(b))
			wantRefused(t, err, ErrInvalid)
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want that it is larger than %s", err, tt.want)
			}
			wantEmpty(t, c)
		})
	}
}

func must(data []byte, _ error) []byte { return data }

// wantAlone checks that nothing was written outside the catalogue's folder.
func wantAlone(t testing.TB, c *Catalogue) {
	t.Helper()
	for _, dir := range []string{filepath.Dir(c.dir), filepath.Dir(filepath.Dir(c.dir))} {
		if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
			t.Errorf("got files %v in %s (%v), want one", names, dir, err)
		}
	}
}

func TestInstallBundle_BrokenUploadIsNotARefusal(t *testing.T) {
	key, sign := keyPair(t)
	m := manifestOf("1.0.0")
	b := bundle(t, binary(t, m, ""), m, sign)
	broken := errors.New("connection reset")
	for _, n := range []int{0, 5, len(b) / 2, len(b)} {
		c := openWith(t, WithKeys([]minisign.PublicKey{key}))
		_, err := c.InstallBundle(t.Context(), io.MultiReader(bytes.NewReader(b[:n]), failing{broken}))
		var refused *RefusedError
		if !errors.Is(err, broken) || errors.As(err, &refused) {
			t.Errorf("after %d bytes: got %v, want the error of the reader", n, err)
		}
		wantEmpty(t, c)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestInstallBundle_EndsWithContext(t *testing.T) {
	key, sign := keyPair(t)
	m := manifestOf("1.0.0")
	b := bundle(t, binary(t, m, ""), m, sign)
	c := openWith(t, WithKeys([]minisign.PublicKey{key}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.InstallBundle(ctx, bytes.NewReader(b)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was cancelled", err)
	}
	wantEmpty(t, c)
}

func TestBundle_PaddingAfterTheTarIsAccepted(t *testing.T) {
	key, sign := keyPair(t)
	m := manifestOf("1.0.0")
	whole := tarOf(t, parts(t, bundle(t, binary(t, m, ""), m, sign)))
	c := openWith(t, WithKeys([]minisign.PublicKey{key}))
	if _, err := c.InstallBundle(t.Context(), bytes.NewReader(gzipOf(t, append(whole, make([]byte, 8192)...)))); err != nil {
		t.Error(err)
	}
}

func TestInstall_RefusesHugeBinary(t *testing.T) {
	path := binary(t, manifestOf("1.0.0"), "")
	if err := os.Truncate(path, maxBinary+1); err != nil {
		t.Fatal(err)
	}
	c := open(t)
	_, err := c.Install(t.Context(), path)
	wantRefused(t, err, ErrInvalid)
	wantEmpty(t, c)
}

func TestInstallBundle_OneOfConcurrentBuildsWins(t *testing.T) {
	key, sign := keyPair(t)
	m := manifestOf("1.0.0")
	first, second := binary(t, m, "one"), binary(t, m, "two")
	bundles := [][]byte{bundle(t, first, m, sign), bundle(t, second, m, sign)}
	c := openWith(t, WithKeys([]minisign.PublicKey{key}))
	var group sync.WaitGroup
	results := make([]error, 8)
	for i := range results {
		group.Go(func() {
			_, results[i] = c.InstallBundle(context.Background(), bytes.NewReader(bundles[i%2]))
		})
	}
	group.Wait()
	won := 0
	for i, err := range results {
		if err == nil {
			won++
			if results[i^1] == nil {
				t.Error("got two builds under one version, want one")
			}
			continue
		}
		wantRefused(t, err, ErrConflict)
	}
	if won != 4 {
		t.Errorf("got %d successes, want the 4 of one build", won)
	}
	list, err := os.ReadDir(c.dir)
	if err != nil || len(list) != 2 {
		t.Errorf("got files %v in the catalogue (%v), want the version and when it was seen", list, err)
	}
	e, err := c.Find("1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	mustStage(t, c, e, filepath.Join(t.TempDir(), "run"))
}

func TestWriteBundle_RefusesWhatNoCatalogueAccepts(t *testing.T) {
	m := manifestOf("1.0.0")
	path := binary(t, m, "")
	wrong := errors.New("no card in the reader")
	for name, tt := range map[string]struct {
		path   string
		change func(*Manifest)
		sign   func([]byte) ([]byte, error)
		want   error
	}{
		"a path as the version":   {path, func(m *Manifest) { m.Version = "../1" }, nil, ErrInvalid},
		"notes that are too long": {path, func(m *Manifest) { m.Notes = string(make([]byte, maxSmall)) }, nil, errTooLarge},
		"no binary":               {filepath.Join(t.TempDir(), "x"), func(*Manifest) {}, nil, os.ErrNotExist},
		"a signer that fails":     {path, func(*Manifest) {}, func([]byte) ([]byte, error) { return nil, wrong }, wrong},
		"a folder as the binary":  {t.TempDir(), func(*Manifest) {}, nil, errNotRegular},
		"a huge signature":        {path, func(*Manifest) {}, func([]byte) ([]byte, error) { return make([]byte, maxSmall+1), nil }, errTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			claim := m
			tt.change(&claim)
			if err := WriteBundle(io.Discard, tt.path, claim, tt.sign); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func TestUnpack_FailureToWriteIsNotARefusal(t *testing.T) {
	m := manifestOf("1.0.0")
	b := bundle(t, binary(t, m, ""), m, nil)
	_, err := unpack(t.Context(), bytes.NewReader(b), filepath.Join(t.TempDir(), "missing"))
	var refused *RefusedError
	if !errors.Is(err, os.ErrNotExist) || errors.As(err, &refused) {
		t.Errorf("got %v, want the error of writing", err)
	}
}
