// Package harness measures programs: it starts servers, generates users, drives load and
// collects samples in rounds.
package harness

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Load is HTTP load on one server: each caller has one keep-alive connection and
// sends its next request after the response to the previous one. It writes to the
// connection directly: on a cheap page [http.Client] would take more processor time
// than the server.
type Load struct {
	Addr    string
	Callers int
	Request func(caller, n int) []byte             // the n-th request of a caller
	Accept  func(caller, n int, body []byte) error // gets the body of a 200; may be nil
}

// Span is the duration of a load. A request counts if it finishes in the counted time,
// even if it began before.
type Span struct {
	Warmup   time.Duration // before requests are counted
	Counted  time.Duration
	Requests int // if positive, the number of requests of each caller instead of a time
}

// NewSpan returns the span of one measurement that counts the given time in seconds. The
// warm-up is a quarter of it: a server that was idle gets its memory from the system
// first.
func NewSpan(seconds float64) Span {
	counted := time.Duration(seconds * float64(time.Second))
	return Span{Warmup: counted / 4, Counted: counted}
}

// Drive runs the load and returns the rate and the latencies. It returns an error at
// the first response other than 200, because figures of failures mean nothing.
func (l Load) Drive(ctx context.Context, s Span) (Sample, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	start := time.Now().Add(s.Warmup)
	latencies := make([][]time.Duration, l.Callers)
	var callers sync.WaitGroup
	for caller := range l.Callers {
		callers.Go(func() {
			var err error
			if latencies[caller], err = l.call(ctx, caller, start, s); err != nil {
				cancel(err)
			}
		})
	}
	callers.Wait()
	if ctx.Err() != nil {
		return Sample{}, context.Cause(ctx)
	}
	return newSample(slices.Concat(latencies...), s.Counted), nil
}

// call runs one caller.
func (l Load) call(ctx context.Context, caller int, start time.Time, s Span) ([]time.Duration, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", l.Addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // interrupts a read
	var latencies []time.Duration
	var body bytes.Buffer
	responses, end := bufio.NewReader(conn), start.Add(s.Counted)
	for n := 0; ; n++ {
		request := l.Request(caller, n)
		begin := time.Now()
		if s.Requests > 0 && n == s.Requests || s.Requests == 0 && begin.After(end) {
			return latencies, nil
		}
		if err := exchange(conn, responses, request, &body); err != nil {
			return nil, fmt.Errorf("%s: %w", bytes.SplitN(request, []byte(" HTTP/"), 2)[0], err)
		}
		if finish := time.Now(); finish.After(start) && finish.Before(end) {
			latencies = append(latencies, finish.Sub(begin))
		}
		if l.Accept != nil {
			if err := l.Accept(caller, n, body.Bytes()); err != nil {
				return nil, err
			}
		}
	}
}

// exchange sends a request and reads the body of its response, which must be a 200.
func exchange(conn net.Conn, responses *bufio.Reader, request []byte, body *bytes.Buffer) error {
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	if _, err := conn.Write(request); err != nil {
		return err
	}
	response, err := http.ReadResponse(responses, nil)
	if err != nil {
		return err
	}
	body.Reset()
	_, err = body.ReadFrom(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s: %s", response.Status, body)
	}
	return nil
}

// Message writes a request. Header lines end with \r\n; a body is JSON.
func Message(method, path, header, body string) []byte {
	if body != "" {
		header += fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	return fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\n%s\r\n%s", method, path, header, body)
}

// Repeat measures a function that n callers call in a loop.
func Repeat(ctx context.Context, n int, s Span, do func(caller, n int) error) (Sample, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	start := time.Now().Add(s.Warmup)
	end := start.Add(s.Counted)
	latencies := make([][]time.Duration, n)
	var callers sync.WaitGroup
	for caller := range n {
		callers.Go(func() {
			for i := 0; ; i++ {
				begin := time.Now()
				if begin.After(end) || ctx.Err() != nil {
					return
				}
				if err := do(caller, i); err != nil {
					cancel(err)
				}
				if finish := time.Now(); finish.After(start) && finish.Before(end) {
					latencies[caller] = append(latencies[caller], finish.Sub(begin))
				}
			}
		})
	}
	callers.Wait()
	if ctx.Err() != nil {
		return Sample{}, context.Cause(ctx)
	}
	return newSample(slices.Concat(latencies...), s.Counted), nil
}
