package accounts

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/cms-personal/personal/internal/password"
)

// keyStore keeps the keys of a database.
type keyStore struct {
	Store
	keys map[string][]byte
}

func (s keyStore) Key(_ context.Context, name string, candidate []byte) ([]byte, error) {
	if s.keys[name] == nil {
		s.keys[name] = candidate
	}
	return s.keys[name], nil
}

// drawer remembers what was drawn last.
type drawer struct {
	Hasher
	digest uint32
}

func (d *drawer) VerifyDummy(_ context.Context, _ password.Source, digest uint32, _ string) error {
	d.digest = digest
	return nil
}

// drawing returns a node on the keys of a database, and a function that returns what a login draws.
func drawing(t *testing.T, keys keyStore) func(login string) uint32 {
	d := &drawer{}
	s := &Service{store: keys, hasher: d, settings: Settings{LoginWithEmail: true}}
	return func(login string) uint32 {
		if _, err := s.verifyPassword(t.Context(), password.Unusable, s.typed(login), "wrong"); err != nil {
			t.Fatal(err)
		}
		return d.digest
	}
}

func TestDraw_EachClassByItsShareOnEveryNode(t *testing.T) {
	counts := map[string]int64{"": 300, "a": 500, "b": 150, "c": 50}
	intervals := password.Lay(nil, counts, true)
	keys := keyStore{keys: map[string][]byte{}}
	node, other := drawing(t, keys), drawing(t, keys)
	drawn := map[string]float64{}
	for i := range 10_000 {
		login := fmt.Sprintf("user%d", i)
		digest := node(login)
		if other(login) != digest {
			t.Fatalf("%s draws another class on another node, or after a restart", login)
		}
		class := ""
		for _, l := range intervals {
			if int64(digest) >= l.Start && int64(digest) < l.Start+l.Width {
				class = l.Class
			}
		}
		drawn[class]++
	}
	for class, n := range counts {
		if got, want := drawn[class]/10_000, float64(n)/1000; math.Abs(got-want) > 0.02 {
			t.Errorf("class %q: got %.3f, want %.3f", class, got, want)
		}
	}
	elsewhere, same := drawing(t, keyStore{keys: map[string][]byte{}}), 0
	for i := range 1000 {
		if login := fmt.Sprintf("user%d", i); node(login)>>24 == elsewhere(login)>>24 {
			same++
		}
	}
	if same > 50 {
		t.Errorf("got %d of 1000 equal draws with another key", same)
	}
}

func TestDraw_EverySpellingOfALoginDrawsTheSame(t *testing.T) {
	draw := drawing(t, keyStore{keys: map[string][]byte{}})
	for _, spellings := range [][]string{
		{"ada", "ADA", "Ａｄａ"},
		{"жук", "ЖУК"},
		{"ada@bücher.example", "Ada@BÜCHER.example", "ADA@xn--bcher-kva.example", "ada@XN--BCHER-KVA.EXAMPLE"},
		{"ada@example.org", "Ada@Example.ORG"},
	} {
		for _, spelling := range spellings[1:] {
			if draw(spelling) != draw(spellings[0]) {
				t.Errorf("%q draws another class than %q", spelling, spellings[0])
			}
		}
	}
	if draw("ada") == draw("bob") || draw("ad") == draw("bo") || draw("a b") == draw("A b") {
		t.Error("got the same for different texts")
	}
}
