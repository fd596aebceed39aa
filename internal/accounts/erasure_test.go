package accounts_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
)

// disappearances are the ways in which an account with traces is erased.
var disappearances = map[string]struct {
	live   func(f *fixture, t *testing.T) (id int64) // leaves the traces
	erase  func(f *fixture, t *testing.T, id int64)
	traces []string
}{
	"by an administrator": {
		func(f *fixture, t *testing.T) int64 { return f.leaveTraces(t).UserID },
		(*fixture).delete, slices.Concat(allTraces, userTraces, []string{string(mailtext.NewAddress)}),
	},
	"after a deletion": {(*fixture).deleteWithTraces, (*fixture).eraseLater, allTraces},
	"after a deletion whose mail was sent": {
		func(f *fixture, t *testing.T) int64 {
			defer f.askForAccount(t)
			defer f.drain(t)
			return f.deleteWithTraces(t)
		}, (*fixture).eraseLater, allTraces,
	},
	"without a verified e-mail": {
		func(f *fixture, t *testing.T) int64 {
			f.service.RequireVerification(true)
			if _, err := f.registerTraced(t); err != nil {
				t.Fatal(err)
			}
			f.drain(t) // the mail
			return f.waitWithTraces(t)
		},
		func(f *fixture, t *testing.T, _ int64) {
			f.service.RequireVerification(false)
			f.clock.Advance(f.settings.UnverifiedLifetime)
			f.eraseAndPrune(t)
		}, allTraces,
	},
}

// deleteWithTraces returns the account of a user who has left traces and deleted it, until eraseLater.
func (f *fixture) deleteWithTraces(t *testing.T) int64 {
	c := f.leaveTraces(t)
	if _, err := f.service.Delete(tracedCall(t), personal.DeleteRequest{Credentials: c, Password: goodPassword}); err != nil {
		t.Fatal(err)
	}
	return c.UserID
}

func (f *fixture) eraseLater(t *testing.T, _ int64) {
	f.clock.Advance(f.settings.DeletionGrace)
	f.eraseAndPrune(t)
}

// The texts that appear in what is stored about every user, and about those who have
// signed in.
var (
	allTraces = []string{
		"ada_marker", "ada_address@marker.example", "Ada Namemarker", "mottomarker", "notemarker",
		"203.0.113.77", "requestmarker", "198.51.100.",
	}
	userTraces = []string{"agentmarker", "ada_new@marker.example", "replymarker"}
)

// It fills everything stored about a user with unique texts, and searches every
// column of the database for them.
func TestErasure_LeavesNoTrace(t *testing.T) {
	for name, d := range disappearances {
		t.Run(name, func(t *testing.T) {
			testdb.Databases(t, func(t *testing.T, url string) {
				f, _ := guarded(t, url)
				f.settings.EmailVerification, f.settings.VerificationLifetime = personal.VerificationOptional, time.Hour
				f.service = f.serve(f.store, mustHasher(t, cheap))
				f.worker.Handlers = f.service.Jobs()
				f.host.UserFieldsFunc = func(context.Context) (personal.Schema, error) {
					return personal.Schema{Revision: "1", Fields: []personal.Field{
						{Name: "motto", Type: personal.TypeText}, {Name: "secret_note", Type: personal.TypeText, Hidden: true},
					}}, nil
				}
				pools, err := dbconn.Open(url, dbconn.RequestLimits)
				if err != nil {
					t.Fatal(err)
				}
				defer pools.Close()
				f.register(t, "bob") // stays
				id := d.live(f, t)
				f.ask(t, personal.RecoverRequest{Login: "bob"}, "203.0.113.1")
				before := dump(t, pools)
				if missing := slices.DeleteFunc(slices.Clone(d.traces), func(trace string) bool {
					return len(find(before, trace)) > 0
				}); len(missing) > 0 {
					t.Fatalf("got no trace of %q before the erasure", missing)
				}
				if kinds := before["personal_jobs.kind"]; len(d.traces) > len(allTraces) && !slices.Contains(kinds, "notice") {
					t.Fatalf("got waiting jobs %v, want a notice among them", kinds)
				}
				d.erase(f, t, id)
				after := dump(t, pools)
				for _, trace := range append(slices.Concat(allTraces, userTraces), "another_marker") { // that of a request is encrypted
					if where := find(after, trace); len(where) > 0 {
						t.Errorf("got %q in %v, want it nowhere", trace, where)
					}
				}
				if kinds := after["personal_jobs.kind"]; !slices.Contains(kinds, "recovery") {
					t.Errorf("got jobs %v, want bob's recovery among them", kinds)
				}
				f.drain(t)
				if erased := f.host.Erased(); !slices.Equal(erased, []int64{id}) {
					t.Errorf("the host was notified of the erasures %v, want %d", erased, id)
				}
				for where, rows := range dump(t, pools) {
					table, column, _ := strings.Cut(where, ".")
					if column == "account_id" && slices.Contains(rows, fmt.Sprint(id)) || column == "payload" && len(rows) > 0 {
						t.Errorf("got the user's id or a job in %s, want none", table)
					}
				}
				wantNotInFiles(t, url, slices.Concat(allTraces, userTraces))
				if types := dump(t, pools)["personal_audit.type"]; !slices.Contains(types, "user_deleted") ||
					!slices.Contains(types, "sign_in_failed") {
					t.Errorf("got audit entries %v, want user_deleted and sign_in_failed among them", types)
				}
			})
		})
	}
}

