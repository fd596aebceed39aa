package testkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// PostgresServer is a PostgreSQL server in its own folder.
type PostgresServer struct {
	URL      string
	lifeline io.Closer     // stops the server when it is closed
	ended    chan struct{} // closed when the server has stopped and its folder, unless kept, is removed
}

// keeper is the script of a child that runs the server. When its standard input ends,
// at Stop or because the parent was killed, it stops the server and removes the
// folder, unless that is kept. It repeats the signal: the shell starts the server with
// SIGINT and SIGQUIT ignored, so one that comes before the server handles them is lost.
// So tests need no TestMain. By default the server does
// not flush to disk: a test's database need not survive a crash. Nor does it vacuum or compile
// queries, which costs small databases more than it gains. The server accepts TLS.
const keeper = `
exec 3<&0 </dev/null
bin=$1 dir=$2 port=$3 kept=$4
shift 4
"$bin/postgres" -D "$dir/data" -p "$port" -h 127.0.0.1 -k "" -c max_connections=200 \
	-c ssl=on -c ssl_cert_file="$dir/` + certFile + `" -c ssl_key_file="$dir/` + keyFile + `" \
	-c fsync=off -c full_page_writes=off -c synchronous_commit=off -c autovacuum=off -c jit=off "$@" >"$dir/log" 2>&1 3<&- &
server=$!
signal=$(test "$kept" && echo INT || echo QUIT)
( read -r _ <&3; while kill -$signal $server; do sleep 0.2; done ) 2>/dev/null &
wait $server
test "$kept" || rm -rf "$dir"
`

// StartPostgres starts a server on a free port of 127.0.0.1. The server runs until Stop
// or until this process ends, even if that is killed. PostgreSQL refuses to run as
// root, so for root the server runs as the user postgres or nobody.
func StartPostgres(ctx context.Context) (*PostgresServer, error) { return startPostgres(ctx, "") }

// StartDurablePostgres is [StartPostgres] for measurements: the server flushes to disk, vacuums
// and compiles queries, which is PostgreSQL's default.
func StartDurablePostgres(ctx context.Context) (*PostgresServer, error) {
	return startPostgres(ctx, "", durable...)
}

// StartPostgresIn is [StartDurablePostgres] on a folder that is kept, with its
// databases. The folder is created if it is missing. The user that the server runs as
// must be able to enter its parent folders.
func StartPostgresIn(ctx context.Context, folder string) (*PostgresServer, error) {
	return startPostgres(ctx, folder, durable...)
}

// durable overrides settings of keeper: of two equal ones the later counts.
var durable = []string{"-c", "fsync=on", "-c", "full_page_writes=on", "-c", "synchronous_commit=on", "-c", "autovacuum=on", "-c", "jit=on"}

// startPostgres starts a server with further arguments. Without a folder that is kept
// it uses a temporary one.
func startPostgres(ctx context.Context, kept string, args ...string) (*PostgresServer, error) {
	bin, err := postgresBinaries(ctx)
	if err != nil {
		return nil, err
	}
	owner, err := serverOwner()
	if err != nil {
		return nil, err
	}
	var s *PostgresServer
	for range 3 { // another process may take the free port first
		if s, err = start(ctx, bin, kept, owner, args); err == nil {
			return s, nil
		}
	}
	return nil, err
}

// Stop stops the server, waits for its end and removes its folder, unless the folder is
// kept.
func (s *PostgresServer) Stop() error {
	err := s.lifeline.Close()
	<-s.ended
	return err
}

func start(ctx context.Context, bin, kept string, owner *syscall.Credential, args []string) (*PostgresServer, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	folder, err := serverFolder(kept, owner)
	if err != nil {
		return nil, err
	}
	remove := func() error {
		if kept != "" {
			return nil
		}
		return os.RemoveAll(folder)
	}
	if err := errors.Join(initDatabase(ctx, bin, folder, owner), writeCertificate(folder, owner)); err != nil {
		return nil, errors.Join(err, remove())
	}
	s, err := startKeeper(bin, folder, port, kept, owner, args)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start PostgreSQL: %w", err), remove())
	}
	if err := waitUntilUp(ctx, s.URL, s.ended); err != nil {
		err = errors.Join(err, s.Stop())
		if kept != "" {
			return nil, fmt.Errorf("start PostgreSQL, see %s: %w", filepath.Join(kept, "log"), err)
		}
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	return s, nil
}

