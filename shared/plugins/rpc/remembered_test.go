package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// verifyingPlugin is a connection to a plugin process without a process: it responds
// in the caller's goroutine, so that it works with the clock of [synctest].
type verifyingPlugin struct {
	grpc.ClientConnInterface
	freshFor time.Duration
	respond  func(ctx context.Context, request any) error // may be nil
	asked    atomic.Int64                                 // calls of Profile
	switches atomic.Int64
}

func (p *verifyingPlugin) Switches() int { return int(p.switches.Load()) }

func (p *verifyingPlugin) Invoke(ctx context.Context, _ string, args, reply any, _ ...grpc.CallOption) error {
	if _, ok := args.(*personalv1.ProfileRequest); ok {
		n := p.asked.Add(1)
		r := reply.(*personalv1.ProfileResponse)
		r.Profile = &personalv1.Profile{Login: fmt.Sprint("result ", n), FreshFor: durationpb.New(p.freshFor)}
	}
	if p.respond == nil {
		return nil
	}
	return p.respond(ctx, args)
}

// verifyPage verifies the pair as a host does for a page.
func verifyPage(ctx context.Context, s personal.Service, pair personal.Credentials, timeout time.Duration) (personal.Profile, error) {
	ctx, cancel := context.WithTimeout(personal.AllowRemembered(ctx), timeout)
	defer cancel()
	return s.Profile(ctx, pair)
}

// wantAsked verifies the pair and checks how often the plugin has been asked by then.
func (p *verifyingPlugin) wantAsked(t *testing.T, c *rpc.Client, pair personal.Credentials, want int64) {
	t.Helper()
	if _, err := verifyPage(t.Context(), c, pair, time.Minute); err != nil {
		t.Fatal(err)
	}
	if got := p.asked.Load(); got != want {
		t.Fatalf("got %d calls of the plugin, want %d", got, want)
	}
}

func TestRemembered_RemembersForFreshFor(t *testing.T) {
	for name, tt := range map[string]struct {
		freshFor, callTakes, pause time.Duration
		want                       int64
	}{
		"just before it is over":               {freshFor: time.Second, pause: time.Second - 1, want: 1},
		"when it is over":                      {freshFor: time.Second, pause: time.Second, want: 2},
		"counted from the beginning of a call": {freshFor: time.Second, callTakes: time.Second / 2, pause: time.Second / 2, want: 2},
		"slow call whose time is over at once": {freshFor: time.Second, callTakes: time.Second, want: 2},
		"plugin does not allow it":             {want: 2},
		"negative time of a broken plugin":     {freshFor: -time.Second, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &verifyingPlugin{freshFor: tt.freshFor, respond: func(context.Context, any) error {
					time.Sleep(tt.callTakes)
					return nil
				}}
				c := rpc.NewClient(p, newFakeHost("1"))
				p.wantAsked(t, c, pair, 1)
				time.Sleep(tt.pause)
				p.wantAsked(t, c, pair, tt.want)
			})
		})
	}
}

func TestRemembered_RemembersByPairSchemaAndProcess(t *testing.T) {
	p := &verifyingPlugin{freshFor: time.Hour}
	host := newFakeHost("1")
	c := rpc.NewClient(p, host)
	p.wantAsked(t, c, pair, 1)
	p.wantAsked(t, c, personal.Credentials{UserID: pair.UserID, UserHash: "other"}, 2)
	p.wantAsked(t, c, personal.Credentials{UserID: pair.UserID + 1, UserHash: pair.UserHash}, 3)
	p.switches.Add(1)
	p.wantAsked(t, c, pair, 4)
	host.use("2")
	p.wantAsked(t, c, pair, 5)
	host.use("1")
	p.wantAsked(t, c, pair, 5)
}

