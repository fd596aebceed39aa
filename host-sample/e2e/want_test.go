package e2e

import (
	"fmt"
	"slices"
	"strings"

	"github.com/chromedp/chromedp"
)

// wantStatus checks how the document on show was answered.
func (p *tab) wantStatus(want int) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.status != want {
		p.t.Errorf("status %d, want %d", p.status, want)
	}
}

// wantValues compares what stands in controls, by their labels.
func (p *tab) wantValues(want map[string]string) {
	p.t.Helper()
	for label, value := range want {
		if got := p.value(label); got != value {
			p.t.Errorf("%s is %q, want %q", label, got, value)
		}
	}
}

// wantFault checks that a form says what is wrong with a control: beside it, as
// its description, and in the summary above.
func (p *tab) wantFault(label, text string) {
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
		p.t.Errorf("%s: its fault is %q, want %q", label, beside, text)
	}
	if summary := p.text("[role=alert]"); !strings.Contains(summary, label+": "+text) {
		p.t.Errorf("%s: the summary does not say %q:\n%s", label, text, summary)
	}
}

// wantFaulty checks that a control is said to be at fault, in whatever words.
func (p *tab) wantFaulty(label string) {
	p.t.Helper()
	said := get(p, chromedp.Evaluate[bool](fmt.Sprintf(`(() => {
		const control = document.querySelector(%q);
		const described = (control.getAttribute("aria-describedby") ?? "").split(" ").map((id) => document.getElementById(id));
		return control.ariaInvalid === "true" && described.some((d) => d?.classList.contains("fault") && d.innerText !== "");
	})()`, p.control(label))))
	if !said {
		p.t.Errorf("%s is not said to be at fault", label)
	}
}

// wantNoControl checks that there is no control with a label.
func (p *tab) wantNoControl(label string) {
	p.t.Helper()
	labels := get(p, chromedp.Evaluate[[]string](`[...document.querySelectorAll("label")].map((l) => l.textContent.replace("*", "").trim())`))
	if slices.Contains(labels, label) {
		p.t.Errorf("there is a control labelled %s", label)
	}
}

// wantNoText checks that the page's main part does not show a text.
func (p *tab) wantNoText(text string) {
	p.t.Helper()
	if strings.Contains(p.text("main"), text) {
		p.t.Errorf("the page shows %s", text)
	}
}
