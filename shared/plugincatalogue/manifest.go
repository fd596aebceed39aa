package plugincatalogue

import (
	"encoding/json"
	"fmt"
	"runtime"

	"golang.org/x/mod/semver"
)

// Name is the name that every manifest in a catalogue bears, and the file name
// of every binary in it.
const Name = "personal"

// maxVersion is the length of the longest version: it becomes a folder's name.
const maxVersion = 128

// Manifest describes one version of the plugin. A binary prints its own, without
// the sum, when run as "personal manifest"; the catalogue keeps it beside the
// binary with the sum it computed.
type Manifest struct {
	Name     string `json:"name"`             // "personal"
	Version  string `json:"version"`          // SemVer 2.0.0, without a leading v
	Protocol Range  `json:"protocol"`         // protocol versions it speaks, from 1
	Schema   Range  `json:"schema"`           // schema versions it runs on or migrates from; it migrates to the highest
	OS       string `json:"os"`               // GOOS
	Arch     string `json:"arch"`             // GOARCH
	SHA256   string `json:"sha256,omitempty"` // of the binary, lower-case hex
	Notes    string `json:"notes,omitempty"`  // what changed, for an administrator
}

// Range is a range of whole numbers, both ends included.
type Range struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

// Contains reports whether n lies in the range.
func (r Range) Contains(n int) bool { return r.Min <= n && n <= r.Max }

// Validate reports why a plugin with this manifest cannot run here, as a
// [*RefusedError] of kind [ErrInvalid]. It does not look at the sum.
func (m Manifest) Validate() error {
	if m.Name != Name {
		return refuse(ErrInvalid, "", fmt.Sprintf("its name is %q, not %q", m.Name, Name))
	}
	if !ValidVersion(m.Version) {
		return refuse(ErrInvalid, "", fmt.Sprintf("%.*q is no version as SemVer 2.0.0 writes it", maxVersion, m.Version))
	}
	if m.OS != runtime.GOOS || m.Arch != runtime.GOARCH {
		return refuse(ErrInvalid, m.Version, fmt.Sprintf("it is for %q, this is %s/%s", m.OS+"/"+m.Arch, runtime.GOOS, runtime.GOARCH))
	}
	if m.Protocol.Min < 1 || m.Protocol.Max < m.Protocol.Min {
		return refuse(ErrInvalid, m.Version, "it names no range of protocols")
	}
	if m.Schema.Min < 0 || m.Schema.Max < m.Schema.Min {
		return refuse(ErrInvalid, m.Version, "its range of schemas is empty")
	}
	return nil
}

// parseManifest reads and validates a manifest, whoever wrote it.
func parseManifest(data []byte) (Manifest, error) {
	var m Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return Manifest{}, refuse(ErrInvalid, "", "its manifest cannot be read: "+err.Error())
	}
	if err := m.Validate(); err != nil {
		return Manifest{}, err
	}
	return m, nil
}

// ValidVersion reports whether v is a complete SemVer 2.0.0 version. Its
// alphabet has no separator, so that a valid version is a safe folder name.
func ValidVersion(v string) bool {
	return len(v) <= maxVersion && semver.IsValid("v"+v) &&
		semver.Canonical("v"+v)+semver.Build("v"+v) == "v"+v
}

// compareVersions orders by precedence; versions that differ in build metadata
// alone, which has none, in the order of their texts.
func compareVersions(a, b string) int {
	if c := semver.Compare("v"+a, "v"+b); c != 0 {
		return c
	}
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
