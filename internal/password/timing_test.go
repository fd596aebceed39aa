package password

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/bcrypt"
)

const (
	bcrypt12 = "$2y$12$"
	bcrypt10 = "$2y$10$"
)

// everyFormat has a hash of every format.
var everyFormat = []struct{ encoded, format string }{
	{"$argon2id$v=19$m=65536,t=3,p=4$" + salt16 + "$" + key32, "$argon2id$v=19$m=65536,t=3,p=4$"},
	{"$argon2i$v=19$m=64,t=2,p=1$" + salt16 + "$" + key32, "$argon2i$v=19$m=64,t=2,p=1$"},
	{md5Of(phrase), "$digest$"},
	{"$2a$05$5EawS8ikkcjIeDvecuj.XOwm8Ojj2Z0lUH5.1duX8uY8rwtT0JvRq", "$2a$05$"},
	{"$2b$11$GcfJS9Yx8W.U9SML8fhA/eYoi8IGoDvaOiddQP.GoHAaalrbiS9Z.", "$2b$11$"},
	{"$2y$12$32NViFI06tEIA85AKhLuI.oKKe.Pz.nndt.Dl8nJiju5UIxRBJkRy", "$2y$12$"},
	{"$wp$2y$12$.9f.bCADApueukThUBWGVeMtGROLmCOtX9YPjzoeOsDz0K3Y3qwia", "$wp$2y$12$"},
	{"$P$BfEAVu23ObjBkUbr6.1RaiASnSr9u9/", "$P$B"},
	{"$H$99T6UAL/QQ93gU8rt6FYijAHlDv8qJ1", "$H$9"},
	{"pbkdf2_sha256$600000$IO7f0TkcB1bCvri2wzuPJE$1l0dhl/i3yNVeeh3NZWY1AMmbH33ahC15B9k+s/aX2s=", "pbkdf2_sha256$655360$"},
	{"pbkdf2_sha1$1000$d2YLGuCMK7U7Qh2xG7Sxun$MxEXsQ0E4lRw02eRU6lGUxxKeXk=", "pbkdf2_sha1$1024$"},
	{"$scrypt$ln=14,r=8,p=1$lZKSMobwnrPWGgNgrFUqBQ$bVpqm+CHHjqQF7nMJoWDg4CZlat+lk5aiYohLM2SyuY", "$scrypt$ln=14,r=8,p=1$"},
	{"scrypt$16384$GXjQyYAo3zCXkTdj5XGBy1$8$5$UhMe1/iqSI78zrtYHd8Zryfh6d1iFgW1+UB76ZlpQ64xg93BJG+Q0fBZyReun+iGKeuQ2tGw6Vm9u/fJouxHWg==", "$scrypt$ln=14,r=8,p=5$"},
	{"!", "!"},
	{"$S$D7JxIm0f7QKO3zjwVS1RH4AW8sYvmLjO0.Rn4swH0JVt6OrZ4yzZ", "$S$D"},
	{"U$S$9c47LGZuhR6TvhRQXzymkJIQ3mXthUCc6KDEGTt4B7eOL/H9Ykuy", "U$S$9"},
	{"$1$abcdefgh$SYbjm2AEvSoHG7Xapi8so.", "$1$"},
	{"$5$LKO/Ute40T3FNF95$U0prpBQd4PloSGU0pnpM4z9wKn4vZ1.jsrzQfPqxph9", "$5$rounds=5120$"},
	{"$5$rounds=11858$WH1ABM5sKhxbkgCK$aTQsjPkz0rBsH3lQlJxw9HDTDXPKBxC0LlVeV69P.t1", "$5$rounds=12288$"},
	{"$6$rounds=3000$9in6UciYPFG6ydsJ$YBjypQ7XoRqvJoX1a2.spSysSVHcdreVXi1Xh5SyOxo2yNSxDjlUCun2YXrwk9.YP6vmRvCWrhp0fbPgSOT7..", "$6$rounds=3072$"},
	{"$pbkdf2-sha1$i=20000,l=20$c2FsdA$6mwBTcctb4zNHtkqzh1B8NjeiVc", "$pbkdf2-sha1$i=20480$"},
	{"$pbkdf2-sha256$i=27500,l=64$c2FsdA$" + strings.Repeat("A", 86), "$pbkdf2-sha256$i=57344$"},
	{"$pbkdf2-sha512$i=25000,l=64$c2FsdA$" + strings.Repeat("A", 86), "$pbkdf2-sha512$i=28672$"},
	{"bcrypt_sha256$$2b$05$X3mJIUYEu0Sev.FNkdyjzuCFdLj4GZL6zHkdC9XNA5EOTRh1IYKFm", "bcrypt_sha256$$2b$05$"},
	{"$phpbb$2y$10$7$RsqOrLNkvw31ldi5VPlyG2t5HxqIKeyFv5dvOFakbr/GBBC0oyfIGMOkSD1dq", "$phpbb$2y$10$7$"},
	{"$digest$md5(md5(p).s)$c2FsdA$" + digests["md5"].hex(phrase), "$digest$"},
	{withinPrefix + "v=19$m=19456,t=2,p=1$" + salt16 + "$" + key32 + "$$P$BfEAVu23O", "$argon2id-of$v=19$m=19456,t=2,p=1$$P$B"},
	{withinPrefix + "v=19$m=19456,t=2,p=1$" + salt16 + "$" + key32 + "$$6$salt$", "$argon2id-of$v=19$m=19456,t=2,p=1$$6$rounds=5120$"},
	{withinPrefix + "v=19$m=19456,t=2,p=1$" + salt16 + "$" + key32 + "$$digest$md5(md5(p).s)$c2FsdA$", "$argon2id-of$v=19$m=19456,t=2,p=1$$digest$"},
	{waitingPrefix + "$P$BfEAVu23ObjBkUbr6.1RaiASnSr9u9/", "$P$B"},
}

