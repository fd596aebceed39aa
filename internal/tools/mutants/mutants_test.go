package main

import (
	"os"
	"testing"
)

func TestMutants_EachHasItsPlaceInTheSource(t *testing.T) {
	t.Chdir("../../..")
	work := t.TempDir()
	for _, m := range mutants {
		overlay, err := m.plant(work)
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := os.Stat(overlay); err != nil {
			t.Error(err)
		}
	}
	if len(mutants) < 60 {
		t.Errorf("there are %d mutants, want 60", len(mutants))
	}
}
