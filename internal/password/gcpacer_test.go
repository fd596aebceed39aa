package password

import (
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

func TestCollector_CollectsLessOftenUntilHashingPauses(t *testing.T) {
	for name, test := range map[string]struct {
		params        Params
		parallel      int
		before, while int
	}{
		"default costs on two processors": {Params{MemoryKiB: 19 * 1024}, 2, 100, 300},
		"default costs on 16 processors":  {Params{MemoryKiB: 19 * 1024}, 16, 100, 100},
		"the highest costs":               {Params{MemoryKiB: maxMemoryKiB}, 1, 100, 100},
		"cheap hashes":                    {Params{MemoryKiB: 8}, 1, 50, 200},
		"without collections":             {Params{MemoryKiB: 19 * 1024}, 2, -1, -1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer debug.SetGCPercent(debug.SetGCPercent(test.before))
				want := func(when string, want int) {
					t.Helper()
					synctest.Wait()
					if got := debug.SetGCPercent(test.before); got != want {
						t.Errorf("%s: got %d %%, want %d", when, got, want)
					} else {
						debug.SetGCPercent(got)
					}
				}
				c := newGCPacer(test.params, test.parallel)
				for range 2 {
					for range 3 {
						c.hashing()
						want("at a hashing", test.while)
						time.Sleep(coolAfter * 3 / 4)
						want("between hashings", test.while)
					}
					time.Sleep(coolAfter / 4)
					want("after the pause", test.before)
				}
			})
		})
	}
}
