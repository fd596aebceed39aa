// Package rehearsal finds out whether a new plugin version does what the old one does. It plays a script
// to both, each in a scratch process of its own, and compares what they answer, mail and store.
//
// The script has three acts. In the first the old version makes users, sessions and everything else that
// a version can leave to the next one. In the second all of that is used, and every operation is called:
// by the old version on one copy of its database, and by the new one on another. In the third the old
// version uses what the second act has left on either copy. The old version never knows that it is
// compared, so the new one is not asked to judge itself.
//
// The script finds accidents, not malice.
package rehearsal

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// Version is a version that can be started.
type Version struct {
	Manifest catalogue.Manifest
	Binary   string // a private copy that was verified
}

// Config says what to rehearse.
type Config struct {
	Old *Version // nil: there is none, and the new version is compared with itself
	New Version

	Dir        string   // an empty private folder, which the caller removes
	Sockets    string   // a private folder with a short path
	Settings   []byte   // of the site
	AccountURL string   // of the site
	Locales    []string // of the site; none: three languages
	Env        []string
	Changes    []string // the declared changes of the versions between, see catalogue.Manifest
}

// Result is the result of a rehearsal.
type Result struct {
	Checks []rpc.RehearsalCheck // in the order in which they ran
	// Found are the differences that a declaration can waive, as it names them, without those
	// that Config.Changes has, each with an example.
	Found map[string]string
	// Succeeded are the operations that the new version, and the old one after it, have not refused.
	Succeeded map[personal.OperationName]bool
}

// Run plays the script. An error means that there was no rehearsal.
func Run(ctx context.Context, c Config) (Result, error) {
	old := c.Old
	if old == nil {
		old = &c.New
	}
	if len(c.Locales) == 0 {
		c.Locales = []string{"en", "ru", "de"}
	}
	ctx, stop := context.WithCancel(ctx)
	var playing sync.WaitGroup
	defer playing.Wait()
	defer stop()
	var loaded, served *player // beside act 1, when the machine has little to do
	playing.Go(func() {
		loaded = c.play(ctx, c.New, filepath.Join(c.Dir, "load.db"), newStory(time.Now(), c.Settings), []scene{{"load", load}}, false)
		served = c.serving(ctx, filepath.Join(c.Dir, "serve.db"))
	})
	begin := newStory(time.Now(), c.Settings)
	base := filepath.Join(c.Dir, "act1.db")
	if err := c.importUsers(ctx, *old, base, begin, importedUsers(begin)); err != nil { // of every stored format of hash
		return Result{}, err
	}
	first := c.play(ctx, *old, base, begin, actOne, false)
	if len(first.failures) > 0 {
		if c.Old != nil {
			return Result{}, fmt.Errorf("the version that serves, %s, cannot play the script: %s", old.Manifest.Version, first.failures[0].reason)
		}
		return c.result(newComparison(), first), nil
	}
	if err := c.importUsers(ctx, *old, base, begin, wrappedUsers(begin)); err != nil {
		return Result{}, err
	}
	begin.keys = append([][]byte{randomKey()}, begin.keys...) // what is sealed is sealed anew
	names := [2]string{"old", "new"}
	var acts [2][2]*player
	var copies [2]error
	var printed [2]ran
	var kept [2]bool
	for i, version := range []Version{*old, c.New} {
		playing.Go(func() {
			database := filepath.Join(c.Dir, names[i]+".db")
			if copies[i] = copyDatabase(base, database); copies[i] != nil {
				return
			}
			second := c.play(ctx, version, database, begin.clone(), actTwo, false)
			acts[i][0] = second
			defer func() { printed[i] = c.runCommands(ctx, version, database, begin.keys, commands...) }()
			file, _ := os.ReadFile(database)
			kept[i] = bytes.Contains(file, []byte(erasedEmail))
			if len(second.failures) > 0 {
				return
			}
			next := second.story.clone()
			next.keys = next.keys[:1] // the former key is gone
			acts[i][1] = c.play(ctx, *old, database, next, actThree, false)
		})
	}
	playing.Wait()
	if err := cmp.Or(errors.Join(copies[:]...), ctx.Err()); err != nil {
		return Result{}, err
	}
	acts[1][0].costsMore(acts[0][0])
	compared := newComparison()
	for act := range 2 {
		if before, after := acts[0][act], acts[1][act]; before != nil && after != nil {
			compared.transcripts(before.lines, after.lines)
		}
	}
	if is, was := acts[1][0].output.refusals(), acts[0][0].output.refusals(); is < was*9/10 { // the end of a log may be lost
		compared.add("metrics", "work", "log", true, fmt.Sprintf("%d lines of refusals with an address instead of %d", is, was))
	}
	texts, lines := acts[1][0].output.warned()
	known, former := acts[0][0].output.warned()
	for _, text := range slices.Sorted(maps.Keys(texts)) {
		if !known[text] {
			compared.add("metrics", "work", "log", true, "a new warning: "+text)
		}
	}
	if lines > former*3/2+50 {
		compared.add("metrics", "work", "log", true, fmt.Sprintf("%d lines instead of %d", lines, former))
	}
	if kept[1] && !kept[0] {
		compared.add("deletion", string(personal.OpDeleteUser), "erased", false, "the database file still has what was erased")
	}
	if before := acts[0][0]; len(before.failures) > 0 && c.Old != nil {
		return Result{}, fmt.Errorf("the version that serves, %s, cannot play the script: %s", old.Manifest.Version, before.failures[0].reason)
	}
	if printed[0] != nil && printed[1] != nil {
		compared.commands(printed[0], printed[1])
	}
	return c.result(compared, acts[1][0], acts[1][1], loaded, served), nil
}

// result makes the checks of what was compared, and of the failures of players.
func (c *Config) result(compared *comparison, players ...*player) (result Result) {
	findings := compared.findings
	result.Succeeded, result.Found = map[personal.OperationName]bool{}, map[string]string{}
	var names []string
	for _, p := range players {
		if p == nil {
			continue
		}
		findings = append(findings, p.failures...)
		for _, l := range p.lines {
			if !slices.Contains(names, l.check) {
				names = append(names, l.check)
			}
			if l.answer[ErrorCode] == "" {
				result.Succeeded[l.operation] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(compared.counts)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, f := range findings {
		if !slices.Contains(names, f.check) {
			names = append(names, f.check)
		}
	}
	for _, name := range names {
		check := rpc.RehearsalCheck{Name: name, Outcome: rpc.RehearsalPassed, Count: compared.counts[name]}
		for _, f := range findings {
			if f.check != name {
				continue
			}
			line := f.String()
			if f.waivable && !f.failed {
				if slices.Contains(c.Changes, line) {
					continue
				}
				result.Found[line] = check.Name + ": " + f.reason
			}
			switch {
			case f.failed && check.Outcome != rpc.RehearsalFailed:
				check.Outcome, check.Reason = rpc.RehearsalFailed, f.reason
			case check.Outcome == rpc.RehearsalPassed:
				check.Outcome, check.Reason = rpc.RehearsalDiffers, f.reason
			}
			if len(check.Differences) < rpc.MaxDifferences && !slices.Contains(check.Differences, f.Difference) {
				check.Differences = append(check.Differences, f.Difference)
			}
		}
		result.Checks = append(result.Checks, check)
	}
	return result
}

// copyDatabase copies the SQLite file of a process that was stopped.
func copyDatabase(from, to string) error {
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(from + suffix)
		if errors.Is(err, os.ErrNotExist) && suffix != "" {
			continue
		}
		if err == nil {
			err = os.WriteFile(to+suffix, data, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func randomKey() []byte {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	return key
}
