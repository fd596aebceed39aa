package catalogue

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/mod/semver"

	"github.com/cms-personal/personal/shared/durable"
)

// Name is the name in every manifest of a catalogue, and the file name of every
// binary.
const Name = "personal"

const (
	maxVersion  = 128                   // length of a version in bytes: it is a folder name
	askTimeout  = 10 * time.Second      // for a binary to print its manifest
	askGrace    = time.Second           // for its output to end after that
	busyBackoff = 20 * time.Millisecond // between attempts to start a busy file
	busyTries   = 50

	maxChanges = 200 // of a manifest, and the bytes of each
	maxChange  = 100

	maxComplaint = 500 // of what a binary writes to standard error instead of its manifest, in bytes
)

// Manifest describes one version of the plugin. A binary prints its own, without
// the sum, when it is run as "personal manifest"; the catalogue stores it beside
// the binary with the sum that it computed.
type Manifest struct {
	Name     string `json:"name"`             // "personal"
	Version  string `json:"version"`          // SemVer 2.0.0, without a leading v
	Protocol Range  `json:"protocol"`         // protocol versions that it speaks, from 1
	Schema   Range  `json:"schema"`           // schema versions that it runs on or migrates from; it migrates to the highest
	OS       string `json:"os"`               // GOOS
	Arch     string `json:"arch"`             // GOARCH
	SHA256   string `json:"sha256,omitempty"` // of the binary, lower-case hex
	Notes    string `json:"notes,omitempty"`  // what changed, for an administrator

	Settings []string `json:"settings,omitempty"` // the keys and sections of the settings file that it knows

	// What this version answers in another way than the one before, on purpose, see [Catalogue.ChangesBetween]:
	// "Profile.name", "Recover mail", "FindUsers statements", "rows.personal_accounts", "mail.recovery.de", "command status". At
	// most 200, of up to 100 bytes each.
	Changes []string `json:"changes,omitempty"`
}

// validChange is two parts or more. What the first one says is left to the rehearsal: a later version may
// declare what this host does not know.
var validChange = regexp.MustCompile(`^[A-Za-z][a-zA-Z_-]*([. ][!-~]+)+$`)

// Range is a range of integers, both ends included.
type Range struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

// Contains reports whether n is in the range.
func (r Range) Contains(n int) bool { return r.Min <= n && n <= r.Max }

// Validate returns the reason why a plugin with this manifest cannot run here, as a
// [*RefusedError] of kind [ErrInvalid]. It does not check the sum.
func (m Manifest) Validate() error {
	if err := m.validateAnywhere(); err != nil {
		return err
	}
	if m.OS != runtime.GOOS || m.Arch != runtime.GOARCH {
		return refuse(ErrInvalid, m.Version, fmt.Sprintf("it is for %q, this is %s: use the build for this machine", m.OS+"/"+m.Arch,
			thisMachine))
	}
	return nil
}

// validateAnywhere is Validate for a plugin that runs on another machine.
func (m Manifest) validateAnywhere() error {
	switch {
	case m.Name != Name:
		return refuse(ErrInvalid, "", fmt.Sprintf("its name is %q, not %q", m.Name, Name))
	case !ValidVersion(m.Version):
		return refuse(ErrInvalid, "", fmt.Sprintf("%.*q is not a version of SemVer 2.0.0", maxVersion, m.Version))
	case m.Protocol.Min < 1 || m.Protocol.Max < m.Protocol.Min:
		return refuse(ErrInvalid, m.Version, "its range of protocols is empty")
	case m.Schema.Min < 0 || m.Schema.Max < m.Schema.Min:
		return refuse(ErrInvalid, m.Version, "its range of schemas is empty")
	case len(m.Changes) > maxChanges:
		return refuse(ErrInvalid, m.Version, fmt.Sprintf("its manifest declares %d changes, at most %d are permitted", len(m.Changes), maxChanges))
	}
	for _, change := range m.Changes {
		if len(change) > maxChange || !validChange.MatchString(change) {
			return refuse(ErrInvalid, m.Version, fmt.Sprintf(`its manifest declares the change %.*q: want up to %d bytes such as "Profile.name"`+
				` or "Recover mail"`, maxChange, change, maxChange))
		}
	}
	return nil
}

