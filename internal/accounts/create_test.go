package accounts_test

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

// invite creates and invites a user as an administrator whose language is English.
func (f *fixture) invite(t *testing.T, login, locale string) (id int64) {
	t.Helper()
	ctx := personal.WithCall(t.Context(), personal.Call{Locale: "en", Administrator: "root"})
	id, err := f.service.CreateUser(ctx, personal.CreateUserRequest{Login: login, Email: login + "@example.com", Invite: true, Locale: locale})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestCreateUser_InvitationIsAcceptedOnce(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		id := f.invite(t, "ada", "ru-RU")
		f.wantState(t, id, "ada@example.com", false, "")
		f.drain(t)
		invitation := f.tokens()[0]
		wantMail(t, f, f.host.Mails()[0], "ada@example.com", mailtext.Invitation, "ru", mailtext.Letter{
			Token: invitation, Link: "https://cms.example/recover#token=" + invitation, Lifetime: 7 * 24 * time.Hour,
		})
		f.clock.Advance(7*24*time.Hour - time.Second)
		wantCode(t, f.confirm(t, invitation), "")
		wantCode(t, f.confirm(t, invitation), personal.CodeInvalidToken)
		f.wantState(t, id, "ada@example.com", true, "")
		_, err := f.signIn("ada", otherPassword)
		wantCode(t, err, "")

		f.drain(t)
		f.wantRecipients(t, "ada@example.com") // no notice of a first password
		f.clock.Advance(time.Minute)
		f.recoverNow(t, personal.RecoverRequest{Login: "ada"})
		wantCode(t, f.confirm(t, f.tokens()[1]), "")
		want := []personal.EventType{
			personal.EventUserCreated, personal.EventUserInvited, personal.EventRecovered, personal.EventEmailVerified,
			personal.EventSignedIn, personal.EventRecoveryRequested, personal.EventRecovered,
		}
		if diff := cmp.Diff(want, f.published(t, id)); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		f.wantRecipients(t, "ada@example.com", "ada@example.com", "ada@example.com") // the recovery and its notice
		for _, e := range f.host.Events()[:2] {
			if e.Actor != personal.ActorAdministrator || e.ActorName != "root" {
				t.Errorf("got %s by %s %q, want it by the administrator root", e.Type, e.Actor, e.ActorName)
			}
		}
	})
}

func TestCreateUser_InvitationExpires(t *testing.T) {
	f := newFixture(t, testdb.SQLite(t))
	f.invite(t, "ada", "")
	f.drain(t)
	f.clock.Advance(f.settings.InvitationLifetime)
	wantCode(t, f.confirm(t, f.tokens()[0]), personal.CodeInvalidToken)
}

// The job of the mail runs after the change.
func TestCreateUser_InvitationToAChangedAccountIsNotSent(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *fixture, int64){
		"disabled": func(t *testing.T, f *fixture, id int64) { f.disable(t, id) },
		"disabled and enabled": func(t *testing.T, f *fixture, id int64) {
			f.disable(t, id)
			f.enable(t, id)
		},
		"another e-mail": func(t *testing.T, f *fixture, id int64) { f.setEmail(t, id, "ada@example.org") },
		"no e-mail":      func(t *testing.T, f *fixture, id int64) { f.setEmail(t, id, "") },
		"deleted":        func(t *testing.T, f *fixture, id int64) { f.delete(t, id) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, testdb.SQLite(t), func(s *accounts.Settings) { s.Notices = false })
			change(t, f, f.invite(t, "ada", ""))
			f.drain(t)
			if mails := f.host.Mails(); len(mails) > 0 {
				t.Errorf("got %d mails, want none", len(mails))
			}
		})
	}
}

func TestCreateUser_AcceptedInvitationKeepsTheSecondFactor(t *testing.T) {
	f := newFixture(t, testdb.SQLite(t))
	id := f.invite(t, "ada", "")
	f.drain(t)
	f.exec(t, "UPDATE personal_accounts SET two_factor_secret = X'01', two_factor_key = 'key'") // as an import does
	before := f.account(t, id).TwoFactor
	wantCode(t, f.confirm(t, f.tokens()[0]), "")
	if diff := cmp.Diff(before, f.account(t, id).TwoFactor); diff != "" || !before.On() {
		t.Errorf("the second factor was changed (-before +got):\n%s", diff)
	}
}

