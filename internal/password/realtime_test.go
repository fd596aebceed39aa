//go:build !race

// The race detector changes how long hashings take, so this compares real times without it.

package password

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestVerify_FailuresTakeTheSameTime compares real times of failures with a foreign
// hash and without an account. Other work on the machine disturbs them, so each
// format has many attempts. Cases of one format share a measurement until an attempt fails. The
// costs of foreign hashes are low; what counts is whether they are above or below those of new ones.
func TestVerify_FailuresTakeTheSameTime(t *testing.T) {
	small := Params{MemoryKiB: 1024, Time: 1, Threads: 1}
	half := Params{MemoryKiB: owasp.MemoryKiB / 2, Time: owasp.Time, Threads: owasp.Threads}
	middle := halfOf(t, measure(newHasher(t, half).dummy.stored()))
	slow := dummyText("$2y$07$")
	type measured struct {
		params Params
		format string
	}
	hashers := map[measured]*Hasher{}
	for name, test := range map[string]struct {
		params  Params
		encoded string // of phrase or of no password
		entered string
	}{
		"slow":                          {small, slow, "wrong"},
		"slow, two forms":               {small, slow, "cafe\u0301"},
		"slow phpass, a short password": {small, dummyText("$P$9"), "wrong"},
		"fast":                          {half, md5Of(phrase), "wrong"},
		"middle":                        {half, middle, "wrong"},
		"middle, two forms":             {half, middle, "cafe\u0301"},
		"phpass, a short password":      {half, dummyText("$P$7"), "wrong"},
		"phpass, the longest password":  {half, dummyText("$P$7"), longest},

		"SHA-256 crypt, a short password":          {small, dummyText("$5$rounds=5120$"), "wrong"},
		"SHA-256 crypt, the longest password":      {small, dummyText("$5$rounds=5120$"), longest},
		"SHA-256 crypt among slower hashes":        {half, dummyText("$5$rounds=1024$"), "wrong"},
		"SHA-256 crypt among slower ones, longest": {half, dummyText("$5$rounds=1024$"), longest},
		"SHA-512 crypt, a short password":          {small, dummyText("$6$rounds=5120$"), "wrong"},
		"SHA-512 crypt, the longest password":      {small, dummyText("$6$rounds=5120$"), longest},
		"SHA-512 crypt, a password of 512 bytes":   {small, dummyText("$6$rounds=5120$"), longest[:maxCryptBytes]},
		"SHA-512 crypt among slower ones, longest": {half, dummyText("$6$rounds=1024$"), longest},
		"MD5 crypt":                              {half, dummyText("$1$"), "wrong"},
		"MD5 crypt, the longest password":        {half, dummyText("$1$"), longest},
		"Drupal, a short password":               {small, dummyText("$S$B"), "wrong"},
		"Drupal, the longest password":           {small, dummyText("$S$B"), longest},
		"Drupal among slower hashes":             {half, dummyText("$S$9"), longest},
		"Drupal of Drupal 6":                     {small, dummyText("U$S$C"), longest},
		"PBKDF2 with SHA-512":                    {small, dummyText("$pbkdf2-sha512$i=7168$"), "wrong"},
		"PBKDF2 of Keycloak":                     {small, dummyText("$pbkdf2-sha256$i=14336$"), longest},
		"phpBB, combined":                        {small, dummyText("$phpbb$2y$07$9$"), "wrong"},
		"phpBB, combined, the longest password":  {small, dummyText("$phpbb$2y$07$9$"), longest},
		"phpBB, combined, among slower hashes":   {half, dummyText("$phpbb$2y$04$8$"), longest},
		"bcrypt_sha256":                          {small, dummyText("bcrypt_sha256$$2b$07$"), "wrong"},
		"digest":                                 {half, dummyText("$digest$"), longest},
		"wrapped phpass, a short password":       {half, dummyText(wrappedFormat + "$P$9"), "wrong"},
		"wrapped phpass, the longest password":   {half, dummyText(wrappedFormat + "$P$9"), longest},
		"wrapped SHA-512 crypt, longest":         {half, dummyText(wrappedFormat + "$6$rounds=5120$"), longest},
		"wrapped phpass of lower costs, short":   {half, dummyText("$argon2id-of$v=19$m=4864,t=2,p=1$$P$A"), "wrong"},
		"wrapped phpass of lower costs, longest": {half, dummyText("$argon2id-of$v=19$m=4864,t=2,p=1$$P$A"), longest},
		"wrapped SHA-512 crypt, short":           {half, dummyText(wrappedFormat + "$6$rounds=5120$"), "wrong"},
	} {
		t.Run(name, func(t *testing.T) {
			const limit = 1.35
			var ratio float64
			of := measured{test.params, Format(test.encoded)}
			for range 30 {
				h := hashers[of]
				if h == nil {
					h = newHasher(t, test.params)
					h.Measure(t.Context(), []string{of.format})
					hashers[of] = h
				}
				ratio = failureRatio(t, h, test.encoded, test.entered)
				t.Logf("ratio %.2f, floor %v", ratio, h.Floor())
				if ratio < limit && ratio > 1/limit {
					return
				}
				delete(hashers, of)
			}
			t.Errorf("got %.2f times the time of an unknown account, want less than %v", ratio, limit)
		})
	}
}

// wrappedFormat begins the format of hashes that are wrapped with half the costs of owasp.
const wrappedFormat = "$argon2id-of$v=19$m=9728,t=2,p=1$"

// failureRatio returns the median time of a failed verification relative to that of
// an unknown account, of interleaved runs.
func failureRatio(t *testing.T, h *Hasher, encoded, entered string) float64 {
	var known, unknown []time.Duration
	for range 3 {
		known = append(known, elapsed(func() { mustVerify(t, h, encoded, entered, Result{}) }))
		unknown = append(unknown, elapsed(func() { _ = h.VerifyDummy(t.Context(), user, entered) }))
	}
	slices.Sort(known)
	slices.Sort(unknown)
	return float64(known[len(known)/2]) / float64(unknown[len(unknown)/2])
}

// halfOf returns a PBKDF2 that takes about half of the given time.
func halfOf(t *testing.T, whole time.Duration) string {
	const some = 10_000
	of := func(iterations int) string { return fmt.Sprintf("pbkdf2_sha256$%d$salt$%s=", iterations, zeroSum) }
	s, err := parse(of(some))
	if err != nil {
		t.Fatal(err)
	}
	return of(max(1, int(some*float64(whole)/2/float64(measure(s)))))
}
