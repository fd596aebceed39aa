package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	readyTime = time.Minute      // maximum time until a server is ready
	stopTime  = 30 * time.Second // maximum time until it has stopped
)

// Program describes how to start a server.
type Program struct {
	Command func(addr string) *exec.Cmd
	Ready   string // path that responds with 200 when the server is ready
	Log     string // path of the log file
}

// Process is a running server. It has its own process group, so that a Ctrl-C does not
// reach it.
type Process struct {
	Addr  string
	ready string
	cmd   *exec.Cmd
	ended chan struct{}
}

// Start starts a server on a free port of 127.0.0.1 and returns the time until it was
// ready.
func (p Program) Start(ctx context.Context) (*Process, time.Duration, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, 0, err
	}
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, 0, err
	}
	defer log.Close()
	cmd := p.Command(addr)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, 0, err
	}
	s := &Process{Addr: addr, ready: p.Ready, cmd: cmd, ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // the reason is in its log
		close(s.ended)
	}()
	if err := s.await(ctx); err != nil {
		s.Stop()
		return nil, 0, p.Explain(ctx, err)
	}
	return s, time.Since(begin), nil
}

// await waits until the server is ready.
func (s *Process) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTime, errors.New("not ready in time"))
	defer cancel()
	for {
		if _, err := s.Get(ctx, s.ready); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.ended:
			return errors.New("ended before it was ready")
		case <-time.After(time.Millisecond):
		}
	}
}

// Get returns the body of a response, which must be a 200.
func (s *Process) Get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Addr+path, nil)
	if err != nil {
		return nil, err
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(response.Status)
	}
	return io.ReadAll(response.Body)
}

// Stop stops the server. After stopTime it kills the process group.
func (s *Process) Stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have stopped already
	select {
	case <-s.ended:
	case <-time.After(stopTime):
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
		<-s.ended
	}
}

// pss returns the proportional set size of processes, in MB.
func pss(pids ...int) (float64, error) {
	var total float64
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			return 0, err
		}
		_, rest, _ := strings.Cut(string(text), "\nPss:")
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			return 0, fmt.Errorf("process %d: smaps_rollup has no Pss", pid)
		}
		kib, err := strconv.ParseFloat(fields[0], 64)
		if err != nil {
			return 0, err
		}
		total += kib * 1024 / 1e6
	}
	return total, nil
}

func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// Explain adds the end of the server's log to an error, unless ctx has ended.
func (p Program) Explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	text, logErr := os.ReadFile(p.Log)
	text = bytes.TrimSpace(text)
	return errors.Join(fmt.Errorf("%w; the end of its log:\n%s", err, text[max(0, len(text)-2000):]), logErr)
}
