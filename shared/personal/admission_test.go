package personal_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
)

// operator offers the operations of both interfaces.
type operator interface {
	personal.Service
	personal.Administration
}

// fake fakes both.
type fake struct {
	personaltest.Service
	personaltest.Administration
}

// module is one that counts the calls of operations, and keeps the last context.
type module struct {
	fake
	judged, others atomic.Int32
	last           atomic.Pointer[context.Context]
}

func newModule() *module {
	m := &module{}
	in := func(ctx context.Context) { m.judged.Add(1); m.last.Store(&ctx) }
	m.RegisterFunc = func(ctx context.Context, _ personal.RegisterRequest) (personal.SignedIn, error) {
		in(ctx)
		return personal.SignedIn{}, nil
	}
	m.AuthorizeFunc = func(ctx context.Context, _ personal.AuthorizeRequest) (personal.SignedIn, error) {
		in(ctx)
		return personal.SignedIn{}, nil
	}
	m.AuthorizePasskeyFunc = func(ctx context.Context, _ personal.AuthorizePasskeyRequest) (personal.SignedIn, error) {
		in(ctx)
		return personal.SignedIn{}, nil
	}
	m.BeginMailedCodeFunc = func(ctx context.Context, _ personal.BeginMailedCodeRequest) (personal.MailedCodeAttempt, error) {
		in(ctx)
		return personal.MailedCodeAttempt{}, nil
	}
	m.AuthorizeMailedCodeFunc = func(ctx context.Context, _ personal.AuthorizeMailedCodeRequest) (personal.SignedIn, error) {
		in(ctx)
		return personal.SignedIn{}, nil
	}
	m.SignInFunc = func(ctx context.Context, _ personal.SignInRequest) (personal.SignedIn, error) {
		in(ctx)
		return personal.SignedIn{}, nil
	}
	m.RegisterIdentityFunc = func(ctx context.Context, _ personal.RegisterIdentityRequest) (personal.SignedIn, error) {
		in(ctx)
		return personal.SignedIn{}, nil
	}
	m.RecoverFunc = func(ctx context.Context, _ personal.RecoverRequest) error { in(ctx); return nil }
	m.ChangeEmailFunc = func(ctx context.Context, _ personal.ChangeEmailRequest) error { in(ctx); return nil }
	m.ResendVerificationFunc = func(ctx context.Context, _ personal.ResendVerificationRequest) error { in(ctx); return nil }
	m.ProfileFunc = func(context.Context, personal.Credentials) (personal.Profile, error) {
		m.others.Add(1)
		return personal.Profile{}, nil
	}
	m.RefreshFunc = func(context.Context, personal.Credentials) (personal.Credentials, error) {
		m.others.Add(1)
		return personal.Credentials{}, nil
	}
	m.FieldsFunc = func(context.Context) ([]personal.Field, error) {
		return []personal.Field{{Name: "city", Type: personal.TypeText}, {Name: "tags", Type: personal.TypeTags}}, nil
	}
	return m
}

// secret is part of everything that a Judge must not see.
const secret = "SECRET"