func TestRemembered_DoesNotRememberErrors(t *testing.T) {
	p := &verifyingPlugin{freshFor: time.Hour}
	fail := true
	p.respond = func(context.Context, any) error {
		if fail {
			return personal.NewError(personal.CodeUnavailable, nil)
		}
		return nil
	}
	c := rpc.NewClient(p, newFakeHost("1"))
	if _, err := verifyPage(t.Context(), c, pair, time.Minute); personal.CodeOf(err) != personal.CodeUnavailable {
		t.Fatalf("got %v, want unavailable", err)
	}
	fail = false
	p.wantAsked(t, c, pair, 2)
	p.wantAsked(t, c, pair, 2)
}

// ownProfile is a service of a CMS that refuses some users, and knows nothing about
// remembered profiles.
type ownProfile struct {
	personal.Service
	calls   int
	refused bool
}

func (s *ownProfile) Profile(ctx context.Context, c personal.Credentials) (personal.Profile, error) {
	s.calls++
	if s.refused {
		return personal.Profile{}, personal.NewError(personal.CodeAccountDisabled, nil)
	}
	return s.Service.Profile(ctx, c)
}

// TestRemembered_WrappersOfTheClientKeepTheMemory counts the calls of the plugin for pages behind
// RequireUser.
func TestRemembered_WrappersOfTheClientKeepTheMemory(t *testing.T) {
	admission := &personal.Admission{Judge: func(context.Context, personal.AdmissionRequest) error { return nil }}
	own := &ownProfile{}
	for name, wrap := range map[string]func(*rpc.Client) personal.Service{
		"the client itself":            func(c *rpc.Client) personal.Service { return c },
		"struct that embeds a Service": func(c *rpc.Client) personal.Service { return struct{ personal.Service }{c} },
		"Admission":                    func(c *rpc.Client) personal.Service { return admission.Wrap(c) },
		"own Profile": func(c *rpc.Client) personal.Service {
			own.Service = admission.Wrap(c)
			return own
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := &verifyingPlugin{freshFor: time.Hour}
			api, err := personalhttp.New(wrap(rpc.NewClient(p, newFakeHost("1"))), personalhttp.Options{Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			page := api.RequireUser(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if personal.RememberedAllowed(r.Context()) {
					t.Error("got a page that may show a remembered profile, want that RequireUser alone may")
				}
			}))
			get := func(h http.Handler, path string) int {
				r := httptest.NewRequest("GET", path, nil)
				r.Header.Set("User-Id", "7")
				r.Header.Set("User-Hash", strings.Repeat("A", 43))
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				return w.Code
			}
			for range 3 {
				if status := get(page, "/page"); status != http.StatusOK {
					t.Fatalf("got %d, want 200", status)
				}
			}
			if got := p.asked.Load(); got != 1 {
				t.Errorf("got %d calls of the plugin for 3 pages, want 1", got)
			}
			if get(api, "/api/v1/personal/profile/"); p.asked.Load() != 2 {
				t.Errorf("got %d calls of the plugin after profile/, want 2: the API shows no remembered profile", p.asked.Load())
			}
			if name != "own Profile" {
				return
			}
			if own.calls != 4 {
				t.Errorf("got %d calls of the own Profile, want one for each request", own.calls)
			}
			own.refused = true
			if status := get(page, "/page"); status != http.StatusForbidden {
				t.Errorf("got %d for a user whom the own Profile refuses, want 403", status)
			}
		})
	}
}

// verifyAll verifies the pair for several callers at once and returns their results
// when all of them have one.
func verifyAll(ctx context.Context, c *rpc.Client, callers int) (logins []string, errs []error) {
	logins, errs = make([]string, callers), make([]error, callers)
	var running sync.WaitGroup
	for i := range callers {
		running.Go(func() {
			profile, err := verifyPage(ctx, c, pair, time.Minute)
			logins[i], errs[i] = profile.Login, err
		})
	}
	running.Wait()
	return logins, errs
}

