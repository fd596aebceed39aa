package transfer

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/password"
)

// KindWrap is the job of wrapping the bare hashes of a range of accounts.
const KindWrap outbox.Kind = "wrap"

// wrapsPerJob keeps a job to seconds: a plugin that is to give way to another
// version ends the ones it has begun.
const wrapsPerJob = 100

// idRange is the payload of a job: the first and the last id.
type idRange struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// wrapJobs are the jobs for the accounts that were added with a bare hash.
func wrapJobs(batch []accounts.Account, outcomes []Outcome) (jobs []accounts.NewJob) {
	var bare []int64
	for i, o := range outcomes {
		if o.ID != 0 && password.IsBare(batch[i].PasswordHash) {
			bare = append(bare, o.ID)
		}
	}
	slices.Sort(bare)
	for ids := range slices.Chunk(bare, wrapsPerJob) {
		payload, _ := json.Marshal(idRange{ids[0], ids[len(ids)-1]}) // two numbers always can be
		jobs = append(jobs, accounts.NewJob{Kind: KindWrap, Payload: payload})
	}
	return jobs
}

// BareStore keeps accounts whose hash is a bare MD5.
type BareStore interface {
	// BareHashes returns the bare hashes of the accounts with the given ids, the
	// two included.
	BareHashes(ctx context.Context, from, to int64) (map[int64]string, error)
	// ReplaceHash sets the hash of an account that still has the given one. It is
	// of the same password: the credential version stays.
	ReplaceHash(ctx context.Context, id int64, from, to string) error
}

// Wrapping wraps, in the background, what was imported bare.
type Wrapping struct {
	Store   BareStore
	Wrapper Wrapper
}

// Do does one job of [KindWrap]. Done again, it goes on where it was.
func (w *Wrapping) Do(ctx context.Context, j outbox.Job) error {
	var r idRange
	if err := json.Unmarshal(j.Payload, &r); err != nil {
		return fmt.Errorf("reading a wrapping job: %w", err)
	}
	hashes, err := w.Store.BareHashes(ctx, r.From, r.To)
	if err != nil {
		return fmt.Errorf("finding bare hashes: %w", err)
	}
	for id, bare := range hashes {
		wrapped, err := w.Wrapper.Wrap(ctx, bare)
		if err != nil {
			return err
		}
		if err := w.Store.ReplaceHash(ctx, id, bare, wrapped); err != nil {
			return fmt.Errorf("storing a wrapped hash: %w", err)
		}
	}
	return nil
}
