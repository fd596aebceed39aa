package dbconn

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The server is at 127.0.0.1 and its certificate is for db.test.
func TestTLS_VerifiesServerAsSSLModeSays(t *testing.T) {
	cert, root := certificate(t, "db.test")
	_, otherRoot := certificate(t, "db.test")
	for _, c := range []struct {
		name, parameters string
		accepted         bool
	}{
		{"require accepts any server", "sslmode=require", true},
		{"require with the root accepts it", "sslmode=require&sslrootcert=" + root, true},
		{"require with another root does not", "sslmode=require&sslrootcert=" + otherRoot, false},
		{"verify-ca accepts another name", "sslmode=verify-ca&sslrootcert=" + root, true},
		{"verify-ca does not accept another root", "sslmode=verify-ca&sslrootcert=" + otherRoot, false},
		{"verify-full does not accept another name", "sslmode=verify-full&sslrootcert=" + root, false},
		{"verify-full with the system's roots does not accept it", "sslmode=verify-full", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			address, accepted := tlsServer(t, cert)
			conf, err := parsePostgres("postgres://u:p@" + address + "/db?" + c.parameters)
			if err != nil {
				t.Fatal(err)
			}
			db := openPostgres(conf, RequestLimits, sql.OpenDB)
			defer db.Close()
			if err := db.PingContext(t.Context()); err == nil {
				t.Fatal("got a connection, want an error")
			}
			if got := <-accepted; got != c.accepted {
				t.Errorf("accepted the certificate: got %v, want %v", got, c.accepted)
			}
		})
	}
}

func TestTLS_SendsNothingToServerWithoutTLS(t *testing.T) {
	l := listen(t)
	sent := make(chan []byte, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.ReadFull(c, make([]byte, 8)) // the request for TLS
		_, _ = c.Write([]byte("N"))
		rest, _ := io.ReadAll(c)
		sent <- rest
	}()
	conf, err := parsePostgres("postgres://u:p@" + l.Addr().String() + "/db?sslmode=require")
	if err != nil {
		t.Fatal(err)
	}
	db := openPostgres(conf, RequestLimits, sql.OpenDB)
	defer db.Close()
	if err := db.PingContext(t.Context()); err == nil {
		t.Fatal("got a connection, want an error")
	}
	if rest := <-sent; len(rest) > 0 { // ReadAll returns because a failed connection is closed
		t.Errorf("got %d bytes without TLS, want none", len(rest))
	}
}

// tlsServer accepts one connection and reports whether the client continues after
// the handshake.
func tlsServer(t *testing.T, cert tls.Certificate) (address string, accepted <-chan bool) {
	l := listen(t)
	result := make(chan bool, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.ReadFull(c, make([]byte, 8))
		_, _ = c.Write([]byte("S"))
		_, err = tls.Server(c, &tls.Config{Certificates: []tls.Certificate{cert}}).Read(make([]byte, 1))
		result <- err == nil
	}()
	return l.Addr().String(), result
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// certificate returns a self-signed certificate and a file that holds it.
func certificate(t *testing.T, host string) (cert tls.Certificate, file string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "root.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}