func TestRemembered_ConcurrentCallersShareOneCall(t *testing.T) {
	for name, tt := range map[string]struct {
		freshFor time.Duration
		err      error
		want     int64
	}{
		"success":                        {freshFor: time.Hour, want: 1},
		"error":                          {err: personal.NewError(personal.CodeUnauthenticated, nil), want: 1},
		"nothing may be remembered":      {want: 2}, // the others share one that begins when the first has ended
		"time is over before the result": {freshFor: time.Second, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &verifyingPlugin{freshFor: tt.freshFor, respond: func(context.Context, any) error {
					time.Sleep(2 * time.Second) // all callers are waiting by then
					return tt.err
				}}
				_, errs := verifyAll(t.Context(), rpc.NewClient(p, newFakeHost("1")), 32)
				for _, err := range errs {
					if !errors.Is(err, tt.err) {
						t.Errorf("got %v, want %v", err, tt.err)
					}
				}
				if got := p.asked.Load(); got != tt.want {
					t.Errorf("got %d calls of the plugin, want %d", got, tt.want)
				}
			})
		})
	}
}

// A caller that comes when the result of a slow call is already too old asks for
// itself.
func TestRemembered_LateCallerDoesNotShareAnOldCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &verifyingPlugin{freshFor: time.Second, respond: func(context.Context, any) error {
			time.Sleep(3 * time.Second)
			return nil
		}}
		c := rpc.NewClient(p, newFakeHost("1"))
		go verifyPage(t.Context(), c, pair, time.Minute)
		time.Sleep(2 * time.Second)
		p.wantAsked(t, c, pair, 2)
	})
}

// A superseded hash, for example, is never remembered.
func TestRemembered_UnrememberedResultOfAnotherUserDoesNotPreventSharing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &verifyingPlugin{}
		c := rpc.NewClient(p, newFakeHost("1"))
		p.wantAsked(t, c, personal.Credentials{UserID: pair.UserID + 1, UserHash: "superseded"}, 1)
		p.freshFor = time.Hour
		p.respond = func(context.Context, any) error {
			time.Sleep(time.Second)
			return nil
		}
		verifyAll(t.Context(), c, 32)
		if got := p.asked.Load() - 1; got != 1 {
			t.Errorf("got %d calls of the plugin for 32 callers, want 1", got)
		}
	})
}

func TestRemembered_CancelledCallerDoesNotEndTheSharedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proceed := make(chan struct{})
		var call personal.Call
		p := &verifyingPlugin{freshFor: time.Hour, respond: func(ctx context.Context, _ any) error {
			call = personal.Call{RequestID: personal.CallFrom(ctx).RequestID}
			select {
			case <-proceed:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		c := rpc.NewClient(p, newFakeHost("1"))
		first, cancel := context.WithCancel(personal.WithCall(t.Context(), personal.Call{RequestID: "first"}))
		cancelled, shared := make(chan error), make(chan error)
		go func() { _, err := verifyPage(first, c, pair, time.Minute); cancelled <- err }()
		synctest.Wait()
		go func() { _, err := verifyPage(t.Context(), c, pair, time.Minute); shared <- err }()
		synctest.Wait()
		cancel()
		if err := <-cancelled; personal.CodeOf(err) != personal.CodeUnavailable || !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled caller: got %v, want unavailable because of the cancellation", err)
		}
		close(proceed)
		if err := <-shared; err != nil {
			t.Errorf("other caller: %v", err)
		}
		p.wantAsked(t, c, pair, 1)
		if call.RequestID != "first" {
			t.Errorf("got request id %q in the shared call, want the first caller's", call.RequestID)
		}
	})
}

func TestRemembered_CallEndsWhenNoCallerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &verifyingPlugin{freshFor: time.Hour}
		var ended atomic.Int64
		p.respond = func(ctx context.Context, _ any) error {
			if p.asked.Load() > 1 {
				return nil
			}
			<-ctx.Done()
			ended.Add(1)
			return ctx.Err()
		}
		c := rpc.NewClient(p, newFakeHost("1"))
		var cancels []context.CancelFunc
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			cancels = append(cancels, cancel)
			go verifyPage(ctx, c, pair, time.Minute)
			synctest.Wait()
		}
		for i, cancel := range cancels {
			if got := ended.Load(); got != 0 {
				t.Errorf("got %d ended calls while %d callers wait, want none", got, len(cancels)-i)
			}
			cancel()
			synctest.Wait()
		}
		if ended.Load() != 1 {
			t.Error("got a call under way for no caller, want it ended")
		}
		p.wantAsked(t, c, pair, 2)
	})
}

