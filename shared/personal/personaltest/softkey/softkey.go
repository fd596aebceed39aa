// Package softkey is an authenticator in software: it makes passkeys and signs with them, and shows
// codes, for tests and rehearsals. It has no user to ask, and keeps the keys in memory.
package softkey

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Authenticator makes and uses passkeys (WebAuthn level 3) of one browser. The zero value
// with an Origin is ready to use. It is not safe for concurrent use.
type Authenticator struct {
	Origin string // of the page that the browser shows
	Count  uint32 // the sign count of the next signature; 0: the authenticator does not count
	Flags  byte   // replaces the flags of the next responses; 0: [Flags]
	Site   string // replaces the RP ID that the next responses name; empty: that of the options

	Algorithm  int      // of the next passkeys; 0: ES256
	Transports []string // of the next passkeys, as the browser tells them; nil: internal

	keys []key
}

// Flags are those of a passkey that is synchronised between devices, of a user who is there
// and verified: UP, UV, BE and BS.
const Flags byte = 0x01 | 0x04 | 0x08 | 0x10

// Algorithms of passkeys (RFC 9053, RFC 8812) besides ES256.
const (
	EdDSA = -8
	RS256 = -257
)

const attested byte = 0x40 // the flag AT

type key struct {
	site    string
	id      []byte
	handle  []byte
	private crypto.Signer
}

// The errors of an authenticator.
var (
	ErrExcluded = errors.New("the authenticator has one of the excluded passkeys")
	ErrNoKey    = errors.New("the authenticator has no such passkey")
)

type descriptor struct {
	ID bytes `json:"id"`
}

// Create makes a passkey for options in the form PublicKeyCredentialCreationOptionsJSON, and
// returns the response in the form RegistrationResponseJSON.
func (a *Authenticator) Create(options string) (credential string, err error) {
	var o struct {
		RP struct {
			ID string `json:"id"`
		} `json:"rp"`
		User struct {
			ID bytes `json:"id"`
		} `json:"user"`
		Challenge bytes        `json:"challenge"`
		Exclude   []descriptor `json:"excludeCredentials"`
	}
	if err := json.Unmarshal([]byte(options), &o); err != nil {
		return "", fmt.Errorf("reading the creation options: %w", err)
	}
	for _, d := range o.Exclude {
		if a.find(o.RP.ID, d.ID) != nil {
			return "", ErrExcluded
		}
	}
	private, public, err := newKey(a.Algorithm)
	if err != nil {
		return "", fmt.Errorf("making a key: %w", err)
	}
	k := key{site: o.RP.ID, id: make([]byte, 32), handle: o.User.ID, private: private}
	_, _ = rand.Read(k.id) // it never fails
	data := a.data(k.site, attested)
	data = append(data, make([]byte, 16)...) // the AAGUID
	data = binary.BigEndian.AppendUint16(data, uint16(len(k.id)))
	data = append(data, k.id...)
	data = append(data, public...)
	client := a.client("webauthn.create", o.Challenge)
	transports := a.Transports
	if transports == nil {
		transports = []string{"internal"}
	}
	a.keys = append(slices.Clip(a.keys), k) // a copy of the authenticator has its own
	return response(k.id, map[string]any{
		"clientDataJSON": bytes(client), "attestationObject": bytes(attestation(data)), "transports": transports,
	})
}

