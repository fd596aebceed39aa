package main

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

// load is HTTP load on one server: each caller has one keep-alive connection and
// sends its next request after the response to the previous one. It writes to the
// connection directly: on a cheap page [http.Client] would take more processor time
// than the server.
type load struct {
	addr    string
	callers int
	request func(caller, n int) []byte             // the n-th request of a caller
	accept  func(caller, n int, body []byte) error // gets the body of a 200; may be nil
}

// span is the duration of a load. Requests that finish in the counted time count;
// some are running when it begins and ends.
type span struct {
	warmup   time.Duration // before requests are counted
	counted  time.Duration
	requests int // if positive, the number of requests of each caller instead of a time
}

// drive runs the load and returns the rate and the latencies. It returns an error at
// the first response other than 200, because figures of failures mean nothing.
func (l load) drive(ctx context.Context, s span) (sample, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	start := time.Now().Add(s.warmup)
	latencies := make([][]time.Duration, l.callers)
	var callers sync.WaitGroup
	for caller := range l.callers {
		callers.Go(func() {
			var err error
			if latencies[caller], err = l.call(ctx, caller, start, s); err != nil {
				cancel(err)
			}
		})
	}
	callers.Wait()
	if ctx.Err() != nil {
		return sample{}, context.Cause(ctx)
	}
	return newSample(slices.Concat(latencies...), s.counted), nil
}

// call runs one caller.
func (l load) call(ctx context.Context, caller int, start time.Time, s span) ([]time.Duration, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", l.addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // interrupts a read
	var latencies []time.Duration
	var body bytes.Buffer
	responses, end := bufio.NewReader(conn), start.Add(s.counted)
	for n := 0; ; n++ {
		request := l.request(caller, n)
		begin := time.Now()
		if s.requests > 0 && n == s.requests || s.requests == 0 && begin.After(end) {
			return latencies, nil
		}
		if err := exchange(conn, responses, request, &body); err != nil {
			return nil, fmt.Errorf("%s: %w", bytes.SplitN(request, []byte(" HTTP/"), 2)[0], err)
		}
		if finish := time.Now(); finish.After(start) && finish.Before(end) {
			latencies = append(latencies, finish.Sub(begin))
		}
		if l.accept != nil {
			if err := l.accept(caller, n, body.Bytes()); err != nil {
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

// message writes a request. Header lines end with \r\n; a body is JSON.
func message(method, path, header, body string) []byte {
	if body != "" {
		header += fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	return fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\n%s\r\n%s", method, path, header, body)
}