// A caller whose time runs out later than that of the call it waits for asks again, and
// no longer than for its own time.
func TestRemembered_LateCallerDoesNotShareATimeout(t *testing.T) {
	for name, tt := range map[string]struct {
		hangs int64 // calls that do not return
		took  time.Duration
		code  personal.Code
	}{
		"next call succeeds":  {hangs: 1, took: time.Second},
		"next call hangs too": {hangs: 2, took: 3 * time.Second, code: personal.CodeUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &verifyingPlugin{freshFor: time.Hour}
				p.respond = func(ctx context.Context, _ any) error {
					if p.asked.Load() > tt.hangs {
						return nil
					}
					<-ctx.Done()
					return ctx.Err()
				}
				c := rpc.NewClient(p, newFakeHost("1"))
				go verifyPage(t.Context(), c, pair, 3*time.Second)
				time.Sleep(2 * time.Second)
				asked := time.Now()
				_, err := verifyPage(t.Context(), c, pair, 3*time.Second)
				if took := time.Since(asked); personal.CodeOf(err) != tt.code || took != tt.took || p.asked.Load() != 2 {
					t.Errorf("got %v after %v and %d calls of the plugin, want %q after %v and 2", err, took, p.asked.Load(), tt.code, tt.took)
				}
			})
		})
	}
}

// hangingHost is a host whose schema is in a database that does not respond.
type hangingHost struct{ *fakeHost }

func (hangingHost) UserFields(ctx context.Context) (personal.Schema, error) {
	<-ctx.Done()
	return personal.Schema{}, ctx.Err()
}

func TestRemembered_TimeoutBoundsTheHostsUserFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &verifyingPlugin{}
		began := time.Now()
		_, err := verifyPage(t.Context(), rpc.NewClient(p, hangingHost{newFakeHost("1")}), pair, 3*time.Second)
		if took := time.Since(began); personal.CodeOf(err) != personal.CodeUnavailable || took != 3*time.Second || p.asked.Load() != 0 {
			t.Errorf("got %v after %v and %d calls of the plugin, want unavailable after 3s without one", err, took, p.asked.Load())
		}
	})
}

// failingHost is a host that cannot read its schema.
type failingHost struct{ *fakeHost }

func (failingHost) UserFields(context.Context) (personal.Schema, error) {
	return personal.Schema{}, errors.New("no schema")
}

func TestRemembered_UnknownSchemaIsNotRemembered(t *testing.T) {
	p := &verifyingPlugin{freshFor: time.Hour}
	c := rpc.NewClient(p, failingHost{newFakeHost("1")})
	p.wantAsked(t, c, pair, 1)
	p.wantAsked(t, c, pair, 2)
}

type panickingHost struct {
	*fakeHost
	from int64
}

func (h *panickingHost) UserFields(ctx context.Context) (personal.Schema, error) {
	schema, err := h.fakeHost.UserFields(ctx)
	if h.calls.Load() >= h.from {
		panic("secret value")
	}
	return schema, err
}

func TestRemembered_PanicOfTheHostIsAnError(t *testing.T) {
	host := &panickingHost{fakeHost: newFakeHost("1"), from: 2} // the second call is made for all callers
	_, err := verifyPage(t.Context(), rpc.NewClient(&verifyingPlugin{}, host), pair, time.Minute)
	if personal.CodeOf(err) != personal.CodeInternal {
		t.Errorf("got %v, want internal", err)
	}
}

