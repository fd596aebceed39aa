package pluginmanager_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/plugincatalogue"
	"github.com/cms-personal/personal/shared/pluginmanager"
)

// swapRig is a rig over a catalogue of its own with the versions 1.0.0, which is
// active, and 2.0.0. What a version does can be written to "mode VERSION".
type swapRig struct {
	*rig
	catalogue *plugincatalogue.Catalogue
	records   *records
}

func newSwapRig(t *testing.T, change func(*pluginmanager.Config)) *swapRig {
	t.Helper()
	catalogue, seen := linkedCatalogue(t), &records{}
	r := newRig(t, good, func(c *pluginmanager.Config) {
		c.Catalogue, c.OnEvent = catalogue, seen.add
		c.ShutdownTimeout = time.Second
		if change != nil {
			change(c)
		}
	})
	return &swapRig{rig: r, catalogue: catalogue, records: seen}
}

// source is a catalogue of both versions that TestMain removes.
var source struct {
	once sync.Once
	dir  string
	err  error
}

func makeSource() (err error) {
	if source.dir, err = os.MkdirTemp("", "pluginmanager-test-"); err != nil {
		return err
	}
	catalogue, err := newCatalogue(source.dir)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	data, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	second := filepath.Join(source.dir, ".second")
	if err := os.WriteFile(second, append(data, trailer+"2.0.0"...), 0o700); err != nil {
		return err
	}
	_, err = catalogue.Install(context.Background(), second)
	return err
}

// linkedCatalogue returns a catalogue that shares the files of the source.
func linkedCatalogue(t *testing.T) *plugincatalogue.Catalogue {
	t.Helper()
	return linkedCatalogueIn(t, t.TempDir())
}

func linkedCatalogueIn(t *testing.T, dir string) *plugincatalogue.Catalogue {
	t.Helper()
	source.once.Do(func() { source.err = makeSource() })
	if source.err != nil {
		t.Fatal(source.err)
	}
	for _, version := range []string{"1.0.0", "2.0.0"} {
		err := filepath.WalkDir(filepath.Join(source.dir, version), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			target := filepath.Join(dir, version, d.Name())
			if d.IsDir() {
				return os.MkdirAll(filepath.Join(dir, version), 0o700)
			}
			return os.Link(path, target)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	catalogue, err := plugincatalogue.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := catalogue.SaveState(plugincatalogue.State{Active: "1.0.0"}); err != nil {
		t.Fatal(err)
	}
	return catalogue
}

// records is a journal.
type records struct {
	mu   sync.Mutex
	list []pluginmanager.Event
}

func (r *records) add(record pluginmanager.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, record)
}

func (r *records) kinds() []pluginmanager.EventType {
	r.mu.Lock()
	defer r.mu.Unlock()
	var kinds []pluginmanager.EventType
	for _, record := range r.list {
		kinds = append(kinds, record.Type)
	}
	return kinds
}

func (r *records) has(k pluginmanager.EventType) bool { return slices.Contains(r.kinds(), k) }

func (r *swapRig) use(t *testing.T, version string) {
	t.Helper()
	if err := r.Use(limited(t), version); err != nil {
		t.Fatal(err)
	}
}

func (r *swapRig) wantState(t *testing.T, want plugincatalogue.State) {
	t.Helper()
	if got, err := r.catalogue.LoadState(); err != nil || got != want {
		t.Errorf("on disk: %+v (%v), want %+v", got, err, want)
	}
}

func (r *swapRig) wantServing(t *testing.T, version string) {
	t.Helper()
	if s := r.Status(); !s.State.Serves() || s.Version != version {
		t.Errorf("status: %+v, want that %s serves", s, version)
	}
}

// hammer calls until stop is called, which returns how many calls failed.
func (r *rig) hammer(t *testing.T, callers int) (calls *atomic.Int64, stop func() int64) {
	ctx, cancel := context.WithCancel(limited(t))
	var group sync.WaitGroup
	var failed atomic.Int64
	calls = &atomic.Int64{}
	for range callers {
		group.Go(func() {
			for ctx.Err() == nil {
				if _, err := r.answerer(context.WithoutCancel(ctx)); err != nil {
					failed.Add(1)
				}
				calls.Add(1)
			}
		})
	}
	return calls, func() int64 {
		cancel()
		group.Wait()
		return failed.Load()
	}
}

func wantSwapError(t *testing.T, err error, step string) {
	t.Helper()
	var refused *pluginmanager.SwapError
	if !errors.As(err, &refused) || refused.Step != step || refused.Err == nil {
		t.Errorf("got %v, want a refusal at the step %s", err, step)
	}
}

func (r *rig) wantOneCopy(t *testing.T) {
	t.Helper()
	eventually(t, "one copy left", func() bool {
		copies, err := os.ReadDir(filepath.Join(r.run, "staged"))
		return err == nil && len(copies) == 1
	})
}
