package e2e

import (
	"context"
	"fmt"
	"time"

	"github.com/chromedp/chromedp"
)

// open goes to a page of the site and expects that there is one.
func (p *tab) open(path string) {
	p.t.Helper()
	p.visit(path)
	p.wantStatus(200)
}

// visit goes to an address of the site.
func (p *tab) visit(path string) {
	p.t.Helper()
	p.do(chromedp.Navigate(p.base + path))
}

// control finds a control by its label, as people do.
func (p *tab) control(label string) chromedp.CSS {
	p.t.Helper()
	id := p.await("a control labelled "+label, fmt.Sprintf(`(() => {
		for (const l of document.querySelectorAll("label")) {
			if (l.textContent.replace("*", "").trim() !== %q || l.offsetParent === null || !l.control) continue;
			return l.control.id ||= "e2e-" + Math.random().toString(36).slice(2);
		}
		return "";
	})()`, label))
	return chromedp.CSS(`[id="` + id + `"]`)
}

// fill types a text into a control, in the place of what stands there.
func (p *tab) fill(label, text string) {
	p.t.Helper()
	p.set(label, "")
	p.do(chromedp.SendKeys(p.control(label), text))
}

// set puts a value into a control that is not typed into: a date, a choice.
func (p *tab) set(label, value string) {
	p.t.Helper()
	get(p, chromedp.Evaluate[bool](fmt.Sprintf(`(() => {
		const control = document.querySelector(%q);
		control.value = %q;
		for (const happened of ["input", "change"]) control.dispatchEvent(new Event(happened, { bubbles: true }));
		return true;
	})()`, p.control(label), value)))
}

// tick clicks a checkbox or a radio button.
func (p *tab) tick(label string) {
	p.t.Helper()
	p.do(chromedp.Click(p.control(label)))
}

// press clicks the first visible button or link of that name and waits for the
// page it leads to.
func (p *tab) press(name string) {
	p.t.Helper()
	p.lead(chromedp.Click(p.named(name)))
}

// lead carries out what leads to another page, and waits for that.
func (p *tab) lead(action chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if _, err := chromedp.RunResponse(ctx, action); err != nil {
		p.fatal(err)
	}
}

// named finds a button or link by its name: what the page is about comes before
// what every page has.
func (p *tab) named(name string) chromedp.CSS {
	p.t.Helper()
	mark := p.await("a button or link "+name, fmt.Sprintf(`(() => {
		const all = document.querySelectorAll("button, a, summary");
		for (const e of [...document.querySelectorAll("main :is(button, a, summary)"), ...all]) {
			if ((e.getAttribute("aria-label") || e.textContent).trim() !== %q || e.disabled || e.offsetParent === null || e.ariaHidden) continue;
			return e.dataset.e2e ||= Math.random().toString(36).slice(2);
		}
		return "";
	})()`, name))
	return chromedp.CSS(`[data-e2e="` + mark + `"]`)
}

// see waits until the page shows a text.
func (p *tab) see(text string) {
	p.t.Helper()
	p.await("the text "+text, fmt.Sprintf(`document.body.innerText.includes(%q) ? "yes" : ""`, text))
}

// text returns the text of the first element that fits a CSS selector.
func (p *tab) text(selector string) string {
	p.t.Helper()
	return get(p, chromedp.Text(chromedp.CSS(selector)))
}

// await evaluates an expression until it is a text that is not empty, also while
// pages come and go.
func (p *tab) await(what, expression string) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience/2)
	defer cancel()
	for {
		text, err := chromedp.Run(ctx, chromedp.Evaluate[string](expression))
		if err == nil && text != "" {
			return text
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			p.fatal(fmt.Errorf("waiting for %s: %w", what, ctx.Err()))
		}
	}
}

// value returns what stands in a control.
func (p *tab) value(label string) string {
	p.t.Helper()
	return get(p, chromedp.Value(p.control(label)))
}

// ticked reports whether a checkbox or a radio button is.
func (p *tab) ticked(label string) bool {
	p.t.Helper()
	return get(p, chromedp.JavascriptAttribute[bool](p.control(label), "checked"))
}

// signIn signs in by the form.
func (p *tab) signIn(login, password string) {
	p.t.Helper()
	p.open("/account/sign-in")
	p.fill("Login or e-mail", login)
	p.fill("Password", password)
	p.press("Sign in")
}

// submit fills in the page's form by the names of its parameters, in whatever
// language it is, and sends it.
func (p *tab) submit(values map[string]string) {
	p.t.Helper()
	for name, value := range values {
		p.do(chromedp.SendKeys(chromedp.CSS(`main [name="`+name+`"]`), value))
	}
	p.lead(chromedp.Click(chromedp.CSS("main form button")))
}
