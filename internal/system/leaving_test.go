package system

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/mail"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhost"
	"github.com/cms-personal/personal/shared/personalhost/fieldstore"
	"github.com/cms-personal/personal/shared/personalhost/mailer"
)

// testExport reads what is kept about a user.
func testExport(t *testing.T, s *system) {
	other := s.newUser(t)
	p := applicant(params{"name": "Анна", "age": 42, "interests": []string{"go"}})
	u := s.post(t, "register/", p).pair(t)
	password := p["password"].(string)
	second := s.post(t, "auth/", params{"login": p["login"], "password": password}).pair(t)
	s.postAs(t, pair{}, "export/", params{"password": password}).want(t, "unauthenticated")
	s.postAs(t, u, "export/", params{}).wantFields(t, "validation_failed", fieldErrors{"password": "required"})
	s.postAs(t, u, "export/", params{"password": "wrong wrong"}).wantFields(t, "validation_failed", fieldErrors{"password": "mismatch"})
	s.awaitJobs(t)

	r := s.postAs(t, u, "export/", params{"password": password}).wantData(t, "export")
	var e struct {
		UserID        int64          `json:"user_id"`
		Profile       map[string]any `json:"user_profile"`
		EmailVerified bool           `json:"email_verified"`
		Sessions      []session      `json:"sessions"`
		Known         []struct {
			Address string `json:"address"`
		} `json:"known_addresses"`
		Events []struct {
			Type, Address, Actor string
			Time                 time.Time
		} `json:"events"`
		PendingMails []json.RawMessage `json:"pending_mails"`
		Truncated    bool              `json:"truncated"`
	}
	r.read(t, "export", &e)
	if e.UserID != u.ID || e.EmailVerified || e.Truncated || len(e.Sessions) != 2 || len(e.PendingMails) != 0 {
		t.Errorf("got %s, want the user, with 2 sessions and no waiting mail", r.Raw)
	}
	if diff := cmp.Diff(s.getAs(t, u, "profile/").profile(t), e.Profile); diff != "" {
		t.Errorf("the profile differs (-profile/ +export/):\n%s", diff)
	}
	if len(e.Known) != 1 || e.Known[0].Address != "127.0.0.1" {
		t.Errorf("got known addresses %v, want 127.0.0.1", e.Known)
	}
	var types []string
	for i, event := range e.Events {
		if types = append(types, event.Type); i > 0 && event.Time.After(e.Events[i-1].Time) {
			t.Errorf("event %d is newer than its predecessor: %s", i, r.Raw)
		}
	}
	for _, want := range []string{"registered", "signed_in", "sign_in_failed"} {
		if !slices.Contains(types, want) {
			t.Errorf("got events %q, want %s among them", types, want)
		}
	}
	for what, text := range map[string]string{"a hash": u.Hash, "another hash": second.Hash, "the password": password,
		"another user": other.login, "a digest": "argon2"} {
		if strings.Contains(string(r.Raw), text) {
			t.Errorf("the export has %s: %s", what, r.Raw)
		}
	}
	eventually(t, "the event is published", func() bool { return s.events(t, "exported", u.ID) == 1 })
	s.wantAlive(t, "the session", u)
}

// testExportLimit exports until the day's limit.
func testExportLimit(t *testing.T, s *system) {
	u := s.newUser(t)
	export := call{path: "export/", as: u.pair, header: from("192.0.2.21"), params: params{"password": u.password}}
	wrong := export
	wrong.params = params{"password": "wrong wrong"}
	s.do(t, wrong).want(t, "validation_failed")
	if n := s.guess(t, export, ""); n != 3 {
		t.Errorf("got %d exports, want 3", n)
	}
	s.do(t, wrong).want(t, "too_many_attempts") // before 422
	other := s.newUser(t)
	s.do(t, call{path: "export/", as: other.pair, header: from("192.0.2.21"), params: params{"password": other.password}}).want(t, "")
}

// delete deletes the account of a user, and returns the mail about it.
func (s *system) delete(t testing.TB, u user) message {
	t.Helper()
	s.postAs(t, u.pair, "delete/", params{"password": u.password}).wantData(t, "erase_at")
	return s.mailTo(t, mailtext.Deletion, u.email)
}

