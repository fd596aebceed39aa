package rehearsal

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

const (
	// loadRounds rounds of roundCalls calls of each operation, by loadCallers at once.
	loadRounds, roundCalls, loadCallers = 10, 100, 4

	maxCall = 2 * time.Second // how long a call under load may take
	// How much more a process may hold after the load than before.
	maxGoroutines = 20
	maxHeap       = 10 << 20

	maxResident = 128 << 20 // how much more than the old version's an act may leave
)

// load calls the new version, on a database of its own, so often that what it does not release is seen.
func load(p *player) {
	callers := make([]*user, loadCallers)
	for i := range callers {
		callers[i] = p.register(fmt.Sprint("caller", i))
	}
	operations := []personal.OperationName{personal.OpProfile, personal.OpRefresh, personal.OpUser, personal.OpAuthorize}
	for _, operation := range operations { // fills caches
		p.loadRound(callers, operation)
	}
	// Limits of a session regain calls, and no session ends.
	step := min(p.durations["session.idle"], p.durations["session.absolute"]) / 100
	for _, operation := range operations {
		p.pass(step)
		rounds := loadRounds
		if operation == personal.OpAuthorize { // a user has 100 sessions at most
			rounds = 1
		}
		before := p.measure()
		for range rounds {
			p.loadRound(callers, operation)
			p.pass(step)
		}
		p.leaks(operation, before, p.measure())
	}
	p.loadRound(callers, operations...) // they may wait for each other
	u := callers[0]
	p.quietly(func() {
		for range personal.MaxSessions + 1 {
			p.wait(p.durations["throttle.sign_in_account.every"])
			p.signIn(u)
		}
	})
	if _, err := p.call(u, personal.OpProfile, u.in); u.id != 0 && personal.CodeOf(err) == personal.CodeUnauthenticated {
		p.note(personal.OpAuthorize, "user_hash", "the newest of many sessions has ended")
	}
	// What the migrations of the new version have made lets a user go who has one of everything.
	p.send(u, personal.RecoverRequest{Login: u.login})
	p.send(u, recovered(p.token(u.email), u.password))
	p.outfit(u)
	p.do(u, personal.OpBeginMailedCode, personal.BeginMailedCodeRequest{Credentials: u.in, Purpose: personal.MailedCodeProve})
	if _, err := p.call(nil, personal.OpDeleteUser, u.id); personal.CodeOf(err) == personal.CodeInternal {
		p.note(personal.OpDeleteUser, ErrorCode, "it fails for a user who has one of everything: "+err.Error())
	}
}

// leaks fails if a process holds much more than before.
func (p *player) leaks(operation personal.OperationName, before, after rpc.Turn) {
	if more := after.Goroutines - before.Goroutines; more > maxGoroutines {
		p.note(operation, "goroutines", fmt.Sprintf("the calls left %d goroutines", more))
	}
	if more := after.Heap - before.Heap; more > maxHeap {
		p.note(operation, "heap", fmt.Sprintf("the calls left %d KiB", more>>10))
	}
}

// costsMore fails if an act costs the new version what it did not cost the old one: what its calls have left, and
// several slow calls of an operation. One or two may be pauses of the machine.
func (p *player) costsMore(old *player) {
	p.check = "load"
	if old.held.Goroutines > 0 {
		p.leaks("work", old.held, p.held)
	}
	if is, was := p.used["cpu_seconds_total"], old.used["cpu_seconds_total"]; is > 1.5*was+0.5 { // however busy the machine is
		p.note("work", "duration", fmt.Sprintf("the act took %.1f s of a processor instead of %.1f s", is, was))
	}
	if is, was := p.used["resident_memory_bytes"], old.used["resident_memory_bytes"]; is > was+maxResident {
		p.note("work", "memory", fmt.Sprintf("the act left %.0f MB of memory instead of %.0f MB", is/1e6, was/1e6))
	}
	for operation, n := range p.slow {
		if n > old.slow[operation]+2 {
			p.note(operation, "duration", fmt.Sprintf("%d calls took over %v", n, maxCall))
		}
	}
}

// measure returns what the process holds.
func (p *player) measure() rpc.Turn {
	ctx, cancel := context.WithTimeout(p.ctx, callTimeout)
	defer cancel()
	turn, err := p.process.Turn(ctx, 0, false, true)
	if err != nil {
		p.lost("", "its memory cannot be measured", err)
	}
	return turn
}

var using = regexp.MustCompile(`(?m)^personal_plugin_process_(cpu_seconds_total|resident_memory_bytes) (\S+)$`)

// usage returns what the process has used; nothing where the system does not tell.
func (p *player) usage() map[string]float64 {
	text, _ := p.process.Metrics(p.ctx)
	used := map[string]float64{}
	for _, m := range using.FindAllSubmatch(text, -1) {
		used[string(m[1])], _ = strconv.ParseFloat(string(m[2]), 64)
	}
	return used
}

// loadRound calls operations by all callers at once, each of which begins with another one. A round that is too
// slow is repeated once: the machine may have paused.
func (p *player) loadRound(callers []*user, operations ...personal.OperationName) {
	took, err := p.tooSlow(callers, operations)
	if personal.CodeOf(err) == personal.CodeUnavailable || err == nil && took > 0 {
		p.pass(time.Minute) // limits regain calls
		took, err = p.tooSlow(callers, operations)
	}
	if err != nil {
		p.lost(operations[0], "calls at the same time fail", err)
	}
	if took > 0 {
		p.fail(operations[0], "duration", fmt.Sprintf("a call took %v", took.Round(time.Millisecond)))
	}
}

// tooSlow makes the calls of a round, and returns how long the longest one took if that is too long, else 0. The error is
// that of a call that failed, or for which a session was ended.
func (p *player) tooSlow(callers []*user, operations []personal.OperationName) (time.Duration, error) {
	var calling sync.WaitGroup
	starved := p.process.Starved()
	longest, failed := make([]time.Duration, len(callers)), make([]error, len(callers))
	for i, u := range callers {
		calling.Go(func() {
			for n := range roundCalls / len(callers) {
				request, operation := any(u.in), operations[(i+n)%len(operations)]
				switch operation {
				case personal.OpUser:
					request = u.id
				case personal.OpAuthorize:
					request = personal.AuthorizeRequest{Login: u.login, Password: u.password}
				}
				began := time.Now()
				response, err := p.invoke(u, operation, request)
				longest[i] = max(longest[i], time.Since(began))
				if next, ok := response.(personal.Credentials); ok {
					u.in = next
				}
				if broken(err) || u.id != 0 && personal.CodeOf(err) == personal.CodeUnauthenticated {
					failed[i] = err
					return
				}
			}
		})
	}
	calling.Wait()
	if err := cmp.Or(failed...); err != nil {
		return 0, err
	}
	// A busy machine is no fault of a version, so the whole round's waiting counts for it.
	if took := slices.Max(longest); took > maxCall && took-(p.process.Starved()-starved) > maxCall {
		return took, nil
	}
	return 0, nil
}
