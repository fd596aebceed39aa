package accounts_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
)

func (f *fixture) disable(t *testing.T, id int64) {
	t.Helper()
	if err := f.service.DisableUser(t.Context(), id); err != nil {
		t.Fatalf("disabling: %v", err)
	}
}

func (f *fixture) delete(t *testing.T, id int64) {
	t.Helper()
	if err := f.service.DeleteUser(t.Context(), id); err != nil {
		t.Fatalf("deleting: %v", err)
	}
}

// losses are the ways in which a user can lose their account.
var losses = map[string]func(f *fixture, t *testing.T, id int64){
	"disabled": (*fixture).disable,
	"deleted":  (*fixture).delete,
	"disabled and enabled again": func(f *fixture, t *testing.T, id int64) {
		f.disable(t, id)
		if err := f.service.EnableUser(t.Context(), id); err != nil {
			t.Fatalf("enabling: %v", err)
		}
	},
}

// wantNoJobs checks that no job waits to be retried.
func (f *fixture) wantNoJobs(t *testing.T) {
	t.Helper()
	f.clock.Advance(time.Hour)
	jobs, err := f.store.ClaimJobs(t.Context(), outbox.Claim{Kinds: f.kinds(), N: 100, Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		t.Errorf("got a job of kind %s after %d attempts, want none", j.Kind, j.Attempts-1)
	}
}

func TestMail_OfALostAccountIsDropped(t *testing.T) {
	for name, lose := range losses {
		t.Run(name, func(t *testing.T) {
			testdb.Database(t, func(t *testing.T, url string) {
				f := newFixture(t, url)
				in := f.register(t, "ada")
				if name != "disabled and enabled again" { // there a recovery is sent
					if err := f.service.Recover(t.Context(), personal.RecoverRequest{Login: "ada"}); err != nil {
						t.Fatal(err)
					}
				}
				change := personal.ChangeEmailRequest{Credentials: in.Credentials, Password: goodPassword, Email: "new@example.com"}
				if err := f.service.ChangeEmail(t.Context(), change); err != nil {
					t.Fatal(err)
				}
				lose(f, t, in.Credentials.UserID)
				f.drain(t)
				if mails := f.host.Mails(); len(mails) > 0 {
					t.Errorf("got %d mails, want none", len(mails))
				}
				f.wantNoJobs(t)
			})
		})
	}
}

func TestMail_AccountLostDuringRecoverySendsNothing(t *testing.T) {
	for _, name := range []string{"disabled", "deleted"} {
		t.Run(name, func(t *testing.T) {
			f, s, _ := spied(t, testdb.SQLite(t), cheap)
			id := f.register(t, "ada").Credentials.UserID
			f.worker.Handlers = f.service.Jobs() // which use the spy
			s.found = func() { losses[name](f, t, id) }
			f.recoverNow(t, personal.RecoverRequest{Login: "ada"})
			if s.found != nil {
				t.Fatal("the account was not searched for")
			}
			if mails := f.host.Mails(); len(mails) > 0 {
				t.Errorf("got %d mails, want none", len(mails))
			}
			f.wantNoJobs(t)
		})
	}
}

// A call in progress while its user loses the account fails like any later call,
// and writes nothing.
func TestSession_AccountLostDuringACallIsUnauthenticated(t *testing.T) {
	ctx := context.Background()
	calls := map[string]func(f *fixture, c personal.Credentials) error{
		"refresh": func(f *fixture, c personal.Credentials) error {
			_, err := f.service.Refresh(ctx, c)
			return err
		},
		"password": func(f *fixture, c personal.Credentials) error {
			_, err := f.service.ChangePassword(ctx, personal.ChangePasswordRequest{
				Credentials: c, OldPassword: goodPassword, Password: otherPassword, ConfirmPassword: otherPassword,
			})
			return err
		},
	}
	for name, lose := range losses {
		for operation, call := range calls {
			t.Run(operation+", account "+name, func(t *testing.T) {
				f, s, _ := spied(t, testdb.SQLite(t), cheap)
				c := f.register(t, "ada").Credentials
				s.looked = func() { lose(f, t, c.UserID) }
				wantCode(t, call(f, c), personal.CodeUnauthenticated)
				wantCode(t, call(f, c), personal.CodeUnauthenticated)
				if _, err := f.signIn("ada", otherPassword); err == nil {
					t.Error("got a sign-in with the new password, want an error")
				}
			})
		}
	}
}

func TestDeleteUser_ConcurrentCallsWriteNothing(t *testing.T) {
	ctx := context.Background()
	name := map[string]personal.Input{"name": personal.Text("Ada")}
	for operation, test := range map[string]struct {
		call func(f *fixture, c personal.Credentials) error
		want personal.Code
	}{
		"profile": {func(f *fixture, c personal.Credentials) error {
			_, err := f.service.UpdateProfile(ctx, personal.UpdateProfileRequest{Credentials: c, Fields: name})
			return err
		}, personal.CodeUnauthenticated},
		"email": {func(f *fixture, c personal.Credentials) error {
			return f.service.ChangeEmail(ctx, personal.ChangeEmailRequest{Credentials: c, Password: goodPassword, Email: "new@example.com"})
		}, personal.CodeUnauthenticated},
		"logout": {func(f *fixture, c personal.Credentials) error {
			return f.service.Logout(ctx, personal.LogoutRequest{Credentials: c, All: true})
		}, ""},
	} {
		t.Run(operation, func(t *testing.T) {
			f, s, _ := spied(t, testdb.SQLite(t), cheap)
			c := f.register(t, "ada").Credentials
			s.looked = func() { f.delete(t, c.UserID) }
			wantCode(t, test.call(f, c), test.want)
			f.drain(t)
			f.wantNoJobs(t)
		})
	}
}

func TestSignIn_AccountLostWhileHashingFails(t *testing.T) {
	for name, lose := range losses {
		t.Run(name, func(t *testing.T) {
			f, _, h := spied(t, testdb.SQLite(t), cheap)
			id := f.register(t, "ada").Credentials.UserID
			h.while = func() { lose(f, t, id) }
			_, err := f.signIn("ada", goodPassword)
			wantCode(t, err, personal.CodeInvalidCredentials)
		})
	}
}

func TestAdministration_EachChangeSendsOneEvent(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		id := f.register(t, "ada").Credentials.UserID
		f.drain(t)
		before := len(f.host.Events())
		ctx := personal.WithCall(t.Context(), personal.Call{RequestID: "r", Address: netip.MustParseAddr("192.0.2.7"), Administrator: "Olga"})
		change := personal.UpdateUserRequest{UserID: id, Fields: map[string]personal.Input{"name": personal.Text("Ada")}}
		another := personal.SetEmailRequest{UserID: id, Email: "another@example.com"}
		var want []personal.Event
		for _, step := range []struct {
			run  func() error
			want personal.EventType // "" for none

			fields []string
		}{
			{func() error { return f.service.UpdateUser(ctx, personal.UpdateUserRequest{UserID: id}) }, "", nil},
			{func() error { return f.service.UpdateUser(ctx, change) }, personal.EventUserUpdated, []string{"name"}},
			{func() error { return f.service.UpdateUser(ctx, change) }, personal.EventUserUpdated, nil}, // the same name
			{func() error { return f.service.SetEmail(ctx, another) }, personal.EventEmailChanged, nil},
			{func() error { return f.service.SetEmail(ctx, another) }, "", nil},
			{func() error { return f.service.EnableUser(ctx, id) }, "", nil},
			{func() error { return f.service.DisableUser(ctx, id) }, personal.EventUserDisabled, nil},
			{func() error { return f.service.DisableUser(ctx, id) }, "", nil},
			{func() error { return f.service.EnableUser(ctx, id) }, personal.EventUserEnabled, nil},
			{func() error { return f.service.DeleteUser(ctx, id) }, personal.EventUserDeleted, nil},
		} {
			if err := step.run(); err != nil {
				t.Fatal(err)
			}
			f.drain(t) // an event sent after the deletion would have no address
			if step.want != "" {
				want = append(want, personal.Event{Type: step.want, Time: f.clock.Now(), UserID: id, Address: "192.0.2.7", RequestID: "r",
					Actor: personal.ActorAdministrator, ActorName: "Olga", Fields: step.fields})
			}
		}
		if diff := cmp.Diff(want, f.host.Events()[before:], cmpopts.IgnoreFields(personal.Event{}, "ID")); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}
