package adminpages_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/cms-personal/personal/host-sample/traffic"
	"github.com/cms-personal/personal/shared/pluginmanager"
)

func TestTheTrafficIsAnsweredBySecondsWithItsMarks(t *testing.T) {
	f := newFixture(t)
	now := time.Now()
	at := func(ago time.Duration, kind pluginmanager.EventType) pluginmanager.Event {
		return pluginmanager.Event{Time: now.Add(-ago), Type: kind, Version: "1.3.0", From: "1.2.3"}
	}
	f.plugin.EventLog = fakeHistory{
		at(-time.Minute, pluginmanager.EventProcessLost), // later than the seconds that are over
		at(10*time.Second, pluginmanager.EventSwapCompleted),
		at(20*time.Second, pluginmanager.EventRolledBack),
		at(30*time.Second, pluginmanager.EventSwitched),
		at(time.Hour, pluginmanager.EventSwitched),
	}
	w := f.send(t, f.get("/admin/plugin/traffic?since=0"))
	var got struct {
		From, Until int64
		All         traffic.Series
		Operations  map[string]traffic.Series
		Marks       []struct {
			At                  float64
			Kind, Version, Text string
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if len(got.All.Requests) != int(got.Until-got.From) || got.Operations == nil {
		t.Errorf("from %d to %d there are %d seconds", got.From, got.Until, len(got.All.Requests))
	}
	if len(got.Marks) != 2 || got.Marks[0].Kind != "switched" || got.Marks[0].Text != "Swapped from 1.2.3 to 1.3.0" || got.Marks[1].Kind != "rolled_back" {
		t.Errorf("marks are %+v", got.Marks)
	}
	for _, bad := range []string{"", "?since=soon"} {
		if w := f.send(t, f.get("/admin/plugin/traffic"+bad)); w.Code != http.StatusBadRequest {
			t.Errorf("traffic%s: %d", bad, w.Code)
		}
	}
}

func TestTheNumbersStandInATable(t *testing.T) {
	f := newFixture(t)
	for range 3 {
		f.plugin.Traffic.Count("auth", false, 5*time.Millisecond)
	}
	f.plugin.Traffic.Count("auth", true, 1500*time.Millisecond)
	f.plugin.EventLog = fakeHistory{{Time: time.Now(), Type: pluginmanager.EventProcessLost, Version: "1.2.3", Reason: evil}}
	w := f.send(t, f.get("/admin/plugin/totals"))
	wantAll(t, w.Body.String(), "All operations", `<th scope="row">auth</th><td class="number">4</td><td class="number failed">1</td>`,
		" ms</td>", " s</td>", "A process of 1.2.3 died", "&lt;script&gt;")
	wantNone(t, w.Body.String(), evil)
}
