package personaloidc

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// appleSecretLife is how long a client secret for Apple is valid; Apple permits six months.
const appleSecretLife = 10 * time.Minute

// appleSecret returns what makes Apple's client secret: a token that the site signs with its key.
func appleSecret(p Provider) (clientSecret, error) {
	if p.TeamID == "" || p.KeyID == "" || p.KeyFile == "" {
		return nil, errors.New("for Apple, set TeamID, KeyID and KeyFile, which make the secret")
	}
	data, err := os.ReadFile(p.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("KeyFile: %w", err)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("KeyFile: %s is not the .p8 file from Apple's console", p.KeyFile)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(*ecdsa.PrivateKey)
	if err != nil || !ok {
		return nil, fmt.Errorf("KeyFile: %s is not the .p8 file from Apple's console", p.KeyFile)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: p.KeyID}}, nil)
	if err != nil {
		return nil, fmt.Errorf("KeyFile: %w", err)
	}
	return func() (string, error) {
		now := time.Now()
		return jwt.Signed(signer).Claims(jwt.Claims{
			Issuer: p.TeamID, Subject: p.ClientID, Audience: jwt.Audience{Apple},
			IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(appleSecretLife)),
		}).Serialize()
	}, nil
}
