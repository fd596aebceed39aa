package passkey

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

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

// dummies are public keys of each algorithm, which are no one's, as COSE_Keys in hex: the base points
// of P-256 and Ed25519, and a modulus as long as those of the usual authenticators.
var dummies = []struct {
	algorithm webauthncose.COSEAlgorithmIdentifier
	public    string
}{
	{webauthncose.AlgES256, "a5010203262001215820" + "6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296" +
		"225820" + "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5"},
	{webauthncose.AlgEdDSA, "a4010103272006215820" + "58" + strings.Repeat("66", ed25519.PublicKeySize-1)},
	{webauthncose.AlgRS256, "a401030339010020590100" + strings.Repeat("d5", minModulus) + "2143010001"},
}

// dummy returns a key for an assertion whose public key is one of the dummies.
func dummy(a Assertion, public string) Key {
	key, _ := hex.DecodeString(public) // it is valid
	return Key{CredentialID: a.CredentialID, PublicKey: key}
}

// Dummy returns a key of no one for [Site.VerifyAlike]. Anyone can sign with it.
func Dummy(a Assertion) Key { return dummy(a, dummies[0].public) }

// VerifyAlike is [Site.Verify], and takes as long whatever the key: it checks a signature of each
// algorithm. So the time does not tell a stored passkey from an unknown one, for which the caller
// checks with [Dummy] and refuses. Keys of RS256 that are longer than usual take longer.
func (s Site) VerifyAlike(challenge []byte, a Assertion, key Key) (after Key, err error) {
	of := algorithmOf(key.PublicKey)
	err = invalid("the algorithm of the key is not accepted")
	for _, d := range dummies {
		other := dummy(a, d.public)
		if d.algorithm == of {
			after, err = s.Verify(challenge, a, key)
		} else if algorithmOf(other.PublicKey) == d.algorithm { // which takes as long as for the key above
			_, _ = s.Verify(challenge, a, other)
		}
	}
	return after, err
}

// algorithmOf returns the algorithm of a COSE_Key; 0 for none.
func algorithmOf(public []byte) webauthncose.COSEAlgorithmIdentifier {
	parsed, err := webauthncose.ParsePublicKey(public)
	if err != nil {
		return 0
	}
	switch k := parsed.(type) {
	case webauthncose.EC2PublicKeyData:
		return webauthncose.COSEAlgorithmIdentifier(k.Algorithm)
	case webauthncose.OKPPublicKeyData:
		return webauthncose.COSEAlgorithmIdentifier(k.Algorithm)
	case webauthncose.RSAPublicKeyData:
		return webauthncose.COSEAlgorithmIdentifier(k.Algorithm)
	}
	return 0
}
