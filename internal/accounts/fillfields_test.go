package accounts_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

var cityAndAge = []personal.Field{
	{Name: "city", Type: personal.TypeText, Required: true, Default: personal.Text("Riga")},
	{Name: "age", Type: personal.TypeInteger, Max: new(100.0)},
}

// setFields makes the host's schema these fields, in the given revision.
func (f *fixture) setFields(revision string, fields []personal.Field) {
	f.host.UserFieldsFunc = func(context.Context) (personal.Schema, error) {
		return personal.Schema{Revision: revision, Fields: fields}, nil
	}
}

// store stores the values of a user as another schema has taken them.
func (f *fixture) storeFields(t *testing.T, id int64, values userfields.Values) {
	t.Helper()
	if _, err := f.store.UpdateProfile(t.Context(), id, func(a *accounts.Account) []accounts.NewJob { a.Fields = values; return nil }); err != nil {
		t.Fatal(err)
	}
}

func TestProfile_NamesMissingFields(t *testing.T) {
	f := newFixture(t, testdb.SQLite(t))
	c := f.register(t, "ada").Credentials
	f.storeFields(t, c.UserID, userfields.Values{"age": int64(200)})
	f.setFields("2", cityAndAge)
	if got, want := f.profile(t, c).Missing, []string{"city", "age"}; !cmp.Equal(got, want) {
		t.Errorf("profile: got missing %q, want %q", got, want)
	}
	in, err := f.service.Authorize(t.Context(), personal.AuthorizeRequest{Login: "ada", Password: goodPassword})
	if want := []string{"city", "age"}; err != nil || !cmp.Equal(in.Profile.Missing, want) {
		t.Errorf("sign-in: got missing %q, %v; want %q", in.Profile.Missing, err, want)
	}
	// A partial update is taken.
	p, err := f.service.UpdateProfile(t.Context(), personal.UpdateProfileRequest{
		Credentials: c, Fields: map[string]personal.Input{"age": personal.Text("40")},
	})
	if want := []string{"city"}; err != nil || !cmp.Equal(p.Missing, want) {
		t.Errorf("update: got missing %q, %v; want %q", p.Missing, err, want)
	}
	if in := f.register(t, "eve"); in.Profile.Missing != nil {
		t.Errorf("registration: got missing %q, want none", in.Profile.Missing)
	}
}

func TestPreviewFields_CountsViolations(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		var ids []int64
		for i, values := range []userfields.Values{
			{"city": "Omsk"}, {}, {"age": int64(200)}, {"city": "Omsk", "age": "forty"}, {"age": 40.0}, {}, {},
		} {
			id := f.register(t, fmt.Sprintf("user%d", i)).Credentials.UserID
			f.storeFields(t, id, values)
			ids = append(ids, id)
		}
		unset := personal.FieldErrors{"city": personal.FieldErrorRequired}
		want := personal.FieldsPreview{
			Accounts: 7, Violations: 6, Fillable: 4, Complete: true,
			Examples: []personal.FieldsViolation{
				{UserID: ids[1], Login: "user1", Fields: unset},
				{UserID: ids[2], Login: "user2", Fields: personal.FieldErrors{"city": personal.FieldErrorRequired, "age": personal.FieldErrorOutOfRange}},
				{UserID: ids[3], Login: "user3", Fields: personal.FieldErrors{"age": personal.FieldErrorInvalidType}},
				{UserID: ids[4], Login: "user4", Fields: unset},
				{UserID: ids[5], Login: "user5", Fields: unset},
			},
		}
		got, err := f.service.PreviewFields(t.Context(), cityAndAge)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("got error %v (-want +got):\n%s", err, diff)
		}
		got, err = f.service.PreviewFields(t.Context(), nil)
		if want := (personal.FieldsPreview{Accounts: 7, Complete: true}); err != nil || !cmp.Equal(got, want) {
			t.Errorf("no fields: got %+v, %v; want %+v", got, err, want)
		}
		_, err = f.service.PreviewFields(t.Context(), []personal.Field{{Name: "Bad name", Type: personal.TypeText}})
		wantFields(t, err, personal.FieldErrors{"fields": personal.FieldErrorInvalidFormat})
	})
}

