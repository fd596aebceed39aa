package accounts_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/plugins/rpc/rpctest"
)

func (f *fixture) export(ctx context.Context, c personal.Credentials, password string) (personal.Export, error) {
	return f.service.Export(ctx, personal.ExportRequest{Credentials: c, Password: password})
}

func mustExport(t *testing.T, f *fixture, c personal.Credentials) personal.Export {
	t.Helper()
	e, err := f.export(at(t, "203.0.113.1"), c, goodPassword)
	if err != nil {
		t.Fatalf("exporting: %v", err)
	}
	return e
}

// No worker runs, so all mails wait.
func TestExport_ListsWaitingMailsAndNothingOfOthers(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		in, other := f.register(t, "ada").Credentials, f.register(t, "bob").Credentials
		for _, c := range []personal.Credentials{in, other} {
			f.clock.Advance(time.Minute)
			r := personal.ChangeEmailRequest{Credentials: c, Password: goodPassword, Email: fmt.Sprintf("new%d@example.com", c.UserID)}
			if err := f.service.ChangeEmail(at(t, "203.0.113.1"), r); err != nil {
				t.Fatalf("requesting an e-mail change: %v", err)
			}
		}
		ctx := personal.WithCall(t.Context(), personal.Call{Administrator: "Olga", RequestID: "r1"})
		if err := f.service.UpdateUser(ctx, personal.UpdateUserRequest{UserID: in.UserID,
			Fields: map[string]personal.Input{"name": personal.Text("Ada")}}); err != nil {
			t.Fatalf("updating: %v", err)
		}
		notice := accounts.NewJob{Kind: "notice", AccountID: in.UserID, Payload: []byte(`{"kind":"password_changed"}`)}
		if err := f.store.Enqueue(t.Context(), notice); err != nil {
			t.Fatal(err)
		}
		e := mustExport(t, f, in)
		want := []personal.PendingMail{{Kind: "password_changed", Created: f.clock.Now()},
			{Kind: "email_change", Created: f.clock.Now().Add(-time.Minute)}}
		if diff := cmp.Diff(want, e.PendingMails); diff != "" {
			t.Errorf("waiting mails (-want +got):\n%s", diff)
		}
		if e.Events[0].Type != personal.EventUserUpdated || e.Events[0].Actor != personal.ActorAdministrator {
			t.Errorf("got %+v, want the administrator's change first", e.Events[0])
		}
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{"Olga", "r1", "bob", "new", in.UserHash, in.UserHash[:20], "argon2"} {
			if strings.Contains(string(text), secret) {
				t.Errorf("got %q in %s", secret, text)
			}
		}
	})
}

func TestExport_ThreeADayByAccount(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f, h := guarded(t, url)
		in, other := f.register(t, "ada").Credentials, f.register(t, "bob").Credentials
		for range 5 { // they use up no export
			_, err := f.export(at(t, "203.0.113.1"), in, otherPassword)
			wantCode(t, err, personal.CodeValidationFailed)
		}
		for range 3 {
			mustExport(t, f, in)
		}
		verified := h.verified
		for _, password := range []string{goodPassword, otherPassword, ""} {
			for range 15 { // more than the limit of guesses
				_, err := f.export(at(t, "203.0.113.1"), in, password)
				var refused *personal.Error
				if !errors.As(err, &refused) || refused.Code != personal.CodeTooManyAttempts || refused.RetryAfter != 8*time.Hour {
					t.Fatalf("password %q: got %v, want too_many_attempts for 8h", password, err)
				}
			}
		}
		if h.verified != verified {
			t.Errorf("got %d passwords verified for refused exports, want none", h.verified-verified)
		}
		mustExport(t, f, other)
		f.clock.Advance(8 * time.Hour)
		mustExport(t, f, in)
		_, err := f.export(at(t, "203.0.113.1"), in, goodPassword)
		wantCode(t, err, personal.CodeTooManyAttempts)
	})
}

// unreadable is a store that fails to read one part of an export.
type unreadable struct {
	accounts.Store
	err error
}

func (s unreadable) KnownAddresses(context.Context, int64) ([]personal.KnownAddress, error) {
	return nil, s.err
}

func TestExport_FailureUsesUpNoneAndLeavesNoEntry(t *testing.T) {
	f, _ := guarded(t, testdb.SQLite(t))
	in := f.register(t, "ada").Credentials
	working := f.service
	f.service = f.serve(unreadable{f.store, accounts.ErrUnavailable}, mustHasher(t, cheap))
	for range 4 {
		_, err := f.export(at(t, "203.0.113.1"), in, goodPassword)
		wantCode(t, err, personal.CodeUnavailable)
	}
	f.service = working
	for range 3 {
		mustExport(t, f, in)
	}
	entries, err := f.store.AuditEntries(t.Context(), personal.AuditEntriesRequest{UserID: in.UserID, Type: personal.EventExported, Limit: 9})
	if err != nil || len(entries) != 3 {
		t.Errorf("got %d audit entries, %v, want 3", len(entries), err)
	}
}

// The export passes gRPC, as between host and plugin, and the HTTP handler.
func TestExport_LargestOneIsTruncatedAndFitsEveryTransport(t *testing.T) {
	t.Parallel()
	url := testdb.SQLite(t)
	f := newFixture(t, url)
	in := f.register(t, "ada").Credentials
	const entries = 40_000
	pools, err := dbconn.Open(url, dbconn.RequestLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer pools.Close()
	_, err = pools.Write.ExecContext(t.Context(), fmt.Sprintf(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		INSERT INTO personal_audit (event_id, type, time, account_id, address, request_id, actor)
		SELECT 'e', 'signed_in', 1000000 * CAST(i AS BIGINT), %d, '192.0.2.1', 'r', 'user' FROM n`, entries, in.UserID))
	if err != nil {
		t.Fatal(err)
	}
	remote := rpctest.NewService(t, func(personal.Host) personal.Service { return f.service }, f.host)
	h, err := personalhttp.New(remote, personalhttp.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	request := httptest.NewRequest(http.MethodPost, "/api/v1/personal/export/", strings.NewReader(`{"password":"`+goodPassword+`"}`))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Id", strconv.FormatInt(in.UserID, 10))
	request.Header.Set("User-Hash", in.UserHash)
	response := httptest.NewRecorder()
	h.ServeHTTP(response, request)
	var body struct {
		Data struct {
			Export json.RawMessage
		}
	}
	if err := json.Unmarshal(response.Body.Bytes(), &body); err != nil || response.Code != http.StatusOK {
		t.Fatalf("got %d, %v, %.300s", response.Code, err, response.Body.String())
	}
	if size := len(body.Data.Export); size > personal.MaxExport || size < personal.MaxExport-4096 {
		t.Errorf("got %d bytes, want at most %d and hardly fewer", size, personal.MaxExport)
	}
	var export struct {
		Sessions  []json.RawMessage
		Truncated bool
		Events    []struct{ Time time.Time }
	}
	if err := json.Unmarshal(body.Data.Export, &export); err != nil {
		t.Fatal(err)
	}
	newest := func(a, b struct{ Time time.Time }) int { return b.Time.Compare(a.Time) }
	if !export.Truncated || len(export.Sessions) != 1 || export.Events[0].Time.Unix() != entries ||
		!slices.IsSortedFunc(export.Events, newest) {
		t.Errorf("got truncated %t, %d sessions and %d events from %v on, want the newest events, and no session left out",
			export.Truncated, len(export.Sessions), len(export.Events), export.Events[0].Time)
	}
}
