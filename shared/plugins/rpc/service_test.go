package rpc_test

import (
	"context"
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/plugins/rpc"
	"github.com/cms-personal/personal/shared/plugins/rpc/rpctest"
)

var (
	pair    = personal.Credentials{UserID: 7, UserHash: "hash"}
	profile = personal.Profile{Login: "anna", Email: "anna@example.org"}
)

// results are the results of operations, by operation. Other operations have none.
var results = map[personal.OperationName]any{
	"Authorize":          personal.SignedIn{Credentials: pair, Profile: profile},
	"Register":           personal.SignedIn{Credentials: pair, Profile: profile},
	"Refresh":            pair,
	"Prove":              personal.Proof{Proof: "A", Until: time.Unix(1, 0).UTC()},
	"ChangePassword":     pair,
	"Profile":            profile,
	"UpdateProfile":      profile,
	"Sessions":           []personal.Session{{ID: "a", Current: true}, {ID: "b"}},
	"Fields":             []personal.Field{{Name: "town", Type: personal.TypeText}},
	"Features":           personal.Features{EmailVerification: personal.VerificationOff},
	"Export":             personal.Export{UserID: pair.UserID, Profile: profile},
	"BeginTwoFactor":     personal.TwoFactorSecret{Secret: "A", URI: "otpauth://totp/a"},
	"ConfirmTwoFactor":   personal.ConfirmedTwoFactor{Credentials: pair, RecoveryCodes: []string{"A"}},
	"RemoveOwnTwoFactor": pair,
	"RenewRecoveryCodes": []string{"A"},
	"BeginPasskey":       personal.PasskeyCeremony{Attempt: "A", Options: "{}"},
	"AuthorizePasskey": personal.SignedIn{
		Credentials: pair, Profile: profile, Proof: personal.Proof{Proof: "A", Until: time.Unix(1, 0).UTC()},
	},
	"BeginMailedCode": personal.MailedCodeAttempt{Attempt: "A"},
	"AuthorizeMailedCode": personal.SignedIn{
		Credentials: pair, Profile: profile, Proof: personal.Proof{Proof: "A", Until: time.Unix(1, 0).UTC()},
	},
	"AddPasskey":     personal.PasskeyCeremony{Attempt: "A", Options: "{}"},
	"ConfirmPasskey": personal.Passkey{ID: "7", Name: "A"},
	"User":           personal.UserRecord{User: personal.User{ID: 7, Login: "anna"}},
	"CreateUser":     int64(7),
	"FindIdentity":   int64(7),
	"SignIn":         personal.SignedIn{Credentials: pair, Profile: profile},
	"ProveIdentity":  personal.Proof{Proof: "A", Until: time.Unix(1, 0).UTC()},
	"Explain":        personal.Explanation{Verdicts: []personal.Verdict{{Reason: personal.ReasonNothing}}},
}

func fixed(err error) *personaltest.Fake {
	return personaltest.HandledBy(func(_ context.Context, operation personal.OperationName, _ any) (any, error) {
		if err != nil {
			return nil, err
		}
		return results[operation], nil
	})
}

func serve(t testing.TB, s personal.Service, host personal.Host) *rpc.Client {
	t.Helper()
	return newClient(rpctest.NewConn(t, func(personal.Host) personal.Service { return s }, host), host)
}

// serveLogged is serve with a log.
func serveLogged(t testing.TB, s personal.Service, log *logBuffer) personal.Service {
	t.Helper()
	host := newFakeHost("1")
	return rpc.NewClient(startBuilt(t, builderOf(&module{service: s}), host, log).Conn(), host)
}

// operations returns every operation of the contract, by name.
func operations() []reflect.Method {
	all := reflect.TypeFor[personaltest.Contract]()
	methods := make([]reflect.Method, all.NumMethod())
	for i := range methods {
		methods[i] = all.Method(i)
	}
	return methods
}

