package moving

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

// batch is a part of the file: the accounts of it, and the rows that are none.
type batch struct {
	accounts []accounts.Account
	lines    []int // of each account
	refused  []refusal
	end      int64 // offset of what follows
}

type refusal struct {
	line   int
	reason string
}

// read sends the file in batches, with their hashes wrapped, to its end.
func (m *Import) read(ctx context.Context, from records, start int64, out chan<- batch) error {
	for last := false; !last; {
		var b batch
		var err error
		if b, last, err = m.fill(from, start); err != nil {
			return err
		}
		start = b.end
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
	}
	return nil
}

// fill reads one batch; last is true at the end of the file.
func (m *Import) fill(from records, start int64) (b batch, last bool, err error) {
	b.end = start
	for bare := 0; len(b.accounts)+len(b.refused) < batchRows && b.end-start < batchBytes && bare < batchWraps; {
		r, err := from.next()
		if errors.Is(err, io.EOF) {
			return b, true, nil
		}
		if err != nil {
			return b, false, err
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
	return b, false, nil
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
