package dbconn_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit"
)

// ping connects once, and returns the problem of setup that the error names; "" for none.
func ping(t *testing.T, url string) (problem string, err error) {
	t.Helper()
	pools, err := dbconn.Open(url, dbconn.RequestLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer pools.Close()
	err = pools.Write.PingContext(t.Context())
	var setup *dbconn.SetupError
	if errors.As(err, &setup) {
		return setup.Problem, err
	}
	return "", err
}

// TestPostgres_SettingsOfTheTextDoNotMatter has settings that change how statements are read.
func TestPostgres_SettingsOfTheTextDoNotMatter(t *testing.T) {
	const text = `O'Brien \' Łódź`
	for whose, encoding := range map[string]string{"DATABASE %s SET ": "LATIN1", "ROLE CURRENT_USER IN DATABASE %s SET ": "SQL_ASCII"} {
		t.Run(whose+encoding, func(t *testing.T) {
			at := testkit.Postgres(t)
			alter := "ALTER " + fmt.Sprintf(whose, nameOf(t, at))
			admin := open(t, at, dbconn.MigrationLimits).Write
			mustExec(t, admin, alter+"client_encoding = '"+encoding+"'; "+alter+"standard_conforming_strings = off")
			t.Cleanup(func() {
				_, _ = open(t, at, dbconn.MigrationLimits).Write.Exec(strings.Replace(alter, " SET ", " RESET ALL", 1))
			})
			var got string
			if err := open(t, at, dbconn.RequestLimits).Read.QueryRowContext(t.Context(), "SELECT $1::text", text).Scan(&got); err != nil || got != text {
				t.Errorf("got %q, %v, want %q", got, err, text)
			}
		})
	}
}

// TestPostgres_SetupThatCannotWork has databases and roles that no wait makes usable, and one that a wait may.
func TestPostgres_SetupThatCannotWork(t *testing.T) {
	at := testkit.Postgres(t)
	admin := open(t, at, dbconn.MigrationLimits).Write
	name := "personal_setup_" + strings.ToLower(rand.Text())
	mustExec(t, admin, "CREATE ROLE "+name+" LOGIN")
	t.Cleanup(func() { _, _ = admin.Exec("DROP ROLE " + name) })
	role := func(options string) func(t *testing.T) string {
		return func(t *testing.T) string {
			mustExec(t, admin, "ALTER ROLE "+name+" "+options)
			return strings.Replace(at, "//postgres@", "//"+name+"@", 1)
		}
	}
	database := func(create, then string) func(t *testing.T) string {
		return func(t *testing.T) string {
			mustExec(t, admin, "CREATE DATABASE "+name+" TEMPLATE template0 LOCALE 'C' "+create)
			t.Cleanup(func() { _, _ = admin.Exec("DROP DATABASE " + name) })
			mustExec(t, admin, then)
			u, err := url.Parse(strings.Replace(role("LOGIN")(t), nameOf(t, at), name, 1))
			if err != nil {
				t.Fatal(err)
			}
			return u.String()
		}
	}
	for _, test := range []struct {
		name string
		url  func(t *testing.T) string
		want string // "": it may pass
	}{
		{"SQL_ASCII", database("ENCODING 'SQL_ASCII'", "SELECT 1"), "ENCODING 'UTF8' TEMPLATE template0"},
		{"LATIN1", database("ENCODING 'LATIN1'", "SELECT 1"), "the database has the encoding LATIN1"},
		{"no connections", database("", "ALTER DATABASE "+name+" ALLOW_CONNECTIONS false"), "ALTER DATABASE … ALLOW_CONNECTIONS true"},
		{"NOLOGIN", role("NOLOGIN"), "ALTER ROLE … LOGIN"},
		{"limit of the database", database("", "ALTER DATABASE "+name+" CONNECTION LIMIT 0"), ""},
		{"limit of the role", role("LOGIN CONNECTION LIMIT 0"), ""},
		{"no such role", func(*testing.T) string { return strings.Replace(at, "//postgres@", "//nobody@", 1) }, "create the role"},
		{"no such database", func(t *testing.T) string { return strings.Replace(at, nameOf(t, at), "none", 1) }, "no such database"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := ping(t, test.url(t))
			if err == nil || !strings.Contains(got, test.want) || (got == "") != (test.want == "") {
				t.Errorf("got %q (%v), want %q", got, err, test.want)
			}
		})
	}
}