func TestCreateUser_StoresWhatWasSent(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := newFixture(t, url, func(s *accounts.Settings) { s.ReservedLogins = []string{"admin"} })
		name := "Ада"
		id, err := f.service.CreateUser(personal.WithCall(t.Context(), personal.Call{Locale: "lv"}), personal.CreateUserRequest{
			Login: "Admin", Email: "Ada@Example.com", Fields: map[string]personal.Input{"name": personal.Text(name)},
		})
		if err != nil {
			t.Fatal(err)
		}
		want := accounts.Account{
			ID: id, Login: "Admin", LoginKey: "admin", Name: &name, Email: accounts.Email{Address: "Ada@Example.com", Key: "ada@example.com"},
			PasswordHash: password.Unusable, CredentialVersion: 1, Fields: userfields.Values{}, Locale: "lv",
			Created: f.clock.Now(), Updated: f.clock.Now(),
		}
		if diff := cmp.Diff(want, f.account(t, id)); diff != "" {
			t.Errorf("account (-want +got):\n%s", diff)
		}
		f.drain(t)
		f.wantNoJobs(t)
		if mails := f.host.Mails(); len(mails) > 0 {
			t.Errorf("got %d mails without an invitation, want none", len(mails))
		}
	})
}

func TestCreateUser_LocaleIsATag(t *testing.T) {
	f := newFixture(t, testdb.SQLite(t))
	for locale, valid := range map[string]bool{
		"de-CH": true, "zh-Hant": true, "en,de": false, "de;q=0.5": false, " ": false, "*": false, "x\r\ny": false, "german": false,
		"de-x-" + "abcdefgh-abcdefgh-abcdefgh-abcdefgh-abcdefgh-abcdefgh-abcdefgh": false,
	} {
		_, err := f.service.CreateUser(t.Context(), personal.CreateUserRequest{Login: "a b", Locale: locale})
		_, refused := fieldErrors(err)["locale"]
		if refused == valid {
			t.Errorf("%q: got refused %t, want %t", locale, refused, !valid)
		}
	}
}

// Commands have no host.
func TestCreateUser_WithoutAHostThereAreNoUserFields(t *testing.T) {
	f := newFixture(t, testdb.SQLite(t))
	service := accounts.New(f.settings, f.store, nil, nil, slog.New(slog.DiscardHandler), func() {})
	_, err := service.CreateUser(t.Context(), personal.CreateUserRequest{Login: "ada", Fields: map[string]personal.Input{
		"name": personal.Text("\n"), "city": personal.Text("riga"),
	}})
	want := personal.FieldErrors{"name": personal.FieldErrorInvalidFormat, "city": personal.FieldErrorUnknownField}
	if diff := cmp.Diff(want, fieldErrors(err)); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	id, err := service.CreateUser(t.Context(), personal.CreateUserRequest{
		Login: "ada", Email: "ada@example.com", Invite: true, Fields: map[string]personal.Input{"name": personal.Text("Ada")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if a := f.account(t, id); a.Name == nil || *a.Name != "Ada" || len(a.Fields) > 0 {
		t.Errorf("got %+v, want the name and no fields", a)
	}
	f.drain(t) // in the plugin
	f.wantRecipients(t, "ada@example.com")
}

func TestRevokeUserSession_EndsOneAndIsReportedOnce(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		kept := f.register(t, "ada").Credentials
		other := f.register(t, "bob").Credentials
		f.signInFrom(t, "ada", goodPassword, "192.0.2.7", "en")
		sessions, err := f.service.UserSessions(t.Context(), kept.UserID)
		if err != nil || len(sessions) != 2 {
			t.Fatalf("got %d sessions, %v, want 2", len(sessions), err)
		}
		for _, r := range []personal.RevokeUserSessionRequest{
			{UserID: other.UserID, ID: sessions[0].ID}, {UserID: kept.UserID, ID: "x"}, {UserID: kept.UserID, ID: "4711"},
			{UserID: kept.UserID, ID: "0" + sessions[1].ID}, // not as it is listed
			{UserID: kept.UserID, ID: sessions[0].ID}, {UserID: kept.UserID, ID: sessions[0].ID},
		} {
			if err := f.service.RevokeUserSession(t.Context(), r); err != nil {
				t.Errorf("%v: got %v, want success", r, err)
			}
		}
		left, err := f.service.UserSessions(t.Context(), kept.UserID)
		if err != nil || len(left) != 1 || left[0].ID != sessions[1].ID {
			t.Errorf("got the sessions %v, %v, want the other one alone", left, err)
		}
		for id, want := range map[int64]int{kept.UserID: 1, other.UserID: 0} {
			got := slices.DeleteFunc(f.published(t, id), func(e personal.EventType) bool { return e != personal.EventUserSignedOut })
			if len(got) != want {
				t.Errorf("user %d: got %d events %s, want %d", id, len(got), personal.EventUserSignedOut, want)
			}
		}
	})
}