func TestFormat_OfEveryFormat(t *testing.T) {
	for _, test := range everyFormat {
		if got := Format(test.encoded); got != test.format {
			t.Errorf("%.20s…: got %q, want %q", test.encoded, got, test.format)
		}
	}
	for _, f := range formats { // of the parser
		if !slices.ContainsFunc(everyFormat, func(test struct{ encoded, format string }) bool {
			return strings.HasPrefix(test.encoded, f.prefix)
		}) {
			t.Errorf("the prefix %s has no test", f.prefix)
		}
	}
	for _, encoded := range []string{"", "plain", "$2y$12$", "$2y$99$32NViFI06tEIA85AKhLuI.oKKe.Pz.nndt.Dl8nJiju5UIxRBJkRy", "!more"} {
		if got := Format(encoded); got != "" {
			t.Errorf("%q: got %q, want an empty format", encoded, got)
		}
	}
}

func TestFormat_DummyHasTheFormat(t *testing.T) {
	for _, test := range everyFormat {
		dummy, ok := dummyOf(test.format)
		if !ok {
			t.Errorf("%s: got no dummy", test.format)
			continue
		}
		if got := dummy.format; got != test.format {
			t.Errorf("%s: got a dummy of %s", test.format, got)
		}
		encoded := strings.TrimPrefix(dummyText(test.format), "$wp")
		if !strings.HasPrefix(encoded, "$2") {
			continue
		}
		cheap := strings.Replace(encoded, encoded[4:6], "04", 1)
		if err := bcrypt.CompareHashAndPassword([]byte(cheap), []byte("x")); !errors.Is(err, bcrypt.ErrMismatchedHashAndPassword) {
			t.Errorf("%s: got %v, want the dummy to be computed", test.format, err)
		}
	}
	for _, format := range []string{"", "$2y$", "$2y$99$", "$2y$1", "$P$", "scrypt$16384$", "$argon2id$v=19$m=65536,t=3,p=4",
		everyFormat[0].encoded, "$argon2id-of$", "$argon2id-of$x", "$argon2id-of$v=19$m=16,t=1,p=1$", "$argon2id-of$v=19$m=16,t=1,p=1$$2y$05$"} {
		if d, ok := dummyOf(format); ok {
			t.Errorf("%q: got a dummy of %s, want none", format, d.format)
		}
	}
}

