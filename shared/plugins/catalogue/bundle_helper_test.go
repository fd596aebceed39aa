package catalogue

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"aead.dev/minisign"
)

// keyPair returns a new public key and a function that signs with its secret key.
func keyPair(t testing.TB) (minisign.PublicKey, func([]byte) ([]byte, error)) {
	t.Helper()
	public, secret, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return public, func(data []byte) ([]byte, error) {
		return minisign.SignWithComments(secret, data, "trusted", "untrusted"), nil
	}
}

func openWith(t testing.TB, opts ...Option) *Catalogue {
	t.Helper()
	c, err := Open(filepath.Join(t.TempDir(), "plugins", Name), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// bundle makes a bundle of a binary; without a signature if sign is nil.
func bundle(t testing.TB, path string, m Manifest, sign func([]byte) ([]byte, error)) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := WriteBundle(&b, path, m, sign); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// part is a file of a bundle.
type part struct {
	header tar.Header
	data   []byte
}

func file(name string, data []byte) part {
	return part{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(data))}, data}
}

// parts returns the files of a bundle.
func parts(t testing.TB, b []byte) []part {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewReader(zip)
	var list []part
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, part{*h, data})
	}
}

// tarOf packs parts without checks. If a header declares more data than there is, the
// tar ends early.
func tarOf(t testing.TB, list []part) []byte {
	t.Helper()
	var b bytes.Buffer
	archive := tar.NewWriter(&b)
	whole := true
	for _, p := range list {
		if err := archive.WriteHeader(&p.header); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write(p.data); err != nil {
			t.Fatal(err)
		}
		whole = p.header.Size == int64(len(p.data))
	}
	if err := archive.Close(); err != nil && whole {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gzipOf(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	if _, err := zip.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func saved(t testing.TB, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bundle.tar.gz")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