// Each operation makes void what its row of the list says.
func TestRemembered_OperationsVoidProfiles(t *testing.T) {
	const (
		nothing = iota
		theUser
		everything
	)
	id := pair.UserID
	for _, o := range personal.Operations() {
		want := map[personal.Change]int{
			personal.ChangesNothing: nothing, personal.ChangesCaller: theUser, personal.ChangesNamedUser: theUser, personal.ChangesAll: theUser,
		}[o.Changes]
		unknown, unnamed := want, want
		switch {
		case o.Changes == personal.ChangesAll: // and the result does not name the user
			unknown, unnamed = everything, everything
		case o.Name == personal.OpAuthorize, o.Name == personal.OpAuthorizePasskey, o.Name == personal.OpAuthorizeMailedCode: // only the result names the user
			unknown = nothing
		}
		m, _ := reflect.TypeFor[personaltest.Contract]().MethodByName(string(o.Name))
		for name, outcome := range map[string]struct {
			userID int64 // of operations whose result is one
			err    error
			want   int
		}{
			"success":           {id, nil, want},
			"refusal":           {0, personal.NewError(personal.CodeValidationFailed, nil), nothing},
			"unknown outcome":   {0, personal.NewError(personal.CodeUnavailable, nil), unknown},
			"theft":             {0, &personal.Error{Code: personal.CodeUnauthenticated, UserID: id}, theUser},
			"success, older id": {0, nil, unnamed},
		} {
			t.Run(m.Name+", "+name, func(t *testing.T) {
				var verified atomic.Int64
				active := false
				c := serve(t, personaltest.HandledBy(func(_ context.Context, called personal.OperationName, _ any) (any, error) {
					switch {
					case called == "Profile" && !active:
						verified.Add(1)
						return personal.Profile{Login: "anna", FreshFor: time.Hour}, nil
					case outcome.err != nil:
						return nil, outcome.err
					case o.Name == personal.OpRecoverConfirm:
						return personal.Recovered{UserID: outcome.userID}, nil
					case o.Changes == personal.ChangesAll:
						return outcome.userID, nil
					}
					return results[called], nil
				}), newFakeHost("1"))
				stranger := personal.Credentials{UserID: id + 1, UserHash: "stranger"}
				verify := func(pair personal.Credentials) (asked bool) {
					before := verified.Load()
					if _, err := verifyPage(t.Context(), c, pair, time.Minute); err != nil {
						t.Fatal(err)
					}
					return verified.Load() > before
				}
				verify(pair)
				verify(stranger)
				active = true
				if _, err := callOperation(t.Context(), c, m, requestOf(m)); personal.CodeOf(err) != personal.CodeOf(outcome.err) {
					t.Fatalf("got %v, want %v", err, outcome.err)
				}
				active = false
				got := nothing
				if verify(pair) {
					got = theUser
				}
				if verify(stranger) {
					got = everything
				}
				if got != outcome.want {
					t.Errorf("got %d made void, want %d (0 nothing, 1 the user, 2 everything)", got, outcome.want)
				}
			})
		}
	}
}