// eraseAndPrune does what an active plugin does every minute.
func (f *fixture) eraseAndPrune(t *testing.T) {
	t.Helper()
	f.eraseDue(t)
	if err := f.store.Prune(t.Context(), store.PruneOptions{}); err != nil {
		t.Fatal(err)
	}
}

// tracedCall is the context of the user's calls.
func tracedCall(t *testing.T) context.Context {
	return personal.WithCall(t.Context(), personal.Call{
		RequestID: "requestmarker", Address: netip.MustParseAddr("203.0.113.77"), Agent: "agentmarker", Locale: "en",
	})
}

func (f *fixture) registerTraced(t *testing.T) (personal.SignedIn, error) {
	return f.service.Register(tracedCall(t), personal.RegisterRequest{
		Login: "ada_marker", Password: goodPassword, ConfirmPassword: goodPassword, Email: "ada_address@marker.example",
		Fields: map[string]personal.Input{"name": personal.Text("Ada Namemarker"), "motto": personal.Text("mottomarker")},
	})
}

// leaveTraces makes a user who does everything that is stored.
func (f *fixture) leaveTraces(t *testing.T) personal.Credentials {
	t.Helper()
	call := tracedCall(t)
	in, err := f.registerTraced(t)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []func() error{
		func() error { return f.setNote(call, in.Credentials.UserID) },
		func() error { return f.service.Recover(call, personal.RecoverRequest{Login: "ada_marker"}) },
		func() error { f.drain(t); return nil }, // mails, their tokens, sent events
		func() error { // what the relay said
			f.clock.Advance(time.Minute)
			f.host.SendMailFunc = func(context.Context, personal.Mail) error { return personal.NewMailRefusedError("550 replymarker") }
			return f.service.Recover(call, personal.RecoverRequest{Login: "ada_marker"})
		},
		func() error { f.drain(t); f.host.SendMailFunc = nil; return nil },
		func() error {
			_, err := f.service.Authorize(call, personal.AuthorizeRequest{Login: "ada_marker", Password: goodPassword})
			return err
		},
		func() error { // leaves a notice
			_, err := f.service.Authorize(from(t, "198.51.100.99", "en"), personal.AuthorizeRequest{Login: "ada_marker", Password: goodPassword})
			return err
		},
		func() error {
			return f.service.ChangeEmail(call, personal.ChangeEmailRequest{Credentials: in.Credentials, Password: goodPassword,
				Email: "ada_new@marker.example"})
		},
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	f.askForAccount(t)
	_, err = f.service.Authorize(call, personal.AuthorizeRequest{Login: "ada_address@marker.example", Password: otherPassword})
	wantCode(t, err, personal.CodeInvalidCredentials)
	return in.Credentials
}

// waitWithTraces does what is stored about a user who has not verified their e-mail.
func (f *fixture) waitWithTraces(t *testing.T) (id int64) {
	t.Helper()
	page, err := f.service.FindUsers(t.Context(), personal.FindUsersRequest{Search: "ada_marker"})
	if err != nil || len(page.Users) != 1 {
		t.Fatalf("got %d users, error %v, want 1", len(page.Users), err)
	}
	id = page.Users[0].ID
	call := tracedCall(t)
	if err := f.setNote(call, id); err != nil {
		t.Fatal(err)
	}
	f.askForAccount(t)
	err = f.service.ResendVerification(at(t, "198.51.100.7"), personal.ResendVerificationRequest{Login: "ada_marker",
		Email: "ada_address@marker.example"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.service.Authorize(call, personal.AuthorizeRequest{Login: "ada_marker", Password: otherPassword})
	wantCode(t, err, personal.CodeInvalidCredentials)
	return id
}

func (f *fixture) setNote(ctx context.Context, id int64) error {
	return f.service.UpdateUser(ctx, personal.UpdateUserRequest{UserID: id,
		Fields: map[string]personal.Input{"secret_note": personal.Text("notemarker")}})
}

// askForAccount requests recoveries of the account in every way. They wait, because
// their account is not looked up yet.
func (f *fixture) askForAccount(t *testing.T) {
	t.Helper()
	for i, r := range []personal.RecoverRequest{
		{Login: "Ada_Marker"}, {Login: "ADA_address@marker.example"}, {Email: "ada_address@marker.example"},
		{Login: "ada_marker", Email: "another_marker@marker.example"},
	} {
		f.ask(t, r, fmt.Sprint("198.51.100.", i))
	}
}

// ask requests a recovery, which waits.
func (f *fixture) ask(t *testing.T, r personal.RecoverRequest, address string) {
	t.Helper()
	if err := f.service.Recover(at(t, address), r); err != nil {
		t.Fatal(err)
	}
}

// find returns the columns of a dump that contain a text.
func find(all map[string][]string, text string) (where []string) {
	for column, rows := range all {
		if slices.ContainsFunc(rows, func(row string) bool { return strings.Contains(strings.ToLower(row), strings.ToLower(text)) }) {
			where = append(where, column)
		}
	}
	return where
}

// wantNotInFiles searches the files of SQLite, which could still hold deleted rows,
// while the database is open.
func wantNotInFiles(t *testing.T, url string, texts []string) {
	t.Helper()
	path, isFile := strings.CutPrefix(url, "sqlite://")
	if !isFile {
		return
	}
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range texts {
			if n := bytes.Count(data, []byte(text)); n > 0 {
				t.Errorf("got %q %d times in %s, want it nowhere", text, n, filepath.Base(name))
			}
		}
	}
}

// dump returns the values of every column of every table.
func dump(t *testing.T, pools dbconn.Pools) map[string][]string {
	t.Helper()
	tables := "SELECT name FROM sqlite_master WHERE type = 'table'"
	if pools.Kind == dbconn.PostgreSQL {
		tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
	}
	all := map[string][]string{}
	for _, name := range slices.Concat(slices.Collect(maps.Values(columns(t, pools.Read, tables)))...) {
		for column, rows := range columns(t, pools.Read, "SELECT * FROM "+name) {
			all[name+"."+column] = rows
		}
	}
	return all
}

// columns returns the result of a query as texts by column.
func columns(t *testing.T, db *sql.DB, query string) map[string][]string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	for rows.Next() {
		cells, dest := make([]any, len(names)), make([]any, len(names))
		for i := range cells {
			dest[i] = &cells[i]
		}
		if err := rows.Scan(dest...); err != nil {
			t.Fatal(err)
		}
		for i, cell := range cells {
			text := fmt.Sprint(cell)
			if raw, ok := cell.([]byte); ok {
				text = string(raw)
			}
			found[names[i]] = append(found[names[i]], text)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return found
}

// The account is deleted while a password for it is verified.
func TestDeleteUser_IsTheLastEventOfAUser(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f, _, h := spied(t, url, cheap)
		id := f.register(t, "ada").Credentials.UserID
		h.while = func() { f.delete(t, id) }
		if code := f.try(t, "203.0.113.77", "ada", otherPassword); code != personal.CodeInvalidCredentials {
			t.Fatalf("got code %q, want invalid_credentials", code)
		}
		f.drain(t)
		var sent []personal.EventType
		for _, e := range f.host.Events() {
			sent = append(sent, e.Type)
		}
		if want := []personal.EventType{personal.EventRegistered, personal.EventUserDeleted}; !slices.Equal(sent, want) {
			t.Errorf("got events %v, want %v", sent, want)
		}
		pools, err := dbconn.Open(url, dbconn.RequestLimits)
		if err != nil {
			t.Fatal(err)
		}
		defer pools.Close()
		if where := find(dump(t, pools), "203.0.113.77"); len(where) > 0 {
			t.Errorf("got the caller's address in %v, want it nowhere", where)
		}
	})
}