// operations are calls of each operation that is judged, with all its parameters.
var operations = map[personal.OperationName]func(context.Context, operator) error{
	personal.OpRegister: func(ctx context.Context, s operator) error {
		_, err := s.Register(ctx, personal.RegisterRequest{
			Login: "anna", Email: "anna@example.com", Password: secret, ConfirmPassword: secret,
			Fields: map[string]personal.Input{
				"name": personal.Text("Anna"), "city": personal.Text("Kazan"), "tags": {Kind: personal.InputList, List: []string{"a", "b"}},
				"token": personal.Text(secret), "old_password": personal.Text(secret), "code": personal.Text(secret),
				"user_id": personal.Text(secret), "user_hash": personal.Text(secret), "new_password": personal.Text(secret), "csrf_token": personal.Text(secret), "newPassword": personal.Text(secret), "PASSWORD": personal.Text(secret),
			},
		})
		return err
	},
	personal.OpAuthorize: func(ctx context.Context, s operator) error {
		_, err := s.Authorize(ctx, personal.AuthorizeRequest{Login: "anna", Password: secret, Code: secret})
		return err
	},
	personal.OpAuthorizePasskey: func(ctx context.Context, s operator) error {
		_, err := s.AuthorizePasskey(ctx, personal.AuthorizePasskeyRequest{Attempt: secret, Credential: secret, Code: secret})
		return err
	},
	personal.OpBeginMailedCode: func(ctx context.Context, s operator) error {
		_, err := s.BeginMailedCode(ctx, personal.BeginMailedCodeRequest{
			Credentials: personal.Credentials{UserID: 7, UserHash: secret}, Login: "anna", Email: "anna@example.com",
		})
		return err
	},
	personal.OpAuthorizeMailedCode: func(ctx context.Context, s operator) error {
		_, err := s.AuthorizeMailedCode(ctx, personal.AuthorizeMailedCodeRequest{Attempt: secret, MailedCode: secret, Code: secret})
		return err
	},
	personal.OpSignIn: func(ctx context.Context, s operator) error {
		_, err := s.SignIn(ctx, personal.SignInRequest{UserID: 7, Method: "oidc", Code: secret})
		return err
	},
	personal.OpRegisterIdentity: func(ctx context.Context, s operator) error {
		_, err := s.RegisterIdentity(ctx, personal.RegisterIdentityRequest{
			Identity: personal.Identity{Issuer: "https://op.example", Subject: secret}, ProviderSession: secret,
			Login: "anna", Email: "anna@example.com", Name: "Anna", Method: "oidc", Fields: map[string]personal.Input{"city": personal.Text("Kazan")},
		})
		return err
	},
	personal.OpRecover: func(ctx context.Context, s operator) error {
		return s.Recover(ctx, personal.RecoverRequest{Login: "anna", Email: "anna@example.com"})
	},
	personal.OpChangeEmail: func(ctx context.Context, s operator) error {
		return s.ChangeEmail(ctx, personal.ChangeEmailRequest{
			Credentials: personal.Credentials{UserID: 7, UserHash: secret}, Email: "anna@example.com", Password: secret, Code: secret,
		})
	},
	personal.OpResendVerification: func(ctx context.Context, s operator) error {
		return s.ResendVerification(ctx, personal.ResendVerificationRequest{Login: "anna", Email: "anna@example.com"})
	},
}

// wrap returns the module behind a Judge. Callers whose address is unknown have two slots.
func wrap(m operator, judge func(context.Context, personal.AdmissionRequest) error) operator {
	return admission{4, judge}.wrap(m)
}

type admission struct {
	concurrent int
	judge      func(context.Context, personal.AdmissionRequest) error
}

func (a admission) wrap(m operator) operator {
	of := &personal.Admission{Judge: a.judge, Concurrent: a.concurrent}
	return struct {
		personal.Service
		personal.Administration
	}{of.Wrap(m), of.WrapAdministration(m)}
}

func register(ctx context.Context, s operator) error {
	return operations[personal.OpRegister](ctx, s)
}

// wantUnavailable expects the error of a judgement that failed, without a secret.
func wantUnavailable(t *testing.T, err error) {
	t.Helper()
	var e *personal.Error
	if !errors.As(err, &e) || e.Code != personal.CodeUnavailable || e.RetryAfter.Seconds() < 1 || e.Cause == nil ||
		strings.Contains(err.Error(), secret) {
		t.Errorf("got %v, want unavailable with RetryAfter and a cause without what was typed", err)
	}
}

func TestAdmission_JudgesTheOperationsOfTheList(t *testing.T) {
	for _, o := range personal.Operations() {
		if _, tested := operations[o.Name]; tested != o.Judged() {
			t.Errorf("%s: got Judged %t in personal.Operations, and %t here: correct one, and whether Admission judges it", o.Name, o.Judged(),
				tested)
		}
	}
	ctx := personal.WithCall(t.Context(), personal.Call{Locale: "ru", Address: netip.MustParseAddr("192.0.2.1")})
	for operation, call := range operations {
		m := newModule()
		var got []personal.OperationName
		s := wrap(m, func(ctx context.Context, r personal.AdmissionRequest) error {
			got = append(got, r.Operation)
			if c := personal.CallFrom(ctx); c.Locale != "ru" || c.Address.String() != "192.0.2.1" {
				t.Errorf("%s: got call %+v", operation, c)
			}
			return nil
		})
		if err := call(ctx, s); err != nil || m.judged.Load() != 1 || !slices.Equal(got, []personal.OperationName{operation}) {
			t.Errorf("%s: got %v, %d calls, judged as %v, want one call, judged once", operation, err, m.judged.Load(), got)
		}
	}
}

