package manager

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

func TestFigures_WarnOfWhatGetsWorse(t *testing.T) {
	of := func(n, failed, refused int, took time.Duration) (f figures) {
		for i := range n {
			call := endedCall{Call: rpc.Call{Operation: personal.OpProfile}, took: took, failed: i < failed}
			if i < refused {
				call.Code = personal.CodeInvalidCredentials
			}
			f.count(call)
		}
		return f
	}
	for name, test := range map[string]struct {
		old, new figures
		want     []string
	}{
		"the same":             {of(100, 5, 5, time.Second), of(100, 5, 5, time.Second), nil},
		"a little worse":       {of(100, 0, 10, 10*time.Millisecond), of(100, 9, 19, 49*time.Millisecond), nil},
		"slower, but quick":    {of(100, 0, 0, time.Millisecond), of(100, 0, 0, 9*time.Millisecond), nil},
		"too few calls":        {of(100, 0, 0, time.Millisecond), of(19, 19, 19, time.Second), nil},
		"too few calls before": {of(19, 0, 0, time.Millisecond), of(100, 100, 100, time.Second), nil},
		"much worse": {of(200, 0, 20, time.Millisecond), of(20, 2, 8, 40*time.Millisecond), []string{
			"Profile fails in 10 % of calls, 0 % before", "Profile is 401 in 40 % of calls, 10 % before", "Profile is slow: p95 40ms, 1ms before",
		}},
		"only the last calls count": {of(100, 0, 0, time.Millisecond), func() figures {
			f := of(100, 100, 100, time.Second)
			for range figureWindow {
				f.count(endedCall{Call: rpc.Call{Operation: personal.OpProfile}})
			}
			return f
		}(), nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, w := range test.new.warnings(test.old) {
				got = append(got, w.text)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAcceptedSessions_AreBounded(t *testing.T) {
	a := newAcceptedSessions()
	digest := func(user int64, hash string) sessionDigest {
		return a.digest(personal.Credentials{UserID: user, UserHash: hash})
	}
	one := digest(1, "a")
	if one != digest(1, "a") || one == digest(2, "a") || one == digest(1, "b") ||
		one == newAcceptedSessions().digest(personal.Credentials{UserID: 1, UserHash: "a"}) {
		t.Error("got digests that do not stand for user, hash and key")
	}
	a.add(0, a.digest(personal.Credentials{}))
	for user := range int64(maxAcceptedUsers + 10) {
		a.add(user+1, digest(user+1, "a"))
	}
	if len(a.users) != maxAcceptedUsers || a.find(maxAcceptedUsers+10, digest(maxAcceptedUsers+10, "a")) == nil {
		t.Errorf("got %d users, want %d with the last one", len(a.users), maxAcceptedUsers)
	}
}
