package rehearsal

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/plugins/manager/internal/process"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

const (
	// callTimeout is how long a call may take before the version counts as hung.
	callTimeout = 10 * time.Second
	// startTimeout is how long a scratch process may take for each step until it plays.
	startTimeout = 30 * time.Second
	// maxMigration is how long the migration of the candidate may take.
	maxMigration = 3 * time.Second
)

// line is what a version has done in one step of the script.
type line struct {
	check      string
	operation  personal.OperationName // empty: only time has passed
	answer     Answer
	mails      []Answer
	events     []Answer
	erased     []int64
	rows       map[string]int64 // how many more there are than before
	statements int
	scans      []string
}

// player plays an act to one scratch process.
type player struct {
	*story
	ctx     context.Context
	process *process.Process
	client  *rpc.Client
	stage   *stage
	output  *output

	began     time.Time
	serves    bool   // it is no scratch process: it works by itself, by the real clock
	check     string // the scene
	quiet     bool   // see quietly
	lines     []line
	durations map[string]time.Duration // of the settings, by their keys
	rows      map[string]int64         // of each table, at the last turn
	held      rpc.Turn                 // at the end of an act
	used      map[string]float64       // then, by the process
	slow      map[personal.OperationName]int
	failures  []finding
}

// ended ends an act: the process cannot go on.
type ended struct{}

// play starts a version on a database file, plays scenes to it, and stops it. The result has all that
// was played until the process failed. With serves, it is no scratch process.
func (c *Config) play(ctx context.Context, v Version, database string, s *story, scenes []scene, serves bool) *player {
	p := &player{story: s, stage: &stage{schema: s.schema, came: make(chan struct{}, 1), sending: make(chan struct{}, 1)}, output: &output{}, began: time.Now(), serves: serves, slow: map[personal.OperationName]int{}}
	p.secrets = append(p.secrets, "sqlite://"+database) // a site's has a password
	for _, key := range s.keys {
		p.secrets = append(p.secrets, base64.StdEncoding.EncodeToString(key), hex.EncodeToString(key), strings.Trim(fmt.Sprint(key), "[]"))
	}
	var stop context.CancelFunc
	p.ctx, stop = context.WithCancel(ctx)
	defer stop()
	p.check = "start"
	p.protect(func() { p.start(c, v, database) })
	if p.process == nil {
		return p
	}
	defer func() {
		p.process.Stop(context.WithoutCancel(ctx), stopTimeout)
		p.findSecrets()
	}()
	for _, scene := range scenes {
		if len(p.failures) > 0 {
			break
		}
		p.check = scene.name
		p.protect(func() {
			scene.do(p)
			p.pass(0)
		})
	}
	if len(p.failures) == 0 && !serves {
		p.protect(func() { p.held, p.used = p.measure(), p.usage() })
	}
	return p
}

const stopTimeout = 5 * time.Second

// protect calls f, until it ends the act.
func (p *player) protect(f func()) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(ended); !ok { // the script has not got what it goes on with
				p.failures = append(p.failures, finding{check: p.check, failed: true, reason: fmt.Sprint("the script cannot go on: ", r)})
			}
		}
	}()
	f()
}

// note notes a failure of the version, and fail ends the act, too.
func (p *player) note(operation personal.OperationName, field, reason string) {
	p.failures = append(p.failures, finding{check: p.check, Difference: rpc.Difference{Operation: string(operation), Field: field}, failed: true, reason: reason})
}

func (p *player) fail(operation personal.OperationName, field, reason string) {
	p.note(operation, field, reason)
	panic(ended{})
}

func (p *player) start(c *Config, v Version, database string) {
	step := func(name string, do func(context.Context) error) {
		ctx, cancel := context.WithTimeout(p.ctx, startTimeout)
		defer cancel()
		if err := do(ctx); err != nil {
			p.fail("", name, name+": "+err.Error())
		}
	}
	level := slog.LevelInfo
	if v.Binary == c.New.Binary { // only its log is searched
		level = slog.LevelDebug
	}
	env := c.Env
	if p.serves {
		env = append(slices.Clip(env), "OTEL_TRACES_EXPORTER=console") // to the log
	}
	step("start", func(ctx context.Context) (err error) {
		p.process, err = process.Start(ctx, process.Options{
			Binary: v.Binary, Manifest: v.Manifest, Host: p.stage, Env: env, Sockets: c.Sockets, StartTimeout: startTimeout,
			Log: slog.New(slog.NewJSONHandler(p.output, &slog.HandlerOptions{Level: level})), Scratch: true,
		})
		return err
	})
	step("configure", func(ctx context.Context) error {
		configuration := rpc.Configuration{DatabaseURL: "sqlite://" + database, Settings: c.Settings, SecretKeys: p.keys, AccountURL: c.AccountURL}
		if !p.lacks[personal.OpRegisterIdentity] { // 0.2.0 has mails in English and Russian alone
			configuration.Locales = c.Locales
		}
		if !p.serves {
			configuration.Scratch = &rpc.Scratch{Now: p.now}
		}
		return p.process.Configure(ctx, configuration)
	})
	began, starved := time.Now(), p.process.Starved()
	step("migrate", func(ctx context.Context) error { return p.process.Migrate(ctx, 0) })
	// A busy machine is no fault of a version.
	if took := time.Since(began) - max(p.process.Starved()-starved, 0); took > maxMigration {
		p.fail("", "migrate", fmt.Sprintf("the migration of a small database took %v", took.Round(time.Millisecond)))
	}
	step("activate", p.process.Activate)
	step("settle", p.process.Settle)
	p.client = rpc.NewClient(p.process.Conn(), p.stage)
	p.pass(0)
}