func TestAdmission_OtherOperationsAreNotJudged(t *testing.T) {
	noFields := func(context.Context) ([]personal.Field, error) { return nil, nil }
	s := wrap(&fake{Service: personaltest.Service{FieldsFunc: noFields}}, func(_ context.Context, r personal.AdmissionRequest) error {
		if operations[r.Operation] == nil {
			t.Errorf("judged %q", r.Operation)
		}
		return personal.Refuse(nil)
	})
	refused := 0
	v := reflect.ValueOf(s)
	for i := range v.NumMethod() {
		in := []reflect.Value{reflect.ValueOf(t.Context())}
		for j := 1; j < v.Method(i).Type().NumIn(); j++ {
			in = append(in, reflect.Zero(v.Method(i).Type().In(j)))
		}
		out := v.Method(i).Call(in)
		switch err, _ := out[len(out)-1].Interface().(error); personal.CodeOf(err) {
		case personal.CodeRefused:
			refused++
		case personal.CodeNotFound, "": // the fake's
		default:
			t.Errorf("%s: got %v", v.Type().Method(i).Name, err)
		}
	}
	if refused != len(operations) {
		t.Errorf("%d operations were judged, want %d", refused, len(operations))
	}
}

func TestAdmission_JudgeLearnsTheMethod(t *testing.T) {
	got := map[personal.OperationName]string{}
	s := wrap(newModule(), func(_ context.Context, r personal.AdmissionRequest) error {
		got[r.Operation] = r.Method
		return nil
	})
	want := map[personal.OperationName]string{}
	for operation, call := range operations {
		if err := call(t.Context(), s); err != nil {
			t.Error(err)
		}
		want[operation] = ""
	}
	want[personal.OpRegister], want[personal.OpAuthorize] = personal.MethodRegistration, personal.MethodPassword
	want[personal.OpAuthorizePasskey], want[personal.OpSignIn] = personal.MethodPasskey, "oidc"
	want[personal.OpRegisterIdentity], want[personal.OpAuthorizeMailedCode] = "oidc", personal.MethodMailedCode
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("methods (-want +got):\n%s", diff)
	}
}

func TestAdmission_SignInByAnAdministratorIsNotJudged(t *testing.T) {
	m := newModule()
	s := wrap(m, func(context.Context, personal.AdmissionRequest) error { return personal.Refuse(nil) })
	call := operations[personal.OpSignIn]
	err := call(personal.WithCall(t.Context(), personal.Call{Administrator: "eve"}), s)
	if err != nil || m.judged.Load() != 1 {
		t.Errorf("got %v, %d calls of the module, want success", err, m.judged.Load())
	}
	for _, visitor := range []context.Context{t.Context(), personal.WithCall(t.Context(), personal.Call{RequestID: "r"})} {
		if err := call(visitor, s); personal.CodeOf(err) != personal.CodeRefused || m.judged.Load() != 1 {
			t.Errorf("a visitor's call: got %v, want refused", err)
		}
	}
}

func TestAdmission_JudgeSeesNoSecrets(t *testing.T) {
	for operation, call := range operations {
		s := wrap(newModule(), func(ctx context.Context, r personal.AdmissionRequest) error {
			if seen := fmt.Sprintf("%#v %#v %#v", r, personal.CallFrom(ctx), personal.TransientFrom(ctx)); strings.Contains(seen, secret) {
				t.Errorf("%s: the Judge sees %s", operation, seen)
			}
			if operation == personal.OpRegister {
				if got := slices.Sorted(maps.Keys(r.Fields)); !slices.Equal(got, []string{"city", "name", "tags"}) || r.Login != "anna" ||
					r.Email != "anna@example.com" {
					t.Errorf("the Judge sees %+v, want login, e-mail, and the fields city, name and tags", r)
				}
			}
			return nil
		})
		if err := call(t.Context(), s); err != nil {
			t.Error(err)
		}
	}
}

// TestAdmissionRequest_HasNoOtherMembers is to be read before a member is added: a Judge must
// not see passwords, tokens, codes and credentials.
func TestAdmissionRequest_HasNoOtherMembers(t *testing.T) {
	var got []string
	for f := range reflect.TypeFor[personal.AdmissionRequest]().Fields() {
		got = append(got, f.Name)
	}
	if want := []string{"Operation", "Method", "Login", "Email", "Fields"}; !slices.Equal(got, want) {
		t.Errorf("got members %v, want %v", got, want)
	}
}

