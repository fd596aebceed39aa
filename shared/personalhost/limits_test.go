package personalhost

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener for connections without buffers, which a bubble of synctest can wait for. It
// accepts a connection some time after it was opened.
type pipes struct {
	opened chan net.Conn
	accept time.Duration
	ctx    context.Context // ends when the listener is closed
	close  context.CancelFunc
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.opened:
		time.Sleep(p.accept)
		return c, nil
	case <-p.ctx.Done():
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error {
	p.close()
	return nil
}

func (p pipes) Addr() net.Addr { return &net.UnixAddr{} }

// served is a server of a module. open opens a connection, stop begins the stop of the server, and
// ended is closed at its end.
type served struct {
	open  func(head string) net.Conn
	stop  func()
	ended chan struct{}
}

func serveLimited(t *testing.T, server *http.Server, accept ...time.Duration) served {
	listener, s := pipes{opened: make(chan net.Conn), accept: cmp.Or(accept...)}, served{ended: make(chan struct{})}
	listener.ctx, listener.close = context.WithCancel(context.Background())
	m := &Module{drain: time.Hour, limits: defaultLimits(), log: quietLog(), close: func() error { return nil }}
	m.stopping, m.stop = context.WithCancel(context.Background())
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	go func() {
		defer close(s.ended)
		if err := m.ServeOn(ctx, listener, server); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		_ = server.Close()
		<-s.ended
	})
	s.open = func(head string) net.Conn {
		inside, outside := net.Pipe()
		listener.opened <- inside
		t.Cleanup(func() { _ = outside.Close() })
		if _, err := io.WriteString(outside, head); err != nil {
			t.Error(err)
		}
		return outside
	}
	return s
}

const slowPost = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n1"

func TestServeOn_EndsSlowBodies(t *testing.T) {
	ignore := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }
	read := func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); errors.Is(err, os.ErrDeadlineExceeded) {
			w.WriteHeader(http.StatusBadRequest)
		}
	}
	withLimit := func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(15 * time.Minute))
		read(w, r)
	}
	for condition, tt := range map[string]struct {
		handler http.HandlerFunc
		timeout time.Duration // of the server
		stop    bool
		want    int
		after   time.Duration
	}{
		"a handler that reads it":          {read, 0, false, http.StatusBadRequest, 30 * time.Second},
		"a handler that ignores it":        {ignore, 0, false, http.StatusForbidden, 2 * time.Second},
		"a handler with a limit":           {withLimit, 0, false, http.StatusBadRequest, 15 * time.Minute},
		"a server with a limit":            {read, time.Minute, false, http.StatusBadRequest, time.Minute},
		"a server that stops":              {read, 0, true, http.StatusBadRequest, 2 * time.Second},
		"a server with a limit that stops": {read, time.Minute, true, http.StatusBadRequest, 2 * time.Second},
		"a handler with a limit at a stop": {withLimit, 0, true, http.StatusBadRequest, 2 * time.Second},
	} {
		t.Run(condition, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serveLimited(t, &http.Server{Handler: tt.handler, ReadTimeout: tt.timeout})
				began, c := time.Now(), s.open(slowPost)
				if synctest.Wait(); tt.stop {
					s.stop()
				}
				response := bufio.NewReader(c)
				r, err := http.ReadResponse(response, nil)
				if err != nil || r.StatusCode != tt.want {
					t.Fatalf("got response %v, error %v, want %d", r, err, tt.want)
				}
				_ = r.Body.Close()
				if _, err := response.ReadByte(); err != io.EOF {
					t.Errorf("after the response: got %v, want the end of the connection", err)
				}
				if took := time.Since(began).Truncate(time.Second); took != tt.after {
					t.Errorf("got the response after %v, want %v", took, tt.after)
				}
				if tt.stop {
					if <-s.ended; time.Since(began) > time.Minute {
						t.Errorf("the server stopped after %v, want it not to wait for an hour", time.Since(began))
					}
				}
			})
		})
	}
}

func TestServeOn_EndsSlowHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveLimited(t, &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the request was served") })})
		began := time.Now()
		c := s.open("POST / HTTP/1.1\r\nHost: x\r\n")
		if response, err := io.ReadAll(c); err != nil || strings.Contains(string(response), " 200 ") {
			t.Errorf("got response %q, error %v, want the end of the connection", response, err)
		}
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("got the end of the connection after %v, want 10s", took)
		}
	})
}

