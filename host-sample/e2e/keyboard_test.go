package e2e

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

func TestKeyboard_RegistrationNeedsNoMouse(t *testing.T) {
	t.Parallel()
	s := start(t)
	p := newTab(t, s.url, desktop)
	p.open("/")
	p.key(kb.Tab)
	p.wantFocus("Skip to the content")
	p.key(kb.Enter)
	p.await("the focus after the skip link", `document.activeElement.id === "main" ? "yes" : ""`)
	p.open("/account/register")
	p.wantFocus("Login")
	p.key("anna")
	p.tabTo("Create an account")
	p.navigate(keyPresses(kb.Enter))
	p.wantStatus(422)
	p.await("the focus on the error summary", `document.activeElement.role === "alert" ? "yes" : ""`)
	p.tabTo("E-mail") // the link in the summary
	p.key(kb.Enter)
	p.await("the focus on the control", `document.activeElement.id === "field-email" ? "yes" : ""`)
	p.key("anna@example.com")
	p.tabTo("Password")
	p.key(password)
	p.tabTo("Repeat the password")
	p.key(password)
	p.tabTo("City")
	p.key("k") // Kazan
	p.tabTo("Send me the newsletter")
	p.key(" ")
	p.tabTo("Create an account")
	p.navigate(keyPresses(" "))
	p.see("Your account has been created.")
	p.wantValues(map[string]string{"City": "kazan"})
	if !p.ticked("Send me the newsletter") {
		t.Error("the space bar did not tick the checkbox")
	}
	p.tabTo("Sign out")
	p.navigate(keyPresses(" "))
	p.see("You are signed out.")
}

// key sends keys to the focused element.
func (p *tab) key(keys string) {
	p.t.Helper()
	p.do(keyPresses(keys))
}

// keyPresses sends keys as a keyboard does: a key with an effect, such as Enter on a
// link, does not also type into the next focused element.
func keyPresses(keys string) chromedp.Action[chromedp.Void] {
	return chromedp.KeyEvent(keys, func(stroke *input.DispatchKeyEventParams) {
		if stroke.Type == input.DispatchKeyEventTypeKeyDown {
			stroke.Type = input.DispatchKeyEventTypeRawKeyDown
		}
	})
}

// tabTo presses Tab until a control, link or button of this name has the focus, and
// checks that the focus is visible.
func (p *tab) tabTo(name string) {
	p.t.Helper()
	const maxTabs = 60
	for range maxTabs {
		p.key(kb.Tab)
		if get(p, chromedp.Evaluate[string](focused)) == name {
			p.wantFocus(name)
			return
		}
	}
	p.fatal(fmt.Errorf("no %s within %d tabs", name, maxTabs))
}

// wantFocus waits until an element has the focus and shows it.
func (p *tab) wantFocus(name string) {
	p.t.Helper()
	p.await("a visible focus on "+name, fmt.Sprintf(`(() => {
		const e = document.activeElement, box = e.getBoundingClientRect(), style = getComputedStyle(e);
		const within = box.width > 1 && box.height > 1 && box.top >= 0 && box.bottom <= innerHeight;
		const marked = e.matches(":focus-visible") && style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
		return within && marked && %s === %q ? "yes" : "";
	})()`, focused, name))
}

// focused is an expression for the name of the focused element.
const focused = `((e) => (e?.labels?.[0] ?? e ?? document).textContent?.replace("*", "").trim() ?? "")(document.activeElement)`
