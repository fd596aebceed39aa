package e2e

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
)

func TestCallsAreTriedOnTheReferencesPage(t *testing.T) {
	t.Parallel()
	s := start(t)
	p := newTab(t, s.url, desk)
	p.open("/reference")
	p.see("API reference")
	p.shot("reference", "header")
	p.try("register", map[string]string{
		"login": "anna", "email": "anna@example.com", "password": password, "confirm_password": password,
		"interests": "tea\nchess", "newsletter": "true",
	})
	p.wantReply("register", "200", `"user_id": 1`)
	p.wantAccessible()

	p.open("/reference") // knows nothing any more
	p.expect("/profile/ was answered 401")
	p.try("profile", nil)
	p.wantReply("profile", "401", "unauthenticated")
	p.expect("/auth/ was answered 401")
	p.try("auth", map[string]string{"login": "anna", "password": "wrong"})
	p.wantReply("auth", "401", "The login or the password is wrong.")
	p.try("auth", map[string]string{"login": "anna", "password": password})
	p.wantReply("auth", "200", `"user_hash"`)
	p.wantValues(map[string]string{"User-Id": "1"})
	p.try("profile", nil)
	p.wantReply("profile", "200", `"anna@example.com"`)
}

// try unfolds the form of an operation, fills it in and sends it.
func (p *tab) try(operation string, values map[string]string) {
	p.t.Helper()
	section := p.operation(operation)
	get(p, chromedp.Evaluate[bool](fmt.Sprintf(`(() => {
		document.querySelector("%s details.try").open = true;
		document.querySelector("%s .reply pre").textContent = "";
		return true;
	})()`, section, section)))
	for name, value := range values {
		get(p, chromedp.Evaluate[string](fmt.Sprintf(`document.querySelector('%s form [name="%s"]').value = %q`, section, name, value)))
	}
	p.do(chromedp.Click(chromedp.CSS(section + " form button")))
}

// wantReply waits for the answer to a call, and checks its status and a part of
// what it says.
func (p *tab) wantReply(operation, status, part string) {
	p.t.Helper()
	p.await("the reply of "+operation, fmt.Sprintf(`(() => {
		const reply = document.querySelector("%s .reply");
		return reply.innerText.startsWith(%q) && reply.innerText.includes(%q) ? "yes" : "";
	})()`, p.operation(operation), status, part))
}

// operation selects the section of an operation.
func (p *tab) operation(name string) string {
	p.t.Helper()
	return "#" + p.await("the operation "+name, fmt.Sprintf(
		`[...document.querySelectorAll("section.operation")].find((s) => s.querySelector("h2 code").textContent.endsWith("/%s/"))?.id ?? ""`, name))
}
