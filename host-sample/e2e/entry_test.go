package e2e

import (
	"strings"
	"testing"
)

func TestALinkLetsAnAdministratorInOnce(t *testing.T) {
	s := start(t)
	link := strings.TrimPrefix(s.command(t, "admin-link"), s.url)
	p := newTab(t, s.url, desk)
	p.open(link)
	p.wantAccessible()
	p.press("Enter")
	other := newTab(t, s.url, desk)
	other.open(link)
	other.press("Enter")
	other.wantStatus(403)
	other.see("used before")
	other.wantAccessible()
}