// Get signs for options in the form PublicKeyCredentialRequestOptionsJSON with the latest
// passkey that they allow, and returns the response in the form AuthenticationResponseJSON.
func (a *Authenticator) Get(options string) (credential string, err error) {
	var o struct {
		Challenge bytes        `json:"challenge"`
		RPID      string       `json:"rpId"`
		Allow     []descriptor `json:"allowCredentials"`
	}
	if err := json.Unmarshal([]byte(options), &o); err != nil {
		return "", fmt.Errorf("reading the request options: %w", err)
	}
	var chosen *key
	for i := range a.keys {
		allowed := len(o.Allow) == 0 || slices.ContainsFunc(o.Allow, func(d descriptor) bool { return string(d.ID) == string(a.keys[i].id) })
		if a.keys[i].site == o.RPID && allowed {
			chosen = &a.keys[i]
		}
	}
	if chosen == nil {
		return "", ErrNoKey
	}
	data, client := a.data(chosen.site, 0), a.client("webauthn.get", o.Challenge)
	hash := sha256.Sum256(client)
	message, digest := append(slices.Clone(data), hash[:]...), crypto.Hash(0)
	if _, whole := chosen.private.(ed25519.PrivateKey); !whole {
		sum := sha256.Sum256(message)
		message, digest = sum[:], crypto.SHA256
	}
	signature, err := chosen.private.Sign(rand.Reader, message, digest)
	if err != nil {
		return "", fmt.Errorf("signing: %w", err)
	}
	return response(chosen.id, map[string]any{
		"clientDataJSON": bytes(client), "authenticatorData": bytes(data), "signature": bytes(signature), "userHandle": bytes(chosen.handle),
	})
}

func (a *Authenticator) find(site string, id []byte) *key {
	for i := range a.keys {
		if a.keys[i].site == site && string(a.keys[i].id) == string(id) {
			return &a.keys[i]
		}
	}
	return nil
}

// data is the authenticator data without an attested key.
func (a *Authenticator) data(site string, more byte) []byte {
	flags := a.Flags
	if flags == 0 {
		flags = Flags
	}
	hash := sha256.Sum256([]byte(cmp.Or(a.Site, site)))
	data := binary.BigEndian.AppendUint32(append(hash[:], flags|more), a.Count)
	if a.Count > 0 {
		a.Count++
	}
	return data
}

func (a *Authenticator) client(kind string, challenge []byte) []byte {
	data, _ := json.Marshal(map[string]any{ // it cannot fail
		"type": kind, "challenge": bytes(challenge), "origin": a.Origin, "crossOrigin": false,
	})
	return data
}

func response(id []byte, of map[string]any) (string, error) {
	data, err := json.Marshal(map[string]any{
		"id": bytes(id), "rawId": bytes(id), "type": "public-key", "response": of, "clientExtensionResults": struct{}{},
	})
	if err != nil {
		return "", fmt.Errorf("encoding a credential: %w", err)
	}
	return string(data), nil
}

// attestation is the CBOR map {"fmt": "none", "attStmt": {}, "authData": data}.
func attestation(data []byte) []byte {
	object := append([]byte{0xa3}, "\x63fmt\x64none\x67attStmt\xa0\x68authData"...)
	if len(data) <= 0xff {
		object = append(object, 0x58, byte(len(data))) // bytes, 24 to 255 of them
	} else {
		object = append(object, 0x59, byte(len(data)>>8), byte(len(data)))
	}
	return append(object, data...)
}

// newKey makes a key, and returns the public part as the CBOR map of RFC 9053 and RFC 8230: kty, alg, then crv and x,
// crv, x and y, or n and e.
func newKey(algorithm int) (private crypto.Signer, public []byte, err error) {
	switch algorithm {
	case EdDSA:
		x, key, err := ed25519.GenerateKey(rand.Reader)
		return key, append([]byte("\xa4\x01\x01\x03\x27\x20\x06\x21\x58\x20"), x...), err
	case RS256:
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			return nil, nil, err
		}
		return key, slices.Concat([]byte("\xa4\x01\x03\x03\x39\x01\x00\x20\x59\x01\x00"), key.N.Bytes(), []byte("\x21\x43\x01\x00\x01")), nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	point, err := key.PublicKey.Bytes()
	if err != nil {
		return nil, nil, err
	}
	return key, slices.Concat([]byte("\xa5\x01\x02\x03\x26\x20\x01\x21\x58\x20"), point[1:33], []byte("\x22\x58\x20"), point[33:]), nil
}

// bytes are unpadded base64url in JSON.
type bytes []byte

// MarshalText returns unpadded base64url.
func (b bytes) MarshalText() ([]byte, error) {
	return []byte(base64.RawURLEncoding.EncodeToString(b)), nil
}

// UnmarshalText reads unpadded base64url.
func (b *bytes) UnmarshalText(text []byte) (err error) {
	*b, err = base64.RawURLEncoding.DecodeString(string(text))
	return err
}
