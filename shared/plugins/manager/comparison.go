package manager

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/plugins/manager/internal/process"
	"github.com/cms-personal/personal/shared/plugins/manager/rehearsal"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// Accounts whose answers are compared: so many pages, evenly spread over the ids, of so
// many accounts each.
const (
	samplePages = 20
	samplePage  = 10
	sampleMin   = 30 // fewer say too little, if there are more
)

// question is a call that changes nothing.
type question struct {
	operation personal.OperationName
	ask       func(context.Context, *rpc.Client) (any, error)
}

// questions are what is asked about a user. The fields that they lack are those of their
// profile, which needs a session; Explain counts them.
func questions(u personal.User) []question {
	return []question{
		{personal.OpUser, func(ctx context.Context, c *rpc.Client) (any, error) { return c.User(ctx, u.ID) }},
		{personal.OpExplain, func(ctx context.Context, c *rpc.Client) (any, error) {
			return c.Explain(ctx, personal.ExplainRequest{Login: u.Login})
		}},
		{personal.OpUserSessions, func(ctx context.Context, c *rpc.Client) (any, error) { return c.UserSessions(ctx, u.ID) }},
	}
}

// sameResponses asks the candidate and the process that serves the same about accounts
// spread over the table, and compares the answers. The calls are no visitors': they do not
// count as such. It returns an error if the candidate is lost.
func (m *Manager) sameResponses(ctx context.Context, p, old *instance) (rpc.RehearsalCheck, error) {
	c := comparison{differences: map[rpc.Difference]int{}, known: map[rpc.Difference]bool{}}
	skipped := func(reason string) rpc.RehearsalCheck {
		return rpc.RehearsalCheck{Name: checkSameResponses, Outcome: rpc.RehearsalSkipped, Count: c.count, Reason: reason}
	}
	if old == nil || old.IsLost() {
		return skipped("no process serves"), nil
	}
	began := time.Now()
	end, _ := ctx.Deadline()
	before, after := rpc.NewClient(old.Conn(), m.config.Host), rpc.NewClient(p.Conn(), m.config.Host)
	users, err := sample(ctx, before)
	list := []question{{personal.OpFields, func(ctx context.Context, c *rpc.Client) (any, error) { return c.Fields(ctx) }}}
	for _, u := range users {
		list = append(list, questions(u)...)
	}
	budget := time.Until(end) / 2
	for i, q := range list {
		asked := time.Now()
		first, second := ask(ctx, q, before), ask(ctx, q, after)
		third := first
		if !maps.Equal(first, second) { // or the account has changed since
			third = ask(ctx, q, before)
		}
		if unavailable(first) || unavailable(second) || unavailable(third) {
			p.AwaitLost(ctx, process.ExitNotice)
		}
		switch {
		case p.IsLost():
			return skipped(errCandidateLost.Error()), errCandidateLost
		case old.IsLost():
			return skipped("the process that serves was lost"), nil
		case ctx.Err() != nil:
			return c.lateResult(len(list), time.Since(began)), nil
		}
		if unavailable(second) { // under load; an error of the version comes again
			second = ask(ctx, q, after)
		}
		if !unavailable(first) && !unavailable(third) {
			c.add(q.operation, first, second, third)
		}
		// Visitors come first: half of the time is theirs, as long as enough is left.
		if ahead := budget*time.Duration(i+1)/time.Duration(len(list)) - time.Since(began); ahead > 0 {
			p.AwaitLost(ctx, min(ahead, time.Since(asked)))
		}
	}
	result := c.result()
	if err != nil && result.Outcome == rpc.RehearsalPassed {
		return skipped("the process that serves lists no users: " + string(personal.CodeOf(err))), nil
	}
	return result, nil
}

// sample returns up to samplePages*samplePage users, spread over the ids, in an order in
// which the first ones are, too. After an error it returns those that it has found.
func sample(ctx context.Context, c personal.Administration) ([]personal.User, error) {
	var users []personal.User
	var newest, next int64
	for i := range int64(samplePages) {
		page, err := c.FindUsers(ctx, personal.FindUsersRequest{After: min(newest-newest/samplePages*i, next), Limit: samplePage})
		if err == nil && len(page.Users) == 0 && i > 0 { // all lower ids are free
			page, err = c.FindUsers(ctx, personal.FindUsersRequest{After: next, Limit: samplePage})
		}
		if err != nil || len(page.Users) == 0 {
			return interleave(users), err
		}
		users = append(users, page.Users...)
		if i == 0 {
			newest = page.Users[0].ID
		}
		if next = page.Users[len(page.Users)-1].ID; page.Next == 0 {
			break
		}
	}
	return interleave(users), nil
}

// interleave takes the first of every page, then the second, and so on.
func interleave(users []personal.User) []personal.User {
	var mixed []personal.User
	for i := range samplePage {
		for j := i; j < len(users); j += samplePage {
			mixed = append(mixed, users[j])
		}
	}
	return mixed
}

