// Package passkey verifies the ceremonies of passkeys (WebAuthn level 3): registrations with
// attestation "none" and assertions, both with user verification. Its types and its JSON are its
// own; no type of the library leaves it.
package passkey

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/protocol/webauthncose"
)

// Site is the relying party: who asks for passkeys.
type Site struct {
	ID      string   // the RP ID: a domain
	Name    string   // shown by some authenticators; "": the ID
	Origins []string // of the pages that may use passkeys; compared exactly
}

// User is whose passkey is created.
type User struct {
	Handle      []byte // identifies the account to authenticators; random, so that it reveals nothing
	Name        string // distinguishes several accounts of one person
	DisplayName string
}

// Key is what is stored of a passkey.
type Key struct {
	CredentialID []byte // unique; chosen by the authenticator
	PublicKey    []byte // a COSE_Key
	SignCount    uint32 // of the last signature; 0: the authenticator does not count

	BackupEligible bool // it may be synchronised between devices, as the last signature says
	BackedUp       bool // it is

	Transports []string // how browsers reach the authenticator, as [Key.SetTransports] keeps them; none: unknown
}

// The limits of what callers send.
const (
	MaxCredential   = 16 << 10 // bytes of a credential as JSON
	maxCredentialID = 1023     // bytes (WebAuthn level 3, section 4)
	maxPublicKey    = 1 << 10  // bytes
	maxUserHandle   = 64       // bytes (WebAuthn level 3, section 5.4.3)
)

// ErrInvalid says that a credential is malformed, of another ceremony, site or user, or not
// signed by its key. The text says which, and has nothing that the caller sent but an origin.
var ErrInvalid = errors.New("the passkey is refused")

func invalid(reason string) error { return fmt.Errorf("%w: %s", ErrInvalid, reason) }

// algorithms are those of the keys that are accepted, the preferred one first.
var algorithms = []webauthncose.COSEAlgorithmIdentifier{webauthncose.AlgES256, webauthncose.AlgEdDSA, webauthncose.AlgRS256}

// Register verifies the response of an authenticator that has created a passkey, as the JSON
// form of a PublicKeyCredential (RegistrationResponseJSON). ErrInvalid.
func (s Site) Register(challenge []byte, credential string) (key Key, err error) {
	if len(credential) > MaxCredential {
		return key, invalid("the credential is too large")
	}
	c, err := parseCreation(credential)
	if err != nil {
		return key, invalid("the credential is malformed")
	}
	if err := s.checkClient(c.Response.CollectedClientData); err != nil {
		return key, err
	}
	object := &c.Response.AttestationObject
	if !acceptable(object) {
		return key, invalid("the attestation is neither none nor of the key itself")
	}
	parameters := make([]protocol.CredentialParameter, len(algorithms))
	for i, a := range algorithms {
		parameters[i] = protocol.CredentialParameter{Type: protocol.PublicKeyCredentialType, Algorithm: a}
	}
	_, err = c.Verify(encode(challenge), s.ID, s.Origins, s.Origins, nil, protocol.TopOriginExplicitVerificationMode, false, true, true,
		nil, parameters, protocol.AttestationPolicy{}, protocol.SignaturePolicy{})
	if err != nil {
		return key, refused(err)
	}
	data := object.AuthData
	if err := checkFlags(data.Flags); err != nil {
		return key, err
	}
	id := data.AttData.CredentialID
	if len(id) == 0 || len(id) > maxCredentialID || !bytes.Equal(id, c.RawID) || encode(id) != c.ID {
		return key, invalid("the credential id is not that of the authenticator")
	}
	if err := checkPublicKey(data.AttData.CredentialPublicKey); err != nil {
		return key, err
	}
	return Key{
		CredentialID: bytes.Clone(id), PublicKey: bytes.Clone(data.AttData.CredentialPublicKey), SignCount: data.Counter,
		BackupEligible: data.Flags.HasBackupEligible(), BackedUp: data.Flags.HasBackupState(),
		Transports: words(c.Response.Transports),
	}, nil
}