// measured returns a Hasher that measures the given times, and 20 ms for new hashes.
func measured(t *testing.T, took map[string]time.Duration) *Hasher {
	t.Helper()
	h := newHasher(t, cheap)
	h.timings.measure = func(s stored) time.Duration {
		if d, ok := took[s.format]; ok {
			return d
		}
		if s.format != h.dummy.format() {
			t.Errorf("got a measurement of %s, want none", s.format)
		}
		return 20 * time.Millisecond
	}
	return h
}

func TestFloor_FollowsStoredFormats(t *testing.T) {
	took := map[string]time.Duration{
		bcrypt12: 240 * time.Millisecond, bcrypt10: 60 * time.Millisecond, "$2y$08$": 15 * time.Millisecond, "$2y$15$": 1800 * time.Millisecond,
		"$argon2id$v=19$m=65536,t=3,p=4$": 100 * time.Millisecond, "$argon2id-of$v=19$m=8,t=1,p=1$$P$B": 14 * time.Millisecond,
		"$argon2id-of$v=19$m=16,t=1,p=1$$P$B": 28 * time.Millisecond,
	}
	for name, test := range map[string]struct {
		formats []string
		want    time.Duration
	}{
		"no formats":                     {nil, 0},
		"faster than new hashes":         {[]string{"$2y$08$"}, 0},
		"1.25 times a slower one":        {[]string{bcrypt10}, 75 * time.Millisecond},
		"the slowest counts":             {[]string{bcrypt10, bcrypt12, "$2y$08$"}, 300 * time.Millisecond},
		"costlier Argon2id counts":       {[]string{"$argon2id$v=19$m=65536,t=3,p=4$"}, 125 * time.Millisecond},
		"two seconds at most":            {[]string{"$2y$15$"}, 2 * time.Second},
		"new hashes do not count":        {[]string{"$argon2id$v=19$m=16,t=1,p=1$"}, 0},
		"nor does an MD5 within one":     {[]string{"$argon2id-of$v=19$m=16,t=1,p=1$$digest$"}, 0},
		"unknown formats do not count":   {[]string{"", "plain", "$2y$99$", "$2y$12$x"}, 0},
		"repeated formats count as one":  {[]string{bcrypt10, bcrypt10}, 75 * time.Millisecond},
		"a wrapped one with its padding": {[]string{"$argon2id-of$v=19$m=8,t=1,p=1$$P$B"}, 30 * time.Millisecond}, // and half of 20 ms
		"a wrapped one, not padded":      {[]string{"$argon2id-of$v=19$m=16,t=1,p=1$$P$B"}, 35 * time.Millisecond},
		"a whole hash is not its format": {[]string{everyFormat[6].encoded}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			h := measured(t, took)
			if got := h.Floor(); got != 0 {
				t.Errorf("before the first call: got %v, want 0", got)
			}
			h.Measure(t.Context(), test.formats)
			if got := h.Floor(); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestMeasure_FloorIsTwoSecondsUntilAllAreMeasured(t *testing.T) {
	h := newHasher(t, cheap)
	var order []string
	h.timings.measure = func(s stored) time.Duration {
		order = append(order, s.format)
		if got := h.Floor(); got != maxFloor {
			t.Errorf("while %s is measured: got %v, want %v", s.format, got, maxFloor)
		}
		return 10 * time.Millisecond
	}
	h.Measure(t.Context(), []string{bcrypt12, bcrypt10})
	if want := []string{h.dummy.format(), bcrypt12, bcrypt10}; !slices.Equal(order, want) {
		t.Errorf("got measurements %q, want %q", order, want)
	}
	if got := h.Floor(); got != 0 {
		t.Errorf("at the end: got %v, want 0", got)
	}
}

func TestMeasure_MeasuresNewFormatsOnly(t *testing.T) {
	h := newHasher(t, cheap)
	var order []string
	h.timings.measure = func(s stored) time.Duration {
		order = append(order, s.format)
		return time.Duration(len(order)) * 100 * time.Millisecond // each takes longer than the previous one
	}
	for i, step := range []struct {
		formats, measured []string
		floor             time.Duration
	}{
		{[]string{bcrypt10}, []string{h.dummy.format(), bcrypt10}, 250 * time.Millisecond},
		{[]string{bcrypt10}, nil, 250 * time.Millisecond},
		{[]string{bcrypt10, bcrypt12}, []string{bcrypt12}, 375 * time.Millisecond},
		{[]string{bcrypt10}, nil, 250 * time.Millisecond},
		{nil, nil, 0},
		{[]string{bcrypt10}, []string{bcrypt10}, 500 * time.Millisecond},
	} {
		before := len(order)
		h.Measure(t.Context(), step.formats)
		if got := order[before:]; !slices.Equal(got, step.measured) {
			t.Errorf("step %d: measured %q, want %q", i, got, step.measured)
		}
		if got := h.Floor(); got != step.floor {
			t.Errorf("step %d: floor %v, want %v", i, got, step.floor)
		}
	}
}

func TestMeasure_AgainNowAndThenAndTheShortestCounts(t *testing.T) {
	h := newHasher(t, cheap)
	runs := 0
	busy := 3 // times as long as on a machine that is idle
	h.timings.measure = func(s stored) time.Duration {
		runs++
		if s.format == bcrypt10 {
			return time.Duration(busy) * 100 * time.Millisecond
		}
		return time.Duration(busy) * time.Millisecond
	}
	for range remeasure - 1 {
		h.Measure(t.Context(), []string{bcrypt10})
	}
	if got := h.Floor(); runs != 2 || got != 375*time.Millisecond {
		t.Errorf("%d measurements, floor %v, want 2 and 375ms", runs, got)
	}
	busy = 1
	h.Measure(t.Context(), []string{bcrypt10})
	if got := h.Floor(); runs != 4 || got != 125*time.Millisecond {
		t.Errorf("on an idle machine: %d measurements, floor %v, want 4 and 125ms", runs, got)
	}
	busy = 5
	for range remeasure {
		h.Measure(t.Context(), []string{bcrypt10})
	}
	if got := h.Floor(); got != 125*time.Millisecond {
		t.Errorf("on a busy machine again: floor %v, want 125ms", got)
	}
}

func TestMeasure_EndedContextKeepsTwoSecondFloor(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	h := newHasher(t, cheap)
	runs := 0
	h.timings.measure = func(stored) time.Duration {
		if runs++; runs == 2 {
			cancel()
		}
		return time.Duration(runs) * 10 * time.Millisecond
	}
	h.Measure(ctx, []string{bcrypt10, bcrypt12})
	if got := h.Floor(); runs != 2 || got != maxFloor {
		t.Errorf("got %d runs and floor %v, want 2 and %v", runs, got, maxFloor)
	}
	h.Measure(t.Context(), []string{bcrypt10, bcrypt12})
	if got, want := h.Floor(), 37500*time.Microsecond; runs != 3 || got != want {
		t.Errorf("got %d runs and floor %v, want 3 and %v", runs, got, want)
	}
}

func TestMeasure_KeepsTwoSecondsBeyond64Formats(t *testing.T) {
	h := newHasher(t, cheap)
	runs := 0
	h.timings.measure = func(stored) time.Duration { runs++; return time.Duration(runs) * time.Millisecond }
	var formats []string
	for i := range 50 {
		for _, form := range []string{"$5$rounds=%d$", "$6$rounds=%d$", "pbkdf2_sha256$%d$"} {
			format := fmt.Sprintf(form, costClass(minSHACryptRounds<<(i/8)*(8+i%8)/8))
			if !slices.Contains(formats, format) {
				formats = append(formats, "unknown", format, format)
			}
		}
	}
	h.Measure(t.Context(), formats)
	if got := h.Floor(); runs != 65 || got != maxFloor {
		t.Errorf("got %d runs and floor %v, want 65 (new hashes included) and %v", runs, got, maxFloor)
	}
	dummy, _ := dummyOf(formats[len(formats)-1])
	if got := h.missing(dummy, "x"); got != cheap {
		t.Errorf("a format beyond 64: got missing costs %+v, want %+v", got, cheap)
	}
	h.Measure(t.Context(), formats[:3*64])
	if got, want := h.Floor(), 65*time.Millisecond*5/4; runs != 65 || got != want {
		t.Errorf("without one: got %d runs and floor %v, want 65 and %v", runs, got, want)
	}
}

func TestFormat_RoundsStandForSimilarOnes(t *testing.T) {
	formats := map[string]bool{}
	for rounds := 5000; rounds <= 10_000; rounds++ { // as random as pam_unix makes them
		s, err := parse(fmt.Sprintf("$6$rounds=%d$salt$%s", rounds, strings.Repeat(".", 86)))
		if err != nil {
			t.Fatal(err)
		}
		formats[s.format] = true
		dummy, ok := dummyOf(s.format)
		if !ok || dummy.weak() != s.weak() {
			t.Fatalf("%d rounds: got a dummy of %q, which is weak: %t", rounds, dummy.format, dummy.weak())
		}
		if s.share < 0.8 || s.share > 1 || dummy.share != 1 {
			t.Fatalf("%d rounds: got %v of the work of %s", rounds, s.share, s.format)
		}
	}
	if len(formats) > 6 {
		t.Errorf("got %d formats, want 6 at most", len(formats))
	}
	h := newHasher(t, Params{MemoryKiB: 1000, Time: 2, Threads: 1})
	h.timings.measure = func(s stored) time.Duration {
		return map[string]time.Duration{h.dummy.format(): 128 * time.Millisecond, "pbkdf2_sha256$655360$": 64 * time.Millisecond}[s.format]
	}
	h.Measure(t.Context(), []string{"pbkdf2_sha256$655360$"})
	s, _ := parse("pbkdf2_sha256$573440$salt$" + zeroSum + "=") // takes seven eighths of 64 ms
	if got, want := h.missing(s, "x").MemoryKiB, uint32(562); got != want {
		t.Errorf("got %d KiB missing, want %d", got, want)
	}
}

func TestMeasure_MeasuresNothingWithoutFormats(t *testing.T) {
	h := newHasher(t, cheap)
	h.timings.measure = func(s stored) time.Duration {
		t.Errorf("got a measurement of %s, want none", s.format)
		return 0
	}
	h.Measure(t.Context(), nil)
	h.Measure(t.Context(), []string{h.dummy.format()})
}

func TestMeasure_ConcurrentCallsMeasureOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHasher(t, cheap)
		var running, runs atomic.Int64
		h.timings.measure = func(stored) time.Duration {
			if running.Add(1) > 1 {
				t.Error("got two measurements at once")
			}
			defer running.Add(-1)
			runs.Add(1)
			time.Sleep(40 * time.Millisecond) // in the bubble
			return 40 * time.Millisecond
		}
		var callers sync.WaitGroup
		for range 8 {
			callers.Go(func() {
				h.Measure(t.Context(), []string{bcrypt10, bcrypt12})
				if got := h.Floor(); got != 0 {
					t.Errorf("got floor %v, want 0", got)
				}
				if got := h.timings.part(bcrypt12); got != 1 {
					t.Errorf("got part %v, want 1", got)
				}
			})
		}
		callers.Wait()
		if runs.Load() != 3 {
			t.Errorf("got %d runs, want 3", runs.Load())
		}
	})
}

