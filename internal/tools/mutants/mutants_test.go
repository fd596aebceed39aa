package main

import "testing"

func TestMutants_EachHasItsPlaceInTheSource(t *testing.T) {
	t.Chdir("../../..")
	work := t.TempDir()
	for _, m := range mutants {
		if _, err := m.plant(work); err != nil {
			t.Error(err)
		}
	}
	if len(mutants) < 60 {
		t.Errorf("there are %d mutants, want 60", len(mutants))
	}
}
