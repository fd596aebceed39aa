package personal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxJudgement is how long a Judge may take. The time in which a request waits for a
// free slot counts as well.
const MaxJudgement = 3 * time.Second

// defaultConcurrent is the number of judgements at once if [Admission.Concurrent] is 0.
const defaultConcurrent = 64

// Admission is the site's own say in who registers and signs in: a captcha, invite codes,
// accepted e-mail domains (HTTP contract, section 1, admission). It judges requests
// before the module sees them, in the host's process: every operation that opens a session
// or sends a mail for a visitor, see [Operation.Judged]. Set the fields before the first call
// of Wrap.
type Admission struct {
	// Judge decides on one request. It is required, and called concurrently. It returns
	//   - nil: the request goes on to the module, which may still refuse it;
	//   - a validation_failed error, as by [FieldErrors.Err]: the caller gets exactly
	//     these field errors (422), and the names may be those of transient parameters;
	//   - an [*AdmissionError]: the same, with texts of its own;
	//   - an error of [Refuse]: the caller gets 403 refused.
	//
	// Any other error, a panic, and no decision within [MaxJudgement] are 503 unavailable.
	// The log then gets the types of the error but not its text, which may quote what was
	// typed: a Judge that knows more logs it itself.
	//
	// The context ends after MaxJudgement, or when the caller hangs up. It carries the
	// [Call] and the transient parameters, see [TransientFrom]. A Judge that ignores the
	// end of its context keeps its slot until it returns.
	Judge func(ctx context.Context, r AdmissionRequest) error

	// Concurrent is the maximum number of judgements of one operation at once, of each
	// wrapped service; 64 if it is 0 or less. An IPv4 address, or the /48 of an IPv6 address,
	// has an eighth of them at most, and all shared and unknown addresses together have half of
	// them. Further requests of that operation wait for a free slot, 64 of one source at most:
	// others are unavailable at once. Other operations do not wait.
	Concurrent int
}

// AdmissionRequest is what a Judge learns about a request: texts as they were typed, not
// checked yet, and "" for those that are missing or no texts. It never has a password, a
// token, a code or credentials, and belongs to the Judge alone.
type AdmissionRequest struct {
	Operation OperationName // one that is judged, see [Operation.Judged]

	// Method is how the user of the session that the operation opens is authenticated, as in
	// [Session]; "" if it opens none. With [MethodPasskey], and with a method of the host's own
	// ([OpSignIn] and [OpRegisterIdentity]), no session is opened without a key or a provider, so that a captcha, for
	// example, is not needed.
	Method string

	Login string // a login; for [OpAuthorize] a login or an e-mail address; "" for [OpAuthorizePasskey], [OpAuthorizeMailedCode] and [OpSignIn]
	Email string // for [OpChangeEmail], also without a valid session, the new address
	// Fields are those of a registration: "name" and the user fields that users can see.
	// Other parameters, which the module refuses, are left out.
	Fields map[string]Input
}

// Registers reports whether the request creates an account: a registration, also one by a provider.
func (r AdmissionRequest) Registers() bool {
	return r.Operation == OpRegister || r.Operation == OpRegisterIdentity
}

// Refuse returns the decision that refuses a request: 403 refused, with the message in the
// caller's language. Without texts the caller gets the standard message of the code.
func Refuse(message LocalText) error {
	return &Error{Code: CodeRefused, Messages: maps.Clone(message)}
}

type transientKey struct{}

// WithTransient returns a context with transient parameters, for pages that call a judged
// service in process: personalhttp does the same with those of a request. They reach the
// Judge and no further.
func WithTransient(ctx context.Context, parameters map[string]string) context.Context {
	sent := maps.Clone(parameters)
	maps.DeleteFunc(sent, func(_, text string) bool { return text == "" })
	return context.WithValue(ctx, transientKey{}, sent)
}