// testDeletion deletes accounts that wait for a week before they are erased. In the end
// that week is over.
func testDeletion(t *testing.T, s *system) {
	signIn := func(u user) *response {
		t.Helper()
		return s.post(t, "auth/", params{"login": u.login, "password": u.password})
	}
	admin := s.enterAdmin(t)
	byAdmin := func(u user, action string) {
		t.Helper()
		s.adminSubmit(t, admin, fmt.Sprintf("/admin/users/%d/%s", u.ID, action), nil)
	}
	var kept, disabled, enabled user
	t.Run("account is disabled and can be kept", func(t *testing.T) {
		u := s.newUser(t)
		kept = u
		s.postAs(t, pair{}, "delete/", params{"password": u.password}).want(t, "unauthenticated")
		s.postAs(t, u.pair, "delete/", params{}).wantFields(t, "validation_failed", fieldErrors{"password": "required"})
		s.postAs(t, u.pair, "delete/", params{"password": "wrong wrong"}).wantFields(t, "validation_failed", fieldErrors{"password": "mismatch"})
		other := s.signIn(t, u)
		s.awaitJobs(t) // the mail of the registration

		var eraseAt time.Time
		s.postAs(t, u.pair, "delete/", params{"password": u.password}).wantData(t, "erase_at").read(t, "erase_at", &eraseAt)
		if week := time.Until(eraseAt); week < 167*time.Hour || week > 169*time.Hour {
			t.Errorf("got erase_at %v, want it in a week", eraseAt)
		}
		s.wantDead(t, "the session that deleted the account", u.pair)
		s.wantDead(t, "another session of a deleted account", other)
		signIn(u).want(t, "account_disabled")
		s.post(t, "auth/", params{"login": u.login, "password": "wrong wrong"}).want(t, "invalid_credentials")
		s.post(t, "register/", applicant(params{"login": u.login})).wantFields(t, "already_exists", fieldErrors{"login": "taken"})
		s.post(t, "register/", applicant(params{"email": u.email})).wantFields(t, "already_exists", fieldErrors{"email": "taken"})
		s.forgetMails(t)
		s.post(t, "recover/", params{"login": u.login}).want(t, "")
		s.post(t, "email_resend/", params{"login": u.login}).want(t, "")
		s.awaitJobs(t)
		if n := len(s.mailsTo(t, mailtext.Recovery, u.email)) + len(s.mailsTo(t, mailtext.Verification, u.email)); n != 1 {
			t.Errorf("got %d mails besides that of the deletion, want only that of the registration", n)
		}

		m := s.mailTo(t, mailtext.Deletion, u.email)
		m.wantLink(t, "https://site.example/keep#token="+m.token(t))
		s.post(t, "delete_undo/", params{}).wantFields(t, "validation_failed", fieldErrors{"token": "required"})
		s.post(t, "delete_undo/", params{"token": "nonsense"}).want(t, "invalid_token")
		s.post(t, "email_confirm/", params{"token": m.token(t)}).want(t, "invalid_token")
		s.post(t, "delete_undo/", params{"token": m.token(t)}).wantData(t)
		s.post(t, "delete_undo/", params{"token": m.token(t)}).want(t, "invalid_token")
		signIn(u).want(t, "")
		s.wantDead(t, "a session from before the deletion", other)
		eventually(t, "the events are published", func() bool {
			return s.events(t, "deletion_requested", u.ID) == 1 && s.events(t, "deletion_undone", u.ID) == 1
		})
	})
	t.Run("administrator's disabling is not lifted", func(t *testing.T) {
		disabled = s.newUser(t)
		m := s.delete(t, disabled)
		byAdmin(disabled, "disable")
		s.post(t, "delete_undo/", params{"token": m.token(t)}).want(t, "invalid_token")
		signIn(disabled).want(t, "account_disabled")
	})
	t.Run("administrator's enabling undoes the deletion", func(t *testing.T) {
		enabled = s.newUser(t)
		m := s.delete(t, enabled)
		byAdmin(enabled, "enable")
		s.post(t, "delete_undo/", params{"token": m.token(t)}).want(t, "invalid_token")
		signIn(enabled).want(t, "")
	})
	t.Run("accounts whose deletion stands are erased", func(t *testing.T) {
		left := s.newUser(t)
		s.delete(t, left)
		execute(t, s.database, "UPDATE personal_accounts SET erase_at = 1 WHERE erase_at > 0")
		s.wantErased(t, disabled)
		s.wantErased(t, left)
		kept.pair, enabled.pair = signIn(kept).pair(t), signIn(enabled).pair(t)
		s.wantAlive(t, "the account whose user undid its deletion", kept.pair)
		s.wantAlive(t, "the account that an administrator enabled", enabled.pair)
	})
}

