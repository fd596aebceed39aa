package password

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// wrapped19 begins the class of what is wrapped with the costs of owasp.
const wrapped19 = withinPrefix + "v=19$m=19456,t=2,p=1$" + zeroSalt + "$" + zeroSum + "$"

// everyFormat has a hash of every format, and how its class begins for costs of owasp.
var everyFormat = []struct{ encoded, class string }{
	{"$argon2id$v=19$m=65536,t=3,p=4$" + salt16 + "$" + key32, "$argon2id$v=19$m=65536,t=3,p=4$" + zeroSalt + "$" + zeroSum},
	{"$argon2id$v=19$m=19456,t=2,p=1$" + salt16 + "$" + key32, ""},
	{"$argon2i$v=19$m=64,t=2,p=1$" + salt16 + "$" + key32, "$argon2i$v=19$m=64,t=2,p=1$AAA"},
	{md5Of(phrase), wrapped19 + "$digest$md5(p)$$"},
	{"$2a$05$5EawS8ikkcjIeDvecuj.XOwm8Ojj2Z0lUH5.1duX8uY8rwtT0JvRq", "$2a$05$AAA"},
	{"$2b$11$GcfJS9Yx8W.U9SML8fhA/eYoi8IGoDvaOiddQP.GoHAaalrbiS9Z.", "$2b$11$AAA"},
	{"$2y$12$32NViFI06tEIA85AKhLuI.oKKe.Pz.nndt.Dl8nJiju5UIxRBJkRy", "$2y$12$AAA"},
	{"$bcrypt-of$bcrypt(s.p)$YWRh$2y$12$32NViFI06tEIA85AKhLuI.oKKe.Pz.nndt.Dl8nJiju5UIxRBJkRy", "$bcrypt-of$bcrypt(p)$$2y$12$AAA"},
	{"$wp$2y$12$.9f.bCADApueukThUBWGVeMtGROLmCOtX9YPjzoeOsDz0K3Y3qwia", "$wp$2y$12$AAA"},
	{"$P$BfEAVu23ObjBkUbr6.1RaiASnSr9u9/", "$P$BAAA"},
	{"$H$99T6UAL/QQ93gU8rt6FYijAHlDv8qJ1", "$H$9AAA"},
	{"pbkdf2_sha256$600000$IO7f0TkcB1bCvri2wzuPJE$1l0dhl/i3yNVeeh3NZWY1AMmbH33ahC15B9k+s/aX2s=", "pbkdf2_sha256$600000$AAA"},
	{"pbkdf2_sha1$1000$d2YLGuCMK7U7Qh2xG7Sxun$MxEXsQ0E4lRw02eRU6lGUxxKeXk=", "pbkdf2_sha1$1000$AAA"},
	{"$scrypt$ln=14,r=8,p=1$lZKSMobwnrPWGgNgrFUqBQ$bVpqm+CHHjqQF7nMJoWDg4CZlat+lk5aiYohLM2SyuY", "$scrypt$ln=14,r=8,p=1$AAA"},
	{"scrypt$16384$GXjQyYAo3zCXkTdj5XGBy1$8$5$UhMe1/iqSI78zrtYHd8Zryfh6d1iFgW1+UB76ZlpQ64xg93BJG+Q0fBZyReun+iGKeuQ2tGw6Vm9u/fJouxHWg==", "scrypt$16384$" + zeroSalt + "$8$5$AAA"},
	{"!", ""},
	{"$S$D7JxIm0f7QKO3zjwVS1RH4AW8sYvmLjO0.Rn4swH0JVt6OrZ4yzZ", "$S$DAAA"},
	{"U$S$9c47LGZuhR6TvhRQXzymkJIQ3mXthUCc6KDEGTt4B7eOL/H9Ykuy", "U$S$9AAA"},
	{"$1$abcdefgh$SYbjm2AEvSoHG7Xapi8so.", "$1$AAAAAAAA$AAA"},
	{"$5$LKO/Ute40T3FNF95$U0prpBQd4PloSGU0pnpM4z9wKn4vZ1.jsrzQfPqxph9", "$5$AAA"},
	{"$5$rounds=11858$WH1ABM5sKhxbkgCK$aTQsjPkz0rBsH3lQlJxw9HDTDXPKBxC0LlVeV69P.t1", "$5$rounds=11858$AAA"},
	{"$6$rounds=3000$9in6UciYPFG6ydsJ$YBjypQ7XoRqvJoX1a2.spSysSVHcdreVXi1Xh5SyOxo2yNSxDjlUCun2YXrwk9.YP6vmRvCWrhp0fbPgSOT7..", "$6$rounds=3000$AAA"},
	{"$pbkdf2-sha1$i=20000,l=20$c2FsdA$6mwBTcctb4zNHtkqzh1B8NjeiVc", "$pbkdf2-sha1$i=20000,l=20$AAAAAA$AAA"},
	{"$pbkdf2-sha256$i=27500,l=64$c2FsdA$" + strings.Repeat("B", 85) + "A", "$pbkdf2-sha256$i=27500,l=64$AAAAAA$AAA"},
	{"$pbkdf2-sha512$i=25000,l=64$c2FsdA$" + strings.Repeat("B", 85) + "A", "$pbkdf2-sha512$i=25000,l=64$AAAAAA$AAA"},
	{"bcrypt_sha256$$2b$05$X3mJIUYEu0Sev.FNkdyjzuCFdLj4GZL6zHkdC9XNA5EOTRh1IYKFm", "bcrypt_sha256$$2b$05$AAA"},
	{"$phpbb$2y$10$7$RsqOrLNkvw31ldi5VPlyG2t5HxqIKeyFv5dvOFakbr/GBBC0oyfIGMOkSD1dq", "$phpbb$2y$10$7$AAA"},
	{"$digest$md5(md5(p).s)$c2FsdA$" + digests["md5"].hex(phrase), "$digest$md5(p)$$"},
	{withinPrefix + "v=19$m=64,t=1,p=1$" + salt16 + "$" + key32 + "$$P$BfEAVu23O", withinPrefix + "v=19$m=64,t=1,p=1$" + zeroSalt + "$" + zeroSum + "$$P$BAAA"},
	{withinPrefix + "v=19$m=19456,t=2,p=1$" + salt16 + "$" + key32 + "$$6$salt$", wrapped19 + "$6$AAAA$"},
	{withinPrefix + "v=19$m=19456,t=2,p=1$" + salt16 + "$" + key32 + "$$digest$md5(md5(p).s)$c2FsdA$", wrapped19 + "$digest$md5(p)$$"},
	{waitingPrefix + "$P$BfEAVu23ObjBkUbr6.1RaiASnSr9u9/", wrapped19 + "$P$BAAA"},
}

