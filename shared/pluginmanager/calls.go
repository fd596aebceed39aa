package pluginmanager

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cms-personal/personal/shared/pluginrpc"
)

const (
	restartRetry = time.Second     // what callers are told while a restart is under way
	stopRetry    = 5 * time.Second // and while the host stops
)

var _ grpc.ClientConnInterface = (*Manager)(nil)

// Invoke performs a unary call on the live process. While there is none it
// waits, for Config.RestartWait at most. A call that finds no process, and one
// whose process dies, fails with [pluginrpc.Unavailable]; it is never replayed,
// because it may have happened.
func (m *Manager) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	p, err := m.enter(ctx)
	if err != nil {
		return err
	}
	var failed, late bool
	defer func() { m.leave(p, failed, late) }()
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, m.config.CallTimeout)
		defer cancel()
	}
	began := time.Now()
	err = p.conn.Conn().Invoke(ctx, method, args, reply, opts...)
	took := time.Since(began)
	late = took >= m.config.HealthTimeout/2 && isAnswer(err)
	failed = isFault(ctx, err, took >= m.config.HealthTimeout && !m.overloaded(p))
	return judge(ctx, p, err)
}

// NewStream is there for the interface: the contract has no streams.
func (m *Manager) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, "the contract has no streams")
}

// enter counts a call in and returns its process.
func (m *Manager) enter(ctx context.Context) (*process, error) {
	var patience <-chan time.Time
	for {
		m.mu.Lock()
		p, changed, refusal := m.pick()
		m.mu.Unlock()
		if p != nil || refusal != nil {
			return p, refusal
		}
		if patience == nil {
			timer := time.NewTimer(m.config.RestartWait)
			defer timer.Stop()
			patience = timer.C
		}
		select {
		case <-changed:
		case <-patience:
			return nil, pluginrpc.Unavailable(restartRetry, "the plugin is not back yet")
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
}

// pick counts a call into the live process, or returns what to wait for, or says
// why there will be none for a while. The caller holds the mutex.
func (m *Manager) pick() (*process, <-chan struct{}, error) {
	switch m.state {
	case StateStopped, StateDraining:
		return nil, nil, pluginrpc.Unavailable(stopRetry, "the plugin manager is "+string(m.state))
	case StateFailed:
		return nil, nil, pluginrpc.Unavailable(untilRetry(m.nextTry), "the plugin has failed")
	}
	if m.live == nil || m.live.lost() {
		return nil, m.changed, nil
	}
	m.live.calls++
	return m.live, nil, nil
}

// untilRetry returns the time until then in whole seconds, one at least.
func untilRetry(then time.Time) time.Duration {
	return max(time.Until(then).Truncate(time.Second)+time.Second, time.Second)
}

// leave counts a call out, and tells the owner if too many of a process on trial
// fail. A late answer among many calls shows that the process is overloaded.
func (m *Manager) leave(p *process, failed, late bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if late && p.calls >= minOverload {
		p.overload = time.Now()
	}
	p.calls--
	if p.calls == 0 && p.idle != nil {
		close(p.idle)
	}
	p.tally.count(failed)
	if m.state == StateBaking && p == m.live && p.tally.tooMany() {
		select {
		case m.errs <- struct{}{}:
		default: // it was told
		}
	}
}

// judge returns the error of a call to p: what the plugin answered as it is,
// what the loss of its process caused as Unavailable.
func judge(ctx context.Context, p *process, err error) error {
	s, ok := status.FromError(err)
	if err == nil || !ok || len(s.Details()) > 0 || ctx.Err() != nil {
		return err
	}
	if s.Code() == codes.Unavailable || s.Code() == codes.Canceled || p.lost() {
		p.awaitLost(ctx, deathNotice) // so that the caller's next call does not meet it again
		return pluginrpc.Unavailable(restartRetry, "the plugin process was lost in the call: "+s.Message())
	}
	return err
}