// A field that becomes read-only keeps what is stored, whatever it was before.
func TestPreviewFields_CountsValuesThatReadOnlyFieldsKeep(t *testing.T) {
	f := newFixture(t, testdb.SQLite(t))
	for i, values := range []userfields.Values{{"role": "editor", "level": int64(3)}, {"role": ""}, {"role": nil}, {}} {
		f.storeFields(t, f.register(t, fmt.Sprintf("user%d", i)).Credentials.UserID, values)
	}
	role, level := personal.Field{Name: "role", Type: personal.TypeText}, personal.Field{Name: "level", Type: personal.TypeInteger, Hidden: true}
	readOnly := []personal.Field{role, {Name: "level", Type: personal.TypeInteger, ReadOnly: true}}
	readOnly[0].ReadOnly = true
	both := map[string]int64{"role": 2, "level": 1}
	for i, tt := range []struct {
		before, after []personal.Field
		want          map[string]int64
	}{
		{[]personal.Field{role, level}, readOnly, both},
		{nil, readOnly, both}, // they were removed once
		{readOnly[:1], readOnly, map[string]int64{"level": 1}},
		{readOnly, readOnly, nil},
		{readOnly, []personal.Field{role, level}, nil},
	} {
		f.setFields(fmt.Sprint("schema ", i), tt.before)
		got, err := f.service.PreviewFields(t.Context(), tt.after)
		if diff := cmp.Diff(tt.want, got.Kept); err != nil || diff != "" {
			t.Errorf("%+v after %+v: got %v (-want +got):\n%s", tt.after, tt.before, err, diff)
		}
	}
}

// hangingStore is a store whose reads of user fields hang after the first page.
type hangingStore struct{ accounts.Store }

func (hangingStore) AccountFields(ctx context.Context, after int64, n int) ([]accounts.AccountFields, error) {
	if after > 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	page := make([]accounts.AccountFields, n)
	for i := range page {
		page[i] = accounts.AccountFields{ID: after + int64(i) + 1, Fields: []byte("{}")}
	}
	return page, nil
}

func TestPreviewFields_DamagedAccountsCountAsViolations(t *testing.T) {
	f := newFixture(t, testdb.SQLite(t))
	for _, login := range []string{"ada", "bob"} {
		f.register(t, login)
	}
	f.exec(t, "UPDATE personal_accounts SET fields = '[' WHERE login = 'ada'")
	got, err := f.service.PreviewFields(t.Context(), nil)
	if err != nil || got.Accounts != 2 || got.Violations != 1 || !got.Complete {
		t.Errorf("got %+v, error %v, want one violation of two accounts", got, err)
	}
}

