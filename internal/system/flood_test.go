package system

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/testkit"
)

const floodLogins = 500

// flood is what a flood of sign-ins did.
type flood struct {
	statuses map[int]int
	quick    []time.Duration // what calls of a signed-in user took meanwhile
	peak     int             // the plugin's memory at most, in MiB
}

// flooded signs in at once, as often right as wrong, with passwords that cost what
// they cost by default.
func flooded(t *testing.T) flood {
	s := start(t, options{database: testkit.SQLite(t), settings: unthrottled})
	u := s.newUser(t)
	f := flood{statuses: map[int]int{}}
	var mu sync.Mutex
	var errs []error
	var logins sync.WaitGroup
	for i := range floodLogins {
		logins.Go(func() {
			a, err := s.exchange(call{path: "auth/", params: params{"login": u.login, "password": []string{u.password, "wrong wrong"}[i%2]}})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
				return
			}
			f.statuses[a.Status]++
			if a.Status == http.StatusServiceUnavailable && a.Header.Get("Retry-After") == "" {
				errs = append(errs, errors.New("503 without Retry-After"))
			}
		})
	}
	over := make(chan struct{})
	go func() { logins.Wait(); close(over) }()
	for flowing := true; flowing; {
		began := time.Now()
		s.wantAlive(t, "a session during the flood", u.pair)
		f.quick = append(f.quick, time.Since(began))
		select {
		case <-over:
			flowing = false
		default:
		}
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	f.peak = peakMemory(t, s.plugin(t).Active.PID)
	slices.Sort(f.quick)
	t.Logf("answers by status %v; %d calls of a signed-in user, p50 %v, the longest %v; the plugin took %d MiB at most",
		f.statuses, len(f.quick), f.quick[len(f.quick)/2], f.quick[len(f.quick)-1], f.peak)
	return f
}

// peakMemory is the most memory that a process has had, in MiB.
func peakMemory(t testing.TB, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kib, err := strconv.Atoi(strings.Fields(rest + " x")[0])
	if err != nil {
		t.Fatalf("no VmHWM in %s", status)
	}
	return kib >> 10
}

func TestAFloodOfSignInsIsBoundedAndHindersNoSignedInUser(t *testing.T) {
	f := flooded(t)
	if n := f.statuses[http.StatusOK] + f.statuses[http.StatusUnauthorized] + f.statuses[http.StatusServiceUnavailable]; n != floodLogins {
		t.Errorf("answers by status: %v", f.statuses)
	}
	if p50 := f.quick[len(f.quick)/2]; p50 > time.Second { // the soak's bound is the real one
		t.Errorf("half the calls of a signed-in user take more than %v", p50)
	}
	if f.peak > 300 && !testkit.RaceDetector {
		t.Errorf("the plugin took %d MiB", f.peak)
	}
}

// TestHalfSentRequestsAreCutAndHinderNobody sends parts of heads and of bodies,
// and then nothing more.
func TestHalfSentRequestsAreCutAndHinderNobody(t *testing.T) {
	t.Parallel()
	const each = 150
	s := start(t, options{database: testkit.SQLite(t), settings: cheap + unthrottled})
	u := s.newUser(t)
	host, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	head := "POST /api/v1/personal/auth/ HTTP/1.1\r\nHost: " + host.Host + "\r\nContent-Type: application/json\r\n"
	var conns []net.Conn
	for i := range 2 * each {
		conn, err := net.Dial("tcp", host.Host)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		half := head
		if i < each {
			half += "Content-Length: 100\r\n\r\n{\"login\":"
		}
		if _, err := io.WriteString(conn, half); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	for range 20 {
		began := time.Now()
		s.wantAlive(t, "a session beside half-sent requests", u.pair)
		s.signIn(t, u)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("two calls take %v", took)
		}
	}
	for i, conn := range conns {
		if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		said, err := io.ReadAll(conn) // to the end of the connection
		if err != nil {
			t.Fatalf("connection %d is not cut: %v", i, err)
		}
		if bytes.Contains(said, []byte(" 200 ")) {
			t.Fatalf("connection %d is answered %s", i, said)
		}
	}
	s.wantAlive(t, "a session afterwards", u.pair)
}
