package dbconn

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"os"

	"github.com/uptrace/bun/driver/pgdriver"
)

// setTLS applies sslmode and its companions. The modes mean what they mean to
// libpq, but for two: allow and prefer are refused, and without a mode TLS is
// verified in full except where nothing leaves the machine and no certificate is
// given. To verify a chain without the name is worth something only where the root is
// one's own: from the public ones anybody gets a certificate.
func setTLS(c *pgdriver.Config, q url.Values) error {
	host, _, _ := net.SplitHostPort(c.Addr)
	mode := q.Get("sslmode")
	if mode == "" {
		mode = "verify-full"
		given := q.Get("sslrootcert") + q.Get("sslcert") + q.Get("sslkey")
		if given == "" && (c.Network == "unix" || isLoopback(host)) {
			mode = "disable"
		}
	}
	root := q.Get("sslrootcert")
	if mode == "verify-ca" && root == "" || (mode == "verify-ca" || mode == "require") && root == "system" {
		return wrong("sslmode " + mode + " needs a root of your own, a file, as sslrootcert; or use verify-full")
	}
	t := &tls.Config{ServerName: host}
	switch mode {
	case "disable":
		return nil
	case "allow", "prefer":
		return wrong("sslmode " + mode + " is refused: who can tamper with the connection can switch its TLS off; " +
			"use verify-full, or disable")
	case "require": // encrypted, unless a root is given to whom it does not matter
		t.InsecureSkipVerify = true
		if root != "" {
			t.VerifyConnection = verifyChain(t)
		}
	case "verify-ca":
		t.InsecureSkipVerify = true // of the host's name; the chain is verified
		t.VerifyConnection = verifyChain(t)
	case "verify-full":
	default:
		return wrong("sslmode must be disable, require, verify-ca or verify-full")
	}
	if c.Network == "unix" {
		return wrong("TLS over a unix socket is not supported; leave sslmode and certificates out")
	}
	c.TLSConfig = t
	return loadCertificates(t, q)
}

func isLoopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// verifyChain checks the server's certificate as crypto/tls does, but for the
// name in it.
func verifyChain(t *tls.Config) func(tls.ConnectionState) error {
	return func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return errors.New("the server sent no certificate")
		}
		between := x509.NewCertPool()
		for _, cert := range s.PeerCertificates[1:] {
			between.AddCert(cert)
		}
		_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: t.RootCAs, Intermediates: between})
		return err
	}
}

func loadCertificates(t *tls.Config, q url.Values) error {
	if name := q.Get("sslrootcert"); name != "" && name != "system" {
		pem, err := os.ReadFile(name)
		if err != nil { // it names the path, a part of the URL
			return wrong("the file of sslrootcert cannot be read")
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return wrong("the file of sslrootcert holds no certificate")
		}
	}
	if cert, key := q.Get("sslcert"), q.Get("sslkey"); cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return wrong("the files of sslcert and sslkey cannot be read as a pair")
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return nil
}
