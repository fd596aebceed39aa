package system

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/testkit/race"
	"github.com/cms-personal/personal/internal/testkit/testdb"
)

// flood is the result of a flood of sign-ins.
type flood struct {
	statuses map[int]int
	took     time.Duration
	quick    []time.Duration // durations of a signed-in user's calls during the flood, sorted
	peak     int             // the plugin's peak memory in MiB
}

// flooded makes so many sign-ins at once, half of them with a wrong password, at the
// default costs of a password.
func flooded(t *testing.T, signIns int) flood {
	s := start(t, options{database: testdb.SQLite(t), settings: unthrottled})
	u := s.newUser(t)
	f := flood{statuses: map[int]int{}}
	var mu sync.Mutex
	var errs []error
	var logins sync.WaitGroup
	start := time.Now()
	for i := range signIns {
		logins.Go(func() {
			r, err := s.exchange(call{path: "auth/", params: params{"login": u.login, "password": []string{u.password, "wrong wrong"}[i%2]}})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
				return
			}
			f.statuses[r.Status]++
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
			flowing, f.took = false, time.Since(start)
		case <-time.After(5 * time.Millisecond): // one user is no flood
		}
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	f.peak = peakMemory(t, s.plugin(t).Active.PID)
	slices.Sort(f.quick)
	t.Logf("responses by status: %v; %d calls of a signed-in user, median %v, maximum %v; peak memory of the plugin %d MiB",
		f.statuses, len(f.quick), f.quick[len(f.quick)/2], f.quick[len(f.quick)-1], f.peak)
	return f
}

// peakMemory returns the peak resident memory of a process in MiB.
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

func TestSignInFlood_SignedInUsersAreServed(t *testing.T) {
	const signIns = 30 // would take 570 MB of memory together
	f := flooded(t, signIns)
	if n := f.statuses[http.StatusOK] + f.statuses[http.StatusUnauthorized] + f.statuses[http.StatusServiceUnavailable]; n != signIns {
		t.Errorf("got responses by status %v, want 200, 401 and 503 only", f.statuses)
	}
	// A call that waits for the sign-ins takes most of their time. TestSoakFlood has the real bound.
	if p50 := f.quick[len(f.quick)/2]; p50 > f.took/4 {
		t.Errorf("got a median of %v for a signed-in user's call in a flood of %v, want a quarter of that at most", p50, f.took)
	}
	if f.peak > 300 && !race.Enabled {
		t.Errorf("got a peak memory of %d MiB, want 300 at most", f.peak)
	}
}

// TestSignInFlood_OtherAddressesAreServed signs in with correct passwords from one
// address without end, and at the same time from others.
func TestSignInFlood_OtherAddressesAreServed(t *testing.T) {
	f := floodedFromOneAddress(t, testdb.SQLite(t), "[password]\nmemory_kib = 4096\ntime = 1\n", 200*time.Millisecond)
	if f.served < 14 {
		t.Errorf("%d of 15 sign-ins from other addresses succeeded, want 14 at least", f.served)
	}
	if f.refused == 0 {
		t.Error("no sign-in from the flooding address was refused")
	}
}

// addressFlood is the result of a flood from one address.
type addressFlood struct {
	served  int             // of 15 sign-ins from other addresses
	took    []time.Duration // durations of those, sorted
	refused int64           // sign-ins of the attacker that got 429 or 503
}

// floodedFromOneAddress has the callers of the flood pause after a refusal.
func floodedFromOneAddress(t *testing.T, database, settings string, pause time.Duration) (f addressFlood) {
	s := start(t, options{database: database, settings: settings, flags: []string{"--trusted-proxy", "127.0.0.0/8", "--log-level", "error"}})
	accounts := make([]user, 15)
	for i := range accounts {
		accounts[i] = s.newUser(t)
	}
	honest := s.newUser(t)
	over := make(chan struct{})
	var attackers sync.WaitGroup
	var refused atomic.Int64
	for i := range 180 {
		u := accounts[i%len(accounts)]
		attackers.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				r, err := s.exchange(call{path: "auth/", header: from("192.0.2.1"), params: params{"login": u.login, "password": u.password}})
				if err == nil && (r.Status == http.StatusTooManyRequests || r.Status == http.StatusServiceUnavailable) {
					refused.Add(1)
					select {
					case <-over:
					case <-time.After(pause):
					}
				}
			}
		})
	}
	eventually(t, "the flood takes all places of its address", func() bool { return refused.Load() > 0 })
	for i := range 15 {
		began := time.Now()
		r := s.do(t, call{path: "auth/", header: from(fmt.Sprintf("198.51.100.%d", i)),
			params: params{"login": honest.login, "password": honest.password}})
		if r.Success == 1 {
			f.served++
		}
		f.took = append(f.took, time.Since(began))
	}
	close(over)
	attackers.Wait()
	f.refused = refused.Load()
	slices.Sort(f.took)
	t.Logf("%d of 15 sign-ins from other addresses succeeded, median %v; the attacker was refused %d times", f.served, f.took[len(f.took)/2],
		f.refused)
	return f
}