func TestAdmission_JudgeMayKeepTheRequest(t *testing.T) {
	m := newModule()
	tags := []string{"a"}
	fields := map[string]personal.Input{"tags": {Kind: personal.InputList, List: tags}}
	m.RegisterFunc = func(ctx context.Context, r personal.RegisterRequest) (personal.SignedIn, error) {
		if r.Fields["tags"].List[0] != "a" || len(r.Fields) != 1 || personal.TransientFrom(ctx) != nil {
			t.Errorf("the module got %v, want what was sent", r.Fields)
		}
		return personal.SignedIn{}, nil
	}
	s := wrap(m, func(ctx context.Context, r personal.AdmissionRequest) error {
		r.Fields["tags"].List[0] = "changed"
		r.Fields["more"] = personal.Text("x")
		personal.TransientFrom(ctx)["invite"] = "changed"
		if got := personal.TransientFrom(ctx)["invite"]; got != "X1" {
			t.Errorf("got invite %q, want X1", got)
		}
		return nil
	})
	if _, err := s.Register(personal.WithTransient(t.Context(), map[string]string{"invite": "X1"}),
		personal.RegisterRequest{Fields: fields}); err != nil {
		t.Error(err)
	}
}

func TestAdmission_Verdict(t *testing.T) {
	message := personal.LocalText{"en": "No."}
	var none *personal.Error
	for name, tt := range map[string]struct {
		decision error
		want     *personal.Error // nil: unavailable
	}{
		"field errors":         {personal.FieldErrors{"captcha": personal.FieldErrorRequired}.Err(), &personal.Error{Code: personal.CodeValidationFailed, FieldErrors: personal.FieldErrors{"captcha": personal.FieldErrorRequired}}},
		"wrapped field errors": {fmt.Errorf("%s: %w", secret, personal.FieldErrors{"invite": personal.FieldErrorMismatch}.Err()), &personal.Error{Code: personal.CodeValidationFailed, FieldErrors: personal.FieldErrors{"invite": personal.FieldErrorMismatch}}},
		"refused":              {personal.Refuse(message), &personal.Error{Code: personal.CodeRefused, Messages: message}},
		"refused, no message":  {personal.Refuse(nil), &personal.Error{Code: personal.CodeRefused}},
		"refused with a cause": {personal.NewError(personal.CodeRefused, errors.New(secret)), &personal.Error{Code: personal.CodeRefused}},
		"field error with texts": {&personal.AdmissionError{FieldErrors: map[string]personal.AdmissionFieldError{"invite_code": {Code: personal.FieldErrorMismatch, Text: message}, "email": {Code: personal.FieldErrorTooLong}}},
			&personal.Error{Code: personal.CodeValidationFailed, FieldErrors: personal.FieldErrors{"invite_code": personal.FieldErrorMismatch, "email": personal.FieldErrorTooLong}, FieldTexts: map[string]personal.LocalText{"invite_code": message}}},
		"no field errors":       {personal.NewError(personal.CodeValidationFailed, nil), nil},
		"another code":          {personal.NewError(personal.CodeTooManyAttempts, errors.New(secret)), nil},
		"any error":             {fmt.Errorf("verifying %s: %w", secret, errors.New(secret)), nil},
		"a nil *Error":          {none, nil},
		"a nil *AdmissionError": {(*personal.AdmissionError)(nil), nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModule()
			err := register(t.Context(), wrap(m, func(context.Context, personal.AdmissionRequest) error { return tt.decision }))
			if m.judged.Load() != 0 || strings.Contains(err.Error(), secret) {
				t.Errorf("got %v, %d calls of the module, want none, and no text of the Judge's error", err, m.judged.Load())
			}
			if tt.want == nil {
				wantUnavailable(t, err)
				return
			}
			var got *personal.Error
			if !errors.As(err, &got) {
				t.Fatalf("got %v, want a *personal.Error", err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAdmissionError_InvalidOneIsUnavailableAndExplained(t *testing.T) {
	field := func(name string, code personal.FieldErrorCode, text string) map[string]personal.AdmissionFieldError {
		return map[string]personal.AdmissionFieldError{name: {Code: code, Text: personal.LocalText{"en": text}}}
	}
	many := map[string]personal.AdmissionFieldError{}
	for i := range 51 {
		many[fmt.Sprintf("x%d", i)] = personal.AdmissionFieldError{Code: personal.FieldErrorMismatch}
	}
	for name, tt := range map[string]struct {
		fields map[string]personal.AdmissionFieldError
		want   string // in the cause; "" for a valid one
	}{
		"a name of 64 characters": {field(strings.Repeat("x", 64), "mismatch", "No."), ""},
		"a text of 500 letters":   {field("invite", "mismatch", strings.Repeat("я", 500)), ""},
		"an empty text":           {field("invite", "mismatch", ""), ""},
		"no field errors":         {nil, "has 0 field errors, want 1 to 50"},
		"51 field errors":         {many, "has 51 field errors, want 1 to 50"},
		"an empty name":           {field("", "mismatch", "No."), "a parameter that is not in lower snake case"},
		"a name with a space":     {field(secret+" x", "mismatch", "No."), "a parameter that is not in lower snake case"},
		"a capital letter":        {field("Invite", "mismatch", "No."), "a parameter that is not in lower snake case"},
		"a name of 65 characters": {field(strings.Repeat("x", 65), "mismatch", "No."), "longer than 64 characters"},
		"no code":                 {field("invite", "", "No."), "a code for parameter invite that no 422 of the contract has"},
		"the code of a 409":       {field("invite", "taken", "No."), "a code for parameter invite that no 422 of the contract has"},
		"a text of 501 letters":   {field("invite", "mismatch", secret+strings.Repeat("я", 501-len(secret))), "a text for parameter invite that is not one line of at most 500 characters"},
		"two lines":               {field("invite", "mismatch", secret+"\n"), "a text for parameter invite that is not one line"},
		"no UTF-8":                {field("invite", "mismatch", secret+"\xff"), "a text for parameter invite that is not one line"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModule()
			err := register(t.Context(), wrap(m, func(context.Context, personal.AdmissionRequest) error {
				return fmt.Errorf("%s: %w", secret, &personal.AdmissionError{FieldErrors: tt.fields})
			}))
			if tt.want == "" {
				if personal.CodeOf(err) != personal.CodeValidationFailed {
					t.Errorf("got %v, want validation_failed", err)
				}
				return
			}
			wantUnavailable(t, err)
			if !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), secret) || m.judged.Load() != 0 {
				t.Errorf("got %v and %d calls of the module, want %q, none, and no text of the Judge", err, m.judged.Load(), tt.want)
			}
		})
	}
}

func TestAdmission_CauseNamesTypesOfAnError(t *testing.T) {
	for want, decision := range map[string]error{
		"*fmt.wrapError, *fs.PathError, context.deadlineExceededError": fmt.Errorf("x: %w", &fs.PathError{Err: context.DeadlineExceeded}),
		"*errors.joinError, *errors.errorString, *fmt.wrapError":       errors.Join(errors.New("x"), fmt.Errorf("%w", personal.NewError("made_up", nil))),
		"*personal.Error": (*personal.Error)(nil),
	} {
		err := register(t.Context(), wrap(newModule(), func(context.Context, personal.AdmissionRequest) error { return decision }))
		if !strings.Contains(err.Error(), "an error of type "+want) {
			t.Errorf("got %v, want the types %s", err, want)
		}
	}
}

func TestAdmission_PanicIsUnavailable(t *testing.T) {
	for name, judge := range map[string]func(context.Context, personal.AdmissionRequest) error{
		"an error":    func(context.Context, personal.AdmissionRequest) error { panic(errors.New(secret)) },
		"nil":         func(context.Context, personal.AdmissionRequest) error { panic(nil) },
		"Goexit":      func(context.Context, personal.AdmissionRequest) error { runtime.Goexit(); return nil },
		"a bad error": func(context.Context, personal.AdmissionRequest) error { return badError{} },
	} {
		t.Run(name, func(t *testing.T) {
			m := newModule()
			s := wrap(m, judge)
			for range 5 { // more than there are slots
				err := register(t.Context(), s)
				wantUnavailable(t, err)
				var stacked interface{ Stack() []byte }
				if errors.As(err, &stacked) && !strings.Contains(string(stacked.Stack()), "admission_test.go") {
					t.Errorf("got stack %s, want that of the Judge", stacked.Stack())
				}
			}
			if m.judged.Load() != 0 {
				t.Error("the module was called")
			}
		})
	}
}

// badError panics when it is examined.
type badError struct{}

func (badError) Error() string { panic(secret) }
func (badError) As(any) bool   { panic(secret) }

func TestAdmission_HangAndFloodReachNoModule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModule()
		hang := make(chan struct{})
		s := wrap(m, func(context.Context, personal.AdmissionRequest) error {
			<-hang // whatever becomes of the context
			return nil
		})
		began := time.Now()
		const flood = 100
		failed := make(chan error, flood)
		for i := range flood {
			call := operations[slices.Sorted(maps.Keys(operations))[i%len(operations)]]
			go func() { failed <- call(t.Context(), s) }()
		}
		synctest.Wait() // all wait: two for the Judge, the others for a place
		_, err1 := s.Profile(t.Context(), personal.Credentials{})
		_, err2 := s.Refresh(t.Context(), personal.Credentials{})
		if err1 != nil || err2 != nil || m.others.Load() != 2 || time.Since(began) != 0 {
			t.Errorf("other operations: got %v, %v after %s, want success at once", err1, err2, time.Since(began))
		}
		for range flood {
			wantUnavailable(t, <-failed)
		}
		if took := time.Since(began); took != personal.MaxJudgement {
			t.Errorf("the flood took %s, want %s", took, personal.MaxJudgement)
		}
		wantUnavailable(t, register(t.Context(), s)) // the slots are still taken
		if took := time.Since(began); took != 2*personal.MaxJudgement {
			t.Errorf("a later request ended after %s, want %s", took, 2*personal.MaxJudgement)
		}
		close(hang)
		synctest.Wait()
		if n := m.judged.Load(); n != 0 {
			t.Errorf("the module was called %d times, want 0", n)
		}
		if err := register(t.Context(), s); err != nil || m.judged.Load() != 1 {
			t.Errorf("after the Judge returned: got %v, want success", err)
		}
	})
}