func TestServeOn_LimitOfBodyEndsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveLimited(t, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			select {
			case <-r.Context().Done():
				w.WriteHeader(http.StatusServiceUnavailable)
			case <-time.After(30 * time.Minute):
			}
		})})
		c := s.open(strings.ReplaceAll(slowPost, "10", "1"))
		synctest.Wait()
		s.stop() // which does not end it either
		if r, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || r.StatusCode != http.StatusOK {
			t.Errorf("got %v, %v, want that the handler went on", r, err)
		}
	})
}

func TestServeOn_LimitsOfResponsesCountFromProgress(t *testing.T) {
	const n = 1 << 10 // bytes that are taken one by one
	for condition, tt := range map[string]struct {
		pause time.Duration // before each byte
		own   time.Duration // limit of the server; 0: none
		until time.Duration // when writing fails; 0: never
	}{
		"a client that takes nothing":       {time.Hour, 0, 30 * time.Second},
		"that, with a longer deadline":      {time.Hour, time.Hour, 30 * time.Second},
		"a slow client":                     {500 * time.Millisecond, 0, 0},
		"a very slow client":                {time.Second, 0, 10 * time.Minute},
		"that, with a longer deadline too":  {time.Second, time.Hour, 0},
		"a slow one and a shorter deadline": {500 * time.Millisecond, time.Minute, time.Minute},
	} {
		t.Run(condition, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				result := make(chan error, 2)
				s := serveLimited(t, &http.Server{WriteTimeout: tt.own, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					control := http.NewResponseController(w)
					_, err := w.Write(make([]byte, n))
					result <- errors.Join(err, control.Flush())
				})})
				began, c := time.Now(), s.open("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
				go func() { _, _ = io.WriteString(c, "GET") }() // of another request: the limits stay those of this one
				go func() {
					for one := make([]byte, 1); ; {
						select {
						case <-t.Context().Done():
							return
						case <-time.After(tt.pause):
						}
						if _, err := c.Read(one); err != nil {
							return
						}
					}
				}()
				err := <-result
				took := time.Since(began).Truncate(time.Second)
				if tt.until > 0 && (!errors.Is(err, os.ErrDeadlineExceeded) || took != tt.until) || tt.until == 0 && err != nil {
					t.Errorf("got %v after %v, want a failure after %v", err, took, tt.until)
				}
			})
		})
	}
}

func TestServeOn_ResponsesOfOneConnectionHaveLimitsOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveLimited(t, &http.Server{IdleTimeout: time.Hour, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/short" {
				_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Second))
			}
			_, _ = io.WriteString(w, "ok")
		})})
		const get = "GET /short HTTP/1.1\r\nHost: x\r\n\r\n"
		c := s.open(get)
		responses := bufio.NewReader(c)
		for i, next := range []string{"/", "/short", "/"} {
			r, err := http.ReadResponse(responses, nil)
			if err != nil {
				t.Fatalf("response %d: %v", i, err)
			}
			_, _ = io.Copy(io.Discard, r.Body)
			time.Sleep(20 * time.Minute)
			if _, err := io.WriteString(c, strings.Replace(get, "/short", next, 1)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := http.ReadResponse(responses, nil); err != nil {
			t.Errorf("the last response: %v", err)
		}
	})
}

func TestServeOn_HijackedConnectionHasNoLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		result := make(chan error, 1)
		s := serveLimited(t, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, err = c.Write([]byte("x"))
			}
			result <- err
		})})
		c := s.open("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		time.Sleep(time.Hour)
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Error(err)
		}
		if err := <-result; err != nil {
			t.Errorf("got %v, want that writing waits", err)
		}
	})
}

func TestServeOn_LimitsHeaders(t *testing.T) {
	for condition, tt := range map[string]struct {
		limit, want int
	}{
		"by default":            {0, http.StatusRequestHeaderFieldsTooLarge},
		"a server with a limit": {1 << 20, http.StatusOK},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := serveLimited(t, &http.Server{MaxHeaderBytes: tt.limit, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})})
			c := s.open("GET / HTTP/1.1\r\nHost: x\r\n")
			go func() { _, _ = io.WriteString(c, "X: "+strings.Repeat("x", 64<<10)+"\r\n\r\n") }()
			response := bufio.NewReader(c)
			r, err := http.ReadResponse(response, nil)
			if err != nil || r.StatusCode != tt.want {
				t.Errorf("%s: got response %v, error %v, want %d", condition, r, err, tt.want)
			}
			_, _ = io.Copy(io.Discard, response) // until the server has closed the connection
		})
	}
}
