//go:build soak

package system

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/testkit"
)

// TestSoakFlood holds a flood of sign-ins to the bounds of a machine that has
// nothing else to do.
func TestSoakFlood(t *testing.T) {
	f := flooded(t)
	if p50 := f.quick[len(f.quick)/2]; p50 > 100*time.Millisecond {
		t.Errorf("half the calls of a signed-in user take more than %v", p50)
	}
	if f.peak > 300 {
		t.Errorf("the plugin took %d MiB", f.peak)
	}
}

// TestSoakAddressFlood holds what visitors feel of a flood from one address.
func TestSoakAddressFlood(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, database string) {
		f := floodedFromOneAddress(t, database)
		if p50 := f.took[len(f.took)/2]; f.served < 14 || p50 > 700*time.Millisecond {
			t.Errorf("%d of 15 sign-ins succeeded, half of them within %v", f.served, p50)
		}
	})
}

// TestSoakThrottled measures the answers to guesses that are too many.
func TestSoakThrottled(t *testing.T) {
	s := start(t, options{database: testkit.SQLite(t), flags: []string{"--log-level", "error"}})
	u := s.newUser(t)
	var took []time.Duration
	for range 300 {
		began := time.Now()
		a := s.do(t, call{path: "auth/", params: params{"login": u.login, "password": "wrong wrong"}})
		if a.Result.Code == "too_many_attempts" {
			took = append(took, time.Since(began))
		}
	}
	t.Logf("of 300 guesses %d were refused, half of them within %v, 99 of 100 within %v", len(took), median(took), p99(took))
	if len(took) < 270 || p99(took) > 10*time.Millisecond {
		t.Errorf("%d refused, 99 of 100 within %v", len(took), p99(took))
	}
}

// TestSoakNothingTells compares what answers take for accounts that exist and
// accounts that don't, with passwords that cost what they cost by default.
func TestSoakNothingTells(t *testing.T) {
	s := start(t, options{database: testkit.SQLite(t), settings: unthrottled, flags: []string{"--log-level", "error"}})
	known := make([]user, 20)
	for i := range known {
		known[i] = s.newUser(t)
	}
	for _, test := range []struct {
		what  string
		bound float64
		ask   func(login string) call
		code  string
	}{
		{"a wrong password", 0.03, func(login string) call {
			return call{path: "auth/", params: params{"login": login, "password": "wrong wrong"}}
		}, "invalid_credentials"},
		{"a recovery", 0.1, func(login string) call { return call{path: "recover/", params: params{"login": login}} }, ""},
	} {
		took := map[bool][]time.Duration{}
		for i := range asked("PERSONAL_SOAK_PAIRS", 1000) {
			first := rand.N(2) == 0
			for _, exists := range []bool{first, !first} {
				login := unique()
				if exists {
					login = known[i%len(known)].login
				}
				began := time.Now()
				a := s.do(t, test.ask(login))
				took[exists] = append(took[exists], time.Since(began))
				a.want(t, test.code)
			}
		}
		with, without := median(took[true]), median(took[false])
		t.Logf("%s: %v where the account exists, %v where it does not", test.what, with, without)
		if ratio := float64(with) / float64(without); math.Abs(ratio-1) > test.bound {
			t.Errorf("%s takes %.3f times as long where the account exists", test.what, ratio)
		}
	}
}
