package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/manager/rehearsal"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

type compareCommand struct {
	Old string `arg:"" help:"The plugin of the older version."`
	New string `arg:"" help:"The plugin of this version."`

	Settings []byte `type:"filecontent" placeholder:"FILE" help:"The plugin's settings (default: the defaults)."`
}

// Run rehearses a version against an older one, as a swap does. The error says what its changes.txt
// does not declare, with an example each.
func (c *compareCommand) Run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "personal-compare-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var versions [2]rehearsal.Version
	for i, binary := range []string{c.Old, c.New} {
		if versions[i].Binary, err = filepath.Abs(binary); err != nil {
			return err
		}
		if versions[i].Manifest, err = catalogue.ManifestOf(ctx, versions[i].Binary); err != nil {
			return err
		}
	}
	old, candidate := versions[0], versions[1]
	result, err := rehearsal.Run(ctx, rehearsal.Config{
		Old: &old, New: candidate, Dir: dir, Sockets: dir, Settings: c.Settings, AccountURL: "https://site.invalid/account", Changes: candidate.Manifest.Changes,
	})
	if err != nil {
		return err
	}
	var found []string
	for _, name := range slices.Sorted(maps.Keys(result.Found)) {
		found = append(found, name+"\t("+result.Found[name]+")")
	}
	if len(found) > 0 {
		found = slices.Insert(found, 0, "these answers have changed: mend them, or declare them in changes.txt and CHANGELOG.md")
	}
	for _, check := range result.Checks {
		if check.Outcome == rpc.RehearsalPassed {
			continue
		}
		for _, d := range check.Differences {
			if _, waivable := result.Found[d.String()]; !waivable {
				found = append(found, fmt.Sprintf("%s %s: %s (%s)", check.Name, check.Outcome, d, check.Reason))
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	return errors.New("compared with version " + old.Manifest.Version + ":\n" + strings.Join(found, "\n"))
}

// compareWithLast compares the version to release with the last one, which it builds from its commit.
func (r *releaseCommand) compareWithLast(ctx context.Context) error {
	version, commit, err := lastRelease()
	if err != nil || version == "" {
		return err
	}
	temp, err := os.MkdirTemp("", "personal-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	last := releaseCommand{recipe{Version: version, Package: r.Package}}
	remove, err := last.checkOut(ctx, commit)
	if err != nil {
		return err
	}
	defer remove()
	here := system{runtime.GOOS, runtime.GOARCH}
	var compared compareCommand
	if compared.Old, err = last.build(ctx, filepath.Join(temp, "old"), here); err != nil {
		return err
	}
	if compared.New, err = r.build(ctx, filepath.Join(temp, "new"), here); err != nil {
		return err
	}
	return compared.Run(ctx)
}
