// Package e2e tests the sample's pages in a real browser, as a visitor and as an
// administrator. It is its own module, so that a CMS that imports the main module
// does not depend on the browser libraries. The script run starts the tests.
package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// timeout is longer than any step takes on a busy machine.
const timeout = 60 * time.Second

// browser is the headless browser of all tests. Every [tab] has its own profile.
var browser struct {
	once   sync.Once
	ctx    context.Context
	cancel context.CancelFunc
	err    error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if browser.cancel != nil {
		browser.cancel()
	}
	os.Exit(code)
}

func startBrowser() {
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath("chromium-headless-shell"),
		chromedp.Flag("site-per-process", true), // a sandboxed frame is its own target
		chromedp.NoSandbox,                      // root cannot create one in a container
		chromedp.Flag("force-color-profile", "srgb"),
		chromedp.Flag("hide-scrollbars", true),
	)
	allocated, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	browser.ctx, browser.cancel = chromedp.NewContext(allocated)
	stop := browser.cancel
	browser.cancel = func() { stop(); cancel() }
	browser.err = chromedp.Do(browser.ctx)
}

// tab is a tab with a new profile.
type tab struct {
	t       *testing.T
	ctx     context.Context
	base    string // the site's URL
	display display
	album   string // folder of its pictures

	mu       sync.Mutex
	status   int      // of the shown document
	problems []string // console output and requests to other sites
	expected []string // parts of problems that must occur
}

// display is the window and the settings of a browser.
type display struct {
	width, height int64
	dark          bool
	language      string // Accept-Language
}

var desktop = display{width: 1280, height: 800, language: "en"}

// onPhone returns the display of a phone in dark mode, in the same language.
func (l display) onPhone() display {
	return display{width: 390, height: 844, dark: true, language: l.language}
}

// displays returns the displays that show all pages, by language: English on a desktop, Russian on
// a phone in dark mode.
func displays() map[string]display {
	return map[string]display{"en": desktop, "ru": display{language: "ru"}.onPhone()}
}

// newTab opens a tab. At its end the test fails if the console had any output or the
// tab sent a request to another site.
func newTab(t *testing.T, base string, l display) *tab {
	t.Helper()
	browser.once.Do(startBrowser)
	if browser.err != nil {
		t.Fatalf("starting the browser: %v", browser.err)
	}
	return openTab(t, browser.ctx, base, l, chromedp.WithNewBrowserContext())
}

// beside returns another tab with the same profile.
func (p *tab) beside() *tab {
	p.t.Helper()
	return openTab(p.t, p.ctx, p.base, p.display)
}

func openTab(t *testing.T, parent context.Context, base string, l display, options ...chromedp.ContextOption) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(parent, options...)
	t.Cleanup(cancel)
	p := &tab{t: t, ctx: ctx, base: base, display: l, album: "account"}
	// The tab closes with the context of its first action, so this one must have no
	// timeout.
	if err := chromedp.Listen(ctx, p.listen); err != nil {
		t.Fatalf("opening a tab: %v", err)
	}
	p.do(
		command(log.Enable, cdp.Empty{}),
		command(network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Accept-Language": l.language}}),
		command(emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "UTC"}),
	)
	p.emulate(l)
	t.Cleanup(p.wantNoProblems)
	return p
}

// emulate sets the window size and the colour scheme. The language stays as it is.
func (p *tab) emulate(l display) {
	p.t.Helper()
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	p.do(
		command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
		}}),
		chromedp.EmulateViewport(l.width, l.height, chromedp.EmulateScale(1)),
	)
}

// call returns an action that sends a command of the browser protocol.
func call[P, R any](c cdp.Command[P, R], params P) chromedp.Action[R] {
	return func(ctx context.Context, t *chromedp.Target) (R, error) { return cdp.Call(ctx, t, c, params) }
}

// command is [call] for a command without a result.
func command[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := call(c, params)(ctx, t)
		return chromedp.Void{}, err
	}
}

// listen records the status of documents, and problems.
func (p *tab) listen(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			var words []string
			for _, a := range e.Args {
				words = append(words, fmt.Sprint(a.Value, a.Description))
			}
			p.problems = append(p.problems, "console: "+strings.Join(words, " "))
		}
	case *runtime.EventExceptionThrown:
		p.problems = append(p.problems, "exception: "+e.ExceptionDetails.Text)
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError && e.Entry.Source != log.EntrySourceNetwork {
			p.problems = append(p.problems, fmt.Sprintf("console: %s: %s", e.Entry.Source, e.Entry.Text))
		}
	case *page.EventJavascriptDialogOpening:
		p.problems = append(p.problems, "dialog: "+e.Message)
	case *network.EventRequestWillBeSent:
		if to := e.Request.URL; to != p.base && !strings.HasPrefix(to, p.base+"/") && !strings.HasPrefix(to, "data:") {
			p.problems = append(p.problems, "request to "+to)
		}
	case *network.EventResponseReceived:
		switch {
		case e.Type == network.ResourceTypeDocument:
			p.status = int(e.Response.Status)
		case strings.HasSuffix(e.Response.URL, "/favicon.ico"): // asked for by the browser alone
		case e.Response.Status >= 400 && e.Response.Status != 503: // a poll while the plugin restarts
			p.problems = append(p.problems, fmt.Sprintf("%s: status %d", e.Response.URL, e.Response.Status))
		}
	}
}

// expect declares problems with this part as expected: at least one must occur.
func (p *tab) expect(part string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = append(p.expected, part)
}

