package main

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
	readyTime = time.Minute      // a server may take so long to be ready
	stopTime  = 30 * time.Second // and so long to stop
)

// program is how a server is started.
type program struct {
	command func(addr string) *exec.Cmd
	ready   string // the path that answers 200 when it is ready
	log     string // a file
}

// process is a running server in a process group of its own, which a Ctrl-C does
// not reach: it is stopped by us.
type process struct {
	addr  string
	ready string
	cmd   *exec.Cmd
	ended chan struct{}
}

// start starts a server on a free port of the loopback and returns how long it
// took to be ready.
func (p program) start(ctx context.Context) (*process, time.Duration, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, 0, err
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, 0, err
	}
	defer log.Close()
	cmd := p.command(addr)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, 0, err
	}
	s := &process{addr: addr, ready: p.ready, cmd: cmd, ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // its log says why
		close(s.ended)
	}()
	if err := s.await(ctx); err != nil {
		s.stop()
		return nil, 0, p.explain(ctx, err)
	}
	return s, time.Since(begin), nil
}

// await waits until the server is ready.
func (s *process) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTime, errors.New("not ready in time"))
	defer cancel()
	for {
		if _, err := s.get(ctx, s.ready); err == nil {
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

// get returns the body of a 200.
func (s *process) get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.addr+path, nil)
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

// stop stops the server, or kills it and what is in its group.
func (s *process) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
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
			return 0, fmt.Errorf("process %d: smaps_rollup has no line Pss", pid)
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

// explain adds the end of the server's log to an error that is no interruption.
func (p program) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	text, logErr := os.ReadFile(p.log)
	text = bytes.TrimSpace(text)
	return errors.Join(fmt.Errorf("%w; the end of its log:\n%s", err, text[max(0, len(text)-2000):]), logErr)
}
