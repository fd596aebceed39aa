package catalogue

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"aead.dev/minisign"

	"github.com/cms-personal/personal/shared/durable"
)

// signatureFile holds the signature of the manifest's exact bytes. They include the
// binary's sha256, so the signature covers the binary too.
const signatureFile = manifestFile + ".minisig"

// Signer returns the ID of the key that signed the entry's manifest, as it is on disk
// now. Its error is a [*RefusedError] of kind [ErrUnsigned] or [ErrBadSignature] if
// none of the catalogue's keys did. In a catalogue without keys the ID is empty, even
// if there is a signature.
func (c *Catalogue) Signer(e Entry) (string, error) {
	_, key, err := c.readManifest(e.Manifest.Version, e.Dir)
	return key, err
}

// readManifest reads a version's manifest from its folder and verifies the signature
// of the bytes that it read.
func (c *Catalogue) readManifest(version, dir string) (m Manifest, key string, err error) {
	data, err := readPart(version, dir, manifestFile)
	if err != nil {
		return m, "", err
	}
	var signature []byte
	if _, err := os.Lstat(filepath.Join(dir, signatureFile)); c.NeedsSignatures() && !errors.Is(err, fs.ErrNotExist) {
		if signature, err = readPart(version, dir, signatureFile); err != nil {
			return m, "", err
		}
	}
	if key, err = c.verify(version, data, signature); err != nil {
		return m, "", err
	}
	m, err = parseManifest(data)
	return m, key, err
}

// verify verifies the signature of a manifest's bytes, if there are keys, and returns
// the ID of the matching one. A nil signature is a missing one.
func (c *Catalogue) verify(version string, manifest, signature []byte) (string, error) {
	if !c.NeedsSignatures() {
		return "", nil
	}
	if signature == nil {
		return "", refuse(ErrUnsigned, version, "it has no "+signatureFile)
	}
	for _, key := range c.keys {
		if minisign.Verify(key, manifest, signature) {
			return keyID(key.ID()), nil
		}
	}
	return "", refuse(ErrBadSignature, version, c.explain(signature))
}

// explain says why a signature is not valid. It takes the key's ID from the
// signature, where it is not protected: the result is only for the administrator.
func (c *Catalogue) explain(signature []byte) string {
	var s minisign.Signature
	if err := s.UnmarshalText(signature); err != nil {
		return signatureFile + " is not a minisign signature"
	}
	for _, key := range c.keys {
		if key.ID() == s.KeyID {
			return "its manifest is not what the key " + keyID(s.KeyID) + " signed"
		}
	}
	return "it was signed with the key " + keyID(s.KeyID) + ", which is not configured"
}

// keyID formats a key's ID as minisign does.
func keyID(id uint64) string { return fmt.Sprintf("%016X", id) }

// ReadKeys reads public keys from files in minisign's format (FILE.pub). A file may
// hold several keys, one per line. A file without a key is an error: a mistake there
// must not turn the check of signatures off.
func ReadKeys(files ...string) ([]minisign.PublicKey, error) {
	var keys []minisign.PublicKey
	for _, file := range files {
		text, err := readSmall(file)
		if err != nil {
			return nil, fmt.Errorf("reading public keys: %w", err)
		}
		if text, err = durable.Text(text); err != nil {
			return nil, fmt.Errorf("reading public keys of %s: %w", file, err)
		}
		more, err := parseKeys(text)
		if err != nil {
			return nil, fmt.Errorf("reading public keys of %s: %w", file, err)
		}
		keys = append(keys, more...)
	}
	return keys, nil
}

// parseKeys reads one key from each line that is neither empty nor a comment. Its
// errors never quote a line: it may be a secret key, given by mistake.
func parseKeys(text []byte) ([]minisign.PublicKey, error) {
	var keys []minisign.PublicKey
	number := 0
	for line := range bytes.Lines(text) {
		number++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || bytes.HasPrefix(line, []byte("untrusted comment:")) {
			continue
		}
		var key minisign.PublicKey
		if err := key.UnmarshalText(line); err != nil {
			return nil, fmt.Errorf("line %d is not a minisign public key", number)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("there is no key in it")
	}
	return keys, nil
}
