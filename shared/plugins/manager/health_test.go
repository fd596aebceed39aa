package manager

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"pgregory.net/rapid"
)

func TestTally_JudgesOnlyTheLastCalls(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		calls := rapid.SliceOfN(rapid.Bool(), 0, 200).Draw(t, "calls")
		var got tally
		for _, failed := range calls {
			got.count(failed)
		}
		last := calls[max(0, len(calls)-tallyWindow):]
		failures := 0
		for _, failed := range last {
			if failed {
				failures++
			}
		}
		want := len(last) >= tallyMin && 2*failures > len(last)
		if got.tooMany() != want {
			t.Fatalf("%d of the last %d calls failed: got tooMany %v, want %v", failures, len(last), got.tooMany(), want)
		}
	})
}

func TestIsVersionFailure_BlamesTheProcessOnlyForItsOwnErrors(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		ctx  context.Context
		code codes.Code
		took time.Duration
		want bool
		busy bool // whether it is to blame in an overload
	}{
		"success":        {t.Context(), codes.OK, time.Hour, false, false},
		"internal error": {t.Context(), codes.Internal, 0, true, true},
		"internal error after the caller is gone": {over, codes.Internal, 0, false, false},
		"caller cancels":                   {over, codes.Canceled, 4 * time.Second, false, false},
		"caller cancels after a long time": {over, codes.Canceled, 5 * time.Second, true, false},
		"connection is lost":               {t.Context(), codes.Unavailable, 0, true, true},
		"deadline is short":                {over, codes.DeadlineExceeded, time.Second, false, false},
		"deadline is long":                 {over, codes.DeadlineExceeded, 2 * time.Second, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := &Manager{limits: defaultLimits}
			for p, want := range map[*instance]bool{{}: test.want, {overload: time.Now()}: test.busy} {
				if got := m.isVersionFailure(test.ctx, p, status.Error(test.code, "why"), test.took); got != want {
					t.Errorf("overload %v: got %v, want %v", p.overload, got, want)
				}
			}
		})
	}
}

func TestIsServed_ResultsAndRefusalsAreOutagesAndFailuresAreNot(t *testing.T) {
	for code, want := range map[codes.Code]bool{
		codes.OK: true, codes.Unauthenticated: true, codes.ResourceExhausted: true, codes.Unavailable: false, codes.Internal: false,
	} {
		s := status.New(code, "why")
		if code != codes.OK {
			var err error
			if s, err = s.WithDetails(&emptypb.Empty{}); err != nil { // from the plugin
				t.Fatal(err)
			}
		}
		if got := isServed(s.Err()); got != want {
			t.Errorf("%s from the plugin: got %v, want %v", code, got, want)
		}
		if got := isServed(status.Error(code, "why")); got != (code == codes.OK) {
			t.Errorf("%s from the transport: got %v, want %v", code, got, code == codes.OK)
		}
	}
}
