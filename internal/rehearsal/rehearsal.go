// Package rehearsal does everything that a user can do, on a transaction that is never
// committed, and compares the responses with what they must be. Calls pass through
// package rpc's client and server, so that what converts requests and responses is
// rehearsed, too.
//
// A rehearsal belongs to the version that it judges. It finds accidents, not malice.
package rehearsal

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// Store is a store on one transaction that is rolled back when it is closed.
type Store interface {
	accounts.Store
	FinishJobs(ctx context.Context, jobs ...outbox.Job) error
	// LastJob returns the highest id of a job, 0 for none.
	LastJob(ctx context.Context) (int64, error)
	// JobsAfter returns the jobs of the accounts, and those of no account, with an id above
	// after. It claims none.
	JobsAfter(ctx context.Context, after int64, accountIDs ...int64) ([]outbox.Job, error)
	// TablesWith returns the tables that have rows about an account.
	TablesWith(ctx context.Context, accountID int64) ([]string, error)
	// RehearsalOver returns why the transaction has ended; nil while it is open.
	RehearsalOver() error
	Close() error
}

// Contract is what a version offers.
type Contract interface {
	personal.Service
	personal.Administration
}

// Config says what to rehearse.
type Config struct {
	Store    Store             // closed by [Run]
	Clock    *Clock            // that of Store
	Settings accounts.Settings // of the site
	Mails    Mails             // of the site
	Hasher   accounts.Hasher
	Host     personal.Host // only its user fields are used
	Log      *slog.Logger  // gets the causes of internal errors and panics

	Wrap func(Contract) Contract // in tests, to plant faults; nil: none
}

// Mails are the mails of a site. They are implemented by [mailtext.Set].
type Mails interface {
	accounts.Mails
	Locales(k mailtext.Kind) []string
}

// Clock is a clock that stands still until it is moved.
type Clock struct {
	began time.Time
	moved atomic.Int64
}

// NewClock returns a clock that shows a time.
func NewClock(now time.Time) *Clock { return &Clock{began: now} }

// Now returns the time.
func (c *Clock) Now() time.Time { return c.began.Add(time.Duration(c.moved.Load())) }

// move moves the clock forward.
func (c *Clock) move(d time.Duration) { c.moved.Add(int64(d)) }

// run is a rehearsal that runs.
type run struct {
	Config
	ctx     context.Context
	home    netip.Addr
	request string // the id of its calls: by it, it finds its jobs of no account
	service *accounts.Service
	client  Contract
	sink    *sink
	fields  []plannedField
	lastJob int64 // jobs up to this one are of others

	user, other user    // the rehearsed users
	ids         []int64 // of all rehearsed accounts
	changes     []changed
	undoToken   string // undoes the deletion
	failed      bool   // a check has failed
	lost        string // why the following steps cannot be made; "": they can
}

// user is a rehearsed user.
type user struct {
	id                     int64
	login, email, password string
	name                   string
	values                 map[string]any // what the user fields must be, with the hidden ones; nil for unset
	pair                   personal.Credentials
	verified, twoFactor    bool
}

// changed is a change of the rehearsed user whose event must name exactly these fields.
type changed struct {
	op     personal.OperationName
	event  personal.EventType
	fields []string // sorted
}

// noteChange notes what an operation has changed of the rehearsed user.
func (r *run) noteChange(op personal.OperationName, event personal.EventType, before user) {
	var fields []string
	if before.name != r.user.name {
		fields = append(fields, "name")
	}
	for _, f := range r.fields {
		if !reflect.DeepEqual(before.values[f.Name], r.user.values[f.Name]) {
			fields = append(fields, f.Name)
		}
	}
	slices.Sort(fields)
	if len(fields) > 0 {
		r.changes = append(r.changes, changed{op: op, event: event, fields: fields})
	}
}

const noTime = "no time was left"

// tooLate is how long before the deadline a store may refuse to send statements.
const tooLate = 100 * time.Millisecond