// pass moves the clock, and lets the process work.
func (p *player) pass(d time.Duration) { p.forward(d, !p.quiet) }

// wait moves the clock, but not the periodic work, which removes what has just ended.
func (p *player) wait(d time.Duration) { p.forward(d, false) }

func (p *player) forward(d time.Duration, work bool) {
	if p.serves { // it takes no turns
		return
	}
	p.now = p.now.Add(d)
	l := line{check: p.check}
	p.turn(&l, d, work)
	p.lines = append(p.lines, l)
}

// turn adds to a line what the process has done.
func (p *player) turn(l *line, advance time.Duration, work bool) {
	ctx, cancel := context.WithTimeout(p.ctx, rpc.TurnTimeout+callTimeout)
	defer cancel()
	turn, err := p.process.Turn(ctx, advance, work, false)
	if err != nil {
		p.lost(l.operation, "jobs and periodic work do not end", err)
	}
	l.statements, l.scans = turn.Statements, turn.Scans
	if turn.Rows != nil {
		l.rows = map[string]int64{}
		for table, n := range turn.Rows {
			l.rows[table] = n - p.rows[table]
		}
		p.rows = turn.Rows
	}
	if turn.Durations != nil {
		p.durations = turn.Durations
	}
	mails, events, erased := p.stage.take()
	for _, m := range mails {
		p.mails = append(p.mails, m)
		p.secrets = append(p.secrets, p.token(m.To), p.mailedCode(m.To))
		l.mails = append(l.mails, AnswerOf(m, nil))
	}
	for _, e := range events {
		l.events = append(l.events, AnswerOf(e, nil))
	}
	l.erased = erased
}

// lost fails because a call had no outcome.
func (p *player) lost(operation personal.OperationName, what string, err error) {
	p.process.AwaitLost(p.ctx, process.ExitNotice)
	if p.process.IsLost() {
		p.fail(operation, "", "the process was lost: "+p.process.LossCause(p.ctx).Error())
	}
	p.fail(operation, "", what+": "+err.Error())
}

// ask calls an operation as a user, or as an administrator if there is none, and returns its response;
// the zero value if it was refused. Request is nil for an operation without one.
func ask[R any](p *player, as *user, operation personal.OperationName, request any) (response R) {
	result, err := p.call(as, operation, request)
	if err == nil {
		response, _ = result.(R)
	}
	l := line{check: p.check, operation: operation, answer: AnswerOf(result, err)}
	for path, value := range l.answer {
		if operation == personal.OpRenewRecoveryCodes && err == nil || slices.ContainsFunc(secretFields, func(f string) bool { return strings.HasSuffix(Field(path), f) }) {
			p.secrets = append(p.secrets, value)
		}
	}
	if !p.quiet {
		p.turn(&l, 0, false)
	}
	p.lines = append(p.lines, l)
	return response
}

// quietly plays calls of which only the answers count one by one: what they do is seen after the last one.
func (p *player) quietly(f func()) {
	p.quiet = true
	f()
	p.quiet = false
	p.pass(0)
}

// call calls an operation.
func (p *player) call(as *user, operation personal.OperationName, request any) (response any, err error) {
	began, starved := time.Now(), p.process.Starved()
	response, err = p.invoke(as, operation, request)
	took := time.Since(began)
	if took > maxCall { // a busy machine is no fault of a version
		took -= p.process.Starved() - starved
	}
	if took > maxCall {
		p.slow[operation]++
	}
	if took >= callTimeout || err != nil && p.process.IsLost() {
		p.lost(operation, "the call had no response within "+callTimeout.String(), err)
	}
	return response, err
}

// broken reports whether a call has failed by a fault, and was not refused.
func broken(err error) bool {
	code := personal.CodeOf(err)
	return code == personal.CodeInternal || code == personal.CodeUnavailable
}

// invoke is call for use by several callers at once: it returns what fails an act, too.
func (p *player) invoke(as *user, operation personal.OperationName, request any) (response any, err error) {
	ctx, cancel := context.WithTimeout(p.by(as, operation), callTimeout)
	defer cancel()
	in := []reflect.Value{reflect.ValueOf(ctx)}
	if request != nil {
		in = append(in, reflect.ValueOf(request))
	}
	out := reflect.ValueOf(p.client).MethodByName(string(operation)).Call(in)
	if err, _ = out[len(out)-1].Interface().(error); err == nil && len(out) > 1 {
		response = out[0].Interface()
	}
	return response, err
}

