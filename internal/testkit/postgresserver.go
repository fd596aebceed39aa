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

// PostgresServer is a PostgreSQL server in a temporary folder.
type PostgresServer struct {
	URL      string
	lifeline io.Closer     // its end is the server's end
	ended    chan struct{} // closed when the server has stopped and the folder is gone
}

// The keeper runs as a child and outlives its parent by a moment: it ends the
// server when its standard input ends, which happens at Stop and also when the
// parent is killed, and then removes the folder. Tests need no TestMain for it.
// Unless told otherwise, it flushes nothing to disk: a test's database does not
// outlive a crash. TLS is there for those that ask for it.
const keeper = `
exec 3<&0 </dev/null
bin=$1 dir=$2 port=$3
shift 3
"$bin/postgres" -D "$dir/data" -p "$port" -h 127.0.0.1 -k "" -c max_connections=200 \
	-c ssl=on -c ssl_cert_file="$dir/` + certFile + `" -c ssl_key_file="$dir/` + keyFile + `" \
	-c fsync=off -c full_page_writes=off -c synchronous_commit=off "$@" >"$dir/log" 2>&1 3<&- &
server=$!
( read -r _ <&3; kill -QUIT $server ) 2>/dev/null &
wait $server
rm -rf "$dir"
`

// StartPostgres starts a server on a free port of the loopback. It runs until
// Stop or the end of this process, however that comes. As root, which PostgreSQL
// refuses to run as, it becomes the user postgres or nobody.
func StartPostgres(ctx context.Context) (*PostgresServer, error) { return startPostgres(ctx) }

// StartDurablePostgres is [StartPostgres] for measurements: the server flushes to
// disk, as it does by default.
func StartDurablePostgres(ctx context.Context) (*PostgresServer, error) {
	return startPostgres(ctx, "-c", "fsync=on", "-c", "full_page_writes=on", "-c", "synchronous_commit=on")
}

// startPostgres adds arguments to the server's, the later of two equal settings
// counts.
func startPostgres(ctx context.Context, args ...string) (*PostgresServer, error) {
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
		if s, err = start(ctx, bin, owner, args); err == nil {
			return s, nil
		}
	}
	return nil, err
}

// Stop ends the server and waits until it has gone.
func (s *PostgresServer) Stop() error {
	err := s.lifeline.Close()
	<-s.ended
	return err
}

func start(ctx context.Context, bin string, owner *syscall.Credential, args []string) (*PostgresServer, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	folder, err := serverFolder(owner)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(initDatabase(ctx, bin, folder, owner), writeCertificate(folder, owner)); err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	s, err := keep(bin, folder, port, owner, args)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start PostgreSQL: %w", err), os.RemoveAll(folder))
	}
	if err := waitUntilUp(ctx, s.URL, s.ended); err != nil {
		return nil, errors.Join(fmt.Errorf("start PostgreSQL: %w", err), s.Stop())
	}
	return s, nil
}

// keep starts the keeper. Neither our signals nor our output are the server's:
// go test waits for whoever holds its standard output.
func keep(bin, folder string, port int, owner *syscall.Credential, args []string) (*PostgresServer, error) {
	cmd := exec.Command("/bin/sh", append([]string{"-c", keeper, "sh", bin, folder, strconv.Itoa(port)}, args...)...)
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
		_ = cmd.Wait() // a server that was told to quit says so
		close(s.ended)
	}()
	return s, nil
}

func initDatabase(ctx context.Context, bin, folder string, owner *syscall.Credential) error {
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", filepath.Join(folder, "data"),
		"-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: owner}
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}

// serverOwner is who the server runs as, nil for ourselves.
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

func serverFolder(owner *syscall.Credential) (string, error) {
	folder, err := os.MkdirTemp("/tmp", "personal-postgres-")
	if err != nil {
		return "", err
	}
	if owner != nil {
		if err := os.Chown(folder, int(owner.Uid), int(owner.Gid)); err != nil {
			return "", errors.Join(err, os.RemoveAll(folder))
		}
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
		// A new machine may have no lists of packages, or old ones.
		install := exec.CommandContext(ctx, "/bin/sh", "-c", `"$0" update && "$0" install -y --no-install-recommends postgresql`, apt)
		install.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		out, err := install.CombinedOutput()
		if bin := findPostgres(ctx); bin != "" {
			return bin, nil
		}
		return "", fmt.Errorf("apt-get install postgresql did not help (%v): %s", err, out)
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

// version reads the number in /usr/lib/postgresql/15/bin.
func version(bin string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(bin)))
	return n
}

func isProgram(folder, name string) bool {
	info, err := os.Stat(filepath.Join(folder, name))
	return err == nil && !info.IsDir() && info.Mode()&0o111 != 0
}
