package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/chromedp/chromedp"
)

// wantStatus checks the status of the shown document.
func (p *tab) wantStatus(want int) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.status != want {
		p.t.Errorf("got status %d, want %d", p.status, want)
	}
}

// wantValues checks the values of controls by their labels.
func (p *tab) wantValues(want map[string]string) {
	p.t.Helper()
	for label, value := range want {
		if got := p.value(label); got != value {
			p.t.Errorf("%s: got %q, want %q", label, got, value)
		}
	}
}

// wantFieldError checks the error of a control: in its description and in the summary
// at the top of the form.
func (p *tab) wantFieldError(label, text string) {
	p.t.Helper()
	beside := get(p, chromedp.Evaluate[string](fmt.Sprintf(`(() => {
		for (const e of document.querySelectorAll("[aria-invalid=true]")) {
			const label = e.labels?.[0] ?? e.querySelector("legend");
			if (label.textContent.replace("*", "").trim() !== %q) continue;
			const described = e.getAttribute("aria-describedby").split(" ").map((id) => document.getElementById(id));
			return described.filter((d) => d?.classList.contains("fault")).map((d) => d.innerText).join(" ");
		}
		return "";
	})()`, label)))
	if beside != text {
		p.t.Errorf("%s: got the error %q, want %q", label, beside, text)
	}
	if summary := p.text("[role=alert]"); !strings.Contains(summary, label+": "+text) {
		p.t.Errorf("%s: got the summary %q, want it to have %q", label, summary, text)
	}
}

// wantNoControl checks that no control has this label.
func (p *tab) wantNoControl(label string) {
	p.t.Helper()
	labels := get(p, chromedp.Evaluate[[]string](`[...document.querySelectorAll("label")].map((l) => l.textContent.replace("*", "").trim())`))
	if slices.Contains(labels, label) {
		p.t.Errorf("got a control %s, want none", label)
	}
}

// wantNoText checks that the main part of the page does not show a text.
func (p *tab) wantNoText(text string) {
	p.t.Helper()
	if strings.Contains(p.text("main"), text) {
		p.t.Errorf("got the text %q on the page, want none", text)
	}
}

// wantAccessible checks the page with axe-core: it must have no serious violation and must not
// scroll sideways. The walks look at every page as it is on other displays.
func (p *tab) wantAccessible() {
	p.t.Helper()
	p.loadAxe()
	p.wantNoViolation("as displayed", "document")
}

// wantAccessibleOnPhone is wantAccessible, and then the same on a phone in dark mode.
func (p *tab) wantAccessibleOnPhone() {
	p.t.Helper()
	p.wantAccessible()
	p.emulate(p.display.onPhone())
	p.wantNoViolation("on a phone", "document")
	p.emulate(p.display)
}

func (p *tab) loadAxe() {
	p.t.Helper()
	source, err := os.ReadFile(os.Getenv("PERSONAL_E2E_AXE"))
	if err != nil {
		p.t.Fatalf("reading axe-core, see the script run: %v", err)
	}
	get(p, chromedp.Evaluate[bool](string(source)+"; true"))
}

// wantNoViolation checks what an expression returns.
func (p *tab) wantNoViolation(where, within string) {
	p.t.Helper()
	p.await("the page to fit "+where, `document.documentElement.scrollWidth > document.documentElement.clientWidth ? "" : "yes"`)
	found := get(p, chromedp.Evaluate[string](
		"axe.run("+within+`, {resultTypes: ["violations"]}).then((r) => JSON.stringify(r.violations))`, chromedp.EvalAwaitPromise))
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

// screenshotFolder returns the folder for screenshots; empty: none are taken. See the
// script run.
func screenshotFolder() string { return os.Getenv("PERSONAL_E2E_SHOTS") }

// screenshot takes a screenshot with an element at the top of the window, in English on a desktop.
func (p *tab) screenshot(name, selector string) {
	p.t.Helper()
	if screenshotFolder() == "" || p.display != desktop {
		return
	}
	get(p, chromedp.Evaluate[bool](`document.querySelector("`+selector+`").scrollIntoView(), document.activeElement.blur(), true`))
	if err := os.WriteFile(filepath.Join(screenshotFolder(), name+".png"), get(p, chromedp.CaptureScreenshot()), 0o644); err != nil {
		p.t.Fatal(err)
	}
}
