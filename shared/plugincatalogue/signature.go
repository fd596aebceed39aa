package plugincatalogue

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"aead.dev/minisign"
)

// signatureFile holds the signature of the manifest's exact bytes, which name
// the binary's sha256: so it speaks for the binary too.
const signatureFile = manifestFile + ".minisig"

// Signer returns the ID of the key that signed the entry's manifest, as it is on
// disk now. Its error is a [*RefusedError] of kind [ErrUnsigned] or
// [ErrBadSignature] if none of the catalogue's keys did. Of a catalogue without
// keys the ID is empty, whatever lies beside the manifest.
func (c *Catalogue) Signer(e Entry) (string, error) {
	_, key, err := c.readManifest(e.Manifest.Version, e.Dir)
	return key, err
}

// readManifest reads a version's manifest from its folder and checks the
// signature of the very bytes that it read.
func (c *Catalogue) readManifest(version, dir string) (m Manifest, key string, err error) {
	data, err := readPart(version, dir, manifestFile)
	if err != nil {
		return m, "", err
	}
	signature, err := c.readSignature(version, dir)
	if err != nil {
		return m, "", err
	}
	if key, err = c.verify(version, data, signature); err != nil {
		return m, "", err
	}
	m, err = parseManifest(data)
	return m, key, err
}

// readSignature returns nil where there is none, or none is asked for.
func (c *Catalogue) readSignature(version, dir string) ([]byte, error) {
	if !c.NeedsSignatures() {
		return nil, nil
	}
	if _, err := os.Lstat(filepath.Join(dir, signatureFile)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return readPart(version, dir, signatureFile)
}

// readPart reads a small file of a version's folder. That it is missing, too
// large or no file is the version's fault, and so a refusal.
func readPart(version, dir, name string) ([]byte, error) {
	data, err := readSmall(filepath.Join(dir, name))
	if errors.Is(err, errTooLarge) || errors.Is(err, errNotRegular) || errors.Is(err, fs.ErrNotExist) {
		return nil, refuse(ErrInvalid, version, "its "+name+": "+err.Error())
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s of plugin %s: %w", name, version, err)
	}
	return data, nil
}

// verify checks the signature of a manifest's bytes, if there are keys, and
// returns the ID of the one that fits. A nil signature is a missing one.
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
	return "", refuse(ErrBadSignature, version, c.whyNot(signature))
}

// whyNot explains a signature that does not hold. The key's ID in it is a hint:
// nothing vouches for it.
func (c *Catalogue) whyNot(signature []byte) string {
	var s minisign.Signature
	if err := s.UnmarshalText(signature); err != nil {
		return signatureFile + " is no minisign signature"
	}
	for _, key := range c.keys {
		if key.ID() == s.KeyID {
			return "its manifest is not what the key " + keyID(s.KeyID) + " signed"
		}
	}
	return "it was signed with the key " + keyID(s.KeyID) + ", which is none of those configured"
}