// startKeeper starts the keeper. The server gets neither this process's signals nor its
// standard output, for whose end go test would wait.
func startKeeper(bin, folder string, port int, kept string, owner *syscall.Credential, args []string) (*PostgresServer, error) {
	cmd := exec.Command("/bin/sh", append([]string{"-c", keeper, "sh", bin, folder, strconv.Itoa(port), kept}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: owner}
	cmd.Dir = "/"
	lifeline, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &PostgresServer{
		URL:      fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port),
		lifeline: lifeline,
		ended:    make(chan struct{}),
	}
	go func() {
		_ = cmd.Wait() // returns an error because the server was told to quit
		close(s.ended)
	}()
	return s, nil
}

// initDatabase creates the server's files, unless a kept folder has them. Until they are
// complete they have another name, so if initdb is killed, the next call starts afresh.
func initDatabase(ctx context.Context, bin, folder string, owner *syscall.Credential) error {
	data, unfinished := filepath.Join(folder, "data"), filepath.Join(folder, "data.unfinished")
	if _, err := os.Stat(filepath.Join(data, "PG_VERSION")); err == nil {
		return nil
	}
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", unfinished,
		"-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: owner}
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return os.Rename(unfinished, data)
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}

// serverOwner returns the user that the server runs as; nil for the current user.
func serverOwner() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if uidErr == nil && gidErr == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is no user postgres or nobody to run it as")
}

// serverFolder creates the folder, unless a kept one exists.
func serverFolder(kept string, owner *syscall.Credential) (folder string, err error) {
	if kept == "" {
		folder, err = os.MkdirTemp("/tmp", "personal-postgres-")
	} else if folder, err = filepath.Abs(kept); err == nil {
		err = os.MkdirAll(folder, 0o700)
	}
	if err != nil || owner == nil {
		return folder, err
	}
	if err := os.Chown(folder, int(owner.Uid), int(owner.Gid)); err != nil {
		return "", errors.Join(err, os.Remove(folder))
	}
	return folder, nil
}

// postgresBinaries finds the folder with initdb and postgres, or, as root on a
// system with apt-get, installs them.
func postgresBinaries(ctx context.Context) (string, error) {
	if bin := findPostgres(ctx); bin != "" {
		return bin, nil
	}
	if apt, err := exec.LookPath("apt-get"); err == nil && os.Geteuid() == 0 {
		// The lists of packages may be missing or old.
		install := exec.CommandContext(ctx, "/bin/sh", "-c", `"$0" update && "$0" install -y --no-install-recommends postgresql`, apt)
		install.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		out, err := install.CombinedOutput()
		if bin := findPostgres(ctx); bin != "" {
			return bin, nil
		}
		return "", fmt.Errorf("apt-get install postgresql failed (%v): %s", err, out)
	}
	return "", errors.New("initdb and postgres are not installed: install the package postgresql (Debian, Ubuntu), " +
		"postgresql-server (Fedora) or postgresql (Homebrew), or set " + PostgresVariable + " to the URL of a server")
}

func findPostgres(ctx context.Context) string {
	var candidates []string
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		candidates = append(candidates, strings.TrimSpace(string(out)))
	}
	installed, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // the pattern is well formed
	slices.SortFunc(installed, func(a, b string) int { return version(b) - version(a) })
	candidates = append(candidates, installed...)
	if initdb, err := exec.LookPath("initdb"); err == nil {
		candidates = append(candidates, filepath.Dir(initdb))
	}
	for _, bin := range candidates {
		if isProgram(bin, "initdb") && isProgram(bin, "postgres") {
			return bin
		}
	}
	return ""
}

// version returns the number in a path like /usr/lib/postgresql/15/bin.
func version(bin string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(bin)))
	return n
}

func isProgram(folder, name string) bool {
	info, err := os.Stat(filepath.Join(folder, name))
	return err == nil && !info.IsDir() && info.Mode()&0o111 != 0
}
