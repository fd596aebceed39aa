package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/shared/personal"
)

var exportCases = []testCase{
	{"known addresses of one account, the last seen first", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		other, _ := w.createAny()
		var want []personal.KnownAddress
		for _, address := range []string{"192.0.2.2", "192.0.2.1", "2001:db8::/64"} {
			w.must(w.AddKnownAddress(t.Context(), a.ID, accounts.KnownAt{Address: address}, true))
			want = append([]personal.KnownAddress{{Address: address, LastSeen: w.Now()}}, want...)
			w.pass(time.Hour)
		}
		w.must(w.AddKnownAddress(t.Context(), other.ID, accounts.KnownAt{Address: "198.51.100.1"}, true))
		got, err := w.KnownAddresses(t.Context(), a.ID)
		w.must(err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}},
}
