package plugincatalogue

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// WriteBundle writes a bundle: a gzipped tar with the binary, its manifest with
// the binary's sha256 filled in, and, unless sign is nil, what sign makes of the
// manifest's bytes: a minisign signature. The same input gives the same bytes.
//
// [ManifestOf] gives a binary's manifest; anything but notes added to it makes a
// bundle that no catalogue takes.
func WriteBundle(w io.Writer, binary string, m Manifest, sign func(manifest []byte) ([]byte, error)) error {
	if err := writeBundle(w, binary, m, sign); err != nil {
		return fmt.Errorf("writing a bundle: %w", err)
	}
	return nil
}

func writeBundle(w io.Writer, binary string, m Manifest, sign func([]byte) ([]byte, error)) error {
	if err := m.Validate(); err != nil {
		return err
	}
	zip := gzip.NewWriter(w)
	archive := tar.NewWriter(zip)
	sum, err := packBinary(archive, binary)
	if err != nil {
		return err
	}
	m.SHA256 = sum
	manifest, err := encodeManifest(m)
	if err != nil {
		return err
	}
	if err := packSmall(archive, manifestFile, manifest); err != nil {
		return err
	}
	if sign != nil {
		signature, err := sign(manifest)
		if err != nil {
			return fmt.Errorf("signing the manifest: %w", err)
		}
		if err := packSmall(archive, signatureFile, signature); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return zip.Close()
}

// packBinary adds the binary and returns its sha256.
func packBinary(archive *tar.Writer, path string) (sum string, err error) {
	f, err := openBinary(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if err := archive.WriteHeader(header(Name, 0o755, info.Size())); err != nil {
		return "", err
	}
	hash := sha256.New()
	_, err = io.Copy(io.MultiWriter(archive, hash), f)
	return hex.EncodeToString(hash.Sum(nil)), err
}

func packSmall(archive *tar.Writer, name string, data []byte) error {
	if len(data) > maxSmall {
		return fmt.Errorf("%s: %w", name, errTooLarge)
	}
	if err := archive.WriteHeader(header(name, 0o644, int64(len(data)))); err != nil {
		return err
	}
	_, err := io.Copy(archive, bytes.NewReader(data))
	return err
}

// header says nothing about the machine or the time of packing.
func header(name string, mode, size int64) *tar.Header {
	return &tar.Header{
		Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: size,
		ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR,
	}
}

// encodeManifest writes a manifest as it is kept on disk.
func encodeManifest(m Manifest) ([]byte, error) {
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(data, '\n'), nil
}
