package accounts

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

// FieldsStore reads the user fields of all accounts, and fills in those that are unset.
type FieldsStore interface {
	// AccountFields returns up to n accounts with a higher id than after, the lowest first.
	AccountFields(ctx context.Context, after int64, n int) ([]AccountFields, error)
	// StartFill stores a new run over all accounts, which replaces the last one and its job,
	// and the jobs. It is started now, and later than every run before.
	StartFill(ctx context.Context, revision string, jobs func(started time.Time) []NewJob) error
	// LastFill returns the last run; the zero value if there was none.
	LastFill(ctx context.Context) (personal.FieldsFill, error)
	// FillBatch calls fill with the user fields of the next n accounts of the run that was
	// started at that time, and stores those that fill has changed, together with the
	// progress of the run. It calls fill again under the account's lock, so that no change of
	// a profile is lost. It changes no Updated. It returns whether accounts are left. With
	// the last batch the run is done. If the run has ended, or another one was started, it
	// writes nothing and returns false; if another worker makes the same batch, it writes
	// nothing and returns true. It leaves accounts whose user fields cannot be read, and logs
	// their number.
	FillBatch(ctx context.Context, started time.Time, n int, fill func(userfields.Values) (userfields.Values, bool)) (left bool, err error)
	// SupersedeFill ends the run that was started at that time, if it has not ended.
	SupersedeFill(ctx context.Context, started time.Time) error
}

// AccountFields are the user fields of an account.
type AccountFields struct {
	ID     int64
	Login  string
	Fields []byte // as [userfields.DecodeValues] takes them
}

// The limits of a preview.
const (
	previewTime = 10 * time.Second
	previewPage = 2000 // accounts that are read at once
)

// PreviewFields implements [personal.Administration].
func (s *Service) PreviewFields(ctx context.Context, fields []personal.Field) (r personal.FieldsPreview, err error) {
	schema, err := userfields.Compile(fields)
	if err != nil {
		return r, personal.FieldErrors{"fields": personal.FieldErrorInvalidFormat}.Err()
	}
	const doing = "previewing user fields"
	present, err := s.userFields(ctx)
	if err != nil {
		return r, err
	}
	kept := userfields.BecomeReadOnly(present.Fields(), fields)
	damaged := 0
	defer func() {
		if damaged > 0 {
			s.log.WarnContext(ctx, "user fields that cannot be read count as violations", slog.Int("accounts", damaged))
		}
	}()
	limited, cancel := context.WithTimeout(ctx, s.previewTime)
	defer cancel()
	for after := int64(0); !r.Complete; {
		page, err := s.store.AccountFields(limited, after, previewPage)
		for _, a := range page {
			if limited.Err() != nil {
				break
			}
			if !preview(&r, schema, kept, a) {
				damaged++
			}
			after = a.ID
		}
		switch {
		case ctx.Err() != nil:
			return personal.FieldsPreview{}, fail(doing, ctx.Err())
		case limited.Err() != nil: // the time is up
			return r, nil
		case err != nil:
			return personal.FieldsPreview{}, fail(doing, err)
		}
		r.Complete = len(page) < previewPage
	}
	return r, nil
}

// preview adds an account to the figures. It returns false if its user fields cannot be
// read: this counts as a violation without an example.
func preview(r *personal.FieldsPreview, schema *userfields.Schema, kept []string, a AccountFields) bool {
	r.Accounts++
	values, err := userfields.DecodeValues(a.Fields)
	if err != nil {
		r.Violations++
		return false
	}
	for _, name := range kept {
		if values[name] != nil {
			if r.Kept == nil {
				r.Kept = map[string]int64{}
			}
			r.Kept[name]++
		}
	}
	violations := schema.Violations(values)
	if len(violations) == 0 {
		return true
	}
	r.Violations++
	if filled, changed := schema.Fill(values); changed && len(schema.Missing(filled)) == 0 {
		r.Fillable++
	}
	if len(r.Examples) < personal.MaxPreviewExamples {
		r.Examples = append(r.Examples, personal.FieldsViolation{UserID: a.ID, Login: a.Login, Fields: violations})
	}
	return true
}

// FillFields implements [personal.Administration].
func (s *Service) FillFields(ctx context.Context, revision string) error {
	given, err := s.host.UserFields(ctx)
	if err != nil {
		return fail("requesting the host's user fields", err)
	}
	if given.Revision != revision {
		return personal.FieldErrors{"revision": personal.FieldErrorMismatch}.Err()
	}
	if _, err := userfields.Compile(given.Fields); err != nil {
		return fail("reading the host's user fields", err)
	}
	event := s.event(ctx, personal.ActorAdministrator, personal.EventFieldsFilled, 0)
	err = s.store.StartFill(ctx, revision, func(started time.Time) []NewJob {
		return []NewJob{newJob(KindFill, fillJob{Revision: revision, Started: started}), event}
	})
	if err != nil {
		return fail("starting to fill in user fields", err)
	}
	s.wake()
	return nil
}

// FieldsFill implements [personal.Administration].
func (s *Service) FieldsFill(ctx context.Context) (personal.FieldsFill, error) {
	run, err := s.store.LastFill(ctx)
	return run, fail("reading the progress of filling in user fields", err)
}

// fillJob is the payload of KindFill.
type fillJob struct {
	Revision string    `json:"revision"`
	Started  time.Time `json:"started"` // identifies the run
}

const (
	fillBatch = 500
	fillPart  = 500 * time.Millisecond // after which the job is returned, so that its worker can stop
)

// fill fills in batches of accounts until all are done, the host has another revision, or
// the part is over. It may be interrupted at any time: each batch stores how far it is.
func (s *Service) fill(ctx context.Context, _ int64, job fillJob) error {
	var schema *userfields.Schema
	for began := time.Now(); ; {
		given, err := s.host.UserFields(ctx)
		if err != nil {
			return fmt.Errorf("requesting the host's user fields: %w", err)
		}
		if given.Revision != job.Revision {
			return s.store.SupersedeFill(ctx, job.Started)
		}
		if schema == nil {
			if schema, err = userfields.Compile(given.Fields); err != nil {
				return fmt.Errorf("reading the host's user fields: %w", err)
			}
		}
		left, err := s.store.FillBatch(ctx, job.Started, fillBatch, schema.Fill)
		switch {
		case err != nil:
			return err
		case !left:
			return nil
		case time.Since(began) >= fillPart:
			return outbox.ErrAgain
		}
	}
}
