package accounts_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personal/personaltest/softkey"
)

// passkeyUser is a user with a passkey.
type passkeyUser struct {
	f      *fixture
	in     personal.Credentials
	device *softkey.Authenticator
	added  personal.Passkey
}

// withPasskeys returns a fixture with passkeys and second factors.
func withPasskeys(t testing.TB, url string, adjust ...func(*accounts.Settings)) *fixture {
	return offering(t, url, append(adjust, passkeys)...)
}

func (f *fixture) passkeyUser(t testing.TB, login string) *passkeyUser {
	t.Helper()
	u := &passkeyUser{f: f, in: f.register(t, login).Credentials}
	u.add(t, context.Background(), "")
	return u
}

// add adds a passkey of a new device.
func (u *passkeyUser) add(t testing.TB, ctx context.Context, code string) {
	t.Helper()
	u.device = &softkey.Authenticator{Origin: personaltest.PasskeyOrigin}
	started, err := u.f.service.AddPasskey(ctx, personal.AddPasskeyRequest{Credentials: u.in, Password: goodPassword, Code: code})
	if err != nil {
		t.Fatalf("beginning to add a passkey: %v", err)
	}
	credential, err := u.device.Create(started.Options)
	if err != nil {
		t.Fatalf("creating a passkey: %v", err)
	}
	u.added, err = u.f.service.ConfirmPasskey(ctx, personal.ConfirmPasskeyRequest{
		Credentials: u.in, Attempt: started.Attempt, Credential: credential, Name: "a passkey",
	})
	if err != nil {
		t.Fatalf("adding a passkey: %v", err)
	}
}

// respond responds to an attempt to prove.
func (u *passkeyUser) respond(t testing.TB) (attempt, credential string) {
	t.Helper()
	started, err := u.f.service.BeginPasskey(context.Background(),
		personal.BeginPasskeyRequest{Credentials: u.in, Purpose: personal.PasskeyProve})
	if err != nil {
		t.Fatalf("beginning to prove: %v", err)
	}
	credential, err = u.device.Get(started.Options)
	if err != nil {
		t.Fatalf("responding: %v", err)
	}
	return started.Attempt, credential
}

// request returns a sign-in with the passkey.
func (u *passkeyUser) request(t testing.TB, code string) personal.AuthorizePasskeyRequest {
	t.Helper()
	started, err := u.f.service.BeginPasskey(context.Background(), personal.BeginPasskeyRequest{Purpose: personal.PasskeySignIn})
	if err != nil {
		t.Fatalf("beginning to sign in: %v", err)
	}
	credential, err := u.device.Get(started.Options)
	if err != nil {
		t.Fatalf("responding: %v", err)
	}
	return personal.AuthorizePasskeyRequest{Attempt: started.Attempt, Credential: credential, Code: code}
}

func (u *passkeyUser) signIn(t testing.TB, ctx context.Context, code string) (personal.SignedIn, error) {
	t.Helper()
	return u.f.service.AuthorizePasskey(ctx, u.request(t, code))
}

func (u *passkeyUser) wantSignIn(t testing.TB, code string, want personal.Code) {
	t.Helper()
	if _, err := u.signIn(t, context.Background(), code); personal.CodeOf(err) != want {
		t.Fatalf("signing in: got %v, want code %q", err, want)
	}
}

func TestPasskey_AttemptsExpire(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := withPasskeys(t, url)
		u := f.passkeyUser(t, "ada")
		for wait, want := range map[time.Duration]personal.Code{5*time.Minute - time.Microsecond: "",
			5 * time.Minute: personal.CodeInvalidCredentials} {
			request := u.request(t, "")
			f.clock.Advance(wait)
			if _, err := f.service.AuthorizePasskey(t.Context(), request); personal.CodeOf(err) != want {
				t.Errorf("a sign-in after %v: got %v, want code %q", wait, err, want)
			}
			started, err := f.service.BeginPasskey(t.Context(), personal.BeginPasskeyRequest{Credentials: u.in, Purpose: personal.PasskeyProve})
			if err != nil {
				t.Fatal(err)
			}
			credential, err := u.device.Get(started.Options)
			if err != nil {
				t.Fatal(err)
			}
			f.clock.Advance(wait)
			_, err = f.service.Prove(t.Context(), personal.ProveRequest{Credentials: u.in, Attempt: started.Attempt, Credential: credential})
			if (err == nil) != (want == "") {
				t.Errorf("a proof after %v: got %v", wait, err)
			}
		}
	})
}

