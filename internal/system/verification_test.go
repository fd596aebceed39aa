package system

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit/testdb"
)

// execute changes rows in the database behind the plugin's back, and returns how many.
// Values in the statement are of our own making.
func execute(t testing.TB, database, statement string) int64 {
	t.Helper()
	pools, err := dbconn.Open(database, dbconn.RequestLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer pools.Close()
	done, err := pools.Write.ExecContext(context.Background(), statement)
	if err != nil {
		t.Fatal(err)
	}
	n, err := done.RowsAffected()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// forgetMails takes mails off all limits but that of recoveries of an account.
func (s *system) forgetMails(t testing.TB) {
	t.Helper()
	execute(t, s.database, "UPDATE personal_sent_mails SET created = created - 86400000000")
}

// awaitJobs waits until no job is left.
func (s *system) awaitJobs(t testing.TB) {
	t.Helper()
	pools, err := dbconn.Open(s.database, dbconn.RequestLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer pools.Close()
	eventually(t, "no mail or event waits", func() bool {
		var n int
		if err := pools.Read.QueryRowContext(context.Background(), "SELECT count(*) FROM personal_jobs").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n == 0
	})
}

// wantAlike checks that responses differ only in the time and the request id.
func wantAlike(t testing.TB, responses ...*response) {
	t.Helper()
	form := func(r *response) string {
		header := r.Header.Clone()
		header.Del("Date")
		header.Del("X-Request-Id")
		return fmt.Sprintf("%d %v %s", r.Status, header, r.Raw)
	}
	for _, r := range responses[1:] {
		if diff := cmp.Diff(form(responses[0]), form(r)); diff != "" {
			t.Errorf("responses differ (-first +other):\n%s", diff)
		}
	}
}

// wantVerified checks email_verified in the user's profile.
func (s *system) wantVerified(t testing.TB, p pair, want bool) {
	t.Helper()
	var got bool
	s.getAs(t, p, "profile/").wantData(t, "user_profile", "email_verified", "two_factor", "has_password").read(t, "email_verified", &got)
	if got != want {
		t.Fatalf("got email_verified %t, want %t", got, want)
	}
}

// confirmEmail confirms an address with the token of a mail.
func (s *system) confirmEmail(t testing.TB, m message) {
	t.Helper()
	s.post(t, "email_confirm/", params{"token": m.token(t)}).wantData(t)
}

// confirmWaiting confirms the address of an account that waits for it.
func (s *system) confirmWaiting(t testing.TB, m message, login string) *response {
	t.Helper()
	return s.post(t, "email_confirm/", params{"token": m.token(t), "login": login})
}

// enter signs a user in on the pages and returns the cookie.
func (s *system) enter(t testing.TB, u user) string {
	t.Helper()
	got, body := s.submit(t, "/account/sign-in", url.Values{"login": {u.login}, "password": {u.password}}, "")
	i := slices.IndexFunc(got.Cookies(), func(c *http.Cookie) bool { return c.Name == "account" })
	if got.StatusCode != http.StatusSeeOther || i < 0 {
		t.Fatalf("signing in: got %d %s", got.StatusCode, body)
	}
	return "account=" + got.Cookies()[i].Value
}

// testVerification has users confirm their address where that is optional, which is the
// default.
func testVerification(t *testing.T, s *system) {
	t.Run("mailed token confirms the address", func(t *testing.T) {
		u := s.newUser(t)
		cookie := s.enter(t, u)
		wantPage := func(status int) {
			t.Helper()
			if got, body := s.web(t, http.MethodGet, "/demo/verified", "", "Cookie", cookie); got.StatusCode != status {
				t.Errorf("the page for users with a verified e-mail: got %d %s, want %d", got.StatusCode, body, status)
			}
		}
		s.wantVerified(t, u.pair, false)
		wantPage(http.StatusForbidden)
		m := s.mailTo(t, mailtext.Verification, u.email)
		m.wantLink(t, "https://site.example/verify#token="+m.token(t))
		s.confirmEmail(t, m)
		s.wantVerified(t, u.pair, true)
		wantPage(http.StatusOK)
		var verified bool
		if s.post(t, "auth/", params{"login": u.login, "password": u.password}).read(t, "email_verified", &verified); !verified {
			t.Error("auth/: got email_verified false, want true")
		}
		s.post(t, "email_confirm/", params{"token": m.token(t)}).want(t, "invalid_token")
		eventually(t, "the event is published", func() bool { return s.events(t, "email_verified", u.ID) == 1 })
	})
	t.Run("completed recovery confirms the address", func(t *testing.T) {
		u := s.newUser(t)
		s.post(t, "recover/", params{"login": u.login}).want(t, "")
		s.post(t, "recover_confirm/", confirm(s.mailTo(t, mailtext.Recovery, u.email).token(t), recovered)).want(t, "")
		s.wantVerified(t, s.post(t, "auth/", params{"login": u.login, "password": recovered}).pair(t), true)
	})
	t.Run("change of the address confirms the new one", func(t *testing.T) {
		u := s.newUser(t)
		old := s.mailTo(t, mailtext.Verification, u.email).token(t)
		s.postAs(t, u.pair, "email/", params{"password": u.password, "email": "new-" + u.email}).want(t, "")
		s.wantVerified(t, u.pair, false)
		s.confirmEmail(t, s.mailTo(t, mailtext.EmailChange, "new-"+u.email))
		s.wantVerified(t, u.pair, true)
		s.post(t, "email_confirm/", params{"token": old}).want(t, "invalid_token")
	})
	t.Run("administrator's change unconfirms the address", func(t *testing.T) {
		u := s.newUser(t)
		s.confirmEmail(t, s.mailTo(t, mailtext.Verification, u.email))
		s.adminSubmit(t, s.enterAdmin(t), fmt.Sprintf("/admin/users/%d/email", u.ID), url.Values{"email": {"new-" + u.email}})
		s.wantVerified(t, u.pair, false)
		s.confirmEmail(t, s.mailTo(t, mailtext.Verification, "new-"+u.email))
		s.wantVerified(t, u.pair, true)
		if got := s.getAs(t, u.pair, "profile/").profile(t)["email"]; got != "new-"+u.email {
			t.Errorf("got e-mail %v, want that of the administrator", got)
		}
	})
	t.Run("another mail for unconfirmed accounts only", func(t *testing.T) {
		s.post(t, "email_resend/", params{}).wantFields(t, "validation_failed", fieldErrors{"login": "required", "email": "required"})
		waiting, confirmed := s.newUser(t), s.newUser(t)
		first := s.mailTo(t, mailtext.Verification, waiting.email)
		s.confirmEmail(t, s.mailTo(t, mailtext.Verification, confirmed.email))
		s.forgetMails(t)
		wantAlike(t,
			s.post(t, "email_resend/", params{"login": unique()}).wantData(t),
			s.post(t, "email_resend/", params{"login": confirmed.login}),
			s.post(t, "email_resend/", params{"email": confirmed.email}),
			s.post(t, "email_resend/", params{"login": waiting.login, "email": confirmed.email}),
			s.post(t, "email_resend/", params{"login": waiting.login, "email": waiting.email}),
			s.post(t, "email_resend/", params{"email": waiting.email}), // suppressed: the second within a minute
		)
		s.awaitJobs(t)
		if n := len(s.mailsTo(t, mailtext.Verification, confirmed.email)); n != 1 {
			t.Errorf("got %d verification mails to a confirmed address, want only the first", n)
		}
		mails := s.mailsTo(t, mailtext.Verification, waiting.email)
		if len(mails) != 2 {
			t.Fatalf("got %d verification mails to an unconfirmed address, want 2", len(mails))
		}
		s.confirmEmail(t, mails[1])
		s.post(t, "email_confirm/", params{"token": first.token(t)}).want(t, "invalid_token") // the first success voids the others
	})
}

// required are settings under which users confirm their address before the first
// sign-in. Limits per client address do not get in the way, but for that of taken
// e-mails, and deleted accounts are erased at once.
const required = "[registration]\nemail_verification = \"required\"\nenabled = true\nurl = \"https://site.example/verify#token={token}\"\n" +
	"[deletion]\ngrace = \"1s\"\n" +
	"[throttle.register]\nburst = 1000\n[throttle.taken_email]\nburst = 1\nevery = \"1h\"\n[throttle.confirm]\nburst = 1000\n[throttle.recover]\nburst = 1000\n"

// startRequired starts a host that requires confirmed addresses.
func startRequired(t *testing.T, database string) *system {
	t.Helper()
	return start(t, options{database: database, settings: cheap + required, flags: []string{"--trusted-proxy", "127.0.0.0/8"}})
}

// registerUnconfirmed registers a user where the address must be confirmed first.
func (s *system) registerUnconfirmed(t testing.TB, changes params) (user, *response) {
	t.Helper()
	p := applicant(changes)
	r := s.post(t, "register/", p).wantData(t)
	return user{login: p["login"].(string), email: p["email"].(string), password: p["password"].(string)}, r
}

// newConfirmedUser registers a user, who then confirms the address and signs in.
func (s *system) newConfirmedUser(t testing.TB) user {
	t.Helper()
	u, _ := s.registerUnconfirmed(t, nil)
	s.confirmWaiting(t, s.mailTo(t, mailtext.Verification, u.email), u.login).wantData(t)
	u.pair = s.signIn(t, u)
	return u
}

func TestVerification_Required(t *testing.T) {
	t.Parallel()
	testdb.Database(t, func(t *testing.T, database string) {
		t.Parallel()
		s := startRequired(t, database)
		t.Run("free and taken addresses get the same response", func(t *testing.T) { testTakenAddress(t, s) })
		t.Run("unconfirmed account cannot be used", func(t *testing.T) { testUnconfirmedAccount(t, s) })
		t.Run("first confirmation gets the address", func(t *testing.T) { testManyWait(t, s) })
		t.Run("confirmation names the account", func(t *testing.T) { testStrangersWait(t, s) })
		t.Run("strangers cannot flood an address", func(t *testing.T) { testMailFlood(t, s) })
		t.Run("erasure", func(t *testing.T) { testErasure(t, s) })
	})
}

func testTakenAddress(t *testing.T, s *system) {
	owner := s.newConfirmedUser(t)
	other := s.newConfirmedUser(t)
	// The limit of taken e-mails, which this uses up, does not concern registrations.
	change := call{path: "email/", as: other.pair, header: from("192.0.2.30"),
		params: params{"password": other.password, "email": owner.email}}
	s.do(t, change).wantFields(t, "already_exists", fieldErrors{"email": "taken"})
	s.do(t, change).want(t, "too_many_attempts")
	var responses []*response
	for _, email := range []string{unique() + "@mail.example", owner.email, strings.ToUpper(owner.email)} {
		responses = append(responses, s.do(t, call{path: "register/", header: from("192.0.2.30"),
			params: applicant(params{"email": email})}).wantData(t))
	}
	wantAlike(t, responses...)
	attempt := s.mailTo(t, mailtext.RegistrationAttempt, owner.email)
	if tokenLine.MatchString(attempt.text) || !strings.Contains(attempt.text, "192.0.2.30") {
		t.Errorf("the mail to the owner of a taken address has a token, or not the client address:\n%s", attempt.text)
	}
	s.wantAlive(t, "the session of the address's owner", owner.pair)
}

func testUnconfirmedAccount(t *testing.T, s *system) {
	u, _ := s.registerUnconfirmed(t, nil)
	m := s.mailTo(t, mailtext.Verification, u.email)
	m.wantLink(t, "https://site.example/verify#token="+m.token(t))
	s.post(t, "auth/", params{"login": u.login, "password": u.password}).want(t, "email_unverified")
	s.post(t, "auth/", params{"login": u.login, "password": "wrong wrong"}).want(t, "invalid_credentials")
	s.post(t, "auth/", params{"login": u.email, "password": u.password}).want(t, "invalid_credentials")
	for _, email := range []string{unique() + "@mail.example", u.email} {
		s.post(t, "register/", applicant(params{"login": strings.ToUpper(u.login), "email": email})).wantFields(t, "already_exists",
			fieldErrors{"login": "taken"})
	}
	for _, p := range []params{{"login": u.login}, {"email": u.email}} {
		s.post(t, "recover/", p).want(t, "")
	}
	s.forgetMails(t)
	s.post(t, "email_resend/", params{"email": u.email}).want(t, "")
	s.awaitJobs(t)
	if n := len(s.mailsTo(t, mailtext.Recovery, u.email)); n != 0 {
		t.Errorf("got %d recovery mails to an unconfirmed address, want none", n)
	}
	mails := s.mailsTo(t, mailtext.Verification, u.email)
	if len(mails) != 2 {
		t.Fatalf("got %d verification mails, want the first and another one", len(mails))
	}
	s.confirmWaiting(t, mails[0], u.login).wantData(t) // a newer mail leaves it valid
	s.wantVerified(t, s.post(t, "auth/", params{"login": u.email, "password": u.password}).wantData(t, "user_id", "user_hash", "user_profile",
		"email_verified", "two_factor", "has_password", "proof", "proved_until").pair(t), true)

	disabled, _ := s.registerUnconfirmed(t, nil)
	if n := execute(t, s.database, "UPDATE personal_accounts SET disabled = (1 = 1) WHERE login = '"+disabled.login+"'"); n != 1 {
		t.Fatalf("%d accounts were disabled, want 1", n)
	}
	s.post(t, "auth/", params{"login": disabled.login, "password": disabled.password}).want(t, "account_disabled") // before email_unverified
}

func testManyWait(t *testing.T, s *system) {
	email := unique() + "@mail.example"
	var waiting []user
	for i := range 3 {
		u, _ := s.registerUnconfirmed(t, params{"email": email})
		waiting = append(waiting, u)
		s.awaitJobs(t)
		if n := len(s.mailsTo(t, mailtext.Verification, email)); n != i+1 {
			t.Fatalf("got %d verification mails after %d registrations", n, i+1)
		}
		s.forgetMails(t)
	}
	mails := s.mailsTo(t, mailtext.Verification, email)
	s.confirmWaiting(t, mails[1], waiting[1].login).wantData(t)
	for _, i := range []int{0, 2} {
		s.confirmWaiting(t, mails[i], waiting[i].login).wantFields(t, "already_exists", fieldErrors{"email": "taken"})
		s.post(t, "auth/", params{"login": waiting[i].login, "password": waiting[i].password}).want(t, "email_unverified")
	}
	s.wantVerified(t, s.signIn(t, waiting[1]), true)
}

// testStrangersWait has another user register with an address, so that a token in the
// mailbox is for their account. Its owner registers too, and confirms only the account
// whose login they type, in the API and on the pages.
func testStrangersWait(t *testing.T, s *system) {
	stranger, _ := s.registerUnconfirmed(t, nil)
	m := s.mailTo(t, mailtext.Verification, stranger.email)
	owner, _ := s.registerUnconfirmed(t, params{"email": stranger.email})
	s.awaitJobs(t)
	missing, other := fieldErrors{"login": "required"}, fieldErrors{"login": "mismatch"}
	s.post(t, "email_confirm/", params{"token": "nonsense"}).want(t, "invalid_token") // comes before the login
	s.post(t, "email_confirm/", params{"token": m.token(t)}).wantFields(t, "validation_failed", missing)
	got, body := s.submit(t, "/account/email", url.Values{"token": {m.token(t)}, "login": {owner.login}}, "")
	if got.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(body, "not the login of the account") {
		t.Errorf("the page: got %d %s, want 422", got.StatusCode, body)
	}
	for range 9 {
		s.confirmWaiting(t, m, owner.login).wantFields(t, "validation_failed", other)
	}
	s.confirmWaiting(t, m, stranger.login).want(t, "invalid_token")
	s.post(t, "auth/", params{"login": stranger.login, "password": stranger.password}).want(t, "email_unverified")

	s.forgetMails(t)
	s.post(t, "email_resend/", params{"login": owner.login}).want(t, "")
	s.awaitJobs(t)
	mails := s.mailsTo(t, mailtext.Verification, stranger.email)
	s.confirmWaiting(t, mails[len(mails)-1], strings.ToUpper(owner.login)).wantData(t)
	s.wantVerified(t, s.signIn(t, owner), true)
}

// testMailFlood tries to flood one mailbox by every operation that causes mails, from one
// network.
func testMailFlood(t *testing.T, s *system) {
	owner, stranger := s.newConfirmedUser(t), s.newConfirmedUser(t)
	local, domain, _ := strings.Cut(owner.email, "@")
	tagged := func() string { return local + "+" + unique() + "@" + domain }
	var registered, changed, resent, recoveries []*response
	for range 12 {
		u, r := s.registerUnconfirmed(t, params{"email": owner.email})
		another, other := s.registerUnconfirmed(t, params{"email": tagged()})
		registered = append(registered, r, other)
		resent = append(resent, s.post(t, "email_resend/", params{"login": u.login}),
			s.post(t, "email_resend/", params{"login": another.login, "email": another.email}))
		changed = append(changed, s.postAs(t, stranger.pair, "email/", params{"password": stranger.password, "email": tagged()}))
		recoveries = append(recoveries, s.post(t, "recover/", params{"email": owner.email}))
	}
	for _, responses := range [][]*response{registered, changed, resent, recoveries} {
		wantAlike(t, responses...)
	}
	s.awaitJobs(t)
	got := map[mailtext.Kind]int{}
	for _, m := range s.mails(t) {
		if mailbox, _, _ := strings.Cut(m.to, "@"); mailbox == local || strings.HasPrefix(mailbox, local+"+") {
			got[m.kind]++
		}
	}
	strangers := got[mailtext.Verification] + got[mailtext.RegistrationAttempt] + got[mailtext.EmailChange]
	if strangers != 2 || got[mailtext.Recovery] != 2 {
		t.Errorf("got mails %v, want two recoveries, and two others, of which one is that of the owner's registration", got)
	}
	s.post(t, "recover_confirm/", confirm(s.mailTo(t, mailtext.Recovery, owner.email).token(t), recovered)).want(t, "")
}

// testVerificationOff registers where no address is confirmed.
func testVerificationOff(t *testing.T, s *system) {
	u := s.newUser(t)
	s.wantVerified(t, u.pair, false)
	s.do(t, call{path: "email_resend/", header: from("192.0.2.20"), params: params{"login": u.login}}).want(t, "")
	s.adminSubmit(t, s.enterAdmin(t), fmt.Sprintf("/admin/users/%d/email", u.ID), url.Values{"email": {"new-" + u.email}})
	s.awaitJobs(t)
	if n := len(s.mailsTo(t, mailtext.Verification, u.email)) + len(s.mailsTo(t, mailtext.Verification, "new-"+u.email)); n != 0 {
		t.Errorf("got %d verification mails, want none", n)
	}
	s.do(t, call{path: "recover/", header: from("192.0.2.20"), params: params{"login": u.login}}).want(t, "")
	s.post(t, "recover_confirm/", confirm(s.mailTo(t, mailtext.Recovery, "new-"+u.email).token(t), recovered)).want(t, "")
	s.wantVerified(t, s.post(t, "auth/", params{"login": u.login, "password": recovered}).pair(t), true)
}

// testNotices reads what users get when something happens to their account. Nothing that
// a user has typed is in any mail.
func testNotices(t *testing.T, s *system) {
	const login, name, agent, home, away = "Quirky", "Zebra Zanzibar", "OddAgent", "192.0.2.77", "198.51.100.7"
	russian := func(address string) http.Header {
		return http.Header{"Accept-Language": {"ru"}, "User-Agent": {agent}, "X-Forwarded-For": {address}}
	}
	u := applicant(params{"login": login + unique(), "name": name})
	u["email"] = strings.ToLower(unique()) + "@mail.example"
	email := u["email"].(string)
	p := s.do(t, call{path: "register/", params: u, header: russian(home)}).pair(t)
	in := func(address, password string) pair {
		t.Helper()
		return s.do(t, call{path: "auth/", params: params{"login": u["login"], "password": password}, header: russian(address)}).pair(t)
	}
	in(home, u["password"].(string))
	in(away, u["password"].(string))
	in(away, u["password"].(string))
	next := "changed horse 5"
	p = s.do(t, call{path: "password/", as: p, header: from(home),
		params: params{"old_password": u["password"], "password": next, "confirm_password": next}}).pair(t)
	s.do(t, call{path: "recover/", header: from(home), params: params{"login": u["login"]}}).want(t, "")
	token := s.mailTo(t, mailtext.Recovery, email).token(t)
	s.do(t, call{path: "recover_confirm/", header: from(home), params: confirm(token, recovered)}).want(t, "")
	s.getAs(t, p, "profile/").want(t, "unauthenticated")
	p = in(home, recovered)
	s.do(t, call{path: "email/", as: p, header: from(home), params: params{"password": recovered, "email": "new-" + email}}).want(t, "")
	s.do(t, call{path: "email_confirm/", header: from(home), params: params{"token": s.mailTo(t, mailtext.EmailChange,
		"new-"+email).token(t)}}).want(t, "")
	s.awaitJobs(t)
	for kind, address := range map[mailtext.Kind]string{
		mailtext.PasswordChanged: home, mailtext.Recovered: home, mailtext.EmailChanged: home, mailtext.NewAddress: away,
	} {
		mails := s.mailsTo(t, kind, email)
		if kind == mailtext.NewAddress { // one is of the sign-in after the recovery
			mails = slices.DeleteFunc(mails, func(m message) bool { return strings.Contains(m.text, home) })
		}
		if len(mails) != 1 {
			t.Errorf("got %d mails %s, want 1", len(mails), kind)
			continue
		}
		m := mails[0]
		if !isCyrillic(m.text) || !isCyrillic(m.html) || !isCyrillic(m.subject) {
			t.Errorf("the mail %s is not in the account's language: %q\n%s", kind, m.subject, m.text)
		}
		if !strings.Contains(m.text, address) || !strings.Contains(m.text, "UTC") || tokenLine.MatchString(m.text) {
			t.Errorf("the mail %s is without time or client address, or has a token:\n%s", kind, m.text)
		}
	}
	for _, m := range s.mails(t) {
		for _, text := range []string{login, name, agent} {
			if m.to != "new-"+email && m.to != email {
				continue
			}
			if slices.ContainsFunc([]string{m.subject, m.text, m.html}, func(part string) bool {
				return strings.Contains(strings.ToLower(part), strings.ToLower(text))
			}) {
				t.Errorf("the mail %s repeats %q, which the user typed:\n%s", m.kind, text, m.text)
			}
		}
	}
}

// testNoticesOff has a site send only the mails that bring a token.
func testNoticesOff(t *testing.T, s *system) {
	u := s.newUser(t)
	change := params{"old_password": u.password, "password": recovered, "confirm_password": recovered}
	u.pair, u.password = s.do(t, call{path: "password/", as: u.pair, header: from("192.0.2.22"), params: change}).pair(t), recovered
	s.delete(t, u)
	s.awaitJobs(t)
	if n := len(s.mailsTo(t, mailtext.PasswordChanged, u.email)); n != 0 {
		t.Errorf("got %d mails about a changed password, want none", n)
	}
}
