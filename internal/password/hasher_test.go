package password

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// owasp are the costs that the OWASP Password Storage Cheat Sheet names first.
var owasp = Params{MemoryKiB: 19 * 1024, Time: 2, Threads: 1}

var cheap = Params{MemoryKiB: 16, Time: 1, Threads: 1}

func newHasher(t testing.TB, p Params) *Hasher {
	t.Helper()
	h, err := New(p, 1)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestAPasswordMatchesItsOwnHashOnly(t *testing.T) {
	h := newHasher(t, cheap)
	rapid.Check(t, func(t *rapid.T) {
		password, other := rapid.String().Draw(t, "password"), rapid.String().Draw(t, "other")
		encoded, err := h.Hash(context.Background(), password)
		if err != nil {
			t.Fatal(err)
		}
		for _, entered := range []string{password, other} {
			got, err := h.Verify(context.Background(), encoded, entered)
			if err != nil {
				t.Fatal(err)
			}
			if want := (Result{Match: entered == password}); got != want {
				t.Fatalf("entered %q: %+v, want %+v", entered, got, want)
			}
		}
	})
}

func TestEveryHashHasItsOwnSaltAndTheCurrentCosts(t *testing.T) {
	h := newHasher(t, owasp)
	one, err1 := h.Hash(t.Context(), "password")
	two, err2 := h.Hash(t.Context(), "password")
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if one == two {
		t.Error("the same hash twice")
	}
	if !strings.HasPrefix(one, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Errorf("got %s", one)
	}
	if salt, key := len(strings.Split(one, "$")[4]), len(strings.Split(one, "$")[5]); salt != 22 || key != 43 {
		t.Errorf("salt of %d characters, key of %d", salt, key)
	}
}

func TestAHashWithLowerCostsIsDueForARehash(t *testing.T) {
	current := Params{MemoryKiB: 64, Time: 2, Threads: 2}
	for name, test := range map[string]struct {
		made Params
		want bool
	}{
		"the same":      {current, false},
		"higher":        {Params{MemoryKiB: 128, Time: 3, Threads: 4}, false},
		"less memory":   {Params{MemoryKiB: 63, Time: 2, Threads: 2}, true},
		"fewer passes":  {Params{MemoryKiB: 64, Time: 1, Threads: 2}, true},
		"fewer threads": {Params{MemoryKiB: 64, Time: 2, Threads: 1}, true},
	} {
		t.Run(name, func(t *testing.T) {
			encoded, err := newHasher(t, test.made).Hash(t.Context(), "password")
			if err != nil {
				t.Fatal(err)
			}
			got, err := newHasher(t, current).Verify(t.Context(), encoded, "password")
			if want := (Result{Match: true, Rehash: test.want}); err != nil || got != want {
				t.Errorf("got %+v, %v, want %+v", got, err, want)
			}
		})
	}
	short := "$argon2id$v=19$m=256,t=2,p=2$c29tZXNhbHQ$bQk8UB/VmZZF4Oo79iDXuL5/0ttZwg2f/5U52iv1cDc"
	got, err := newHasher(t, current).Verify(t.Context(), short, "password")
	if want := (Result{Match: true, Rehash: true}); err != nil || got != want {
		t.Errorf("a short salt: got %+v, %v", got, err)
	}
}

func TestTheDummyIsHashedWithTheCurrentCosts(t *testing.T) {
	h := newHasher(t, cheap)
	if h.dummy.params != cheap || len(h.dummy.salt) != saltBytes || len(h.dummy.key) != keyBytes {
		t.Errorf("got %v", h.dummy.params)
	}
	if err := h.VerifyDummy(t.Context(), ""); err != nil {
		t.Error(err)
	}
}

func TestABusyHasherSaysSo(t *testing.T) {
	h := newHasher(t, cheap)
	fill(h.gate.running)
	fill(h.gate.waiting)
	_, hash := h.Hash(t.Context(), "password")
	_, verify := h.Verify(t.Context(), h.dummy.String(), "password")
	dummy := h.VerifyDummy(t.Context(), "password")
	for name, err := range map[string]error{"Hash": hash, "Verify": verify, "VerifyDummy": dummy} {
		if !errors.Is(err, ErrBusy) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := h.Verify(t.Context(), "plain", "plain"); !errors.Is(err, ErrBadHash) {
		t.Errorf("a bad hash: %v", err)
	}
}

func fill(c chan struct{}) {
	for len(c) < cap(c) {
		c <- struct{}{}
	}
}

func TestAHasherIsSharedByManyCallers(t *testing.T) {
	h, err := New(cheap, 2)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := h.Hash(t.Context(), "password")
	if err != nil {
		t.Fatal(err)
	}
	var callers sync.WaitGroup
	for range 18 { // as many as may run and wait
		callers.Go(func() {
			if r, err := h.Verify(t.Context(), encoded, "password"); err != nil || !r.Match {
				t.Errorf("got %+v, %v", r, err)
			}
		})
	}
	callers.Wait()
	if len(h.gate.running) != 0 || len(h.gate.waiting) != 0 {
		t.Error("turns were not given back")
	}
}

func TestCostsOutOfRangeAreRefusedByName(t *testing.T) {
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
	} {
		if _, err := New(test.params, 0); err == nil || !strings.Contains(err.Error(), test.name) {
			t.Errorf("%+v: %v, want an error naming %s", test.params, err, test.name)
		}
	}
}

func BenchmarkHash(b *testing.B) {
	h := newHasher(b, owasp)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := h.Hash(b.Context(), "correct horse battery staple"); err != nil {
			b.Fatal(err)
		}
	}
}
