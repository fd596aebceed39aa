package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// The test binary is also the plugin. That reports what it does through a pipe, which closes
// with the process.
const (
	behaviorEnv = "PERSONAL_TEST_BEHAVIOR"
	recordFD    = 4 // the lifeline is 3
	secret      = "sqlite://hunter2"
)

func TestMain(m *testing.M) {
	if rpc.UnderHandshake() {
		runPlugin(os.Getenv(behaviorEnv))
		return
	}
	os.Exit(m.Run())
}

func runPlugin(behavior string) {
	record := os.NewFile(recordFD, "record")
	log := rpc.NewLogger(os.Stderr, slog.LevelInfo)
	report := func(what string) {
		_, _ = fmt.Fprintln(record, what)
		log.Warn("reported", "what", what)
	}
	build := func(_ context.Context, _ rpc.Configuration, h personal.Host) (rpc.Module, error) {
		return &module{
			service: personaltest.HandledBy(func(ctx context.Context, operation personal.OperationName, _ any) (any, error) {
				if operation == "Logout" { // a call that runs until it is cancelled
					report("called")
					<-ctx.Done()
					_, _ = h.UserFields(context.Background()) // takes time and may fail
					report("cancelled")
					return nil, ctx.Err()
				}
				_, err := h.UserFields(ctx)
				return results[operation], err
			}),
			preflight: func(context.Context) (rpc.PreflightResult, error) { return selfReport(), nil },
			step: func(_ context.Context, name string) error {
				report(name)
				if name == behavior { // hangs and ignores its context
					select {}
				}
				return nil
			},
		}, nil
	}
	rpc.Serve(build, rpc.ServeOptions{Logger: log})
	report("served")
}

// selfReport returns what a plugin process sees of itself.
func selfReport() rpc.PreflightResult {
	var limit syscall.Rlimit
	_ = syscall.Getrlimit(syscall.RLIMIT_CORE, &limit)
	mask := syscall.Umask(0o077)
	checks := []rpc.Check{
		{Name: "core", Reason: fmt.Sprint(limit.Cur, limit.Max)},
		{Name: "umask", Reason: fmt.Sprintf("%#o", mask)},
	}
	for _, visible := range append(os.Environ(), os.Args...) {
		checks = append(checks, rpc.Check{Name: "visible", Reason: visible})
	}
	return rpc.PreflightResult{Checks: checks}
}

// child is a plugin process.
type child struct {
	client   *plugin.Client
	lifeline *os.File // the host's end
	record   *os.File // what the plugin reported; closes with the process
	log      *logBuffer
	service  personal.Service
	*rpc.Connection
}

func (c *child) stop() { c.client.Kill() }

// reported returns what the plugin reported until it stopped.
func (c *child) reported(t *testing.T) []string {
	t.Helper()
	text, err := io.ReadAll(c.record)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(text))
}

// startProcess starts a plugin like a host.
func startProcess(t *testing.T, behavior string, multiplex bool) *child {
	t.Helper()
	reader, writer := pipe(t)
	c := &child{record: reader, log: new(logBuffer)}
	host := newFakeHost("1")
	var err error
	if c.client, c.lifeline, c.Connection, err = launch(host, c.log, writer, socketDir(t), behavior, multiplex); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.stop)
	_ = writer.Close()
	c.service = rpc.NewClient(c.Conn(), host)
	return c
}

func configured(t *testing.T, behavior string) *child {
	t.Helper()
	c := startProcess(t, behavior, false)
	if err := c.Configure(t.Context(), rpc.Configuration{DatabaseURL: secret}); err != nil {
		t.Fatal(err)
	}
	return c
}

// socketDir returns a folder whose path is short enough for sockets.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "personal")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func launch(host personal.Host, log *logBuffer, record *os.File, sockets, behavior string, multiplex bool) (*plugin.Client, *os.File,
	*rpc.Connection, error) {
	inherited, lifeline, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, err
	}
	defer func() { _ = inherited.Close() }()
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{
		behaviorEnv + "=" + behavior,
		rpc.LifelineEnv + "=3",
		plugin.EnvUnixSocketDir + "=" + sockets,
	}
	cmd.ExtraFiles = []*os.File{inherited, record}
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:     rpc.Handshake(),
		VersionedPlugins:    rpc.VersionedPlugins(host, log.logger(), nil),
		AllowedProtocols:    []plugin.Protocol{plugin.ProtocolGRPC},
		GRPCDialOptions:     rpc.DialOptions(),
		GRPCBrokerMultiplex: multiplex,
		AutoMTLS:            true,
		SkipHostEnv:         true,
		Cmd:                 cmd,
		Logger:              hclog.New(&hclog.LoggerOptions{Output: log, Level: hclog.Trace}),
	})
	connection, err := dispense(client)
	return client, lifeline, connection, err
}

