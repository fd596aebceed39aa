package dbconn

import (
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParsePostgres_AcceptsValidURLs(t *testing.T) {
	_, root := certificate(t, "127.0.0.1")
	for _, c := range []struct {
		name, url                       string
		user, password, database        string
		network, address                string
		tls, verifiesName, verifiesRoot bool
		timeout                         time.Duration
	}{
		{name: "loopback without sslmode has no TLS", url: "postgres://u:p@127.0.0.1/db",
			user: "u", password: "p", database: "db", network: "tcp", address: "127.0.0.1:5432"},
		{name: "localhost is loopback", url: "postgresql://u@localhost:6432/db",
			user: "u", database: "db", network: "tcp", address: "localhost:6432"},
		{name: "::1 is loopback", url: "postgres://u@[::1]/db",
			user: "u", database: "db", network: "tcp", address: "[::1]:5432"},
		{name: "a unix socket has no TLS", url: "postgres://u@/db?host=/run/postgresql",
			user: "u", database: "db", network: "unix", address: "/run/postgresql/.s.PGSQL.5432"},
		{name: "a unix socket needs a user", url: "postgres:///db?host=/tmp&port=5433&connect_timeout=7", user: "", timeout: 7 * time.Second},
		{name: "a unix socket with a user and a port", url: "postgres://u@/db?host=/tmp&port=5433&connect_timeout=7",
			user: "u", database: "db", network: "unix", address: "/tmp/.s.PGSQL.5433", timeout: 7 * time.Second},
		{name: "another host without sslmode is verified in full", url: "postgres://u:p%40%2F%3A@db.example.org/db",
			user: "u", password: "p@/:", database: "db", network: "tcp", address: "db.example.org:5432",
			tls: true, verifiesName: true, verifiesRoot: true},
		{name: "disable", url: "postgres://u@db.example.org/db?sslmode=disable",
			user: "u", database: "db", network: "tcp", address: "db.example.org:5432"},
		{name: "require verifies nothing", url: "postgres://u@10.0.0.1/db?sslmode=require",
			user: "u", database: "db", network: "tcp", address: "10.0.0.1:5432", tls: true},
		{name: "require with a root verifies the chain", url: "postgres://u@10.0.0.1/db?sslmode=require&sslrootcert=" + root,
			user: "u", database: "db", network: "tcp", address: "10.0.0.1:5432", tls: true, verifiesRoot: true},
		{name: "loopback without sslmode, but with a root, is verified in full", url: "postgres://u@127.0.0.1/db?sslrootcert=" + root,
			user: "u", database: "db", network: "tcp", address: "127.0.0.1:5432", tls: true, verifiesName: true, verifiesRoot: true},
		{name: "verify-ca verifies the chain", url: "postgres://u@127.0.0.1/db?sslmode=verify-ca&sslrootcert=" + root,
			user: "u", database: "db", network: "tcp", address: "127.0.0.1:5432", tls: true, verifiesRoot: true},
		{name: "verify-full", url: "postgres://u@127.0.0.1/db?sslmode=verify-full",
			user: "u", database: "db", network: "tcp", address: "127.0.0.1:5432", tls: true, verifiesName: true, verifiesRoot: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			servers, err := parsePostgres(c.url)
			if c.user == "" {
				if err == nil {
					t.Fatal("got no error without a user")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(servers.hosts) != 1 {
				t.Fatalf("got %d hosts, want 1", len(servers.hosts))
			}
			got := servers.hosts[0]
			if got.User != c.user || got.Password != c.password || got.Database != c.database ||
				got.Network != c.network || got.Addr != c.address {
				t.Errorf("got %+v, want %+v", got, c)
			}
			if c.timeout == 0 {
				c.timeout = connectTimeout
			}
			if got.DialTimeout != c.timeout {
				t.Errorf("got timeout %v, want %v", got.DialTimeout, c.timeout)
			}
			if (got.TLSConfig != nil) != c.tls {
				t.Fatalf("got TLS %v, want %v", got.TLSConfig != nil, c.tls)
			}
			if !c.tls {
				return
			}
			if verifies := !got.TLSConfig.InsecureSkipVerify; verifies != c.verifiesName {
				t.Errorf("verifies the name: got %v, want %v", verifies, c.verifiesName)
			}
			if verifies := !got.TLSConfig.InsecureSkipVerify || got.TLSConfig.VerifyConnection != nil; verifies != c.verifiesRoot {
				t.Errorf("verifies the chain: got %v, want %v", verifies, c.verifiesRoot)
			}
		})
	}
}

func TestParsePostgres_AcceptsSeveralHosts(t *testing.T) {
	for _, c := range []struct {
		url       string
		addresses []string
		readWrite bool
	}{
		{"postgres://u:p@a:1,b:2/db", []string{"a:1", "b:2"}, false},
		{"postgres://u:p@a,b:2,[::1]:3/db?target_session_attrs=any", []string{"a:5432", "b:2", "[::1]:3"}, false},
		{"postgres://u:p@/db?host=a,b&target_session_attrs=read-write", []string{"a:5432", "b:5432"}, true},
		{"postgres://u@/db?host=a,b&port=6432", []string{"a:6432", "b:6432"}, false},
		{"postgres://u@/db?host=a,b&port=1,2", []string{"a:1", "b:2"}, false},
		{"postgres://u@a,b/db?port=,2", []string{"a:5432", "b:2"}, false},
		{"postgres://u@a:1/db?target_session_attrs=read-write", []string{"a:1"}, true},
	} {
		got, err := parsePostgres(c.url)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		var addresses []string
		for _, host := range got.hosts {
			addresses = append(addresses, host.Addr)
			if name, _, _ := net.SplitHostPort(host.Addr); host.TLSConfig != nil && host.TLSConfig.ServerName != name {
				t.Errorf("%s: got the name %q in the certificate of %s", c.url, host.TLSConfig.ServerName, host.Addr)
			}
		}
		if !slices.Equal(addresses, c.addresses) || got.readWrite != c.readWrite {
			t.Errorf("%s: got %v, read-write %t, want %v, %t", c.url, addresses, got.readWrite, c.addresses, c.readWrite)
		}
	}
}

func TestOpen_RefusesInvalidURLs(t *testing.T) {
	const secret = "s3cret"
	folder := t.TempDir()
	for _, c := range []struct{ name, url, want string }{
		{"an empty URL", "", "begin with"},
		{"another database system", "mysql://u:s3cret@h/db", "begin with"},
		{"a bare path", "/var/lib/s3cret.db", "begin with"},
		{"a password without escapes: %", "postgres://u:s3cret%zz@h/db", "percent-encoded"},
		{"a password without escapes: /", "postgres://u:s3cret/x@h/db", "percent-encoded"},
		{"a password without escapes: ?", "postgres://u:12?s3cret@h/db", "parameter"},
		{"a password without escapes: #", "postgres://u:12#s3cret@h/db", "parameters"},
		{"allow", "postgres://u:s3cret@h/db?sslmode=allow", "sslmode allow is refused: "},
		{"prefer", "postgres://u:s3cret@h/db?sslmode=prefer", "sslmode prefer is refused: "},
		{"an unknown mode", "postgres://u:s3cret@h/db?sslmode=s3cret", "sslmode must be"},
		{"a long path of a unix socket", "postgres://u:s3cret@/db?host=/" + strings.Repeat("a", 100), "unix_socket_directories"},
		{"TLS over a unix socket", "postgres://u:s3cret@/db?host=/tmp&sslmode=require", "unix socket"},
		{"no user", "postgres://h/db", "no user"},
		{"no database", "postgres://u:s3cret@h", "one database"},
		{"two databases", "postgres://u:s3cret@h/a/b", "one database"},
		{"no host", "postgres://u:s3cret@/db", "no host"},
		{"an empty host among several", "postgres://u:s3cret@a,,b/db", "no host"},
		{"an invalid port among several", "postgres://u:s3cret@a:1,b:s3cret/db", "percent-encoded"},
		{"fewer ports than hosts", "postgres://u:s3cret@/db?host=a,b,c&port=1,2", "one port for all hosts, or one for each"},
		{"more ports than hosts", "postgres://u:s3cret@a/db?port=1,2", "one port for all hosts, or one for each"},
		{"an unsupported session attribute", "postgres://u:s3cret@a,b/db?target_session_attrs=s3cret", "target_session_attrs must be any or read-write"},
		{"an invalid port", "postgres://u:s3cret@h/db?port=s3cret", "port"},
		{"a port out of range", "postgres://u:s3cret@h:70000/db", "port"},
		{"a session setting", "postgres://u:s3cret@h/db?search_path=x", "unknown parameter; known are application_name"},
		{"a parameter given twice", "postgres://u:s3cret@h/db?host=a&host=b", "twice"},
		{"an invalid timeout", "postgres://u:s3cret@h/db?connect_timeout=s3cret", "connect_timeout"},
		{"verify-ca without a root", "postgres://u:s3cret@h/db?sslmode=verify-ca", "needs a root of your own"},
		{"verify-ca with the system's roots", "postgres://u:s3cret@h/db?sslmode=verify-ca&sslrootcert=system", "needs a root of your own"},
		{"require with the system's roots", "postgres://u:s3cret@h/db?sslmode=require&sslrootcert=system", "needs a root of your own"},
		{"a root over a unix socket", "postgres://u:s3cret@/db?host=/tmp&sslrootcert=system", "unix socket"},
		{"a missing root file on loopback", "postgres://u:s3cret@127.0.0.1/db?sslrootcert=/s3cret", "sslrootcert cannot be read"},
		{"a missing root file", "postgres://u:s3cret@h/db?sslrootcert=/s3cret", "sslrootcert cannot be read"},
		{"a root file without a certificate", "postgres://u:s3cret@h/db?sslrootcert=/dev/null", "no certificate"},
		{"a client certificate without a key", "postgres://u:s3cret@h/db?sslcert=/s3cret", "pair"},
		{"SQLite in memory", "sqlite://:memory:", "memory"},
		{"SQLite without a file", "sqlite://", "no file"},
		{"a folder", "sqlite://" + folder + "/", "folder"},
		{"SQLite with parameters", "sqlite://s3cret.db?mode=ro", "no parameters"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Open(c.url, RequestLimits)
			var wrong *URLError
			if !errors.As(err, &wrong) {
				t.Fatalf("got error %v, want a *URLError", err)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %q, want it to contain %q", err, c.want)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("got %q, want it without the secret", err)
			}
		})
	}
}

func FuzzOpen_ErrorsHoldNoPartOfTheURL(f *testing.F) {
	const secret = "zqxjkv"
	for _, seed := range []string{"postgres://u:%s@h/db", "postgres://u:%s", "sqlite://%s?", "postgres://u:1?%s=2@h/db", "%s"} {
		before, after, _ := strings.Cut(seed, "%s")
		f.Add(before, after)
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		if strings.HasPrefix(before, "sqlite") { // it would create files
			return
		}
		pools, err := Open(before+secret+after, RequestLimits)
		if err == nil {
			_ = pools.Close()
			return
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("got %q, want it without the secret", err)
		}
	})
}

func TestOpen_SQLitePathMayHoldAnyCharacters(t *testing.T) {
	for _, name := range []string{"plain.db", "with space.db", "50%25.db", "ü&=+;.db", "a:b.db"} {
		path := filepath.Join(t.TempDir(), name)
		pools, err := Open("sqlite://"+path, RequestLimits)
		if err != nil {
			t.Fatal(err)
		}
		var file string
		if err := pools.Read.QueryRow("SELECT file FROM pragma_database_list").Scan(&file); err != nil {
			t.Fatal(err)
		}
		if file != path {
			t.Errorf("got file %q, want %q", file, path)
		}
		if err := pools.Close(); err != nil {
			t.Error(err)
		}
	}
}
