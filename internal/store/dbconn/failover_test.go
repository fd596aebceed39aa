package dbconn_test

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/uptrace/bun/driver/pgdriver"

	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit"
)

// connections opens so many connections of a pool, which are then idle.
func connections(t *testing.T, db *sql.DB, n int) {
	t.Helper()
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	for range n {
		c, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
}

// write makes one write in a transaction.
func write(t *testing.T, db *sql.DB) error {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "INSERT INTO t VALUES (1)"); err != nil {
		return err
	}
	return tx.Commit()
}

func TestPostgres_SilentFailoverCostsOneCall(t *testing.T) {
	for name, idle := range map[string]bool{"connections just used": false, "idle connections": true} {
		t.Run(name, func(t *testing.T) {
			proxy, through := testkit.NewFaultProxy(t, testkit.Postgres(t))
			db := open(t, through, endless).Write
			mustExec(t, db, "CREATE TABLE t (id int)")
			connections(t, db, 6)
			proxy.Freeze()
			if idle {
				time.Sleep(300 * time.Millisecond) // longer than connections are used without a check
			}
			failed, began := 0, time.Now()
			for write(t, db) != nil {
				failed++
			}
			took := time.Since(began)
			for range 6 { // each connection of the pool, if there were old ones
				if err := write(t, db); err != nil {
					t.Errorf("after the first success: %v", err)
				}
			}
			if want := 1; failed > want || idle && failed > 0 || took > time.Minute {
				t.Errorf("got %d failed calls in %v, want at most %d, none on idle connections", failed, took, want)
			}
		})
	}
}

// A caller with little time must not make the pool believe that the server is gone.
func TestPostgres_ShortDeadlineKeepsConnections(t *testing.T) {
	proxy, through := testkit.NewFaultProxy(t, testkit.Postgres(t))
	proxy.Delay = 200 * time.Millisecond
	db := open(t, through, dbconn.RequestLimits).Write
	connections(t, db, 3)
	pids := func() (pids string) {
		t.Helper()
		const query = "SELECT string_agg(pid::text, ' ' ORDER BY pid) FROM pg_stat_activity WHERE datname = current_database()"
		if err := db.QueryRowContext(t.Context(), query).Scan(&pids); err != nil {
			t.Fatal(err)
		}
		return pids
	}
	before := pids()
	ctx, cancel := context.WithTimeout(t.Context(), proxy.Delay/2)
	defer cancel()
	proxy.Next(testkit.DelayRequest)
	if _, err := db.ExecContext(ctx, "SELECT 1"); err != nil {
		t.Errorf("got %v, want the response after the deadline", err)
	}
	if after := pids(); after != before {
		t.Errorf("got the connections %s, want those from before, %s", after, before)
	}
}

// A former primary that became a standby keeps its connections and refuses writes.
func TestPostgres_ReadOnlyServerCostsOneCall(t *testing.T) {
	url := testkit.Postgres(t)
	admin := open(t, url, dbconn.MigrationLimits).Write
	mustExec(t, admin, "CREATE TABLE t (id int)")
	name := strings.TrimPrefix(parse(t, url).Path, "/")
	mustExec(t, admin, "ALTER DATABASE "+name+" SET default_transaction_read_only = on")
	db := open(t, url, dbconn.RequestLimits).Write
	connections(t, db, 6)
	mustExec(t, admin, "SET default_transaction_read_only = off; ALTER DATABASE "+name+" RESET default_transaction_read_only")
	var reported pgdriver.Error
	if err := write(t, db); !errors.As(err, &reported) || reported.Field('C') != "25006" {
		t.Fatalf("got error %v, want that of a read-only transaction", err)
	}
	for range 6 {
		if err := write(t, db); err != nil {
			t.Errorf("after the first failure: %v", err)
		}
	}
}

func TestPostgres_TriesSeveralHosts(t *testing.T) {
	primary := parse(t, testkit.Postgres(t))
	standby, err := testkit.StartPostgres(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer standby.Stop()
	admin := open(t, standby.URL, dbconn.MigrationLimits).Write
	mustExec(t, admin, "CREATE DATABASE "+strings.TrimPrefix(primary.Path, "/"))
	mustExec(t, admin, "ALTER SYSTEM SET default_transaction_read_only = on")
	mustExec(t, admin, "SELECT pg_reload_conf()")
	readOnly := parse(t, standby.URL).Host
	dead, _ := testkit.NewFaultProxy(t, standby.URL)
	dead.Switch("")
	refusing := dead.Addr()
	for _, c := range []struct {
		hosts []string
		any   bool
		want  string // "": ErrNoPrimary
	}{
		{[]string{refusing, readOnly, primary.Host}, false, primary.Host},
		{[]string{refusing, readOnly, primary.Host}, true, readOnly},
		{[]string{primary.Host, readOnly}, false, primary.Host},
		{[]string{refusing, readOnly}, false, ""},
	} {
		u := *primary
		u.Host = strings.Join(c.hosts, ",")
		if !c.any {
			u.RawQuery += "&target_session_attrs=read-write"
		}
		db := open(t, u.String(), dbconn.RequestLimits).Write
		db.SetMaxIdleConns(0)
		before := dead.Refused()
		for range 3 {
			var port string
			err := db.QueryRowContext(t.Context(), "SELECT current_setting('port')").Scan(&port)
			_, want, _ := net.SplitHostPort(c.want)
			if port != want || errors.Is(err, dbconn.ErrNoPrimary) != (c.want == "") || err != nil && c.want != "" {
				t.Errorf("%v, any %t: got port %s, %v, want that of %q", c.hosts, c.any, port, err, c.want)
			}
		}
		if got := dead.Refused() - before; c.want == primary.Host && got > 1 {
			t.Errorf("%v: got %d attempts at the dead host, want one at most", c.hosts, got)
		}
	}
}

func parse(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
