// Package e2e walks through the sample's pages in a real browser, as a visitor and
// as an administrator. It is a module of its own, so that a CMS which imports the
// packages of the other one inherits none of the browser's. See the script run.
package e2e

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// patience is longer than anything here may take on a busy machine.
const patience = 60 * time.Second

// browser is a browser without a window, for all tests; every [tab] has a
// profile of its own.
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
		chromedp.NoSandbox, // a container's root may not make one
		chromedp.Flag("force-color-profile", "srgb"),
		chromedp.Flag("hide-scrollbars", true),
	)
	allocated, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	browser.ctx, browser.cancel = chromedp.NewContext(allocated)
	stop := browser.cancel
	browser.cancel = func() { stop(); cancel() }
	browser.err = chromedp.Do(browser.ctx)
}