func TestClass_IsAHashOfEqualCosts(t *testing.T) {
	h := newHasher(t, owasp)
	for _, test := range everyFormat {
		class, ok := h.Class(test.encoded)
		if class == "" != (test.class == "") || !strings.HasPrefix(class, test.class) || ok == IsUnusable(test.encoded) {
			t.Errorf("%.20s…: got %q, %t, want %q", test.encoded, class, ok, test.class)
		}
		if class == "" || strings.HasPrefix(class, digestPrefix) { // which is not stored
			continue
		}
		if again, ok := h.Class(class); again != class || !ok {
			t.Errorf("%.20s…: the class of %q is %q, %t", test.encoded, class, again, ok)
		}
		if !IsBare(test.encoded) && !strings.Contains(test.class, "(p)$$") && len(class) != len(test.encoded) {
			t.Errorf("%.20s…: got a class of %d bytes, want %d", test.encoded, len(class), len(test.encoded))
		}
	}
	for _, f := range formats { // of the parser
		if !slices.ContainsFunc(everyFormat, func(test struct{ encoded, class string }) bool {
			return strings.HasPrefix(test.encoded, f.prefix)
		}) {
			t.Errorf("the prefix %s has no test", f.prefix)
		}
	}
	for _, encoded := range []string{"", "plain", "$2y$12$", "$2y$99$32NViFI06tEIA85AKhLuI.oKKe.Pz.nndt.Dl8nJiju5UIxRBJkRy", "!more"} {
		if class, ok := h.Class(encoded); class != "" || ok {
			t.Errorf("%q: got %q, %t, want none", encoded, class, ok)
		}
	}
}

// work returns what f compares.
func work(h *Hasher, f func()) (done []string) {
	h.ObserveWork(func(class string, length int) { done = append(done, fmt.Sprint(length, " ", class)) })
	f()
	return done
}

func TestVerifyDummy_DoesTheWorkOfTheClass(t *testing.T) {
	computesAlone(t)
	h := newHasher(t, cheap)
	hash, err := h.Hash(t.Context(), user, phrase)
	if err != nil {
		t.Fatal(err)
	}
	encoded := []string{hash}
	for _, test := range everyFormat {
		class, ok := h.Class(test.encoded)
		if !ok || strings.HasPrefix(test.encoded, digestPrefix) {
			continue
		}
		if _, time := costs(t, class); time < 0.02 { // else it takes long
			encoded = append(encoded, test.encoded)
		}
	}
	for _, v := range foreignVectors {
		adopted, err := Adopt(v.encoded)
		if err != nil {
			t.Fatal(err)
		}
		encoded = append(encoded, adopted)
	}
	for _, encoded := range encoded {
		class, _ := h.Class(encoded)
		h.SetClasses([]Interval{{Class: class, Start: 100, Width: 100, Laid: 200}})
		for _, entered := range []string{"wrong", "it's", "cafe\u0301", "tab\t", strings.Repeat("a", 600), strings.Repeat("a", maxRawBytes+1), "\xff"} {
			known := work(h, func() { mustVerify(t, h, encoded, entered, Result{}) })
			digests := map[uint32]bool{100: true}
			if entered == "wrong" {
				digests = map[uint32]bool{99: class == "", 100: true, 199: true, 200: class == ""}
			}
			for digest, same := range digests {
				drawn := work(h, func() { _ = h.VerifyDummy(t.Context(), user, digest, entered) })
				if slices.Equal(drawn, known) != (same || len(entered) > maxRawBytes) {
					t.Errorf("%.20s…, entered %.10q, digest %d: got the work %q, known %q", encoded, entered, digest, drawn, known)
				}
			}
		}
	}
}

