package e2e

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

func TestAVisitorRegistersByKeyboardAlone(t *testing.T) {
	t.Parallel()
	s := start(t)
	p := newTab(t, s.url, desk)
	p.open("/account/register")
	p.key(kb.Tab)
	p.wantFocus("Skip to the content")
	p.key(kb.Enter)
	p.await("the focus behind the skip link", `document.activeElement.id === "main" ? "yes" : ""`)
	p.tabTo("Login")
	p.key("anna")
	p.tabTo("Create an account")
	p.lead(strokes(kb.Enter))
	p.wantStatus(422)
	p.await("the focus on what is wrong", `document.activeElement.role === "alert" ? "yes" : ""`)
	p.tabTo("E-mail") // the link to it
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
	p.lead(strokes(" "))
	p.see("Your account has been created.")
	p.wantValues(map[string]string{"City": "kazan"})
	if !p.ticked("Send me the newsletter") {
		t.Error("the space bar did not tick")
	}
	p.tabTo("Sign out")
	p.lead(strokes(" "))
	p.see("You are signed out.")
}

// key types into whatever has the focus.
func (p *tab) key(keys string) {
	p.t.Helper()
	p.do(strokes(keys))
}

// strokes are keys as a keyboard sends them: a key that did something, as Enter
// on a link, types nothing where the focus went.
func strokes(keys string) chromedp.Action[chromedp.Void] {
	return chromedp.KeyEvent(keys, func(stroke *input.DispatchKeyEventParams) {
		if stroke.Type == input.DispatchKeyEventTypeKeyDown {
			stroke.Type = input.DispatchKeyEventTypeRawKeyDown
		}
	})
}

// tabTo goes on with Tab to a control, link or button of that name. Whatever has
// the focus on the way must show it.
func (p *tab) tabTo(name string) {
	p.t.Helper()
	const most = 60
	for range most {
		p.key(kb.Tab)
		if get(p, chromedp.Evaluate[string](focused)) == name {
			p.wantFocus(name)
			return
		}
	}
	p.fatal(fmt.Errorf("no %s within %d tabs", name, most))
}

// wantFocus waits until something has the focus, and can be seen to have it.
func (p *tab) wantFocus(name string) {
	p.t.Helper()
	p.await("the focus to be seen on "+name, fmt.Sprintf(`(() => {
		const e = document.activeElement, box = e.getBoundingClientRect(), style = getComputedStyle(e);
		const within = box.width > 1 && box.height > 1 && box.top >= 0 && box.bottom <= innerHeight;
		const marked = e.matches(":focus-visible") && style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
		return within && marked && %s === %q ? "yes" : "";
	})()`, focused, name))
}

// focused names what has the focus.
const focused = `((e) => (e?.labels?.[0] ?? e ?? document).textContent?.replace("*", "").trim() ?? "")(document.activeElement)`
