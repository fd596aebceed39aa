package rpc_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

func TestObserve_IsToldOfEveryCall(t *testing.T) {
	var err error
	p := &verifyingPlugin{respond: func(context.Context, any) error { return err }}
	c := rpc.NewClient(p, newFakeHost("1"))
	var mu sync.Mutex
	var got []string
	c.Observe(func(operation personal.OperationName, code personal.Code, took time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		if took < 0 {
			t.Errorf("%s: got the duration %s", operation, took)
		}
		got = append(got, string(operation)+" "+string(code))
	})
	for _, err = range []error{nil, personal.NewError(personal.CodeUnavailable, nil), personal.NewError(personal.CodeUnauthenticated, nil)} {
		_, _ = c.Profile(t.Context(), pair)
	}
	if want := []string{"Profile ", "Profile unavailable", "Profile unauthenticated"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
