package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/chromedp/chromedp"
)

// wantAccessible has axe-core look at the page, on a desk and on a phone, in the
// light and in the dark: nothing serious may be wrong, and nothing may reach
// beyond the window's edge.
func (p *tab) wantAccessible() {
	p.t.Helper()
	source, err := os.ReadFile(os.Getenv("PERSONAL_E2E_AXE"))
	if err != nil {
		p.t.Fatalf("reading axe-core, see the script run: %v", err)
	}
	get(p, chromedp.Evaluate[bool](string(source)+"; true"))
	p.wantNoViolation("on a desk")
	p.wear(p.look.onPhone())
	p.wantNoViolation("on a phone")
	p.wear(p.look)
}

func (p *tab) wantNoViolation(where string) {
	p.t.Helper()
	p.await("the page to fit "+where, `document.documentElement.scrollWidth > document.documentElement.clientWidth ? "" : "yes"`)
	found := get(p, chromedp.Evaluate[string](
		`axe.run(document, {resultTypes: ["violations"]}).then((r) => JSON.stringify(r.violations))`, chromedp.EvalAwaitPromise))
	var violations []struct {
		ID, Impact, Help string
		Nodes            []struct{ HTML string }
	}
	if err := json.Unmarshal([]byte(found), &violations); err != nil {
		p.t.Fatal(err)
	}
	for _, v := range violations {
		if v.Impact != "serious" && v.Impact != "critical" {
			continue
		}
		var nodes []string
		for _, n := range v.Nodes {
			nodes = append(nodes, n.HTML)
		}
		p.t.Errorf("%s %s: %s (%s): %s\n%s", get(p, chromedp.Location()), where, v.ID, v.Impact, v.Help, strings.Join(nodes, "\n"))
	}
}

// shots returns the folder for pictures; empty: none are taken. See the script
// run.
func shots() string { return os.Getenv("PERSONAL_E2E_SHOTS") }

// shot takes a picture of the window, with an element at its top.
func (p *tab) shot(name, selector string) {
	p.t.Helper()
	if shots() == "" {
		return
	}
	get(p, chromedp.Evaluate[bool](`document.querySelector("`+selector+`").scrollIntoView(), document.activeElement.blur(), true`))
	if err := os.WriteFile(filepath.Join(shots(), name+".png"), get(p, chromedp.CaptureScreenshot()), 0o644); err != nil {
		p.t.Fatal(err)
	}
}
