package system

import (
	"net/http"
	"strings"
	"testing"
)

const recovered = "recovered horse 3"

func confirm(token, password string) params {
	return params{"token": token, "password": password, "confirm_password": password}
}

func testRecovery(t *testing.T, s *system) {
	t.Run("the answer is the same whether or not an account matches", func(t *testing.T) {
		u, other := s.newUser(t), s.newUser(t)
		want := s.post(t, "recover/", params{"login": u.login}).wantData(t)
		if want.Result.Message == "" {
			t.Error("there is no MESSAGE")
		}
		for _, p := range []params{
			{"login": u.login}, {"email": u.email}, {"login": u.login, "email": u.email}, {"login": unique()},
			{"email": unique() + "@mail.example"}, {"login": u.login, "email": other.email}, {"login": u.email},
		} {
			if a := s.post(t, "recover/", p); a.Status != want.Status || string(a.Raw) != string(want.Raw) {
				t.Errorf("recover of %v answers %s, want %s", p, a.Raw, want.Raw)
			}
		}
		if a := s.post(t, "recover/", params{}).want(t, "validation_failed"); a.Result.Fields["login"].Code != "required" && a.Result.Fields["email"].Code != "required" {
			t.Errorf("recover of nobody answers %s", a.Raw)
		}
		for _, method := range []string{http.MethodGet, http.MethodHead} { // a scanner that opens a link
			if a := s.do(t, call{method: method, path: "recover_confirm/?token=x"}); a.Status != http.StatusMethodNotAllowed {
				t.Errorf("%s recover_confirm answers %d", method, a.Status)
			}
		}
	})
	t.Run("the mail", func(t *testing.T) { testRecoveryMail(t, s) })
	t.Run("both login and e-mail must match one account", func(t *testing.T) {
		u, other, last := s.newUser(t), s.newUser(t), s.newUser(t)
		s.post(t, "recover/", params{"login": u.login, "email": other.email}).want(t, "")
		s.post(t, "recover/", params{"login": last.login, "email": strings.ToUpper(last.email)}).want(t, "")
		s.mailTo(t, last.email)
		if n := len(s.mailsTo(t, u.email)) + len(s.mailsTo(t, other.email)); n != 0 {
			t.Errorf("%d mails went out", n)
		}
	})
	t.Run("one mail a minute", func(t *testing.T) {
		u, last := s.newUser(t), s.newUser(t)
		for range 5 {
			s.post(t, "recover/", params{"login": u.login}).want(t, "")
		}
		s.mailTo(t, u.email)
		s.post(t, "recover/", params{"email": u.email}).want(t, "")
		s.post(t, "recover/", params{"login": last.login}).want(t, "")
		s.mailTo(t, last.email) // jobs are done in order
		if n := len(s.mailsTo(t, u.email)); n != 1 {
			t.Errorf("%d mails went out", n)
		}
	})
	t.Run("recover_confirm sets the password once", func(t *testing.T) { testRecoverConfirm(t, s) })
	t.Run("recover_confirm judges its parameters before the token", func(t *testing.T) {
		s.post(t, "recover_confirm/", params{}).wantFaults(t, "validation_failed",
			faults{"token": "required", "password": "required", "confirm_password": "required"})
		s.post(t, "recover_confirm/", confirm("nonsense", "short")).wantFaults(t, "validation_failed", faults{"password": "too_short"})
		p := confirm("nonsense", recovered)
		p["confirm_password"] = "x"
		s.post(t, "recover_confirm/", p).wantFaults(t, "validation_failed", faults{"confirm_password": "mismatch"})
	})
}

func testRecoveryMail(t *testing.T, s *system) {
	login := "Quirky-" + unique()
	u := applicant(params{"login": login, "email": unique() + "@mail.example", "name": "Zebra Zanzibar"})
	signed := s.post(t, "register/", u).pair(t)
	address := u["email"].(string)
	s.do(t, call{path: "recover/", params: params{"login": strings.ToLower(login)},
		header: http.Header{"Accept-Language": {"ru"}, "Host": {"evil.example"}, "X-Forwarded-Host": {"evil.example"}}}).want(t, "")
	m := s.mailTo(t, address)
	token := m.token(t)
	link := "https://site.example/recover#token=" + token
	if !strings.Contains(m.text, link) || !strings.Contains(m.html, link) {
		t.Errorf("the link is not in text and HTML:\n%s\n%s", m.text, m.html)
	}
	if !isCyrillic(m.text) || !isCyrillic(m.html) || !isCyrillic(m.subject) {
		t.Errorf("the mail is not in the caller's language: %q\n%s", m.subject, m.text)
	}
	all := strings.ToLower(m.subject + m.text + m.html + m.header.Get("From") + m.header.Get("Reply-To"))
	for _, text := range []string{login, "zebra", "evil.example"} {
		if strings.Contains(all, strings.ToLower(text)) {
			t.Errorf("the mail repeats %q, which somebody sent", text)
		}
	}
	if m.header.Get("Message-Id") == "" || m.header.Get("Date") == "" || m.header.Get("From") == "" {
		t.Errorf("headers are missing: %v", m.header)
	}
	s.wantAlive(t, "a session, while recovery is not confirmed,", signed)
	s.post(t, "auth/", params{"login": login, "password": u["password"]}).want(t, "")
}

func testRecoverConfirm(t *testing.T, s *system) {
	u := s.newUser(t)
	other := s.signIn(t, u)
	otherNext := s.getAs(t, other, "auth_refresh/").pair(t)
	s.post(t, "recover/", params{"email": u.email}).want(t, "")
	token := s.mailTo(t, u.email).token(t)
	for _, weak := range []string{"short", "password1", u.login, u.email} {
		if a := s.post(t, "recover_confirm/", confirm(token, weak)); a.Success == 1 {
			t.Fatalf("the password %q was accepted", weak)
		}
	}
	unknown := s.post(t, "recover_confirm/", confirm(flip(token, 0), recovered)).want(t, "invalid_token")
	s.wantAlive(t, "a session, while recovery is not confirmed,", u.pair)

	s.post(t, "recover_confirm/", confirm(token, recovered)).wantData(t)
	for what, p := range map[string]pair{"the first session": u.pair, "another session": otherNext, "an earlier hash": other} {
		s.wantDead(t, what+" after recovery", p)
		s.getAs(t, p, "auth_refresh/").want(t, "unauthenticated")
	}
	s.post(t, "auth/", params{"login": u.login, "password": u.password}).want(t, "invalid_credentials")
	s.post(t, "auth/", params{"login": u.login, "password": recovered}).want(t, "")
	for _, bad := range []string{token, "nonsense", strings.Repeat("x", 5000)} {
		if a := s.post(t, "recover_confirm/", confirm(bad, recovered+"x")).want(t, "invalid_token"); string(a.Raw) != string(unknown.Raw) {
			t.Errorf("a used or odd token answers %s, an unknown one %s", a.Raw, unknown.Raw)
		}
	}
	eventually(t, "the recovery's event", func() bool { return s.events(t, "recovered", u.ID) > 0 })
	if s.events(t, "session_theft", u.ID) != 0 {
		t.Error("a hash shown after recovery raised an alarm")
	}
}