// callOperation calls an operation with the given request, or with a zero one.
func callOperation(ctx context.Context, s personaltest.Contract, m reflect.Method, request any) (any, error) {
	arguments := []reflect.Value{reflect.ValueOf(ctx)}
	if m.Type.NumIn() == 2 {
		in := reflect.New(m.Type.In(1)).Elem()
		if request != nil {
			in = reflect.ValueOf(request)
		}
		arguments = append(arguments, in)
	}
	out := reflect.ValueOf(s).MethodByName(m.Name).Call(arguments)
	err, _ := out[len(out)-1].Interface().(error)
	if len(out) == 1 {
		return nil, err
	}
	return out[0].Interface(), err
}

// The test covers every field of the contract, including fields that are added later.
func TestOperations_ConvertEveryField(t *testing.T) {
	var seen, given any
	service := serve(t, personaltest.HandledBy(func(_ context.Context, _ personal.OperationName, request any) (any, error) {
		seen = request
		return given, nil
	}), newFakeHost("1"))
	for _, m := range operations() {
		t.Run(m.Name, func(t *testing.T) {
			var request any
			if m.Type.NumIn() == 2 {
				request = filled(m.Type.In(1))
			}
			given = nil
			if m.Type.NumOut() == 2 {
				given = filled(m.Type.Out(0))
			}
			result, err := callOperation(t.Context(), service, m, request)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(request, seen, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
				t.Errorf("request (-sent +received):\n%s", diff)
			}
			if diff := cmp.Diff(given, result); diff != "" {
				t.Errorf("result (-sent +received):\n%s", diff)
			}
		})
	}
}

// The test covers every text of the contract, including texts that are added later.
func TestOperations_TextThatIsNotUTF8IsNotSent(t *testing.T) {
	conn := rpctest.NewConn(t, func(personal.Host) personal.Service { return fixed(nil) }, newFakeHost("1"))
	counted := &countingConn{ClientConnInterface: conn}
	service := newClient(counted, newFakeHost("1"))
	for _, m := range operations() {
		t.Run(m.Name, func(t *testing.T) {
			if m.Type.NumIn() < 2 {
				t.Skip("it has no request")
			}
			for text := 1; ; text++ {
				f := &filler{broken: text}
				request := f.value(m.Type.In(1)).Interface()
				if f.texts < text {
					break
				}
				ctx := personal.WithCall(t.Context(), personal.Call{RequestID: "r-1"})
				_, err := callOperation(ctx, service, m, request)
				var e *personal.Error
				if !errors.As(err, &e) || e.Code != personal.CodeMalformedRequest || e.RequestID != "r-1" {
					t.Errorf("got %v for %+v, want malformed_request with the request id", err, request)
				}
			}
		})
	}
	if counted.calls != 0 {
		t.Errorf("%d calls were sent, want none", counted.calls)
	}
}

// countingConn counts the calls that are sent.
type countingConn struct {
	grpc.ClientConnInterface
	calls int
}

func (c *countingConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	c.calls++
	return c.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
}

func TestProfile_ConvertsEveryValueType(t *testing.T) {
	values := []any{nil, true, false, int64(0), int64(1<<53 - 1), -0.5, 0.0, "", "text", []string{}, []string{"a", "b"}}
	sent := profile
	for _, value := range values {
		sent.Fields = append(sent.Fields, personal.ProfileField{Name: "f", Value: value})
	}
	service := serve(t, personaltest.HandledBy(func(context.Context, personal.OperationName, any) (any, error) { return sent, nil }),
		newFakeHost("1"))
	got, err := service.Profile(t.Context(), pair)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sent, got); diff != "" {
		t.Errorf("profile (-sent +received):\n%s", diff)
	}
}

