package passkey

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/go-webauthn/webauthn/protocol/webauthncose"
)

// The sizes of RSA keys that are accepted, in bytes of the modulus. Longer ones take long to
// verify with.
const (
	minModulus = 2048 / 8
	maxModulus = 4096 / 8
)

// Check returns ErrInvalid unless Register can have returned the key.
func (k Key) Check() error {
	switch {
	case len(k.CredentialID) == 0 || len(k.CredentialID) > maxCredentialID:
		return invalid(fmt.Sprintf("the credential id must have 1 to %d bytes", maxCredentialID))
	case k.BackedUp && !k.BackupEligible:
		return invalid("the key is backed up but must not be")
	}
	return checkPublicKey(k.PublicKey)
}

// checkPublicKey checks that a COSE_Key is of one of the algorithms, and can verify signatures.
func checkPublicKey(key []byte) error {
	if len(key) > maxPublicKey {
		return invalid("the public key is too large")
	}
	parsed, err := webauthncose.ParsePublicKey(key)
	if err != nil {
		return invalid("the public key is malformed")
	}
	ok := false
	switch k := parsed.(type) {
	case webauthncose.EC2PublicKeyData:
		_, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), slices.Concat([]byte{4}, k.XCoord, k.YCoord))
		ok = k.Algorithm == int64(webauthncose.AlgES256) && k.Curve == int64(webauthncose.P256) && len(k.XCoord) == 32 && err == nil
	case webauthncose.OKPPublicKeyData:
		ok = k.Algorithm == int64(webauthncose.AlgEdDSA) && k.Curve == int64(webauthncose.Ed25519) && len(k.XCoord) == ed25519.PublicKeySize
	case webauthncose.RSAPublicKeyData:
		n := k.Modulus
		ok = k.Algorithm == int64(webauthncose.AlgRS256) && minModulus <= len(n) && len(n) <= maxModulus &&
			n[0] >= 0x80 && n[len(n)-1]&1 == 1 && string(k.Exponent) == "\x01\x00\x01"
	}
	if !ok {
		return invalid("the public key is not one of ES256, EdDSA or RS256")
	}
	return nil
}

// VerifyDummy takes as long as Verify with a key of ES256, and has no result.
func (s Site) VerifyDummy(challenge []byte, a Assertion) {
	public, _ := hex.DecodeString(dummyKey) // it is valid
	_, _ = s.Verify(challenge, a, Key{CredentialID: a.CredentialID, PublicKey: public})
}

// dummyKey is the base point of P-256 as a COSE_Key.
const dummyKey = "a5010203262001215820" + "6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296" +
	"225820" + "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5"
