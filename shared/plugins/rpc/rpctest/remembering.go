package rpctest

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// comparedSessions is how many of the last sessions are compared after each operation: those of the
// users whom it concerned, and some of others.
const comparedSessions = 4

// Remembering returns the operations of a client that uses remembered profiles wherever it may.
// After each operation it reads the profiles of the last sessions twice, remembered and
// from the plugin, and fails the test if they differ: then the operation changed more than
// its row of [personal.Operations] says. It does not compare while a job fills user fields.
func Remembering(t testing.TB, conn grpc.ClientConnInterface, host personal.Host) personaltest.Contract {
	r := &remembering{t: t}
	r.connect = func() *rpc.Client {
		client := rpc.NewClient(conn, host)
		client.Observe(func(operation personal.OperationName, _ personal.Code, _ time.Duration) {
			if operation == personal.OpProfile {
				r.asked.Add(1)
			}
		})
		return client
	}
	r.client = r.connect()
	return personaltest.HandledBy(r.handle)
}

type remembering struct {
	t       testing.TB
	connect func() *rpc.Client // returns a client that remembers nothing
	asked   atomic.Int64       // how often the plugin was asked for a profile

	mu       sync.RWMutex // held for writing while profiles are compared
	client   *rpc.Client
	sessions []personal.Credentials
	filling  bool
}

func (r *remembering) handle(ctx context.Context, operation personal.OperationName, request any) (any, error) {
	result, err := r.call(personal.AllowRemembered(ctx), operation, request)

	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(reflect.ValueOf(request))
	r.add(reflect.ValueOf(result))
	if operation == personal.OpFillFields && err == nil {
		r.filling = true
	}
	if fill, ok := result.(personal.FieldsFill); ok && r.filling && fill.State != personal.FillRunning {
		r.filling, r.client = false, r.connect()
	}
	if !r.filling && operation != personal.OpConfirmTwoFactor { // which can be repeated until its pair is used
		r.compare(context.WithoutCancel(ctx), operation)
	}
	return result, err
}

func (r *remembering) call(ctx context.Context, operation personal.OperationName, request any) (result any, err error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	in := []reflect.Value{reflect.ValueOf(ctx)}
	if request != nil {
		in = append(in, reflect.ValueOf(request))
	}
	out := reflect.ValueOf(r.client).MethodByName(string(operation)).Call(in)
	err, _ = out[len(out)-1].Interface().(error)
	if len(out) == 2 {
		result = out[0].Interface()
	}
	return result, err
}

// add adds the credentials within a request or result.
func (r *remembering) add(v reflect.Value) {
	if v.Kind() != reflect.Struct {
		return
	}
	if c, ok := v.Interface().(personal.Credentials); ok {
		if c != (personal.Credentials{}) && !slices.Contains(r.sessions, c) {
			r.sessions = append(r.sessions, c)
			r.sessions = r.sessions[max(0, len(r.sessions)-comparedSessions):]
		}
		return
	}
	for i := range v.NumField() {
		if v.Type().Field(i).IsExported() {
			r.add(v.Field(i))
		}
	}
}

// compare also has the profiles remembered for the comparison after the next operation. What was not
// remembered is new, so there is nothing to compare it with. Sessions that have ended are forgotten.
func (r *remembering) compare(ctx context.Context, operation personal.OperationName) {
	var alive []personal.Credentials
	for _, c := range r.sessions {
		asked := r.asked.Load()
		remembered, errRemembered := r.client.Profile(personal.AllowRemembered(ctx), c)
		if r.asked.Load() > asked {
			if personal.CodeOf(errRemembered) != personal.CodeUnauthenticated {
				alive = append(alive, c)
			}
			continue
		}
		alive = append(alive, c)
		fresh, err := r.client.Profile(ctx, c)
		remembered.FreshFor, fresh.FreshFor = 0, 0 // the hash may be a superseded one now
		if got, want := personal.CodeOf(errRemembered), personal.CodeOf(err); got != want {
			r.t.Errorf("after %s the remembered profile of user %d got code %q, a fresh one %q: "+
				"correct the column Changes of personal.Operations", operation, c.UserID, got, want)
		} else if diff := cmp.Diff(fresh, remembered); diff != "" {
			r.t.Errorf("after %s the remembered profile of user %d differs (-fresh +remembered); "+
				"correct the column Changes of personal.Operations:\n%s", operation, c.UserID, diff)
		}
	}
	r.sessions = alive
}
