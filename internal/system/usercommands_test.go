package system

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/testkit"
)

// command runs a command of the plugin on the database of the system, without input.
func (s *system) command(t testing.TB, args ...string) (output string, err error) {
	t.Helper()
	return s.commandWith(t, "", args...)
}

// commandWith runs a command of the plugin with this standard input.
func (s *system) commandWith(t testing.TB, input string, args ...string) (output string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testkit.Binaries(t).Plugin, args...)
	cmd.Env = append(os.Environ(), "PERSONAL_DATABASE="+s.database)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// created matches what `user create` prints.
var created = regexp.MustCompile(`^Account (\d+) \("[^"]+"\) is created\. `)

// testUserCommands helps users at the command line while the host serves them.
func testUserCommands(t *testing.T, s *system) {
	var printed strings.Builder // by all commands
	run := func(t *testing.T, want string, args ...string) string {
		t.Helper()
		out, err := s.command(t, append([]string{"user"}, args...)...)
		printed.WriteString(out)
		if err != nil || !strings.Contains(out, want) {
			t.Fatalf("user %q: %v\n%s, want: %s", args, err, out, want)
		}
		return out
	}
	refused := func(t *testing.T, input, want string, args ...string) {
		t.Helper()
		out, err := s.commandWith(t, input, append([]string{"user"}, args...)...)
		printed.WriteString(out)
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(out, want) {
			t.Fatalf("user %q: %v\n%s, want exit code 1 and: %s", args, err, out, want)
		}
	}
	u := user{login: unique(), password: "correct horse 7"}
	u.email = u.login + "@mail.example"
	auth := func(t *testing.T) *response {
		t.Helper()
		return s.post(t, "auth/", params{"login": u.login, "password": u.password})
	}

	t.Run("an invited user chooses a password", func(t *testing.T) {
		out := run(t, "They get a mail to choose a password.", "create", u.login, "--email", u.email, "--name", "Анна", "--invite", "--locale",
			"ru")
		id, err := strconv.ParseInt(created.FindStringSubmatch(out)[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		u.ID = id
		m := s.mailTo(t, mailtext.Invitation, u.email)
		if !strings.Contains(m.text, "код действительны 7 дн.") {
			t.Errorf("got the mail %s, want it in Russian and for 7 days", m.text)
		}
		run(t, "The account has no usable password, so none is accepted.", "explain", u.login)
		for _, password := range []string{"!", u.password} { // "!" is what the database has in place of a hash
			s.post(t, "auth/", params{"login": u.login, "password": password}).want(t, "invalid_credentials")
		}
		s.post(t, "recover_confirm/", confirm(m.token(t), u.password)).want(t, "")
		s.post(t, "recover_confirm/", confirm(m.token(t), u.password)).want(t, "invalid_token")
		u.pair = auth(t).pair(t)
		s.wantVerified(t, u.pair, true)
		if name := s.getAs(t, u.pair, "profile/").profile(t)["name"]; name != "Анна" {
			t.Errorf("got the name %v, want Анна", name)
		}
		s.awaitJobs(t)
		for _, kind := range []string{"user_created", "user_invited", "recovered", "email_verified"} {
			if n := s.events(t, kind, u.ID); n != 1 {
				t.Errorf("got %d events %s, want 1", n, kind)
			}
		}
		if notices := s.mailsTo(t, mailtext.Recovered, u.email); len(notices) > 0 {
			t.Errorf("got %d notices of a recovery, want none for a first password", len(notices))
		}
		run(t, "Nothing prevents the user from signing in.", "explain", u.email)
		refused(t, "", "login: another account has it", "create", u.login)
	})
	t.Run("a recovery ends sessions when its mail is used", func(t *testing.T) {
		run(t, "gets a recovery mail", "recover", u.email)
		m := s.mailTo(t, mailtext.Recovery, u.email)
		s.wantAlive(t, "a session before the recovery", u.pair)
		u.password = "another horse 8"
		s.post(t, "recover_confirm/", confirm(m.token(t), u.password)).want(t, "")
		s.wantDead(t, "a session of the former password", u.pair)
		u.pair = auth(t).pair(t)
	})
	t.Run("sessions end", func(t *testing.T) {
		run(t, "is signed out everywhere; sessions that ended: 1.", "sign-out", u.login)
		s.wantDead(t, "a session", u.pair)
		run(t, "has no sessions. Nothing was changed.", "sign-out", u.login)
		eventually(t, "the event is published", func() bool { return s.events(t, "user_signed_out", u.ID) == 1 })
	})
	t.Run("a disabled user cannot sign in until they are enabled", func(t *testing.T) {
		run(t, "is disabled, and all its sessions have ended", "disable", u.login)
		auth(t).want(t, "account_disabled")
		run(t, "- An administrator has disabled the account.\n  personal user enable ", "explain", u.login)
		refused(t, "", "enable it first", "recover", u.login)
		run(t, u.login, "list", "--search", u.login, "--state", "disabled")
		run(t, "is enabled", "enable", u.login)
		u.pair = auth(t).pair(t)
	})
	t.Run("a deletion needs the login or --yes, and erases", func(t *testing.T) {
		other := s.newUser(t)
		refused(t, "", "nothing was deleted", "delete", u.login)
		refused(t, "yes\n", "nothing was deleted", "delete", u.login)
		s.wantAlive(t, "the user who was not deleted", u.pair)
		run(t, "is deleted", "delete", u.login, "--yes")
		s.wantErased(t, u)
		if out, err := s.commandWith(t, other.login+"\n", "user", "delete", other.email); err != nil {
			t.Fatalf("with the login as the answer: %v\n%s", err, out)
		}
		s.wantErased(t, other)
	})
	t.Run("an unknown login", func(t *testing.T) {
		unknown := unique()
		refused(t, "", "- No account has this login, e-mail or id.", "explain", unknown)
		for _, verb := range []string{"show", "disable", "enable", "sign-out", "recover", "delete"} {
			refused(t, "", `there is no account with the login, e-mail or id "`+unknown+`"`, verb, unknown)
		}
	})
	if secret := regexp.MustCompile(`[A-Za-z0-9_-]{43}|\$argon2`).FindString(printed.String()); secret != "" {
		t.Errorf("a command printed %s:\n%s", secret, printed.String())
	}
}
