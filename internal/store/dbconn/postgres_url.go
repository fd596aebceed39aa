package dbconn

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/uptrace/bun/driver/pgdriver"
)

// postgresParameters are the parameters that a PostgreSQL URL may have, named as in
// libpq.
var postgresParameters = []string{
	"application_name", "connect_timeout", "host", "port", "sslcert", "sslkey", "sslmode", "sslrootcert",
}

// parsePostgres parses a PostgreSQL URL. pgdriver's own parser is not used: it
// panics with the URL in the text, requires TLS on loopback, and sends unknown
// parameters as session settings, which a pooler in transaction mode would pass on to
// other clients.
func parsePostgres(raw string) (*pgdriver.Config, error) {
	u, err := url.Parse(raw)
	if err != nil { // the error quotes the URL
		return nil, wrong("it is not a URL; special characters in the password must be percent-encoded")
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil || u.Fragment != "" {
		return nil, wrong("its parameters cannot be read")
	}
	for name, values := range q {
		switch {
		case !slices.Contains(postgresParameters, name):
			return nil, wrong("it has an unknown parameter; known are " + strings.Join(postgresParameters, ", "))
		case len(values) > 1:
			return nil, wrong("the parameter " + name + " is given twice")
		}
	}
	c := &pgdriver.Config{
		User:        u.User.Username(),
		Database:    strings.TrimPrefix(u.Path, "/"),
		AppName:     q.Get("application_name"),
		DialTimeout: defaultConnectTimeout,
		BufferSize:  4096,
	}
	c.Password, _ = u.User.Password()
	if c.User == "" {
		return nil, wrong("it names no user")
	}
	if c.Database == "" || strings.Contains(c.Database, "/") {
		return nil, wrong("it must name one database after the host")
	}
	if err := setAddress(c, u, q); err != nil {
		return nil, err
	}
	if text := q.Get("connect_timeout"); text != "" {
		seconds, err := strconv.Atoi(text)
		if err != nil || seconds < 1 || seconds > 300 {
			return nil, wrong("connect_timeout must be 1 to 300 seconds")
		}
		c.DialTimeout = time.Duration(seconds) * time.Second
	}
	return c, setTLS(c, q)
}

func setAddress(c *pgdriver.Config, u *url.URL, q url.Values) error {
	host, port := cmp.Or(q.Get("host"), u.Hostname()), cmp.Or(q.Get("port"), u.Port(), "5432")
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return wrong("the port must be 1 to 65535")
	}
	switch {
	case host == "":
		return wrong("it names no host; for a unix socket write ?host=/folder")
	case strings.Contains(host, ","):
		return wrong("several hosts are not supported")
	case strings.HasPrefix(host, "/"):
		c.Network, c.Addr = "unix", path.Join(host, ".s.PGSQL."+port)
	default:
		c.Network, c.Addr = "tcp", net.JoinHostPort(host, port)
	}
	return nil
}

// setTLS applies sslmode and the certificate parameters with the meaning they have
// in libpq, with these exceptions. The modes allow and prefer are refused. Without
// sslmode the default is verify-full, or disable on loopback and unix sockets if no
// certificate is given. verify-ca needs a private root: a public authority issues a
// certificate to anyone, so that verifying the chain without the name proves nothing.
func setTLS(c *pgdriver.Config, q url.Values) error {
	host, _, _ := net.SplitHostPort(c.Addr)
	root, cert, key := q.Get("sslrootcert"), q.Get("sslcert"), q.Get("sslkey")
	mode := q.Get("sslmode")
	if mode == "" {
		mode = "verify-full"
		if root+cert+key == "" && (c.Network == "unix" || host == "localhost" || net.ParseIP(host).IsLoopback()) {
			mode = "disable"
		}
	}
	if mode == "verify-ca" && root == "" || (mode == "verify-ca" || mode == "require") && root == "system" {
		return wrong("sslmode " + mode + " needs a root of your own, a file, as sslrootcert; or use verify-full")
	}
	t := &tls.Config{ServerName: host}
	switch mode {
	case "disable":
		return nil
	case "allow", "prefer":
		return wrong("sslmode " + mode + " is refused: an attacker on the connection can switch its TLS off; " +
			"use verify-full, or disable")
	case "require", "verify-ca": // skips the check of the name only, if a root is given
		t.InsecureSkipVerify = true
		if root != "" {
			t.VerifyConnection = func(s tls.ConnectionState) error { return verifyChain(s, t.RootCAs) }
		}
	case "verify-full":
	default:
		return wrong("sslmode must be disable, require, verify-ca or verify-full")
	}
	if c.Network == "unix" {
		return wrong("TLS over a unix socket is not supported; leave sslmode and certificates out")
	}
	if root != "" && root != "system" {
		pem, err := os.ReadFile(root)
		if err != nil { // the error holds the path, a part of the URL
			return wrong("the file of sslrootcert cannot be read")
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return wrong("the file of sslrootcert holds no certificate")
		}
	}
	if cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return wrong("the files of sslcert and sslkey cannot be read as a pair")
		}
		t.Certificates = []tls.Certificate{pair}
	}
	c.TLSConfig = t
	return nil
}

// verifyChain verifies the server's certificate like crypto/tls, except for its
// name.
func verifyChain(s tls.ConnectionState, roots *x509.CertPool) error {
	if len(s.PeerCertificates) == 0 {
		return errors.New("the server sent no certificate")
	}
	intermediates := x509.NewCertPool()
	for _, cert := range s.PeerCertificates[1:] {
		intermediates.AddCert(cert)
	}
	_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates})
	return err
}
