package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
)

func TestASwapUnderLoadIsSeenOnTheChartToLoseNothing(t *testing.T) {
	t.Parallel()
	s := start(t, "--bake=4s")
	s.command(t, "plugin", "install", bundle(t, "9.0.0", ""))
	old := s.ready(t).Version
	p := s.administrator(t, desk)
	l := s.startLoad(t, 4)
	begin, before := p.traffic(0).Until+1, int64(3) // in seconds
	if shots() != "" {
		before = 40 // a picture shows more with more of it
	}
	p.awaitTraffic(begin + before)
	p.press("Use 9.0.0")
	p.see("Swap from " + old + " to 9.0.0")
	p.see("switch the calls")
	p.see("serving, on trial")
	p.drawn("the swap", "--mark-switched")
	p.drawn("the requests", "--chart-requests")
	p.shot("plugin", "header")
	p.wantAccessible()
	p.see("9.0.0 has passed its trial")
	p.see("Swapped from " + old + " to 9.0.0")
	p.awaitTraffic(p.traffic(0).Until + 2)
	p.shot("traffic", "[aria-labelledby=plugin-traffic-title]")

	answer := p.traffic(begin)
	answer.wantServed(t)
	if !slices.Equal(answer.kinds(), []string{"switched"}) || answer.Marks[0].Version != "9.0.0" {
		t.Errorf("the marks are %v", answer.Marks)
	}
	l.wantNoneFailed(t)
	if now := s.ready(t); now.Version != "9.0.0" {
		t.Errorf("serving is %s", now.Version)
	}
}

func TestThePageStaysLiveThroughACrash(t *testing.T) {
	t.Parallel()
	s := start(t)
	p := s.administrator(t, desk)
	s.startLoad(t, 1)
	get(p, chromedp.Evaluate[bool]("window.sameDocument = true"))
	before := s.ready(t)
	p.see(fmt.Sprint(before.PID))
	if err := syscall.Kill(before.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.see("A process of " + before.Version + " died")
	p.see("A process of " + before.Version + " took its place")
	eventually(t, "another process serves", func() bool {
		now := s.ready(t)
		return now.Ready && now.PID != before.PID
	})
	p.see(fmt.Sprint(s.ready(t).PID))
	p.drawn("the crash", "--mark-lost")
	newest := p.newest()
	p.await("the chart to go on", fmt.Sprintf(
		`document.querySelector("[data-plot=requests] .u-legend .u-value").textContent === %q ? "" : "yes"`, newest))
	if kinds := p.traffic(0).kinds(); !slices.Contains(kinds, "lost") || !slices.Contains(kinds, "restarted") {
		t.Errorf("the marks are %v", kinds)
	}
	if !get(p, chromedp.Evaluate[bool]("window.sameDocument === true")) {
		t.Error("the page was loaded anew")
	}
	if state := p.text("#traffic-state"); state != "" {
		t.Errorf("the chart says %q", state)
	}
}

func TestABundleIsUploadedIfAKeyHasSignedIt(t *testing.T) {
	t.Parallel()
	key := t.TempDir() + "/key"
	bundler(t, "keygen", key)
	s := start(t, "--plugin-key", key+".pub", "--plugin", bundle(t, "9.0.0", key))
	p := s.administrator(t, desk)
	p.upload(bundle(t, "9.1.0", ""))
	p.wantStatus(http.StatusUnprocessableEntity)
	p.see("The bundle was not installed.")
	p.wantAccessible()
	if versions := p.text("#plugin-versions"); strings.Contains(versions, "9.1.0") {
		t.Errorf("the versions are\n%s", versions)
	}
	p.upload(bundle(t, "9.1.0", key))
	p.see("The version has been installed.")
	p.press("Use 9.1.0")
	p.see("Swapped from 9.0.0 to 9.1.0")
	p.see(evil[0]) // the notes
	p.wantInert()
}

// upload gives the page a bundle.
func (p *tab) upload(file string) {
	p.t.Helper()
	p.do(chromedp.SetUploadFiles(p.control("Bundle (.tar.gz)"), []string{file}))
	p.press("Install")
}

// awaitTraffic waits until the chart's numbers have come to a second.
func (p *tab) awaitTraffic(second int64) {
	p.t.Helper()
	eventually(p.t, "the traffic of a second", func() bool { return p.traffic(second).Until > second })
}
