package transfer

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/shared/userfields"
)

// Format is how a file is written.
type Format string

// The formats that can be read.
const (
	CSV    Format = "csv"
	NDJSON Format = "ndjson"
)

// Wrapper wraps a bare MD5, see [password.Hasher].
type Wrapper interface {
	Wrap(ctx context.Context, encoded string) (string, error)
}

var _ Wrapper = (*password.Hasher)(nil)

// Import brings the accounts of a file in, a batch in each transaction. Run again,
// after it was cut short or with rows that were mended, it skips what is there: no
// row is stored twice or in part.
type Import struct {
	Store   Store
	Schema  *userfields.Schema // user fields that are columns of their own
	Wrapper Wrapper
	Later   bool // MD5 hashes are stored bare, with jobs that wrap them (see [Wrapping])

	// Refused is told of each row that is not imported, in the order of the file.
	// The reason names columns, never a value.
	Refused func(line int, reason string) error
	// Progress is told how far the import is, after each batch.
	Progress func(Progress)
}

// Progress is how far a run of an import is.
type Progress struct {
	Offset   int64 // bytes of the file that are done
	Imported int64 // rows
	There    int64 // rows that are there already
	Refused  int64 // rows
}

// Run imports a file and returns what became of it. What comes before an error is
// imported.
func (m *Import) Run(ctx context.Context, file io.Reader, format Format) (done Progress, err error) {
	from, err := m.open(file, format)
	if err != nil {
		return done, err
	}
	m.Progress(done)
	batches := make(chan batch, 1) // one is read while another is stored
	work, working := errgroup.WithContext(ctx)
	work.Go(func() error {
		defer close(batches)
		return m.read(working, from, batches)
	})
	work.Go(func() error {
		for b := range batches {
			// Not with the context that ends with the reading: what was read is stored.
			if err := m.add(ctx, b, &done); err != nil {
				return err
			}
			m.Progress(done)
		}
		return nil
	})
	err = work.Wait()
	return done, err
}

func (m *Import) open(file io.Reader, format Format) (records, error) {
	if format == CSV {
		return newCSV(file, m.Schema)
	}
	return newNDJSON(file, m.Schema), nil
}

// add stores a batch and what follows from it, counts what became of its rows, and
// reports the refused ones.
func (m *Import) add(ctx context.Context, b batch, done *Progress) error {
	var outcomes []Outcome
	if len(b.accounts) > 0 { // a rerun keeps nobody from writing
		var err error
		outcomes, err = m.Store.AddAccounts(ctx, b.accounts, func(outcomes []Outcome) Settlement {
			return Settlement{Jobs: wrapJobs(b.accounts, outcomes), Formats: formatsOf(b.accounts, outcomes)}
		})
		if err != nil {
			return fmt.Errorf("storing accounts: %w", err)
		}
	}
	for i, o := range outcomes {
		if o.ID != 0 {
			done.Imported++
			continue
		}
		b.leaveOut(b.lines[i], o)
	}
	done.Offset = b.end
	done.There += b.there
	done.Refused += int64(len(b.refused))
	slices.SortFunc(b.refused, func(a, b refusal) int { return cmp.Compare(a.line, b.line) })
	for _, r := range b.refused {
		if err := m.Refused(r.line, r.reason); err != nil {
			return fmt.Errorf("reporting a refused row: %w", err)
		}
	}
	return nil
}

// formatsOf lists the formats of the hashes that were added.
func formatsOf(batch []accounts.Account, outcomes []Outcome) []string {
	formats := map[string]bool{}
	for i, o := range outcomes {
		if o.ID != 0 {
			formats[password.Format(batch[i].PasswordHash)] = true
		}
	}
	delete(formats, "") // of none
	return slices.Sorted(maps.Keys(formats))
}

// reason says why an account was not added.
func (o Outcome) reason() string {
	var list []string
	for _, taken := range []struct {
		column string
		by     int64
	}{{columnEmail, o.Taken.Email}, {columnID, o.Taken.ID}, {columnLogin, o.Taken.Login}} {
		switch {
		case taken.by == anotherRow:
			list = append(list, taken.column+": taken by a row before")
		case taken.by != 0:
			list = append(list, fmt.Sprintf("%s: taken by the account %d", taken.column, taken.by))
		}
	}
	return strings.Join(list, "; ")
}