func TestMeasure_LastCallSetsFormats(t *testing.T) {
	h := newHasher(t, cheap)
	var order []string
	h.timings.measure = func(s stored) time.Duration {
		order = append(order, s.format)
		if s.format == bcrypt10 { // another call replaces the formats
			h.timings.replace([]string{bcrypt12})
		}
		return time.Duration(len(order)) * 100 * time.Millisecond
	}
	h.Measure(t.Context(), []string{bcrypt10, "$2y$11$"})
	if want := []string{h.dummy.format(), bcrypt10, bcrypt12}; !slices.Equal(order, want) {
		t.Errorf("got measurements %q, want %q", order, want)
	}
	if got, want := h.Floor(), 375*time.Millisecond; got != want {
		t.Errorf("got floor %v, want %v", got, want)
	}
	if _, kept := h.timings.took[bcrypt10]; kept {
		t.Errorf("got a time of %s, which is no longer stored", bcrypt10)
	}
}

func TestMeasure_EndedContextEndsWaitForAnotherCall(t *testing.T) {
	h := newHasher(t, cheap)
	h.timings.measuring <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h.Measure(ctx, []string{bcrypt10})
	if got := h.Floor(); got != maxFloor {
		t.Errorf("got floor %v, want %v", got, maxFloor)
	}
}

