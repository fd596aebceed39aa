package catalogue

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aead.dev/minisign"
)

// signedEntry returns a catalogue with a key, and its signed version.
func signedEntry(t *testing.T, opts ...Option) (*Catalogue, Entry, func([]byte) ([]byte, error)) {
	t.Helper()
	key, sign := keyPair(t)
	c := openWith(t, append(opts, WithKeys([]minisign.PublicKey{key}))...)
	return c, installSigned(t, c, "1.0.0", sign), sign
}

func installSigned(t *testing.T, c *Catalogue, version string, sign func([]byte) ([]byte, error)) Entry {
	t.Helper()
	m := manifestOf(version)
	e, err := c.InstallBundle(t.Context(), bytes.NewReader(bundle(t, binary(t, m, ""), m, sign)))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestStage_VerifiesSignatureEachTime(t *testing.T) {
	_, stranger := keyPair(t)
	manifest := func(e Entry) string { return filepath.Join(e.Dir, manifestFile) }
	signature := func(e Entry) string { return filepath.Join(e.Dir, signatureFile) }
	for name, tt := range map[string]struct {
		tamper func(t *testing.T, e Entry)
		kind   error
	}{
		"no signature":  {func(t *testing.T, e Entry) { remove(t, signature(e)) }, ErrUnsigned},
		"another key's": {func(t *testing.T, e Entry) { rewrite(t, signature(e), must(stranger(read(t, manifest(e))))) }, ErrBadSignature},
		"garbage":       {func(t *testing.T, e Entry) { rewrite(t, signature(e), []byte("x")) }, ErrBadSignature},
		"another byte":  {func(t *testing.T, e Entry) { rewrite(t, signature(e), flipped(read(t, signature(e)), 60)) }, ErrBadSignature},
		"too large":     {func(t *testing.T, e Entry) { rewrite(t, signature(e), make([]byte, maxSmall+1)) }, ErrInvalid},
		"a link":        {func(t *testing.T, e Entry) { relink(t, signature(e)) }, ErrInvalid},
		"another schema": {func(t *testing.T, e Entry) {
			rewrite(t, manifest(e), bytes.Replace(read(t, manifest(e)), []byte(`"max": 1`), []byte(`"max": 2`), 1))
		}, ErrBadSignature},
		"another space":  {func(t *testing.T, e Entry) { rewrite(t, manifest(e), append(read(t, manifest(e)), ' ')) }, ErrBadSignature},
		"no manifest":    {func(t *testing.T, e Entry) { remove(t, manifest(e)) }, ErrInvalid},
		"another binary": {func(t *testing.T, e Entry) { overwrite(t, e.Binary()) }, ErrTampered},
		"a binary and its sum": {func(t *testing.T, e Entry) {
			overwrite(t, e.Binary())
			sum, err := sumOf(t.Context(), e.Binary())
			if err != nil {
				t.Fatal(err)
			}
			rewrite(t, manifest(e), bytes.Replace(read(t, manifest(e)), []byte(e.Manifest.SHA256), []byte(sum), 1))
		}, ErrBadSignature},
	} {
		t.Run(name, func(t *testing.T) {
			c, e, _ := signedEntry(t)
			private := filepath.Join(t.TempDir(), "run")
			mustStage(t, c, e, private) // an earlier copy must not be used
			tt.tamper(t, e)
			_, err := c.Stage(t.Context(), e, filepath.Join(t.TempDir(), "new"))
			wantRefused(t, err, tt.kind)
			if tt.kind != ErrTampered { // there is a copy of the binary
				_, err = c.Stage(t.Context(), e, private)
				wantRefused(t, err, tt.kind)
				_, err = c.Signer(e)
				wantRefused(t, err, tt.kind)
			}
		})
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func rewrite(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func flipped(data []byte, at int) []byte {
	data[at] ^= 1
	return data
}

// relink replaces a file by a link to the same contents.
func relink(t *testing.T, path string) {
	t.Helper()
	target := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.Rename(path, target); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

func TestFind_RefusesFolderWithAnotherVersion(t *testing.T) {
	c, e, sign := signedEntry(t)
	second := installSigned(t, c, "2.0.0", sign)
	if err := os.RemoveAll(second.Dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(e.Dir, second.Dir); err != nil {
		t.Fatal(err)
	}
	_, err := c.Find("2.0.0")
	wantRefused(t, err, ErrInvalid)
	_, err = c.Stage(t.Context(), second, filepath.Join(t.TempDir(), "run"))
	wantRefused(t, err, ErrTampered)
}

func TestInstall_WithKeysRefusesBareBinaryWithoutRunningIt(t *testing.T) {
	key, _ := keyPair(t)
	c := openWith(t, WithKeys([]minisign.PublicKey{key}))
	ran := filepath.Join(t.TempDir(), "ran")
	_, err := c.Install(t.Context(), script(t, ": > "+ran))
	wantRefused(t, err, ErrUnsigned)
	if !strings.Contains(err.Error(), "bundle") {
		t.Errorf("got %v, want that it asks for a bundle", err)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("got a binary that was run, want that it was not")
	}
	wantEmpty(t, c)
}

func TestInstall_RefusesForeignBundleWithoutRunningIt(t *testing.T) {
	key, _ := keyPair(t)
	_, stranger := keyPair(t)
	c := openWith(t, WithKeys([]minisign.PublicKey{key}))
	ran := filepath.Join(t.TempDir(), "ran")
	b := bundle(t, script(t, ": > "+ran), manifestOf("1.0.0"), stranger)
	_, err := c.Install(t.Context(), saved(t, b))
	wantRefused(t, err, ErrBadSignature)
	if _, err := os.Stat(ran); err == nil {
		t.Error("got a binary that was run, want that it was not")
	}
}

func TestStage_RefusesUnsignedVersionOnceThereAreKeys(t *testing.T) {
	key, sign := keyPair(t)
	before := open(t)
	m := manifestOf("1.0.0")
	path := binary(t, m, "")
	e, err := before.Install(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Open(before.dir, WithKeys([]minisign.PublicKey{key}))
	if err != nil {
		t.Fatal(err)
	}
	if got := versions(t, c); len(got) != 1 {
		t.Errorf("got versions %v, want one", got)
	}
	private := filepath.Join(t.TempDir(), "run")
	_, err = c.Stage(t.Context(), e, private)
	wantRefused(t, err, ErrUnsigned)

	// Its signed bundle repairs it.
	e, err = c.Install(t.Context(), saved(t, bundle(t, path, m, sign)))
	if err != nil {
		t.Fatal(err)
	}
	mustStage(t, c, e, private)
}

func TestInstall_ReplacesSignatureAfterKeyExchange(t *testing.T) {
	oldKey, oldSign := keyPair(t)
	newKey, newSign := keyPair(t)
	m := manifestOf("1.0.0")
	path := binary(t, m, "")
	first := openWith(t, WithKeys([]minisign.PublicKey{oldKey}))
	e, err := first.Install(t.Context(), saved(t, bundle(t, path, m, oldSign)))
	if err != nil {
		t.Fatal(err)
	}
	second, err := Open(first.dir, WithKeys([]minisign.PublicKey{newKey}))
	if err != nil {
		t.Fatal(err)
	}
	private := filepath.Join(t.TempDir(), "run")
	_, err = second.Stage(t.Context(), e, private)
	wantRefused(t, err, ErrBadSignature)
	if e, err = second.Install(t.Context(), saved(t, bundle(t, path, m, newSign))); err != nil {
		t.Fatal(err)
	}
	mustStage(t, second, e, private)
	if id, err := second.Signer(e); err != nil || id != keyID(newKey.ID()) {
		t.Errorf("got signer %s (%v), want %s", id, err, keyID(newKey.ID()))
	}
}

func TestInstall_RepairsDamagedBinary(t *testing.T) {
	c := open(t)
	path := binary(t, manifestOf("1.0.0"), "")
	e, err := c.Install(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	overwrite(t, e.Binary())
	if e, err = c.Install(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	mustStage(t, c, e, filepath.Join(t.TempDir(), "run"))
}

func TestStage_RefusesVersionsBelowMinVersion(t *testing.T) {
	for version, kind := range map[string]error{
		"1.9.9": ErrTooOld, "2.0.0-rc.1": ErrTooOld, "2.0.0": nil, "2.0.1": nil, "10.0.0": nil,
	} {
		floor, err := WithMinVersion("2.0.0")
		if err != nil {
			t.Fatal(err)
		}
		c := openWith(t, floor)
		_, err = c.Stage(t.Context(), install(t, c, version), filepath.Join(t.TempDir(), "run"))
		if kind != nil {
			wantRefused(t, err, kind)
		} else if err != nil {
			t.Errorf("%s: got %v, want no error", version, err)
		}
	}
}

func TestOpen_WithoutKeysToCheckFails(t *testing.T) {
	key, _ := keyPair(t)
	for _, opts := range [][]Option{{WithKeys(nil)}, {WithKeys([]minisign.PublicKey{})}, {WithKeys([]minisign.PublicKey{key}), WithKeys(nil)}} {
		if c, err := Open(t.TempDir(), opts...); err == nil {
			t.Errorf("got a catalogue that needs signatures: %t, want an error", c.NeedsSignatures())
		}
	}
}

func TestWithMinVersion_RefusesInvalidVersion(t *testing.T) {
	if _, err := WithMinVersion(""); err == nil {
		t.Error("an empty one: got no error")
	}
	if _, err := WithMinVersion("v1"); err == nil {
		t.Error("got no error, want one")
	}
}

func TestNewer_RunsNothingUnsigned(t *testing.T) {
	public, sign := keyPair(t)
	built := binary(t, manifestOf("1.1.0"), "")
	signed := saved(t, bundle(t, built, manifestOf("1.1.0"), sign))
	marker := filepath.Join(t.TempDir(), "ran")
	t.Chdir(filepath.Dir(built))
	unsigned := script(t, "touch "+marker)
	for name, c := range map[string]struct {
		options          []Option
		path, than, want string
	}{
		"a binary":                       {path: built, than: "1.0.0", want: "1.1.0"},
		"a binary in this folder":        {path: "./" + filepath.Base(built), than: "1.0.0", want: "1.1.0"},
		"a bundle":                       {path: signed, than: "1.0.0", want: "1.1.0"},
		"a signed bundle":                {options: []Option{WithKeys([]minisign.PublicKey{public})}, path: signed, than: "1.0.0", want: "1.1.0"},
		"the same":                       {path: built, than: "1.1.0"},
		"another build of development":   {path: built, than: "1.1.0+other", want: "1.1.0"},
		"lower":                          {path: built, than: "1.2.0"},
		"an unsigned binary, with a key": {options: []Option{WithKeys([]minisign.PublicKey{public})}, path: unsigned, than: "1.0.0"},
	} {
		if got := openWith(t, c.options...).Newer(t.Context(), c.path, c.than); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	if _, err := os.Stat(marker); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want that the unsigned binary did not run", err)
	}
}

func TestReadKeys_ReadsFiles(t *testing.T) {
	first, _ := keyPair(t)
	second, _ := keyPair(t)
	text := must(first.MarshalText())
	for name, tt := range map[string]struct {
		text string
		want int // 0 for an error
	}{
		"as minisign writes it": {string(text) + "\n", 1},
		"without a comment":     {first.String(), 1},
		"with line ends of DOS": {strings.ReplaceAll(string(text), "\n", "\r\n") + "\r\n", 1},
		"with a mark in front":  {"\ufeff" + string(text), 1},
		"two with comments":     {string(text) + "\n\n" + string(must(second.MarshalText())), 2},
		"two lines":             {first.String() + "\n" + second.String() + "\n", 2},
		"nothing":               {"", 0},
		"a comment alone":       {"untrusted comment: minisign public key\n", 0},
		"garbage":               {"hunter2", 0},
		"one and garbage":       {string(text) + "\nhunter2\n", 0},
		"a key cut off":         {first.String()[:20], 0},
		"too large":             {strings.Repeat("\n", maxSmall+1), 0},
		"of UTF-16":             {"\xff\xfeR\x00W\x00", 0},
	} {
		t.Run(name, func(t *testing.T) {
			keys, err := ReadKeys(saved(t, []byte(tt.text)))
			if len(keys) != tt.want || (err == nil) != (tt.want > 0) {
				t.Fatalf("got %d keys (%v), want %d", len(keys), err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v, want an error that does not quote the file", err)
			}
			if tt.want > 0 && !keys[0].Equal(first) {
				t.Error("got another key, want the first one")
			}
		})
	}
	if _, err := ReadKeys(filepath.Join(t.TempDir(), "none.pub")); err == nil {
		t.Error("a missing file: got no error, want one")
	}
	if keys, err := ReadKeys(); len(keys) != 0 || err != nil {
		t.Errorf("no files: got %v (%v), want no keys", keys, err)
	}
}

func FuzzParseKeys_GarbageIsAnError(f *testing.F) {
	key, _ := keyPair(f)
	f.Add(must(key.MarshalText()))
	f.Add([]byte("untrusted comment: x\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if keys, err := parseKeys(text); (err == nil) != (len(keys) > 0) {
			t.Errorf("got %d keys (%v), want an error or keys", len(keys), err)
		}
	})
}
