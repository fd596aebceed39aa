package moving

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
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

// Import brings the accounts of a file in. How far it is is stored with every
// batch, in the same transaction: an import that was cut short is taken up where
// it ended, and no row is stored twice or in part.
type Import struct {
	Store   Store
	Schema  *userfields.Schema // user fields that are columns of their own
	Wrapper Wrapper
	Later   bool // MD5 hashes are stored bare, with jobs that wrap them (see [Wrapping])

	// Refused is told of each row that is not imported. It may be told again after
	// a crash. The reason names columns, never a value.
	Refused func(line int, reason string) error
	// Progress is told how far the import is, after each batch.
	Progress func(Progress)
}

// Progress is how far an import is, in all its runs.
type Progress struct {
	Offset   int64 `json:"offset"`   // bytes of the file that are done
	Imported int64 `json:"imported"` // rows
	There    int64 `json:"there"`    // rows that are there already
	Refused  int64 `json:"refused"`  // rows
}

// Run imports a file, or the rest of it if an earlier run did not come to its
// end, and returns what became of all of it.
func (m *Import) Run(ctx context.Context, file io.ReadSeeker, format Format) (Progress, error) {
	note, err := noteKind(file, format)
	if err != nil {
		return Progress{}, err
	}
	done, err := m.begun(ctx, note)
	if err != nil {
		return Progress{}, err
	}
	from, err := m.open(file, format, done.Offset)
	if err != nil {
		return done, err
	}
	m.Progress(done)
	batches := make(chan batch, 1) // one is read while another is stored
	work, working := errgroup.WithContext(ctx)
	start := done.Offset
	work.Go(func() error {
		defer close(batches)
		return m.read(working, from, start, batches)
	})
	work.Go(func() error {
		for b := range batches {
			if err := m.add(working, b, note, &done); err != nil {
				return err
			}
			m.Progress(done)
		}
		return nil
	})
	if err := work.Wait(); err != nil {
		return done, err
	}
	if err := m.Store.RemoveNote(ctx, note); err != nil {
		return done, fmt.Errorf("noting the end of the import: %w", err)
	}
	return done, nil
}

func (m *Import) open(file io.ReadSeeker, format Format, offset int64) (records, error) {
	if format == CSV {
		return newCSV(file, offset, m.Schema)
	}
	return newNDJSON(file, offset, m.Schema)
}

// noteKind names the note of how far the import of a file is. A file that has
// been changed is another one, and so is one that is read as another format.
func noteKind(file io.ReadSeeker, format Format) (outbox.Kind, error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return "", fmt.Errorf("reading the file: %w", err)
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", fmt.Errorf("reading the file: %w", err)
	}
	return outbox.Kind("import " + string(format) + " " + hex.EncodeToString(sum.Sum(nil))), nil
}

func (m *Import) begun(ctx context.Context, note outbox.Kind) (done Progress, err error) {
	payload, err := m.Store.Note(ctx, note)
	if err != nil {
		return done, fmt.Errorf("looking how far the import is: %w", err)
	}
	if payload == nil {
		return done, nil
	}
	if err := json.Unmarshal(payload, &done); err != nil {
		return done, fmt.Errorf("reading how far the import is: %w", err)
	}
	return done, nil
}

// add stores a batch and what follows from it.
func (m *Import) add(ctx context.Context, b batch, note outbox.Kind, done *Progress) error {
	var after Progress
	err := m.Store.AddAccounts(ctx, b.accounts, func(outcomes []Outcome) (Settlement, error) {
		after = *done
		after.Offset = b.end
		if err := m.settle(b, outcomes, &after); err != nil {
			return Settlement{}, err
		}
		payload, err := json.Marshal(after)
		return Settlement{
			Note: accounts.NewJob{Kind: note, Payload: payload},
			Jobs: wrapJobs(b.accounts, outcomes), Formats: formatsOf(b.accounts, outcomes),
		}, err
	})
	if err != nil {
		return fmt.Errorf("storing accounts: %w", err)
	}
	*done = after
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

// settle counts what became of a batch, and reports its refused rows in the order
// of the file.
func (m *Import) settle(b batch, outcomes []Outcome, done *Progress) error {
	refused := slices.Clone(b.refused)
	done.Refused += int64(len(refused))
	for i, o := range outcomes {
		switch {
		case o.ID != 0:
			done.Imported++
			continue
		case o.There: // nothing to mend: an earlier run has brought it
			done.There++
			continue
		}
		done.Refused++
		refused = append(refused, refusal{b.lines[i], o.reason()})
	}
	slices.SortFunc(refused, func(a, b refusal) int { return cmp.Compare(a.line, b.line) })
	for _, r := range refused {
		if err := m.Refused(r.line, r.reason); err != nil {
			return fmt.Errorf("reporting a refused row: %w", err)
		}
	}
	return nil
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