// TransientFrom returns a copy of the transient parameters that ctx carries. A parameter
// that was not sent, or sent empty, is missing.
func TransientFrom(ctx context.Context) map[string]string {
	parameters, _ := ctx.Value(transientKey{}).(map[string]string)
	return maps.Clone(parameters)
}

// Wrap returns a service that judges the operations of [Operation.Judged] before it calls s,
// without the transient parameters. All other operations are those of s. A nil Admission
// admits everyone: Wrap returns s itself. Wrap panics if Judge or s is nil.
func (a *Admission) Wrap(s Service) Service {
	if a == nil {
		return s
	}
	if s == nil {
		panic("personal: Admission.Wrap needs a service")
	}
	return &admitted{s, a.gate()}
}

// WrapAdministration is Wrap for the operations of administrators. It judges
// [Administration.SignIn] and [Administration.RegisterIdentity] where the call is a visitor's: in a context whose
// [Call].Administrator is empty. For a registration s needs the method Fields of [Service], too.
func (a *Admission) WrapAdministration(s Administration) Administration {
	if a == nil {
		return s
	}
	if s == nil {
		panic("personal: Admission.WrapAdministration needs an administration")
	}
	return &admittedAdministration{s, a.gate()}
}

// gate judges requests.
type gate struct {
	judge func(context.Context, AdmissionRequest) error
	slots map[OperationName]*slots
}

func (a *Admission) gate() gate {
	if a.Judge == nil {
		panic("personal: an Admission needs a Judge")
	}
	concurrent := a.Concurrent
	if concurrent <= 0 {
		concurrent = defaultConcurrent
	}
	g := gate{a.Judge, map[OperationName]*slots{}}
	for _, o := range operations {
		if o.Judged() {
			g.slots[o.Name] = newSlots(concurrent)
		}
	}
	return g
}

// admitted is a service behind an Admission.
type admitted struct {
	Service
	gate
}

// admittedAdministration is an administration behind an Admission.
type admittedAdministration struct {
	Administration
	gate
}

// SignIn implements [Administration].
func (a *admittedAdministration) SignIn(ctx context.Context, r SignInRequest) (SignedIn, error) {
	if CallFrom(ctx).Administrator == "" {
		var err error
		if ctx, err = a.admit(ctx, AdmissionRequest{Operation: OpSignIn, Method: r.Method}); err != nil {
			return SignedIn{}, err
		}
	}
	return a.Administration.SignIn(ctx, r)
}

// RegisterIdentity implements [Administration].
func (a *admittedAdministration) RegisterIdentity(ctx context.Context, r RegisterIdentityRequest) (SignedIn, error) {
	if CallFrom(ctx).Administrator == "" {
		fields, err := judgedFields(ctx, a.Administration, r.Fields)
		if err == nil {
			if name := Text(r.Name); !name.IsZero() {
				fields["name"] = name
			}
			ctx, err = a.admit(ctx, AdmissionRequest{Operation: OpRegisterIdentity, Method: r.Method, Login: r.Login, Email: r.Email, Fields: fields})
		}
		if err != nil {
			return SignedIn{}, err
		}
	}
	return a.Administration.RegisterIdentity(ctx, r)
}

// Register implements [Service].
func (a *admitted) Register(ctx context.Context, r RegisterRequest) (SignedIn, error) {
	fields, err := judgedFields(ctx, a.Service, r.Fields)
	if err == nil {
		ctx, err = a.admit(ctx, AdmissionRequest{Operation: OpRegister, Method: MethodRegistration, Login: r.Login, Email: r.Email, Fields: fields})
	}
	if err != nil {
		return SignedIn{}, err
	}
	return a.Service.Register(ctx, r)
}

// Authorize implements [Service].
func (a *admitted) Authorize(ctx context.Context, r AuthorizeRequest) (SignedIn, error) {
	return admitting(ctx, a.gate, AdmissionRequest{Operation: OpAuthorize, Method: MethodPassword, Login: r.Login}, a.Service.Authorize, r)
}