// Run rehearses until the deadline of ctx. Checks that it does not reach are skipped. An
// error means that there was no rehearsal.
func Run(ctx context.Context, c Config) (rpc.Rehearsal, error) {
	defer c.Store.Close()
	schema, err := c.Host.UserFields(ctx)
	if err != nil {
		return rpc.Rehearsal{}, fmt.Errorf("asking the host for the user fields: %w", err)
	}
	r := &run{Config: c, ctx: ctx, home: newAddress(), request: "rehearsal " + rand.Text()}
	if r.fields, err = plan(&schema); err != nil {
		return rpc.Rehearsal{}, fmt.Errorf("reading the host's user fields: %w", err)
	}
	r.sink = &sink{schema: schema}
	r.serve()
	if r.lastJob, err = c.Store.LastJob(ctx); err != nil {
		return rpc.Rehearsal{}, err
	}
	r.user, r.other = r.newUser(), r.newUser()
	var result rpc.Rehearsal
	for _, s := range script {
		result.Checks = append(result.Checks, r.step(s))
	}
	if skipped := r.unplanned(); skipped.Name != "" {
		result.Checks = append(result.Checks, skipped)
	}
	over := r.Store.RehearsalOver()
	if err := c.Store.Close(); err != nil && over == nil {
		return rpc.Rehearsal{}, err
	}
	result.Checks = append(result.Checks, r.step(step{"mails", (*run).mails, true}))
	return result, nil
}

// requiresVerification reports whether a sign-in needs a verified e-mail.
func (r *run) requiresVerification() bool {
	return r.Settings.EmailVerification == personal.VerificationRequired
}

// offersTwoFactor reports whether users can switch a second factor on.
func (r *run) offersTwoFactor() bool {
	return r.Settings.TwoFactor && r.Settings.Keys.Primary() != ""
}

// serve makes the service that is rehearsed, and its client.
func (r *run) serve() {
	s := r.Settings
	s.Namespace, s.Mails, s.Throttle = r.request, r.sink, generous(s.Throttle)
	r.service = accounts.New(s, r.Store, r.Hasher, r.sink, slog.New(slog.DiscardHandler), func() {})
	var served Contract = r.service
	if r.Wrap != nil {
		served = r.Wrap(served)
	}
	r.client = rpc.NewClient(rpc.InProcess(served, served, r.Log), r.sink)
}

// generous returns limits that are counted like those of the site, and refuse nothing: a
// rehearsal does in a moment what a user does in a week.
func generous(t accounts.Throttle) accounts.Throttle {
	v := reflect.ValueOf(&t).Elem()
	for i := range v.NumField() {
		if l, ok := v.Field(i).Addr().Interface().(*throttle.Limit); ok {
			l.Burst, l.Every = 1000, time.Second
		}
	}
	return t
}

// newUser returns a user whom nothing stored can equal.
func (r *run) newUser() user {
	login := "rehearsal-" + strings.ToLower(rand.Text())
	return user{login: login, email: login + "@rehearsal.invalid", password: r.newPassword(), name: "Rehearsal " + rand.Text()[:8],
		values: map[string]any{}}
}

func (r *run) newPassword() string {
	text := rand.Text()
	for len(text) < r.Settings.MinPassword {
		text += rand.Text()
	}
	return text
}

// newAddress returns a client address in its own network, in a range that no client has
// (RFC 3849).
func newAddress() netip.Addr {
	a := [16]byte{0x20, 0x01, 0x0d, 0xb8}
	_, _ = rand.Read(a[4:]) // it never fails
	return netip.AddrFrom16(a)
}

// call returns the context of a visitor's call. Most come from one address, because a sign-in
// from a new one has a notice.
func (r *run) call() context.Context { return r.callFrom(r.home) }

// elsewhere returns the context of a call from a new address, whose network has caused no mail
// yet.
func (r *run) elsewhere() context.Context { return r.callFrom(newAddress()) }

func (r *run) callFrom(a netip.Addr) context.Context {
	return personal.WithCall(r.ctx, personal.Call{RequestID: r.request, Locale: "en", Languages: "en", Address: a, Agent: agent})
}

// agent is the User-Agent of the rehearsal's calls.
const agent = "rehearsal"

// administer returns the context of an administrator's call.
func (r *run) administer() context.Context {
	return personal.WithCall(r.ctx, personal.Call{RequestID: r.request, Locale: "en", Administrator: "rehearsal"})
}

// step is one check of the script.
type step struct {
	name  string
	do    func(*run, *check)
	apart bool // it needs neither the store nor the steps before it
}

// ended ends a step: what follows in it needs what has failed.
type ended struct{}

// step makes a check. A panic in it is a failure.
func (r *run) step(s step) rpc.RehearsalCheck {
	c := &check{r: r, RehearsalCheck: rpc.RehearsalCheck{Name: s.name, Outcome: rpc.RehearsalPassed}}
	if reason := r.unable(s); reason != "" {
		c.skip(reason)
		c.Interrupted = reason != r.lost
		return c.RehearsalCheck
	}
	c.protect(func() { s.do(r, c) })
	if reason := r.interrupted(); reason != "" && !s.apart && c.Outcome == rpc.RehearsalFailed {
		c.Differences, c.Interrupted = nil, true
		c.skip(reason)
	}
	if c.Outcome == rpc.RehearsalFailed && !s.apart {
		r.failed = true
		r.repair(s.name)
	}
	return c.RehearsalCheck
}