func TestMeasure_TakesShortestOfThreeRuns(t *testing.T) {
	for name, test := range map[string]struct {
		runs []time.Duration
		want time.Duration
	}{
		"three short runs":       {[]time.Duration{30 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond}, 10 * time.Millisecond},
		"one long run":           {[]time.Duration{300 * time.Millisecond}, 300 * time.Millisecond},
		"a long one after short": {[]time.Duration{150 * time.Millisecond, 250 * time.Millisecond, 160 * time.Millisecond}, 150 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &slowHash{runs: test.runs}
				if got := measure(s.stored()); got != test.want || len(s.runs) != 0 {
					t.Errorf("got %v with %d runs left, want %v with none", got, len(s.runs), test.want)
				}
				if last := s.passwords[0]; len(last) != maxRawBytes || trimPHP(last) == last {
					t.Errorf("got a password of %d bytes, %.10q…, want %d bytes that can be trimmed", len(last), last, maxRawBytes)
				}
			})
		})
	}
}

// slowHash takes the given times, within a bubble.
type slowHash struct {
	runs      []time.Duration
	passwords []string
}

func (s *slowHash) stored() stored {
	return stored{format: "$slow$", matches: func(password string) bool {
		s.passwords = append(s.passwords, password)
		time.Sleep(s.runs[0])
		s.runs = s.runs[1:]
		return false
	}}
}

