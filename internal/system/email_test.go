package system

import (
	"slices"
	"strings"
	"testing"
)

func testEmail(t *testing.T, s *system) {
	t.Run("what is wrong is named", func(t *testing.T) {
		u, other := s.newUser(t), s.newUser(t)
		s.postAs(t, u.pair, "email/", params{}).wantFaults(t, "validation_failed", faults{"password": "required", "email": "required"})
		s.postAs(t, u.pair, "email/", params{"password": "wrong wrong", "email": unique() + "@mail.example"}).
			wantFaults(t, "validation_failed", faults{"password": "mismatch"})
		s.postAs(t, u.pair, "email/", params{"password": u.password, "email": "anna"}).
			wantFaults(t, "validation_failed", faults{"email": "invalid_format"})
		s.postAs(t, u.pair, "email/", params{"password": u.password, "email": strings.ToUpper(other.email)}).
			wantFaults(t, "already_exists", faults{"email": "taken"})
		s.post(t, "email_confirm/", params{}).wantFaults(t, "validation_failed", faults{"token": "required"})
		s.post(t, "email_confirm/", params{"token": "nonsense"}).want(t, "invalid_token")
	})
	t.Run("takes effect when the token from the new address comes back", func(t *testing.T) { testEmailChange(t, s) })
	t.Run("an address taken meanwhile is refused at the end", func(t *testing.T) {
		u := s.newUser(t)
		address := unique() + "@mail.example"
		s.postAs(t, u.pair, "email/", params{"password": u.password, "email": address}).want(t, "")
		token := s.mailTo(t, address).token(t)
		s.post(t, "register/", applicant(params{"email": address})).want(t, "")
		s.post(t, "email_confirm/", params{"token": token}).wantFaults(t, "already_exists", faults{"email": "taken"})
	})
	t.Run("one mail a minute", func(t *testing.T) {
		u, last := s.newUser(t), s.newUser(t)
		first, second, marker := unique()+"@mail.example", unique()+"@mail.example", unique()+"@mail.example"
		for _, address := range []string{first, first, second} {
			s.postAs(t, u.pair, "email/", params{"password": u.password, "email": address})
		}
		s.postAs(t, last.pair, "email/", params{"password": last.password, "email": marker}).want(t, "")
		s.mailTo(t, first)
		s.mailTo(t, marker) // jobs are done in order
		if n := len(s.mailsTo(t, first)) + len(s.mailsTo(t, second)); n != 1 {
			t.Errorf("%d mails went out", n)
		}
	})
	t.Run("a token is good for its own purpose alone", func(t *testing.T) {
		u := s.newUser(t)
		address := unique() + "@mail.example"
		s.postAs(t, u.pair, "email/", params{"password": u.password, "email": address}).want(t, "")
		s.post(t, "recover/", params{"login": u.login}).want(t, "")
		forEmail, forRecovery := s.mailTo(t, address).token(t), s.mailTo(t, u.email).token(t)
		s.post(t, "email_confirm/", params{"token": forRecovery}).want(t, "invalid_token")
		s.post(t, "recover_confirm/", confirm(forEmail, recovered)).want(t, "invalid_token")
		s.post(t, "email_confirm/", params{"token": forEmail}).want(t, "")
		s.post(t, "recover_confirm/", confirm(forRecovery, recovered)).want(t, "invalid_token")
	})
	t.Run("recovery voids the token for a new address", func(t *testing.T) {
		u := s.newUser(t)
		address := unique() + "@mail.example"
		s.postAs(t, u.pair, "email/", params{"password": u.password, "email": address}).want(t, "")
		s.post(t, "recover/", params{"login": u.login}).want(t, "")
		s.post(t, "recover_confirm/", confirm(s.mailTo(t, u.email).token(t), recovered)).want(t, "")
		s.post(t, "email_confirm/", params{"token": s.mailTo(t, address).token(t)}).want(t, "invalid_token")
	})
}

func testEmailChange(t *testing.T, s *system) {
	u := s.newUser(t)
	local := "Next." + unique()
	address := local + "@mail.example"
	s.postAs(t, u.pair, "email/", params{"password": u.password, "email": address}).wantData(t)
	m := s.mailTo(t, address)
	token := m.token(t)
	if link := "https://site.example/email#token=" + token; !strings.Contains(m.text, link) || !strings.Contains(m.html, link) {
		t.Errorf("the link is not in text and HTML:\n%s\n%s", m.text, m.html)
	}
	email := func() any { return s.getAs(t, u.pair, "profile/").profile(t)["email"] }
	if email() != u.email {
		t.Errorf("before confirmation the address is %v", email())
	}
	s.post(t, "auth/", params{"login": address, "password": u.password}).want(t, "invalid_credentials")

	s.post(t, "email_confirm/", params{"token": token}).wantData(t)
	if email() != address {
		t.Errorf("after confirmation the address is %v, want %s", email(), address)
	}
	s.post(t, "auth/", params{"login": address, "password": u.password}).want(t, "")
	s.post(t, "auth/", params{"login": u.email, "password": u.password}).want(t, "invalid_credentials")
	s.post(t, "email_confirm/", params{"token": token}).want(t, "invalid_token")
	eventually(t, "the old address is told", func() bool {
		return slices.ContainsFunc(s.mailsTo(t, u.email), func(m message) bool {
			return !strings.Contains(m.text+m.html, local) && tokenLine.FindString(m.text) == ""
		})
	})
}
