package rehearsal

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// stage is the host of a scratch process. It accepts every mail, event and erasure, unless it refuses them.
type stage struct {
	mu      sync.Mutex
	schema  personal.Schema
	asked   int   // how often host and process have asked for the fields
	refusal error // of all mails, events and erasures; nil: none
	mails   []personal.Mail
	events  []personal.Event
	erased  []int64
	came    chan struct{} // something has come
	slow    time.Duration // how long a mail takes
	sending chan struct{} // a slow mail is being sent
}

// accept stores what has come, or returns the refusal.
func (s *stage) accept(store func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusal != nil {
		return s.refusal
	}
	store()
	select {
	case s.came <- struct{}{}:
	default:
	}
	return nil
}

// refuse lets the host refuse mails, events and erasures from now on, with an error, or accept them.
func (s *stage) refuse(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusal = err
}

// delay lets each mail take some time from now on.
func (s *stage) delay(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slow = d
}

// show gives the host other user fields.
func (s *stage) show(schema personal.Schema) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.schema = schema
}

// UserFields implements [personal.Host].
func (s *stage) UserFields(context.Context) (personal.Schema, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	return s.schema, nil
}

// questions returns how often host and process have asked for user fields.
func (s *stage) questions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// SendMail implements [personal.Host].
func (s *stage) SendMail(ctx context.Context, m personal.Mail) error {
	s.mu.Lock()
	slow := s.slow
	s.mu.Unlock()
	select {
	case s.sending <- struct{}{}:
	default:
	}
	if slow > 0 {
		select {
		case <-time.After(slow):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s.accept(func() { s.mails = append(s.mails, m) })
}

// PublishEvent implements [personal.Host].
func (s *stage) PublishEvent(_ context.Context, e personal.Event) error {
	return s.accept(func() { s.events = append(s.events, e) })
}

// EraseUser implements [personal.Eraser].
func (s *stage) EraseUser(_ context.Context, id int64) error {
	return s.accept(func() { s.erased = append(s.erased, id) })
}

// take returns what has come since the last call, in an order that does not depend on random texts
// or on what was sent at the same time.
func (s *stage) take() (mails []personal.Mail, events []personal.Event, erased []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mails, events, erased = s.mails, s.events, s.erased
	s.mails, s.events, s.erased = nil, nil, nil
	slices.SortStableFunc(mails, func(a, b personal.Mail) int { return strings.Compare(order(a), order(b)) })
	slices.SortStableFunc(events, func(a, b personal.Event) int {
		if a.UserID != 0 && a.UserID == b.UserID { // they come in their order
			return 0
		}
		return cmp.Or(cmp.Compare(a.UserID, b.UserID), strings.Compare(order(a), order(b)))
	})
	slices.Sort(erased)
	return mails, events, erased
}

// order is a text by which mails and events are sorted.
func order(v any) string { return AnswerOf(v, nil).masked() }

// masked is the text of an answer without its random texts.
func (a Answer) masked() string {
	var all []string
	for path, value := range a {
		all = append(all, path+"="+random.ReplaceAllString(value, "~"))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// shortestRandom is the length of a mailed code.
const shortestRandom = 9

// random is what may be a random text: a long one, or a mailed code.
var random = regexp.MustCompile(`[A-Za-z0-9_-]{16,}|\b[0-9A-Z]{4}-[0-9A-Z]{4}\b`)