// wantErased waits until an account is erased, and checks that its login and e-mail are
// free.
func (s *system) wantErased(t testing.TB, u user) {
	t.Helper()
	eventually(t, "the account is erased", func() bool {
		return s.post(t, "auth/", params{"login": u.login, "password": u.password}).Result.Code == "invalid_credentials"
	})
	eventually(t, "the event is published", func() bool { return s.events(t, "user_deleted", u.ID) == 1 })
	s.post(t, "register/", applicant(params{"login": u.login, "email": u.email})).want(t, "")
}

// testErasure has accounts erased by the plugin: one that its user deleted, and one whose
// address was not confirmed in time.
func testErasure(t *testing.T, s *system) {
	deleted := s.newConfirmedUser(t)
	began := time.Now()
	var eraseAt time.Time
	s.postAs(t, deleted.pair, "delete/", params{"password": deleted.password}).read(t, "erase_at", &eraseAt)
	if grace := eraseAt.Sub(began); grace < 0 || grace > time.Minute {
		t.Errorf("got erase_at %v after the deletion, want about a second", grace)
	}
	kept := s.newConfirmedUser(t)
	waiting, _ := s.registerUnconfirmed(t, nil)
	m := s.mailTo(t, mailtext.Verification, waiting.email)
	if n := execute(t, s.database, "UPDATE personal_accounts SET created = 1 WHERE login IN ('"+waiting.login+"', '"+kept.login+"')"); n != 2 {
		t.Fatalf("%d accounts were made old, want 2", n)
	}
	s.wantErased(t, deleted)
	eventually(t, "the unconfirmed account is erased", func() bool {
		return s.post(t, "auth/", params{"login": waiting.login, "password": waiting.password}).Result.Code == "invalid_credentials"
	})
	s.post(t, "email_confirm/", params{"token": m.token(t)}).want(t, "invalid_token")
	s.wantAlive(t, "a confirmed account of the same age", kept.pair)
}

// forgetfulHost is the host of a CMS that keeps data about users. It fails to erase it at
// first.
type forgetfulHost struct {
	*personalhost.Host
	mu    sync.Mutex
	asked []int64
}

func (h *forgetfulHost) EraseUser(_ context.Context, userID int64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.asked = append(h.asked, userID); len(h.asked) == 1 {
		return errors.New("not yet")
	}
	return nil
}

func (h *forgetfulHost) calls() []int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.asked)
}

// TestEraser_IsAskedUntilItSucceeds has the plugin report an erasure to the CMS.
func TestEraser_IsAskedUntilItSucceeds(t *testing.T) {
	t.Parallel()
	testdb.Database(t, func(t *testing.T, database string) {
		t.Parallel()
		c := moduleConfig(t)
		c.DatabaseURL = database
		c.Settings = func() ([]byte, error) {
			return []byte(cheap + "[deletion]\ngrace = \"1s\"\n"), nil
		}
		fields, err := fieldstore.Open(filepath.Join(c.Data, "fields.json"), []byte("[]"))
		if err != nil {
			t.Fatal(err)
		}
		mails, err := mailer.NewCapture(t.TempDir(), &mail.Address{Address: "cms@site.example"})
		if err != nil {
			t.Fatal(err)
		}
		host := &forgetfulHost{Host: &personalhost.Host{Fields: fields, Mail: mails, Log: c.Log}}
		c.Host = host
		service := openModule(t, c).Client()
		const password = "correct horse 7"
		anna, err := service.Register(t.Context(), personal.RegisterRequest{Login: "anna", Email: "anna@mail.example", Password: password,
			ConfirmPassword: password})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := service.Delete(t.Context(), personal.DeleteRequest{Credentials: anna.Credentials, Password: password}); err != nil {
			t.Fatal(err)
		}
		want := []int64{anna.Credentials.UserID, anna.Credentials.UserID}
		eventually(t, "the CMS is asked again after its error", func() bool { return slices.Equal(host.calls(), want) })
	})
}
