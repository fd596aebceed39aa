package main

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

var scratchStart = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func scratchNode(t *testing.T) *node {
	t.Helper()
	n := newNode(t, rpc.Configuration{
		DatabaseURL: testkit.SQLite(t), Settings: []byte("[session]\nidle = \"90m\"\n[registration]\nenabled = true"), Scratch: &rpc.Scratch{Now: scratchStart},
	})
	n.begin(t)
	if err := n.Activate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n
}

func turn(t *testing.T, n *node, advance time.Duration, work bool) rpc.Turn {
	t.Helper()
	got, err := n.Turn(t.Context(), advance, work, work)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestTurn_ProcessThatServesIsNotFound(t *testing.T) {
	n := newNode(t, rpc.Configuration{DatabaseURL: testkit.SQLite(t)})
	if _, err := n.Turn(t.Context(), time.Hour, true, true); !errors.Is(err, rpc.ErrNotScratch) {
		t.Errorf("got %v, want ErrNotScratch", err)
	}
}

func TestTurn_MovesTheClockAndDoesTheWork(t *testing.T) {
	n := scratchNode(t)
	first := turn(t, n, 0, true)
	if first.Durations["session.idle"] != 90*time.Minute || first.Durations["throttle.guess.every"] != time.Minute {
		t.Errorf("got durations %v, want those of the settings by their keys", first.Durations)
	}
	in, err := n.Service().Register(t.Context(), personal.RegisterRequest{
		Login: "anna", Email: "anna@site.example", Password: "correct horse", ConfirmPassword: "correct horse",
	})
	if err != nil {
		t.Fatal(err)
	}
	work := turn(t, n, 0, true)
	if work.Statements == 0 || work.Rows["personal_accounts"] != 1 || work.Rows["personal_jobs"] != 0 || work.Goroutines == 0 || work.Heap == 0 ||
		work.Durations != nil {
		t.Errorf("got %+v, want the work of a registration, whose jobs are done", work)
	}
	if still := n.store.Now(); !still.Equal(scratchStart) {
		t.Errorf("got the time %v, want that it stands still", still)
	}
	turn(t, n, 91*time.Minute, false)
	if _, err := n.Service().Profile(t.Context(), in.Credentials); personal.CodeOf(err) != personal.CodeUnauthenticated {
		t.Errorf("got %v, want that the session has expired", err)
	}
	if pruned := turn(t, n, 0, true); pruned.Rows["personal_sessions"] != 0 {
		t.Errorf("got rows %v, want that periodic work has removed the session", pruned.Rows)
	}
}

func TestTurn_ReportsScansOnce(t *testing.T) {
	n := scratchNode(t)
	turn(t, n, 0, true)
	for _, want := range [][]string{{"personal_accounts"}, nil} {
		for _, login := range []string{"anna", "o'brien; --"} {
			if _, err := n.Administration().FindUsers(t.Context(), personal.FindUsersRequest{Search: login}); err != nil {
				t.Fatal(err)
			}
		}
		if got := turn(t, n, 0, false); !slices.Equal(got.Scans, want) || got.Statements < 2 {
			t.Errorf("got %+v, want scans of %v", got, want)
		}
	}
}
