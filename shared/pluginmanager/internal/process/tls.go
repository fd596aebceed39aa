package process

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math"
	"math/big"
	"time"
)

// certificateEnv is the variable in which a plugin expects the certificate of its host, as PEM. It
// then makes one of its own, demands the host's, and prints its own in the handshake: the
// AutoMTLS of go-plugin.
const certificateEnv = "PLUGIN_CLIENT_CERT"

// name is the name in the certificates of both sides.
const name = "localhost"

// mutualTLS makes the key and the certificate of the host for one process. go-plugin adds the
// certificate that the plugin prints to the configuration. The host's AutoMTLS is not used:
// its P-521 takes a hundred times as long as P-256, at each start and on both sides.
func mutualTLS() (config *tls.Config, env string, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, "", err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(math.MaxInt64))
	if err != nil {
		return nil, "", err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		DNSNames:     []string{name},
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		NotBefore:    now.Add(-time.Hour), // the clock may be set back while the process runs
		NotAfter:     now.AddDate(30, 0, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, "", err
	}
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		ClientAuth:   tls.RequireAndVerifyClientCert, // of the plugin, where it calls the host
		RootCAs:      x509.NewCertPool(),             // none, until the plugin has printed its own
		ClientCAs:    x509.NewCertPool(),
		MinVersion:   tls.VersionTLS13,
		ServerName:   name,
	}, certificateEnv + "=" + string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), nil
}
