package personalhost

import (
	"bufio"
	"io"
	"maps"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// What clients send around a stop gets a response, and a connection that brings nothing does not delay it.
func TestServeOn_StopLosesNoRequest(t *testing.T) {
	const head, rest = "GET /?takes=", " HTTP/1.1\r\nHost: x\r\n\r\n"
	type at map[time.Duration]string // what the client sends, by the time since the stop
	const (
		before = -time.Minute
		accept = 100 * ms // what the server takes for a new connection
	)
	for condition, tt := range map[string]struct {
		sends     at
		responses int
		last      bool          // the last response closes the connection
		after     time.Duration // the server ends
	}{
		"a new connection, a request after the stop":    {at{before: "", 200 * ms: head + "0s" + rest}, 1, true, 200 * ms},
		"a new connection, half a head at the stop":     {at{before: head, time.Second: "0s" + rest}, 1, true, time.Second},
		"a new connection, nothing":                     {at{before: ""}, 0, false, 300 * ms},
		"a new connection, half a head":                 {at{before: head}, 0, false, 2 * time.Second},
		"kept alive, a request after the stop":          {at{before: head + "0s" + rest, 200 * ms: head + "0s" + rest}, 2, true, 200 * ms},
		"kept alive, half a head at the stop":           {at{before: head + "0s" + rest, -ms: head, time.Second: "0s" + rest}, 2, true, time.Second},
		"kept alive, half a head after the stop":        {at{before: head + "0s" + rest, 200 * ms: head, time.Second: "0s" + rest}, 2, true, time.Second},
		"kept alive, nothing":                           {at{before: head + "0s" + rest}, 1, false, 300 * ms},
		"a request that ends soon, another one":         {at{before: "", -ms: head + "200ms" + rest, 400 * ms: head + "0s" + rest}, 2, true, 400 * ms},
		"a request that ends soon, nothing":             {at{before: "", -ms: head + "200ms" + rest}, 1, false, 500 * ms},
		"a head that was sent before":                   {at{before: "", -ms: head + "200ms&flush=1" + rest, 400 * ms: head + "0s" + rest}, 2, true, 400 * ms},
		"a connection that is being accepted":           {at{-accept / 2: head + "0s" + rest}, 1, true, accept / 2},
		"a request that ends late":                      {at{before: "", -ms: head + "20s" + rest}, 1, true, 20 * time.Second},
		"a request after the stop, which takes a while": {at{before: "", 200 * ms: head + "20s" + rest}, 1, true, 20200 * ms},
	} {
		t.Run(condition, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serveLimited(t, &http.Server{ReadHeaderTimeout: time.Hour, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					takes, _ := time.ParseDuration(r.FormValue("takes"))
					if r.FormValue("flush") != "" {
						_ = http.NewResponseController(w).Flush()
					}
					time.Sleep(takes)
				})}, accept)
				stopped := time.Now().Add(-before)
				go func() {
					time.Sleep(time.Until(stopped))
					s.stop()
				}()
				offsets := slices.Sorted(maps.Keys(tt.sends))
				time.Sleep(time.Until(stopped.Add(offsets[0])))
				c := s.open(tt.sends[offsets[0]])
				for _, offset := range offsets[1:] {
					go func() {
						select {
						case <-time.After(time.Until(stopped.Add(offset))):
							_, _ = io.WriteString(c, tt.sends[offset]) // the server may have closed the connection
						case <-t.Context().Done():
						}
					}()
				}
				responses, got, closes := bufio.NewReader(c), 0, false
				for ; ; got++ {
					r, err := http.ReadResponse(responses, nil)
					if err != nil {
						break
					}
					_ = r.Body.Close()
					closes = r.Close
				}
				<-s.ended
				// The server looks in turns, net/http's in turns of up to 500 ms.
				if took := time.Since(stopped); took < tt.after || took > tt.after+600*ms {
					t.Errorf("the server ended after %v, want %v", took, tt.after)
				}
				if got != tt.responses || closes != tt.last {
					t.Errorf("got %d responses, closed by the last one: %v; want %d, %v", got, closes, tt.responses, tt.last)
				}
			})
		})
	}
}

const ms = time.Millisecond