func TestMissing_FollowsMeasuredTime(t *testing.T) {
	current := Params{MemoryKiB: 1000, Time: 2, Threads: 2}
	h := newHasher(t, current)
	h.timings.measure = func(s stored) time.Duration {
		return map[string]time.Duration{
			h.dummy.format(): 100 * time.Millisecond, "$2y$05$": 25 * time.Millisecond, bcrypt10: 100 * time.Millisecond,
			bcrypt12: 400 * time.Millisecond, "$digest$": time.Microsecond, "!": 0, "$P$9": 50 * time.Millisecond, "$H$9": 50 * time.Millisecond,
		}[s.format]
	}
	h.Measure(t.Context(), []string{"$2y$05$", bcrypt10, bcrypt12, "$digest$", "!", "$P$9", "$H$9"})
	memory := func(kib uint32) Params { return Params{MemoryKiB: kib, Time: 2, Threads: 2} }
	for name, test := range map[string]struct {
		format, password string
		want             Params
	}{
		"a quarter of the time":               {"$2y$05$", "x", memory(750)},
		"the same time":                       {bcrypt10, "x", Params{}},
		"more time":                           {bcrypt12, "x", Params{}},
		"hardly any time":                     {"$digest$", "x", memory(999)},
		"no time":                             {"!", "x", memory(1000)},
		"not measured":                        {"$2y$04$", "x", memory(1000)},
		"phpass, the longest password":        {"$P$9", longest, memory(500)},
		"phpass, nothing to trim":             {"$P$9", strings.Repeat("a", maxRawBytes), memory(750)},
		"phpass, a short password":            {"$P$9", "x", memory(996)},
		"phpass, a short password to trim":    {"$P$9", "x ", memory(992)},
		"phpBB, which does not trim":          {"$H$9", "x", memory(992)},
		"cheaper Argon2id is computed":        {"$argon2id$v=19$m=250,t=2,p=2$", "x", memory(750)},
		"cheaper MD5 in Argon2id is computed": {"$argon2id-of$v=19$m=500,t=2,p=2$$digest$", "x", memory(500)},
		"costlier Argon2id is computed":       {"$argon2id$v=19$m=2000,t=2,p=2$", "x", Params{}},
	} {
		t.Run(name, func(t *testing.T) {
			s, ok := dummyOf(test.format)
			if !ok {
				t.Fatal("the format does not exist")
			}
			if got := h.missing(s, test.password); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// In the bubble of these tests hashing takes no time, and waits are exact.
func TestVerify_FailureWaitsForFloor(t *testing.T) {
	const floor = 75 * time.Millisecond
	const decomposed = "cafe\u0301 au lait" // has two forms
	for name, test := range map[string]struct {
		encoded, entered string
		want             Result
		after            time.Duration
	}{
		"wrong password":                   {md5Of(phrase), "wrong", Result{}, floor},
		"wrong password of a slow format":  {"$2y$05$32NViFI06tEIA85AKhLuI.oKKe.Pz.nndt.Dl8nJiju5UIxRBJkRy", "wrong", Result{}, floor},
		"wrong password with two forms":    {md5Of(phrase), decomposed, Result{}, 2 * floor},
		"no password":                      {md5Of(phrase), "", Result{}, floor},
		"too long a password":              {md5Of(phrase), strings.Repeat("a", maxRawBytes+1), Result{}, floor},
		"unusable hash":                    {"!", "wrong", Result{}, floor},
		"right password":                   {md5Of(phrase), phrase, Result{Match: true, Rehash: true}, 0},
		"right password in its other form": {md5Of(decomposed), decomposed, Result{Match: true, Rehash: true}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := measured(t, map[string]time.Duration{bcrypt10: 60 * time.Millisecond})
				h.Measure(t.Context(), []string{bcrypt10})
				start := time.Now()
				mustVerify(t, h, test.encoded, test.entered, test.want)
				if took := time.Since(start); took != test.after {
					t.Errorf("got %v, want %v", took, test.after)
				}
				if test.want.Match {
					return
				}
				start = time.Now()
				if err := h.VerifyDummy(t.Context(), user, test.entered); err != nil {
					t.Error(err)
				}
				if took := time.Since(start); took != test.after {
					t.Errorf("an unknown account: got %v, want %v", took, test.after)
				}
			})
		})
	}
}

func TestVerify_FloorIncludesHashing(t *testing.T) {
	for name, test := range map[string]struct{ hashing, want time.Duration }{
		"faster than the floor": {100 * time.Millisecond, 300 * time.Millisecond},
		"slower than the floor": {400 * time.Millisecond, 400 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := measured(t, map[string]time.Duration{bcrypt12: 240 * time.Millisecond})
				h.Measure(t.Context(), []string{bcrypt12})
				start := time.Now()
				_, err := h.compare(t.Context(), user, (&slowHash{runs: []time.Duration{test.hashing}}).stored(), "wrong")
				if took := time.Since(start); err != nil || took != test.want {
					t.Errorf("got %v, %v, want %v", took, err, test.want)
				}
			})
		})
	}
}