func TestPasskey_TenAttemptsWaitInASession(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := withPasskeys(t, url)
		u := f.passkeyUser(t, "ada")
		var attempts []personal.PasskeyCeremony
		for range 11 {
			started, err := f.service.BeginPasskey(t.Context(), personal.BeginPasskeyRequest{Credentials: u.in, Purpose: personal.PasskeyProve})
			if err != nil {
				t.Fatal(err)
			}
			attempts = append(attempts, started)
			f.clock.Advance(time.Second)
		}
		for i, want := range map[int]personal.Code{0: personal.CodeValidationFailed, 1: "", 10: ""} {
			credential, err := u.device.Get(attempts[i].Options)
			if err != nil {
				t.Fatal(err)
			}
			_, err = f.service.Prove(t.Context(), personal.ProveRequest{Credentials: u.in, Attempt: attempts[i].Attempt, Credential: credential})
			if personal.CodeOf(err) != want {
				t.Errorf("attempt %d of 11: got %v, want code %q", i+1, err, want)
			}
		}
	})
}

// Neither the statements nor the lines in the log tell an unknown passkey from a wrong response.
func TestPasskey_UnknownOneCostsTheSameStatements(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		f, h := guarded(t, url)
		passkeys(&f.settings)
		counter := &statementCounter{}
		var logged bytes.Buffer
		f.service = accounts.New(f.settings, counter.open(t, f, url), h, f.host, slog.New(slog.NewTextHandler(&logged, nil)), f.worker.Wake)
		u := f.passkeyUser(t, "ada")
		removed := f.passkeyUser(t, "eve")
		if err := f.service.RemoveOtherWaysIn(t.Context(), removed.in.UserID); err != nil {
			t.Fatal(err)
		}
		wrong := u.request(t, "")
		other := u.request(t, "")
		wrong.Credential = other.Credential
		var costs [2][]string
		var lines [2]int
		for i, request := range []personal.AuthorizePasskeyRequest{wrong, removed.request(t, "")} {
			counter.take()
			logged.Reset()
			_, err := f.service.AuthorizePasskey(at(t, "203.0.113.9"), request)
			wantCode(t, err, personal.CodeInvalidCredentials)
			costs[i], lines[i] = counter.take(), strings.Count(logged.String(), "\n")
		}
		if diff := cmp.Diff(len(costs[0]), len(costs[1])); diff != "" {
			t.Errorf("statements of a wrong response and of an unknown passkey:\n%s\n\n%s", strings.Join(costs[0], "\n"),
				strings.Join(costs[1], "\n"))
		}
		if lines[0] != lines[1] || lines[0] == 0 {
			t.Errorf("got %d lines in the log of a wrong response and %d of an unknown passkey, want as many", lines[0], lines[1])
		}
		counter.take()
		if _, err := f.service.BeginPasskey(t.Context(), personal.BeginPasskeyRequest{Purpose: personal.PasskeySignIn}); err != nil {
			t.Fatal(err)
		}
		if got := counter.take(); len(got) > 0 {
			t.Errorf("beginning a sign-in made statements:\n%s", strings.Join(got, "\n"))
		}
	})
}

func TestPasskey_FailuresCountForTheAddress(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f, h := guarded(t, url)
		passkeys(&f.settings)
		f.settings.Throttle.GuessAddress.Burst = 3
		f.service = f.serve(f.store, h)
		u := f.passkeyUser(t, "ada")
		for range 5 { // successes are refunded
			if _, err := u.signIn(t, at(t, "203.0.113.9"), ""); err != nil {
				t.Fatal(err)
			}
		}
		request := u.request(t, "")
		request.Credential = u.request(t, "").Credential
		for i, want := range []personal.Code{personal.CodeInvalidCredentials, personal.CodeInvalidCredentials, personal.CodeInvalidCredentials,
			personal.CodeTooManyAttempts} {
			if _, err := f.service.AuthorizePasskey(at(t, "203.0.113.9"), request); personal.CodeOf(err) != want {
				t.Errorf("failure %d: got %v, want %s", i+1, err, want)
			}
		}
		_, err := f.service.AuthorizePasskey(at(t, "203.0.113.9"), personal.AuthorizePasskeyRequest{})
		wantCode(t, err, personal.CodeTooManyAttempts)
		if _, err := u.signIn(t, at(t, "198.51.100.9"), ""); err != nil {
			t.Errorf("from another address: %v", err)
		}
	})
}

func TestPasskey_SignInsCountForTheAccount(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f, h := guarded(t, url)
		passkeys(&f.settings)
		f.settings.Throttle.SignInAccount.Burst = 2
		f.service = f.serve(f.store, h)
		u := f.passkeyUser(t, "ada")
		for i, want := range []personal.Code{"", "", personal.CodeTooManyAttempts} {
			if _, err := u.signIn(t, at(t, fmt.Sprint("203.0.113.", i+1)), ""); personal.CodeOf(err) != want {
				t.Errorf("sign-in %d: got %v, want code %q", i+1, err, want)
			}
		}
	})
}

