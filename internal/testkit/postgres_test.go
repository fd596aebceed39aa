package testkit

import (
	"bufio"
	"database/sql"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// killedVariable makes the test binary a process that starts a server and then
// waits to be killed.
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

func TestAServerEndsWithAProcessThatIsKilled(t *testing.T) {
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
	if !answers(t, url) {
		t.Error("the server does not answer")
	}
	if err := process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = process.Wait() // it was killed
	for range 500 {
		if !answers(t, url) {
			return
		}
		time.Sleep(20 * time.Millisecond) // nobody is left to tell us
	}
	t.Error("the server outlives the process")
}

func TestEveryDatabaseIsNew(t *testing.T) {
	if a, b := Postgres(t), Postgres(t); a == b || !answers(t, a) || !answers(t, b) {
		t.Errorf("%s and %s", a, b)
	}
}

func answers(t *testing.T, url string) bool {
	t.Helper()
	return onServer(url, func(db *sql.DB) error { return db.PingContext(t.Context()) }) == nil
}
