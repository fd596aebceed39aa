package dbconn

import (
	"net"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/uptrace/bun/driver/pgdriver"
)

// The parameters a PostgreSQL URL may have, as libpq names them.
var postgresParameters = []string{
	"application_name", "connect_timeout", "host", "port", "sslcert", "sslkey", "sslmode", "sslrootcert",
}

// parsePostgres reads the URL itself: pgdriver's own reading panics with the URL
// in the text, demands TLS on loopback, and takes unknown parameters for session
// settings, which a pooler in transaction mode hands on to strangers.
func parsePostgres(raw string) (*pgdriver.Config, error) {
	u, err := url.Parse(raw)
	if err != nil { // the error quotes the URL
		return nil, wrong("it is not a URL; special characters in the password must be percent-encoded")
	}
	q, err := parameters(u)
	if err != nil {
		return nil, err
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

// parameters returns the query of u, every name known and given once.
func parameters(u *url.URL) (url.Values, error) {
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil || u.Fragment != "" {
		return nil, wrong("its parameters cannot be read")
	}
	known := 0
	for _, name := range postgresParameters {
		if values, ok := q[name]; ok {
			known++
			if len(values) > 1 {
				return nil, wrong("the parameter " + name + " is given twice")
			}
		}
	}
	if known != len(q) {
		return nil, wrong("it has an unknown parameter; known are " + strings.Join(postgresParameters, ", "))
	}
	return q, nil
}

func setAddress(c *pgdriver.Config, u *url.URL, q url.Values) error {
	host, port := u.Hostname(), u.Port()
	if h := q.Get("host"); h != "" {
		host = h
	}
	if p := q.Get("port"); p != "" {
		port = p
	}
	if port == "" {
		port = "5432"
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return wrong("the port must be 1 to 65535")
	}
	switch {
	case host == "":
		return wrong("it names no host; for a unix socket say ?host=/folder")
	case strings.Contains(host, ","):
		return wrong("several hosts are not supported")
	case strings.HasPrefix(host, "/"):
		c.Network, c.Addr = "unix", path.Join(host, ".s.PGSQL."+port)
	default:
		c.Network, c.Addr = "tcp", net.JoinHostPort(host, port)
	}
	return nil
}