// warnings returns those of the process. It asks again if it has no answer: if the machine pauses for a second, a
// health check ends.
func (p *player) warnings() (warnings []string, err error) {
	for range 3 {
		if warnings, err = p.process.Health(p.ctx); err == nil {
			break
		}
		time.Sleep(pause)
	}
	return warnings, err
}

// many asks n times, and moves the clock after each so many. Its one answer is their codes in a row, such as
// "success 14, too_many_attempts 2".
func (p *player) many(n, each int, step time.Duration, as *user, operation personal.OperationName, request func(i int) any) {
	l := line{check: p.check, operation: operation}
	var codes []string
	same, statements := 0, 0
	for i := range n {
		_, err := p.call(as, operation, request(i))
		code := cmp.Or(AnswerOf(nil, err)[ErrorCode], "success")
		if len(codes) > 0 && strings.HasPrefix(codes[len(codes)-1], code+" ") {
			codes = codes[:len(codes)-1]
		} else {
			same = 0
		}
		same++
		codes = append(codes, fmt.Sprintf("%s %d", code, same))
		if step > 0 && i%each == each-1 {
			p.now = p.now.Add(step)
			p.turn(&l, step, false)
			statements += l.statements
		}
	}
	l.answer = Answer{ErrorCode: strings.Join(codes, ", ")}
	p.turn(&l, 0, true)
	l.statements += statements
	p.lines = append(p.lines, l)
}

// do is ask without a response.
func (p *player) do(as *user, operation personal.OperationName, request any) {
	ask[struct{}](p, as, operation, request)
}

// secretFields are the ends of the paths of secrets in responses.
var secretFields = []string{"user_hash", "proof", "secret", "attempt", "recovery_codes"}

// by returns the context of a call. Its request id names the operation, also in the log.
func (p *player) by(u *user, operation personal.OperationName) context.Context {
	call := personal.Call{RequestID: requestPrefix + string(operation), Locale: "en", Administrator: "Zoë Operator", Address: addressOf(7)}
	if u != nil {
		call.Administrator, call.Locale = "", u.language
		if u.language == "en" { // the site speaks another language with them than they prefer
			call.Locale, call.Languages = "ru", "!!, kk;q=0.9, en-GB;q=0.8"
		}
		call.Address, call.Agent, call.Shared, call.Poll = u.address, "rehearsal"+strings.Repeat("ш", 246), u.shared, u.poll
		if u.away > 0 {
			call.Address = addressOf(u.away)
		}
	}
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled}) // as on sites that trace
	return trace.ContextWithSpanContext(personal.WithCall(p.ctx, call), span)
}

const requestPrefix = "rehearsal "

// addressOf returns an address in its own network, in ranges for examples and private networks (RFC 3849,
// RFC 1918).
func addressOf(n int) netip.Addr {
	if n%2 == 1 {
		return netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), 1})
	}
	return netip.AddrFrom16([16]byte{0: 0x20, 1: 0x01, 2: 0x0d, 3: 0xb8, 4: byte(n >> 8), 5: byte(n), 15: 1})
}

// output is what a process logs. It is safe for concurrent use.
type output struct {
	mu    sync.Mutex
	lines []string
}

// Write takes one line.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lines = append(o.lines, string(p))
	return len(p), nil
}

// loggedRefusal is a line by which sites ban addresses: docs/observing.md.
var loggedRefusal = regexp.MustCompile(`"msg":"(?:authentication failed|too many attempts)".*"address":"[^"]`)

// refusals returns how many refusals the process has logged for those who ban addresses.
func (o *output) refusals() (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, text := range o.lines {
		if loggedRefusal.MatchString(text) {
			n++
		}
	}
	return n
}

// warned returns the texts of warnings and errors in the log, and how many lines there are, without those for debugging.
func (o *output) warned() (texts map[string]bool, lines int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	texts = map[string]bool{}
	for _, text := range o.lines {
		var l struct{ Level, Msg string }
		if json.Unmarshal([]byte(text), &l) != nil || l.Level == slog.LevelDebug.String() {
			continue
		}
		lines++
		if l.Level != slog.LevelInfo.String() {
			texts[l.Msg] = true
		}
	}
	return texts, lines
}

var loggedRequest = regexp.MustCompile(`"` + requestPrefix + `(\w+)"`)

// findSecrets fails if the process has logged a secret of the script, and names the operations that did.
func (p *player) findSecrets() {
	p.output.mu.Lock()
	defer p.output.mu.Unlock()
	logged := map[rpc.Difference]bool{}
	all := strings.Join(p.output.lines, "")
	for _, secret := range slices.Compact(slices.Sorted(slices.Values(p.secrets))) {
		if len(secret) < 6 || !strings.Contains(all, secret) {
			continue
		}
		for _, text := range p.output.lines {
			if !strings.Contains(text, secret) {
				continue
			}
			d := rpc.Difference{Field: "log"}
			if m := loggedRequest.FindStringSubmatch(text); m != nil {
				d.Operation = m[1]
			}
			if !logged[d] {
				logged[d] = true
				p.failures = append(p.failures, finding{check: "secrets", Difference: d, failed: true, reason: "a secret is in the log"})
			}
		}
	}
}
