package system

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/manager"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// BenchmarkHop compares a call to the plugin that does nothing, Fields with an empty
// schema, with a call to the smallest go-plugin with AutoMTLS, which echoes an equally
// empty message. Blocks of calls to one and to the other take turns, so that the load
// of the machine affects both. It reports medians of latency and the processor time of
// both processes together.
func BenchmarkHop(b *testing.B) {
	hop, hopPID := startHop(b)
	echo, echoPID := startEcho(b)
	for _, callers := range []int{1, 32} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			sides := []*side{{call: hop, pid: hopPID}, {call: echo, pid: echoPID}}
			for _, s := range sides {
				s.block(b, callers)
				s.latencies, s.processor = nil, 0
			}
			for b.Loop() {
				for _, s := range sides {
					s.block(b, callers)
				}
				slices.Reverse(sides)
			}
			if sides[0].pid != hopPID {
				slices.Reverse(sides)
			}
			latency := [2]float64{sides[0].median(), sides[1].median()}
			processor := [2]float64{sides[0].perCall(), sides[1].perCall()}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(latency[0]/latency[1], "hop/echo")
			b.ReportMetric(processor[0]/processor[1], "cpu-hop/echo")
			b.ReportMetric(latency[0], "ns/hop")
			b.ReportMetric(latency[1], "ns/echo")
			b.ReportMetric(processor[0], "cpu-ns/hop")
			b.ReportMetric(processor[1], "cpu-ns/echo")
		})
	}
}

// side is one side of the comparison.
type side struct {
	call      func() error
	pid       int
	latencies []time.Duration
	processor time.Duration // of both processes
}

// block makes a few calls by each caller.
func (s *side) block(b *testing.B, callers int) {
	const calls = 960 // enough that reading the processor times does not matter
	latencies := make([]time.Duration, calls)
	before := processorTime(b, s.pid)
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() {
			for i := caller; i < calls; i += callers {
				began := time.Now()
				if err := s.call(); err != nil {
					b.Error(err)
				}
				latencies[i] = time.Since(began)
			}
		})
	}
	group.Wait()
	s.processor += processorTime(b, s.pid) - before
	s.latencies = append(s.latencies, latencies...)
}

func (s *side) median() float64 {
	slices.Sort(s.latencies)
	return float64(s.latencies[len(s.latencies)/2])
}

func (s *side) perCall() float64 { return float64(s.processor) / float64(len(s.latencies)) }

// processorTime returns the processor time that this process and another one have used.
// That of the other one is 0 if the system does not tell.
func processorTime(b *testing.B, pid int) time.Duration {
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		b.Fatal(err)
	}
	return time.Duration(own.Utime.Nano()+own.Stime.Nano()) + threadTime(b, []int{pid})
}

// threadTime returns the processor time that the threads of processes have used, 0 if the
// system does not tell.
func threadTime(b *testing.B, pids []int) (sum time.Duration) {
	for _, pid := range pids {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		if err != nil {
			b.Fatal(err)
		}
		for _, thread := range threads {
			stat, err := os.ReadFile(thread)
			if err != nil {
				continue // the thread has ended
			}
			var running time.Duration
			if _, err := fmt.Sscan(string(stat), &running); err != nil {
				b.Fatal(err)
			}
			sum += running
		}
	}
	return sum
}

// startHop starts the plugin with a manager, as a host does.
func startHop(b *testing.B) (call func() error, pid int) {
	binary := testkit.Binaries(b).Plugin
	versions, err := catalogue.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	entry, err := versions.Install(b.Context(), binary)
	if err != nil {
		b.Fatal(err)
	}
	if err := versions.SaveState(catalogue.State{Active: entry.Manifest.Version}); err != nil {
		b.Fatal(err)
	}
	folder := b.TempDir()
	manager, err := manager.New(manager.Config{
		Catalogue: versions, Host: emptyHost{}, RunDir: filepath.Join(folder, "run"),
		DatabaseURL: "sqlite://" + filepath.Join(folder, "personal.db"),
		Log:         slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = manager.Stop(context.Background()) })
	if err := manager.Start(); err != nil {
		b.Fatal(err)
	}
	if err := manager.WaitReady(b.Context()); err != nil {
		b.Fatal(err)
	}
	service := rpc.NewClient(manager, emptyHost{})
	return func() error {
		ctx := personal.WithCall(context.Background(), personal.Call{
			RequestID: "JBSWY3DPEHPK3PXPJBSWY3DPEH", Locale: "en", Agent: "Mozilla/5.0 (X11; Linux x86_64)",
			Address: netip.MustParseAddr("192.0.2.1"),
		})
		_, err := service.Fields(ctx)
		return err
	}, manager.Status().PID
}

// emptyHost is a host without user fields.
type emptyHost struct{ personal.Host }

func (emptyHost) UserFields(context.Context) (personal.Schema, error) {
	return personal.Schema{Revision: strings.Repeat("0", 64)}, nil
}

// echoVariable is the environment variable that makes the test binary the echo plugin.
const echoVariable = "PERSONAL_TEST_ECHO"

var echoHandshake = plugin.HandshakeConfig{ProtocolVersion: 1, MagicCookieKey: echoVariable, MagicCookieValue: "echo"}

// echoPlugin is both sides of the smallest go-plugin.
type echoPlugin struct{ plugin.NetRPCUnsupportedPlugin }

// GRPCServer registers a service with one method.
func (echoPlugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test.Echo", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{
			MethodName: "Echo",
			Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				message := new(emptypb.Empty)
				return message, decode(message)
			},
		}},
	}, nil)
	return nil
}

// GRPCClient returns the connection itself.
func (echoPlugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}

func serveEcho() {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: echoHandshake, Plugins: plugin.PluginSet{"echo": echoPlugin{}},
		GRPCServer: plugin.DefaultGRPCServer, Logger: hclog.NewNullLogger(),
	})
}

// startEcho starts this test binary as the echo plugin.
func startEcho(b *testing.B) (call func() error, pid int) {
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), echoVariable+"=echo")
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig: echoHandshake, Plugins: plugin.PluginSet{"echo": echoPlugin{}}, Cmd: cmd,
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC}, AutoMTLS: true, Logger: hclog.NewNullLogger(),
	})
	b.Cleanup(client.Kill)
	protocol, err := client.Client()
	if err != nil {
		b.Fatal(err)
	}
	dispensed, err := protocol.Dispense("echo")
	if err != nil {
		b.Fatal(err)
	}
	conn := dispensed.(*grpc.ClientConn)
	return func() error {
		return conn.Invoke(context.Background(), "/test.Echo/Echo", new(emptypb.Empty), new(emptypb.Empty))
	}, cmd.Process.Pid
}
