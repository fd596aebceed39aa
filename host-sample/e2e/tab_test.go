package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// tab is a tab of a browser that nobody has used before.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string // the site's URL
	look look

	mu       sync.Mutex
	status   int      // of the document on show
	problems []string // what the console says, and requests to elsewhere
	expected []string // parts of problems that must be
}

// look is how a page is looked at.
type look struct {
	width, height int64
	dark          bool
	language      string // Accept-Language
}

var desk = look{width: 1280, height: 800, language: "en"}

// onPhone is the look on a phone in the dark, in the same language.
func (l look) onPhone() look {
	return look{width: 390, height: 844, dark: true, language: l.language}
}

// newTab opens a tab. When the test ends, the console must have been silent, and
// nothing have been asked of another site.
func newTab(t *testing.T, base string, l look) *tab {
	t.Helper()
	browser.once.Do(startBrowser)
	if browser.err != nil {
		t.Fatalf("starting the browser: %v", browser.err)
	}
	ctx, cancel := chromedp.NewContext(browser.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	p := &tab{t: t, ctx: ctx, base: base, look: l}
	// The tab ends with the context of its first action, which must therefore be
	// one without a time limit: this one.
	if err := chromedp.Listen(ctx, p.listen); err != nil {
		t.Fatalf("opening a tab: %v", err)
	}
	p.do(
		command(log.Enable, cdp.Empty{}),
		command(network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Accept-Language": l.language}}),
		command(emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "UTC"}),
	)
	p.wear(l)
	t.Cleanup(p.wantSilence)
	return p
}

// wear shows the page at a size and in a colour scheme; its language stays.
func (p *tab) wear(l look) {
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

// answer is a command of the browser's protocol as an action.
func answer[P, R any](c cdp.Command[P, R], params P) chromedp.Action[R] {
	return func(ctx context.Context, t *chromedp.Target) (R, error) { return cdp.Call(ctx, t, c, params) }
}

// command is the same where the answer says nothing.
func command[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := answer(c, params)(ctx, t)
		return chromedp.Void{}, err
	}
}

// listen notes what must not be. That a document was refused is in its status.
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
		p.problems = append(p.problems, "a dialog: "+e.Message)
	case *network.EventRequestWillBeSent:
		if to := e.Request.URL; to != p.base && !strings.HasPrefix(to, p.base+"/") && !strings.HasPrefix(to, "data:") {
			p.problems = append(p.problems, "a request to "+to)
		}
	case *network.EventResponseReceived:
		switch {
		case e.Type == network.ResourceTypeDocument:
			p.status = int(e.Response.Status)
		case e.Response.Status >= 400 && e.Response.Status != 503: // a poll may meet a crash
			p.problems = append(p.problems, fmt.Sprintf("%s was answered %d", e.Response.URL, e.Response.Status))
		}
	}
}

// expect tells of a problem that the test is about: some of them must have this
// part, and they count no more.
func (p *tab) expect(part string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = append(p.expected, part)
}

func (p *tab) wantSilence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, part := range p.expected {
		wanted := func(problem string) bool { return strings.Contains(problem, part) }
		if !slices.ContainsFunc(p.problems, wanted) {
			p.t.Errorf("not met: %s", part)
		}
		p.problems = slices.DeleteFunc(p.problems, wanted)
	}
	for _, problem := range p.problems {
		p.t.Error(problem)
	}
}

// do carries out what must succeed.
func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	get(p, chromedp.Steps(actions...))
}

// get carries out what must succeed, and returns its result.
func get[T any](p *tab, action chromedp.Action[T]) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	result, err := chromedp.Run(ctx, action)
	if err != nil {
		p.fatal(err)
	}
	return result
}

// fatal ends the test and tells where the browser was.
func (p *tab) fatal(err error) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	at, _ := chromedp.Run(ctx, chromedp.Location()) // as far as it goes
	text, _ := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body.innerText"))
	p.t.Fatalf("%v\nat %s:\n%s", err, at, text)
}