func TestPasskey_EventsAndNotices(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := withPasskeys(t, url)
		u := f.passkeyUser(t, "ada")
		u.device.Count = 7
		u.wantSignIn(t, "", "")
		u.device.Count = 7
		u.wantSignIn(t, "", "") // which is told, and not refused
		u.wantSignIn(t, "", "")
		if err := f.service.RemovePasskey(t.Context(), personal.RemovePasskeyRequest{Credentials: u.in, ID: u.added.ID,
			Password: goodPassword}); err != nil {
			t.Fatal(err)
		}
		u.add(t, t.Context(), "")
		u.add(t, t.Context(), "")
		admin := personal.WithCall(t.Context(), personal.Call{Administrator: "root"})
		if err := f.service.RemoveOtherWaysIn(admin, u.in.UserID); err != nil {
			t.Fatal(err)
		}
		if err := f.service.RemoveOtherWaysIn(admin, u.in.UserID); err != nil { // there are none
			t.Fatal(err)
		}
		wantCode(t, f.service.RemoveOtherWaysIn(admin, u.in.UserID+99), personal.CodeNotFound)
		want := []personal.EventType{
			personal.EventRegistered, personal.EventPasskeyAdded, personal.EventSignedIn, personal.EventPasskeyCloned, personal.EventSignedIn,
			personal.EventSignedIn, personal.EventPasskeyRemoved, personal.EventPasskeyAdded, personal.EventPasskeyAdded, personal.EventPasskeyRemoved,
		}
		if diff := cmp.Diff(want, f.published(t, u.in.UserID)); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		page, err := f.service.AuditEntries(t.Context(), personal.AuditEntriesRequest{Type: personal.EventPasskeyRemoved})
		if err != nil || len(page.Entries) != 2 || page.Entries[0].Count != 2 || page.Entries[0].Actor != personal.ActorAdministrator ||
			page.Entries[1].Count != 1 {
			t.Errorf("got %+v, error %v; want that an administrator removed 2 and the user 1", page.Entries, err)
		}
		var subjects []string
		for _, m := range f.host.Mails() {
			subjects = append(subjects, m.Subject)
			if strings.Contains(m.Text, "a passkey\n") || strings.Contains(m.Text, "ada") {
				t.Errorf("got the mail %q, want one without what a user has typed", m.Text)
			}
		}
		slices.Sort(subjects)
		if diff := cmp.Diff([]string{
			"A passkey was added", "A passkey was added", "A passkey was added", "A passkey was removed", "A passkey was removed", "There may be a copy of your passkey",
		}, subjects); diff != "" {
			t.Errorf("mails (-want +got):\n%s", diff)
		}
	})
}

// An account keeps its last way in.
func TestPasskey_LastWayInStays(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := withPasskeys(t, url)
		u := f.passkeyUser(t, "ada")
		f.exec(t, "UPDATE personal_accounts SET password_hash = '', email = '', email_key = NULL")
		if err := f.service.RemoveOtherWaysIn(t.Context(), u.in.UserID); personal.CodeOf(err) != personal.CodeLastWayIn {
			t.Errorf("removing the last way in: got %v, want %s", err, personal.CodeLastWayIn)
		}
		in, err := u.signIn(t, t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		remove := personal.RemovePasskeyRequest{Credentials: in.Credentials, ID: u.added.ID, Proof: in.Proof.Proof}
		wantCode(t, f.service.RemovePasskey(t.Context(), remove), personal.CodeLastWayIn)
		u.wantSignIn(t, "", "")
	})
}

func TestPasskey_SwitchedOffThereAreNoOperations(t *testing.T) {
	f := offering(t, testdb.SQLite(t))
	in := f.register(t, "ada").Credentials
	ctx := t.Context()
	_, err := f.service.BeginPasskey(ctx, personal.BeginPasskeyRequest{Purpose: personal.PasskeySignIn})
	wantCode(t, err, personal.CodeNotFound)
	_, err = f.service.AuthorizePasskey(ctx, personal.AuthorizePasskeyRequest{Attempt: "a", Credential: "{}"})
	wantCode(t, err, personal.CodeNotFound)
	_, err = f.service.AddPasskey(ctx, personal.AddPasskeyRequest{Credentials: in, Password: goodPassword})
	wantCode(t, err, personal.CodeNotFound)
	_, err = f.service.ConfirmPasskey(ctx, personal.ConfirmPasskeyRequest{Credentials: in})
	wantCode(t, err, personal.CodeNotFound)
	_, err = f.service.Passkeys(ctx, in)
	wantCode(t, err, personal.CodeNotFound)
	wantCode(t, f.service.RenamePasskey(ctx, personal.RenamePasskeyRequest{Credentials: in}), personal.CodeNotFound)
	wantCode(t, f.service.RemovePasskey(ctx, personal.RemovePasskeyRequest{Credentials: in}), personal.CodeNotFound)
	features, err := f.service.Features(ctx)
	if err != nil || features.Passkeys {
		t.Errorf("got passkeys %t, error %v; want none", features.Passkeys, err)
	}
}
