package main

import (
	"strings"
	"testing"
)

func TestMap_HasWhatAnOperationConsistsOf(t *testing.T) {
	t.Chdir("../../..")
	m, err := read()
	if err != nil {
		t.Fatal(err)
	}
	page, err := m.page()
	if err != nil {
		t.Fatal(err)
	}
	row := ""
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "| Authorize |") {
			row = line
		}
	}
	for _, want := range []string{"| auth |", "authorize.go", "sessions.go", "signin.go", "new_address", "login.with_email", "suite_accounts.go"} {
		if !strings.Contains(row, want) {
			t.Errorf("the row of Authorize lacks %s: %s", want, row)
		}
	}
	if _, err := m.row("Teleport"); err == nil {
		t.Error("an operation without a rule has a row")
	}
}