// acceptable reports whether the attestation is of the format "none", or packed self attestation: a
// signature by the key itself, which names no manufacturer. Clients that are asked for "none" pass
// that on (WebAuthn level 3, sections 5.1.3 and 5.4.7; its check is that of section 8.2). All
// others they replace by "none".
func acceptable(o *protocol.AttestationObject) bool {
	switch protocol.AttestationFormat(o.Format) {
	case protocol.AttestationFormatNone:
		return true
	case protocol.AttestationFormatPacked:
		_, certified := o.AttStatement["x5c"]
		_, old := o.AttStatement["ecdaaKeyId"]
		return !certified && !old
	}
	return false
}

// Assertion is the response of an authenticator that has signed with a passkey. It is not
// verified yet.
type Assertion struct {
	CredentialID []byte // of the passkey that it claims to be of
	UserHandle   []byte // of the user; empty if the authenticator gave none
	parsed       *protocol.ParsedCredentialAssertionData
}

// ParseAssertion reads an assertion in the JSON form of a PublicKeyCredential
// (AuthenticationResponseJSON). ErrInvalid.
func ParseAssertion(credential string) (a Assertion, err error) {
	if len(credential) > MaxCredential {
		return a, invalid("the credential is too large")
	}
	c, err := protocol.ParseCredentialRequestResponseBytes([]byte(credential))
	if err != nil {
		return a, invalid("the credential is malformed")
	}
	if len(c.RawID) == 0 || len(c.RawID) > maxCredentialID || encode(c.RawID) != c.ID || len(c.Response.UserHandle) > maxUserHandle {
		return a, invalid("the credential is malformed")
	}
	return Assertion{CredentialID: c.RawID, UserHandle: c.Response.UserHandle, parsed: c}, nil
}

// Verify checks that an assertion was made for the challenge on a page of the site with the
// key, by a verified user. It returns the key as it is after that: the caller compares the
// sign count, and stores it and the flags of backups. ErrInvalid.
func (s Site) Verify(challenge []byte, a Assertion, key Key) (after Key, err error) {
	c := a.parsed
	if !bytes.Equal(a.CredentialID, key.CredentialID) {
		return key, invalid("the credential id is another one")
	}
	if err := s.checkClient(c.Response.CollectedClientData); err != nil {
		return key, err
	}
	err = c.Verify(encode(challenge), s.ID, "", s.Origins, s.Origins, nil, protocol.TopOriginExplicitVerificationMode, false, true, true,
		key.PublicKey, protocol.SignaturePolicy{})
	if err != nil {
		return key, refused(err)
	}
	data := c.Response.AuthenticatorData
	if err := checkFlags(data.Flags); err != nil {
		return key, err
	}
	// Level 3 of WebAuthn has the flag unchanged, but password managers change it in an update.
	key.SignCount, key.BackupEligible, key.BackedUp = data.Counter, data.Flags.HasBackupEligible(), data.Flags.HasBackupState()
	return key, nil
}

// Cloned reports whether the sign count of an assertion shows that there may be a copy of the
// key: it does not exceed the one before, and the authenticator counts (WebAuthn level 3,
// section 6.1.1).
func Cloned(before, after uint32) bool { return after <= before && (before != 0 || after != 0) }

// checkClient checks what the library judges less strictly: origins are compared exactly, and a
// page in a frame of another site is refused.
func (s Site) checkClient(data protocol.CollectedClientData) error {
	if !slices.Contains(s.Origins, data.Origin) {
		return invalid(fmt.Sprintf("the origin %.100q is not among those of the site", data.Origin))
	}
	if data.CrossOrigin || data.TopOrigin != "" {
		return invalid("the page was in a frame of another site")
	}
	return nil
}

// checkFlags checks flags that contradict each other (WebAuthn level 3, section 6.1.3).
func checkFlags(f protocol.AuthenticatorFlags) error {
	if f.HasBackupState() && !f.HasBackupEligible() {
		return invalid("the key is backed up but must not be")
	}
	return nil
}

// refused describes an error of the library without its details, which repeat the request.
func refused(err error) error {
	if known, ok := errors.AsType[*protocol.Error](err); ok && known.Type != "" {
		return invalid(known.Type)
	}
	return invalid("the response cannot be verified")
}

// encode returns unpadded base64url, as WebAuthn's JSON has binary values.
func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