// unable returns why a step cannot be made; "" if it can.
func (r *run) unable(s step) string {
	if s.apart {
		if r.ctx.Err() != nil {
			return noTime
		}
		return ""
	}
	if reason := r.interrupted(); reason != "" {
		return reason
	}
	return r.lost
}

// interrupted returns why the rehearsal has ended early; "" if it has not.
func (r *run) interrupted() string {
	over := r.Store.RehearsalOver()
	switch {
	case r.late(), errors.Is(over, context.DeadlineExceeded):
		return noTime
	case over != nil:
		return "the transaction of the rehearsal has ended early: " + over.Error()
	}
	return ""
}

func (r *run) late() bool {
	deadline, ok := r.ctx.Deadline()
	return r.ctx.Err() != nil || ok && time.Until(deadline) < tooLate
}

// repair gives the user a session again after a step that has failed in the middle.
func (r *run) repair(failed string) {
	if r.user.id == 0 {
		r.lost = "there is no account, because of the check " + failed
		return
	}
	c := &check{r: r}
	c.protect(func() {
		if r.user.twoFactor {
			if r.service.RemoveTwoFactor(r.administer(), personal.RemoveTwoFactorRequest{UserID: r.user.id}) == nil {
				r.user.twoFactor = false
			}
		}
		r.signIn(c)
	})
	if c.Outcome == rpc.RehearsalFailed {
		r.lost = "the user cannot sign in since the check " + failed
	}
}

// check is a check that runs.
type check struct {
	r *run
	rpc.RehearsalCheck
}

func (c *check) skip(reason string) { c.Outcome, c.Reason = rpc.RehearsalSkipped, reason }

// fail notes that a response was not as it must be.
func (c *check) fail(op personal.OperationName, field, reason string) {
	if c.Outcome != rpc.RehearsalFailed {
		c.Outcome, c.Reason = rpc.RehearsalFailed, reason
	}
	d := rpc.Difference{Operation: string(op), Field: field}
	for _, known := range c.Differences {
		if known == d {
			return
		}
	}
	if op != "" && len(c.Differences) < rpc.MaxDifferences { // a panic may have no operation
		c.Differences = append(c.Differences, d)
	}
}

// protect calls f. A panic is a failure, and [ended] an end.
func (c *check) protect(f func()) {
	defer func() {
		switch p := recover().(type) {
		case nil, ended:
		default:
			c.fail("", "", fmt.Sprintf("panic of type %T; the plugin's log has the stack", p)) // its value may hold a secret
			c.r.Log.Error("panic in a rehearsal", slog.String("check", c.Name), slog.String("stack", string(debug.Stack())))
		}
	}()
	f()
}

// is compares a field of a response.
func (c *check) is(op personal.OperationName, field string, right bool) bool {
	c.Count++
	if !right {
		c.fail(op, field, "the response is not what it must be")
	}
	return right
}

// equal compares a field of a response with its value.
func (c *check) equal(op personal.OperationName, field string, got, want any) bool {
	return c.is(op, field, reflect.DeepEqual(got, want))
}

// ok demands that an operation has succeeded; else the step ends.
func (c *check) ok(op personal.OperationName, err error) {
	c.Count++
	if err != nil {
		c.fail(op, errorCode, fmt.Sprintf("%s failed: %s", op, described(err)))
		panic(ended{})
	}
}

// errorCode is the field of a difference in the outcome of an operation.
const errorCode = "error_code"

// described returns the codes of an error.
func described(err error) string {
	var e *personal.Error
	if !errors.As(err, &e) {
		return string(personal.CodeInternal)
	}
	return (&personal.Error{Code: e.Code, FieldErrors: e.FieldErrors}).Error()
}

// refused demands that an operation was refused with a code, and, for validation_failed, with
// one error of a parameter.
func (c *check) refused(op personal.OperationName, err error, code personal.Code, parameter string, wrong personal.FieldErrorCode) {
	c.Count++
	if got := personal.CodeOf(err); got != code {
		reason := fmt.Sprintf("%s succeeded, and had to be refused: %s", op, code)
		if err != nil {
			reason = fmt.Sprintf("%s was refused with %s instead of %s", op, described(err), code)
		}
		c.fail(op, errorCode, reason)
		return
	}
	var e *personal.Error
	if parameter != "" && errors.As(err, &e) {
		c.Count++
		if e.FieldErrors[parameter] != wrong {
			c.fail(op, parameter, fmt.Sprintf("%s was refused with %s instead of %s=%s", op, described(err), parameter, wrong))
		}
	}
}
