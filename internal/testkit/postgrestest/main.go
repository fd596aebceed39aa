// Command postgrestest runs a command with a PostgreSQL server for tests:
//
//	go run ./internal/testkit/postgrestest -- go test ./...
//
// It starts a temporary server, unless PERSONAL_TEST_POSTGRES names one, sets that
// variable for the command, and stops the server afterwards. Its exit code is that of
// the command. With -durable before the -- the server flushes to disk.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/cms-personal/personal/internal/testkit"
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "postgrestest:", err)
	}
	os.Exit(code)
}

func run(args []string) (int, error) {
	start := testkit.StartPostgres
	if len(args) > 0 && args[0] == "-durable" {
		start, args = testkit.StartDurablePostgres, args[1:]
	}
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		return 2, errors.New("usage: postgrestest [-durable] -- COMMAND [ARGUMENT …]")
	}
	environ := append(os.Environ(), testkit.RunVariable+"="+rand.Text())
	if os.Getenv(testkit.PostgresVariable) != "" {
		return command(args, environ)
	}
	server, err := start(context.Background())
	if err != nil {
		return 1, err
	}
	code, err := command(args, append(environ, testkit.PostgresVariable+"="+server.URL))
	return code, errors.Join(err, server.Stop())
}

// command runs the command to its end. It passes a SIGTERM on; the terminal itself
// sends a SIGINT to the command. The server outlives the command in both cases.
func command(args, environ []string) (int, error) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)

	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = environ, os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			if s == syscall.SIGTERM {
				_ = cmd.Process.Signal(s) // it may have ended just now
			}
		case err := <-ended:
			if cmd.ProcessState.Exited() { // its own output says why
				return cmd.ProcessState.ExitCode(), nil
			}
			return 1, err
		}
	}
}
