package pluginmanager

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"pgregory.net/rapid"
)

func TestATallyJudgesTheLastCallsAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		calls := rapid.SliceOfN(rapid.Bool(), 0, 200).Draw(t, "calls")
		var got tally
		for _, failed := range calls {
			got.count(failed)
		}
		last := calls[max(0, len(calls)-tallyWindow):]
		faults := 0
		for _, failed := range last {
			if failed {
				faults++
			}
		}
		want := len(last) >= tallyLeast && 2*faults > len(last)
		if got.tooMany() != want {
			t.Fatalf("%d of the last %d calls failed: judged %v", faults, len(last), got.tooMany())
		}
	})
}

func TestACallFailsByItsProcessOrNot(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		ctx  context.Context
		code codes.Code
		long bool
		want bool
	}{
		"it succeeds":                        {t.Context(), codes.OK, true, false},
		"it fails internally":                {t.Context(), codes.Internal, false, true},
		"it fails as its caller goes away":   {over, codes.Internal, false, false},
		"its caller goes away after a while": {over, codes.Canceled, true, false},
		"the connection is lost":             {t.Context(), codes.Unavailable, false, true},
		"it has a short deadline":            {over, codes.DeadlineExceeded, false, false},
		"it had time enough":                 {over, codes.DeadlineExceeded, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := isFault(test.ctx, status.Error(test.code, "why"), test.long); got != test.want {
				t.Errorf("a fault: %v", got)
			}
		})
	}
}

func TestIsAnswer_ResultsAndRefusalsAreOutagesAndFailuresAreNot(t *testing.T) {
	for code, want := range map[codes.Code]bool{
		codes.OK: true, codes.Unauthenticated: true, codes.ResourceExhausted: true, codes.Unavailable: false, codes.Internal: false,
	} {
		s := status.New(code, "why")
		if code != codes.OK {
			var err error
			if s, err = s.WithDetails(&emptypb.Empty{}); err != nil { // the plugin's word
				t.Fatal(err)
			}
		}
		if got := isAnswer(s.Err()); got != want {
			t.Errorf("%s from the plugin: got %v, want %v", code, got, want)
		}
		if got := isAnswer(status.Error(code, "why")); got != (code == codes.OK) {
			t.Errorf("%s from the transport: got %v", code, got)
		}
	}
}