func TestOperations_ReturnModuleError(t *testing.T) {
	sent := &personal.Error{
		Code:        personal.CodeTooManyAttempts,
		FieldErrors: personal.FieldErrors{"login": personal.FieldErrorTaken},
		RetryAfter:  1500 * time.Millisecond,
		UserID:      7,
		Cause:       errors.New("not for the host"),
	}
	service := serve(t, fixed(sent), newFakeHost("1"))
	ctx := personal.WithCall(t.Context(), personal.Call{RequestID: "r1"})
	want := &personal.Error{Code: sent.Code, FieldErrors: sent.FieldErrors, RetryAfter: sent.RetryAfter, RequestID: "r1", UserID: 7}
	for _, m := range operations() {
		t.Run(m.Name, func(t *testing.T) {
			result, err := callOperation(ctx, service, m, nil)
			var got *personal.Error
			if !errors.As(err, &got) {
				t.Fatalf("got %v, want a *personal.Error", err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if result != nil && !reflect.ValueOf(result).IsZero() {
				t.Errorf("got result %v with the error, want none", result)
			}
		})
	}
}

func TestErrors_CauseIsLoggedAndDoesNotCross(t *testing.T) {
	tests := map[string]struct {
		err  error
		code personal.Code
	}{
		"other error":            {errors.New("table broken"), personal.CodeInternal},
		"internal error":         {personal.NewError(personal.CodeInternal, errors.New("table broken")), personal.CodeInternal},
		"unavailable dependency": {personal.NewError(personal.CodeUnavailable, errors.New("table broken")), personal.CodeUnavailable},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var log logBuffer
			service := serveLogged(t, fixed(tt.err), &log)
			ctx := personal.WithCall(t.Context(), personal.Call{RequestID: "r-17"})
			_, err := service.Refresh(ctx, pair)
			if personal.CodeOf(err) != tt.code {
				t.Errorf("got %v, want %s", err, tt.code)
			}
			if strings.Contains(err.Error(), "table broken") {
				t.Errorf("got the cause in %v", err)
			}
			if !strings.Contains(log.String(), "table broken") || !strings.Contains(log.String(), "r-17") {
				t.Errorf("got log %s, want the cause and the request id", &log)
			}
		})
	}
}

func TestPanic_FailsOnlyItsCall(t *testing.T) {
	var log logBuffer
	service := serveLogged(t, personaltest.HandledBy(func(_ context.Context, operation personal.OperationName, _ any) (any, error) {
		if operation == "Refresh" {
			panic("secret value")
		}
		return results[operation], nil
	}), &log)
	ctx := personal.WithCall(t.Context(), personal.Call{RequestID: "r-18"})
	_, err := service.Refresh(ctx, pair)
	if personal.CodeOf(err) != personal.CodeInternal {
		t.Errorf("got %v, want internal", err)
	}
	if _, err := service.Profile(ctx, pair); err != nil {
		t.Errorf("next call: %v", err)
	}
	for _, part := range []string{`"panic":"string"`, "r-18", "service_test.go"} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("got log %s, want %q in it", &log, part)
		}
	}
	if strings.Contains(log.String(), "secret value") {
		t.Error("got the panic's value in the log, which may be a secret")
	}
}

func TestCall_CrossesAsMetadata(t *testing.T) {
	tests := map[string]struct{ sent, want personal.Call }{
		"empty call": {},
		"full call": {
			personal.Call{RequestID: "r", Locale: "ru", Languages: "de,ru", Address: netip.MustParseAddr("2001:db8::1"), Agent: "Browser/1", Shared: true, Poll: true, SchemaRevision: "0"},
			personal.Call{RequestID: "r", Locale: "ru", Languages: "de,ru", Address: netip.MustParseAddr("2001:db8::1"), Agent: "Browser/1", Shared: true, Poll: true},
		},
		"texts that are invalid in headers": {
			personal.Call{RequestID: "r\r\nx: y", Agent: "обозреватель\x00\n"},
			personal.Call{RequestID: "r\r\nx: y", Agent: "обозреватель\x00\n"},
		},
		"invalid UTF-8": {
			personal.Call{Agent: "a\xffb"}, personal.Call{Agent: "a\uFFFDb"},
		},
		"texts above the limits": {
			personal.Call{RequestID: strings.Repeat("r", 1000), Agent: strings.Repeat("ж", 1000)},
			personal.Call{RequestID: strings.Repeat("r", 128), Agent: strings.Repeat("ж", 255)},
		},
	}
	var seen personal.Call
	service := serve(t, personaltest.HandledBy(func(ctx context.Context, operation personal.OperationName, _ any) (any, error) {
		seen = personal.CallFrom(ctx)
		return results[operation], nil
	}), newFakeHost("1"))
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := service.Refresh(personal.WithCall(t.Context(), tt.sent), pair); err != nil {
				t.Fatal(err)
			}
			tt.want.SchemaRevision = "1" // always the host's
			if seen != tt.want {
				t.Errorf("got %+v, want %+v", seen, tt.want)
			}
		})
	}
}