func TestAdmission_ConcurrentBoundsJudgements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, highest atomic.Int32
		m := newModule()
		s := wrap(m, func(context.Context, personal.AdmissionRequest) error {
			if n := running.Add(1); n > highest.Load() {
				highest.Store(n)
			}
			time.Sleep(personal.MaxJudgement * 2 / 5) // of the bubble's clock
			running.Add(-1)
			return nil
		})
		failed := make(chan error)
		for range 6 {
			go func() { failed <- s.Recover(t.Context(), personal.RecoverRequest{}) }()
		}
		refused := 0
		for range 6 {
			if err := <-failed; err != nil {
				wantUnavailable(t, err)
				refused++
			}
		}
		// The third pair of judgements ends with the time that its requests have.
		if highest.Load() != 2 || refused != 2 || m.judged.Load() != 4 {
			t.Errorf("got %d judgements at once, %d requests refused, %d passed, want 2, 2, 4", highest.Load(), refused, m.judged.Load())
		}
		time.Sleep(personal.MaxJudgement) // a bubble ends with all of its goroutines
	})
}

// from returns a context of a call.
func from(t *testing.T, address string, shared bool) context.Context {
	c := personal.Call{Shared: shared}
	if address != "" {
		c.Address = netip.MustParseAddr(address)
	}
	return personal.WithCall(t.Context(), c)
}

