package plugincatalogue

import (
	"fmt"

	"aead.dev/minisign"
)

// Option changes how a catalogue treats versions. See [Open].
type Option func(*Catalogue)

// WithKeys makes the catalogue accept only versions whose manifest is signed by
// one of these keys: when a version is installed, and again each time that it is
// staged. Without keys, as with an empty list, no signature is looked at.
func WithKeys(keys []minisign.PublicKey) Option {
	return func(c *Catalogue) { c.keys = append(c.keys, keys...) }
}

// WithMinVersion makes the catalogue stage no version below this one, and install no
// bundle of one, so that nobody
// brings back one that is known to be bad by its genuine signature.
func WithMinVersion(version string) (Option, error) {
	if !ValidVersion(version) {
		return nil, fmt.Errorf("the oldest version allowed: %.*q is no version", maxVersion, version)
	}
	return func(c *Catalogue) { c.floor = version }, nil
}

// NeedsSignatures reports whether the catalogue was opened with keys.
func (c *Catalogue) NeedsSignatures() bool { return len(c.keys) > 0 }

// checkFloor reports a version that is older than allowed.
func (c *Catalogue) checkFloor(version string) error {
	if c.floor != "" && compareVersions(version, c.floor) < 0 {
		return refuse(ErrTooOld, version, "the oldest one allowed is "+c.floor)
	}
	return nil
}
