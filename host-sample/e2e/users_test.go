package e2e

import (
	"testing"

	"github.com/chromedp/chromedp"
)

func TestUsers_SelectedUsersAreChangedAndUndone(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, login := range []string{"anna", "boris", "vera", "gleb"} {
		s.register(t, login)
	}
	admin := s.administrator(t, desktop)
	admin.open("/admin/users?search=e")
	admin.choose("disable", "3")
	admin.wantBadges("warn", 1)
	admin.choose("disable", "1", "2", "3")
	admin.wantBadges("warn", 3)
	admin.wantAccessible()
	admin.navigate(chromedp.Click("main .notice button"))
	admin.wantBadges("warn", 1) // vera was disabled before
	admin.navigate(chromedp.Click("main .notice button"))
	admin.wantBadges("warn", 3)
	admin.screenshot("users", "header")
	admin.tick("Select all on this page")
	admin.choose("enable")
	admin.wantBadges("warn", 0)

	admin.choose("delete", "2", "4")
	admin.submit(map[string]string{"count": "3"})
	admin.wantStatus(422)
	admin.wantAccessible()
	admin.open("/admin/users/delete?user=2&user=4")
	admin.submit(map[string]string{"count": "2"})
	admin.wantStatus(200)
	admin.wantBadges("good", 2)
	admin.wantNoText("gleb")
}

// choose selects users by their ids and applies an action to all that are selected.
func (p *tab) choose(action string, ids ...string) {
	p.t.Helper()
	for _, id := range ids {
		p.do(chromedp.Click(chromedp.CSS(`input[name=user][value="` + id + `"]`)))
	}
	p.navigate(chromedp.Click(`.selected button[value="` + action + `"]`))
}

// wantBadges checks how many users of the list have a state, by the tone of its badge.
func (p *tab) wantBadges(tone string, want int) {
	p.t.Helper()
	if got := get(p, chromedp.Evaluate[int](`document.querySelectorAll(".users .badge.`+tone+`").length`)); got != want {
		p.t.Errorf("got %d users with a badge %s, want %d", got, tone, want)
	}
}
