package e2e

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
)

// traffic is what the chart of the page about the plugin is drawn from.
type traffic struct {
	From, Until int64
	All         struct{ Requests, Errors []int }
	Marks       []struct{ Kind, Version string }
}

// traffic has the page ask for its numbers from a second on.
func (p *tab) traffic(since int64) traffic {
	p.t.Helper()
	text := get(p, chromedp.Evaluate[string](
		fmt.Sprintf(`fetch("/admin/plugin/traffic?since=%d").then((r) => r.text())`, since), chromedp.EvalAwaitPromise))
	var answer traffic
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		p.t.Fatalf("%v\n%s", err, text)
	}
	return answer
}

// wantServed checks that there were requests in every second, and no error.
func (a traffic) wantServed(t *testing.T) {
	t.Helper()
	if len(a.All.Requests) == 0 {
		t.Error("the chart has no second of it")
	}
	for i, requests := range a.All.Requests {
		if requests == 0 || a.All.Errors[i] != 0 {
			t.Errorf("second %d: %d requests, %d errors", i, requests, a.All.Errors[i])
		}
	}
}

// kinds returns what the marks are of, in their order.
func (a traffic) kinds() []string {
	var kinds []string
	for _, m := range a.Marks {
		kinds = append(kinds, m.Kind)
	}
	return kinds
}

// drawn waits until the chart of the requests shows something in a colour of the
// stylesheet: near it, for lines are smoothed.
func (p *tab) drawn(what, property string) {
	p.t.Helper()
	p.await(what+" on the chart", fmt.Sprintf(`(() => {
		const canvas = document.querySelector("[data-plot=requests] canvas");
		if (!canvas || canvas.width < 300 || canvas.height < 100) return "";
		const hex = getComputedStyle(document.documentElement).getPropertyValue(%q).trim();
		const want = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
		const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
		for (let i = 0; i < data.length; i += 4) {
			if (data[i + 3] > 200 && want.every((c, j) => Math.abs(c - data[i + j]) < 20)) return "yes";
		}
		return "";
	})()`, property))
}

// newest is the time at the right edge of the chart, as its legend has it.
func (p *tab) newest() string {
	p.t.Helper()
	return p.await("the chart's legend", `document.querySelector("[data-plot=requests] .u-legend .u-value")?.textContent.replace("--", "") ?? ""`)
}