// parseManifest reads and validates a manifest from any source.
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

// encodeManifest returns a manifest as it is stored.
func encodeManifest(m any) ([]byte, error) {
	data, err := json.MarshalIndent(m, "", "  ")
	return append(data, '\n'), err
}

// ValidVersion reports whether v is a complete SemVer 2.0.0 version. Its characters
// include no path separator: a valid version is a safe folder name.
func ValidVersion(v string) bool {
	return len(v) <= maxVersion && semver.IsValid("v"+v) &&
		semver.Canonical("v"+v)+semver.Build("v"+v) == "v"+v
}

// compareVersions compares by precedence. Build metadata has none: versions that
// differ only there are compared as strings.
func compareVersions(a, b string) int {
	return cmp.Or(semver.Compare("v"+a, "v"+b), strings.Compare(a, b))
}

// ManifestOf returns the manifest that a binary prints, without sum and notes. It
// runs the binary with an empty environment in an empty folder, so only a trusted
// one may be given. If the binary is not this plugin for this machine, or prints
// nothing within ten seconds, the error is a [*RefusedError] of kind [ErrInvalid]; if
// the system denies its execution, of kind [ErrNoExec].
func ManifestOf(ctx context.Context, binary string) (Manifest, error) {
	m, _, err := askManifest(ctx, binary)
	return m, err
}

// askManifest is [ManifestOf], and returns also what the binary printed: a later version may say more.
func askManifest(ctx context.Context, binary string) (m Manifest, printed []byte, err error) {
	dir, err := os.MkdirTemp("", "personal-manifest-")
	if err != nil {
		return m, nil, durable.ExplainFull(os.TempDir(), err)
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()

	var out, complaint limitedBuffer
	err = RetryBusy(ctx, binary, func() error {
		cmd := exec.CommandContext(ctx, binary, "manifest")
		cmd.Env = []string{}
		cmd.Dir = dir
		cmd.Stdout, cmd.Stderr = &out, &complaint
		cmd.WaitDelay = askGrace
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		return cmd.Run()
	})
	var refused *RefusedError
	switch {
	case err == nil:
		m, err = parseManifest(out.buf.Bytes())
		return m, out.buf.Bytes(), err
	case errors.As(err, &refused), errors.Is(err, syscall.ETXTBSY):
		return m, nil, err
	case errors.Is(ctx.Err(), context.Canceled):
		return m, nil, ctx.Err()
	case ctx.Err() != nil:
		return m, nil, refuse(ErrInvalid, "", "it did not print its manifest within "+askTimeout.String())
	}
	reason := "it did not print its manifest: " + err.Error()
	if text := bytes.TrimSpace(complaint.buf.Bytes()); len(text) > 0 { // of the system's loader, for example
		reason += fmt.Sprintf(": %.*q", maxComplaint, text)
	}
	return m, nil, refuse(ErrInvalid, "", reason)
}

// RetryBusy calls start, which starts a binary that was written a moment ago, and
// returns its error. While that is syscall.ETXTBSY it calls start again, for a
// second at most, or until ctx ends: a goroutine that forks while the file is being
// written lends its child a writable descriptor for an instant, see
// https://go.dev/issue/22315.
//
// If the system cannot run the binary, the error is a [*RefusedError] with the usual
// cause: of kind [ErrInvalid] if it is for another machine or its loader is missing, of
// kind [ErrNoExec] if the system denies its execution.
func RetryBusy(ctx context.Context, binary string, start func() error) error {
	for range busyTries {
		if err := start(); !errors.Is(err, syscall.ETXTBSY) {
			return explainStart(binary, err)
		}
		select {
		case <-time.After(busyBackoff):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("starting %s: %w", binary, syscall.ETXTBSY)
}

// limitedBuffer accepts 64 KiB and fails after that, which ends the writer. The
// buffer is not embedded: its ReadFrom has no limit.
type limitedBuffer struct{ buf bytes.Buffer }

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.buf.Len()+len(p) > maxSmall {
		return 0, errTooLarge
	}
	return b.buf.Write(p)
}
