package storetest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/password"
)

const (
	bcrypt5 = "$2y$05$32NViFI06tEIA85AKhLuI.oKKe.Pz.nndt.Dl8nJiju5UIxRBJkRy"
	bcrypt6 = "$2y$06$32NViFI06tEIA85AKhLuI.oKKe.Pz.nndt.Dl8nJiju5UIxRBJkRy"
	phpass  = "$waits$$P$BfEAVu23ObjBkUbr6.1RaiASnSr9u9/"
)

// classHasher returns a hasher with these costs, and a hash that it makes.
func (w *world) classHasher(memoryKiB uint32) (h *password.Hasher, hash string) {
	h, err := password.New(password.Params{MemoryKiB: memoryKiB, Time: 1, Threads: 1}, 1)
	w.must(err)
	return h, h.Format() + "c2FsdHNhbHRzYWx0c2FsdA$MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"
}

// addHashes adds accounts with these hashes, as an import does.
func (w *world) addHashes(n int, hashes ...string) {
	var batch []accounts.Account
	for _, hash := range hashes {
		for range n {
			a := w.newAccount()
			a.PasswordHash = hash
			batch = append(batch, a)
		}
	}
	w.add(batch...)
}

// wantClasses checks the hundredths of the digests that draw each class, which are named by their
// beginnings.
func (w *world) wantClasses(want map[string]int) {
	w.t.Helper()
	intervals, err := w.Classes(w.t.Context())
	w.must(err)
	drawn, end := map[string]float64{}, int64(0)
	for _, l := range intervals {
		if l.Start < end || l.Start+l.Laid > password.Space {
			w.t.Errorf("got the intervals %+v", intervals)
		}
		end = l.Start + l.Laid
		for name := range want {
			if strings.HasPrefix(l.Class, name) {
				drawn[name] += float64(l.Width) / password.Space
			}
		}
	}
	for name, hundredths := range want {
		if math.Abs(drawn[name]*100-float64(hundredths)) > 0.5 {
			w.t.Errorf("%s: got %.1f hundredths of %+v, want %d", name, drawn[name]*100, intervals, hundredths)
		}
	}
}

var classCases = []testCase{
	{"classes are laid after imports, by their shares", func(t *testing.T, w *world) {
		h, current := w.classHasher(8)
		w.addHashes(1, current, current, bcrypt5, bcrypt5, phpass, "!", "no hash")
		w.must(w.UpdateClasses(t.Context(), h, true))
		w.wantClasses(map[string]int{"": 60, "$2y$05$": 40, "$argon2id-of$v=19$m=8,t=1,p=1$": 20})
		first, err := w.Classes(t.Context())
		w.must(err)
		w.addHashes(5, bcrypt6)
		w.must(w.UpdateClasses(t.Context(), h, true))
		w.wantClasses(map[string]int{"": 80, "$2y$05$": 20, "$2y$06$": 50, "$argon2id-of$": 10})
		second, err := w.Classes(t.Context())
		w.must(err)
		for _, l := range first { // they shrink in their places
			if !slices.ContainsFunc(second, func(o password.Interval) bool { return o.Class == l.Class && o.Start == l.Start && o.Width < l.Width }) {
				t.Errorf("got %+v after %+v", second, first)
			}
		}
	}},
	{"classes shrink once a day, and do not grow", func(t *testing.T, w *world) {
		h, current := w.classHasher(8)
		w.addHashes(2, current, bcrypt5)
		w.must(w.UpdateClasses(t.Context(), h, true))
		w.pass(time.Hour)
		accountsOf, err := w.AccountsAfter(t.Context(), 0, 10)
		w.must(err)
		change := func(i int, hash string) {
			w.must(w.ReplaceHash(t.Context(), accountsOf[i].ID, accountsOf[i].PasswordHash, hash))
			accountsOf[i].PasswordHash = hash
		}
		change(2, current)
		w.must(w.UpdateClasses(t.Context(), h, false))
		w.wantClasses(map[string]int{"$2y$05$": 50})
		w.pass(24 * time.Hour)
		w.must(w.UpdateClasses(t.Context(), h, false))
		w.wantClasses(map[string]int{"$2y$05$": 25})
		change(0, bcrypt5)
		change(1, bcrypt5)
		w.pass(25 * time.Hour)
		w.must(w.UpdateClasses(t.Context(), h, false))
		w.wantClasses(map[string]int{"$2y$05$": 25})
	}},
	{"former costs of new hashes are a class, at once", func(t *testing.T, w *world) {
		h, current := w.classHasher(8)
		w.addHashes(4, current)
		w.addHashes(1, bcrypt5)
		w.must(w.UpdateClasses(t.Context(), h, true))
		w.pass(time.Hour)
		higher, _ := w.classHasher(16)
		w.must(w.UpdateClasses(t.Context(), higher, false))
		w.wantClasses(map[string]int{current[:24]: 80, "$2y$05$": 20})
		w.must(w.UpdateClasses(t.Context(), h, false)) // and back
		w.wantClasses(map[string]int{current[:24]: 0, "$2y$05$": 20})
	}},
	{"classes stay while accounts are imported, and are laid after an import that was killed", func(t *testing.T, w *world) {
		h, current := w.classHasher(8)
		w.addHashes(2, current, bcrypt5)
		w.must(w.UpdateClasses(t.Context(), h, true))
		w.pass(25 * time.Hour)
		w.addHashes(6, bcrypt6)
		w.must(w.UpdateClasses(t.Context(), h, false))
		w.wantClasses(map[string]int{"$2y$05$": 50, "$2y$06$": 0})
		w.pass(11 * time.Minute)
		w.must(w.UpdateClasses(t.Context(), h, false))
		w.wantClasses(map[string]int{"$2y$05$": 20, "$2y$06$": 60})
	}},
	{"hashes are counted over many pages", func(t *testing.T, w *world) {
		h, current := w.classHasher(8)
		for range 3 {
			w.addHashes(2000, current, bcrypt5)
		}
		w.must(w.UpdateClasses(t.Context(), h, true))
		w.wantClasses(map[string]int{"": 50})
		if all, err := w.Classes(t.Context()); err != nil || len(all) != 1 {
			t.Errorf("got %s, error %v", fmt.Sprint(all), err)
		}
	}},
}