func (p *tab) wantNoProblems() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, part := range p.expected {
		wanted := func(problem string) bool { return strings.Contains(problem, part) }
		if !slices.ContainsFunc(p.problems, wanted) {
			p.t.Errorf("got no problem with %q, want one", part)
		}
		p.problems = slices.DeleteFunc(p.problems, wanted)
	}
	for _, problem := range p.problems {
		p.t.Error(problem)
	}
}

// do runs actions that must succeed.
func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	get(p, chromedp.Steps(actions...))
}

// get runs an action that must succeed and returns its result.
func get[T any](p *tab, action chromedp.Action[T]) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, timeout)
	defer cancel()
	result, err := chromedp.Run(ctx, action)
	if err != nil {
		p.fatal(err)
	}
	return result
}

// fatal ends the test with the URL and the text of the page.
func (p *tab) fatal(err error) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, timeout)
	defer cancel()
	at, _ := chromedp.Run(ctx, chromedp.Location()) // best effort
	text, _ := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body.innerText"))
	p.t.Fatalf("%v\nat %s:\n%s", err, at, text)
}

// open opens a page of the site and checks that its status is 200.
func (p *tab) open(path string) {
	p.t.Helper()
	p.visit(path)
	p.wantStatus(200)
}

// openProven opens a page that demands that the user confirms who they are, and does so if it is
// asked for. The code is that of a second factor.
func (p *tab) openProven(path string, code ...string) {
	p.t.Helper()
	p.open(path)
	if at := get(p, chromedp.Location()); !strings.HasPrefix(at, p.base+"/account/confirm?") {
		return
	}
	evidence := map[string]string{"password": password}
	if len(code) > 0 {
		evidence["code"] = code[0]
	}
	p.submit(evidence)
	p.wantStatus(200)
	if at := get(p, chromedp.Location()); at != p.base+path {
		p.t.Errorf("after the confirmation: got %s, want %s", at, p.base+path)
	}
}

// visit opens a path of the site.
func (p *tab) visit(path string) {
	p.t.Helper()
	p.do(chromedp.Navigate(p.base + path))
}

// control finds a control by its label.
func (p *tab) control(label string) chromedp.CSS {
	p.t.Helper()
	id := p.await("the control "+label, fmt.Sprintf(`(() => {
		for (const l of document.querySelectorAll("label")) {
			if (l.textContent.replace("*", "").trim() !== %q || l.offsetParent === null || !l.control) continue;
			return l.control.id ||= "e2e-" + Math.random().toString(36).slice(2);
		}
		return "";
	})()`, label))
	return chromedp.CSS(`[id="` + id + `"]`)
}

// fill replaces the text of a control by typing.
func (p *tab) fill(label, text string) {
	p.t.Helper()
	p.set(label, "")
	p.do(chromedp.SendKeys(p.control(label), text))
}

// set sets the value of a control that is not typed into, such as a date or a select.
func (p *tab) set(label, value string) {
	p.t.Helper()
	p.assign(p.control(label), value)
}

func (p *tab) assign(control chromedp.CSS, value string) {
	p.t.Helper()
	get(p, chromedp.Evaluate[bool](fmt.Sprintf(`(() => {
		const control = document.querySelector(%q);
		control.value = %q;
		for (const happened of ["input", "change"]) control.dispatchEvent(new Event(happened, { bubbles: true }));
		return true;
	})()`, control, value)))
}

// tick clicks a checkbox or a radio button.
func (p *tab) tick(label string) {
	p.t.Helper()
	p.do(chromedp.Click(p.control(label)))
}

// press clicks the first visible button or link of a name and waits for the page that
// it opens.
func (p *tab) press(name string) {
	p.t.Helper()
	p.navigate(chromedp.Click(p.named(name)))
}

// navigate runs an action that opens another page, and waits for the page.
func (p *tab) navigate(action chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, timeout)
	defer cancel()
	if _, err := chromedp.RunResponse(ctx, action); err != nil {
		p.fatal(err)
	}
}

// named finds a button or link by its name, first in the main part of the page.
func (p *tab) named(name string) chromedp.CSS {
	p.t.Helper()
	mark := p.await("the button or link "+name, fmt.Sprintf(`(() => {
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

// text returns the text of the first element that matches a CSS selector.
func (p *tab) text(selector string) string {
	p.t.Helper()
	return get(p, chromedp.Text(chromedp.CSS(selector)))
}

// await evaluates an expression until it is a non-empty string, even while the page
// changes.
func (p *tab) await(what, expression string) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, timeout/2)
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

// value returns the value of a control.
func (p *tab) value(label string) string {
	p.t.Helper()
	return get(p, chromedp.Value(p.control(label)))
}

// ticked reports whether a checkbox or a radio button is checked.
func (p *tab) ticked(label string) bool {
	p.t.Helper()
	return get(p, chromedp.JavascriptAttribute[bool](p.control(label), "checked"))
}

// signIn signs in with the form.
func (p *tab) signIn(login, password string) {
	p.t.Helper()
	p.open("/account/sign-in")
	p.fill("Login or e-mail", login)
	p.fill("Password", password)
	p.press("Sign in")
}

// submit fills in the form of the page by parameter names, which do not depend on the
// language, and sends it. It does not type: [tab.fill] does.
func (p *tab) submit(values map[string]string) {
	p.t.Helper()
	for name, value := range values {
		p.assign(chromedp.CSS(`main [name="`+name+`"]`), value)
	}
	p.navigate(chromedp.Click(chromedp.CSS(`main form button:not([type="button"])`)))
}
