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

	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/shared/personal"
)

// It fills everything stored about a user with unique texts, and searches every
// column of the database for them.
func TestDeleteUser_LeavesNoTrace(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
		f, _ := guarded(t, url)
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
		id := f.leaveTraces(t)
		f.ask(t, personal.RecoverRequest{Login: "bob"}, "203.0.113.1")
		traces := []string{
			"ada_marker", "ada_address@marker.example", "ada_new@marker.example", "Ada Namemarker",
			"mottomarker", "notemarker", "203.0.113.77", "agentmarker", "requestmarker", "another_marker", "198.51.100.",
		}
		if missing := slices.DeleteFunc(slices.Clone(traces), func(trace string) bool { return len(find(t, pools, trace)) > 0 }); len(missing) > 0 {
			t.Fatalf("got no trace of %q before the deletion", missing)
		}
		if kinds := dump(t, pools)["personal_jobs.kind"]; !slices.Contains(kinds, "notice") {
			t.Fatalf("got waiting jobs %v, want a notice among them", kinds)
		}
		if err := f.service.DeleteUser(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		for _, trace := range traces {
			if where := find(t, pools, trace); len(where) > 0 {
				t.Errorf("got %q in %v, want it nowhere", trace, where)
			}
		}
		if kinds := dump(t, pools)["personal_jobs.kind"]; !slices.Contains(kinds, "recovery") {
			t.Errorf("got jobs %v, want bob's recovery among them", kinds)
		}
		f.drain(t)
		for where, rows := range dump(t, pools) {
			if table, column, _ := strings.Cut(where, "."); column == "account_id" && slices.Contains(rows, fmt.Sprint(id)) {
				t.Errorf("got the user's id in %s, want it nowhere", table)
			}
		}
		wantNotInFiles(t, url, traces)
		if types := dump(t, pools)["personal_audit.type"]; !slices.Contains(types, "user_deleted") || !slices.Contains(types, "sign_in_failed") {
			t.Errorf("got audit entries %v, want user_deleted and sign_in_failed among them", types)
		}
	})
}

// leaveTraces makes a user who does everything that is stored.
func (f *fixture) leaveTraces(t *testing.T) (id int64) {
	t.Helper()
	call := personal.WithCall(t.Context(), personal.Call{
		RequestID: "requestmarker", Address: netip.MustParseAddr("203.0.113.77"), Agent: "agentmarker", Locale: "en",
	})
	in, err := f.service.Register(call, personal.RegisterRequest{
		Login: "ada_marker", Password: goodPassword, ConfirmPassword: goodPassword, Email: "ada_address@marker.example",
		Fields: map[string]personal.Input{"name": personal.Text("Ada Namemarker"), "motto": personal.Text("mottomarker")},
	})
	if err != nil {
		t.Fatal(err)
	}
	id = in.Credentials.UserID
	for _, step := range []func() error{
		func() error {
			return f.service.UpdateUser(call, personal.UpdateUserRequest{UserID: id, Fields: map[string]personal.Input{"secret_note": personal.Text("notemarker")}})
		},
		func() error { return f.service.Recover(call, personal.RecoverRequest{Login: "ada_marker"}) },
		func() error { f.drain(t); return nil }, // a mail, its token, sent events
		func() error {
			_, err := f.service.Authorize(call, personal.AuthorizeRequest{Login: "ada_marker", Password: goodPassword})
			return err
		},
		func() error { // leaves a notice
			_, err := f.service.Authorize(from(t, "198.51.100.99", "en"), personal.AuthorizeRequest{Login: "ada_marker", Password: goodPassword})
			return err
		},
		func() error {
			return f.service.ChangeEmail(call, personal.ChangeEmailRequest{Credentials: in.Credentials, Password: goodPassword, Email: "ada_new@marker.example"})
		},
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	for i, r := range []personal.RecoverRequest{
		{Login: "Ada_Marker"}, {Login: "ADA_address@marker.example"}, {Email: "ada_address@marker.example"},
		{Login: "ada_marker", Email: "another_marker@marker.example"},
	} {
		f.ask(t, r, fmt.Sprint("198.51.100.", i)) // waits: its account is not known yet
	}
	_, err = f.service.Authorize(call, personal.AuthorizeRequest{Login: "ada_address@marker.example", Password: otherPassword})
	wantCode(t, err, personal.CodeInvalidCredentials)
	return id
}

// ask requests a recovery, which waits.
func (f *fixture) ask(t *testing.T, r personal.RecoverRequest, address string) {
	t.Helper()
	if err := f.service.Recover(at(t, address), r); err != nil {
		t.Fatal(err)
	}
}

// find returns the columns that contain a text.
func find(t *testing.T, pools dbconn.Pools, text string) (where []string) {
	t.Helper()
	for column, rows := range dump(t, pools) {
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
	testkit.Databases(t, func(t *testing.T, url string) {
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
		if where := find(t, pools, "203.0.113.77"); len(where) > 0 {
			t.Errorf("got the caller's address in %v, want it nowhere", where)
		}
	})
}