func TestCall_CancellationIsNoFailure(t *testing.T) {
	var log logBuffer
	entered, left := make(chan struct{}), make(chan struct{})
	service := serveLogged(t, personaltest.HandledBy(func(ctx context.Context, _ personal.OperationName, _ any) (any, error) {
		close(entered)
		<-ctx.Done()
		defer close(left)
		return nil, errors.New("interrupted")
	}), &log)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-entered; cancel() }()
	_, err := service.Refresh(ctx, pair)
	if personal.CodeOf(err) != personal.CodeUnavailable || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want unavailable because of the cancellation", err)
	}
	<-left
	if strings.Contains(log.String(), `"level":"ERROR"`) {
		t.Errorf("got log %s, want no error", &log)
	}
}

func TestOperations_IncompleteResponseIsInternalError(t *testing.T) {
	whole := personal.SignedIn{Credentials: pair, Profile: profile}
	noUser, noHash, noLogin := whole, whole, whole
	noUser.Credentials.UserID = 0
	noHash.Credentials.UserHash = ""
	noLogin.Profile.Login = ""
	tests := map[string]struct {
		result                      personal.SignedIn
		signedIn, renewed, profiled bool
	}{
		"complete": {whole, true, true, true},
		"empty":    {personal.SignedIn{}, false, false, false}, // Register: the e-mail must be confirmed first
		"no user":  {noUser, false, false, true},
		"no hash":  {noHash, false, false, true},
		"no login": {noLogin, false, true, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			service := serve(t, personaltest.HandledBy(func(_ context.Context, operation personal.OperationName, _ any) (any, error) {
				switch operation {
				case "Authorize", "Register":
					return tt.result, nil
				case "Refresh", "ChangePassword", "RemoveOwnTwoFactor":
					return tt.result.Credentials, nil
				case "ConfirmTwoFactor":
					return personal.ConfirmedTwoFactor{Credentials: tt.result.Credentials, RecoveryCodes: []string{"A"}}, nil
				}
				return tt.result.Profile, nil
			}), newFakeHost("1"))
			for operation, succeeds := range map[string]bool{
				"Authorize": tt.signedIn, "Register": tt.signedIn,
				"Refresh": tt.renewed, "ChangePassword": tt.renewed, "RemoveOwnTwoFactor": tt.renewed, "ConfirmTwoFactor": tt.renewed,
				"Profile": tt.profiled, "UpdateProfile": tt.profiled,
			} {
				m, _ := reflect.TypeFor[personal.Service]().MethodByName(operation)
				result, err := callOperation(t.Context(), service, m, nil)
				want := personal.CodeInternal
				if succeeds || operation == "Register" && name == "empty" {
					want = ""
				}
				if personal.CodeOf(err) != want || (err != nil && !reflect.ValueOf(result).IsZero()) {
					t.Errorf("%s: got %v, %v; want %q", operation, result, err, want)
				}
			}
		})
	}
}

func TestOperations_NoRecoveryCodesAreAnInternalError(t *testing.T) {
	for _, codes := range [][]string{nil, {"A"}} {
		service := serve(t, personaltest.HandledBy(func(_ context.Context, operation personal.OperationName, _ any) (any, error) {
			if operation == "ConfirmTwoFactor" {
				return personal.ConfirmedTwoFactor{Credentials: pair, RecoveryCodes: codes}, nil
			}
			return codes, nil
		}), newFakeHost("1"))
		want := personal.Code("")
		if codes == nil {
			want = personal.CodeInternal
		}
		if got, err := service.ConfirmTwoFactor(t.Context(), personal.ConfirmTwoFactorRequest{}); personal.CodeOf(err) != want ||
			len(got.RecoveryCodes) != len(codes) {
			t.Errorf("confirming: got %q, %v; want %q", got.RecoveryCodes, err, want)
		}
		if got, err := service.RenewRecoveryCodes(t.Context(), personal.RenewRecoveryCodesRequest{}); personal.CodeOf(err) != want ||
			len(got) != len(codes) {
			t.Errorf("renewing: got %q, %v; want %q", got, err, want)
		}
	}
}