func TestVerify_FailureDoesNotWaitWithoutSlowFormats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := measured(t, map[string]time.Duration{"$2y$08$": 15 * time.Millisecond})
		h.Measure(t.Context(), []string{"$2y$08$"})
		start := time.Now()
		mustVerify(t, h, md5Of(phrase), "wrong", Result{})
		if took := time.Since(start); took != 0 {
			t.Errorf("got %v, want 0", took)
		}
	})
}

func TestVerify_FloorStartsWithTurnAndWaitsOutsideQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := measured(t, map[string]time.Duration{bcrypt12: 240 * time.Millisecond})
		h.Measure(t.Context(), []string{bcrypt12})
		h.queue.arrive(user) // the only turn
		start := time.Now()
		done := make(chan time.Duration, 1)
		go func() {
			_ = h.VerifyDummy(t.Context(), user, "wrong")
			done <- time.Since(start)
		}()
		synctest.Wait()
		time.Sleep(time.Second) // in the bubble
		h.queue.leave()
		synctest.Wait()
		mustVerify(t, h, md5Of(phrase), phrase, Result{Match: true, Rehash: true})
		if took := time.Since(start); took != time.Second {
			t.Errorf("the correct password while a wrong one waits: got %v, want %v", took, time.Second)
		}
		if took, want := <-done, time.Second+300*time.Millisecond; took != want {
			t.Errorf("the wrong password: got %v, want %v", took, want)
		}
	})
}

// The attempt must be charged even if the client disconnects.
func TestVerify_EndedContextEndsWaitOfMismatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := measured(t, map[string]time.Duration{bcrypt12: 240 * time.Millisecond})
		h.Measure(t.Context(), []string{bcrypt12})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		start := time.Now()
		got, err := h.Verify(ctx, user, md5Of(phrase), "wrong")
		if err != nil || got != (Result{}) {
			t.Errorf("got %+v, %v, want a mismatch", got, err)
		}
		if took := time.Since(start); took != 50*time.Millisecond {
			t.Errorf("got %v, want 50ms", took)
		}
	})
}
