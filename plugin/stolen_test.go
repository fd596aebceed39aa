package main

import (
	"bytes"
	"crypto/sha256"
	"database/sql"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// stolen returns what a thief of the database reads: the files of SQLite with the
// write-ahead log, or all tables of PostgreSQL.
func stolen(t *testing.T, database string) []byte {
	t.Helper()
	var all []byte
	if path, ok := strings.CutPrefix(database, "sqlite://"); ok {
		files, err := filepath.Glob(path + "*")
		if err != nil || !slices.Contains(files, path+"-wal") {
			t.Fatalf("got files %q (error %v), want a write-ahead log among them", files, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, data...)
		}
		return all
	}
	pools, err := dbconn.Open(database, dbconn.MigrationLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer pools.Close()
	// Binary columns follow in binary form, too.
	rows, err := pools.Read.QueryContext(t.Context(), `SELECT table_name, column_name, data_type = 'bytea' FROM information_schema.columns
		WHERE table_schema NOT IN ('pg_catalog', 'information_schema')`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var table, column string
		var binary bool
		if err := rows.Scan(&table, &column, &binary); err != nil {
			t.Fatal(err)
		}
		values := func(query string) {
			found, err := pools.Read.QueryContext(t.Context(), query)
			if err != nil {
				t.Fatal(err)
			}
			defer found.Close()
			for found.Next() {
				var value sql.RawBytes
				if err := found.Scan(&value); err != nil {
					t.Fatal(err)
				}
				all = append(append(all, value...), '\n')
			}
			if err := found.Err(); err != nil {
				t.Fatal(err)
			}
		}
		values("SELECT " + column + "::text FROM " + table)
		if binary {
			values("SELECT " + column + " FROM " + table)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// forms returns the ways in which a text or its bytes may be written.
func forms(text string, raw []byte) (all [][]byte) {
	for _, form := range []string{
		text, strings.ToLower(text), strings.ReplaceAll(text, "-", ""), strings.ToLower(strings.ReplaceAll(text, "-", "")), string(raw),
		base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(raw),
		base64.RawStdEncoding.EncodeToString(raw), base64.RawURLEncoding.EncodeToString(raw), hex.EncodeToString(raw),
	} {
		all = append(all, []byte(form), []byte(strings.ToUpper(form)), []byte(hex.EncodeToString([]byte(form))),
			[]byte(base64.RawStdEncoding.EncodeToString([]byte(form))))
	}
	return all
}

// unpack returns the bytes of a base32 text, which may have hyphens.
func unpack(t *testing.T, text string) []byte {
	t.Helper()
	raw, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil || len(raw) < 15 {
		t.Fatalf("decoding %q: %v", text, err)
	}
	return raw
}

// A thief who has the database, and not the key, learns neither a secret nor a recovery
// code; nor does a reader of the log.
func TestSecrets_StolenDatabaseWithoutTheKeyRevealsNone(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
		const password = personaltest.Password
		m := newNode(t, rpc.Configuration{
			DatabaseURL: url, SecretKeys: [][]byte{secretKey("a")},
			Settings: []byte("[registration]\nemail_verification = \"off\"\n[two_factor]\nenabled = true\n[password]\nmemory_kib = 7168\n"),
		})
		m.begin(t)
		secretOf := func(login string) (personal.Credentials, string) {
			in, err := m.service.Register(t.Context(), personal.RegisterRequest{
				Login: login, Email: login + "@example.org", Password: password, ConfirmPassword: password,
			})
			if err != nil {
				t.Fatal(err)
			}
			secret, err := m.service.BeginTwoFactor(t.Context(), personal.BeginTwoFactorRequest{Credentials: in.Credentials, Password: password})
			if err != nil {
				t.Fatal(err)
			}
			return in.Credentials, secret.Secret
		}
		ada, secret := secretOf("ada_marker")
		confirmed, err := m.service.ConfirmTwoFactor(t.Context(), personal.ConfirmTwoFactorRequest{Credentials: ada,
			Code: personaltest.Code(secret, time.Now())})
		if err != nil {
			t.Fatal(err)
		}
		_, pending := secretOf("bob")
		_, err = m.service.Authorize(t.Context(), personal.AuthorizeRequest{Login: "ada_marker", Password: password,
			Code: confirmed.RecoveryCodes[0]})
		if err != nil {
			t.Fatal(err)
		}

		proof, err := m.service.Prove(t.Context(), personal.ProveRequest{
			Credentials: confirmed.Credentials, Password: password, Code: confirmed.RecoveryCodes[1],
		})
		if err != nil {
			t.Fatal(err)
		}
		rawProof, err := base64.RawURLEncoding.DecodeString(proof.Proof)
		if err != nil {
			t.Fatal(err)
		}
		digest := sha256.Sum256(rawProof)

		sealed, err := m.store.SecretsOfKey(t.Context(), m.keys.Primary(), 0, 9)
		if err != nil || len(sealed) != 1 {
			t.Fatalf("got secrets %v (error %v), want one", sealed, err)
		}
		database := stolen(t, url)
		for _, there := range [][]byte{[]byte("ada_marker"), sealed[0].Secret.Data, digest[:]} {
			if !bytes.Contains(database, there) {
				t.Errorf("got no %q in the database: it was not searched", there)
			}
		}
		hidden := map[string]string{secret: "the secret", pending: "a pending secret"}
		for _, code := range confirmed.RecoveryCodes {
			hidden[code] = "a recovery code"
		}
		for text, what := range hidden {
			for _, form := range forms(text, unpack(t, text)) {
				if bytes.Contains(database, form) {
					t.Errorf("the database has %s as %q", what, form)
				}
				if bytes.Contains(m.log.Bytes(), form) {
					t.Errorf("the log has %s as %q", what, form)
				}
			}
		}
		for _, form := range forms(proof.Proof, rawProof) {
			if bytes.Contains(database, form) || bytes.Contains(m.log.Bytes(), form) {
				t.Errorf("the database or the log has a proof as %q", form)
			}
		}
		opened, err := m.keys.Open(sealed[0].AccountID, sealed[0].Secret.Key, sealed[0].Secret.Data)
		if err != nil || !bytes.Equal(opened, unpack(t, secret)) {
			t.Errorf("with the key: got %q, error %v, want the secret", opened, err)
		}
	})
}