// AuthorizePasskey implements [Service].
func (a *admitted) AuthorizePasskey(ctx context.Context, r AuthorizePasskeyRequest) (SignedIn, error) {
	return admitting(ctx, a.gate, AdmissionRequest{Operation: OpAuthorizePasskey, Method: MethodPasskey}, a.Service.AuthorizePasskey, r)
}

// BeginMailedCode implements [Service].
func (a *admitted) BeginMailedCode(ctx context.Context, r BeginMailedCodeRequest) (MailedCodeAttempt, error) {
	judged := AdmissionRequest{Operation: OpBeginMailedCode, Login: r.Login, Email: r.Email}
	if r.Purpose == MailedCodeProve { // which ignores them
		judged.Login, judged.Email = "", ""
	}
	return admitting(ctx, a.gate, judged, a.Service.BeginMailedCode, r)
}

// AuthorizeMailedCode implements [Service].
func (a *admitted) AuthorizeMailedCode(ctx context.Context, r AuthorizeMailedCodeRequest) (SignedIn, error) {
	return admitting(ctx, a.gate, AdmissionRequest{Operation: OpAuthorizeMailedCode, Method: MethodMailedCode}, a.Service.AuthorizeMailedCode, r)
}

// Recover implements [Service].
func (a *admitted) Recover(ctx context.Context, r RecoverRequest) error {
	ctx, err := a.admit(ctx, AdmissionRequest{Operation: OpRecover, Login: r.Login, Email: r.Email})
	if err != nil {
		return err
	}
	return a.Service.Recover(ctx, r)
}

// ChangeEmail implements [Service].
func (a *admitted) ChangeEmail(ctx context.Context, r ChangeEmailRequest) error {
	ctx, err := a.admit(ctx, AdmissionRequest{Operation: OpChangeEmail, Email: r.Email})
	if err != nil {
		return err
	}
	return a.Service.ChangeEmail(ctx, r)
}

// ResendVerification implements [Service].
func (a *admitted) ResendVerification(ctx context.Context, r ResendVerificationRequest) error {
	ctx, err := a.admit(ctx, AdmissionRequest{Operation: OpResendVerification, Login: r.Login, Email: r.Email})
	if err != nil {
		return err
	}
	return a.Service.ResendVerification(ctx, r)
}

// admitting makes a call that is admitted.
func admitting[R, T any](ctx context.Context, g gate, about AdmissionRequest, call func(context.Context, R) (T, error), r R) (result T, err error) {
	if ctx, err = g.admit(ctx, about); err != nil {
		return result, err
	}
	return call(ctx, r)
}

// judgedFields returns a deep copy of what a Judge may see of a registration: it may keep
// it after its call. It also returns the error of a request that is refused as a whole. The
// module finds that as well, but only after the admission, which comes later in the order
// of errors. Fields that are hidden from visitors count as unknown here.
func judgedFields(ctx context.Context, module any, sent map[string]Input) (map[string]Input, error) {
	limited, cancel := context.WithTimeout(ctx, MaxJudgement)
	defer cancel()
	m, ok := module.(interface {
		Fields(context.Context) ([]Field, error)
	})
	if !ok {
		return nil, undecided(errors.New("the Administration that the Admission wraps has no Fields, as a Service has: a Judge could not see them"))
	}
	schema, err := m.Fields(limited)
	if err != nil {
		return nil, err
	}
	seen, lists := map[string]Input{}, map[string]bool{}
	for _, f := range append([]Field{{Name: "name"}}, schema...) {
		lists[f.Name] = f.MaxItems() > 0
		if in, ok := sent[f.Name]; ok {
			in.List = slices.Clone(in.List)
			seen[f.Name] = in
		}
	}
	for name, in := range sent {
		list, known := lists[name]
		if !known && utf8.RuneCountInString(name) > MaxUnknownName {
			return nil, NewError(CodeTooLarge, errors.New("the name of an unknown parameter is too long"))
		}
		if in.Kind == InputRepeated && (known && !list || IsParameter(name)) {
			return nil, NewError(CodeMalformedRequest, errors.New("a parameter that is not a list was repeated"))
		}
	}
	return seen, nil
}

