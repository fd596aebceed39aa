package plugincatalogue

import "errors"

// The kinds of refusal, for errors.Is.
var (
	ErrInvalid  = errors.New("not fit to be installed")               // no plugin of ours, or for another machine
	ErrConflict = errors.New("installed already with other contents") // a version never changes
	ErrTampered = errors.New("contents differ from the manifest")     // sha256 of what is on disk
	ErrNotFound = errors.New("not installed")                         // no such version
	ErrInUse    = errors.New("in use")                                // the active or the last good version

	ErrUnsigned     = errors.New("not signed")                     // and the catalogue has keys
	ErrBadSignature = errors.New("not signed by a key configured") // a foreign key, or changed since
	ErrTooOld       = errors.New("older than allowed")             // below the floor
	ErrNoKeys       = errors.New("no signing keys are configured") // and so no upload is taken
)

// RefusedError says why the catalogue would not do something with a version.
// Trying again will not mend it. It wraps one of the Err values above.
type RefusedError struct {
	Version string // empty if it never came to light
	Reason  string // for an administrator; may be empty
	Kind    error  // one of the Err values above
}

// Error names the version, the kind and the reason.
func (e *RefusedError) Error() string {
	text := "plugin " + e.Version
	if e.Version == "" {
		text = "plugin"
	}
	text += ": " + e.Kind.Error()
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// Unwrap returns the kind.
func (e *RefusedError) Unwrap() error { return e.Kind }

func refuse(kind error, version, reason string) *RefusedError {
	return &RefusedError{Version: version, Reason: reason, Kind: kind}
}
