package pluginmanager

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	tallyWindow = 40 // calls that are looked back at
	tallyLeast  = 20 // calls below which nothing is judged
	minOverload = 20 // calls under way below which no load excuses a process
)

// tally remembers which of a process's last calls failed. The zero tally is
// empty.
type tally struct {
	failed [tallyWindow]bool
	calls  int // ever, or since the tally was emptied
	faults int // within the window
}

func (t *tally) count(failed bool) {
	i := t.calls % tallyWindow
	if t.calls >= tallyWindow && t.failed[i] {
		t.faults--
	}
	t.failed[i] = failed
	if failed {
		t.faults++
	}
	t.calls++
}

// tooMany reports whether more than half of the last calls failed.
func (t *tally) tooMany() bool {
	n := min(t.calls, tallyWindow)
	return n >= tallyLeast && 2*t.faults > n
}

// isAnswer reports whether the process did what a call asked for, or said what is
// wrong with it. That it cannot answer now, and that it failed, is no answer.
func isAnswer(err error) bool {
	switch s := status.Convert(err); s.Code() {
	case codes.OK:
		return true
	case codes.Unavailable, codes.Internal, codes.Unknown, codes.DataLoss:
		return false
	default:
		return len(s.Details()) > 0
	}
}

// isFault reports whether a call failed by the process's fault: internally, or
// because the process was not to be reached, or did not answer in a time that
// was long for its load. That it says it is overloaded, that the time was too
// short, or that the caller went away, is no fault of its version's.
func isFault(ctx context.Context, err error, long bool) bool {
	if err == nil {
		return false
	}
	s := status.Convert(err)
	if s.Code() == codes.DeadlineExceeded {
		return long
	}
	if ctx.Err() != nil {
		return false
	}
	switch s.Code() {
	case codes.Internal, codes.Unknown, codes.DataLoss:
		return true
	case codes.Unavailable, codes.Canceled:
		return len(s.Details()) == 0 // the transport's word, not the plugin's
	}
	return false
}
