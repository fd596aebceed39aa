package dbconn_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit"
)

func TestOpenRehearsal_SQLiteCommitsNothing(t *testing.T) {
	url := testkit.SQLite(t)
	live, err := dbconn.Open(url, dbconn.RequestLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	exec := func(p dbconn.Pools, statement string) error {
		_, err := p.Write.ExecContext(t.Context(), statement)
		return err
	}
	if err := exec(live, "CREATE TABLE example (id INTEGER)"); err != nil {
		t.Fatal(err)
	}
	pools, err := dbconn.OpenRehearsal(t.Context(), url, dbconn.RehearsalOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer pools.Close()
	if err := exec(pools, "INSERT INTO example VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	// As if SQLite itself had ended the transaction.
	if err := exec(pools, "COMMIT"); err == nil {
		t.Error("COMMIT succeeded, want an error")
	}
	_ = exec(pools, "INSERT INTO example VALUES (2)")
	if err := pools.Close(); err != nil {
		t.Fatal(err)
	}
	var rows int
	if err := live.Read.QueryRowContext(t.Context(), "SELECT count(*) FROM example").Scan(&rows); err != nil || rows != 0 {
		t.Errorf("got %d rows, %v, want none", rows, err)
	}
}

func TestOpenRehearsal_SQLiteGivesTheWriterUp(t *testing.T) {
	url := testkit.SQLite(t)
	live, err := dbconn.Open(url, dbconn.RequestLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	pools, err := dbconn.OpenRehearsal(t.Context(), url, dbconn.RehearsalOptions{Hold: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer pools.Close()
	if _, err := live.Write.ExecContext(t.Context(), "CREATE TABLE example (id INTEGER)"); err != nil {
		t.Fatalf("a writer that waits for the rehearsal: %v", err)
	}
	if err := pools.Rehearsal.Over(); !errors.Is(err, dbconn.ErrWriterNeeded) || !errors.Is(err, dbconn.ErrRehearsalOver) {
		t.Errorf("got %v, want ErrWriterNeeded", err)
	}

	tx, err := live.Write.BeginTx(t.Context(), nil) // the writer is taken
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := dbconn.OpenRehearsal(t.Context(), url, dbconn.RehearsalOptions{}); !errors.Is(err, dbconn.ErrWriterNeeded) {
		t.Errorf("while another connection writes: got %v, want ErrWriterNeeded", err)
	}
}

func TestOpenRehearsal_EndsAtTheDeadline(t *testing.T) {
	for _, url := range []string{testkit.SQLite(t), testkit.Postgres(t)} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		pools, err := dbconn.OpenRehearsal(ctx, url, dbconn.RehearsalOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer pools.Close()
		<-ctx.Done()
		for pools.Rehearsal.Over() == nil { // the timer of the transaction may be a little later
			time.Sleep(time.Millisecond)
		}
		if err := pools.Rehearsal.Over(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the end of the time", err)
		}
	}
}
