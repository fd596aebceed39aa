package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

func TestPlugin_SwapUnderLoadLosesNoRequest(t *testing.T) {
	t.Parallel()
	s := start(t, "--bake=4s")
	s.command(t, "plugin", "install", bundle(t, "9.0.0", ""))
	old := s.ready(t).Version
	p := s.administrator(t, desktop)
	p.open("/admin/plugin")
	l := s.startLoad(t, 4)
	begin, before := p.traffic(0).Until+1, int64(3) // in seconds
	if screenshotFolder() != "" {
		before = 40 // for a fuller chart in the screenshot
	}
	p.awaitTraffic(begin + before)
	p.press("Use 9.0.0")
	p.see("Swap from " + old + " to 9.0.0")
	p.see("send new requests to the new process")
	p.see("serving, baking")
	p.waitForColour("the switch", "--mark-switched")
	p.waitForColour("the requests", "--chart-requests")
	p.screenshot("plugin", "header")
	p.wantAccessible()
	p.see("Bake of 9.0.0 completed")
	p.see("Switched from " + old + " to 9.0.0")
	p.awaitTraffic(p.traffic(0).Until + 2)
	p.screenshot("traffic", "[aria-labelledby=plugin-traffic-title]")

	data := p.traffic(begin)
	data.wantServed(t)
	if !slices.Equal(data.kinds(), []string{"switched"}) || data.Marks[0].Version != "9.0.0" {
		t.Errorf("got the marks %v, want the switch to 9.0.0", data.Marks)
	}
	l.wantNoneFailed(t)
	if now := s.ready(t); now.Version != "9.0.0" {
		t.Errorf("got version %s, want 9.0.0", now.Version)
	}
}

