package e2e

import (
	"testing"

	"github.com/chromedp/chromedp"
)

func TestUsers_EditDisableAndRevokeSessions(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, login := range []string{"anna", "boris", "vera"} {
		s.register(t, login)
	}
	admin, visitor := s.administrator(t, desktop), s.visitor(t, "anna", desktop)
	admin.open("/admin/users")
	admin.fill("Login, e-mail, name or id", "ann")
	admin.press("Search")
	admin.see("anna@example.com")
	admin.wantNoText("boris")
	admin.press("anna")
	admin.fill("Customer number", "C-17")
	admin.press("Save")
	admin.see("The profile has been saved.")
	visitor.open("/account")
	visitor.see("C-17")
	visitor.wantNoControl("Customer number")

	admin.press("Sign out everywhere")
	admin.see("The user has been signed out everywhere.")
	admin.see("The user is not signed in anywhere.")
	visitor.press("Password")
	visitor.control("Login or e-mail")
	visitor.signIn("anna", password)

	admin.press("Disable")
	admin.see("The user has been disabled.")
	admin.wantAccessible()
	visitor.press("Sessions")
	visitor.control("Login or e-mail")
	visitor.signIn("anna", password)
	visitor.wantStatus(403)
	visitor.see("This account is disabled. If you have deleted it, our e-mail says how to undo that; otherwise please contact the administrator of the site.")
	admin.press("Enable")
	admin.see("The user has been enabled.")
	visitor.signIn("anna", password)
	visitor.see("You are signed in.")
}

func TestUsers_DeletionNeedsTheLogin(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.register(t, "anna")
	admin, visitor := s.administrator(t, desktop), s.visitor(t, "anna", desktop)
	admin.open("/admin/users")
	admin.press("anna")
	admin.press("Delete …")
	admin.fill("To confirm, type the login: anna", "boris")
	admin.press("Delete permanently")
	admin.wantStatus(422)
	admin.wantFieldError("To confirm, type the login: anna", "This does not match the login.")
	visitor.open("/account")
	visitor.control("Name")
	admin.fill("To confirm, type the login: anna", "anna")
	admin.press("Delete permanently")
	admin.see("The user has been deleted.")
	visitor.press("Sessions")
	visitor.control("Login or e-mail")
	visitor.signIn("anna", password)
	visitor.wantStatus(401)
	admin.wantNoText("anna@example.com")
}

func TestUsers_EmailAndRecoveryMail(t *testing.T) {
	t.Parallel()
	s := startWithDefaults(t)
	s.register(t, "anna")
	s.register(t, "boris")
	admin := s.administrator(t, desktop)
	admin.open("/admin/users")
	admin.press("anna")
	admin.fill("E-mail", "BORIS@example.com")
	admin.press("Save the e-mail")
	admin.wantStatus(409)
	admin.wantFieldError("E-mail", "Another account has this e-mail address. Enter another one.")
	admin.wantValues(map[string]string{"E-mail": "BORIS@example.com"})
	admin.wantAccessible()
	admin.fill("E-mail", "petrova@example.com")
	admin.press("Save the e-mail")
	admin.see("The e-mail has been saved.")
	admin.press("Send a recovery mail")
	admin.see("A recovery mail is being sent")

	visitor := newTab(t, s.url, desktop)
	visitor.openMailed(s.mailedLink(t, "petrova@example.com", "/account/recover"))
	visitor.fill("New password", "a better one by far")
	visitor.fill("Repeat the password", "a better one by far")
	visitor.press("Set the password")
	visitor.signIn("petrova@example.com", "a better one by far")
	visitor.see("You are signed in.")
}

func TestUsers_SelectedUsersAreChangedAndUndone(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]display{"scripts": desktop, "no scripts": {width: 390, height: 844, language: "ru"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			for _, login := range []string{"anna", "boris", "vera", "gleb"} {
				s.register(t, login)
			}
			admin := s.administrator(t, l)
			scripts := l == desktop
			admin.allowScripts(scripts)
			check := admin.wantAccessibleAlone
			if scripts {
				check = admin.wantAccessible
			}
			admin.open("/admin/users?search=e")
			admin.choose("disable", "3")
			admin.wantBadges("warn", 1)
			admin.choose("disable", "1", "2", "3")
			admin.wantBadges("warn", 3)
			check()
			admin.navigate(chromedp.Click("main .notice button"))
			admin.wantBadges("warn", 1) // vera was disabled before
			admin.navigate(chromedp.Click("main .notice button"))
			admin.wantBadges("warn", 3)
			if scripts {
				admin.screenshot("users", "header")
				admin.tick("Select all on this page")
				admin.choose("enable")
			} else {
				admin.choose("enable", "1", "2", "3", "4")
			}
			admin.wantBadges("warn", 0)

			admin.choose("delete", "2", "4")
			admin.submit(map[string]string{"count": "3"})
			admin.wantStatus(422)
			check()
			admin.open("/admin/users/delete?user=2&user=4")
			admin.submit(map[string]string{"count": "2"})
			admin.wantStatus(200)
			admin.wantBadges("good", 2)
			admin.wantNoText("gleb")
		})
	}
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

func TestUsers_EmptyListLeadsToTheFirstUser(t *testing.T) {
	t.Parallel()
	s := startWithDefaults(t)
	admin := s.administrator(t, desktop)
	admin.open("/admin/users")
	admin.press("Add the first user")
	admin.press("Add the user")
	admin.wantStatus(422)
	admin.fill("Login", "petr")
	admin.fill("E-mail", "petr@example.com")
	admin.fill("Customer number", "C-18")
	admin.press("Add the user")
	admin.see("an invitation is being sent")
	admin.wantValues(map[string]string{"Customer number": "C-18"})
	admin.open("/admin/users/new?login=petr")
	admin.tick("Send an invitation mail")
	admin.press("Add the user")
	admin.wantStatus(409)
	admin.wantFieldError("Login", "This login is taken. Choose another.")
	admin.open("/admin/users?search=nemo")
	admin.press("Add the user “nemo”")
	admin.wantValues(map[string]string{"Login": "nemo"})

	visitor := newTab(t, s.url, desktop)
	visitor.openMailed(s.mailedLink(t, "petr@example.com", "/account/recover"))
	visitor.fill("New password", "a better one by far")
	visitor.fill("Repeat the password", "a better one by far")
	visitor.press("Set the password")
	visitor.signIn("petr", "a better one by far")
	visitor.see("You are signed in.")
}