func TestFeatures_EmptyResponseIsInternalError(t *testing.T) {
	service := serve(t, personaltest.HandledBy(func(context.Context, personal.OperationName, any) (any, error) {
		return personal.Features{}, nil
	}), newFakeHost("1"))
	if _, err := service.Features(t.Context()); personal.CodeOf(err) != personal.CodeInternal {
		t.Errorf("got %v, want internal", err)
	}
}

func TestProfile_UnsupportedValueIsInternalError(t *testing.T) {
	unsupported := personaltest.HandledBy(func(context.Context, personal.OperationName, any) (any, error) {
		return personal.Profile{Login: "anna", Fields: []personal.ProfileField{{Name: "age", Value: int32(3)}}}, nil
	})
	_, err := serve(t, unsupported, newFakeHost("1")).Profile(t.Context(), pair)
	if personal.CodeOf(err) != personal.CodeInternal {
		t.Errorf("got %v, want internal", err)
	}
}

// failing is a connection whose calls all fail.
type failing struct{ err error }

func (f failing) Invoke(context.Context, string, any, any, ...grpc.CallOption) error { return f.err }

func (f failing) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, f.err
}

func TestConnectionFailure_NeverLooksLikeSuccess(t *testing.T) {
	tests := map[string]struct {
		err   error
		code  personal.Code
		retry time.Duration
	}{
		"no process":            {rpc.Unavailable(3*time.Second, "starting"), personal.CodeUnavailable, 3 * time.Second},
		"dead process":          {status.Error(codes.Unavailable, "EOF"), personal.CodeUnavailable, time.Second},
		"closed connection":     {status.Error(codes.Canceled, "closing"), personal.CodeUnavailable, time.Second},
		"deadline status":       {status.Error(codes.DeadlineExceeded, "late"), personal.CodeUnavailable, time.Second},
		"deadline error":        {context.DeadlineExceeded, personal.CodeUnavailable, time.Second},
		"message too large":     {status.Error(codes.ResourceExhausted, "large"), personal.CodeUnavailable, time.Second},
		"unknown operation":     {status.Error(codes.Unimplemented, "unknown"), personal.CodeNotFound, 0},
		"status without detail": {status.Error(codes.Unauthenticated, "who?"), personal.CodeInternal, 0},
		"error without status":  {errors.New("odd"), personal.CodeInternal, 0},
		"contract error":        {personal.NewError(personal.CodeTooLarge, nil), personal.CodeTooLarge, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			service := rpc.NewClient(failing{tt.err}, newFakeHost("1"))
			signedIn, err := service.Authorize(t.Context(), personal.AuthorizeRequest{})
			var got *personal.Error
			if !errors.As(err, &got) || got.Code != tt.code || got.RetryAfter != tt.retry {
				t.Errorf("got %#v, want %s with RetryAfter %v", err, tt.code, tt.retry)
			}
			if !reflect.ValueOf(signedIn).IsZero() {
				t.Errorf("got user %d, want none", signedIn.Credentials.UserID)
			}
		})
	}
}

func TestSuccessfulCall_IsLoggedAtDebugOnly(t *testing.T) {
	var log logBuffer
	service := serveLogged(t, fixed(nil), &log)
	ctx := personal.WithCall(t.Context(), personal.Call{RequestID: "r-19"})
	if _, err := service.Refresh(ctx, pair); err != nil {
		t.Fatal(err)
	}
	var levels []string
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "r-19") {
			_, after, _ := strings.Cut(line, `"level":"`)
			level, _, _ := strings.Cut(after, `"`)
			levels = append(levels, level)
		}
	}
	if !slices.Equal(levels, []string{"DEBUG"}) {
		t.Errorf("got lines at the levels %v, want one at debug; the log:\n%s", levels, &log)
	}
}
