package token

import "fmt"

// Format writes a placeholder for every verb.
func (Secret) Format(f fmt.State, _ rune) { redact(f) }

// String returns a placeholder.
func (Secret) String() string { return redacted }

// GoString returns a placeholder.
func (Secret) GoString() string { return redacted }

// MarshalText writes a placeholder: structured logs use it.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Format writes a placeholder for every verb.
func (ChainKey) Format(f fmt.State, _ rune) { redact(f) }

// String returns a placeholder.
func (ChainKey) String() string { return redacted }

// GoString returns a placeholder.
func (ChainKey) GoString() string { return redacted }

// MarshalText writes a placeholder: structured logs use it.
func (ChainKey) MarshalText() ([]byte, error) { return []byte(redacted), nil }

const redacted = "[secret]"

func redact(f fmt.State) { _, _ = f.Write([]byte(redacted)) }
