package dbconn

import (
	"bytes"
	"crypto/x509"
	"errors"

	"github.com/uptrace/bun/driver/pgdriver"
)

// SetupError is an error that stays until an administrator changes something.
type SetupError struct {
	Problem string // what to change
	Err     error
}

// Error returns what has failed, without what to change.
func (e *SetupError) Error() string { return e.Err.Error() }

// Unwrap returns what has failed.
func (e *SetupError) Unwrap() error { return e.Err }

// setupError makes the error of a log-in a [*SetupError] if it cannot pass. It goes by the SQLSTATE and
// by the first bytes that the server has sent.
func setupError(err error, heard []byte, encrypted bool) error {
	if problem := loginProblem(err, heard, encrypted); problem != "" {
		return &SetupError{problem, err}
	}
	return err
}

func loginProblem(err error, heard []byte, encrypted bool) string {
	var reported pgdriver.Error
	var issuer x509.UnknownAuthorityError
	var name x509.HostnameError
	other := otherService(heard, encrypted)
	switch {
	case errors.As(err, &reported):
		return stateProblem(reported.Field('C'), encrypted)
	case other != "":
		return "at the address of the database URL is " + other + ", not PostgreSQL: correct the host and the port in the URL"
	case encrypted && bytes.HasPrefix(heard, []byte("N")):
		return "the server has no TLS, and the database URL demands it: set ssl = on with a certificate in postgresql.conf (PgBouncer: client_tls_sslmode), " +
			"or, if no one else can read the connection, write sslmode=disable in the URL"
	case errors.As(err, &issuer):
		return "no authority that this machine trusts has issued the certificate of the server: name the root certificate as sslrootcert in the database URL"
	case errors.As(err, &name):
		return "the certificate of the server has another name than the host in the database URL: correct the host, or issue a certificate for it"
	}
	return ""
}

// stateProblem returns what to change for a SQLSTATE that ends a log-in (PostgreSQL, appendix A); "" if it may pass.
func stateProblem(state string, encrypted bool) string {
	switch state {
	case "3D000": // invalid_catalog_name
		return "the PostgreSQL server has no such database: create it, or correct the name in the database URL"
	case "28000", "28P01": // invalid_authorization_specification, invalid_password
		problem := "the PostgreSQL server does not let the role of the database URL in: create the role, correct its name or password in the URL, " +
			"run ALTER ROLE … LOGIN VALID UNTIL 'infinity', or correct pg_hba.conf"
		if !encrypted {
			problem += "; if that has only hostssl lines for it, write sslmode=verify-full in the URL"
		}
		return problem
	case "55000": // object_not_in_prerequisite_state
		return "the database allows no connections: run ALTER DATABASE … ALLOW_CONNECTIONS true, or name another database in the database URL"
	}
	return ""
}

// otherService names what speaks another protocol than PostgreSQL's; "" if it may be PostgreSQL. The response to
// the request for TLS is one letter; without TLS the server sends a request to authenticate, an error, a notice, or
// the version of the protocol that it speaks.
func otherService(heard []byte, encrypted bool) string {
	expected := "REvN"
	if encrypted {
		expected = "SNE"
	}
	switch {
	case len(heard) == 0:
	case bytes.HasPrefix(heard, []byte("HTTP/")):
		return "a web server"
	case bytes.HasPrefix(heard, []byte("SSH-")):
		return "an SSH server"
	case len(heard) > 4 && heard[3] == 0 && heard[4] == 10: // the first packet, and version 10 of its protocol
		return "MySQL or MariaDB"
	case bytes.HasPrefix(heard, []byte{21, 3}): // an alert
		return "a server that expects TLS at once, such as a web server with HTTPS"
	case bytes.IndexByte([]byte(expected), heard[0]) < 0:
		return "another service"
	}
	return ""
}

// checkEncoding refuses a database that cannot hold each text, or that takes bytes which are no text: SQL_ASCII checks
// and converts nothing, and knows lower case and lengths of ASCII only.
func checkEncoding(encoding string) error {
	if encoding == "UTF8" {
		return nil
	}
	return &SetupError{
		"the database has the encoding " + encoding + ", which does not hold all names and texts: create one with " +
			"CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0 (with LOCALE 'C.UTF-8' if the server refuses its own locale), and name it in the database URL",
		errors.New("the server encoding is " + encoding),
	}
}

// keepPassing leaves only those errors of several hosts to be found that may pass, if there is one: the host
// will then be there again.
func keepPassing(errs []error) []error {
	passing := false
	for _, err := range errs {
		passing = passing || !isSetup(err)
	}
	for i, err := range errs {
		if passing && isSetup(err) {
			errs[i] = errors.New(err.Error())
		}
	}
	return errs
}

func isSetup(err error) bool {
	_, ok := errors.AsType[*SetupError](err)
	return ok
}
