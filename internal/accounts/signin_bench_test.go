package accounts_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/argon2"

	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
)

// defaultCosts are those of plugin/settings.toml.
var defaultCosts = password.Params{MemoryKiB: 19 * 1024, Time: 2, Threads: 1}

// BenchmarkSignIn compares sign-ins, of 8 callers, with hashes of the same cost on all
// processors. An iteration measures sign-ins, then hashes, for half a second each. The
// metric of-bare is the ratio of their rates. The outbox delivers the events at the same time.
// -benchtime 10x makes ten iterations.
func BenchmarkSignIn(b *testing.B) {
	const callers, users = 8, 32
	for _, kind := range []struct {
		name string
		open func(testing.TB) string
	}{{"SQLite", testdb.SQLite}, {"PostgreSQL", testdb.Postgres}} {
		b.Run(kind.name, func(b *testing.B) {
			f := newFixture(b, kind.open(b))
			f.worker.Poll = 0 // the default
			hasher, err := password.New(defaultCosts, 0)
			if err != nil {
				b.Fatal(err)
			}
			f.service = f.serve(f.store, hasher)
			for user := range users {
				f.register(b, fmt.Sprintf("user%d", user))
			}
			f.work(b)
			signIn := func(caller, n int) {
				login := fmt.Sprintf("user%d", caller+n%(users/callers)*callers)
				if _, err := f.service.Authorize(context.Background(), personal.AuthorizeRequest{Login: login, Password: goodPassword}); err != nil {
					b.Error(err)
				}
			}
			hash := func(int, int) {
				argon2.IDKey([]byte(goodPassword), make([]byte, 16), defaultCosts.Time, defaultCosts.MemoryKiB, defaultCosts.Threads, 32)
			}
			var signIns, hashes rate
			for b.Loop() {
				signIns.measure(callers, signIn)
				hashes.measure(runtime.GOMAXPROCS(0), hash)
			}
			b.ReportMetric(signIns.perSecond()/hashes.perSecond(), "of-bare")
			b.ReportMetric(signIns.perSecond(), "sign-ins/s")
			b.ReportMetric(0, "ns/op") // hides ns/op, which mixes both
		})
	}
}

// rate counts calls over several measurements.
type rate struct {
	calls   int
	elapsed time.Duration
}

func (r rate) perSecond() float64 { return float64(r.calls) / r.elapsed.Seconds() }

// measure lets n callers call a function in a loop. Calls at the beginning do not
// count, nor do those at the end, because fewer run at once then.
func (r *rate) measure(n int, call func(caller, n int)) {
	const warmup, counted = 100 * time.Millisecond, 500 * time.Millisecond
	start := time.Now().Add(warmup)
	end := start.Add(counted)
	var calls atomic.Int64
	var callers sync.WaitGroup
	for caller := range n {
		callers.Go(func() {
			for i := 0; time.Now().Before(end); i++ {
				call(caller, i)
				if now := time.Now(); now.After(start) && now.Before(end) {
					calls.Add(1)
				}
			}
		})
	}
	callers.Wait()
	r.calls += int(calls.Load())
	r.elapsed += counted
}
