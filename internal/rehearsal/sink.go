package rehearsal

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/shared/personal"
)

// sink is the host of a rehearsal, and what writes its mails: nothing leaves it.
type sink struct {
	schema personal.Schema
	mails  []sentMail
	erased []int64
	events []personal.Event
}

// sentMail is a mail that was to be sent. It is written after the rehearsal.
type sentMail struct {
	kind   mailtext.Kind
	letter mailtext.Letter
	to     string
}

// Write implements [accounts.Mails]. The subject is the number of the mail.
func (s *sink) Write(k mailtext.Kind, _ string, l mailtext.Letter) (subject, text, html string, err error) {
	s.mails = append(s.mails, sentMail{kind: k, letter: l})
	number := strconv.Itoa(len(s.mails) - 1)
	return number, number, number, nil
}

// UserFields implements [personal.Host].
func (s *sink) UserFields(context.Context) (personal.Schema, error) { return s.schema, nil }

// SendMail implements [personal.Host].
func (s *sink) SendMail(_ context.Context, m personal.Mail) error {
	i, err := strconv.Atoi(m.Subject)
	if err == nil {
		s.mails[i].to = m.To
	}
	return err
}

// PublishEvent implements [personal.Host].
func (s *sink) PublishEvent(_ context.Context, e personal.Event) error {
	s.events = append(s.events, e)
	return nil
}

// EraseUser implements [personal.Eraser].
func (s *sink) EraseUser(_ context.Context, userID int64) error {
	s.erased = append(s.erased, userID)
	return nil
}

// work runs the jobs that the operation has stored, and those that follow, without claiming
// any.
func (r *run) work(c *check, op personal.OperationName) {
	handlers := r.service.Jobs()
	for range 10 { // jobs may store others
		jobs, err := r.Store.JobsAfter(r.ctx, r.lastJob, r.ids...)
		c.ok(op, err)
		jobs = slices.DeleteFunc(jobs, func(j outbox.Job) bool { return !r.owns(j) })
		if len(jobs) == 0 {
			return
		}
		for _, j := range jobs {
			c.Count++
			handle := handlers[j.Kind]
			if handle == nil {
				c.fail(op, "job", fmt.Sprintf("no handler for jobs of the kind %s", j.Kind))
			} else if err := handle(r.ctx, j); err != nil {
				r.Log.Warn("a job of the rehearsal failed", "kind", string(j.Kind), "error", err.Error())
				c.fail(op, "job", fmt.Sprintf("a job of the kind %s failed; the plugin's log has the cause", j.Kind))
			}
		}
		c.ok(op, r.Store.FinishJobs(r.ctx, jobs...))
	}
	c.fail(op, "job", "the jobs do not come to an end")
}

// owns reports whether a job is the rehearsal's.
func (r *run) owns(j outbox.Job) bool {
	if j.AccountID != 0 {
		return slices.Contains(r.ids, j.AccountID)
	}
	if j.Kind == accounts.KindErasure {
		var of struct {
			UserID int64 `json:"user_id"`
		}
		return json.Unmarshal(j.Payload, &of) == nil && slices.Contains(r.ids, of.UserID)
	}
	return bytes.Contains(j.Payload, []byte(r.request))
}

// mail demands that the operation has sent a mail of the kind to the address since there were
// n, and returns its token.
func (r *run) mail(c *check, op personal.OperationName, kind mailtext.Kind, to string) string {
	before := len(r.sink.mails)
	r.work(c, op)
	for _, m := range slices.Backward(r.sink.mails[before:]) {
		if m.kind == kind {
			c.is(op, "mail "+string(kind), m.to == to)
			return m.letter.Token
		}
	}
	c.Count++
	c.fail(op, "mail "+string(kind), fmt.Sprintf("%s sent no mail %s", op, kind))
	panic(ended{})
}