// Of an operation that names its user in two ways, credentials count.
func TestRemembered_CredentialsNameTheUserOfAnAdministration(t *testing.T) {
	verified := 0
	c := serve(t, personaltest.HandledBy(func(_ context.Context, called personal.OperationName, _ any) (any, error) {
		if called == personal.OpProfile {
			verified++
		}
		return personal.Profile{Login: "anna", FreshFor: time.Hour}, nil
	}), newFakeHost("1"))
	for i, request := range []personal.UnlinkIdentityRequest{{Credentials: pair}, {Credentials: pair, UserID: 8}, {UserID: pair.UserID}} {
		for range 2 {
			if _, err := verifyPage(t.Context(), c, pair, time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		if verified != i+1 {
			t.Fatalf("got %d calls of Profile, want %d: remembered, and dropped by the operation before", verified, i+1)
		}
		if err := c.UnlinkIdentity(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
}

// requestOf returns a request of the user of pair, or about them.
func requestOf(m reflect.Method) any {
	if m.Type.NumIn() == 1 {
		return nil
	}
	request := reflect.New(m.Type.In(1)).Elem()
	switch {
	case request.Type() == reflect.TypeOf(pair):
		request.Set(reflect.ValueOf(pair))
	case request.Kind() == reflect.Int64:
		request.SetInt(pair.UserID)
	case request.Kind() == reflect.Struct:
		if c := request.FieldByName("Credentials"); c.IsValid() {
			c.Set(reflect.ValueOf(pair))
		}
		if id := request.FieldByName("UserID"); id.IsValid() {
			id.SetInt(pair.UserID)
		}
	}
	return request.Interface()
}

// A call that is under way when a session is revoked is neither remembered nor
// shared with callers who come after the revocation. Those who wait for it share the
// next one.
func TestRemembered_RevocationMakesCallsUnderWayVoid(t *testing.T) {
	for name, asksLater := range map[string]bool{"caller after the revocation": true, "only those who wait": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				proceed := make(chan struct{})
				p := &verifyingPlugin{freshFor: time.Hour}
				p.respond = func(_ context.Context, request any) error {
					if _, ok := request.(*personalv1.ProfileRequest); ok && p.asked.Load() == 1 {
						<-proceed
					}
					return nil
				}
				c := rpc.NewClient(p, newFakeHost("1"))
				first, waiting := make(chan string), make(chan []string)
				go func() {
					profile, _ := verifyPage(t.Context(), c, pair, time.Minute)
					first <- profile.Login
				}()
				synctest.Wait()
				go func() {
					logins, _ := verifyAll(t.Context(), c, 32)
					waiting <- logins
				}()
				synctest.Wait()
				if err := c.Logout(t.Context(), personal.LogoutRequest{Credentials: pair}); err != nil {
					t.Fatal(err)
				}
				if asksLater {
					later, err := verifyPage(t.Context(), c, pair, time.Minute) // while the first call is under way
					if err != nil || later.Login != "result 2" {
						t.Errorf("after the revocation: got %q, %v, want its own result", later.Login, err)
					}
				}
				close(proceed)
				if got := <-first; got != "result 1" {
					t.Errorf("first caller: got %q, want its own result", got)
				}
				for _, got := range <-waiting {
					if got != "result 2" {
						t.Errorf("waiting caller: got %q, want the result that was read after the revocation", got)
					}
				}
				p.wantAsked(t, c, pair, 2)
			})
		})
	}
}

// Users sign in and out while others verify them: a caller that asks after a sign-out
// has returned is refused. Run it with the race detector.
func TestRemembered_NeverSucceedsAfterARevocation(t *testing.T) {
	var signedIn [9]atomic.Bool // by user id, from 1
	p := &verifyingPlugin{freshFor: time.Hour}
	p.respond = func(_ context.Context, request any) error {
		switch r := request.(type) {
		case *personalv1.ProfileRequest:
			if !signedIn[r.GetCredentials().GetUserId()].Load() {
				return personal.NewError(personal.CodeUnauthenticated, nil)
			}
		case *personalv1.LogoutRequest:
			signedIn[r.GetCredentials().GetUserId()].Store(false)
		}
		return nil
	}
	c := rpc.NewClient(p, newFakeHost("1"))
	stop := make(chan struct{})
	var verifying sync.WaitGroup
	for range 8 {
		verifying.Go(func() {
			for id := int64(1); ; id = id%8 + 1 {
				select {
				case <-stop:
					return
				default:
					_, _ = verifyPage(t.Context(), c, personal.Credentials{UserID: id, UserHash: "hash"}, time.Minute)
				}
			}
		})
	}
	var owners sync.WaitGroup
	for id := 1; id < len(signedIn); id++ {
		owners.Go(func() {
			own := personal.Credentials{UserID: int64(id), UserHash: "hash"}
			for range 500 {
				signedIn[id].Store(true)
				_, _ = verifyPage(t.Context(), c, own, time.Minute)
				_ = c.Logout(t.Context(), personal.LogoutRequest{Credentials: own})
				if _, err := verifyPage(t.Context(), c, own, time.Minute); err == nil {
					t.Errorf("user %d: verified after the sign-out", id)
					return
				}
			}
		})
	}
	owners.Wait()
	close(stop)
	verifying.Wait()
}

func BenchmarkVerify_Remembered(b *testing.B) {
	c := rpc.NewClient(&verifyingPlugin{freshFor: time.Hour}, newFakeHost("1"))
	in := personal.Credentials{UserID: 42, UserHash: "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}
	ctx := personal.AllowRemembered(b.Context())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Profile(ctx, in); err != nil {
			b.Fatal(err)
		}
	}
}