// drawnClass returns what a digest draws, "" for the costs of new hashes.
func drawnClass(intervals []Interval, digest int64) string {
	for _, l := range intervals {
		if digest >= l.Start && digest < l.Start+l.Width {
			return l.Class
		}
	}
	return ""
}

// wellLaid checks that no digest is in two intervals.
func wellLaid(t interface{ Fatalf(string, ...any) }, intervals []Interval) {
	end := int64(0)
	for _, l := range intervals {
		if l.Start < end || l.Width < 0 || l.Width > l.Laid || l.Class == "" {
			t.Fatalf("got %+v", intervals)
		}
		end = l.Start + l.Laid
	}
	if end > Space {
		t.Fatalf("got %+v beyond the space", intervals)
	}
}

// Over any imports, sign-ins and deletions, a digest that has drawn a class draws it until it draws the
// costs of new hashes. Only an import that needs more than what has drawn no class takes others, too.
func TestLay_WhatADigestDrawsOnlyBecomesNative(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts := map[string]int64{"": int64(rapid.IntRange(0, 1000).Draw(t, "new hashes"))}
		var intervals []Interval
		var digests []int64
		for range 300 {
			digests = append(digests, int64(rand.Uint32()))
		}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			imports := rapid.Bool().Draw(t, "imports")
			if imports {
				class := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "class")
				counts[class] += int64(rapid.IntRange(1, 1000).Draw(t, "imported"))
			} else {
				for _, class := range slices.Sorted(maps.Keys(counts)) { // signed in, or deleted
					gone := int64(rapid.IntRange(0, int(counts[class])).Draw(t, "gone"))
					counts[class] -= gone
					counts[""] += gone / 2
				}
			}
			before, free := intervals, int64(Space)
			for _, l := range before {
				free -= l.Laid
			}
			intervals = Lay(before, counts, imports)
			wellLaid(t, intervals)
			laid := int64(0)
			for _, l := range intervals {
				laid += l.Laid
			}
			enough := laid < Space // what has drawn no class was enough
			widths := map[string]int64{}
			for _, l := range intervals {
				widths[l.Class] += l.Width
			}
			target := shares(counts)
			for class, width := range widths {
				if width > target[class] {
					t.Fatalf("class %s draws %d, its share is %d", class, width, target[class])
				}
			}
			for class, share := range target {
				if imports && share-widths[class] >= minGrowth {
					t.Fatalf("class %s draws %d after an import, its share is %d", class, widths[class], share)
				}
			}
			for _, digest := range digests {
				was, is := drawnClass(before, digest), drawnClass(intervals, digest)
				if was != is && is != "" && (!imports || was != "" && enough) {
					t.Fatalf("digest %d drew %q, and draws %q after %v (import: %t)", digest, was, is, counts, imports)
				}
			}
		}
	})
}

func TestLay_ManyClassesShareBoundedIntervals(t *testing.T) {
	counts := map[string]int64{"": 1000, "most": 1000}
	for i := range 2000 {
		counts[fmt.Sprint("rounds ", i)] = 1
	}
	intervals := Lay(nil, counts, true)
	wellLaid(t, intervals)
	foreign := int64(0)
	for _, l := range intervals {
		foreign += l.Width
		if share := float64(l.Width) / Space; math.Abs(share-float64(counts[l.Class])/4000) > 0.02 {
			t.Errorf("class %s draws %.3f", l.Class, share)
		}
	}
	if len(intervals) != maxClasses || math.Abs(float64(foreign)/Space-0.75) > 0.001 {
		t.Errorf("got %d intervals that draw %.3f, want %d and 0.75", len(intervals), float64(foreign)/Space, maxClasses)
	}
	if again := Lay(intervals, counts, true); !reflect.DeepEqual(again, intervals) {
		t.Errorf("laying again changed them")
	}
}

// A CMS may import daily, for years.
func TestLay_RepeatedImportsDoNotAddIntervalsWithoutEnd(t *testing.T) {
	computesAlone(t)
	var intervals []Interval
	random := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		counts := map[string]int64{"": 1000 + random.Int64N(1000)}
		for i := range 70 {
			counts[fmt.Sprint("rounds ", i)] = random.Int64N(1000)
		}
		intervals = Lay(intervals, counts, true)
		wellLaid(t, intervals)
	}
	if most := 20 * maxClasses; len(intervals) > most {
		t.Errorf("got %d intervals after 60 imports, want %d at most", len(intervals), most)
	}
}
