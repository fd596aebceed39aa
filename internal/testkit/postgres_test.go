package testkit

import (
	"bufio"
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// killedVariable makes the test binary start a server and wait until it is killed.
const killedVariable = "PERSONAL_TEST_KILLED"

func TestMain(m *testing.M) {
	if os.Getenv(killedVariable) == "" {
		os.Exit(m.Run())
	}
	url, err := testServer()
	if err != nil {
		os.Stderr.WriteString(err.Error())
		os.Exit(1)
	}
	os.Stdout.WriteString(url + "\n")
	select {}
}

func TestStartPostgres_ServerStopsWithKilledProcess(t *testing.T) {
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), killedVariable+"=1", PostgresVariable+"=")
	process.Stderr = os.Stderr
	out, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url = strings.TrimSpace(url)
	if !responds(t, url) {
		t.Error("got no response of the server")
	}
	if err := process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = process.Wait() // returns an error because it was killed
	for range 500 {
		if !responds(t, url) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Error("got a running server after the process was killed")
}

func TestPostgres_EveryDatabaseIsNew(t *testing.T) {
	if a, b := Postgres(t), Postgres(t); a == b || !responds(t, a) || !responds(t, b) {
		t.Errorf("got %s and %s, want two databases that respond", a, b)
	}
}

func TestPostgresServer_StopsWhileItStarts(t *testing.T) {
	bin, err := postgresBinaries(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	owner, err := serverOwner()
	if err != nil {
		t.Fatal(err)
	}
	folder, err := serverFolder("", owner)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	if err := errors.Join(initDatabase(t.Context(), bin, folder, owner), writeCertificate(folder, owner)); err != nil {
		t.Fatal(err)
	}
	for _, kept := range []string{folder, ""} {
		port, err := freePort()
		if err != nil {
			t.Fatal(err)
		}
		server, err := keep(bin, folder, port, kept, owner, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := server.lifeline.Close(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-server.ended:
		case <-time.After(time.Minute):
			t.Fatalf("kept folder %q: got a running server, want none", kept)
		}
	}
}

func TestInitDatabase_StartsAfreshAfterAKill(t *testing.T) {
	bin, folder := t.TempDir(), t.TempDir()
	for _, last := range []string{"kill -KILL $$", `echo complete >"$2/complete"`} {
		script := "#!/bin/sh\nmkdir \"$2\" && echo 15 >\"$2/PG_VERSION\"\n" + last + "\n"
		if err := os.WriteFile(filepath.Join(bin, "initdb"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		err := initDatabase(t.Context(), bin, folder, nil)
		if killed := strings.HasPrefix(last, "kill"); (err != nil) != killed {
			t.Fatalf("initdb that ends with %s: got error %v, want one: %t", last, err, killed)
		}
	}
	if _, err := os.Stat(filepath.Join(folder, "data", "complete")); err != nil {
		t.Errorf("got error %v, want the files of the second initdb", err)
	}
}

func responds(t *testing.T, url string) bool {
	t.Helper()
	return onServer(url, func(db *sql.DB) error { return db.PingContext(t.Context()) }) == nil
}

func TestStartKeptPostgres_KeepsDatabases(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "server")
	if err := os.Chmod(filepath.Dir(filepath.Dir(folder)), 0o755); err != nil { // the server may run as another user
		t.Fatal(err)
	}
	for _, statement := range []string{"CREATE DATABASE kept", "ALTER DATABASE kept RENAME TO found"} {
		server, err := StartKeptPostgres(t.Context(), folder)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(administer(server.URL, statement), server.Stop()); err != nil {
			t.Errorf("%s: got error %v, want none", statement, err)
		}
	}
}