// Of 200 requests of one source as many are judged as it has slots, 64 wait, and the others fail at
// once. Requests of other sources are judged at once.
func TestAdmission_SourceLeavesOthersTheirSlots(t *testing.T) {
	const requests, waiting = 200, 64
	for source, tt := range map[string]struct {
		address func(i int) string
		shared  bool
		slots   int
	}{
		"IPv4 address":               {func(int) string { return "192.0.2.1" }, false, 8},
		"IPv4 address in IPv6":       {func(i int) string { return []string{"192.0.2.1", "::ffff:192.0.2.1", "64:ff9b::192.0.2.1"}[i%3] }, false, 8},
		"/48 of IPv6":                {func(i int) string { return fmt.Sprintf("2001:db8:1:%x::%x", i, i) }, false, 8},
		"shared address":             {func(int) string { return "10.0.0.1" }, true, 32},
		"addresses that are unknown": {func(int) string { return "" }, false, 32},
	} {
		t.Run(source, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var running, refused atomic.Int32
				s := admission{0, func(ctx context.Context, r personal.AdmissionRequest) error {
					if r.Login == "slow" {
						running.Add(1)
						<-ctx.Done()
					}
					return nil
				}}.wrap(newModule())
				began := time.Now()
				for i := range requests {
					go func() {
						if err := s.Recover(from(t, tt.address(i), tt.shared), personal.RecoverRequest{Login: "slow"}); time.Since(began) == 0 {
							wantUnavailable(t, err)
							refused.Add(1)
						}
					}()
				}
				synctest.Wait()
				if got := int(running.Load()); got != tt.slots || int(refused.Load()) != requests-waiting-tt.slots {
					t.Errorf("got %d judged and %d refused at once, want %d and %d", got, refused.Load(), tt.slots, requests-waiting-tt.slots)
				}
				for i := range 20 {
					err := s.Recover(from(t, fmt.Sprintf("198.51.100.%d", i), false), personal.RecoverRequest{Login: "anna"})
					if err != nil || time.Since(began) != 0 {
						t.Errorf("another address: got %v after %s, want nil at once", err, time.Since(began))
					}
				}
				time.Sleep(2 * personal.MaxJudgement)
			})
		})
	}
}

