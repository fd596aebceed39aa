package dbconn

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
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
	"target_session_attrs",
}

var errNotEscaped = wrong("it is not a URL; special characters in the password must be percent-encoded")

// servers are where a URL leads: the hosts in the order in which they are tried, as in
// libpq.
type servers struct {
	hosts     []*pgdriver.Config
	readWrite bool // only one that accepts writes
}

// parsePostgres parses a PostgreSQL URL, which may name several hosts. pgdriver's own parser is not used: it
// panics with the URL in the text, requires TLS on loopback, and sends unknown
// parameters as session settings, which a pooler in transaction mode would pass on to
// other clients.
func parsePostgres(raw string) (s servers, err error) {
	before, authority, after := cutHosts(raw)
	u, err := url.Parse(before + after)
	if err != nil { // the error quotes the URL
		return s, errNotEscaped
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil || u.Fragment != "" {
		return s, wrong("its parameters cannot be read")
	}
	for name, values := range q {
		switch {
		case !slices.Contains(postgresParameters, name):
			return s, wrong("it has an unknown parameter; known are " + strings.Join(postgresParameters, ", "))
		case len(values) > 1:
			return s, wrong("the parameter " + name + " is given twice")
		}
	}
	c := pgdriver.Config{
		User:       u.User.Username(),
		Database:   strings.TrimPrefix(u.Path, "/"),
		AppName:    q.Get("application_name"),
		BufferSize: 4096,
	}
	c.Password, _ = u.User.Password()
	if c.User == "" {
		if strings.Contains(after, "@") {
			return s, errNotEscaped
		}
		return s, wrong("it names no user")
	}
	if c.Database == "" || strings.Contains(c.Database, "/") {
		return s, wrong("it must name one database after the host")
	}
	switch q.Get("target_session_attrs") {
	case "", "any":
	case "read-write":
		s.readWrite = true
	default:
		return s, wrong("target_session_attrs must be any or read-write")
	}
	hosts, ports, err := addresses(authority, q)
	if err != nil {
		return s, err
	}
	c.DialTimeout = connectTimeout
	if len(hosts) > 1 {
		c.DialTimeout = hostTimeout
	}
	if text := q.Get("connect_timeout"); text != "" {
		seconds, err := strconv.Atoi(text)
		if err != nil || seconds < 1 || seconds > 300 {
			return s, wrong("connect_timeout must be 1 to 300 seconds")
		}
		c.DialTimeout = time.Duration(seconds) * time.Second
	}
	for i, host := range hosts {
		at := c
		if err := setAddress(&at, host, ports[i]); err != nil {
			return s, err
		}
		if err := setTLS(&at, q); err != nil {
			return s, err
		}
		s.hosts = append(s.hosts, &at)
	}
	return s, nil
}

// cutHosts cuts the hosts out of a URL, because net/url accepts one only.
func cutHosts(raw string) (before, hosts, after string) {
	scheme := strings.Index(raw, "://") + len("://")
	end := len(raw)
	if i := strings.IndexAny(raw[scheme:], "/?#"); i >= 0 {
		end = scheme + i
	}
	start := scheme + strings.LastIndexByte(raw[scheme:end], '@') + 1
	return raw[:start], raw[start:end], raw[end:]
}

// addresses returns the hosts and the port of each. The parameters host and port take
// precedence over the authority; a single port is that of all hosts.
func addresses(authority string, q url.Values) (hosts, ports []string, err error) {
	for one := range strings.SplitSeq(authority, ",") {
		u, err := url.Parse("//" + one)
		if err != nil || u.Host != one {
			return nil, nil, errNotEscaped
		}
		hosts, ports = append(hosts, u.Hostname()), append(ports, u.Port())
	}
	if text := q.Get("host"); text != "" {
		hosts = strings.Split(text, ",")
	}
	if text := q.Get("port"); text != "" {
		ports = strings.Split(text, ",")
	}
	if len(ports) == 1 {
		ports = slices.Repeat(ports, len(hosts))
	}
	if len(ports) != len(hosts) {
		return nil, nil, wrong("it must give one port for all hosts, or one for each")
	}
	return hosts, ports, nil
}

// maxSocketPath is how long the path of a unix socket may be on all systems; 108 on Linux include a zero byte, 104 on others.
const maxSocketPath = 103

func setAddress(c *pgdriver.Config, host, port string) error {
	port = cmp.Or(port, "5432")
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return wrong("the port must be 1 to 65535")
	}
	switch {
	case host == "":
		return wrong("it names no host; for a unix socket write ?host=/folder")
	case strings.HasPrefix(host, "/"):
		c.Network, c.Addr = "unix", path.Join(host, ".s.PGSQL."+port)
		if len(c.Addr) > maxSocketPath {
			return wrong(fmt.Sprintf("the path of the unix socket has more than %d bytes; set unix_socket_directories of the server to a shorter one", maxSocketPath))
		}
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
		if !t.RootCAs.AppendCertsFromPEM(bytes.TrimPrefix(pem, []byte("\ufeff"))) {
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