// TestPostgres_ServerOfAnotherKind has servers that send these bytes to what connects.
func TestPostgres_ServerOfAnotherKind(t *testing.T) {
	refusal := func(state string) string {
		fields := "SFATAL\x00VFATAL\x00C" + state + "\x00Mno\x00\x00"
		return "E\x00\x00\x00" + string(rune(4+len(fields))) + fields
	}
	const plain, encrypted = "sslmode=disable", "sslmode=require"
	for _, test := range []struct {
		name, sends, mode string
		want              string // "": it may pass
	}{
		{"HTTP", "HTTP/1.1 400 Bad Request\r\n\r\n", plain, "is a web server, not PostgreSQL"},
		{"HTTP, TLS demanded", "HTTP/1.1 400 Bad Request\r\n\r\n", encrypted, "is a web server, not PostgreSQL"},
		{"HTTPS", "\x15\x03\x01\x00\x02\x02\x46", plain, "expects TLS at once"},
		{"MySQL", "\x4a\x00\x00\x00\x0a8.0.36\x00" + strings.Repeat("x", 64), plain, "is MySQL or MariaDB"},
		{"MySQL, TLS demanded", "\x4e\x00\x00\x00\x0a8.0.36\x00", encrypted, "is MySQL or MariaDB"},
		{"SSH", "SSH-2.0-OpenSSH_9.2\r\n", plain, "is an SSH server"},
		{"SMTP", "220 mail.example ESMTP\r\n", plain, "is another service"},
		{"PostgreSQL without TLS", "N", encrypted, "set ssl = on"},
		{"a wrong or expired password", refusal("28P01"), plain, "VALID UNTIL 'infinity'"},
		{"pg_hba.conf demands TLS", refusal("28000"), plain, "write sslmode=verify-full"},
		{"starting", refusal("57P03"), plain, ""},
		{"too many connections", refusal("53300"), plain, ""},
		{"an error of a pooler", refusal("08P01"), plain, ""},
		{"nothing, a proxy without a server", "", plain, ""},
		{"nothing, TLS demanded", "", encrypted, ""},
		{"an error in place of TLS, no process for it", refusal("53200"), encrypted, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := ping(t, "postgres://u@"+sends(t, test.sends)+"/db?"+test.mode)
			if err == nil || !strings.Contains(got, test.want) || (got == "") != (test.want == "") {
				t.Errorf("got %q (%v), want %q", got, err, test.want)
			}
		})
	}
	t.Run("another host may pass", func(t *testing.T) {
		refuses, starts := sends(t, refusal("28P01")), sends(t, refusal("57P03"))
		for hosts, want := range map[string]bool{refuses + "," + starts: false, starts + "," + refuses: false, refuses + "," + refuses: true} {
			if got, err := ping(t, "postgres://u@"+hosts+"/db?sslmode=disable"); err == nil || (got != "") != want {
				t.Errorf("%s: got %q (%v), want a problem: %t", hosts, got, err, want)
			}
		}
	})
}

// sends returns the address of a server that sends the text to each client, ends its side, and reads until the client leaves.
func sends(t *testing.T, text string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.ReadFull(c, make([]byte, 8))
				_, _ = io.WriteString(c, text)
				_ = c.(*net.TCPConn).CloseWrite()
				_, _ = io.Copy(io.Discard, c)
			}()
		}
	}()
	return l.Addr().String()
}

func nameOf(t *testing.T, at string) string {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(u.Path, "/")
}