func TestPreviewFields_ReturnsInTimeWhenTheDatabaseHangs(t *testing.T) {
	f := newFixture(t, testdb.SQLite(t))
	service := f.serve(hangingStore{f.store}, nil)
	var r personal.FieldsPreview
	var err error
	for limit := 300 * time.Millisecond; r.Accounts == 0 && err == nil && limit < time.Minute; limit *= 2 { // a slow machine needs more
		accounts.LimitPreview(service, limit)
		r, err = service.PreviewFields(t.Context(), cityAndAge)
	}
	if err != nil || r.Complete || r.Accounts == 0 || r.Violations != r.Accounts {
		t.Errorf("got %+v, %v; want some accounts, all of them violations, not complete", r, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := service.PreviewFields(ended, cityAndAge); err == nil {
		t.Error("cancelled: got no error, want one")
	}
}

// fillAll runs the filling job until it is finished.
func (f *fixture) fillAll(t *testing.T) {
	t.Helper()
	handle := f.service.Jobs()[accounts.KindFill]
	for {
		jobs, err := f.store.ClaimJobs(t.Context(), outbox.Claim{Kinds: []outbox.Kind{accounts.KindFill}, N: 1, Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if len(jobs) == 0 {
			return
		}
		err = handle(t.Context(), jobs[0])
		switch {
		case errors.Is(err, outbox.ErrAgain):
			err = f.store.RetryJob(t.Context(), jobs[0], f.clock.Now())
		case err == nil:
			err = f.store.FinishJobs(t.Context(), jobs[0])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (f *fixture) lastFill(t *testing.T) personal.FieldsFill {
	t.Helper()
	got, err := f.service.FieldsFill(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestFillFields_FillsUnsetRequiredFields(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		if got := f.lastFill(t); got != (personal.FieldsFill{}) {
			t.Errorf("before: got %+v, want the zero value", got)
		}
		stored := []userfields.Values{{"city": "Omsk"}, {}, {"city": int64(7)}, {"age": int64(200), "gone": "kept"}}
		var ids []int64
		for i, values := range stored {
			id := f.register(t, fmt.Sprintf("user%d", i)).Credentials.UserID
			f.storeFields(t, id, values)
			ids = append(ids, id)
		}
		before := f.account(t, ids[1])
		f.setFields("2", cityAndAge)
		wantFields(t, f.service.FillFields(t.Context(), "1"), personal.FieldErrors{"revision": personal.FieldErrorMismatch})
		if err := f.service.FillFields(t.Context(), "2"); err != nil {
			t.Fatal(err)
		}
		if got, want := f.lastFill(t), (personal.FieldsFill{
			Revision: "2", State: personal.FillRunning, Total: 4, Started: f.clock.Now(),
		}); got != want {
			t.Errorf("started: got %+v, want %+v", got, want)
		}
		f.clock.Advance(time.Second)
		f.fillAll(t)
		want := personal.FieldsFill{
			Revision: "2", State: personal.FillDone, Checked: 4, Total: 4, Filled: 2, Started: f.clock.Now().Add(-time.Second), Ended: f.clock.Now(),
		}
		if got := f.lastFill(t); got != want {
			t.Errorf("done: got %+v, want %+v", got, want)
		}
		for i, want := range []userfields.Values{
			{"city": "Omsk"}, {"city": "Riga"}, {"city": int64(7)}, {"city": "Riga", "age": int64(200), "gone": "kept"},
		} {
			if got := f.account(t, ids[i]).Fields; !cmp.Equal(got, want) {
				t.Errorf("account %d: got %v, want %v", i, got, want)
			}
		}
		if after := f.account(t, ids[1]); after.Updated != before.Updated || after.CredentialVersion != before.CredentialVersion {
			t.Errorf("got updated %v, credential version %d; want %v, %d", after.Updated, after.CredentialVersion, before.Updated,
				before.CredentialVersion)
		}
		page, err := f.service.AuditEntries(t.Context(), personal.AuditEntriesRequest{Type: personal.EventFieldsFilled})
		if err != nil || len(page.Entries) != 1 || page.Entries[0].UserID != 0 || page.Entries[0].Actor != personal.ActorAdministrator {
			t.Errorf("got audit entries %+v, %v; want one of user 0 by the administrator", page.Entries, err)
		}
	})
}

func TestFillFields_IsSuperseded(t *testing.T) {
	f := newFixture(t, testdb.SQLite(t))
	id := f.register(t, "ada").Credentials.UserID
	f.setFields("2", cityAndAge)
	if err := f.service.FillFields(t.Context(), "2"); err != nil {
		t.Fatal(err)
	}
	f.setFields("3", nil)
	f.fillAll(t)
	if got := f.lastFill(t); got.State != personal.FillSuperseded || got.Checked != 0 || got.Ended.IsZero() {
		t.Errorf("another revision: got %+v, want it superseded", got)
	}
	if got := f.account(t, id).Fields; len(got) != 0 {
		t.Errorf("got values %v, want none", got)
	}
	// A new run replaces one that is not done, and its job.
	f.setFields("4", cityAndAge)
	for range 2 {
		if err := f.service.FillFields(t.Context(), "4"); err != nil {
			t.Fatal(err)
		}
	}
	jobs, err := f.store.ClaimJobs(t.Context(), outbox.Claim{Kinds: []outbox.Kind{accounts.KindFill}, N: 10})
	if err != nil || len(jobs) != 1 {
		t.Fatalf("got %d jobs, %v; want 1", len(jobs), err)
	}
	first := f.clock.Now()
	if left, err := f.store.FillBatch(t.Context(), first, 10, nil); left || err != nil {
		t.Errorf("batch of the run that was replaced: got left %t, %v; want false", left, err)
	}
	f.fillAll(t)
	if got := f.lastFill(t); got.State != personal.FillDone || got.Filled != 1 || !got.Started.After(first) {
		t.Errorf("got %+v, want it done, and started after %v", got, first)
	}
}