// Several shared addresses have half of the slots together.
func TestAdmission_SharedSourcesLeaveOthersHalfOfTheSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running atomic.Int32
		s := admission{0, func(ctx context.Context, _ personal.AdmissionRequest) error {
			running.Add(1)
			<-ctx.Done()
			return nil
		}}.wrap(newModule())
		for i := range 60 {
			go func() {
				_ = s.Recover(from(t, []string{"", "10.0.0.1", "10.0.0.2"}[i%3], true), personal.RecoverRequest{})
			}()
		}
		synctest.Wait()
		if n := running.Load(); n != 32 {
			t.Errorf("got %d judgements, want 32", n)
		}
		time.Sleep(2 * personal.MaxJudgement)
	})
}

func TestAdmission_SourcesThatWaitAreServedInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		judged, end := make(chan string, 100), make(chan struct{})
		s := admission{16, func(_ context.Context, r personal.AdmissionRequest) error {
			judged <- r.Login
			<-end
			return nil
		}}.wrap(newModule())
		request := func(address, login string) {
			go func() { _ = s.Recover(from(t, address, false), personal.RecoverRequest{Login: login}) }()
			synctest.Wait()
		}
		for i := range 16 { // two for each address
			request(fmt.Sprintf("192.0.2.%d", i/2), "first")
			<-judged
		}
		request("198.51.100.1", "one")
		request("198.51.100.1", "two")
		request("198.51.100.2", "other")
		for _, want := range []string{"one", "other", "two"} {
			end <- struct{}{}
			if got := <-judged; got != want {
				t.Errorf("got %q judged, want %q", got, want)
			}
		}
		close(end)
		synctest.Wait()
	})
}

func TestAdmission_HangingOperationLeavesOthersTheirPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModule()
		s := wrap(m, func(ctx context.Context, r personal.AdmissionRequest) error {
			if r.Operation == personal.OpRegister {
				<-ctx.Done()
			}
			return nil
		})
		for range 10 {
			go func() { _ = register(t.Context(), s) }()
		}
		synctest.Wait()
		began := time.Now()
		if err := s.Recover(t.Context(), personal.RecoverRequest{}); err != nil || time.Since(began) != 0 {
			t.Errorf("got %v after %s while registrations hang, want nil at once", err, time.Since(began))
		}
		time.Sleep(2 * personal.MaxJudgement)
	})
}

func TestTransient_EmptyTextIsMissing(t *testing.T) {
	got := personal.TransientFrom(personal.WithTransient(t.Context(), map[string]string{"invite": "", "captcha": "T1"}))
	if diff := cmp.Diff(map[string]string{"captcha": "T1"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAdmission_JudgesContextEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModule()
		ended := make(chan error, 1)
		s := wrap(m, func(ctx context.Context, _ personal.AdmissionRequest) error {
			<-ctx.Done()
			ended <- ctx.Err()
			return nil // too late
		})
		began := time.Now()
		wantUnavailable(t, register(t.Context(), s))
		if took := time.Since(began); took != personal.MaxJudgement || !errors.Is(<-ended, context.DeadlineExceeded) || m.judged.Load() != 0 {
			t.Errorf("got an end after %s, %d calls of the module, want %s and none", took, m.judged.Load(), personal.MaxJudgement)
		}
		ctx, hangUp := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, hangUp)
		err := register(ctx, s)
		wantUnavailable(t, err)
		if took := time.Since(began); took != personal.MaxJudgement+time.Second || !errors.Is(err, context.Canceled) || m.judged.Load() != 0 {
			t.Errorf("a caller that hung up: got %v after %s", err, took)
		}
	})
}