func dispense(client *plugin.Client) (*rpc.Connection, error) {
	protocol, err := client.Client()
	if err != nil {
		return nil, err
	}
	dispensed, err := protocol.Dispense(rpc.PluginName)
	if err != nil {
		return nil, err
	}
	connection, ok := dispensed.(*rpc.Connection)
	if !ok {
		return nil, errors.New("dispensed something else than a connection")
	}
	return connection, nil
}

func pipe(t *testing.T) (reader, writer *os.File) {
	t.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = reader.Close() })
	return reader, writer
}

func TestProcess_ServesOverBothBrokers(t *testing.T) {
	for name, multiplex := range map[string]bool{"a socket per direction": false, "one socket": true} {
		t.Run(name, func(t *testing.T) {
			c := startProcess(t, "", multiplex)
			if err := c.Configure(t.Context(), rpc.Configuration{DatabaseURL: secret}); err != nil {
				t.Fatal(err)
			}
			if got, err := c.service.Refresh(t.Context(), pair); err != nil || got != pair {
				t.Errorf("got %v, %v; want %v", got, err, pair)
			}
		})
	}
}

func TestProcess_ExposesNoSecrets(t *testing.T) {
	c := configured(t, "")
	report, err := c.Preflight(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"core": "0 0", "umask": "077"}
	for _, check := range report.Checks {
		if expected, ok := want[check.Name]; ok && check.Reason != expected {
			t.Errorf("%s: got %s, want %s", check.Name, check.Reason, expected)
		}
		if strings.Contains(check.Reason, secret) {
			t.Errorf("got the configuration in %q", check.Reason)
		}
		if strings.HasPrefix(check.Reason, rpc.LifelineEnv) {
			t.Errorf("got %q in the environment, want it removed", check.Reason)
		}
	}
	c.stop()
	if strings.Contains(c.log.String(), secret) {
		t.Errorf("got the configuration in the log: %s", c.log)
	}
}

// wantReport reads one report, which must be this one.
func wantReport(t *testing.T, record io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want)+1)
	if _, err := io.ReadFull(record, got); err != nil || string(got) != want+"\n" {
		t.Fatalf("got report %q, %v; want %q", got, err, want)
	}
}

func TestProcess_StopCancelsCallsAndClosesModule(t *testing.T) {
	c := configured(t, "")
	failed := make(chan error, 1)
	go func() { failed <- c.service.Logout(context.Background(), personal.LogoutRequest{}) }()
	wantReport(t, c.record, "called")
	c.stop()
	if err := <-failed; personal.CodeOf(err) != personal.CodeUnavailable {
		t.Errorf("got %v, want unavailable", err)
	}
	if got, want := c.reported(t), []string{"cancelled", "Close", "served"}; !slices.Equal(got, want) {
		t.Errorf("got reports %q, want %q", got, want)
	}
}

func TestLifeline_ClosingStopsProcess(t *testing.T) {
	tests := map[string]struct {
		behavior  string
		configure bool
		want      []string
	}{
		"not configured":           {"", false, []string{"served"}},
		"configured":               {"", true, []string{"Quiesce", "Close", "served"}},
		"quiescing takes too long": {"Quiesce", true, []string{"Quiesce"}},
		"closing takes too long":   {"Close", true, []string{"Quiesce", "Close", "served"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startProcess(t, tt.behavior, false)
			if tt.configure {
				if err := c.Configure(t.Context(), rpc.Configuration{}); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.lifeline.Close(); err != nil {
				t.Fatal(err)
			}
			<-c.Done()
			if got := c.reported(t); !slices.Equal(got, tt.want) {
				t.Errorf("got reports %q, want %q", got, tt.want)
			}
		})
	}
}
