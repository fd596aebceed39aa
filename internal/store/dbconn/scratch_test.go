package dbconn_test

import (
	"os"
	"testing"

	"github.com/cms-personal/personal/internal/store/dbconn"
)

func TestOpenScratch_LeavesNoFile(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	db, err := dbconn.OpenScratch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v, want no file with a name", left, err)
	}
	for range 2 {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.ExecContext(t.Context(), "CREATE TABLE IF NOT EXISTS t (x); INSERT INTO t VALUES (hex(zeroblob(2000000)))"); err != nil { // more than the cache
			t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	var n, length int
	if err := db.QueryRowContext(t.Context(), "SELECT count(*), sum(length(x)) FROM t").Scan(&n, &length); err != nil || n != 2 ||
		length != 8_000_000 {
		t.Errorf("got %d rows of %d bytes, %v", n, length, err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v, want no file with a name", left, err)
	}
}
