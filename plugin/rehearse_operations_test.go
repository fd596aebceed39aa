package main

import (
	"testing"

	"github.com/cms-personal/personal/internal/rehearsal"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// onlyRefused are the operations of which a rehearsal sees no success, with the reason.
var onlyRefused = map[personal.OperationName]string{
	personal.OpPreviewFields: "it reads all users, for up to 10 s",
	personal.OpFillFields:    "its job is a row that all nodes share",
}

func TestRehearse_CallsEveryOperation(t *testing.T) {
	m := rehearsedModule(t, testdb.SQLite(t), everythingOn, everyField()...)
	calls, successes := map[personal.OperationName]int{}, map[personal.OperationName]int{}
	m.rehearsed = func(c *rehearsal.Config) {
		c.Wrap = func(honest rehearsal.Contract) rehearsal.Contract {
			return planted(honest, nil, func(c *call) {
				if calls[c.op]++; c.err == nil {
					successes[c.op]++
				}
			})
		}
	}
	if others, _ := rehearse(t, m); len(others) > 0 {
		t.Errorf("got %+v, want that all checks pass", others)
	}
	for _, o := range personal.Operations() {
		reason := onlyRefused[o.Name]
		if calls[o.Name] == 0 || (successes[o.Name] == 0) != (reason != "") {
			t.Errorf("%s: got %d calls and %d successes; rehearse it in internal/rehearsal/script.go, or say in onlyRefused why not",
				o.Name, calls[o.Name], successes[o.Name])
		}
	}
}

func TestRehearse_SkipsFieldsWithoutAValue(t *testing.T) {
	impossible := personal.Field{Name: "impossible", Type: personal.TypeText, Pattern: `a^b`, Required: true}
	m := rehearsedModule(t, testdb.SQLite(t), everythingOn, append(everyField(), impossible)...)
	others, _ := rehearse(t, m)
	want := rpc.Difference{Operation: "UpdateProfile", Field: "impossible"}
	if len(others) != 1 || others[0].Outcome != rpc.RehearsalSkipped || len(others[0].Differences) != 1 ||
		others[0].Differences[0] != want {
		t.Errorf("got %+v, want only a skipped check that names %+v", others, want)
	}
}
