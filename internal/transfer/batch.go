package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/password"
)

// A batch is one transaction. It ends with whichever is reached first, so that
// neither memory nor the work that a crash undoes grows with the file.
const (
	batchRows  = 1000
	batchBytes = 4 << 20
	batchWraps = 100 // MD5 hashes to be wrapped, which take seconds
)

// batch is a part of the file: the accounts to be added, and the other rows.
type batch struct {
	accounts []accounts.Account
	lines    []int // of each account
	there    int64 // rows
	refused  []refusal
	end      int64 // offset of what follows
}

type refusal struct {
	line   int
	reason string
}

// leaveOut counts a row that is not added.
func (b *batch) leaveOut(line int, o Outcome) {
	if o.There { // nothing to mend: an earlier run has brought it
		b.there++
		return
	}
	b.refused = append(b.refused, refusal{line, o.reason()})
}

// read sends the file in batches, with their hashes wrapped, to its end. The rows
// before one that ends the reading are sent, too.
func (m *Import) read(ctx context.Context, from records, out chan<- batch) error {
	for start := int64(0); ; {
		b, end := m.fill(from, start)
		start = b.end
		if err := m.lookUp(ctx, &b); err != nil {
			return err
		}
		if !m.Later {
			if err := m.wrap(ctx, b.accounts); err != nil {
				return err
			}
		}
		select {
		case out <- b:
		case <-ctx.Done():
			return ctx.Err()
		}
		switch {
		case errors.Is(end, io.EOF):
			return nil
		case end != nil:
			return end
		}
	}
}

// fill reads one batch. The error, at the end of the file io.EOF, says that no
// more follow.
func (m *Import) fill(from records, start int64) (batch, error) {
	b := batch{end: start}
	for bare := 0; len(b.accounts)+len(b.refused) < batchRows && b.end-start < batchBytes && bare < batchWraps; {
		r, err := from.next()
		if err != nil {
			return b, err
		}
		b.end = r.end
		account, reason := row(r, m.Schema, m.Store.Now())
		if reason != "" {
			b.refused = append(b.refused, refusal{r.line, reason})
			continue
		}
		if !m.Later && password.IsBare(account.PasswordHash) {
			bare++
		}
		b.accounts = append(b.accounts, account)
		b.lines = append(b.lines, r.line)
	}
	return b, nil
}

// lookUp leaves out what is there already or can't be added, so that no hash of it
// is wrapped.
func (m *Import) lookUp(ctx context.Context, b *batch) error {
	outcomes, err := m.Store.Conflicts(ctx, b.accounts)
	if err != nil {
		return fmt.Errorf("looking for accounts that are there already: %w", err)
	}
	found, lines := b.accounts, b.lines
	b.accounts, b.lines = b.accounts[:0], b.lines[:0]
	for i, o := range outcomes {
		if o != (Outcome{}) {
			b.leaveOut(lines[i], o)
			continue
		}
		b.accounts, b.lines = append(b.accounts, found[i]), append(b.lines, lines[i])
	}
	return nil
}

// wrap wraps the bare hashes of a batch, on every processor.
func (m *Import) wrap(ctx context.Context, batch []accounts.Account) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(runtime.GOMAXPROCS(0))
	for i := range batch {
		hash := &batch[i].PasswordHash
		if !password.IsBare(*hash) {
			continue
		}
		work.Go(func() (err error) {
			*hash, err = m.Wrapper.Wrap(ctx, *hash)
			return err
		})
	}
	if err := work.Wait(); err != nil {
		return fmt.Errorf("wrapping the hashes of a batch: %w", err)
	}
	return nil
}
