package password

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/cms-personal/personal/internal/testkit/race"
)

// owasp are the first costs in the OWASP Password Storage Cheat Sheet.
var owasp = Params{MemoryKiB: 19 * 1024, Time: 2, Threads: 1}

var cheap = Params{MemoryKiB: 16, Time: 1, Threads: 1}

// computesAlone skips a test with the race detector, which slows it down most and has one goroutine to
// watch. CI runs this package without it, too.
func computesAlone(t *testing.T) {
	t.Helper()
	if race.Enabled {
		t.Skip("computes in one goroutine")
	}
}

func newHasher(t testing.TB, p Params) *Hasher {
	t.Helper()
	h, err := New(p, 1)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestVerify_MatchesOnlyTheHashedPassword(t *testing.T) {
	h := newHasher(t, cheap)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.SampledFrom([]rune("aAé\u0301\u3000 가\u1100\u1161Ж")), 1, 20, -1)
		password, ok := Canonical(text.Draw(t, "password"))
		if !ok {
			t.Skip("no password")
		}
		other := text.Draw(t, "other")
		encoded, err := h.Hash(context.Background(), user, password)
		if err != nil {
			t.Fatal(err)
		}
		for _, entered := range []string{password, other} {
			got, err := h.Verify(context.Background(), user, encoded, entered)
			if err != nil {
				t.Fatal(err)
			}
			prepared, _ := Canonical(entered)
			if want := (Result{Match: prepared == password}); got != want {
				t.Fatalf("entered %q: got %+v, want %+v", entered, got, want)
			}
		}
	})
}

func TestHash_HasNewSaltAndCurrentCosts(t *testing.T) {
	h := newHasher(t, owasp)
	one, err1 := h.Hash(t.Context(), user, "password")
	two, err2 := h.Hash(t.Context(), user, "password")
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if one == two {
		t.Errorf("got the hash %s twice", one)
	}
	if !strings.HasPrefix(one, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Errorf("got %s, want the costs of owasp", one)
	}
	if salt, key := len(strings.Split(one, "$")[4]), len(strings.Split(one, "$")[5]); salt != 22 || key != 43 {
		t.Errorf("got a salt of %d characters and a key of %d, want 22 and 43", salt, key)
	}
}

func TestVerify_OtherCostsAreDueForRehash(t *testing.T) {
	current := Params{MemoryKiB: 64, Time: 2, Threads: 2}
	for name, test := range map[string]struct {
		made Params
		want bool
	}{
		"the same":      {current, false},
		"more memory":   {Params{MemoryKiB: 65, Time: 2, Threads: 2}, true},
		"more passes":   {Params{MemoryKiB: 64, Time: 3, Threads: 2}, true},
		"more threads":  {Params{MemoryKiB: 64, Time: 2, Threads: 3}, true},
		"less memory":   {Params{MemoryKiB: 63, Time: 2, Threads: 2}, true},
		"fewer passes":  {Params{MemoryKiB: 64, Time: 1, Threads: 2}, true},
		"fewer threads": {Params{MemoryKiB: 64, Time: 2, Threads: 1}, true},
	} {
		t.Run(name, func(t *testing.T) {
			encoded, err := newHasher(t, test.made).Hash(t.Context(), user, "password")
			if err != nil {
				t.Fatal(err)
			}
			got, err := newHasher(t, current).Verify(t.Context(), user, encoded, "password")
			if want := (Result{Match: true, Rehash: test.want}); err != nil || got != want {
				t.Errorf("got %+v, %v, want %+v", got, err, want)
			}
		})
	}
	short := "$argon2id$v=19$m=256,t=2,p=2$c29tZXNhbHQ$bQk8UB/VmZZF4Oo79iDXuL5/0ttZwg2f/5U52iv1cDc"
	got, err := newHasher(t, Params{MemoryKiB: 256, Time: 2, Threads: 2}).Verify(t.Context(), user, short, "password")
	if want := (Result{Match: true, Rehash: true}); err != nil || got != want {
		t.Errorf("a short salt: got %+v, %v, want %+v", got, err, want)
	}
}

func TestNew_DummyHasCurrentCosts(t *testing.T) {
	h := newHasher(t, cheap)
	if h.dummy.params != cheap || len(h.dummy.salt) != saltBytes || len(h.dummy.key) != keyBytes {
		t.Errorf("got %v, want %v", h.dummy.params, cheap)
	}
	if err := h.VerifyDummy(t.Context(), user, 0, ""); err != nil {
		t.Error(err)
	}
}

// The dummy is made of random bytes, so that a start need not wait for a hash, nor a
// sign-in for the dummy.
func TestNew_ComputesNoHash(t *testing.T) {
	costs := Params{MemoryKiB: 64 << 10, Time: 1, Threads: 1}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	newHasher(t, costs)
	runtime.ReadMemStats(&after)
	if got, hash := after.TotalAlloc-before.TotalAlloc, uint64(costs.MemoryKiB)<<10; got >= hash {
		t.Errorf("got %d bytes allocated, want less than the %d of one hash", got, hash)
	}
}

func TestHasher_FullQueueIsBusy(t *testing.T) {
	h := newHasher(t, cheap)
	fill(h.queue)
	_, hash := h.Hash(t.Context(), user, "password")
	_, verify := h.Verify(t.Context(), user, h.dummy.String(), "password")
	dummy := h.VerifyDummy(t.Context(), user, 0, "password")
	for name, err := range map[string]error{"Hash": hash, "Verify": verify, "VerifyDummy": dummy} {
		if !errors.Is(err, ErrBusy) {
			t.Errorf("%s: got %v, want ErrBusy", name, err)
		}
	}
	if _, err := h.Verify(t.Context(), user, "plain", "plain"); !errors.Is(err, ErrBadHash) {
		t.Errorf("a bad hash: got %v, want ErrBadHash", err)
	}
}

func TestNew_NamesCostsOutOfRange(t *testing.T) {
	for _, test := range []struct {
		params Params
		name   string
	}{
		{Params{}, "threads"},
		{Params{MemoryKiB: 64, Time: 1, Threads: 17}, "threads"},
		{Params{MemoryKiB: 64, Threads: 1}, "time"},
		{Params{MemoryKiB: 64, Time: 17, Threads: 1}, "time"},
		{Params{MemoryKiB: 15, Time: 1, Threads: 2}, "memory_kib"},
		{Params{MemoryKiB: 1 << 20, Time: 1, Threads: 1}, "memory_kib"},
		{Params{MemoryKiB: 1 << 18, Time: 5, Threads: 1}, "memory_kib"},
	} {
		if _, err := New(test.params, 0); err == nil || !strings.Contains(err.Error(), test.name) {
			t.Errorf("%+v: got %v, want an error naming %s", test.params, err, test.name)
		}
	}
}

func BenchmarkHash(b *testing.B) {
	h := newHasher(b, owasp)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := h.Hash(b.Context(), user, "correct horse battery staple"); err != nil {
			b.Fatal(err)
		}
	}
}

func TestVerifiable_OnlyHashesThatAPasswordCanMatch(t *testing.T) {
	for _, h := range everyFormat {
		if got, want := Verifiable(h.encoded), !IsUnusable(h.encoded); got != want {
			t.Errorf("%s: got %t, want %t", h.encoded, got, want)
		}
	}
	for _, encoded := range []string{"", "!x", "$future$1$x", "password"} {
		if Verifiable(encoded) {
			t.Errorf("%q: got true", encoded)
		}
	}
}
