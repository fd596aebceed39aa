//go:build extended

package system

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/testkit"
)

// TestSwap_RehearsesOnPostgreSQL has the strict settings.
func TestRehearsal_HonestVersionPassesWithMore(t *testing.T) {
	if r := rehearse(t, testkit.Binaries(t).Plugin, moreSettings(t)); r.refused {
		t.Errorf("an honest version differs from itself:\n%v", r)
	}
}

// Each planted fault alone is refused before it serves, and named. PERSONAL_TEST_FAULTS selects
// faults by a part of their names.
func TestRehearsal_NamesEachPlantedFault(t *testing.T) {
	binary := plantedPlugin(t)
	strict, more := strictSettings(t), moreSettings(t)
	for _, f := range plantedFaults {
		if !strings.Contains(f.name, os.Getenv("PERSONAL_TEST_FAULTS")) {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			settings := strict
			if f.more {
				settings = more
			}
			r := rehearse(t, binary, settings, f.name)
			if !slices.Contains(unseenFaults, f.name) && !r.finds(f.check, f.operation, f.field) {
				t.Errorf("got\n%v\nwant %s: %s %s", r, f.check, f.operation, f.field)
			}
		})
	}
}