func TestAdmission_TransientParametersEndWithTheJudge(t *testing.T) {
	for operation, call := range operations {
		m := newModule()
		s := wrap(m, func(ctx context.Context, _ personal.AdmissionRequest) error {
			if got := personal.TransientFrom(ctx)["captcha"]; got != "T" {
				t.Errorf("%s: the Judge got captcha %q, want T", operation, got)
			}
			return nil
		})
		ctx := personal.WithTransient(personal.WithCall(t.Context(), personal.Call{RequestID: "r"}), map[string]string{"captcha": "T"})
		if err := call(ctx, s); err != nil {
			t.Error(err)
		}
		last := *m.last.Load()
		if got := personal.TransientFrom(last); got != nil || personal.CallFrom(last).RequestID != "r" {
			t.Errorf("%s: the module got %v, call %+v, want no parameters, and the call", operation, got, personal.CallFrom(last))
		}
	}
}

func TestAdmission_RepeatedScalarIsMalformedBeforeItIsJudged(t *testing.T) {
	repeated := personal.Input{Kind: personal.InputRepeated, List: []string{"a", "b"}}
	for name, want := range map[string]personal.Code{
		"city": personal.CodeMalformedRequest, "name": personal.CodeMalformedRequest, "token": personal.CodeMalformedRequest, "code": personal.CodeMalformedRequest,
		"tags": personal.CodeRefused, "unknown": personal.CodeRefused,
	} {
		s := wrap(newModule(), func(context.Context, personal.AdmissionRequest) error { return personal.Refuse(nil) })
		_, err := s.Register(t.Context(), personal.RegisterRequest{Fields: map[string]personal.Input{name: repeated}})
		if got := personal.CodeOf(err); got != want {
			t.Errorf("%s repeated: got %q, want %q", name, got, want)
		}
	}
	m := newModule()
	m.FieldsFunc = func(context.Context) ([]personal.Field, error) {
		return nil, personal.NewError(personal.CodeUnavailable, nil)
	}
	s := wrap(m, func(context.Context, personal.AdmissionRequest) error { return nil })
	if _, err := s.Register(t.Context(), personal.RegisterRequest{Fields: map[string]personal.Input{"tags": repeated}}); personal.CodeOf(err) != personal.CodeUnavailable || m.judged.Load() != 0 {
		t.Errorf("without the schema: got %v, want unavailable", err)
	}
}

func TestAdmission_RequestsRefusedAsAWholeAreNotJudged(t *testing.T) {
	for name, c := range map[string]struct {
		r    personal.RegisterRequest
		want personal.Code
	}{
		"a long unknown name":    {personal.RegisterRequest{Fields: map[string]personal.Input{strings.Repeat("n", 65): personal.Text("a")}}, personal.CodeTooLarge},
		"a login that is bytes":  {personal.RegisterRequest{Login: "\xff"}, personal.CodeMalformedRequest},
		"an e-mail that is":      {personal.RegisterRequest{Email: "\xff@example.com"}, personal.CodeMalformedRequest},
		"a field that is":        {personal.RegisterRequest{Fields: map[string]personal.Input{"city": personal.Text("\xff")}}, personal.CodeMalformedRequest},
		"an item of a list that": {personal.RegisterRequest{Fields: map[string]personal.Input{"tags": {Kind: personal.InputList, List: []string{"\xff"}}}}, personal.CodeMalformedRequest},
	} {
		t.Run(name, func(t *testing.T) {
			s := wrap(newModule(), func(context.Context, personal.AdmissionRequest) error { return personal.Refuse(nil) })
			if _, err := s.Register(t.Context(), c.r); personal.CodeOf(err) != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestAdmission_NilAdmitsEveryone(t *testing.T) {
	m := newModule()
	if s := (*personal.Admission)(nil).Wrap(m); s != personal.Service(m) {
		t.Errorf("got %T, want the service itself", s)
	}
	if a := (*personal.Admission)(nil).WrapAdministration(m); a != personal.Administration(m) {
		t.Errorf("got %T, want the administration itself", a)
	}
	for _, a := range []*personal.Admission{{}, {Concurrent: 1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("an Admission without a Judge does not panic")
				}
			}()
			a.Wrap(m)
		}()
	}
}