// answer is what a question gets, and "none" as its error code if it was answered.
type answer = rehearsal.Answer

func unavailable(a answer) bool { return a[rehearsal.ErrorCode] == string(personal.CodeUnavailable) }

// ask returns the answer to a question. An operation that a version does not know has no
// values: a newer one may know it.
func ask(ctx context.Context, q question, c *rpc.Client) answer {
	response, err := q.ask(ctx, c)
	values := rehearsal.AnswerOf(response, err)
	switch {
	case err == nil:
		values[rehearsal.ErrorCode] = "none"
	case personal.CodeOf(err) == personal.CodeNotFound:
		return nil
	}
	return values
}

// comparison counts where the answers of two processes differ. It has no values.
type comparison struct {
	count       int
	failed      bool                    // the new process has an internal error where the old one has none
	differences map[rpc.Difference]int  // answers that differ
	known       map[rpc.Difference]bool // fields that the old process has set
}

// add compares two answers of the old process, before and after, with one of the new
// process. What differs between the first two is noise.
func (c *comparison) add(operation personal.OperationName, before, new, after answer) {
	c.count++
	at := func(path string) rpc.Difference {
		return rpc.Difference{Operation: string(operation), Field: rehearsal.Field(path)}
	}
	differs := map[rpc.Difference]bool{}
	for _, answer := range []answer{before, new} {
		for path := range answer {
			if path != rehearsal.ErrorCode && before[rehearsal.ErrorCode] != new[rehearsal.ErrorCode] {
				continue // there are no values
			}
			if before[path] == after[path] && before[path] != new[path] {
				differs[at(path)] = true
			}
		}
	}
	for path := range before {
		c.known[at(path)] = true
	}
	if code, internal := before[rehearsal.ErrorCode], string(personal.CodeInternal); new[rehearsal.ErrorCode] == internal && code != "" &&
		code != internal && after[rehearsal.ErrorCode] != internal {
		c.failed, differs[at(rehearsal.ErrorCode)] = true, true
	}
	for difference := range differs {
		c.differences[difference]++
	}
}

// result leaves out what the old process never sets: that is new.
func (c *comparison) result() rpc.RehearsalCheck {
	result := rpc.RehearsalCheck{Name: checkSameResponses, Outcome: rpc.RehearsalPassed, Count: c.count}
	maps.DeleteFunc(c.differences, func(d rpc.Difference, _ int) bool { return !c.known[d] })
	if len(c.differences) == 0 {
		return result
	}
	sorted := slices.SortedFunc(maps.Keys(c.differences), func(a, b rpc.Difference) int {
		return cmp.Or(cmp.Compare(c.differences[b], c.differences[a]), cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Field, b.Field))
	})
	result.Outcome, result.Differences = rpc.RehearsalDiffers, sorted[:min(len(sorted), rpc.MaxDifferences)]
	if c.failed {
		result.Outcome = rpc.RehearsalFailed
	}
	var counts []string
	for _, d := range result.Differences {
		counts = append(counts, strconv.Itoa(c.differences[d]))
	}
	result.Reason = fmt.Sprintf("%s of %d answers", strings.Join(counts, ", "), c.count)
	if more := len(sorted) - len(result.Differences); more > 0 {
		result.Reason += fmt.Sprintf("; and %d more fields", more)
	}
	return result
}

// lateResult is the result of a comparison whose time was up: enough accounts count as all.
func (c *comparison) lateResult(all int, took time.Duration) rpc.RehearsalCheck {
	result := c.result()
	if result.Outcome == rpc.RehearsalPassed && c.count < 1+sampleMin*len(questions(personal.User{})) {
		result.Outcome = rpc.RehearsalSkipped
		result.Reason = fmt.Sprintf("not finished within %v: %d of %d comparisons", took.Round(time.Millisecond), c.count, all)
	}
	return result
}

// compareAnswers adds the check same_answers to the rehearsal of a swap, and returns why it must not go on. A
// rollback ends it.
func (m *Manager) compareAnswers(ctx context.Context, p *instance, w *swap) error {
	m.mu.Lock()
	old, checks := m.live, w.status.Rehearsal
	m.mu.Unlock()
	m.setRehearsing(w, true)
	same, err := m.sameResponses(ctx, p, old)
	m.setRehearsing(w, false)
	switch {
	case w.work.Err() != nil:
		return context.Cause(w.work)
	case err != nil:
		return err
	case same.Outcome == rpc.RehearsalSkipped:
		m.mu.Lock()
		w.status.Steps[len(w.status.Steps)-1].Detail = same.Reason
		m.mu.Unlock()
		p.Log().Warn("plugin's live answers were not compared", "reason", same.Reason)
	}
	return m.decide(w, checks, same)
}