// admit waits for a decision. If that is nil, it returns the context for the module, which
// has no transient parameters. The Judge runs in its own goroutine, which gives its
// slot back when the Judge returns, however late.
func (g gate) admit(ctx context.Context, r AdmissionRequest) (context.Context, error) {
	if !isText(r) {
		return nil, NewError(CodeMalformedRequest, errors.New("a text is not valid UTF-8"))
	}
	r = AsTyped(r)
	limited, cancel := context.WithTimeout(ctx, MaxJudgement)
	defer cancel()
	slots, from := g.slots[r.Operation], sourceOf(CallFrom(ctx))
	switch err := slots.enter(limited, from); {
	case errors.Is(err, errCrowded):
		return nil, undecided(err)
	case err != nil:
		return nil, noDecision(ctx, fmt.Sprintf("all slots for judgements of this source were taken for %s", MaxJudgement))
	}
	decision := make(chan error, 1)
	go func() {
		err := undecided(errors.New("the Judge ended its goroutine"))
		defer func() {
			if v := recover(); v != nil {
				err = undecided(&judgePanic{value: v, stack: debug.Stack()})
			}
			slots.leave(from)
			decision <- err
		}()
		err = decisionOf(g.judge(limited, r))
	}()
	select {
	case err := <-decision:
		if err != nil {
			return nil, err
		}
	case <-limited.Done():
	}
	if limited.Err() != nil { // a decision that comes with the end of the time is late, too
		return nil, noDecision(ctx, fmt.Sprintf("the Judge had no decision within %s", MaxJudgement))
	}
	if ctx.Value(transientKey{}) != nil {
		ctx = WithTransient(ctx, nil)
	}
	return ctx, nil
}

// isText reports whether all texts of a request are valid UTF-8. The module's client refuses
// others as well, but only after the admission.
func isText(r AdmissionRequest) bool {
	invalid := func(s string) bool { return !utf8.ValidString(s) }
	for _, in := range r.Fields {
		if invalid(in.Text) || slices.ContainsFunc(in.List, invalid) {
			return false
		}
	}
	return !invalid(r.Method) && !invalid(r.Login) && !invalid(r.Email)
}

// typesOf returns the types of an error and of those that it wraps, outermost first.
func typesOf(err error) string {
	types := []string{fmt.Sprintf("%T", err)}
	switch e := err.(type) {
	case *Error:
		if e != nil {
			types[0] += " " + string(e.Code)
		}
		return types[0]
	case interface{ Unwrap() error }:
		if below := e.Unwrap(); below != nil {
			types = append(types, typesOf(below))
		}
	case interface{ Unwrap() []error }:
		for _, below := range e.Unwrap() {
			types = append(types, typesOf(below))
		}
	}
	return strings.Join(types, ", ")
}

// undecided returns the error of a judgement that failed. Its callers retry after 1 to 5
// seconds, at random, so that they do not retry at the same time.
func undecided(cause error) error {
	return &Error{
		Code: CodeUnavailable, RetryAfter: time.Second + rand.N(4*time.Second),
		Cause: fmt.Errorf("admission: %w", cause),
	}
}

// noDecision is the error of a judgement whose time is over: that of the caller, or its own.
func noDecision(ctx context.Context, reason string) error {
	if err := ctx.Err(); err != nil {
		return undecided(err)
	}
	return undecided(errors.New(reason))
}

// judgePanic is the cause of an error that was a panic of the Judge.
type judgePanic struct {
	value any
	stack []byte
}

// Error describes the panic by its type, because the value may contain what was typed;
// runtime errors do not.
func (p *judgePanic) Error() string {
	if err, ok := p.value.(runtime.Error); ok {
		return "the Judge panicked: " + err.Error()
	}
	return fmt.Sprintf("the Judge panicked with a value of type %T", p.value)
}

// Stack returns the stack of the panic, for the log.
func (p *judgePanic) Stack() []byte { return p.stack }
