package catalogue

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"aead.dev/minisign"
	"github.com/google/go-cmp/cmp"
)

// The input is a tar, or with raw a complete bundle: a fuzzer finds no valid gzip. No
// foreign code is run: whatever is run has a valid signature.
func FuzzInstallBundle_IsAllOrNothing(f *testing.F) {
	key, sign := keyPair(f)
	m := manifestOf("1.0.0")
	path := filepath.Join(f.TempDir(), "built")
	data, err := encodeManifest(m)
	if err != nil {
		f.Fatal(err)
	}
	if err := os.WriteFile(path, append([]byte("#!/bin/sh\ncat <<'END'\n"), append(data, "END\n"...)...), 0o700); err != nil {
		f.Fatal(err)
	}
	good := bundle(f, path, m, sign)
	list := parts(f, good)
	f.Add(good, true)
	f.Add(tarOf(f, list), false)
	f.Add(tarOf(f, []part{list[2], list[1], list[0]}), false)
	f.Add(tarOf(f, append(slices.Clone(list), file("../../../outside", []byte("x")))), false)
	f.Add(tarOf(f, []part{{tar.Header{Typeflag: tar.TypeSymlink, Name: Name, Linkname: "/bin/sh"}, nil}}), false)
	f.Fuzz(func(t *testing.T, input []byte, raw bool) {
		if !raw {
			input = gzipOf(t, input)
		}
		c := openWith(t, WithKeys([]minisign.PublicKey{key}))
		e, err := c.InstallBundle(t.Context(), bytes.NewReader(input))
		wantAlone(t, c)
		if err != nil {
			var refused *RefusedError
			if !errors.As(err, &refused) {
				t.Errorf("got %v, want a refusal", err)
			}
			wantEmpty(t, c)
			return
		}
		if diff := cmp.Diff([]string{Name, manifestFile, signatureFile}, names(t, e.Dir), sorted); diff != "" {
			t.Error(diff)
		}
		mustStage(t, c, e, filepath.Join(t.TempDir(), "run"))
	})
}

var sorted = cmp.Transformer("sorted", func(list []string) []string { return slices.Sorted(slices.Values(list)) })

func names(t testing.TB, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range list {
		names = append(names, f.Name())
	}
	return names
}
