package e2e

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
)

func TestReference_OperationsCanBeTried(t *testing.T) {
	t.Parallel()
	s := start(t)
	p := newTab(t, s.url, desktop)
	p.open("/reference")
	p.see("API reference")
	p.screenshot("reference", "header")
	p.try("register", map[string]string{
		"login": "anna", "email": "anna@example.com", "password": password, "confirm_password": password,
		"interests": "tea\nchess", "newsletter": "true",
	})
	p.wantResponse("register", "200", `"user_id": 1`)
	p.loadAxe()
	p.wantNoViolation("in the form", fmt.Sprintf("document.querySelector(%q)", p.operation("register"))) // the walk looks at the page

	p.open("/reference") // without credentials
	p.expect("/profile/: status 401")
	p.try("profile", nil)
	p.wantResponse("profile", "401", "unauthenticated")
	p.expect("/auth/: status 401")
	p.try("auth", map[string]string{"login": "anna", "password": "wrong"})
	p.wantResponse("auth", "401", "The login or the password is wrong.")
	p.try("auth", map[string]string{"login": "anna", "password": password})
	p.wantResponse("auth", "200", `"user_hash"`)
	p.wantValues(map[string]string{"User-Id": "1"})
	p.try("profile", nil)
	p.wantResponse("profile", "200", `"anna@example.com"`)
}

// try opens the form of an operation, fills it in and sends it.
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

// wantResponse waits until an operation shows a response with this status and part.
func (p *tab) wantResponse(operation, status, part string) {
	p.t.Helper()
	p.await("the response of "+operation, fmt.Sprintf(`(() => {
		const reply = document.querySelector("%s .reply");
		return reply.innerText.startsWith(%q) && reply.innerText.includes(%q) ? "yes" : "";
	})()`, p.operation(operation), status, part))
}

// operation returns the selector of the section of an operation.
func (p *tab) operation(name string) string {
	p.t.Helper()
	return "#" + p.await("the operation "+name, fmt.Sprintf(
		`[...document.querySelectorAll("section.operation")].find((s) => s.querySelector("h2 code").textContent.endsWith("/%s/"))?.id ?? ""`,
		name))
}
