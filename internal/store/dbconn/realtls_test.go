package dbconn_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit"
)

// The other tests of TLS use a listener that implements a part of the protocol.
func TestTLS_ConnectsToRealServer(t *testing.T) {
	url := testkit.Postgres(t)
	root, ok := certificateOf(t, url)
	if !ok { // the server of the tests may have no TLS, or run on another machine
		server, err := testkit.StartPostgres(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer server.Stop()
		url = server.URL
		root, _ = certificateOf(t, url)
	}
	other := filepath.Join(t.TempDir(), "none.pem")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		mode string
		want string // "": refused
	}{
		{"disable", "false"},
		{"require", "true"},
		{"verify-ca&sslrootcert=" + root, "true"},
		{"verify-full&sslrootcert=" + root, "true"},
		{"verify-full", ""}, // the system trusts no issuer of it
		{"verify-full&sslrootcert=" + other, ""},
	} {
		t.Run(strings.ReplaceAll(test.mode, root, "ROOT"), func(t *testing.T) {
			got := ""
			pools, err := dbconn.Open(strings.Replace(url, "sslmode=disable", "sslmode="+test.mode, 1), dbconn.RequestLimits)
			if err == nil {
				defer pools.Close()
				err = pools.Read.QueryRowContext(t.Context(), "SELECT ssl::text FROM pg_stat_ssl WHERE pid = pg_backend_pid()").Scan(&got)
			}
			if got != test.want || (err == nil) != (test.want != "") {
				t.Errorf("got encrypted %q, %v, want %q", got, err, test.want)
			}
		})
	}
}

// certificateOf returns the path of a server's self-signed certificate, or false if
// there is none on this machine.
func certificateOf(t *testing.T, url string) (path string, ok bool) {
	t.Helper()
	var on string
	db := open(t, url, dbconn.RequestLimits).Read
	if err := db.QueryRowContext(t.Context(), "SELECT current_setting('ssl'), current_setting('ssl_cert_file')").Scan(&on, &path); err != nil {
		t.Fatal(err)
	}
	_, err := os.Stat(path)
	return path, on == "on" && err == nil
}
