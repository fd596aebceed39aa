package rehearsal

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/shared/personal"
)

func TestScript_CallsEveryOperation(t *testing.T) {
	v := Version{Binary: testkit.Binaries(t).Plugin}
	c := Config{New: v, Dir: t.TempDir(), Sockets: t.TempDir(), Settings: []byte(
		"[two_factor]\nenabled = true\n[passkeys]\nrp_id = \"script.invalid\"\norigins = [\"https://script.invalid\"]\n")}
	s, database := newStory(time.Now(), c.Settings), filepath.Join(c.Dir, "script.db")
	if err := c.importUsers(t.Context(), v, database, s); err != nil {
		t.Fatal(err)
	}
	succeeded := map[personal.OperationName]bool{}
	for _, act := range [][]scene{actOne, actTwo} {
		p := c.play(t.Context(), v, database, s, act)
		if len(p.failures) > 0 {
			t.Fatal(p.failures[0].reason)
		}
		for _, l := range p.lines {
			succeeded[l.operation] = succeeded[l.operation] || l.answer[ErrorCode] == ""
		}
	}
	for _, o := range personal.Operations() {
		if !succeeded[o.Name] {
			t.Errorf("got no successful call of %s, want one", o.Name)
		}
	}
}