func TestPlugin_PageStaysLiveThroughACrash(t *testing.T) {
	t.Parallel()
	s := start(t)
	p := s.administrator(t, desktop)
	p.open("/admin/plugin")
	s.startLoad(t, 1)
	get(p, chromedp.Evaluate[bool]("window.sameDocument = true"))
	before := s.ready(t)
	p.see(fmt.Sprint(before.PID))
	if err := syscall.Kill(before.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.see("The process of " + before.Version + " ended unexpectedly")
	p.see("A new process of " + before.Version + " was started")
	eventually(t, "another process serves", func() bool {
		now := s.ready(t)
		return now.Ready && now.PID != before.PID
	})
	p.see(fmt.Sprint(s.ready(t).PID))
	p.waitForColour("the crash", "--mark-lost")
	second := p.latestSecond()
	p.await("the chart to continue", fmt.Sprintf(
		`document.querySelector("[data-plot=requests] .u-legend .u-value").textContent === %q ? "" : "yes"`, second))
	if kinds := p.traffic(0).kinds(); !slices.Contains(kinds, "lost") || !slices.Contains(kinds, "restarted") {
		t.Errorf("got the marks %v, want lost and restarted", kinds)
	}
	if !get(p, chromedp.Evaluate[bool]("window.sameDocument === true")) {
		t.Error("the page was reloaded")
	}
	if state := p.text("#traffic-state"); state != "" {
		t.Errorf("got the message %q at the chart, want none", state)
	}
}

// awaitTraffic waits until the data of the chart includes a second.
func (p *tab) awaitTraffic(second int64) {
	p.t.Helper()
	eventually(p.t, "the traffic of a second is complete", func() bool { return p.traffic(second).Until > second })
}

// traffic is the data of the chart.
type traffic struct {
	From, Until int64
	All         struct{ Requests, Errors []int }
	Marks       []struct{ Kind, Version string }
}

// traffic requests the data of the chart from a second on.
func (p *tab) traffic(since int64) traffic {
	p.t.Helper()
	text := get(p, chromedp.Evaluate[string](
		fmt.Sprintf(`fetch("/admin/plugin/traffic?since=%d").then((r) => r.text())`, since), chromedp.EvalAwaitPromise))
	var data traffic
	if err := json.Unmarshal([]byte(text), &data); err != nil {
		p.t.Fatalf("%v\n%s", err, text)
	}
	return data
}

// wantServed checks that every second had requests and no error.
func (a traffic) wantServed(t *testing.T) {
	t.Helper()
	if len(a.All.Requests) == 0 {
		t.Error("got no second in the chart, want some")
	}
	for i, requests := range a.All.Requests {
		if requests == 0 || a.All.Errors[i] != 0 {
			t.Errorf("second %d: got %d requests and %d errors, want some and none", i, requests, a.All.Errors[i])
		}
	}
}

// kinds returns the kinds of the marks in order.
func (a traffic) kinds() []string {
	var kinds []string
	for _, m := range a.Marks {
		kinds = append(kinds, m.Kind)
	}
	return kinds
}

// waitForColour waits until the chart of the requests has a colour of the stylesheet,
// or one near it because lines are smoothed.
func (p *tab) waitForColour(what, property string) {
	p.t.Helper()
	p.await(what+" on the chart", fmt.Sprintf(`(() => {
		const canvas = document.querySelector("[data-plot=requests] canvas");
		if (!canvas || canvas.width < 300 || canvas.height < 100) return "";
		const probe = document.body.appendChild(document.createElement("span"));
		probe.style.color = "var(%s)";
		const want = getComputedStyle(probe).color.match(/\d+/g).map(Number);
		probe.remove();
		const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
		for (let i = 0; i < data.length; i += 4) {
			if (data[i + 3] > 200 && want.slice(0, 3).every((c, j) => Math.abs(c - data[i + j]) < 20)) return "yes";
		}
		return "";
	})()`, property))
}

// latestSecond returns the time at the right edge of the chart from its legend.
func (p *tab) latestSecond() string {
	p.t.Helper()
	return p.await("the chart's legend", `document.querySelector("[data-plot=requests] .u-legend .u-value")?.textContent.replace("--", "") ?? ""`)
}

// load is a number of visitors who call the API continuously. Each has a session,
// whose hash every call rotates.
type load struct {
	stop     chan struct{}
	visitors sync.WaitGroup

	mu     sync.Mutex
	served int
	failed int
	first  error // of a failed call
}

// startLoad starts a number of visitors, who stop with the test.
func (s *site) startLoad(t *testing.T, visitors int) *load {
	t.Helper()
	s.register(t, "load")
	l := &load{stop: make(chan struct{})}
	t.Cleanup(func() { close(l.stop); l.visitors.Wait() })
	for range visitors {
		status, pair, err := s.api("auth", map[string]any{"login": "load", "password": password})
		if err != nil || status != http.StatusOK {
			t.Fatalf("signing in: %d %v", status, err)
		}
		l.visitors.Go(func() { l.visit(s, pair) })
	}
	return l
}

// visit calls 50 times a second, which leaves time for the browser.
func (l *load) visit(s *site, pair map[string]any) {
	pace := time.NewTicker(20 * time.Millisecond)
	defer pace.Stop()
	for {
		status, next, err := s.api("auth_refresh", map[string]any{}, "User-Id", fmt.Sprint(pair["user_id"]), "User-Hash",
			fmt.Sprint(pair["user_hash"]))
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("auth_refresh: status %d", status)
		}
		l.note(err)
		if err == nil {
			pair = next
		}
		select {
		case <-pace.C:
		case <-l.stop:
			return
		}
	}
}

func (l *load) note(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.served++
		return
	}
	l.failed++
	l.first = cmp.Or(l.first, err)
}

// wantNoneFailed checks that there were calls and all have succeeded.
func (l *load) wantNoneFailed(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed > 0 || l.served == 0 {
		t.Errorf("got %d failed and %d successful calls, want none and some: %v", l.failed, l.served, l.first)
	}
}

// bundler runs the tool that builds bundles and creates keys. It returns the output.
func bundler(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"run", "./internal/tools/bundle"}, args...)...)
	cmd.Dir = filepath.Join("..", "..")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("bundle %v: %v\n%s", args, err, &said)
	}
	return strings.TrimSpace(string(out))
}

// bundle builds a bundle of the plugin, with notes that must not become markup, and
// returns its path. key names the secret key to sign it with; empty for none.
func bundle(t *testing.T, version, key string) string {
	t.Helper()
	return bundler(t, "build", "--version="+version, "--key="+key, "--notes="+evil[0], "--out="+t.TempDir())
}
